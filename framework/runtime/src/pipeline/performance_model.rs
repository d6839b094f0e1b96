//! From measurements to mappings: rank 0 keeps what all ranks have measured and asks the planner.

use std::time::Duration;

use armature_planner::estimate::{Fit, FitOptions, LinkEstimate, Measurement, Prior, fit};
use armature_planner::pipeline::{
    Dispatch, Mapping, PipelineSpec, Plan, PlanOptions, StageSpec, plan, production_time,
};
use armature_planner::{Link, Platform};

use super::core_sharing::CoreSharing;
use super::links::LinkTable;
use super::metrics::{Measurements, Service};
use super::run_spec::RunSpec;
use super::summary::seconds;
use crate::balance::probe::Probed;
use crate::error::{Error, ErrorKind, Result};
use crate::session::Balance;

/// How often ranks report what they have measured, and decisions may follow: a change of load is seen within a few of these, and
/// a report costs microseconds.
pub(super) const REPORT_EVERY: Duration = Duration::from_millis(50);
/// Items on which an estimate must stand before anything is decided by it.
const ENOUGH_ITEMS: u64 = 3;
/// How long a speed is believed that is not measured any more: one that a rank has shown at stages which have left it, and one
/// that was probed in an earlier run. Loads of other programs last about as long.
pub(super) const SPEED_LASTS: Duration = Duration::from_secs(5);
/// Evaluations of a short search; a long one has the planner's default.
const QUICK_BUDGET: usize = 8_000;
/// More items than this make an estimate no better.
const MOST_WEIGHT: f64 = 64.0;

/// The speed that a rank had, as a part of what was probed, when it last ran stages whose times are known.
#[derive(Clone, Copy, Debug)]
struct Shown {
    part: f64,
    at: Duration,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct PerformanceModel {
    outline: PipelineSpec,
    /// By stage: whether it makes several items of one.
    expanding: Vec<bool>,
    dispatch: Dispatch,
    balance: Balance,
    planned: bool,
    /// As it was probed, links too; a parked rank's speed as it was probed last. Every rank has its core to itself.
    platform: Platform,
    core_sharing: CoreSharing,
    /// Whether measurements tell what others take of a core: not under a simulator, where a rank's host slows down.
    of_core_time: bool,
    links: LinkTable,
    /// By rank: what it has reported.
    reported: Vec<Measurements>,
    /// By rank, for those that have run stages.
    shown: Vec<Option<Shown>>,
    /// By stage: its work, as last fitted. Where a service time has changed, it is likelier that a rank is loaded, and
    /// with it all its stages, than that each of these stages has become another.
    works: Vec<Option<f64>>,
    /// By stage: whether its state can go on elsewhere, where that is known.
    movable: Vec<bool>,
    /// By stage: what its factory takes, as far as that was seen.
    warm_up: Vec<Duration>,
    /// By rank and stage: whether the stage was made there once.
    warm: Vec<Vec<bool>>,
}

/// A platform and a pipeline as measured: what the planner is asked about.
#[derive(Debug)]
pub(crate) struct Model {
    platform: Platform,
    spec: PipelineSpec,
    dispatch: Dispatch,
}

/// Works and speeds that a decision stands on; see [`Model::inputs`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Inputs {
    pub(crate) works: Vec<f64>,
    pub(crate) speeds: Vec<f64>,
}

impl Inputs {
    /// Whether these and the others are of the same stages and ranks, and differ by no more than this part.
    pub(crate) fn are_like(&self, others: &Inputs, part: f64) -> bool {
        let alike = |a: &[f64], b: &[f64]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= part * a.abs().max(b.abs()))
        };
        alike(&self.works, &others.works) && alike(&self.speeds, &others.speeds)
    }
}

impl PerformanceModel {
    /// `simulated` where the clocks of all ranks agree, and no rank shares its core with others. There may be more ranks
    /// than a planner can look at.
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

    /// Whether the mapping may change while the stream runs.
    fn is_live(&self) -> bool {
        self.balance != Balance::Off
    }

    pub(crate) fn wants_measurements(&self) -> bool {
        self.planned || self.is_live()
    }

    pub(crate) fn measure_every(&self) -> Option<Duration> {
        self.is_live().then_some(REPORT_EVERY)
    }

    /// The links into `rank` as they were probed, by sender, if its traffic is to be watched.
    pub(crate) fn links_into(&self, rank: usize) -> Vec<Link> {
        let senders = if self.is_live() { self.reported.len() } else { 0 };
        (0..senders).map(|from| self.platform.link(from, rank)).collect()
    }

    /// Links that are known better `now` than they were when probed: from, to, estimate.
    pub(crate) fn links(&self, now: Duration) -> Vec<(usize, usize, LinkEstimate)> {
        self.links.estimates(now)
    }

    /// The platform was probed.
    pub(crate) fn probed(&mut self, Probed { platform, shares }: Probed) {
        self.core_sharing.probed(&shares);
        self.platform = platform;
    }

    /// A rank has set stages up.
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

    /// A rank has reported, `now`, what it measured.
    pub(crate) fn measured(
        &mut self,
        rank: usize,
        mut measurements: Measurements,
        now: Duration,
    ) -> Result<()> {
        self.links.reported(rank, std::mem::take(&mut measurements.links), now)?;
        // A frame may say anything; there are no more stages than these.
        measurements.services.truncate(self.outline.len());
        measurements.flows.resize(self.outline.len(), (0.0, 0.0));
        if let Some(speed) = measurements.speed {
            let mut speeds = self.platform.speeds().to_vec();
            speeds[rank] = speed;
            self.platform = self.platform.with_other_speeds(&speeds).map_err(nonsense)?;
        }
        self.core_sharing.measured(rank, &measurements, now);
        self.reported[rank] = measurements;
        Ok(())
    }

    /// What the measurements say `now`, under the mapping in force.
    pub(crate) fn model(&mut self, present: &Mapping, now: Duration) -> Result<Model> {
        let fit = self.fit(present, now)?;
        let alone = fit.speeds.iter().map(|speed| speed.value).collect();
        let is_host = |rank: usize| present.blocks.iter().any(|b| b.hosts.contains(&rank));
        let speeds = self.core_sharing.speeds(alone, is_host);
        let owner = |stage| present.block_of(stage).and_then(|b| present.blocks[b].hosts.first().copied());
        let reach = self.items_at_stages();
        // The planner's items are those of the source.
        let times = |n: usize| reach[n] + if self.expanding[n] { reach[n + 1] } else { 0.0 };
        let stage = |(n, stage): (usize, &StageSpec)| StageSpec {
            work: fit.works[n].map_or(0.0, |work| work.value * times(n)),
            output: self.bytes(n + 1) * reach[n + 1],
            // A serial stage whose state cannot be moved stays where it is.
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

    /// All estimates of service times: rank, stage, estimate.
    pub(crate) fn services(&self) -> Vec<(usize, usize, Service)> {
        let on = |(rank, reported): (usize, &Measurements)| {
            let known = reported.services.iter().enumerate();
            known.filter_map(|(stage, s)| s.map(|s| (rank, stage, s))).collect::<Vec<_>>()
        };
        self.reported.iter().enumerate().flat_map(on).collect()
    }

    /// Seconds that ranks spend on making the stages which `mapping` puts on them for the first time: the longest of
    /// them, as they do so at the same time.
    pub(crate) fn warm_up_cost(&self, mapping: &Mapping) -> f64 {
        let on = |(rank, warm): (usize, &Vec<bool>)| {
            let here = mapping.blocks.iter().filter(|b| b.hosts.contains(&rank));
            let cold = here.flat_map(|b| b.stages.clone()).filter(|&stage| !warm[stage]);
            cold.map(|stage| self.warm_up[stage].as_secs_f64()).sum::<f64>()
        };
        self.warm.iter().enumerate().map(on).fold(0.0, f64::max)
    }

    /// Whether enough is known to judge `mapping` and others: every stage has been measured on one of its hosts.
    pub(crate) fn is_settled(&self, mapping: &Mapping) -> bool {
        let known = |rank: usize, stage: usize| {
            let service = self.reported[rank].services.get(stage).copied().flatten();
            service.is_some_and(|s| s.items >= ENOUGH_ITEMS)
        };
        mapping.blocks.iter().all(|b| b.stages.clone().all(|stage| b.hosts.iter().any(|&r| known(r, stage))))
    }

    /// Works of stages and speeds of ranks that explain best how long stages take where they run at `present`.
    ///
    /// What a stage took on a rank that runs it no more is left out: the data may have changed since, and beside new times
    /// from other ranks that would look like a difference between the ranks. What stays is the speed that the rank had then.
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

    /// By stage, the sink last: how many items reach it for each of the source.
    fn items_at_stages(&self) -> Vec<f64> {
        let mut reach = vec![1.0];
        for stage in 0..self.outline.len() {
            let flow = |reported: &Measurements| reported.flows.get(stage).copied().unwrap_or_default();
            let (coming, made) =
                self.reported.iter().map(flow).fold((0.0, 0.0), |sum, flow| (sum.0 + flow.0, sum.1 + flow.1));
            let ratio = if coming > 0.0 { made / coming } else { 1.0 };
            reach.push(reach[stage] * ratio);
        }
        reach
    }

    /// Bytes of an item on an edge.
    fn bytes(&self, edge: usize) -> f64 {
        let volume = |reported: &Measurements| reported.volumes.get(edge).copied().unwrap_or_default();
        let (bytes, items) =
            self.reported.iter().map(volume).fold((0, 0), |(b, n), (bytes, items)| (b + bytes, n + items));
        if items > 0 { bytes as f64 / items as f64 } else { 0.0 }
    }
}

impl Model {
    /// The best mapping that is found, at least as good as those given but for what the planner gives away where ranks share cores.
    pub(crate) fn plan(&self, starts: &[Mapping]) -> Result<Plan> {
        self.search(PlanOptions::default().budget, starts)
    }

    /// Such a mapping, found in little time.
    pub(crate) fn quick_plan(&self, starts: &[Mapping]) -> Result<Plan> {
        self.search(QUICK_BUDGET, starts)
    }

    fn search(&self, budget: usize, starts: &[Mapping]) -> Result<Plan> {
        let starts = starts.to_vec();
        let options = PlanOptions { dispatch: self.dispatch, budget, starts, ..PlanOptions::default() };
        plan(&self.platform, &self.spec, &options)
            .map_err(|e| Error::new(ErrorKind::Mapping, format!("no mapping could be planned: {e}")))
    }

    /// Seconds between two results that are to be expected of a mapping.
    pub(crate) fn production_time(&self, mapping: &Mapping) -> Result<f64> {
        production_time(&self.platform, &self.spec, mapping, self.dispatch)
            .map(|prediction| prediction.production_time)
            .map_err(|e| Error::new(ErrorKind::Mapping, format!("the present mapping cannot be judged: {e}")))
    }

    /// Seconds that `stage` computes for an item on `rank`, also where it has never run.
    #[cfg(test)]
    pub(crate) fn seconds(&self, stage: usize, rank: usize) -> f64 {
        self.spec.stages[stage].work / self.platform.speeds()[rank]
    }

    /// Bytes on each edge for an item of the source.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Vec<f64> {
        std::iter::once(self.spec.input).chain(self.spec.stages.iter().map(|stage| stage.output)).collect()
    }

    /// What the model stands on: by stage the seconds for an item on the fastest rank, by rank its speed relative to that.
    pub(crate) fn inputs(&self) -> Inputs {
        let speeds = self.platform.speeds();
        let fastest = speeds.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        Inputs {
            works: self.spec.stages.iter().map(|stage| stage.work / fastest).collect(),
            speeds: speeds.iter().map(|speed| speed / fastest).collect(),
        }
    }

    /// The measurements in words.
    pub(crate) fn describe(&self) -> String {
        let speeds = self.platform.speeds();
        let on_root = |s: &StageSpec| format!("{} {}", s.name, seconds(s.work / speeds[0]));
        let stages: Vec<String> = self.spec.stages.iter().map(on_root).collect();
        let speeds: Vec<String> = speeds.iter().map(|s| format!("{:.2}", s / speeds[0])).collect();
        format!("{} an item on rank 0; relative speeds {}", stages.join(", "), speeds.join(" "))
    }
}

fn nonsense(error: armature_planner::Error) -> Error {
    Error::new(ErrorKind::Config, format!("measurements that make no sense: {error}"))
}
