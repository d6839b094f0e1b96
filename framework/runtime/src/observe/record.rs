//! Record of an event in an event log: the event with its time, rank and run.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::figure;

/// One line of an event log: an event with its time, rank and run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Seconds from the start of rank 0 to the event. The rank that wrote the event has estimated the time of rank 0's clock. Times of different
    /// ranks agree to about the time that a message takes.
    #[serde(with = "figure")]
    pub at: f64,
    /// Rank that wrote the event.
    pub rank: usize,
    /// Number of the run within the session, from 0: a program may run several pipelines, one after the other.
    pub run: u32,
    /// Event that happened.
    pub event: Event,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3} s  rank {:<3}  {}", self.at, self.rank, self.event)
    }
}
