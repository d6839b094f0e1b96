//! The changes of mapping in a run: those asked for in advance, and what is known of each.

use std::collections::VecDeque;
use std::time::Duration;

use armature_planner::pipeline::Mapping;
use serde::{Deserialize, Serialize};

use super::choice::MappingChoice;
use super::stage_def::StageDef;
use crate::error::{Error, ErrorKind, Result};

/// A mapping that came into force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Remap {
    /// When, since the run began.
    pub at: Duration,
    /// Items that had reached the sink by then.
    pub items: u64,
    /// The mapping in its text form.
    pub to: String,
    /// Why, in one sentence.
    pub reason: String,
    /// Seconds between two results that the planner expected of it, if it was planned.
    pub predicted: Option<f64>,
    /// Seconds between two results as measured before it came into force, if that was looked at.
    pub before: Option<f64>,
    /// The same some time after.
    pub after: Option<f64>,
    /// Seconds that the stream lost by the change: until it was in force, against the pace before, and from then until
    /// the last batch drawn before it had reached the sink, against the better of the paces before and after. Slightly
    /// negative where it lost nothing and the paces were measured a little too slow. Unknown if another change or the
    /// end of the stream came too soon after it, or it too soon after another or the start.
    pub cost: Option<f64>,
    /// The same as a multiple of the time that the items in flight, when it came into force, take at the better pace.
    pub cost_windows: Option<f64>,
    /// Batches in flight when it came into force.
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

    /// The mapping that the stream begins with.
    pub(crate) fn first() -> Self {
        Remap::because("the stream began with it".into(), None)
    }

    /// The mapping that was planned from the calibration.
    pub(crate) fn planned(predicted: f64) -> Self {
        Remap::because("planned from the calibration".into(), Some(predicted))
    }

    /// A mapping that was asked for in advance.
    pub(crate) fn scripted(after: u64) -> Self {
        Remap::because(format!("asked for after {after} items"), None)
    }

    /// A mapping that the tuner has found to pay.
    pub(crate) fn decided(reason: String, predicted: Option<f64>) -> Self {
        Remap::because(reason, predicted)
    }

    pub(crate) fn in_force(&mut self, at: Duration, items: u64, in_flight: usize) {
        (self.at, self.items, self.in_flight) = (at, items, in_flight);
    }
}

/// Changes of mapping that the caller has asked for, by number of items.
#[derive(Debug, Default)]
pub(crate) struct Script(VecDeque<(u64, Mapping)>);

impl Script {
    /// Reads the mappings and puts them in order.
    pub(crate) fn resolve(
        asked: Vec<(u64, MappingChoice)>,
        stages: &[StageDef<'_>],
        ranks: usize,
    ) -> Result<Self> {
        let resolve = |(after, choice): (u64, MappingChoice)| match choice.resolve(stages, ranks)? {
            Some(mapping) => Ok((after, mapping)),
            None => {
                let text = format!("the mapping after {after} items must be given, not planned");
                Err(Error::new(ErrorKind::Mapping, text))
            }
        };
        let mut all: Vec<(u64, Mapping)> = asked.into_iter().map(resolve).collect::<Result<_>>()?;
        all.sort_by_key(|(after, _)| *after);
        Ok(Script(all.into()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next mapping, if it is due when `items` items have reached the sink.
    pub(crate) fn due(&mut self, items: u64) -> Option<Mapping> {
        self.0.front().filter(|(after, _)| *after <= items)?;
        self.0.pop_front().map(|(_, mapping)| mapping)
    }
}
