//! From one mapping to the next while the stream goes on.

use std::collections::BTreeMap;

use super::broker::Broker;
use super::inbox::Inbox;
use super::job::{Job, Note};
use super::parcel::Parcel;
use super::table::{Route, Table};
use super::turns::Turns;
use super::{Machine, Token};
use crate::comm::message::Tag;
use crate::error::{Error, ErrorKind, Result};

/// Serial stages that are neither here nor away.
#[derive(Debug, Default)]
pub(super) struct Moving {
    /// Given up here, and not yet saved.
    leaving: Vec<usize>,
    /// By stage: the batch that the next owner takes first, while the stage is being saved.
    saving: BTreeMap<usize, u64>,
    /// Came here, with its state, and not yet restored.
    coming: Vec<(usize, Vec<u8>)>,
    /// By stage: the batch that it takes first here, while it is being restored.
    restoring: BTreeMap<usize, u64>,
}

impl Moving {
    /// The next stage to save or restore.
    pub(super) fn next_job(&mut self) -> Option<Job> {
        if let Some(stage) = self.leaving.pop() {
            return Some(Job::Release { stage });
        }
        self.coming.pop().map(|(stage, state)| Job::Restore { stage, state })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.saving.is_empty() && self.restoring.is_empty()
    }

    /// How many stages are between two ranks, as seen from here.
    pub(super) fn len(&self) -> usize {
        self.saving.len() + self.restoring.len()
    }
}

impl Machine {
    /// Goes over to the mapping of `table`. What waits here goes where that says; what is being computed follows it
    /// when it is done; serial stages that have another owner now are handed to it.
    pub(crate) fn switch(&mut self, table: Table) -> Result<()> {
        if table.epoch != self.epoch() + 1 {
            let text = format!("mapping {} was to follow mapping {}", table.epoch, self.epoch());
            return Err(Error::new(ErrorKind::Wire, text));
        }
        self.note_queues();
        if table.epoch == 1 {
            self.turns = Turns::first(&table, self.me);
        } else if !self.moving.is_empty() {
            self.traffic.overtaken += 1;
        }
        let waiting: Vec<Parcel> = self.clear();
        if let Some(source) = &mut self.source {
            source.forget_early();
        }
        self.table = table;
        let (me, edges) = (self.me, self.table.last_edge() + 1);
        let receives = |edge: usize| self.table.receivers(edge).contains(&me).then(Inbox::default);
        let keeps_book = |edge| (self.table.route(edge) == Route::Pull { broker: me }).then(Broker::default);
        self.inboxes = (0..edges).map(receives).collect();
        self.brokers = (0..edges).map(keeps_book).collect();
        self.shelves = (0..edges).map(|_| BTreeMap::new()).collect();
        self.leave();
        for parcel in waiting {
            self.forward(parcel)?;
        }
        (0..edges).try_for_each(|edge| self.ask(edge))?;
        for message in std::mem::take(&mut self.early) {
            self.on_message(message)?;
        }
        Ok(())
    }

    /// All batches that wait here, oldest first.
    fn clear(&mut self) -> Vec<Parcel> {
        let mut waiting: Vec<Parcel> = self.inboxes.iter_mut().flatten().flat_map(Inbox::clear).collect();
        waiting.extend(std::mem::take(&mut self.shelves).into_iter().flat_map(BTreeMap::into_values));
        waiting.sort_unstable_by_key(|parcel| parcel.number);
        waiting
    }

    /// A batch that came, or waited here, under an older mapping goes where the present one says.
    pub(super) fn forward(&mut self, parcel: Parcel) -> Result<()> {
        if parcel.stage > self.table.stage_count() {
            let text = format!("batch {} is for stage {}, which does not exist", parcel.number, parcel.stage);
            return Err(Error::new(ErrorKind::Wire, text));
        }
        let edge = self.table.edge_of(parcel.stage);
        if !self.table.receivers(edge).contains(&self.me) {
            self.traffic.forwarded += 1;
            let epoch = self.epoch();
            match self.notes.last_mut() {
                Some(Note::Forwarded { epoch: last, batches }) if *last == epoch => *batches += 1,
                _ => self.notes.push(Note::Forwarded { epoch, batches: 1 }),
            }
        }
        self.send_on(parcel)
    }

    /// Gives up the serial stages that belong elsewhere now. Their last batches have been handed to the compute side,
    /// which saves them behind these.
    fn leave(&mut self) {
        for stage in self.turns.to_leave(&self.table, self.me) {
            if let Some(next) = self.turns.give_up(stage) {
                self.moving.leaving.push(stage);
                self.moving.saving.insert(stage, next);
            }
        }
    }

    /// A stage has been saved here: it goes to its owner, who may have changed since.
    pub(super) fn released(&mut self, stage: usize, state: Vec<u8>) -> Result<()> {
        let Some(next) = self.moving.saving.remove(&stage) else {
            return Err(Error::new(ErrorKind::Wire, format!("stage {stage} was saved, but not asked for")));
        };
        let token = Token { epoch: self.epoch(), stage: stage as u32, next, state };
        self.pass_on(token)
    }

    fn pass_on(&mut self, token: Token) -> Result<()> {
        let stage = token.stage as usize;
        let owner = self.table.owner(stage);
        if owner != self.me {
            self.traffic.handed_over += 1;
            let bytes = token.state.len();
            self.notes.push(Note::HandOver { stage, to: owner, next: token.next, bytes });
            return self.mail(owner, Tag::Token, &token);
        }
        self.moving.restoring.insert(stage, token.next);
        self.moving.coming.push((stage, token.state));
        Ok(())
    }

    /// A serial stage comes here, perhaps on its way to somebody else.
    pub(super) fn on_token(&mut self, from: usize, token: Token) -> Result<()> {
        let stage = token.stage as usize;
        let held = self.turns.owns(stage)
            || self.moving.saving.contains_key(&stage)
            || self.moving.restoring.contains_key(&stage);
        if held || !self.turns.is_serial(stage) {
            let text = format!("rank {from} hands over stage {stage}, which it cannot have had");
            return Err(Error::new(ErrorKind::Wire, text));
        }
        self.notes.push(Note::TakeOver { stage, from, next: token.next });
        self.pass_on(Token { epoch: self.epoch(), ..token })
    }

    /// A stage that came here is ready; if it belongs elsewhere by now, it moves on.
    pub(super) fn restored(&mut self, stage: usize) {
        if let Some(next) = self.moving.restoring.remove(&stage) {
            self.turns.receive(stage, next);
            self.leave();
        }
    }
}
