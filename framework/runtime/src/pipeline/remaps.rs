//! Changes of the mapping in a run of a pipeline: those that the program requested before the run, and a record of each change.

use std::collections::VecDeque;
use std::time::Duration;

use armature_planner::pipeline::Mapping;
use serde::{Deserialize, Serialize};

use super::choice::MappingChoice;
use super::stage_def::StageDef;
use crate::error::{Error, ErrorKind, Result};

/// Record of a mapping that took effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Remap {
    /// Time from the start of the run until the mapping took effect.
    pub at: Duration,
    /// Number of items that had reached the sink when the mapping took effect.
    pub items: u64,
    /// Text form of the mapping.
    pub to: String,
    /// Reason for the change of the mapping, in one sentence.
    pub reason: String,
    /// Production time (seconds per item of the source) that the planner predicted for the mapping; `None` if the mapping was not planned.
    pub predicted: Option<f64>,
    /// Measured production time (seconds per item of the source) before the change of the mapping, if it was measured.
    pub before: Option<f64>,
    /// Measured production time (seconds per item of the source) some time after the change of the mapping.
    pub after: Option<f64>,
    /// Seconds that the stream lost by the change of the mapping. Until the mapping took effect, the loss is relative to the time per item before the
    /// change. From then until the last batch drawn before the change reached the sink, it is relative to the shorter of the times per item before
    /// and after. The value may be slightly negative if nothing was lost. `None` if a time per item is unknown, because another change, or the start
    /// or end of the stream, was too near.
    pub cost: Option<f64>,
    /// Cost of the change as a multiple of the time that the items in flight take, at the shorter of the times per item before and after
    /// the change.
    pub cost_windows: Option<f64>,
    /// Number of batches in flight when the mapping took effect.
    pub in_flight: usize,
}

impl Remap {
    fn because(reason: String, predicted: Option<f64>) -> Self {
        Remap {
            at: Duration::ZERO,
            items: 0,
            to: String::new(),
            reason,
            predicted,
            before: None,
            after: None,
            cost: None,
            cost_windows: None,
            in_flight: 0,
        }
    }

    pub(crate) fn first() -> Self {
        Remap::because("the stream began with it".into(), None)
    }

    pub(crate) fn planned(predicted: f64) -> Self {
        Remap::because("planned from the calibration".into(), Some(predicted))
    }

    pub(crate) fn scripted(after: u64) -> Self {
        Remap::because(format!("requested after {after} items"), None)
    }

    pub(crate) fn decided(reason: String, predicted: Option<f64>) -> Self {
        Remap::because(reason, predicted)
    }

    pub(crate) fn activate(&mut self, at: Duration, items: u64, in_flight: usize) {
        (self.at, self.items, self.in_flight) = (at, items, in_flight);
    }
}

/// Changes of the mapping that the program requested before the run, sorted by the number of items at the sink after which they are due.
#[derive(Debug, Default)]
pub(crate) struct Script(VecDeque<(u64, Mapping)>);

impl Script {
    pub(crate) fn resolve(
        requested: Vec<(u64, MappingChoice)>,
        stages: &[StageDef<'_>],
        ranks: usize,
    ) -> Result<Self> {
        let resolve = |(after, choice): (u64, MappingChoice)| match choice.resolve(stages, ranks)? {
            Some(mapping) => Ok((after, mapping)),
            None => {
                let text = format!("the mapping after {after} items is `auto`, expected an explicit mapping");
                Err(Error::new(ErrorKind::Mapping, text))
            }
        };
        let mut all: Vec<(u64, Mapping)> = requested.into_iter().map(resolve).collect::<Result<_>>()?;
        all.sort_by_key(|(after, _)| *after);
        Ok(Script(all.into()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn due(&mut self, items: u64) -> Option<Mapping> {
        self.0.front().filter(|(after, _)| *after <= items)?;
        self.0.pop_front().map(|(_, mapping)| mapping)
    }
}
