//! From measurements to mappings: rank 0 keeps what all ranks have measured and asks the planner.

use std::time::Duration;

use armature_planner::pipeline::{Dispatch, PipelineSpec, Plan, PlanOptions, StageSpec, plan};
use armature_planner::{Link, Platform};

use super::conductor::Score;
use super::meter::Measures;
use crate::error::{Error, ErrorKind, Result};
use crate::session::Balance;

/// How often ranks tell what they have measured.
const TELL: Duration = Duration::from_millis(100);

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Balancer {
    outline: PipelineSpec,
    dispatch: Dispatch,
    balance: Balance,
    planned: bool,
    platform: Platform,
    /// By rank: what it last told.
    measures: Vec<Measures>,
    /// By stage: whether its state can go on elsewhere, where that is known.
    movable: Vec<bool>,
    /// By stage: what its factory takes, as far as that was seen.
    warm_up: Vec<Duration>,
}

impl Balancer {
    pub(crate) fn new(score: &Score, ranks: usize, balance: Balance) -> Self {
        let stages = score.outline.len();
        Balancer {
            outline: score.outline.clone(),
            dispatch: score.dispatch,
            balance,
            planned: score.mapping.is_none(),
            platform: Platform::with_speeds(&vec![1.0; ranks], Link::FREE),
            measures: vec![Measures::default(); ranks],
            movable: vec![false; stages],
            warm_up: vec![Duration::ZERO; stages],
        }
    }

    /// Whether the mapping may change while the stream runs.
    pub(crate) fn is_live(&self) -> bool {
        self.balance != Balance::Off
    }

    pub(crate) fn wants_measures(&self) -> bool {
        self.planned || self.is_live()
    }

    pub(crate) fn measure_every(&self) -> Option<Duration> {
        self.is_live().then_some(TELL)
    }

    /// The platform was probed.
    pub(crate) fn probed(&mut self, platform: Platform) {
        self.platform = platform;
    }

    /// A rank has set stages up.
    pub(crate) fn ready(&mut self, _rank: usize, movable: &[usize], warm_up: &[(usize, Duration)]) {
        for &stage in movable {
            if let Some(movable) = self.movable.get_mut(stage) {
                *movable = true;
            }
        }
        for &(stage, took) in warm_up {
            if let Some(longest) = self.warm_up.get_mut(stage) {
                *longest = took.max(*longest);
            }
        }
    }

    /// A rank has told what it measured.
    pub(crate) fn measured(&mut self, rank: usize, measures: Measures) {
        self.measures[rank] = measures;
    }

    /// The best mapping for what has been measured.
    pub(crate) fn plan(&self) -> Result<Plan> {
        let options = PlanOptions { dispatch: self.dispatch, ..PlanOptions::default() };
        plan(&self.platform, &self.spec(), &options)
            .map_err(|e| Error::new(ErrorKind::Mapping, format!("no mapping could be planned: {e}")))
    }

    /// The pipeline with the costs that were measured. A serial stage whose state cannot be moved stays.
    fn spec(&self) -> PipelineSpec {
        let stage = |(n, stage): (usize, &StageSpec)| StageSpec {
            work: self.work(n),
            output: self.bytes(n + 1),
            pinned: stage.pinned.or((stage.serial && !self.movable[n]).then_some(0)),
            ..stage.clone()
        };
        PipelineSpec {
            input: self.bytes(0),
            stages: self.outline.stages.iter().enumerate().map(stage).collect(),
        }
    }

    /// Work of a stage: seconds on a rank times its speed.
    fn work(&self, stage: usize) -> f64 {
        let on = |(rank, measures): (usize, &Measures)| {
            let service = measures.services.get(stage).copied().flatten()?;
            Some((service.seconds * self.platform.speeds()[rank], service.items as f64))
        };
        let (sum, items) = self
            .measures
            .iter()
            .enumerate()
            .filter_map(on)
            .fold((0.0, 0.0), |(sum, all), (work, items)| (sum + work * items, all + items));
        if items > 0.0 { sum / items } else { 0.0 }
    }

    /// Bytes of an item on an edge.
    fn bytes(&self, edge: usize) -> f64 {
        let volume = |m: &Measures| m.volumes.get(edge).copied().unwrap_or_default();
        let (bytes, items) =
            self.measures.iter().map(volume).fold((0, 0), |(b, n), (bytes, items)| (b + bytes, n + items));
        if items > 0 { bytes as f64 / items as f64 } else { 0.0 }
    }

    /// The measurements in words.
    pub(crate) fn describe(&self) -> String {
        let speeds = self.platform.speeds();
        let stages: Vec<String> = self
            .outline
            .stages
            .iter()
            .enumerate()
            .map(|(n, s)| format!("{} {}", s.name, super::summary::seconds(self.work(n) / speeds[0])))
            .collect();
        let speeds: Vec<String> = speeds.iter().map(|s| format!("{:.2}", s / speeds[0])).collect();
        format!("{} an item on rank 0; relative speeds {}", stages.join(", "), speeds.join(" "))
    }
}
