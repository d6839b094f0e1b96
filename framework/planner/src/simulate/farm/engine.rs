//! Requests, messages and computing in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::farm::{ChunkDone, Knowledge};
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
