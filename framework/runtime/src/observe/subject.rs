//! Subjects of balancing decisions, and the measurements behind the decisions.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::figure;
use super::number_format::{seconds, short};

/// Subject of a balancing decision: what rank 0 changes to distribute the work better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Subject {
    /// The mapping of a pipeline. The times in the decision are per item of the source.
    #[default]
    Mapping,
    /// The number of a farm's workers. The times in the decision are per iteration of the farm, or per task of a stream.
    Workers,
    /// The number of units (rows or indices) of a loop on each rank. The times in the decision are per pass.
    Units,
}

impl Subject {
    pub(super) fn is_mapping(&self) -> bool {
        *self == Subject::Mapping
    }

    pub(super) fn arrangement(self) -> &'static str {
        match self {
            Subject::Mapping => "The mapping",
            Subject::Workers => "The number of workers",
            Subject::Units => "The distribution of units",
        }
    }

    /// Returns a phrase that follows the word "gain" in a sentence and names what the gain includes besides time; empty if it includes only time.
    pub(super) fn gained(self) -> &'static str {
        if self == Subject::Workers { ", including released workers" } else { "" }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Subject::Mapping => "an item",
            Subject::Workers => "an iteration (a task of a stream)",
            Subject::Units => "a pass",
        }
    }
}

/// Measurement on which a balancing decision is based.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Description of the measured quantity.
    pub name: String,
    /// Measured value of the quantity.
    #[serde(with = "figure")]
    pub value: f64,
    /// Unit of the measured value: `s`, `s/byte` or `bytes`; empty for a number without a unit.
    pub unit: String,
}

impl Input {
    pub(crate) fn new(name: &str, value: f64, unit: &str) -> Self {
        Input { name: name.to_string(), value, unit: unit.to_string() }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Input { name, value, unit } = self;
        match unit.as_str() {
            "s" => write!(f, "{name} {}", seconds(*value)),
            "s/byte" => write!(f, "{name} {} a byte", seconds(*value)),
            "" => write!(f, "{name} {}", short(*value)),
            unit => write!(f, "{name} {} {unit}", short(*value)),
        }
    }
}
