//! What master and workers tell each other besides chunks and results.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::trail::Place;
use super::InHand;

/// A worker has come to the farm and is set up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Join {
    /// What making the worker took.
    pub(crate) warm_up: Duration,
    /// Where its trail is, if it leaves one.
    pub(crate) trail: Option<Place>,
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// The task that is being computed, or the first one of its chunk where tasks are tiny.
    pub(crate) task: Option<u64>,
    /// Chunks that are here and not begun.
    pub(crate) waiting: u32,
    /// Whether user code can keep this rank from giving signs of life.
    pub(crate) driving: Driving,
}

/// Where user code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Driving {
    /// On a thread of its own.
    Beside,
    /// On the thread that communicates, because the last chunks were short. The next one may be long all the same.
    Between,
    /// On the thread that communicates, however long tasks are, because the user wants it so.
    Inline,
}

/// A worker has been in one task for longer than the user allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hung {
    /// The task.
    pub(crate) task: u64,
}

/// A worker becomes a sub-master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lead {
    /// The ranks that are its workers from now on, and whether each has come to the farm.
    pub(crate) members: Vec<(usize, bool)>,
    /// What it is to say to them.
    pub(crate) order: Attach,
}

/// A worker is to work for the sender. The master numbers these orders, and an older one that comes late is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attach {
    pub(crate) number: u32,
    /// The sub-master whose place the sender takes: it is dead.
    pub(crate) instead_of: Option<usize>,
}

/// A sub-master has lost a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lost {
    pub(crate) rank: usize,
    pub(crate) why: String,
    /// The numbers of its chunks, which go back to the master, and what it was doing.
    pub(crate) chunks: Vec<u64>,
    pub(crate) in_hand: InHand,
}

/// The header of a chunk that is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Giving {
    pub(crate) id: u64,
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) attempt: u32,
    /// Another rank has fallen silent over one of these tasks: they may take long.
    pub(crate) careful: bool,
    /// Other ranks have died over these tasks: who does them has nothing else meanwhile.
    pub(crate) alone: bool,
}

/// What a chunk has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Times {
    /// Time of the whole chunk.
    pub(crate) took: Duration,
    /// Sum of the tasks' times, in seconds.
    pub(crate) sum: f64,
    /// Sum of their squares, in s²; where tasks are not timed one by one, as if all took the same.
    pub(crate) squares: f64,
}
