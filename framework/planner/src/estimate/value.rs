//! Estimated value with its source and its reliability.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kind of measurement or statement from which an estimated value comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// The value was stated in a platform file, by an option or by a program.
    Declared,
    /// The value was measured by a benchmark at start-up, before the run.
    Probe,
    /// Mean of measurements in which single spikes are clipped. Logs of earlier versions contain the name `heuristic` for this kind.
    #[serde(alias = "heuristic")]
    RobustMean,
    /// Smallest of many message delays, which contains no waiting time.
    Envelope,
    /// The value was computed by a fit to measurements of other quantities.
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

/// Estimated value with its source and confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Estimated value, in the unit of the estimated quantity.
    pub value: f64,
    /// Kind of measurement or statement from which the value comes.
    pub source: Source,
    /// True if the value is reliable enough for decisions.
    pub settled: bool,
    /// Number of measurements on which the value is based; 0 if it was declared or probed.
    pub count: u64,
}

impl Estimate {
    /// Creates an estimate from a value that a file, an option or a program states.
    pub fn declared(value: f64) -> Self {
        Estimate { value, source: Source::Declared, settled: true, count: 0 }
    }

    /// Creates an estimate from a value that a benchmark at start-up measured.
    pub fn probed(value: f64) -> Self {
        Estimate { source: Source::Probe, ..Estimate::declared(value) }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4e} ({}", self.value, self.source)?;
        if self.count > 0 {
            write!(f, " of {}", self.count)?;
        }
        f.write_str(if self.settled { ")" } else { ", not settled)" })
    }
}
