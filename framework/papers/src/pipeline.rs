//! Exhaustive planning of small pipelines: branch and bound over all mappings of blocks (consecutive stages that
//! share processors) to sets of processors.
//!
//! Blocks are chosen from the first stage on: the end of the next block, and any set of processors that may host it.
//! A branch is pruned as soon as a lower bound of its time per item reaches the time of the best known mapping.

use std::ops::Range;
use std::sync::atomic::Ordering;

use armature_planner::pipeline::{
    Algorithm, Block, Dispatch, Mapping, PipelineSpec, Plan, PlanOptions, StageSpec, plan, production_time,
};
use armature_planner::{Platform, Result};

/// Maximum number of processors of an exhaustive search, which would take too long with more. Sets of processors are
/// bit masks.
const MOST_PROCESSORS: usize = 20;
/// Maximum number of tried blocks (groups of stages on a set of processors) for each mapping that the search budget
/// permits. Most branches are pruned before there is a complete mapping to evaluate, so a budget of mappings alone
/// would not limit the run time. Four stages on four processors take two blocks per mapping.
const BLOCKS_FOR_A_MAPPING: usize = 128;

/// Returns the best of all mappings of a small pipeline to a few processors. If [`Plan::complete`] is true, no
/// mapping that `options` permit is better; otherwise the budget was too small or the stop flag was set. The search
/// begins with the plan of [`Algorithm::Refined`], to which it gives a tenth of the budget, and the result is never
/// worse. [`PlanOptions::algorithm`] has no effect.
///
/// ```
/// use armature_papers::optimal_plan;
/// use armature_planner::pipeline::{PipelineSpec, PlanOptions, StageSpec};
/// use armature_planner::{Link, Platform};
///
/// let spec = PipelineSpec::new(0.0).stage(StageSpec::new("a", 1.0, 0.0)).stage(StageSpec::new("b", 3.0, 0.0));
/// let platform = Platform::uniform(2, 1.0, Link::FREE)?;
/// let best = optimal_plan(&platform, &spec, &PlanOptions::default())?;
/// assert!(best.complete);
/// assert_eq!(best.prediction.production_time, 2.0);
/// # Ok::<(), armature_planner::Error>(())
/// ```
///
/// # Errors
/// See [`plan`].
pub fn optimal_plan(platform: &Platform, spec: &PipelineSpec, options: &PlanOptions) -> Result<Plan> {
    // A good first mapping prunes most of the search tree.
    let refined =
        PlanOptions { algorithm: Algorithm::Refined, budget: options.budget / 10, ..options.clone() };
    let start = plan(platform, spec, &refined)?;
    let mut tree = Tree {
        platform,
        spec,
        options,
        chosen: Vec::new(),
        evaluations: 0,
        tried: 0,
        complete: platform.processors() <= MOST_PROCESSORS,
        best_time: start.prediction.production_time,
        best: start.mapping,
    };
    if tree.complete {
        tree.grow(0, 0, 0.0)?;
    }
    let Tree { best: mapping, evaluations, complete, .. } = tree;
    let prediction = production_time(platform, spec, &mapping, options.dispatch)?;
    let parents = [start.parents, vec![(Algorithm::Refined, start.prediction.production_time)]].concat();
    Ok(Plan { mapping, prediction, parents, evaluations: start.evaluations + evaluations, complete })
}

struct Tree<'a> {
    platform: &'a Platform,
    spec: &'a PipelineSpec,
    options: &'a PlanOptions,
    best: Mapping,
    best_time: f64,
    /// Blocks of stages on the current branch of the search, each with its processors as a bit mask.
    chosen: Vec<(Block, u32)>,
    evaluations: usize,
    tried: usize,
    complete: bool,
}

/// Returns the usable processor that follows the processor `host`, each as a bit mask with one bit; 0 after the last
/// one.
fn next_alone(host: u32, usable: u32) -> u32 {
    let later = usable & !(host | host.wrapping_sub(1));
    let later = if host == 0 { usable } else { later };
    later & later.wrapping_neg()
}

impl Tree<'_> {
    /// Tries all mappings that begin with the chosen blocks of stages. `used` are the processors of the chosen blocks as a
    /// bit mask. `settled` is the time per item of the slowest of the chosen blocks except the last one, whose time
    /// depends on the block that follows it.
    fn grow(&mut self, start: usize, used: u32, settled: f64) -> Result<()> {
        let stages = self.spec.len();
        if start == stages {
            return self.evaluate();
        }
        let all = (1_u32 << self.platform.processors()) - 1;
        let usable = if self.options.share_processors { all } else { all & !used };
        for end in (start + 1..=stages).rev() {
            // A replicated block of stages may use any subset of the usable processors, in the numerical order of the
            // bit masks; any other block uses one processor.
            let may_replicate = (end - start == 1 || self.options.replicate_groups)
                && self.spec.stages[start..end].iter().all(StageSpec::is_replicable);
            let mut hosts = 0_u32;
            loop {
                hosts = if may_replicate {
                    hosts.wrapping_sub(usable) & usable
                } else {
                    next_alone(hosts, usable)
                };
                if hosts == 0 {
                    break;
                }
                if self.is_spent() {
                    self.complete = false;
                    return Ok(());
                }
                self.tried += 1;
                self.choose(start..end, hosts, used, settled)?;
            }
        }
        Ok(())
    }

    /// Computes the time per item of the mapping that the search has built (`chosen`), and keeps the mapping if it is
    /// the best so far. With on-demand dispatch, mappings are skipped in which two replicated blocks of stages share
    /// some of their processors, but not all.
    fn evaluate(&mut self) -> Result<()> {
        self.evaluations += 1;
        let replicated =
            || self.chosen.iter().filter(|(block, _)| block.is_replicated()).map(|&(_, hosts)| hosts);
        let overlaps_in_part = |a: u32| replicated().any(|b| a & b != 0 && a != b);
        if self.options.dispatch == Dispatch::OnDemand && replicated().any(overlaps_in_part) {
            return Ok(());
        }
        let mapping = Mapping::new(self.chosen.iter().map(|(block, _)| block.clone()).collect());
        let time =
            production_time(self.platform, self.spec, &mapping, self.options.dispatch)?.production_time;
        if time < self.best_time {
            (self.best, self.best_time) = (mapping, time);
        }
        Ok(())
    }

    fn is_spent(&self) -> bool {
        let budget = self.options.budget;
        self.evaluations >= budget
            || self.tried / BLOCKS_FOR_A_MAPPING >= budget
            || self.options.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Adds a block of stages on the processors `hosts` and tries the continuations, unless a stage is pinned to
    /// another processor or a lower bound of the time per item prunes the branch.
    fn choose(&mut self, stages: Range<usize>, hosts: u32, used: u32, settled: f64) -> Result<()> {
        let list: Vec<usize> = (0..self.platform.processors()).filter(|&p| hosts & (1 << p) != 0).collect();
        let is_elsewhere = |stage: &StageSpec| stage.pinned.is_some_and(|pin| list != [pin]);
        if self.spec.stages[stages.clone()].iter().any(is_elsewhere) {
            return Ok(());
        }
        let end = stages.end;
        self.chosen.push((Block::new(stages, list), hosts));
        let count = self.chosen.len();
        let settled = if count > 1 { f64::max(settled, self.alone(count - 2)) } else { settled };
        let bound = settled.max(self.alone(count - 1)).max(self.rest(end, used | hosts));
        if bound < self.best_time {
            self.grow(end, used | hosts, settled)?;
        }
        self.chosen.pop();
        Ok(())
    }

    /// Returns the time per item of the chosen block `b` of stages, if its processors hosted no other block. The
    /// transfer after the last chosen block counts as free.
    fn alone(&self, b: usize) -> f64 {
        let (Block { stages, hosts, .. }, _) = &self.chosen[b];
        let ext = [self.platform.ext()];
        let before = if b == 0 { &ext[..] } else { &self.chosen[b - 1].0.hosts };
        let after = match self.chosen.get(b + 1) {
            Some((next, _)) => &next.hosts[..],
            None if stages.end == self.spec.len() => &ext,
            None => &[],
        };
        let bytes_into = |stage: usize| match stage.checked_sub(1) {
            Some(previous) => self.spec.stages[previous].output,
            None => self.spec.input,
        };
        let (input, output) = (bytes_into(stages.start), bytes_into(stages.end));
        let work: f64 = self.spec.stages[stages.clone()].iter().map(|stage| stage.work).sum();
        let transfer = |from, to, bytes| self.platform.transfer_time(from, to, bytes);
        let times = hosts.iter().map(|&p| {
            let receive = before.iter().map(|&q| transfer(q, p, input)).fold(0.0, f64::max);
            let compute = work / self.platform.speeds()[p];
            let send = after.iter().map(|&q| transfer(p, q, output)).fold(0.0, f64::max);
            if self.platform.overlap() { receive.max(compute).max(send) } else { receive + compute + send }
        });
        match self.options.dispatch {
            Dispatch::RoundRobin => times.fold(0.0, f64::max) / hosts.len() as f64,
            _ => times.map(f64::recip).sum::<f64>().recip(),
        }
    }

    /// Returns a lower bound of the time of an item in the stages from `start` on, if work were divisible and links
    /// were free. If blocks of stages may share processors, the bound is that of all stages on all processors.
    fn rest(&self, start: usize, used: u32) -> f64 {
        let share = self.options.share_processors;
        let speeds = self.platform.speeds().iter().enumerate();
        let speed: f64 = speeds.filter(|(p, _)| share || used & (1 << p) == 0).map(|(_, speed)| speed).sum();
        let stages = if share { &self.spec.stages[..] } else { &self.spec.stages[start..] };
        let work: f64 = stages.iter().map(|stage| stage.work).sum();
        if work == 0.0 { 0.0 } else { work / speed }
    }
}
