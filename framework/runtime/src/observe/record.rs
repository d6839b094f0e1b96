//! An event with its time and place: one line of a log.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::figure;

/// One line of an event log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// When it happened: seconds since rank 0 started, on its clock as far as the rank that wrote this knows it.
    /// Times of different ranks are right to about the time that a message takes.
    #[serde(with = "figure")]
    pub at: f64,
    /// The rank that wrote it.
    pub rank: usize,
    /// Which of the session's runs it belongs to, from 0: a program may run several pipelines, one after the other.
    pub run: u32,
    /// What happened.
    pub event: Event,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3} s  rank {:<3}  {}", self.at, self.rank, self.event)
    }
}
