//! Performance model of a pipeline on rank 0: collects the measurements of all ranks and derives the planner's input from them.

use std::time::Duration;

use armature_planner::estimate::{Fit, FitOptions, LinkEstimate, Measurement, Prior, fit};
use armature_planner::pipeline::{
    Dispatch, Mapping, PipelineSpec, Plan, PlanOptions, StageSpec, plan, production_time,
};
use armature_planner::{Link, Platform};

use super::core_sharing::CoreSharing;
use super::links::{LinkTable, equal_runs};
use super::metrics::{Measurements, Service};
use super::run_spec::RunSpec;
use super::summary::seconds;
use crate::balance::probe::Probed;
use crate::error::{Error, ErrorKind, Result};
use crate::session::Balance;

/// Interval at which ranks report measurements to rank 0, and minimum time between two decisions about the mapping. Rank 0 notices a change of load
/// within a few intervals, and a report costs microseconds.
pub(super) const REPORT_EVERY: Duration = Duration::from_millis(50);
/// Minimum number of timed items behind an estimate of a service time that may be used for a decision about the mapping.
const ENOUGH_ITEMS: u64 = 3;
/// Time for which the last measured speed of a rank is used after its stages have left the rank, or after an earlier run measured it. Loads of other
/// programs last about as long.
pub(super) const SPEED_LASTS: Duration = Duration::from_secs(5);
/// Number of mappings that a quick search evaluates. A thorough search uses the planner's default.
const QUICK_BUDGET: usize = 8_000;
/// Maximum weight, in timed items, of a measured service time when the works of the stages and the speeds of the ranks are fitted to the service
/// times. More items do not make the measurement better.
const MOST_WEIGHT: f64 = 64.0;

/// Speed of a rank that follows from the service times of its stages, as a fraction of the speed measured at the start.
#[derive(Clone, Copy, Debug)]
struct Shown {
    part: f64,
    at: Duration,
}

#[derive(Debug)]
pub(crate) struct PerformanceModel {
    outline: PipelineSpec,
    expanding: Vec<bool>,
    dispatch: Dispatch,
    balance: Balance,
    planned: bool,
    /// Links and speeds of the ranks as measured at the start, or since then on ranks without stages. Speeds are those of ranks with a core of their
    /// own.
    platform: Platform,
    has_given_speeds: bool,
    core_sharing: CoreSharing,
    /// True if a rank can measure the time in which other threads have its core. False in a simulation, in which load on a rank makes its host
    /// slower.
    of_core_time: bool,
    links: LinkTable,
    reported: Vec<Measurements>,
    /// For each rank that has run stages: speed that follows from their service times.
    shown: Vec<Option<Shown>>,
    /// For each stage: work (seconds per item on a rank of speed 1) from the last fit of works and speeds to the measured service times. The next fit
    /// starts from these works and prefers a change of a rank's speed to a change of the works of all its stages, because a load on the rank is the
    /// more likely cause.
    works: Vec<Option<f64>>,
    /// For each stage: true if it is serial and can migrate to another rank.
    movable: Vec<bool>,
    /// For each stage: longest measured time of a call of its factory.
    warm_up: Vec<Duration>,
    /// By rank and stage: true if the rank has created the stage.
    warm: Vec<Vec<bool>>,
}

/// Input of the planner: measured ranks, links and stages.
#[derive(Debug)]
pub(crate) struct Model {
    platform: Platform,
    spec: PipelineSpec,
    dispatch: Dispatch,
}

/// Works of the stages (seconds per item on the fastest rank) and relative speeds of the ranks, on which a decision is based; see [`Model::inputs`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Inputs {
    pub(crate) works: Vec<f64>,
    pub(crate) speeds: Vec<f64>,
}

impl Inputs {
    /// Returns true if `self` and `others` have equally many stages and ranks, and no work or speed differs by more than the fraction `part`.
    pub(crate) fn are_like(&self, others: &Inputs, part: f64) -> bool {
        let alike = |a: &[f64], b: &[f64]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= part * a.abs().max(b.abs()))
        };
        alike(&self.works, &others.works) && alike(&self.speeds, &others.speeds)
    }
}

impl PerformanceModel {
    /// Creates the model for `ranks` ranks. In a simulation (`simulated`) the clocks of all ranks agree and no rank shares its core. Returns an error
    /// if there are more ranks than the planner supports.
    pub(crate) fn new(
        run_spec: &RunSpec<'_>,
        ranks: usize,
        balance: Balance,
        simulated: bool,
    ) -> Result<Self> {
        let stages = run_spec.outline.len();
        let platform = Platform::with_speeds(&vec![1.0; ranks], Link::FREE);
        Ok(PerformanceModel {
            outline: run_spec.outline.clone(),
            expanding: run_spec.expanding.clone(),
            dispatch: run_spec.dispatch,
            balance,
            planned: run_spec.mapping.is_none(),
            platform: platform.map_err(|error| Error::new(ErrorKind::Config, error.to_string()))?,
            has_given_speeds: false,
            core_sharing: CoreSharing::new(run_spec.sharing, ranks),
            of_core_time: !simulated,
            links: LinkTable::new(ranks, simulated),
            reported: vec![Measurements::default(); ranks],
            shown: vec![None; ranks],
            works: vec![None; stages],
            movable: vec![false; stages],
            warm_up: vec![Duration::ZERO; stages],
            warm: vec![vec![false; stages]; ranks],
        })
    }

    fn is_live(&self) -> bool {
        self.balance != Balance::Off
    }

    pub(crate) fn wants_measurements(&self) -> bool {
        self.planned || self.is_live()
    }

    pub(crate) fn measure_every(&self) -> Option<Duration> {
        self.is_live().then_some(REPORT_EVERY)
    }

    /// Returns the links into `rank`, by sender, as measured at the start, in the form of [`equal_runs`]; empty if links are not monitored.
    pub(crate) fn links_into(&self, rank: usize) -> Vec<(usize, Link)> {
        let senders = if self.is_live() { self.reported.len() } else { 0 };
        let links: Vec<Link> = (0..senders).map(|from| self.platform.link(from, rank)).collect();
        equal_runs(&links)
    }

    /// Returns the links for which there is an estimate of latency and bandwidth from the traffic up to time `now`: sender, receiver, estimate.
    pub(crate) fn links(&self, now: Duration) -> Vec<(usize, usize, LinkEstimate)> {
        self.links.estimates(now)
    }

    /// Adopts the result of a probe of all ranks (measurement of speeds and links). If `are_given` is true, the user has given the speeds, and later
    /// probes of single ranks are ignored, because given speeds may have another unit.
    pub(crate) fn probed(&mut self, Probed { platform, shares }: Probed, are_given: bool) {
        self.core_sharing.probed(&shares);
        (self.platform, self.has_given_speeds) = (platform, are_given);
    }

    /// Records that a rank has created the stages in `warm_up`, each with the duration of the call of its factory, and that the stages in `movable`
    /// can migrate to another rank.
    pub(crate) fn ready(&mut self, rank: usize, movable: &[usize], warm_up: &[(usize, Duration)]) {
        for &stage in movable {
            if let Some(movable) = self.movable.get_mut(stage) {
                *movable = true;
            }
        }
        for &(stage, took) in warm_up {
            if let Some(longest) = self.warm_up.get_mut(stage) {
                *longest = took.max(*longest);
                self.warm[rank][stage] = true;
            }
        }
    }

    pub(crate) fn measured(
        &mut self,
        rank: usize,
        mut measurements: Measurements,
        now: Duration,
    ) -> Result<()> {
        self.links.reported(rank, std::mem::take(&mut measurements.links), now)?;
        // A received message may contain more stages than the pipeline has; their service times are dropped.
        measurements.services.truncate(self.outline.len());
        measurements.flows.resize(self.outline.len(), (0.0, 0.0));
        if let Some(speed) = measurements.speed.filter(|_| !self.has_given_speeds) {
            self.platform.set_speed(rank, speed).map_err(nonsense)?;
        }
        self.core_sharing.measured(rank, &measurements, now);
        self.reported[rank] = measurements;
        Ok(())
    }

    /// Returns the planner's input (works of stages, sizes of items, speeds, links) from the measurements up to time `now`, under the current mapping
    /// `present`.
    pub(crate) fn model(&mut self, present: &Mapping, now: Duration) -> Result<Model> {
        let fit = self.fit(present, now)?;
        let alone = fit.speeds.iter().map(|speed| speed.value).collect();
        let is_host = |rank: usize| present.blocks.iter().any(|b| b.hosts.contains(&rank));
        let speeds = self.core_sharing.speeds(alone, is_host);
        let owner = |stage| present.block_of(stage).and_then(|b| present.blocks[b].hosts.first().copied());
        let reach = self.items_at_stages();
        // The planner expects the work of a stage per item of the source, not per input item of the stage.
        let times = |n: usize| reach[n] + if self.expanding[n] { reach[n + 1] } else { 0.0 };
        let stage = |(n, stage): (usize, &StageSpec)| StageSpec {
            work: fit.works[n].map_or(0.0, |work| work.value * times(n)),
            output: self.bytes(n + 1) * reach[n + 1],
            // A serial stage whose state cannot migrate must stay on its rank.
            pinned: stage.pinned.or_else(|| owner(n).filter(|_| stage.serial && !self.movable[n])),
            ..stage.clone()
        };
        let stages = self.outline.stages.iter().enumerate().map(stage).collect();
        let spec = PipelineSpec { input: self.bytes(0), stages };
        let platform = self.platform.with_other_speeds(&speeds).map_err(nonsense)?;
        let mut platform = platform.with_shared_cores(self.core_sharing.groups()).map_err(nonsense)?;
        self.links.correct(&mut platform, now)?;
        self.works = fit.works.iter().map(|work| work.map(|work| work.value)).collect();
        Ok(Model { platform, spec, dispatch: self.dispatch })
    }

    pub(crate) fn services(&self) -> Vec<(usize, usize, Service)> {
        let on = |(rank, reported): (usize, &Measurements)| {
            let known = reported.services.iter().enumerate();
            known.filter_map(|(stage, s)| s.map(|s| (rank, stage, s))).collect::<Vec<_>>()
        };
        self.reported.iter().enumerate().flat_map(on).collect()
    }

    /// Returns the seconds that ranks need to create the stages that `mapping` places on them for the first time. Ranks create stages at the same
    /// time, so this is the longest time of one rank.
    pub(crate) fn warm_up_cost(&self, mapping: &Mapping) -> f64 {
        let on = |(rank, warm): (usize, &Vec<bool>)| {
            let here = mapping.blocks.iter().filter(|b| b.hosts.contains(&rank));
            let cold = here.flat_map(|b| b.stages.clone()).filter(|&stage| !warm[stage]);
            cold.map(|stage| self.warm_up[stage].as_secs_f64()).sum::<f64>()
        };
        self.warm.iter().enumerate().map(on).fold(0.0, f64::max)
    }

    /// Returns true if every stage has been measured on one of its ranks under `mapping`, so that the times of other mappings can be predicted.
    pub(crate) fn is_settled(&self, mapping: &Mapping) -> bool {
        let known = |rank: usize, stage: usize| {
            let service = self.reported[rank].services.get(stage).copied().flatten();
            service.is_some_and(|s| s.items >= ENOUGH_ITEMS)
        };
        mapping.blocks.iter().all(|b| b.stages.clone().all(|stage| b.hosts.iter().any(|&r| known(r, stage))))
    }

    /// Fits works of stages and speeds of ranks to the measured service times on the ranks that run the stages under the current mapping `present`.
    ///
    /// Service times of a stage on ranks that no longer run it are left out. The items of the stream may have become cheaper or more expensive since
    /// then, which would look like a difference between the speeds of ranks. For a rank that runs no measured stage now, the speed from an earlier
    /// fit is used for a limited time.
    fn fit(&mut self, present: &Mapping, now: Duration) -> Result<Fit> {
        let is_host = |rank: usize, stage: usize| {
            present.block_of(stage).is_some_and(|b| present.blocks[b].hosts.contains(&rank))
        };
        let here = self.services().into_iter().filter(|&(rank, stage, _)| is_host(rank, stage));
        let seen: Vec<Measurement> = here
            .map(|(rank, stage, service)| Measurement {
                stage,
                rank,
                seconds: service.seconds.value,
                weight: (service.items as f64).min(MOST_WEIGHT),
            })
            .collect();
        let mut is_seen = vec![false; self.shown.len()];
        seen.iter().for_each(|m| is_seen[m.rank] = true);
        let probed = self.platform.speeds();
        let before = |(rank, (&speed, shown)): (usize, (&f64, &Option<Shown>))| {
            let shown = shown.filter(|shown| !is_seen[rank] && now.saturating_sub(shown.at) <= SPEED_LASTS);
            speed * shown.map_or(1.0, |shown| shown.part)
        };
        let speeds = probed.iter().zip(&self.shown).enumerate().map(before).collect();
        let prior = Prior { speeds, works: self.works.clone() };
        let options = if self.of_core_time { FitOptions::of_core_time() } else { FitOptions::default() };
        let fit = fit(&seen, &prior, &options).map_err(nonsense)?;
        for (rank, shown) in self.shown.iter_mut().enumerate().filter(|&(rank, _)| is_seen[rank]) {
            *shown = Some(Shown { part: fit.speeds[rank].value / probed[rank], at: now });
        }
        Ok(fit)
    }

    /// Returns, for each stage and finally for the sink, the number of items that reach it per source item.
    fn items_at_stages(&self) -> Vec<f64> {
        let mut reach = vec![1.0];
        for stage in 0..self.outline.len() {
            let flow = |reported: &Measurements| reported.flows.get(stage).copied().unwrap_or_default();
            let (input_items, produced) =
                self.reported.iter().map(flow).fold((0.0, 0.0), |sum, flow| (sum.0 + flow.0, sum.1 + flow.1));
            let ratio = if input_items > 0.0 { produced / input_items } else { 1.0 };
            reach.push(reach[stage] * ratio);
        }
        reach
    }

    /// Returns the mean size in bytes of an item on `edge` (the connection between two stages).
    fn bytes(&self, edge: usize) -> f64 {
        let volume = |reported: &Measurements| reported.volumes.get(edge).copied().unwrap_or_default();
        let (bytes, items) =
            self.reported.iter().map(volume).fold((0, 0), |(b, n), (bytes, items)| (b + bytes, n + items));
        if items > 0 { bytes as f64 / items as f64 } else { 0.0 }
    }
}

impl Model {
    /// Returns the best mapping that the planner's thorough search finds. It is at least as good as every mapping in `starts`; if ranks
    /// share cores, it may be worse by a small tolerance of the planner.
    pub(crate) fn plan(&self, starts: &[Mapping]) -> Result<Plan> {
        self.search(PlanOptions::default().budget, starts)
    }

    pub(crate) fn quick_plan(&self, starts: &[Mapping]) -> Result<Plan> {
        self.search(QUICK_BUDGET, starts)
    }

    fn search(&self, budget: usize, starts: &[Mapping]) -> Result<Plan> {
        let starts = starts.to_vec();
        let options = PlanOptions { dispatch: self.dispatch, budget, starts, ..PlanOptions::default() };
        plan(&self.platform, &self.spec, &options)
            .map_err(|e| Error::new(ErrorKind::Mapping, format!("no mapping was found: {e}")))
    }

    /// Returns the predicted time per source item under a mapping, in seconds.
    pub(crate) fn production_time(&self, mapping: &Mapping) -> Result<f64> {
        production_time(&self.platform, &self.spec, mapping, self.dispatch)
            .map(|prediction| prediction.production_time)
            .map_err(|e| {
                Error::new(ErrorKind::Mapping, format!("the current mapping cannot be evaluated: {e}"))
            })
    }

    /// Returns the predicted service time of `stage` per item on `rank` in seconds, even if the stage has never run there.
    #[cfg(test)]
    pub(crate) fn seconds(&self, stage: usize, rank: usize) -> f64 {
        self.spec.stages[stage].work / self.platform.speeds()[rank]
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Vec<f64> {
        std::iter::once(self.spec.input).chain(self.spec.stages.iter().map(|stage| stage.output)).collect()
    }

    /// Returns the measurements on which the model depends: the seconds of each stage per source item on the fastest rank, and the speed of each rank
    /// relative to the fastest one.
    pub(crate) fn inputs(&self) -> Inputs {
        let speeds = self.platform.speeds();
        let fastest = speeds.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        Inputs {
            works: self.spec.stages.iter().map(|stage| stage.work / fastest).collect(),
            speeds: speeds.iter().map(|speed| speed / fastest).collect(),
        }
    }

    pub(crate) fn describe(&self) -> String {
        let speeds = self.platform.speeds();
        let on_root = |s: &StageSpec| format!("{} {}", s.name, seconds(s.work / speeds[0]));
        let stages: Vec<String> = self.spec.stages.iter().map(on_root).collect();
        let speeds: Vec<String> = speeds.iter().map(|s| format!("{:.2}", s / speeds[0])).collect();
        format!("{} an item on rank 0; relative speeds {}", stages.join(", "), speeds.join(" "))
    }
}

fn nonsense(error: armature_planner::Error) -> Error {
    Error::new(ErrorKind::Config, format!("invalid measurements: {error}"))
}
