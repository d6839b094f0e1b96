//! Properties of a farm and measurements of its chunks, which are the input of chunk policies.

use serde::{Deserialize, Serialize};

use super::messages::MessageCosts;
use crate::range;

/// Number of tasks that are not dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Supply {
    /// Exact number of remaining tasks.
    Exactly(u64),
    /// A stream of unknown length, of which at least this number of further tasks is known to exist (0 is allowed).
    AtLeast(u64),
}

/// Maximum number of queued chunks per worker that chunk policies and simulations consider. A simulated iteration
/// contains a request for each of them, so more would slow the simulation down. No worker needs more queued chunks to
/// stay busy.
const MOST_AHEAD: u32 = 64;

/// Properties of a farm other than the times of its tasks. Negative costs and sizes and NaN count as 0, values above 1e60 as 1e60.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knowledge {
    /// Current time in seconds, on any monotonic clock.
    pub now: f64,
    /// Time for which a message between master and workers occupies its sender.
    pub messages: MessageCosts,
    /// Additional seconds until a message arrives, during which its sender can continue.
    #[serde(default)]
    pub latency: f64,
    /// Bytes of a task in a message to a worker.
    pub task_bytes: f64,
    /// Bytes of the result of a task.
    pub result_bytes: f64,
    /// Number of chunks that a worker may hold in addition to the chunk that it computes; limited to 64.
    pub ahead: u32,
    /// Number of the worker on the master's rank, if the master computes too; messages to this worker cost nothing.
    pub master: Option<usize>,
}

impl Default for Knowledge {
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
    /// Seconds of work beyond which a worker gets no further chunk, whatever [`ahead`](Knowledge::ahead) says. A master answers within some
    /// milliseconds, so that a worker loses about one per cent if it then waits for its next chunk. If it held a second long chunk, others would have
    /// none at the end: FAC2 on 64 simulated ranks took 1.11 times as long.
    pub const LONG_CHUNK: f64 = 0.2;

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

    /// Returns the seconds for which the master's port is occupied when it sends `tasks` tasks.
    pub fn send_time(&self, tasks: u64) -> f64 {
        self.messages.time(self.task_bytes * tasks as f64)
    }

    /// Returns the seconds until the results of `tasks` tasks have arrived.
    pub fn return_time(&self, tasks: u64) -> f64 {
        self.messages.time(self.result_bytes * tasks as f64) + self.latency
    }

    /// Returns the minimum number of tasks in a chunk, `kmin`, with which the master can serve `workers` workers within the round trip of one chunk,
    /// if a task takes `mean` seconds (µ): `max(1, ⌈((n − 2) mo − 2 L) / (µ − λ((n − 1) b_m − b_w))⌉)`, with n workers, the start-up time `mo` and
    /// the time per byte `λ` of messages, their latency `L`, and `b_m` and `b_w` bytes of a task and its result. Returns `None` if no size is enough,
    /// because the transfers alone take the master longer than the tasks take the workers.
    ///
    /// Cesar et al. (2006) describe the lower limit without a formula. The formula follows from equating `n (mo + λ b_m k)` with `2 (mo + L) + λ (b_m
    /// + b_w) k + k µ`.
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

/// Completed chunk whose results have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChunkDone {
    /// Worker that computed the chunk.
    pub worker: usize,
    /// Number of tasks in the chunk.
    pub tasks: u64,
    /// Sum of the times of the tasks, in seconds.
    pub sum: f64,
    /// Sum of the squares of the times of the tasks, in s².
    pub squares: f64,
    /// Seconds from the dispatch of the chunk to the arrival of its results.
    pub elapsed: f64,
}

impl ChunkDone {
    /// Creates the report of a chunk that took `seconds` in total, with tasks that are assumed to be equal. Differences between tasks are then
    /// visible only between chunks.
    pub fn timed(worker: usize, tasks: u64, seconds: f64) -> Self {
        let squares = if tasks == 0 { 0.0 } else { seconds * seconds / tasks as f64 };
        ChunkDone { worker, tasks, sum: seconds, squares, elapsed: seconds }
    }

    /// Clamps the report to the range of numbers that the planner's models accept. Returns `None` if the report
    /// contains invalid numbers.
    pub(crate) fn usable(&self) -> Option<ChunkDone> {
        let sum = range::amount(self.sum).filter(|_| self.tasks > 0)?;
        let most = range::LARGEST * range::LARGEST;
        let squares = (self.squares <= most).then_some(self.squares.max(0.0))?;
        // A mean task time below the smallest accepted number counts as 0, because the models divide by the mean.
        let sum = if sum < range::SMALLEST * self.tasks as f64 { 0.0 } else { sum };
        Some(ChunkDone { sum, squares, ..*self })
    }
}
