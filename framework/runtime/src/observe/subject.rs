//! What a decision is about, and what it stands on.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::figure;
use super::words::{seconds, short};

/// What a decision arranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Subject {
    /// The mapping of a pipeline; an item is what comes out of it.
    #[default]
    Mapping,
    /// The number of a farm's workers; an item is an iteration, or in a stream a task.
    Workers,
    /// How many units of a loop each rank has; an item is a pass over all of them.
    Units,
}

impl Subject {
    pub(super) fn is_mapping(&self) -> bool {
        *self == Subject::Mapping
    }

    /// As the beginning of a sentence.
    pub(super) fn arrangement(self) -> &'static str {
        match self {
            Subject::Mapping => "The mapping",
            Subject::Workers => "The number of workers",
            Subject::Units => "The distribution of units",
        }
    }

    /// What a gain is a gain in, if not in time alone.
    pub(super) fn gained(self) -> &'static str {
        if self == Subject::Workers { ", workers that are set free counted" } else { "" }
    }

    /// What its times are for.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Subject::Mapping => "an item",
            Subject::Workers => "an iteration (a task of a stream)",
            Subject::Units => "a pass",
        }
    }
}

/// A measured value that a decision stands on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What it is, in words.
    pub name: String,
    /// Its value.
    #[serde(with = "figure")]
    pub value: f64,
    /// Its unit: `s`, `s/byte`, `bytes`; empty for a mere number.
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
