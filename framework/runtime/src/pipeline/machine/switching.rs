//! Switch from one mapping to the next while the stream continues.

use std::collections::BTreeMap;

use super::batch::Batch;
use super::dispatcher::Dispatcher;
use super::input_queue::InputQueue;
use super::resequencer::Resequencer;
use super::table::{Route, Table};
use super::{Job, Machine, SetUp};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::Event;
use crate::pipeline::messages::{Ready, StreamMessage, Token};
use crate::rank::protocol::{Moment, Outgoing};

impl Machine {
    /// Starts the set-up of the stages that `table` assigns to this rank, while the stream continues. The sizes of items are measured on `weigh` batches
    /// of every edge. If `stamps` is true, batches are stamped with the time of sending from now on.
    pub(crate) fn prepare(&mut self, table: Table, weigh: usize, stamps: bool) {
        if weigh > 0 {
            self.request(Job::Measure { batches: weigh });
        }
        self.request(Job::SetUp { hosted: table.hosted(self.me) });
        self.stamps = stamps;
        self.prepared = Some(table);
    }

    /// Handles the result of the set-up for the prepared mapping. Returns the report for rank 0.
    pub(crate) fn ready(&mut self, SetUp { movable, warm_up }: SetUp) -> Ready {
        self.answered();
        Ready { epoch: self.prepared.as_ref().map_or(0, |table| table.epoch), movable, warm_up }
    }

    /// Switches to the prepared mapping of `epoch`. Batches that wait on this rank are sent where the table routes them, batches in progress follow it when
    /// they are finished, and serial stages with a new owner migrate to it.
    pub(crate) fn switch(&mut self, epoch: u32, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(table) = self.prepared.take().filter(|table| table.epoch == epoch) else {
            let text = format!("was ordered to use mapping {epoch}, which it has not prepared");
            return Err(Error::new(ErrorKind::Wire, text));
        };
        if table.epoch != self.epoch() + 1 {
            let text = format!("mapping {} was to follow mapping {}", table.epoch, self.epoch());
            return Err(Error::new(ErrorKind::Wire, text));
        }
        self.note_queues();
        if table.epoch == 1 {
            let first = self.expansions.first_numbers(table.stage_count());
            self.resequencer = Resequencer::new(&table, self.me, first);
        } else if !self.migration.is_empty() {
            self.traffic.overtaken += 1;
        }
        let waiting: Vec<Batch> = self.clear();
        if let Some(source) = &mut self.source {
            source.window.forget_out_of_order();
        }
        self.table = table;
        let (me, edges) = (self.me, self.table.last_edge() + 1);
        let receives = |edge: usize| self.table.receivers(edge).contains(&me).then(InputQueue::default);
        let dispatches =
            |edge| (self.table.route(edge) == Route::Pull { dispatcher: me }).then(Dispatcher::default);
        self.inputs = (0..edges).map(receives).collect();
        self.dispatchers = (0..edges).map(dispatches).collect();
        self.output_buffers = (0..edges).map(|_| BTreeMap::new()).collect();
        self.leave();
        for batch in waiting {
            self.forward(batch, at, out)?;
        }
        (0..edges).try_for_each(|edge| self.ask(edge, at, out))?;
        for (from, message) in std::mem::take(&mut self.of_later_mapping) {
            self.on_message(from, message, at, out)?;
        }
        // The size of the window has changed with the mapping.
        self.grant(out)
    }

    /// Removes and returns all batches that wait on this rank, oldest first.
    fn clear(&mut self) -> Vec<Batch> {
        let mut waiting: Vec<Batch> = self.inputs.iter_mut().flatten().flat_map(InputQueue::clear).collect();
        waiting.extend(std::mem::take(&mut self.output_buffers).into_iter().flat_map(BTreeMap::into_values));
        waiting.sort_unstable_by(|a, b| a.number.cmp(&b.number));
        waiting
    }

    /// Routes a batch that arrived or waited on this rank under an earlier mapping to its receiver under the current mapping.
    pub(super) fn forward(&mut self, batch: Batch, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if batch.stage > self.table.stage_count() {
            let text = format!("batch {} is for stage {}, which does not exist", batch.number, batch.stage);
            return Err(Error::new(ErrorKind::Wire, text));
        }
        let edge = self.table.edge_of(batch.stage);
        if !self.table.receivers(edge).contains(&self.me) {
            self.traffic.forwarded += 1;
            let epoch = self.epoch();
            match self.events.last_mut() {
                Some(Event::Forwarded { epoch: last, batches }) if *last == epoch => *batches += 1,
                _ => self.events.push(Event::Forwarded { epoch, batches: 1 }),
            }
        }
        self.send_on(batch, at, out)
    }

    /// Gives up the serial stages that belong to other ranks under the current mapping. The compute side already has the last batches of the stages,
    /// and saves each stage after its last batch.
    ///
    /// An expanding stage that has not finished its batch stays until it has.
    pub(super) fn leave(&mut self) {
        for stage in self.resequencer.to_leave(&self.table, self.me) {
            if !self.expansions.is_busy(stage)
                && let Some(next) = self.resequencer.give_up(stage)
            {
                self.migration.leaving.push(stage);
                self.migration.saving.insert(stage, next);
            }
        }
    }

    /// Handles the saved state of a stage: sends it to the owner of the stage, which may have changed since.
    pub(super) fn released(&mut self, stage: usize, state: Vec<u8>, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(next) = self.migration.saving.remove(&stage) else {
            return Err(Error::new(ErrorKind::Wire, format!("stage {stage} was saved, but not asked for")));
        };
        let token = Token { epoch: self.epoch(), stage: stage as u32, next, state };
        self.pass_on(token, out)
    }

    fn name(&self, stage: usize) -> String {
        self.names.get(stage).cloned().unwrap_or_default()
    }

    fn pass_on(&mut self, token: Token, out: &mut Outgoing<'_>) -> Result<()> {
        let stage = token.stage as usize;
        let owner = self.table.owner(stage);
        if owner != self.me {
            self.traffic.handed_over += 1;
            let (stage, next_batch, bytes) = (self.name(stage), token.next.batch, token.state.len() as u64);
            self.events.push(Event::HandOver { stage, to: owner, next_batch, bytes });
            return out.send(owner, StreamMessage::Token(token));
        }
        self.migration.restoring.insert(stage, token.next);
        self.migration.coming.push((stage, token.state));
        Ok(())
    }

    /// Handles the arrival of a serial stage, which may be on its way to another rank.
    pub(super) fn on_token(&mut self, from: usize, token: Token, out: &mut Outgoing<'_>) -> Result<()> {
        let stage = token.stage as usize;
        let held = self.resequencer.owns(stage)
            || self.migration.saving.contains_key(&stage)
            || self.migration.restoring.contains_key(&stage);
        if held || !self.resequencer.is_serial(stage) {
            let text = format!("rank {from} hands over stage {stage}, which it cannot have had");
            return Err(Error::new(ErrorKind::Wire, text));
        }
        self.events.push(Event::TakeOver { stage: self.name(stage), from, next_batch: token.next.batch });
        self.pass_on(Token { epoch: self.epoch(), ..token }, out)
    }

    /// Registers that a stage has been restored. If it belongs to another rank by now, it migrates again.
    pub(super) fn restored(&mut self, stage: usize) {
        if let Some(next) = self.migration.restoring.remove(&stage) {
            self.resequencer.receive(stage, next);
            self.leave();
        }
    }
}
