//! Optimal: branch and bound over all mappings within the rules, for small pipelines on few processors.
//!
//! Blocks are chosen from the first stage on: the end of the next block, and any set of processors that may host it. A branch is pruned as soon as
//! a lower bound of its time reaches the time of the best known mapping.

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

/// Result of the search.
#[derive(Debug)]
pub(in crate::pipeline) struct Optimal {
    pub(in crate::pipeline) blocks: Vec<Block>,
    pub(in crate::pipeline) evaluations: usize,
    /// True if every mapping was evaluated or pruned.
    pub(in crate::pipeline) complete: bool,
}

/// Maximum number of processors. Their sets are bit masks, and a search over more would take too long.
const MOST_PROCESSORS: usize = 20;
/// Maximum number of tried blocks per mapping of the budget. A block takes some tenths of a microsecond, a mapping about one microsecond per block.
/// Most branches are pruned before there is a mapping to evaluate, so a budget of mappings alone would not bound the time. Four stages on four
/// processors take two blocks per mapping.
const BLOCKS_FOR_A_MAPPING: usize = 128;

/// Returns the best mapping within the rules, if the budget suffices; never worse than `start`.
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
    /// Number of tried blocks.
    tried: usize,
    complete: bool,
}

/// Returns the usable processor after this one, as a set; empty after the last one.
fn next_alone(host: u32, usable: u32) -> u32 {
    let later = usable & !(host | host.wrapping_sub(1));
    let later = if host == 0 { usable } else { later };
    later & later.wrapping_neg()
}

impl Tree<'_> {
    /// Tries all continuations of the chosen blocks. `used` are their processors, and `settled` is the time of the slowest block whose neighbours
    /// are both known.
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
            // Sets of processors are all subsets of the usable ones in numerical order, or single processors.
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

    /// Returns true if the search has to end before it is complete.
    fn is_spent(&self) -> bool {
        self.evaluations >= self.budget
            || self.tried / BLOCKS_FOR_A_MAPPING >= self.budget
            || self.stop.is_set()
    }

    /// Adds one block and tries its continuations, unless a lower bound prunes them.
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

    /// Returns the time of chosen block `b` without sharing of hosts; the transfer after the last chosen block counts as free.
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

    /// Returns a lower bound of the time of the stages from `start` on, with divisible work and free links: on the remaining processors, or for all
    /// stages on all processors if processors may be shared.
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
