//! Current mapping of the local search, and the incremental evaluation of edits (changes of the mapping).
//!
//! An edit changes a few blocks. Times per item are computed only for these blocks and their neighbours (whose links change); other times are looked
//! up. The production time then follows from the times of all blocks by [`ProductionTime`], or is their maximum while no processor is shared.

use std::ops::Range;

use super::edit::Edit;
use crate::pipeline::dispatch::Dispatch;
use crate::pipeline::mapping::Block;
use crate::pipeline::model::capacity::Hosted;
use crate::pipeline::model::costs::Costs;
use crate::pipeline::model::production_time::ProductionTime;
use crate::pipeline::rules::Rules;
use crate::pipeline::spec::PipelineSpec;
use crate::range::is_less;

/// Quality of a mapping: first its production time, then a measure of the number of blocks of stages that are about as slow.
#[derive(Clone, Copy, Debug)]
pub(in crate::pipeline) struct Score {
    pub(in crate::pipeline) time: f64,
    /// Sum of (block time / scale)⁸ over all blocks; the scale is the same for all edits of a mapping. Of mappings with equal production times, the
    /// one with fewer slow blocks has the smaller sum, so that the search can make one of several slowest blocks faster.
    pub(in crate::pipeline) crowd: f64,
}

impl Score {
    pub(in crate::pipeline) const WORST: Score = Score { time: f64::INFINITY, crowd: f64::INFINITY };

    pub(in crate::pipeline) fn beats(&self, other: &Score) -> bool {
        is_less(self.time, other.time)
            || (!is_less(other.time, self.time) && is_less(self.crowd, other.crowd))
    }
}

#[derive(Clone, Debug)]
pub(in crate::pipeline) struct TimedBlock {
    pub(in crate::pipeline) stages: Range<usize>,
    pub(in crate::pipeline) hosts: Vec<usize>,
    pub(in crate::pipeline) times: Vec<f64>,
    /// Seconds per item of the block of stages, if its processors ran no other block.
    pub(in crate::pipeline) alone: f64,
    /// Seconds per item of the block of stages, given the load that other blocks put on its processors.
    pub(in crate::pipeline) time: f64,
}

#[derive(Debug)]
pub(in crate::pipeline) struct Problem<'a> {
    pub(in crate::pipeline) spec: &'a PipelineSpec,
    pub(in crate::pipeline) costs: &'a Costs,
    pub(in crate::pipeline) rules: Rules,
    /// For each stage k, the number of stages before it that may be replicated; the last entry counts all stages.
    replicable_before: Vec<usize>,
    any_pinned: bool,
}

impl<'a> Problem<'a> {
    pub(in crate::pipeline) fn new(spec: &'a PipelineSpec, costs: &'a Costs, rules: Rules) -> Self {
        let mut replicable_before = vec![0];
        for (n, stage) in spec.stages.iter().enumerate() {
            replicable_before.push(replicable_before[n] + usize::from(stage.is_replicable()));
        }
        let any_pinned = spec.stages.iter().any(|stage| stage.pinned.is_some());
        Problem { spec, costs, rules, replicable_before, any_pinned }
    }

    /// Returns true if the rules permit the block of `stages` on `hosts`, like [`Rules::allow`], but usually without a loop over the stages.
    fn allows(&self, stages: &Range<usize>, hosts: &[usize]) -> bool {
        match hosts {
            [] => false,
            [_] => !stages.is_empty() && (!self.any_pinned || self.rules.allow(self.spec, stages, hosts)),
            _ => !stages.is_empty() && self.may_replicate(stages),
        }
    }

    fn may_replicate(&self, stages: &Range<usize>) -> bool {
        (stages.len() == 1 || self.rules.replicate_groups)
            && self.replicable_before[stages.end] - self.replicable_before[stages.start] == stages.len()
    }
}

#[derive(Clone, Debug)]
pub(in crate::pipeline) struct State {
    pub(in crate::pipeline) timed_blocks: Vec<TimedBlock>,
    /// Number of blocks of stages that each processor runs.
    pub(in crate::pipeline) uses: Vec<u32>,
    /// Number of processors that run more than one block of stages.
    crowded: usize,
    pub(in crate::pipeline) score: Score,
}

/// Number of computed times (of links or blocks of stages) that count as one evaluated mapping in the effort of the search, because they take about
/// as long.
const WORTH_ONE_MAPPING: usize = 128;

/// Block of the mapping that would result from an edit.
#[derive(Clone, Copy, Debug)]
struct Entry {
    source: Source,
    /// Range of the times of the block of stages in `Judge::fresh`, if the times were computed again for this edit.
    fresh: Option<(usize, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Old(usize),
    New(usize),
}

#[derive(Debug)]
pub(in crate::pipeline) struct Judge<'a> {
    pub(in crate::pipeline) problem: Problem<'a>,
    model: ProductionTime,
    entries: Vec<Entry>,
    fresh: Vec<f64>,
    seen: Vec<u64>,
    generation: u64,
    pub(in crate::pipeline) evaluations: usize,
    /// Number of evaluated mappings, weighted by the number of links between replicas, which is a measure of the computing time of the search.
    pub(in crate::pipeline) effort: usize,
}

impl<'a> Judge<'a> {
    pub(in crate::pipeline) fn new(problem: Problem<'a>) -> Self {
        let processors = problem.costs.processors();
        let model = ProductionTime::new(problem.rules.dispatch, problem.costs);
        Judge {
            problem,
            model,
            entries: Vec::new(),
            fresh: Vec::new(),
            seen: vec![0; processors],
            generation: 0,
            evaluations: 0,
            effort: 0,
        }
    }

    pub(in crate::pipeline) fn state(&mut self, blocks: &[Block]) -> State {
        let timed_blocks = blocks.iter().map(|block| (block.stages.clone(), block.hosts.clone())).collect();
        self.state_of(timed_blocks)
    }

    fn state_of(&mut self, blocks: Vec<(Range<usize>, Vec<usize>)>) -> State {
        let costs = self.problem.costs;
        let ext = [costs.ext()];
        let mut uses = vec![0; costs.processors()];
        let mut timed_blocks: Vec<TimedBlock> = Vec::with_capacity(blocks.len());
        for (b, (stages, hosts)) in blocks.iter().enumerate() {
            hosts.iter().for_each(|&p| uses[p] += 1);
            let before = if b == 0 { &ext[..] } else { &blocks[b - 1].1 };
            let after = blocks.get(b + 1).map_or(&ext[..], |next| &next.1);
            let mut times = Vec::with_capacity(hosts.len());
            costs.push_times(stages, hosts, before, after, &mut times);
            let alone = self.model.alone(&times);
            timed_blocks.push(TimedBlock {
                stages: stages.clone(),
                hosts: hosts.clone(),
                times,
                alone,
                time: alone,
            });
        }
        let crowded = uses.iter().filter(|&&uses| uses > 1).count();
        let hosted: Vec<_> = timed_blocks
            .iter()
            .map(|timed_block| Hosted { hosts: &timed_block.hosts, times: &timed_block.times })
            .collect();
        let time = self.model.together(&hosted);
        for (timed_block, &time) in timed_blocks.iter_mut().zip(self.model.block_times()) {
            timed_block.time = time;
        }
        let crowd = timed_blocks.iter().map(|timed_block| crowding(timed_block.time, time)).sum();
        State { timed_blocks, uses, crowded, score: Score { time, crowd } }
    }

    pub(in crate::pipeline) fn apply(&mut self, state: &State, edit: &mut Edit) -> State {
        let mut blocks = Vec::with_capacity(state.timed_blocks.len() + 2);
        let keep = |timed_block: &TimedBlock| (timed_block.stages.clone(), timed_block.hosts.clone());
        let mut next = 0;
        let cuts = edit.cuts().to_vec();
        for cut in cuts {
            blocks.extend(state.timed_blocks[next..cut.old.start].iter().map(keep));
            blocks.extend(cut.new.clone().map(|i| {
                let (stages, hosts) = edit.new_block(i);
                (stages.clone(), hosts.to_vec())
            }));
            next = cut.old.end;
        }
        blocks.extend(state.timed_blocks[next..].iter().map(keep));
        self.state_of(blocks)
    }

    /// Returns the score (production time, and a measure of slow blocks) of the mapping after an edit; `None` if the rules forbid the edit or the
    /// edit cannot improve the mapping.
    pub(in crate::pipeline) fn judge(&mut self, state: &State, edit: &mut Edit) -> Option<Score> {
        self.evaluations += 1;
        self.effort += 1;
        if !edit
            .new_blocks()
            .all(|(stages, hosts)| self.problem.allows(stages, hosts) && self.distinct(hosts))
        {
            return None;
        }
        edit.cuts();
        let crowded = self.crowded_after(state, edit);
        if crowded > 0 && !self.problem.rules.share {
            return None;
        }
        self.lay_out(state, edit);
        self.compute_times(state, edit);
        let scale = state.score.time;
        if crowded == 0 && !self.model.shares_cores() {
            let (mut time, mut crowd) = (0.0, 0.0);
            for entry in &self.entries {
                let alone = match (entry.source, entry.fresh) {
                    (Source::Old(i), None) => state.timed_blocks[i].alone,
                    (_, fresh) => {
                        let (start, end) = fresh.unwrap_or((0, 0));
                        self.model.alone(&self.fresh[start..end])
                    }
                };
                if is_less(scale, alone) {
                    return None;
                }
                time = f64::max(time, alone);
                crowd += crowding(alone, scale);
            }
            Some(Score { time, crowd })
        } else {
            let hosted: Vec<_> = self
                .entries
                .iter()
                .map(|entry| Hosted {
                    hosts: hosts(state, edit, entry.source),
                    times: times(state, &self.fresh, entry),
                })
                .collect();
            self.effort +=
                hosted.iter().map(|block| block.hosts.len()).sum::<usize>() / (WORTH_ONE_MAPPING / 4);
            if self.problem.rules.dispatch == Dispatch::OnDemand && self.model.overlaps_in_part(&hosted) {
                return None;
            }
            let time = self.model.together(&hosted);
            let crowd = self.model.block_times().iter().map(|&time| crowding(time, scale)).sum();
            Some(Score { time, crowd })
        }
    }

    pub(in crate::pipeline) fn may_replicate(&self, stages: &Range<usize>) -> bool {
        self.problem.may_replicate(stages)
    }

    pub(in crate::pipeline) fn allows(&mut self, state: &State, edit: &mut Edit) -> bool {
        edit.new_blocks().all(|(stages, hosts)| self.problem.allows(stages, hosts) && self.distinct(hosts))
            && (self.problem.rules.share || self.crowded_after(state, edit) == 0)
    }

    /// Returns true if two replicated blocks have only some of their processors in common. A running pipeline may not reach the production time that
    /// the model predicts for such a mapping.
    pub(in crate::pipeline) fn overlaps_in_part(&mut self, state: &State) -> bool {
        let hosted: Vec<_> = state
            .timed_blocks
            .iter()
            .map(|timed_block| Hosted { hosts: &timed_block.hosts, times: &timed_block.times })
            .collect();
        self.problem.rules.dispatch == Dispatch::OnDemand && self.model.overlaps_in_part(&hosted)
    }

    /// Returns the seconds that an item would take in the block of stages `b` if processor `p` were its only host.
    pub(in crate::pipeline) fn item_time(&mut self, state: &State, b: usize, p: usize) -> f64 {
        let costs = self.problem.costs;
        let ext = [costs.ext()];
        let hosts = |i: usize| state.timed_blocks.get(i).map_or(&ext[..], |timed_block| &timed_block.hosts);
        let before = b.checked_sub(1).map_or(&ext[..], hosts);
        self.fresh.clear();
        costs.push_times(&state.timed_blocks[b].stages, &[p], before, hosts(b + 1), &mut self.fresh);
        self.fresh[0]
    }

    fn distinct(&mut self, hosts: &[usize]) -> bool {
        self.generation += 1;
        hosts.iter().all(|&p| std::mem::replace(&mut self.seen[p], self.generation) != self.generation)
    }

    /// Returns an estimate of the number of processors that would host several blocks after the edit; 0 only if there is none.
    fn crowded_after(&self, state: &State, edit: &mut Edit) -> usize {
        if !self.problem.rules.share || state.crowded == 0 {
            // No processor hosts several blocks before the edit, so only the processors of the edit's new blocks are checked.
            let clash = edit.new_blocks().flat_map(|(_, hosts)| hosts).any(|&p| {
                let new = edit.new_blocks().filter(|(_, hosts)| hosts.contains(&p)).count() as u32;
                new + state.uses[p] - taken_out(state, edit, p) > 1
            });
            return usize::from(clash);
        }
        // The number of processors that host several blocks before the edit is returned, because an estimate is enough.
        state.crowded
    }

    fn lay_out(&mut self, state: &State, edit: &mut Edit) {
        self.entries.clear();
        let old = |i: usize| Entry { source: Source::Old(i), fresh: None };
        let mut next = 0;
        for cut in edit.cuts() {
            self.entries.extend((next..cut.old.start).map(old));
            self.entries.extend(cut.new.clone().map(|i| Entry { source: Source::New(i), fresh: None }));
            next = cut.old.end;
        }
        self.entries.extend((next..state.timed_blocks.len()).map(old));
    }

    /// Computes the times per item of the edit's new blocks of stages, and of other blocks that have a new neighbour on either side.
    fn compute_times(&mut self, state: &State, edit: &Edit) {
        let costs = self.problem.costs;
        let ext = [costs.ext()];
        let last = self.entries.len() - 1;
        let mut links = 0;
        self.fresh.clear();
        for e in 0..=last {
            let entry = self.entries[e];
            let before = e.checked_sub(1).map(|e| self.entries[e].source);
            let after = self.entries.get(e + 1).map(|entry| entry.source);
            if let Source::Old(i) = entry.source {
                let old_before = i.checked_sub(1).map(Source::Old);
                let old_after = (i + 1 < state.timed_blocks.len()).then_some(Source::Old(i + 1));
                if before == old_before && after == old_after {
                    continue;
                }
            }
            let stages = match entry.source {
                Source::Old(i) => &state.timed_blocks[i].stages,
                Source::New(i) => edit.new_block(i).0,
            };
            let before = before.map_or(&ext[..], |source| hosts(state, edit, source));
            let after = after.map_or(&ext[..], |source| hosts(state, edit, source));
            let start = self.fresh.len();
            let here = hosts(state, edit, entry.source);
            links += here.len() * (before.len() + after.len());
            costs.push_times(stages, here, before, after, &mut self.fresh);
            self.entries[e].fresh = Some((start, self.fresh.len()));
        }
        self.effort += (links + self.entries.len()) / WORTH_ONE_MAPPING;
    }
}

fn times<'b>(state: &'b State, fresh: &'b [f64], entry: &Entry) -> &'b [f64] {
    match (entry.fresh, entry.source) {
        (Some((start, end)), _) => &fresh[start..end],
        (None, Source::Old(i)) => &state.timed_blocks[i].times,
        (None, Source::New(_)) => &[],
    }
}

fn hosts<'b>(state: &'b State, edit: &'b Edit, source: Source) -> &'b [usize] {
    match source {
        Source::Old(i) => &state.timed_blocks[i].hosts,
        Source::New(i) => edit.new_block(i).1,
    }
}

fn taken_out(state: &State, edit: &Edit, p: usize) -> u32 {
    edit.old_blocks().filter(|&b| state.timed_blocks[b].hosts.contains(&p)).count() as u32
}

fn crowding(time: f64, scale: f64) -> f64 {
    if scale > 0.0 { (time / scale).powi(8) } else { 0.0 }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
