//! A farm, chunk by chunk.
//!
//! The master sends through one port, one message after the other: k tasks keep it busy for `mo + λ b_m k`, and arrive
//! one [latency](Knowledge::latency) later. The worker computes them, and the results arrive `mo + λ b_w k` and one latency
//! after it has finished; receiving costs the master nothing. A worker asks again when its results have arrived, or earlier by [`Knowledge::ahead`] chunks. Requests are
//! served in the order of their times; at the beginning all workers ask in turn. With one chunk for each worker and
//! equal tasks the time is just the model's (9).
//!
//! What decides on chunks is a [`Dispatcher`]; [`Dispatch`] lets a [`Chunker`] do it, the one that a farm uses when it
//! runs.
//!
//! ```
//! use armature_planner::farm::{Chunker, Chunking, IterationModel, Knowledge, MessageCosts, Protocol};
//! use armature_planner::simulate::farm::{Dispatch, Farm, Tasks};
//!
//! let knowledge =
//!     Knowledge { messages: MessageCosts::new(1e-4, 1e-7), task_bytes: 12.0, result_bytes: 12.0, ..Knowledge::default() };
//! let tasks = Tasks::new(&vec![0.5e-3; 1000]);
//! let farm = Farm::new(knowledge);
//! let mut chunker = Chunker::new(Chunking::Static);
//! let run = Dispatch::new(&mut chunker, &tasks, knowledge).iteration(&farm, &[0, 1, 2, 3]);
//!
//! let model = IterationModel {
//!     messages: knowledge.messages,
//!     volume: 24_000.0,
//!     out: 0.5,
//!     compute: 0.5,
//!     master: 0.0,
//!     protocol: Protocol::Synchronous,
//! };
//! assert!((run.time / model.time(4) - 1.0).abs() < 1e-12);
//! assert!((run.efficiency(4) - model.efficiency(4)).abs() < 1e-12);
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::farm::{ChunkDone, Chunker, Knowledge, Supply};
use crate::range;

/// Decides and computes in a simulated farm.
pub trait Dispatcher {
    /// Tasks of the next chunk of `worker`, which asks at `now`; None if there are none left.
    fn next(&mut self, worker: usize, now: f64) -> Option<u64>;
    /// Computes that chunk: sum and sum of squares of its tasks' times on `worker`. A sum that is negative or no number counts
    /// as 0, one above 1e60 as that.
    fn compute(&mut self, worker: usize, tasks: u64) -> (f64, f64);
    /// Its results have arrived.
    fn done(&mut self, done: &ChunkDone);
}

/// A farm to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Farm {
    knowledge: Knowledge,
    inline: bool,
}

/// How a farm stands when its simulation begins. By default nobody asks for anything.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing<'a> {
    /// Requests: when (s), and of whom. Where one asks several times, a later request is served when its turn comes,
    /// and the chunk computed after the one before.
    pub asks: &'a [(f64, usize)],
    /// When the master's port is free (s).
    pub port: f64,
    /// When workers have computed what they hold already: which, and when (s). Those that are not listed hold nothing.
    pub free: &'a [(usize, f64)],
}

/// What came of a simulated iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// Seconds until the last result arrived.
    pub time: f64,
    /// Seconds that workers computed, together.
    pub busy: f64,
    /// Chunks that were sent.
    pub chunks: u64,
}

impl Run {
    /// Computing time / (workers × time).
    pub fn efficiency(&self, workers: usize) -> f64 {
        self.busy / (workers as f64 * self.time)
    }
}

/// A chunk that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    done: ChunkDone,
    back: f64,
}

impl Farm {
    /// A farm with these costs; `knowledge.now` does not matter.
    pub fn new(knowledge: Knowledge) -> Self {
        Farm { knowledge: knowledge.usable(), inline: false }
    }

    /// The master's own chunks are computed by the thread that serves requests: those wait for the end of a chunk.
    pub fn with_inline_master(mut self) -> Self {
        self.inline = true;
        self
    }

    /// One iteration of `workers`, which all ask at the beginning.
    pub fn run(&self, workers: &[usize], dispatcher: &mut impl Dispatcher) -> Run {
        let rounds = 0..=self.knowledge.ahead;
        let asks: Vec<(f64, usize)> =
            rounds.flat_map(|_| workers.iter().map(|&worker| (0.0, worker))).collect();
        self.run_from(&Standing { asks: &asks, ..Standing::default() }, dispatcher)
    }

    /// The same, from any state. What workers hold already does not count in the result.
    pub fn run_from(&self, standing: &Standing<'_>, dispatcher: &mut impl Dispatcher) -> Run {
        let Knowledge { master, .. } = self.knowledge;
        let Standing { asks, mut port, free } = *standing;
        // Workers by their places among those that ask.
        let mut workers: Vec<usize> = asks.iter().map(|&(_, worker)| worker).collect();
        workers.sort_unstable();
        workers.dedup();
        let place = |worker: usize| workers.binary_search(&worker);
        let mut free_at = vec![0.0; workers.len()];
        for &(worker, time) in free {
            if let Ok(place) = place(worker) {
                free_at[place] = time;
            }
        }
        // Times are 0 or more, so their bits are ordered as they are.
        let key = |time: f64, sequence: u64| Reverse((time.max(0.0).to_bits(), sequence));
        let mut requests: BinaryHeap<(Reverse<(u64, u64)>, usize)> = BinaryHeap::with_capacity(asks.len());
        let asking = asks.iter().filter_map(|&(time, worker)| Some((time, place(worker).ok()?)));
        requests.extend((0..).zip(asking).map(|(sequence, (time, place))| (key(time, sequence), place)));
        let mut sequence = asks.len() as u64;
        let mut coming: BinaryHeap<(Reverse<(u64, u64)>, usize)> = BinaryHeap::new();
        let mut sent: Vec<Sent> = Vec::new();
        let mut run = Run::default();
        while let Some((Reverse((bits, _)), place)) = requests.pop() {
            let (now, worker) = (f64::from_bits(bits), workers[place]);
            while let Some(&(Reverse((back, _)), which)) = coming.peek()
                && back <= bits
            {
                coming.pop();
                dispatcher.done(&sent[which].done);
            }
            let Some(tasks) = dispatcher.next(worker, now) else { continue };
            let (sum, squares) = dispatcher.compute(worker, tasks);
            let sum = range::amount_or_nearest(sum);
            let (arrival, way_back) = if master == Some(worker) {
                // An inline master takes work for itself when it has served whoever asked before.
                (if self.inline { now.max(port) } else { now }, 0.0)
            } else {
                port = now.max(port) + self.knowledge.send_time(tasks);
                (port + self.knowledge.latency, self.knowledge.return_time(tasks))
            };
            let finish = arrival.max(free_at[place]) + sum;
            free_at[place] = finish;
            if self.inline && master == Some(worker) {
                port = finish;
            }
            let back = finish + way_back;
            coming.push((key(back, sequence), sent.len()));
            sent.push(Sent { done: ChunkDone { worker, tasks, sum, squares, elapsed: back - now }, back });
            requests.push((key(back, sequence), place));
            sequence += 1;
            run.chunks += 1;
            run.busy += sum;
            run.time = run.time.max(back);
        }
        while let Some((_, which)) = coming.pop() {
            dispatcher.done(&sent[which].done);
        }
        debug_assert!(sent.iter().all(|chunk| chunk.back <= run.time));
        run
    }
}

/// The times of tasks, in the order in which they are given.
#[derive(Clone, Debug, PartialEq)]
pub struct Tasks {
    /// Sums and sums of squares of the tasks before.
    before: Vec<(f64, f64)>,
}

impl Tasks {
    /// Tasks that take `times` (s) each; what is negative or no number counts as 0, what is above 1e60 as that.
    pub fn new(times: &[f64]) -> Self {
        let mut before = Vec::with_capacity(times.len() + 1);
        before.push((0.0, 0.0));
        let (mut sum, mut squares) = (0.0, 0.0);
        for time in times.iter().map(|&time| range::amount_or_nearest(time)) {
            sum += time;
            squares += time * time;
            before.push((sum, squares));
        }
        Tasks { before }
    }

    /// Number of tasks.
    pub fn len(&self) -> u64 {
        self.before.len() as u64 - 1
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sum and sum of squares of `count` tasks from `first` on, as far as there are as many.
    pub fn sums(&self, first: u64, count: u64) -> (f64, f64) {
        let until = |tasks: u64| self.before[tasks.min(self.len()) as usize];
        let (a, b) = (until(first), until(first.saturating_add(count)));
        (b.0 - a.0, b.1 - a.1)
    }
}

/// A [`Chunker`] at work on given tasks.
#[derive(Debug)]
pub struct Dispatch<'a> {
    chunker: &'a mut Chunker,
    tasks: &'a Tasks,
    knowledge: Knowledge,
    given: u64,
    /// Seconds that lie before the beginning.
    clock: f64,
    slowness: &'a [f64],
}

impl<'a> Dispatch<'a> {
    /// Every worker takes for a task what `tasks` say; the iteration begins at `knowledge.now`.
    pub fn new(chunker: &'a mut Chunker, tasks: &'a Tasks, knowledge: Knowledge) -> Self {
        Dispatch { chunker, tasks, clock: knowledge.now, knowledge, given: 0, slowness: &[] }
    }

    /// Worker w takes `slowness[w]` times as long; those that are not listed, once.
    pub fn with_slowness(mut self, slowness: &'a [f64]) -> Self {
        self.slowness = slowness;
        self
    }

    /// Begins an iteration on the chunker and runs it.
    pub fn iteration(&mut self, farm: &Farm, workers: &[usize]) -> Run {
        self.given = 0;
        self.chunker.begin(Supply::Exactly(self.tasks.len()), workers, &self.knowledge);
        farm.run(workers, self)
    }

    /// Runs the tasks as a stream, whose end the chunker does not know before it is there.
    pub fn stream(&mut self, farm: &Farm, workers: &[usize]) -> Run {
        self.given = 0;
        self.chunker.begin(Supply::AtLeast(0), workers, &self.knowledge);
        farm.run(workers, self)
    }
}

impl Dispatcher for Dispatch<'_> {
    fn next(&mut self, worker: usize, now: f64) -> Option<u64> {
        self.knowledge.now = self.clock + now;
        let left = self.tasks.len() - self.given;
        if left == 0 && !matches!(self.chunker.left(), Supply::Exactly(_)) {
            self.chunker.set_supply(Supply::Exactly(0), &self.knowledge);
        }
        let size = self.chunker.next_up_to(worker, left.max(1), &self.knowledge)?;
        Some(size)
    }

    fn compute(&mut self, worker: usize, tasks: u64) -> (f64, f64) {
        let (sum, squares) = self.tasks.sums(self.given, tasks);
        self.given += tasks;
        let slow = self.slowness.get(worker).copied().unwrap_or(1.0);
        (slow * sum, slow * slow * squares)
    }

    fn done(&mut self, done: &ChunkDone) {
        self.chunker.done(done);
    }
}
