//! Estimated value with its source.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// A platform file, an option or a program.
    Declared,
    /// A probe at start-up, before the run.
    Probe,
    /// Mean of measurements in which single spikes are clipped. Logs of earlier versions contain `heuristic` instead for small items.
    #[serde(alias = "heuristic")]
    RobustMean,
    /// Smallest of many delays, which contains no waiting time.
    Envelope,
    /// Fit to measurements of other quantities.
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
    /// Value, in the unit of the estimated quantity.
    pub value: f64,
    /// Source of the value.
    pub source: Source,
    /// True if the value is reliable enough for decisions.
    pub settled: bool,
    /// Number of measurements behind the value; 0 if it was declared or probed.
    pub count: u64,
}

impl Estimate {
    /// Creates an estimate from a declared value.
    pub fn declared(value: f64) -> Self {
        Estimate { value, source: Source::Declared, settled: true, count: 0 }
    }

    /// Creates an estimate from a probed value.
    pub fn probed(value: f64) -> Self {
        Estimate { source: Source::Probe, ..Estimate::declared(value) }
    }
}

/// Formats the value, its source, the number of measurements, and a note if the value has not settled.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4e} ({}", self.value, self.source)?;
        if self.count > 0 {
            write!(f, " of {}", self.count)?;
        }
        f.write_str(if self.settled { ")" } else { ", not settled)" })
    }
}
