//! What a caller tells the policies.

use serde::{Deserialize, Serialize};

use super::messages::MessageCosts;
use crate::range;

/// How many tasks are left to be handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Supply {
    /// Just as many.
    Exactly(u64),
    /// A stream whose end is not known; this number of tasks is sure to come (0 will do).
    AtLeast(u64),
}

/// Most chunks ahead that policies and simulations reckon with. Each is a request of each worker in every simulated row: more
/// would take longer than the chunks that are simulated, and nobody needs them to be sure of work.
const MOST_AHEAD: u32 = 64;

/// What is known of a farm besides the times of its tasks. Costs and sizes that are negative or no numbers count as 0, what is
/// above 1e60 counts as that.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knowledge {
    /// Now, in seconds on any clock that does not go back.
    pub now: f64,
    /// What messages between master and workers cost: for so long the sender has no time for another one.
    pub messages: MessageCosts,
    /// Seconds that a message is on its way beyond that, while its sender can go on.
    #[serde(default)]
    pub latency: f64,
    /// Bytes of a task on its way to a worker.
    pub task_bytes: f64,
    /// Bytes of the result of a task.
    pub result_bytes: f64,
    /// Chunks that a worker may hold beyond the one that it computes; more than 64 count as that.
    pub ahead: u32,
    /// The worker on the master's own rank, if it computes, too: messages to it cost nothing.
    pub master: Option<usize>,
}

impl Default for Knowledge {
    /// Messages that cost nothing, one chunk at a time, a master that does not compute.
    fn default() -> Self {
        Knowledge {
            now: 0.0,
            messages: MessageCosts::FREE,
            latency: 0.0,
            task_bytes: 0.0,
            result_bytes: 0.0,
            ahead: 0,
            master: None,
        }
    }
}

impl Knowledge {
    /// The same in numbers that models work with.
    pub(crate) fn usable(&self) -> Self {
        Knowledge {
            now: if range::amount(self.now.abs()).is_some() { self.now } else { 0.0 },
            messages: self.messages.usable(),
            latency: range::amount_or_nearest(self.latency),
            task_bytes: range::amount_or_nearest(self.task_bytes),
            result_bytes: range::amount_or_nearest(self.result_bytes),
            ahead: self.ahead.min(MOST_AHEAD),
            master: self.master,
        }
    }

    /// Seconds of the master's port to send `tasks` tasks.
    pub fn send_time(&self, tasks: u64) -> f64 {
        self.messages.time(self.task_bytes * tasks as f64)
    }

    /// Seconds until the results of `tasks` tasks have come back.
    pub fn return_time(&self, tasks: u64) -> f64 {
        self.messages.time(self.result_bytes * tasks as f64) + self.latency
    }

    /// Least number of tasks in a chunk, `kmin`, with which the master can serve `workers` workers within the round
    /// trip of one chunk, where a task takes `mean` seconds:
    /// `max(1, ⌈((n − 2) mo − 2 L) / (µ − λ((n − 1) b_m − b_w))⌉)`, with the latency `L` and with `b_m` and `b_w` bytes of
    /// a task and its result.
    /// None if no size will do, because the bytes alone take the master longer than the workers.
    ///
    /// The paper has the lower limit as an idea and prints no formula; this is derived from equating
    /// `n (mo + λ b_m k)` with `2 (mo + L) + λ (b_m + b_w) k + k µ`.
    pub fn least_chunk(&self, workers: usize, mean: f64) -> Option<u64> {
        let n = workers as f64;
        let MessageCosts { start_up, per_byte } = self.messages;
        let left_over = mean - per_byte * ((n - 1.0) * self.task_bytes - self.result_bytes);
        if left_over.is_nan() || left_over <= 0.0 {
            return None;
        }
        let least = ((n - 2.0) * start_up.of(self.task_bytes) - 2.0 * self.latency) / left_over;
        Some(least.ceil().max(1.0) as u64)
    }
}

/// A chunk whose results have come back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChunkDone {
    /// The worker that computed it.
    pub worker: usize,
    /// Tasks in it.
    pub tasks: u64,
    /// Sum of the times of its tasks (s).
    pub sum: f64,
    /// Sum of their squares (s²).
    pub squares: f64,
    /// Seconds from handing it out to the arrival of its results.
    pub elapsed: f64,
}

impl ChunkDone {
    /// A chunk that was timed as a whole: `seconds` for all of its tasks, which are taken for equal. What tasks
    /// differ by is then only seen between chunks.
    pub fn timed(worker: usize, tasks: u64, seconds: f64) -> Self {
        let squares = if tasks == 0 { 0.0 } else { seconds * seconds / tasks as f64 };
        ChunkDone { worker, tasks, sum: seconds, squares, elapsed: seconds }
    }

    /// The report with numbers that models work with, if it says anything.
    pub(crate) fn usable(&self) -> Option<ChunkDone> {
        let sum = range::amount(self.sum).filter(|_| self.tasks > 0)?;
        // The squares of times may be as far from 1 as products are.
        let most = range::LARGEST * range::LARGEST;
        let squares = (self.squares <= most).then_some(self.squares.max(0.0))?;
        // A mean time below the smallest number is none: what divides by it must not come to more than a number.
        let sum = if sum < range::SMALLEST * self.tasks as f64 { 0.0 } else { sum };
        Some(ChunkDone { sum, squares, ..*self })
    }
}
