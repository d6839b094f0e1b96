//! What rank 0 does about ranks that die, fall silent or hang, and about the tasks that they had.

use std::ops::Range;

use super::desk::{Desk, Kept};
use super::machine::{Given, Heir, Hung, InHand, Piece, Standing};
use super::order::Run;
use super::outcome::{Answer, FailedTask};
use super::sheet::Failure;
use super::watch::Loss;
use crate::comm::message::{Message, Tag};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::Event;
use crate::wire::{self, Item};

/// A death of which these tasks are suspected.
#[derive(Debug)]
pub(super) struct Death {
    tasks: Range<u64>,
    rank: usize,
    why: String,
}

/// Tasks as people call them.
fn words(tasks: Range<u64>) -> String {
    match tasks.end - tasks.start {
        1 => format!("task {}", tasks.start),
        _ => format!("one of the tasks {} to {}", tasks.start, tasks.end - 1),
    }
}

impl<'scope, 'w: 'scope, 'f: 'scope, I: Item, O: Item> Desk<'_, 'scope, '_, 'w, 'f, I, O> {
    /// A worker has been in one task for longer than the user allows: it is not used any more.
    pub(super) fn hung(
        &mut self,
        message: &Message,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        let Hung { task } = wire::from_bytes(&message.body)?;
        let worker = message.from;
        if !matches!(self.master.crew().standing(worker), Standing::Working | Standing::Parked) {
            return Ok(());
        }
        let limit = self.options.task_limit.unwrap_or_default();
        let why = format!("it has been in task {task} for longer than the limit of {limit:?}");
        let chunks = self.let_go(worker, Standing::Hung);
        let tasks: u64 = chunks.iter().map(|g| u64::from(g.count)).sum();
        log::warn!("farm {}: {tasks} tasks of rank {worker} go to others: {why}", self.name);
        self.tell(|| Event::Lost { rank: worker, tasks, why });
        for given in chunks {
            let hangs = given.first..given.first + u64::from(given.count);
            if !hangs.contains(&task) {
                self.put_back_whole(&given)?;
                continue;
            }
            let place = (task - given.first) as u32;
            let mut before = self.unpack(&given)?;
            let after = before.split_off(place as usize + 1);
            before.truncate(place as usize);
            let (attempt, avoid, suspicion) = (given.attempt, None, given.suspicion);
            for (first, tasks) in [(given.first, before), (task + 1, after)] {
                self.chunker.give_back(tasks.len() as u64);
                self.master.put_back(Piece { first, tasks, attempt, avoid, suspicion });
            }
            let message = format!("took longer than the limit of {limit:?}");
            self.retry_or_fail(&given, worker, &[Failure { place, panicked: false, message }], sink)?;
        }
        self.restaff()?;
        self.somebody_is_left()
    }

    /// A worker is dead, or may be: its tasks go to others.
    pub(super) fn lose(&mut self, loss: &Loss) -> Result<()> {
        let (rank, leads) = (loss.rank, self.groups.contains_key(&loss.rank));
        // A sub-master does no tasks. Which one its members are in does not matter to it.
        let in_hand = self.watch.in_hand(self.tracks.get(&rank), rank, loss.died && loss.certain && !leads);
        self.lose_with(loss, Vec::new(), in_hand)
    }

    /// The same of a rank that also had these `chunks`, from somebody else than this rank.
    pub(super) fn lose_with(
        &mut self,
        loss: &Loss,
        mut chunks: Vec<Given<Kept>>,
        in_hand: InHand,
    ) -> Result<()> {
        let standing = if loss.certain { Standing::Dead } else { Standing::Silent };
        chunks.extend(self.let_go(loss.rank, standing));
        self.inherit(loss, &chunks, in_hand)?;
        if loss.certain {
            self.endpoint.lose(loss.rank, &loss.why);
            self.adopt(loss.rank)?;
        }
        self.restaff()?;
        if self.options.fail_fast
            && let Some(piece) = self.master.take_hopeless()
        {
            return Err(self.death_of(&piece).1);
        }
        self.somebody_is_left()
    }

    /// Tasks that a lost rank had go to others, each with what the loss says about it.
    pub(super) fn inherit(&mut self, loss: &Loss, chunks: &[Given<Kept>], in_hand: InHand) -> Result<()> {
        let Loss { rank, certain, died, ref why } = *loss;
        let mut told = Vec::new();
        // Whoever has fallen silent may be dead all the same: rank 0 comes last.
        let avoid = (!certain || !died).then_some(0);
        let (heirs, explained) = self.master.judge(chunks, in_hand);
        for Heir { chunk, places, blamed, attempt, suspicion } in heirs {
            let given = &chunks[chunk];
            let (from, to) = (given.first + u64::from(places.start), given.first + u64::from(places.end));
            if !certain {
                self.doubtful.push(from..to);
            }
            if blamed {
                told.push(words(from..to));
                self.deaths.push(Death { tasks: from..to, rank, why: why.clone() });
                self.keep_suspicion(from..to, attempt, suspicion)?;
            }
            let mut tasks = self.unpack(given)?;
            tasks.truncate(places.end as usize);
            tasks.drain(..places.start as usize);
            self.chunker.give_back(tasks.len() as u64);
            self.master.put_back(Piece { first: from, tasks, attempt, avoid, suspicion });
        }
        self.master.acquit(&explained);
        let tasks: u64 = chunks.iter().map(|g| u64::from(g.count)).sum();
        let over = match told.is_empty() {
            true => String::new(),
            false => format!("; it was in {}", told.join(" or ")),
        };
        log::warn!("farm {}: {tasks} tasks of rank {rank} go to others: {why}{over}", self.name);
        let why = format!("{why}{over}");
        self.tell(|| Event::Lost { rank, tasks, why });
        Ok(())
    }

    /// Tasks that ranks have died of and that nobody may try any more have failed.
    pub(super) fn give_up(
        &mut self,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        while !self.stopped
            && let Some(piece) = self.master.take_hopeless()
        {
            for task in piece.first..piece.first + piece.tasks.len() as u64 {
                let (failed, error) = self.death_of(&Piece { first: task, tasks: Vec::new(), ..piece });
                if self.options.fail_fast {
                    return Err(error);
                }
                self.died_of.push(task);
                self.master.ended(1, 1);
                self.feed(task, (Run::Failed(failed), 0), sink)?;
            }
        }
        Ok(())
    }

    /// What is said of the first of some tasks that ranks have died over and nobody may try any more: to the sink, or where
    /// it ends the job.
    fn death_of(&self, piece: &Piece<I>) -> (FailedTask, Error) {
        let Piece { first: task, attempt, suspicion, .. } = *piece;
        let last = self.deaths.iter().rev().find(|death| death.tasks.contains(&task));
        let certain = suspicion.certain > 0;
        let place = if certain { "it" } else { "it, or in another task of the same chunk" };
        let mut message = match last {
            Some(Death { rank, why, .. }) => format!("the process of rank {rank} died in {place} ({why})"),
            // The journal does not tell which.
            None => format!("a process died in {place} (in an earlier run of the job)"),
        };
        let exhausted = certain && self.master.is_exhausted(attempt);
        if !exhausted {
            message += ", and no rank is left to risk with it";
        }
        // With other ranks it may succeed, unless it has had all its attempts.
        let kind = if exhausted { ErrorKind::User } else { ErrorKind::Timeout };
        let error = Error::new(kind, &message).on_item(task).in_farm(&self.name).at_rank(0);
        let (rank, attempts) = (last.map_or(0, |death| death.rank), attempt + suspicion.shared.min(1));
        (FailedTask { task, rank, attempts, panicked: false, message }, error)
    }

    /// Something has come from a rank. One that was silent takes part again, or another in its place.
    pub(super) fn hear_again(&mut self, rank: usize) -> Result<()> {
        if self.master.crew().standing(rank) != Standing::Silent {
            return Ok(());
        }
        log::info!("farm {}: rank {rank} is heard again", self.name);
        self.tell(|| Event::Heard { rank });
        self.master.crew_mut().set(rank, Standing::Working);
        if !self.groups.contains_key(&rank) {
            self.chunker.join(rank);
        }
        if !self.ending {
            // It may have been parked before.
            self.endpoint.send(rank, Tag::Park, &false)?;
        }
        self.restaff()
    }

    fn let_go(&mut self, rank: usize, standing: Standing) -> Vec<Given<Kept>> {
        let chunks = self.master.lose(rank, standing);
        self.are_back(&chunks);
        self.chunker.leave(rank);
        self.tracks.remove(&rank);
        if standing != Standing::Silent {
            self.lost.push(rank);
        }
        chunks
    }

    /// Nobody has these chunks any more.
    pub(super) fn are_back(&mut self, chunks: &[Given<Kept>]) {
        chunks.iter().for_each(|given| self.budget.returned(given.kept.load.len()));
    }

    pub(super) fn put_back_whole(&mut self, given: &Given<Kept>) -> Result<()> {
        let tasks = self.unpack(given)?;
        self.chunker.give_back(given.count.into());
        let Given { first, attempt, suspicion, .. } = *given;
        self.master.put_back(Piece { first, tasks, attempt, avoid: None, suspicion });
        Ok(())
    }

    /// # Errors
    /// If every rank that computes is lost.
    fn somebody_is_left(&self) -> Result<()> {
        let crew = self.master.crew();
        let can = |r: usize| {
            matches!(
                crew.standing(r),
                Standing::Working | Standing::Parked | Standing::Away | Standing::Silent
            )
        };
        if self.ending || (usize::from(!self.computes)..self.endpoint.size()).any(can) {
            return Ok(());
        }
        let text = format!(
            "no rank is left that could do tasks: ranks {:?} are lost; {}",
            self.lost,
            self.master.describe()
        );
        // A fault of the machine: a job that is started again may have better luck.
        Err(Error::new(ErrorKind::Timeout, text).in_farm(&self.name).at_rank(0))
    }
}
