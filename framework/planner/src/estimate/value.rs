//! A value with where it comes from.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// Somebody said so: a platform file, an option, a program.
    Declared,
    /// A probe at start-up, before there was work.
    Probe,
    /// The mean of what was measured, with single spikes cut off. Earlier logs have `heuristic` in its place where items are
    /// small.
    #[serde(alias = "heuristic")]
    RobustMean,
    /// The least of many delays, which waiting had no part in.
    Envelope,
    /// A fit to measurements of other quantities.
    Fit,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Source::Declared => "declared",
            Source::Probe => "probe",
            Source::RobustMean => "robust mean",
            Source::Envelope => "envelope",
            Source::Fit => "fit",
        })
    }
}

/// A value, where it comes from, and how much it is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The value, in the unit of what is estimated.
    pub value: f64,
    /// Where it comes from.
    pub source: Source,
    /// True if there is enough behind it to decide on.
    pub settled: bool,
    /// How many measurements are behind it; 0 for what was only declared or probed.
    pub count: u64,
}

impl Estimate {
    /// What somebody said.
    pub fn declared(value: f64) -> Self {
        Estimate { value, source: Source::Declared, settled: true, count: 0 }
    }

    /// What a probe found.
    pub fn probed(value: f64) -> Self {
        Estimate { source: Source::Probe, ..Estimate::declared(value) }
    }
}

/// The value, its source, and a word if it has not settled.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4e} ({}", self.value, self.source)?;
        if self.count > 0 {
            write!(f, " of {}", self.count)?;
        }
        f.write_str(if self.settled { ")" } else { ", not settled)" })
    }
}
