//! How rank 0 gives tasks away: to workers that ask, and to itself.

use crate::user_code;
use armature_planner::farm::{Chunking, Supply as Left};

use super::budget::Flying;
use super::desk::{Desk, Kept};
use super::machine::{Giving, Piece, Standing, Suspicion};
use super::pace::ENOUGH_BYTES;
use super::parcel::{self, Load};
use super::supply::Supply;
use super::workbench::Task;
use crate::comm::Frame;
use crate::error::{Error, Result};
use crate::observe::Event;
use crate::wire::{Item, weigh};

/// Of small tasks one in this number is weighed when they are drawn: to weigh one costs as much as to encode it. Tasks that are
/// suddenly large are noticed so much later.
const SAMPLED: usize = 8;

/// A chunk that is ready to be given away.
pub(super) struct Packed {
    pub(super) giving: Giving,
    pub(super) suspicion: Suspicion,
    pub(super) message: Frame,
    /// What is kept of it.
    pub(super) load: Load,
}

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

    /// Tasks that a chunk should have at most. A policy that was asked for is followed to the message.
    fn enough(&self) -> u64 {
        if self.options.chunking == Chunking::Auto { self.pace.enough() } else { u64::MAX }
    }

    /// Bytes of tasks beyond which no more are drawn for a chunk, where they turn out to be larger than expected: as they are
    /// in memory, which is more than on the wire.
    fn enough_bytes(&self) -> u64 {
        if self.options.chunking == Chunking::Auto { 4 * ENOUGH_BYTES as u64 } else { u64::MAX }
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
        let Packed { giving, suspicion, message, load } = self.pack(worker, piece)?;
        let bytes = load.len();
        self.pace.gave(giving.count.into(), bytes);
        self.note(worker, worker, (giving, suspicion), load);
        self.endpoint.send_ready(worker, message)?;
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
            let Packed { giving, suspicion, load, .. } = self.pack(0, piece)?;
            self.note(0, 0, (giving, suspicion), load.clone());
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
        if choice.policy == choice.before && self.told_choice {
            return;
        }
        self.told_choice = true;
        self.tell(|| Event::Chunks {
            by: choice.policy.to_string(),
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
        let most = most.min(u32::MAX.into());
        if self.master.must_become_free(worker) {
            return Ok(None);
        }
        if let Some(piece) = self.take_back(worker, sized_for, most) {
            return Ok(Some(piece));
        }
        let room = self.budget.room(self.flying());
        // As long as sizes are not known, each worker has one task.
        let holds_some = !self.budget.is_sure() && self.master.crew().room(worker, 0) == 0;
        if room == 0 || holds_some || supply.has_ended() {
            return Ok(None);
        }
        let first = supply.drawn();
        let (end, (attempt, suspicion)) = self.next_stretch(first);
        if end == first {
            return Ok(None);
        }
        let most = most.min(room).min(end - first);
        let size = self.chunker.next_up_to(sized_for, most, &self.knowledge).unwrap_or(1);
        let bytes = self.budget.bytes_left(self.flying()).min(self.enough_bytes());
        let step = if self.budget.are_small() { SAMPLED } else { 1 };
        let tasks = supply.draw(size, (bytes, step), |task| weigh(std::slice::from_ref(task)));
        let tasks = tasks.map_err(|e| e.in_farm(&self.name))?;
        let drawn = tasks.len() as u64;
        if drawn < size {
            self.chunker.give_back(size - drawn);
        }
        let mut piece = Some(Piece { first, tasks, attempt, avoid: None, suspicion });
        if suspicion.is_there() {
            // An earlier run of the job has seen ranks die over them.
            self.chunker.give_back(drawn);
            piece.take().into_iter().for_each(|piece| self.master.put_back(piece));
        }
        if supply.has_ended() {
            self.chunker.set_supply(Left::Exactly(self.master.waiting()), &self.knowledge);
        }
        let piece = piece.filter(|_| drawn > 0);
        Ok(piece.or_else(|| self.take_back(worker, sized_for, most)))
    }

    /// Some tasks that came back, for `worker`.
    fn take_back(&mut self, worker: usize, sized_for: usize, most: u64) -> Option<Piece<I>> {
        if self.master.waiting() == 0 {
            return None;
        }
        let size = self.chunker.next_up_to(sized_for, most, &self.knowledge).unwrap_or(1);
        let piece = self.master.take_back(worker, size);
        let taken = piece.as_ref().map_or(0, |piece| piece.tasks.len() as u64);
        self.chunker.give_back(size - taken);
        piece
    }

    /// Tasks between the iterator and the sink.
    pub(super) fn flying(&self) -> Flying {
        let (out, back) = (self.master.out(), self.master.waiting());
        Flying { out, back, early: self.order.early_bytes() }
    }

    /// A chunk as a message, and what is kept of it.
    pub(super) fn pack(&mut self, worker: usize, piece: Piece<I>) -> Result<Packed> {
        let Piece { first, tasks, attempt, suspicion, .. } = piece;
        let end = first + tasks.len() as u64;
        let careful = self.doubtful.iter().any(|tasks| first < tasks.end && tasks.start < end);
        let alone = suspicion.is_there();
        let giving =
            Giving { id: self.master.next_id(), first, count: tasks.len() as u32, attempt, careful, alone };
        let packed = user_code::call(|| parcel::give(self.run, giving, &self.codecs.tasks, tasks));
        let (message, load) = packed.map_err(|e| {
            let text = format!("{} (in a chunk of {} for rank {worker})", e.message(), giving.count);
            Error::new(e.kind(), text).on_item(first).in_farm(&self.name).at_rank(0)
        })?;
        Ok(Packed { giving, suspicion, message, load })
    }

    /// A chunk that was made for the worker `sized_for` is `worker`'s from now on.
    pub(super) fn note(
        &mut self,
        worker: usize,
        sized_for: usize,
        (giving, suspicion): (Giving, Suspicion),
        load: Load,
    ) {
        let Giving { first, count, attempt, .. } = giving;
        self.budget.gave(count.into(), load.len());
        let kept = Kept { load, sized_for };
        self.master.give(worker, (first, count), (attempt, suspicion), kept, self.clock.now());
    }
}
