//! How rank 0 gives tasks away: to workers that ask, and to itself.

use armature_planner::farm::{Chunking, Supply as Left};

use super::desk::{Desk, Kept};
use super::machine::{Giving, Piece, Standing};
use super::parcel::{self, Load};
use super::supply::Supply;
use super::workbench::{Task, caught};
use crate::error::{Error, Result};
use crate::monitor::Event;
use crate::transport::Message;
use crate::wire::Item;

impl<'scope, 'w: 'scope, 'f: 'scope, I: Item, O: Item> Desk<'_, 'scope, '_, 'w, 'f, I, O> {
    /// Brings what the policies are told up to date.
    pub(super) fn know(&mut self, left: Option<u64>) {
        self.knowledge.now = self.clock.now().as_secs_f64();
        // Sub-masters send to their members at the same time.
        self.knowledge.messages = self.pace.messages(self.groups.len());
        self.knowledge.latency = self.pace.latency();
        self.knowledge.task_bytes = self.pace.task_bytes();
        self.knowledge.result_bytes = self.pace.result_bytes();
        self.knowledge.ahead = self.ahead(left);
    }

    /// Tasks that a chunk should have at most. A policy that was asked for is followed to the letter.
    fn enough(&self) -> u64 {
        if self.options.chunking == Chunking::Auto { self.pace.enough() } else { u64::MAX }
    }

    fn ahead(&self, left: Option<u64>) -> u32 {
        self.options.ahead.unwrap_or_else(|| self.pace.ahead(left, self.sharers()))
    }

    /// Workers among whom the tasks are shared, those included that have not come to the farm yet: they shall find their share.
    fn sharers(&self) -> usize {
        self.master.crew().hands().max(self.chunker.workers().len())
    }

    /// Gives chunks to all workers that ask. Those that have something to do get one at a time: others may have asked
    /// meanwhile that have nothing. Returns whether any was given.
    pub(super) fn serve<T: Iterator<Item = I>>(&mut self, supply: &mut Supply<T>) -> Result<bool> {
        let mut moved = false;
        loop {
            let waiting = self.master.waiting();
            if waiting == 0 && supply.has_ended() {
                return Ok(moved);
            }
            let left = supply.left();
            let left = left.1.then_some(left.0 + waiting);
            let ahead = self.ahead(left);
            if self.master.crew().neediest(if moved { 0 } else { ahead }).is_none() {
                return Ok(moved);
            }
            self.know(left);
            let most = self.enough();
            // The neediest one takes what there is, except for tasks that it has failed in.
            let (mut gave, mut asked) = (false, 0);
            loop {
                let Some(worker) = self.master.crew().askers(ahead).nth(asked) else { break };
                asked += 1;
                gave = if self.groups.contains_key(&worker) {
                    self.serve_group(supply, worker, (ahead, most))?
                } else {
                    self.serve_one(supply, worker, most)?
                };
                if gave || self.master.waiting() == 0 {
                    break;
                }
            }
            if !gave {
                return Ok(moved);
            }
            moved = true;
        }
    }

    /// Gives a chunk to `worker`, if there is one for it.
    fn serve_one<T: Iterator<Item = I>>(
        &mut self,
        supply: &mut Supply<T>,
        worker: usize,
        most: u64,
    ) -> Result<bool> {
        let Some(piece) = self.next_piece(supply, worker, worker, most)? else { return Ok(false) };
        let begin = self.clock.now();
        let (giving, message, load) = self.pack(worker, piece)?;
        let bytes = load.len();
        self.pace.gave(giving.count.into(), bytes);
        self.note(worker, worker, giving, load);
        self.post.send_ready(worker, message)?;
        let took = self.clock.now().saturating_sub(begin);
        self.pace.sent(took);
        self.staff.sent(bytes, took);
        Ok(true)
    }

    /// Whether a worker asks for a chunk, and there may be one.
    pub(super) fn somebody_asks<T: Iterator<Item = I>>(&self, supply: &Supply<T>) -> bool {
        let left = supply.left();
        let left = left.1.then_some(left.0 + self.master.waiting());
        self.master.crew().neediest(self.ahead(left)).is_some()
    }

    /// Does a chunk on rank 0 if it has nothing else to do. Returns whether one was begun.
    pub(super) fn compute<T: Iterator<Item = I>>(&mut self, supply: &mut Supply<T>) -> Result<bool> {
        let mut moved = false;
        while self.master.crew().standing(0) == Standing::Working
            && self.engine.has_room()
            && !self.engine.wants_pause()
            && (self.master.waiting() > 0 || !supply.has_ended())
        {
            let left = supply.left();
            let left = left.1.then_some(left.0 + self.master.waiting());
            if self.master.crew().held(0) > 0 && !self.pace.spares_another(left, self.sharers()) {
                break;
            }
            self.know(left);
            let grain = if self.engine.is_inline() { self.pace.own_grain() } else { u64::MAX };
            let most = grain.min(self.enough());
            let Some(piece) = self.next_piece(supply, 0, 0, most)? else { break };
            self.pace.kept(piece.tasks.len() as u64);
            let (giving, _, load) = self.pack(0, piece)?;
            self.note(0, 0, giving, load.clone());
            self.engine.submit(Task::Chunk { giving, load, away: false })?;
            moved = true;
            if self.engine.is_inline() {
                break;
            }
        }
        Ok(moved)
    }

    /// Puts a choice of chunks into the log of events, if there is a new one.
    fn tell_choice(&mut self) {
        let Some(choice) = self.chunker.take_choice().filter(|_| self.events.is_on()) else { return };
        // What is in force may be chosen again.
        if choice.candidate == choice.before && self.told_choice {
            return;
        }
        self.told_choice = true;
        self.tell(|| Event::Chunks {
            by: choice.candidate.to_string(),
            before: choice.before.to_string(),
            left: choice.left,
            workers: choice.workers,
            mean_s: choice.mean,
            deviation_s: choice.deviation,
            block: choice.block,
            message_s: choice.message,
            predicted_s: choice.predicted,
            before_s: choice.predicted_before,
            compared: choice.compared,
        });
    }

    /// The tasks of the next chunk for `worker`, as many as suit the worker `sized_for`, at most `most`: some that came
    /// back, or new ones.
    pub(super) fn next_piece<T: Iterator<Item = I>>(
        &mut self,
        supply: &mut Supply<T>,
        worker: usize,
        sized_for: usize,
        most: u64,
    ) -> Result<Option<Piece<I>>> {
        self.tell_choice();
        let flying = supply.drawn() - self.order.fed();
        let window = self.pace.window(self.window_bytes);
        let room = if flying == 0 { window.max(1) } else { window.saturating_sub(flying) };
        let most = most.min(u32::MAX.into());
        if self.master.waiting() > 0 {
            let size = self.chunker.next_up_to(sized_for, most, &self.knowledge).unwrap_or(1);
            if let Some(piece) = self.master.take_back(worker, size) {
                self.chunker.give_back(size - piece.tasks.len() as u64);
                return Ok(Some(piece));
            }
            self.chunker.give_back(size);
        }
        if room == 0 || supply.has_ended() {
            return Ok(None);
        }
        let first = supply.drawn();
        // Up to the next task whose result is known; that one is skipped before more are drawn.
        let known =
            self.store.as_ref().and_then(|s| s.next_known(first)).map_or(u64::MAX, |known| known - first);
        if known == 0 {
            return Ok(None);
        }
        let most = most.min(room).min(known);
        let size = self.chunker.next_up_to(sized_for, most, &self.knowledge).unwrap_or(1);
        let tasks = supply.draw(size).map_err(|e| e.in_farm(&self.name))?;
        let drawn = tasks.len() as u64;
        if drawn < size {
            self.chunker.give_back(size - drawn);
        }
        if supply.has_ended() {
            self.chunker.set_supply(Left::Exactly(self.master.waiting()), &self.knowledge);
        }
        Ok((drawn > 0).then_some(Piece { first, tasks, attempt: 0, avoid: None }))
    }

    /// A chunk as a message, and what is kept of it.
    pub(super) fn pack(&mut self, worker: usize, piece: Piece<I>) -> Result<(Giving, Message, Load)> {
        let Piece { first, tasks, attempt, .. } = piece;
        let end = first + tasks.len() as u64;
        let careful = self.doubtful.iter().any(|tasks| first < tasks.end && tasks.start < end);
        let giving = Giving { id: self.master.next_id(), first, count: tasks.len() as u32, attempt, careful };
        let packed = caught(|| parcel::give(self.run, giving, &self.codecs.tasks, tasks));
        let (message, load) = packed.map_err(|e| {
            let text = format!("{} (in a chunk of {} for rank {worker})", e.message(), giving.count);
            Error::new(e.kind(), text).on_item(first).in_farm(&self.name).at_rank(0)
        })?;
        Ok((giving, message, load))
    }

    /// A chunk that was made for the worker `sized_for` is `worker`'s from now on.
    pub(super) fn note(&mut self, worker: usize, sized_for: usize, giving: Giving, load: Load) {
        let Giving { first, count, attempt, .. } = giving;
        self.master.give(worker, (first, count), attempt, Kept { load, sized_for }, self.clock.now());
    }
}
