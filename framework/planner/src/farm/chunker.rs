//! Sizes of chunks, by any policy.

use super::auto::{Auto, Choice};
use super::chunking::Chunking;
use super::knowledge::{ChunkDone, Knowledge, Supply};
use super::policy::{Policy, View, policy};
use super::statistics::TaskStatistics;

/// Tasks for each worker that a stream whose end is not known is taken to have at least.
const SURE_TO_COME: u64 = 8;

/// Says how many tasks the next chunk of a worker has.
///
/// It decides on sizes alone; which tasks they are, and what becomes of them, is its caller's affair. The same object
/// serves a farm that runs and a [simulated](crate::simulate::farm) one. Whatever the policy, a size is at least 1 and
/// at most what is left, and requests may come in any order, several of a worker in a row too.
///
/// Where the number of tasks is not known ([`Supply::AtLeast`]), policies work on as many as are sure, but at least on
/// as many as have been handed out, and on 8 for each worker: a stream that has run for a while is expected to run as
/// long again.
///
/// ```
/// use armature_planner::farm::{ChunkDone, Chunker, Chunking, Knowledge, Supply};
///
/// let knowledge = Knowledge::default();
/// let mut chunker = Chunker::new(Chunking::Gss);
/// chunker.begin(Supply::Exactly(100), &[1, 2], &knowledge);
/// assert_eq!(chunker.next(1, &knowledge), Some(50));
/// assert_eq!(chunker.next(2, &knowledge), Some(25));
/// chunker.done(&ChunkDone::timed(1, 50, 0.2));
///
/// // Worker 2 has died, and its tasks are to be handed out again.
/// chunker.leave(2);
/// chunker.give_back(25);
/// assert_eq!(chunker.left(), Supply::Exactly(50));
/// assert_eq!(chunker.next(1, &knowledge), Some(50));
/// assert_eq!(chunker.next(1, &knowledge), None);
/// ```
#[derive(Debug)]
pub struct Chunker {
    chunking: Chunking,
    decides: Decides,
    iteration: u64,
    total: u64,
    supply: Supply,
    /// Tasks handed out in this iteration and not given back.
    given: u64,
    workers: Vec<usize>,
    statistics: TaskStatistics,
    /// The policy knows of this iteration.
    planned: bool,
}

/// A policy, or the choice of one.
#[derive(Debug)]
enum Decides {
    Policy(Box<dyn Policy>),
    Auto(Box<Auto>),
}

impl Chunker {
    /// A chunker that has measured nothing.
    pub fn new(chunking: Chunking) -> Self {
        let decides = match policy(chunking) {
            Some(policy) => Decides::Policy(policy),
            None => Decides::Auto(Box::default()),
        };
        Chunker {
            chunking,
            decides,
            iteration: 0,
            total: 0,
            supply: Supply::Exactly(0),
            given: 0,
            workers: Vec::new(),
            statistics: TaskStatistics::default(),
            planned: false,
        }
    }

    /// The policy it was made with.
    pub fn chunking(&self) -> Chunking {
        self.chunking
    }

    /// A new iteration, or the only stream, of these workers (any numbers, such as ranks). What was learned before is
    /// kept.
    pub fn begin(&mut self, supply: Supply, workers: &[usize], knowledge: &Knowledge) {
        let knowledge = &knowledge.usable();
        self.workers = workers.to_vec();
        self.workers.sort_unstable();
        self.workers.dedup();
        self.statistics.begin();
        self.iteration += 1;
        self.given = 0;
        self.supply = supply;
        self.total = self.remaining();
        self.plan(knowledge);
    }

    /// Tasks of the next chunk for `worker`, which joins if it is not known; None if nothing is left.
    pub fn next(&mut self, worker: usize, knowledge: &Knowledge) -> Option<u64> {
        self.next_up_to(worker, u64::MAX, knowledge)
    }

    /// The same, at most `most` (taken for 1 if it is 0): what a window has room for, what an iterator has ready, what
    /// a master may compute before it looks at its messages.
    pub fn next_up_to(&mut self, worker: usize, most: u64, knowledge: &Knowledge) -> Option<u64> {
        let left = self.remaining();
        if left == 0 {
            return None;
        }
        self.join(worker);
        if !self.planned {
            self.plan(&knowledge.usable());
        }
        let most = most.clamp(1, left);
        let knowledge = &knowledge.usable();
        let view = View {
            iteration: self.iteration,
            total: self.total.max(left),
            left,
            workers: &self.workers,
            statistics: &self.statistics,
            knowledge,
        };
        let size = match &mut self.decides {
            Decides::Policy(policy) => policy.next(worker, most, &view),
            Decides::Auto(auto) => auto.next(worker, most, &view),
        };
        let size = size.clamp(1, most);
        self.given = self.given.saturating_add(size);
        self.supply = match self.supply {
            Supply::Exactly(left) => Supply::Exactly(left - size),
            Supply::AtLeast(sure) => {
                self.total = self.total.max(self.given.saturating_mul(2));
                Supply::AtLeast(sure.saturating_sub(size))
            }
        };
        Some(size)
    }

    /// The results of a chunk have arrived; to be told before the worker's next request.
    pub fn done(&mut self, done: &ChunkDone) {
        self.statistics.add(done);
        match &mut self.decides {
            Decides::Policy(policy) => policy.done(done),
            Decides::Auto(auto) => auto.done(done),
        }
    }

    /// The results of the first tasks of a chunk have arrived, and its worker goes on with the others: `done` is about those first
    /// tasks, or about those after the last such report.
    pub fn done_in_part(&mut self, done: &ChunkDone) {
        self.statistics.add(done);
        if let Decides::Auto(auto) = &mut self.decides {
            auto.done_in_part(done);
        }
    }

    /// `tasks` tasks that were handed out are to be handed out again: those of a worker that has died, or of a chunk
    /// for which there were not enough tasks.
    pub fn give_back(&mut self, tasks: u64) {
        self.given = self.given.saturating_sub(tasks);
        self.supply = match self.supply {
            Supply::Exactly(left) => Supply::Exactly(left.saturating_add(tasks)),
            Supply::AtLeast(sure) => Supply::AtLeast(sure.saturating_add(tasks)),
        };
        if let Decides::Auto(auto) = &mut self.decides {
            auto.give_back(tasks);
        }
    }

    /// What is left, as it is known now: the stream has ended, or more tasks are sure.
    pub fn set_supply(&mut self, supply: Supply, knowledge: &Knowledge) {
        let ends = matches!((self.supply, supply), (Supply::AtLeast(_), Supply::Exactly(_)));
        self.supply = supply;
        if ends {
            self.total = self.given.saturating_add(self.remaining());
            self.plan(&knowledge.usable());
        }
    }

    /// A worker takes part from now on.
    pub fn join(&mut self, worker: usize) {
        if let Err(place) = self.workers.binary_search(&worker) {
            self.workers.insert(place, worker);
        }
    }

    /// A worker takes part no more: it has died, or is parked. Its tasks come back by
    /// [`give_back`](Chunker::give_back); how fast it was is forgotten.
    pub fn leave(&mut self, worker: usize) {
        if let Ok(place) = self.workers.binary_search(&worker) {
            self.workers.remove(place);
        }
        self.statistics.forget(worker);
        if let Decides::Auto(auto) = &mut self.decides {
            auto.leave(worker);
        }
    }

    /// What is left to be handed out.
    pub fn left(&self) -> Supply {
        self.supply
    }

    /// The workers that take part, in ascending order.
    pub fn workers(&self) -> &[usize] {
        &self.workers
    }

    /// The newest choice of [`Chunking::Auto`], once.
    pub fn take_choice(&mut self) -> Option<Choice> {
        match &mut self.decides {
            Decides::Policy(_) => None,
            Decides::Auto(auto) => auto.take_choice(),
        }
    }

    /// Chunks that [`Chunking::Auto`] has simulated so far for its choices: what they cost.
    pub fn simulated_chunks(&self) -> u64 {
        match &self.decides {
            Decides::Policy(_) => 0,
            Decides::Auto(auto) => auto.simulated(),
        }
    }

    /// Times of tasks so far.
    pub fn statistics(&self) -> &TaskStatistics {
        &self.statistics
    }

    /// R: tasks that policies reckon with.
    fn remaining(&self) -> u64 {
        match self.supply {
            Supply::Exactly(left) => left,
            Supply::AtLeast(sure) => {
                sure.max(self.given).max(SURE_TO_COME * self.workers.len().max(1) as u64)
            }
        }
    }

    fn plan(&mut self, knowledge: &Knowledge) {
        let left = self.remaining();
        self.planned = left > 0 && !self.workers.is_empty();
        if !self.planned {
            return;
        }
        let view = View {
            iteration: self.iteration,
            total: self.total,
            left,
            workers: &self.workers,
            statistics: &self.statistics,
            knowledge,
        };
        match &mut self.decides {
            Decides::Policy(policy) => policy.begin(&view),
            Decides::Auto(auto) => auto.begin(&view),
        }
    }
}
