//! Number of tasks of each chunk of a farm, by any chunk policy.

use super::auto::{Auto, Choice};
use super::chunking::Chunking;
use super::knowledge::{ChunkDone, Knowledge, Supply};
use super::policy::{Policy, View, policy};
use super::statistics::TaskStatistics;

/// Minimum number of remaining tasks per worker that chunk policies assume for a stream of unknown length.
const SURE_TO_COME: u64 = 8;

/// Computes the number of tasks of the next chunk for a worker.
///
/// The chunker computes sizes only; the caller selects and tracks the tasks. The same type serves a running farm and a
/// [simulated](crate::simulate::farm) one. With every policy a size is at least 1 and at most the number of remaining tasks. Requests may arrive in
/// any order, also several of one worker in a row.
///
/// If the number of tasks is unknown ([`Supply::AtLeast`]), policies assume the largest of three numbers: the tasks that are certain, the
/// tasks dispatched so far, and 8 per worker. A stream that has run for some time is expected to run for as long again.
///
/// ```
/// use armature_planner::farm::{ChunkDone, Chunker, Chunking, Knowledge, Published, Supply};
///
/// let knowledge = Knowledge::default();
/// let mut chunker = Chunker::new(Chunking::Policy(Published::Gss));
/// chunker.begin(Supply::Exactly(100), &[1, 2], &knowledge);
/// assert_eq!(chunker.next(1, &knowledge), Some(50));
/// assert_eq!(chunker.next(2, &knowledge), Some(25));
/// chunker.done(&ChunkDone::timed(1, 50, 0.2));
///
/// // Worker 2 has died, and its tasks are to be handed out again.
/// chunker.leave(2);
/// chunker.return_tasks(25);
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
    /// Number of tasks dispatched in this iteration, without those that were returned.
    dispatched: u64,
    workers: Vec<usize>,
    statistics: TaskStatistics,
    planned: bool,
}

#[derive(Debug)]
enum Decides {
    Policy(Box<dyn Policy>),
    Auto(Box<Auto>),
}

impl Chunker {
    /// Creates a chunker without measurements.
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
            dispatched: 0,
            workers: Vec::new(),
            statistics: TaskStatistics::default(),
            planned: false,
        }
    }

    /// Returns the chunk policy with which the chunker was created.
    pub fn chunking(&self) -> Chunking {
        self.chunking
    }

    /// Sets the expected speed of a worker relative to the others, for the policies that adapt to the speeds of workers ([`Chunking::Auto`] and
    /// AWF-B). It counts until the worker has completed a chunk.
    pub fn expect_speed(&mut self, worker: usize, speed: f64) {
        self.statistics.expect_speed(worker, speed);
    }

    /// Begins a new iteration, or the only stream, with the given workers (any numbers, such as ranks). Measurements of earlier iterations are kept.
    pub fn begin(&mut self, supply: Supply, workers: &[usize], knowledge: &Knowledge) {
        let knowledge = &knowledge.usable();
        self.workers = workers.to_vec();
        self.workers.sort_unstable();
        self.workers.dedup();
        self.statistics.begin();
        self.iteration += 1;
        self.dispatched = 0;
        self.supply = supply;
        self.total = self.remaining();
        self.plan(knowledge);
    }

    /// Returns the number of tasks of the next chunk for `worker`; `None` if no tasks remain. A worker that is unknown is added.
    pub fn next(&mut self, worker: usize, knowledge: &Knowledge) -> Option<u64> {
        self.next_up_to(worker, u64::MAX, knowledge)
    }

    /// Returns the number of tasks of the next chunk for `worker`, limited to `most` tasks (0 counts as 1). Examples of a limit are the number of
    /// further tasks that may be in flight, the number of tasks that an iterator has ready, and the number of tasks that a master may compute before
    /// it polls for messages.
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
        self.dispatched = self.dispatched.saturating_add(size);
        self.supply = match self.supply {
            Supply::Exactly(left) => Supply::Exactly(left - size),
            Supply::AtLeast(sure) => {
                self.total = self.total.max(self.dispatched.saturating_mul(2));
                Supply::AtLeast(sure.saturating_sub(size))
            }
        };
        Some(size)
    }

    /// Records that the results of a chunk arrived. The call must precede the next request of the worker for a chunk.
    pub fn done(&mut self, done: &ChunkDone) {
        self.statistics.add(done);
        match &mut self.decides {
            Decides::Policy(policy) => policy.done(done),
            Decides::Auto(auto) => auto.done(done),
        }
    }

    /// Records that the results of the first tasks of a chunk arrived while the worker continues with the rest. `done` covers the tasks since the
    /// last such report.
    pub fn done_in_part(&mut self, done: &ChunkDone) {
        self.statistics.add(done);
        if let Decides::Auto(auto) = &mut self.decides {
            auto.done_in_part(done);
        }
    }

    /// Puts `tasks` dispatched tasks back, so that they are dispatched again: tasks of a dead worker, or of a chunk that could not be filled.
    pub fn return_tasks(&mut self, tasks: u64) {
        self.dispatched = self.dispatched.saturating_sub(tasks);
        self.supply = match self.supply {
            Supply::Exactly(left) => Supply::Exactly(left.saturating_add(tasks)),
            Supply::AtLeast(sure) => Supply::AtLeast(sure.saturating_add(tasks)),
        };
        if let Decides::Auto(auto) = &mut self.decides {
            auto.return_tasks(tasks);
        }
    }

    /// Sets the number of remaining tasks, when a stream has ended or more of its tasks are known to exist.
    pub fn set_supply(&mut self, supply: Supply, knowledge: &Knowledge) {
        let ends = matches!((self.supply, supply), (Supply::AtLeast(_), Supply::Exactly(_)));
        self.supply = supply;
        if ends {
            self.total = self.dispatched.saturating_add(self.remaining());
            self.plan(&knowledge.usable());
        }
    }

    /// Adds a worker, which may request chunks from now on.
    pub fn join(&mut self, worker: usize) {
        if let Err(place) = self.workers.binary_search(&worker) {
            self.workers.insert(place, worker);
        }
    }

    /// Removes a worker that died or was parked, and discards its speed. [`return_tasks`](Chunker::return_tasks) returns its tasks.
    pub fn leave(&mut self, worker: usize) {
        if let Ok(place) = self.workers.binary_search(&worker) {
            self.workers.remove(place);
        }
        self.statistics.forget(worker);
        if let Decides::Auto(auto) = &mut self.decides {
            auto.leave(worker);
        }
    }

    /// Returns the number of tasks that are not dispatched.
    pub fn left(&self) -> Supply {
        self.supply
    }

    /// Returns the workers in ascending order.
    pub fn workers(&self) -> &[usize] {
        &self.workers
    }

    /// Returns the latest selection of a policy by [`Chunking::Auto`], only on the first call after the selection.
    pub fn take_choice(&mut self) -> Option<Choice> {
        match &mut self.decides {
            Decides::Policy(_) => None,
            Decides::Auto(auto) => auto.take_choice(),
        }
    }

    /// Returns the number of chunks that [`Chunking::Auto`] has simulated so far, which measures the cost of its selections.
    pub fn simulated_chunks(&self) -> u64 {
        match &self.decides {
            Decides::Policy(_) => 0,
            Decides::Auto(auto) => auto.simulated(),
        }
    }

    /// Returns the statistics of task times.
    pub fn statistics(&self) -> &TaskStatistics {
        &self.statistics
    }

    /// Returns the number of remaining tasks that chunk policies assume (R in the formulas of the policies).
    fn remaining(&self) -> u64 {
        match self.supply {
            Supply::Exactly(left) => left,
            Supply::AtLeast(sure) => {
                sure.max(self.dispatched).max(SURE_TO_COME * self.workers.len().max(1) as u64)
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
