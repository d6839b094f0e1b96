//! Optimal: branch and bound over all mappings within the rules, for small pipelines on few processors.
//!
//! Blocks are chosen from the first stage on: how far the next one reaches, and any set of processors that may host
//! it. A branch is cut off as soon as a lower bound of its time reaches the best mapping known.

use std::ops::Range;

use super::stop::Stop;
use crate::pipeline::dispatch::Dispatch;
use crate::pipeline::mapping::Block;
use crate::pipeline::model;
use crate::pipeline::model::capacity::Hosted;
use crate::pipeline::model::costs::Costs;
use crate::pipeline::model::production_time::ProductionTime;
use crate::pipeline::rules::Rules;
use crate::pipeline::spec::PipelineSpec;

/// What the search came to.
#[derive(Debug)]
pub(in crate::pipeline) struct Optimal {
    pub(in crate::pipeline) blocks: Vec<Block>,
    pub(in crate::pipeline) evaluations: usize,
    /// True if every mapping was looked at or ruled out.
    pub(in crate::pipeline) complete: bool,
}

/// Sets of processors are bit masks, which also bounds what anybody could wait for.
const MOST_PROCESSORS: usize = 20;
/// Blocks that are tried, for each mapping of the budget: one takes some tenths of a microsecond, a mapping as many
/// microseconds as it has blocks. Most branches are cut off before there is a mapping to judge, so that a budget of mappings
/// alone would bound nothing. Four stages on four processors take two blocks for a mapping.
const BLOCKS_FOR_A_MAPPING: usize = 128;

/// The best mapping within the rules, if the budget lasts; never worse than `start`.
pub(in crate::pipeline) fn optimal(
    spec: &PipelineSpec,
    costs: &Costs,
    rules: Rules,
    start: Vec<Block>,
    budget: usize,
    stop: &Stop<'_>,
) -> Optimal {
    let time = model::pace(costs, &start, rules.dispatch);
    let mut tree = Tree {
        spec,
        costs,
        rules,
        model: ProductionTime::new(rules.dispatch, costs),
        budget,
        stop,
        best: start,
        best_time: time,
        chosen: Vec::new(),
        evaluations: 0,
        tried: 0,
        complete: costs.processors() <= MOST_PROCESSORS,
    };
    if tree.complete {
        tree.grow(0, 0, 0.0);
    }
    Optimal { blocks: tree.best, evaluations: tree.evaluations, complete: tree.complete }
}

struct Tree<'a> {
    spec: &'a PipelineSpec,
    costs: &'a Costs,
    rules: Rules,
    model: ProductionTime,
    budget: usize,
    stop: &'a Stop<'a>,
    best: Vec<Block>,
    best_time: f64,
    chosen: Vec<Block>,
    evaluations: usize,
    /// Blocks that were tried.
    tried: usize,
    complete: bool,
}

/// The usable processor after this one, as a set; none after the last.
fn next_alone(host: u32, usable: u32) -> u32 {
    let later = usable & !(host | host.wrapping_sub(1));
    let later = if host == 0 { usable } else { later };
    later & later.wrapping_neg()
}

impl Tree<'_> {
    /// Chooses all continuations of the blocks chosen so far. `used` are their processors, and `settled` is the
    /// time of the slowest block whose neighbours are both known.
    fn grow(&mut self, start: usize, used: u32, settled: f64) {
        let stages = self.costs.stages();
        let all = (1_u32 << self.costs.processors()) - 1;
        if start == stages {
            self.evaluations += 1;
            if self.rules.share && self.rules.dispatch == Dispatch::OnDemand {
                let hosted: Vec<_> =
                    self.chosen.iter().map(|block| Hosted { hosts: &block.hosts, times: &[] }).collect();
                if self.model.overlaps_in_part(&hosted) {
                    return;
                }
            }
            let time = model::pace(self.costs, &self.chosen, self.rules.dispatch);
            if time < self.best_time {
                self.best_time = time;
                self.best.clone_from(&self.chosen);
            }
            return;
        }
        let usable = if self.rules.share { all } else { all & !used };
        for end in (start + 1..=stages).rev() {
            // Every subset of the usable processors, smallest numbers first, or each of them alone.
            let may_replicate = self.rules.may_replicate(self.spec, &(start..end));
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
                    return;
                }
                self.tried += 1;
                self.choose(start..end, hosts, used, settled);
            }
        }
    }

    /// Whether the search has to end before it has seen everything.
    fn is_spent(&self) -> bool {
        self.evaluations >= self.budget
            || self.tried / BLOCKS_FOR_A_MAPPING >= self.budget
            || self.stop.is_set()
    }

    /// Adds one block and grows what can follow it, unless that is bound to be too slow.
    fn choose(&mut self, stages: Range<usize>, hosts: u32, used: u32, settled: f64) {
        let list: Vec<usize> = (0..self.costs.processors()).filter(|&p| hosts & (1 << p) != 0).collect();
        if !self.rules.allow(self.spec, &stages, &list) {
            return;
        }
        let end = stages.end;
        self.chosen.push(Block::new(stages, list));
        let count = self.chosen.len();
        let mut settled = settled;
        if count > 1 {
            settled = f64::max(settled, self.alone(count - 2));
        }
        let bound = f64::max(f64::max(settled, self.alone(count - 1)), self.rest(end, used | hosts));
        if bound < self.best_time {
            self.grow(end, used | hosts, settled);
        }
        self.chosen.pop();
    }

    /// Time of chosen block `b` with its hosts to itself; what comes after the last one is taken to be free.
    fn alone(&self, b: usize) -> f64 {
        let block = &self.chosen[b];
        let ext = [self.costs.ext()];
        let before = if b == 0 { &ext[..] } else { &self.chosen[b - 1].hosts };
        let after = match self.chosen.get(b + 1) {
            Some(next) => &next.hosts[..],
            None if block.stages.end == self.costs.stages() => &ext,
            None => &[],
        };
        let mut times = Vec::with_capacity(block.hosts.len());
        self.costs.push_times(&block.stages, &block.hosts, before, after, &mut times);
        self.model.alone(&times)
    }

    /// Least time that the stages from `start` on take, were their work divisible and their links free: on the
    /// processors that are left; if they are shared, all stages on all processors.
    fn rest(&self, start: usize, used: u32) -> f64 {
        let stages = self.costs.stages();
        let unit = |p: usize| self.costs.compute(&(0..stages), p);
        let left = (0..self.costs.processors()).filter(|p| self.rules.share || used & (1 << p) == 0);
        let whole = left.map(|p| unit(p).recip()).sum::<f64>().recip();
        let total = self.costs.work(&(0..stages));
        if self.rules.share || total == 0.0 || start == stages {
            return if self.rules.share { whole } else { 0.0 };
        }
        whole * self.costs.work(&(start..stages)) / total
    }
}
