//! Refined planner: local search from the mappings of the other planners.
//!
//! Each start mapping is improved step by step: the moves of each kind around the slowest blocks are evaluated ([`moves`]), and the best move is
//! made, until no move is an improvement. The rest of the budget of evaluations is used for random changes of the best mapping ([`perturbation`]),
//! after each of which the mapping is improved in the same way. At the end unreplicated blocks are moved to processors where items wait least
//! ([`latency`]).

mod edit;
mod latency;
mod moves;
mod perturbation;
mod search;
mod state;

use super::stop::Stop;
use crate::pipeline::mapping::Block;
use crate::range::is_less;
use edit::Edit;
use search::Search;
pub(in crate::pipeline) use state::Problem;
use state::State;

#[derive(Debug)]
pub(in crate::pipeline) struct Refined {
    pub(in crate::pipeline) blocks: Vec<Block>,
    pub(in crate::pipeline) evaluations: usize,
    pub(in crate::pipeline) complete: bool,
}

/// Relative increase of the production time that is accepted for shorter waiting times of items. The increase is below the error of measured works
/// and speeds. With a larger value, streams without long waiting times would be slower; with a smaller one, no waiting time could be shortened.
const SLOWER_FOR_LATENCY: f64 = 0.02;
pub(in crate::pipeline) fn refine(
    problem: Problem<'_>,
    starts: &[Vec<Block>],
    budget: usize,
    stop: &Stop<'_>,
) -> Refined {
    // Half of the mappings in the budget are evaluated to improve the start mappings, and a twentieth to shorten waiting times at the end.
    let (for_starts, for_latency) = (budget / 2, budget / 20);
    let mut search = Search::new(problem, for_starts, stop);
    let mut states: Vec<State> = starts.iter().map(|start| search.judge.state(start)).collect();
    states.sort_by(|a, b| a.score.time.total_cmp(&b.score.time));
    let best_start = states.first().map_or(f64::INFINITY, |start| start.score.time);
    let mut best: Option<State> = None;
    let count = states.len();
    for (i, start) in states.into_iter().enumerate() {
        // Each start mapping gets an equal share of what is left of their budget of evaluations, so that the first one cannot use all of it.
        let part = for_starts.saturating_sub(search.judge.effort) / (count - i);
        search.limit = search.judge.effort + part;
        let local = descend(&mut search, start);
        if best.as_ref().is_none_or(|best| local.score.time < best.score.time) {
            best = Some(local);
        }
    }
    search.limit = budget - for_latency;
    let mut perturbations = 0;
    while let Some(current) = &best
        && search.has_budget()
    {
        let perturbed = perturbation::perturbed(&mut search, current, 1 + perturbations % 4);
        perturbations += 1;
        // Every perturbation counts as an evaluation, so that the budget also ends the loop if no perturbation finds a permitted change.
        search.judge.effort += 1;
        let local = descend(&mut search, perturbed);
        // A mapping replaces the best one if it is faster, or if it is about as fast and has fewer blocks of stages.
        let (time, before) = (local.score.time, current.score.time);
        if is_less(time, before)
            || (local.timed_blocks.len() < current.timed_blocks.len() && !is_less(before, time))
        {
            best = Some(local);
        }
    }
    search.limit = budget;
    let settled = best.map(|best| {
        // Shortening the waiting times must not make the result slower than the best start mapping.
        let slowest = best_start.min(best.score.time * (1.0 + SLOWER_FOR_LATENCY));
        latency::shorten(&mut search, best, slowest)
    });
    let timed_blocks = settled.map(|settled| settled.timed_blocks).unwrap_or_default();
    Refined {
        blocks: timed_blocks
            .into_iter()
            .map(|timed_block| Block::new(timed_block.stages, timed_block.hosts))
            .collect(),
        evaluations: search.judge.evaluations,
        complete: !stop.is_set(),
    }
}

fn descend(search: &mut Search<'_>, mut state: State) -> State {
    let mut edit = Edit::default();
    let mut focus = focus_of(&state);
    let mut family = 0;
    while family < moves::FAMILIES.len() && search.has_budget() {
        search.best_score = state.score;
        for &b in &focus {
            moves::FAMILIES[family](search, &state, b, &mut edit);
        }
        if search.best_score.beats(&state.score) {
            let mut best = std::mem::take(&mut search.best_edit);
            state = search.judge.apply(&state, &mut best);
            search.best_edit = best;
            focus = focus_of(&state);
            family = 0;
        } else {
            family += 1;
        }
    }
    state
}

fn focus_of(state: &State) -> Vec<usize> {
    // A block of stages counts as slowest if its time equals the production time except for rounding errors. All such blocks must become faster to
    // reduce the production time.
    let sets_the_pace = |b: &usize| !is_less(state.timed_blocks[*b].time, state.score.time);
    let slow: Vec<usize> = (0..state.timed_blocks.len()).filter(sets_the_pace).collect();
    let mut related = slow.clone();
    for (b, timed_block) in state.timed_blocks.iter().enumerate() {
        let with_slow =
            |p: &usize| state.uses[*p] > 1 && slow.iter().any(|&s| state.timed_blocks[s].hosts.contains(p));
        if !slow.contains(&b) && timed_block.hosts.iter().any(with_slow) {
            related.push(b);
        }
    }
    related
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::dispatch::Dispatch;
    use crate::pipeline::model::costs::Costs;
    use crate::pipeline::rules::Rules;
    use crate::pipeline::{Mapping, PipelineSpec, StageSpec};
    use crate::platform::{Link, Platform};

    fn improved(
        platform: &Platform,
        spec: &PipelineSpec,
        mapping: &str,
        improve: fn(&mut Search<'_>, State) -> State,
    ) -> (String, Vec<f64>) {
        let costs = Costs::new(platform, spec);
        let rules = Rules { dispatch: Dispatch::OnDemand, replicate_groups: true, share: true };
        let stop = Stop::never();
        let mut search = Search::new(Problem::new(spec, &costs, rules), 10_000, &stop);
        let state = search.judge.state(&Mapping::parse(mapping, spec).unwrap().blocks);
        let state = improve(&mut search, state);
        let hosts = |timed_block: &state::TimedBlock| {
            let mut hosts = timed_block.hosts.clone();
            hosts.sort_unstable();
            format!("{hosts:?}")
        };
        let text: Vec<String> = state.timed_blocks.iter().map(hosts).collect();
        (text.join(" "), state.timed_blocks.iter().map(|timed_block| timed_block.time).collect())
    }

    #[test]
    fn group_takes_hosts_from_another_group() {
        // Only hosts 0 to 3 have links that are fast enough for the large items of stage `seg`; all hosts can run the other stages.
        let spec = PipelineSpec::new(0.0)
            .stage(StageSpec::new("load", 0.01, 10.0).serial().pinned(0))
            .stage(StageSpec::new("seg", 2.0, 0.0))
            .stage(StageSpec::new("order", 0.01, 0.0).serial())
            .stage(StageSpec::new("rank", 6.0, 0.0));
        let mut platform = Platform::uniform(8, 1.0, Link { bandwidth: 1.0, setup: 0.0 }).unwrap();
        for from in 0..4 {
            for to in 0..4 {
                platform.set_link(from, to, Link { bandwidth: 100.0, setup: 0.0 }).unwrap();
            }
        }
        let platform = platform.with_overlap(true).with_ext_on(0).unwrap();
        // A single move cannot give stage `seg` a second host that stage `rank` also uses, because replicated blocks share all their hosts or none.
        let from = "load@0 | seg@1 | order@0 | rank@0,1,2,3,4,5,6,7";
        let (hosts, times) = improved(&platform, &spec, from, descend);
        assert!(times.iter().all(|&time| time < 1.05), "{hosts}: {times:?}");
    }
}
