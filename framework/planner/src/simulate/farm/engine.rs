//! Simulation of a farm: requests, messages and computations in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::farm::{ChunkDone, Knowledge};
use crate::range;

/// Decides on the sizes of chunks in a simulated farm, and computes the times of the chunks.
pub trait Dispatcher {
    /// Returns the number of tasks of the next chunk of `worker`, which sends a request at `now`; `None` if no tasks remain.
    fn next(&mut self, worker: usize, now: f64) -> Option<u64>;
    /// Computes a chunk of `tasks` tasks on `worker`, and returns the sum and the sum of squares of the times of its tasks. A negative sum or NaN
    /// counts as 0, a sum above 1e60 as 1e60.
    fn compute(&mut self, worker: usize, tasks: u64) -> (f64, f64);
    /// Records that the results of a chunk of tasks have arrived.
    fn done(&mut self, done: &ChunkDone);
}

/// Simulated farm: a master and workers that exchange messages with known costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Farm {
    knowledge: Knowledge,
    inline: bool,
}

/// State of a farm at the beginning of a simulation. The default has no requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InitialState<'a> {
    /// Requests of workers: time (s) and worker. If a worker sends several requests, each is served at its time, and the worker computes the chunks
    /// one after the other.
    pub requests: &'a [(f64, usize)],
    /// Time from which the master's network port is free (s).
    pub port: f64,
    /// Workers with the times (s) at which they finish the chunks that they already hold. Other workers hold no chunks.
    pub free: &'a [(usize, f64)],
}

/// Result of a simulated iteration of a farm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// Seconds from the beginning of the iteration until the last result arrived.
    pub time: f64,
    /// Sum of the seconds for which each worker computed.
    pub busy: f64,
    /// Number of chunks that the master sent.
    pub chunks: u64,
}

impl Run {
    /// Returns the efficiency of the workers: computing time / (workers × time of the iteration).
    pub fn efficiency(&self, workers: usize) -> f64 {
        self.busy / (workers as f64 * self.time)
    }
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    done: ChunkDone,
    back: f64,
}

impl Farm {
    /// Creates a farm with the message costs in `knowledge`; `knowledge.now` is ignored.
    pub fn new(knowledge: Knowledge) -> Self {
        Farm { knowledge: knowledge.usable(), inline: false }
    }

    /// Lets the thread that serves requests compute the master's own chunks, so that requests wait for the end of a chunk.
    pub fn with_inline_master(mut self) -> Self {
        self.inline = true;
        self
    }

    /// Simulates one iteration of `workers`, all of which send a request at the beginning.
    pub fn run(&self, workers: &[usize], dispatcher: &mut impl Dispatcher) -> Run {
        let rounds = 0..=self.knowledge.ahead;
        let requests: Vec<(f64, usize)> =
            rounds.flat_map(|_| workers.iter().map(|&worker| (0.0, worker))).collect();
        self.run_from(&InitialState { requests: &requests, ..InitialState::default() }, dispatcher)
    }

    /// Simulates an iteration from the given state. The chunks that workers hold at the beginning do not count in the result.
    pub fn run_from(&self, initial_state: &InitialState<'_>, dispatcher: &mut impl Dispatcher) -> Run {
        let Knowledge { master, .. } = self.knowledge;
        let InitialState { requests, mut port, free } = *initial_state;
        // Workers that send requests, in ascending order without duplicates. The simulation identifies a worker by its index in this list.
        let mut workers: Vec<usize> = requests.iter().map(|&(_, worker)| worker).collect();
        workers.sort_unstable();
        workers.dedup();
        let place = |worker: usize| workers.binary_search(&worker);
        let mut free_at = vec![0.0; workers.len()];
        for &(worker, time) in free {
            if let Ok(place) = place(worker) {
                free_at[place] = time;
            }
        }
        // Events are sorted by the bits of their times, which gives the order of the times because they are not negative.
        let key = |time: f64, sequence: u64| Reverse((time.max(0.0).to_bits(), sequence));
        let mut queue: BinaryHeap<(Reverse<(u64, u64)>, usize)> = BinaryHeap::with_capacity(requests.len());
        let first_requests = requests.iter().filter_map(|&(time, worker)| Some((time, place(worker).ok()?)));
        queue.extend((0..).zip(first_requests).map(|(sequence, (time, place))| (key(time, sequence), place)));
        let mut sequence = requests.len() as u64;
        let mut arriving: BinaryHeap<(Reverse<(u64, u64)>, usize)> = BinaryHeap::new();
        let mut sent: Vec<Sent> = Vec::new();
        let mut run = Run::default();
        while let Some((Reverse((bits, _)), place)) = queue.pop() {
            let (now, worker) = (f64::from_bits(bits), workers[place]);
            while let Some(&(Reverse((back, _)), which)) = arriving.peek()
                && back <= bits
            {
                arriving.pop();
                dispatcher.done(&sent[which].done);
            }
            if free_at[place] > now + Knowledge::LONG_CHUNK && self.knowledge.ahead > 0 {
                // The worker holds a long chunk, and gets the next one when its result has arrived.
                queue.push((key(free_at[place] + self.knowledge.return_time(1), sequence), place));
                sequence += 1;
                continue;
            }
            let Some(tasks) = dispatcher.next(worker, now) else { continue };
            let (sum, squares) = dispatcher.compute(worker, tasks);
            let sum = range::amount_or_nearest(sum);
            let (arrival, way_back) = if master == Some(worker) {
                // An inline master (one thread serves requests and computes) takes its own chunk after it has served the earlier requests.
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
            arriving.push((key(back, sequence), sent.len()));
            sent.push(Sent { done: ChunkDone { worker, tasks, sum, squares, elapsed: back - now }, back });
            queue.push((key(back, sequence), place));
            sequence += 1;
            run.chunks += 1;
            run.busy += sum;
            run.time = run.time.max(back);
        }
        while let Some((_, which)) = arriving.pop() {
            dispatcher.done(&sent[which].done);
        }
        debug_assert!(sent.iter().all(|chunk| chunk.back <= run.time));
        run
    }
}
