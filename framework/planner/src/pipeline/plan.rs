//! Entry point of the planners of pipelines: `plan` finds a mapping of stages to processors with one of the planning algorithms.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::dispatch::Dispatch;
use super::mapping::{Block, Mapping};
use super::model::capacity::{Capacity, Hosted};
use super::model::costs::Costs;
use super::model::{Prediction, pace, predict};
use super::rules::Rules;
use super::search::hedpm::Hedpm;
use super::search::refine::{self, Problem};
use super::search::repair::repair;
use super::search::stop::Stop;
use super::search::{bsc, dpm, flexible, starts};
use super::spec::PipelineSpec;
use crate::error::{Error, ErrorKind, Result};
use crate::platform::Platform;

/// Planning algorithm for pipelines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Heterogeneous dynamic pipeline mapping (Algorithms 4.1 and 4.2 of the HeDPM paper).
    Hedpm,
    /// Dynamic pipeline mapping, the homogeneous predecessor of HeDPM, which assumes equal processors.
    Dpm,
    /// Binary search closest: intervals of stages on single processors, without replicas.
    Bsc,
    /// Local search from the best mappings of the other planners. The result is never worse than that of HeDPM or BSC, except by up to 2 % if
    /// processors share cores.
    #[default]
    Refined,
}

/// Options of the planner of pipelines.
///
/// ```
/// use armature_planner::pipeline::{Algorithm, PlanOptions};
///
/// let options = PlanOptions { algorithm: Algorithm::Hedpm, ..PlanOptions::default() };
/// assert_eq!(options.radius, 0.05);
/// ```
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// Planning algorithm to use.
    pub algorithm: Algorithm,
    /// Dispatch of items to the processors that run replicas of the same stages.
    pub dispatch: Dispatch,
    /// Relative deviation up to which the planner HeDPM counts the time of a block (group of stages) as equal to the ideal time of a block.
    pub radius: f64,
    /// True if several stages may be replicated together as one block. In the HeDPM paper, only single stages are replicated.
    pub replicate_groups: bool,
    /// True if a processor may host several blocks of stages. In the HeDPM paper a processor hosts one block. With dispatch on demand, two replicated
    /// blocks share all their processors or none.
    pub share_processors: bool,
    /// Maximum number of mappings that [`Algorithm::Refined`] evaluates.
    pub budget: usize,
    /// Additional mappings from which [`Algorithm::Refined`] starts, such as the current mapping. The plan is not slower than any of them, except by
    /// up to 2 % if processors share cores. A start mapping that breaks a rule of these options is ignored.
    pub starts: Vec<Mapping>,
    /// Flag that another thread can set to end the search early with the best mapping found.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for PlanOptions {
    /// Returns options for the refined planner, with dispatch on demand, replicated groups of stages and shared processors.
    fn default() -> Self {
        PlanOptions {
            algorithm: Algorithm::default(),
            dispatch: Dispatch::default(),
            radius: 0.05,
            replicate_groups: true,
            share_processors: true,
            budget: 80_000,
            starts: Vec::new(),
            stop: None,
        }
    }
}

impl PlanOptions {
    /// Returns options with the rules of the HeDPM paper: round robin, replicas of single stages, one block per processor.
    pub fn paper(algorithm: Algorithm) -> Self {
        PlanOptions {
            algorithm,
            dispatch: Dispatch::RoundRobin,
            replicate_groups: false,
            share_processors: false,
            ..PlanOptions::default()
        }
    }
}

/// Result of the planner: a mapping with its predicted performance.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Mapping of stages to processors.
    pub mapping: Mapping,
    /// Performance that the model predicts for the mapping.
    pub prediction: Prediction,
    /// Production times in seconds of the mappings of other planners that the algorithm called. For [`Algorithm::Refined`] these are HeDPM and BSC.
    pub parents: Vec<(Algorithm, f64)>,
    /// Number of mappings that the search evaluated.
    pub evaluations: usize,
    /// False if the stop flag ended the search before its budget of evaluations was used.
    pub complete: bool,
}

/// Finds a mapping of the pipeline to the platform.
///
/// The result depends on the arguments alone, unless the stop flag is set during the search: equal arguments always give the same plan.
///
/// # Errors
/// [`ErrorKind::Pipeline`] if the pipeline cannot be planned on this platform. [`ErrorKind::Options`] if the radius is negative, 1 or more.
/// [`ErrorKind::Mapping`] if a start mapping is not a mapping of this pipeline to this platform. [`ErrorKind::Infeasible`] if no mapping satisfies
/// the rules, which happens if pinned stages need a shared processor and the options exclude sharing.
///
/// ```
/// use armature_planner::pipeline::{PipelineSpec, PlanOptions, StageSpec, plan};
/// use armature_planner::{Link, Platform};
///
/// let spec = PipelineSpec::new(0.0)
///     .stage(StageSpec::new("load", 1.0, 0.0).serial().pinned(0))
///     .stage(StageSpec::new("seg", 4.0, 0.0))
///     .stage(StageSpec::new("rank", 4.0, 0.0))
///     .stage(StageSpec::new("out", 1.0, 0.0).serial().pinned(0));
/// let platform = Platform::uniform(2, 1.0, Link::FREE)?.with_ext_on(0)?;
/// let plan = plan(&platform, &spec, &PlanOptions::default())?;
/// assert_eq!(plan.mapping.display(&spec).to_string(), "load@0 | seg+rank@0,1 | out@0");
/// assert!((plan.prediction.production_time - 5.0).abs() < 1e-9);
/// # Ok::<(), armature_planner::Error>(())
/// ```
pub fn plan(platform: &Platform, spec: &PipelineSpec, options: &PlanOptions) -> Result<Plan> {
    spec.validate(platform.processors())?;
    if !(0.0..1.0).contains(&options.radius) {
        let message = format!("the radius must be at least 0 and less than 1, but is {}", options.radius);
        return Err(Error::new(ErrorKind::Options, message));
    }
    for start in &options.starts {
        start.validate(spec, platform.processors())?;
    }
    let rules = Rules {
        dispatch: options.dispatch,
        replicate_groups: options.replicate_groups,
        share: options.share_processors,
    };
    let costs = Costs::new(platform, spec);
    let planner =
        Planner { platform, spec, options, rules, costs: &costs, stop: Stop::new(options.stop.as_deref()) };
    let found = match options.algorithm {
        Algorithm::Hedpm => planner.hedpm()?,
        Algorithm::Dpm => planner.dpm()?,
        Algorithm::Bsc => planner.bsc()?,
        Algorithm::Refined => planner.refined(options.budget)?,
    };
    let mapping = Mapping::new(tidied(found.blocks));
    let prediction = predict(&costs, &mapping, options.dispatch);
    let Found { parents, evaluations, complete, .. } = found;
    Ok(Plan { mapping, prediction, parents, evaluations, complete })
}

/// Returns the mapping in its simplest form: hosts in ascending order, and adjacent blocks on the same single processor merged.
fn tidied(blocks: Vec<Block>) -> Vec<Block> {
    let mut tidy: Vec<Block> = Vec::new();
    for mut block in blocks {
        block.hosts.sort_unstable();
        match tidy.last_mut() {
            Some(last) if last.hosts == block.hosts && !block.is_replicated() => {
                last.stages.end = block.stages.end
            }
            _ => tidy.push(block),
        }
    }
    tidy
}

struct Found {
    blocks: Vec<Block>,
    time: f64,
    parents: Vec<(Algorithm, f64)>,
    evaluations: usize,
    complete: bool,
}

struct Planner<'a> {
    platform: &'a Platform,
    spec: &'a PipelineSpec,
    options: &'a PlanOptions,
    rules: Rules,
    costs: &'a Costs,
    stop: Stop<'a>,
}

impl Planner<'_> {
    fn hedpm(&self) -> Result<Found> {
        self.best_of(self.hedpm_sweep())
    }

    fn dpm(&self) -> Result<Found> {
        let (blocks, evaluations) =
            dpm::dpm(self.platform, self.spec, self.rules.dispatch, self.options.radius)?;
        let found = self.best_of(vec![blocks])?;
        Ok(Found { evaluations, ..found })
    }

    fn bsc(&self) -> Result<Found> {
        let (blocks, evaluations) = bsc::bsc(self.costs);
        let found = self.best_of(vec![blocks])?;
        Ok(Found { evaluations, ..found })
    }

    fn hedpm_sweep(&self) -> Vec<Vec<Block>> {
        let hedpm =
            Hedpm::new(self.platform, self.spec, self.costs, self.rules.dispatch, self.options.radius);
        let mut sweep: Vec<Vec<Block>> = Vec::new();
        for (blocks, _) in hedpm.sweep() {
            if !sweep.contains(&blocks) {
                sweep.push(blocks);
            }
        }
        sweep
    }

    /// Repairs each mapping so that pinned stages are on their processors, drops those that cannot be repaired, and returns the fastest.
    fn best_of(&self, candidates: Vec<Vec<Block>>) -> Result<Found> {
        let evaluations = candidates.len();
        let mut best: Option<(Vec<Block>, f64)> = None;
        for blocks in candidates.into_iter().filter_map(|blocks| repair(self.spec, self.rules, blocks)) {
            let time = pace(self.costs, &blocks, self.rules.dispatch);
            if best.as_ref().is_none_or(|(_, least)| time < *least) {
                best = Some((blocks, time));
            }
        }
        let (blocks, time) = best.ok_or_else(|| {
            let message = "the pinned stages need a processor that hosts several blocks, which share_processors \
                           rules out";
            Error::new(ErrorKind::Infeasible, message)
        })?;
        Ok(Found { blocks, time, parents: Vec::new(), evaluations, complete: true })
    }

    fn refined(&self, budget: usize) -> Result<Found> {
        let sweep = self.hedpm_sweep();
        let hedpm = self.best_of(sweep)?;
        let bsc = self.bsc()?;
        let mut starts = vec![hedpm.blocks, bsc.blocks];
        let all: Vec<usize> = (0..self.platform.processors()).collect();
        let serial_hosts = [self.platform.ext_on(), fastest(self.platform)];
        let simple = serial_hosts
            .into_iter()
            .flatten()
            .filter_map(|p| starts::normal_form(self.spec, self.rules, &all, p))
            .chain([starts::on_one(self.costs, self.rules)])
            .filter_map(|blocks| repair(self.spec, self.rules, blocks));
        let given = self.options.starts.iter().filter(|start| self.allows(start));
        let given = given.map(|start| start.blocks.clone());
        for blocks in given.chain(simple) {
            if !starts.contains(&blocks) {
                starts.push(blocks);
            }
        }
        let problem = Problem::new(self.spec, self.costs, self.rules);
        let refined = refine::refine(problem, &starts, budget, &self.stop);
        // The mapping that the local search found is evaluated again together with the start mappings, so that rounding errors cannot make the result
        // worse than a start mapping.
        let found = self.best_of([vec![refined.blocks], starts].concat())?;
        let flexible = flexible::instead_of((&found.blocks, found.time), self.spec, self.costs, self.rules);
        let (blocks, time) = flexible.unwrap_or((found.blocks, found.time));
        Ok(Found {
            parents: vec![(Algorithm::Hedpm, hedpm.time), (Algorithm::Bsc, bsc.time)],
            evaluations: hedpm.evaluations + bsc.evaluations + refined.evaluations,
            complete: refined.complete,
            blocks,
            time,
        })
    }

    fn allows(&self, mapping: &Mapping) -> bool {
        let Rules { dispatch, share, .. } = self.rules;
        let hosted: Vec<_> =
            mapping.blocks.iter().map(|block| Hosted { hosts: &block.hosts, times: &[] }).collect();
        let overlaps_in_part =
            || Capacity::new(dispatch, self.platform.processors()).overlaps_in_part(&hosted);
        mapping.blocks.iter().all(|block| self.rules.allow(self.spec, &block.stages, &block.hosts))
            && (share || !mapping.shares_processors())
            && !(dispatch == Dispatch::OnDemand && overlaps_in_part())
    }
}

fn fastest(platform: &Platform) -> Option<usize> {
    let speeds = platform.speeds();
    (0..speeds.len()).reduce(|best, p| if speeds[p] > speeds[best] { p } else { best })
}
