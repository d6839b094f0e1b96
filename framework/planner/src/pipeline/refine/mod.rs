//! Refined: local search from the other planners' mappings.
//!
//! Each start is improved step by step: kind by kind, the moves around the blocks that set the pace are judged ([`moves`])
//! and the best one is made, until none helps. What is left of the budget goes into arbitrary changes of the best
//! mapping ([`kick`]) that are improved in their turn. In the end neighbours become one block where that costs next to
//! nothing ([`Search::join`]), blocks that could hardly keep up get more hosts where there are any
//! ([`Search::make_room`]), and blocks with one host go where they wait least ([`waits`]).

mod edit;
mod kick;
mod moves;
pub(super) mod seeds;
mod state;
mod waits;

use std::ops::Range;

use super::mapping::Block;
use super::plan::{Dispatch, Stop};
use super::rules::Rules;
use edit::Edit;
use kick::Sequence;
pub(super) use state::Problem;
use state::{Judge, Score, State};

/// What a search came to.
#[derive(Debug)]
pub(super) struct Refined {
    pub(super) blocks: Vec<Block>,
    pub(super) evaluations: usize,
    /// False if the stop flag ended it before the budget did.
    pub(super) complete: bool,
}

/// Part of the budget, in percent, that improving the starts may use up.
const BUDGET_OF_STARTS: usize = 60;
/// Part of it, in percent, that is kept for joining blocks and making room, and as much for shorter waits.
const BUDGET_OF_ROOM: usize = 5;
/// Joining blocks may cost so much of the pace: less than any estimate of works and speeds is worth.
const NEXT_TO_NOTHING: f64 = 0.005;
/// Shorter waits may cost so much of it.
const SLOWER_FOR_WAITS: f64 = 0.02;
/// Blocks at least this close to the slowest one set the pace.
const SETS_THE_PACE: f64 = 1.0 - 1e-9;
/// A block that is busy for less than this part of the time keeps up, also where its items take longer than expected.
const HAS_ROOM: f64 = 0.75;
/// A host gives a block room if that takes at least this part off its time. A slower one would keep others waiting, in order,
/// for the few items that it does.
const WORTH_HAVING: f64 = 0.03;

/// Improves the given valid mappings within a budget of evaluations.
pub(super) fn refine(problem: Problem<'_>, starts: &[Vec<Block>], budget: usize, stop: &Stop<'_>) -> Refined {
    let for_starts = percent(BUDGET_OF_STARTS, budget);
    let mut search = Search::new(problem, for_starts, stop);
    let mut states: Vec<State> = starts.iter().map(|start| search.judge.state(start)).collect();
    states.sort_by(|a, b| a.score.time.total_cmp(&b.score.time));
    let best_start = states.first().map_or(f64::INFINITY, |start| start.score.time);
    let mut best: Option<State> = None;
    let count = states.len();
    for (i, start) in states.into_iter().enumerate() {
        // Every start gets its part, so that the first cannot use up everything.
        let part = for_starts.saturating_sub(search.judge.effort) / (count - i);
        search.limit = search.judge.effort + part;
        let local = search.descend(start);
        if best.as_ref().is_none_or(|best| local.score.time < best.score.time) {
            best = Some(local);
        }
    }
    search.limit = budget - percent(2 * BUDGET_OF_ROOM, budget);
    let mut kicks = 0;
    while let Some(current) = &best
        && search.goes_on()
    {
        let kicked = kick::kicked(&mut search, current, 1 + kicks % 4);
        kicks += 1;
        // A kick that finds nothing to change must not go on for ever.
        search.judge.effort += 1;
        let local = search.descend(kicked);
        // Of equally fast mappings, the one with fewer blocks.
        let slack = if local.pieces.len() < current.pieces.len() { 1e-12 } else { -1e-12 };
        if local.score.time < current.score.time * (1.0 + slack) {
            best = Some(local);
        }
    }
    search.limit = budget - percent(BUDGET_OF_ROOM, budget);
    let best = best.map(|best| search.join(best)).map(|best| search.make_room(best));
    search.limit = budget;
    let settled = best.map(|best| {
        let time = best.score.time;
        // Not slower than any start. Equally fast mappings differ by rounding.
        let slowest = f64::min(time * (1.0 + SLOWER_FOR_WAITS), best_start).max(time * (1.0 + 1e-12));
        waits::shorten(&mut search, best, slowest)
    });
    let pieces = settled.map(|settled| settled.pieces).unwrap_or_default();
    Refined {
        blocks: pieces.into_iter().map(|piece| Block::new(piece.stages, piece.hosts)).collect(),
        evaluations: search.judge.evaluations,
        complete: !stop.is_set(),
    }
}

/// So many hundredths of a budget, which may be any number.
fn percent(part: usize, budget: usize) -> usize {
    budget / 100 * part + budget % 100 * part / 100
}

/// One search: where it stands within its budget, and the best edit of the present step.
#[derive(Debug)]
pub(super) struct Search<'a> {
    judge: Judge<'a>,
    sequence: Sequence,
    best_edit: Edit,
    best_score: Score,
    limit: usize,
    stop: &'a Stop<'a>,
}

impl<'a> Search<'a> {
    fn new(problem: Problem<'a>, limit: usize, stop: &'a Stop<'a>) -> Self {
        Search {
            judge: Judge::new(problem),
            sequence: Sequence::default(),
            best_edit: Edit::default(),
            best_score: Score::WORST,
            limit,
            stop,
        }
    }

    /// Improves a mapping until no move helps or the budget is spent.
    fn descend(&mut self, mut state: State) -> State {
        let mut edit = Edit::default();
        let mut focus = focus_of(&state);
        let mut family = 0;
        while family < moves::FAMILIES.len() && self.goes_on() {
            self.best_score = state.score;
            for &b in &focus {
                moves::FAMILIES[family](self, &state, b, &mut edit);
            }
            if self.best_score.beats(&state.score) {
                let mut best = std::mem::take(&mut self.best_edit);
                state = self.judge.apply(&state, &mut best);
                self.best_edit = best;
                focus = focus_of(&state);
                family = 0;
            } else {
                family += 1;
            }
        }
        state
    }

    /// Makes replicated neighbours one block on the hosts of both, as long as the pace stays what it is but for next to
    /// nothing. By the model it hardly matters where the work is cut. But hosts that can do everything even out
    /// what the model does not know, items that differ and hosts that are late, and an item is sent once less.
    fn join(&mut self, mut state: State) -> State {
        if self.rules().dispatch != Dispatch::OnDemand {
            return state;
        }
        let mut edit = Edit::default();
        let most = (1.0 + NEXT_TO_NOTHING) * state.score.time;
        let mut b = 0;
        while b + 1 < state.pieces.len() && self.goes_on() {
            let (one, other) = (&state.pieces[b], &state.pieces[b + 1]);
            let stages = one.stages.start..other.stages.end;
            let mut hosts = [one.hosts.as_slice(), &other.hosts].concat();
            hosts.sort_unstable();
            hosts.dedup();
            edit.clear().cut(b..b + 2).block(stages.clone(), hosts.iter().copied());
            let joined = hosts.len() > 1
                && self.may_replicate(&stages)
                && self.judge.judge(&state, &mut edit).is_some_and(|score| score.time <= most);
            if joined {
                state = self.judge.apply(&state, &mut edit);
            } else {
                b += 1;
            }
        }
        state
    }

    /// Gives blocks that are almost as slow as the slowest one more hosts, as long as that speeds them up and costs the pace
    /// nothing. The pace stays what it is by the model, but works and speeds are estimates, items differ, and
    /// a block that must be busy all the time keeps others waiting whenever it is behind.
    fn make_room(&mut self, mut state: State) -> State {
        let mut edit = Edit::default();
        let mut full: Vec<usize> = Vec::new();
        while self.goes_on() {
            let has_room = |b: &usize| state.pieces[*b].time < HAS_ROOM * state.score.time;
            full.clear();
            full.extend((0..state.pieces.len()).filter(|b| !has_room(b)));
            let before = state.score;
            for &b in &full {
                self.best_score = state.score;
                moves::add_replicas(self, &state, b, &mut edit);
                if self.best_score.beats(&state.score) {
                    let mut best = std::mem::take(&mut self.best_edit);
                    let next = self.judge.apply(&state, &mut best);
                    self.best_edit = best;
                    if next.pieces[b].time < (1.0 - WORTH_HAVING) * state.pieces[b].time {
                        state = next;
                    }
                }
            }
            if !state.score.beats(&before) {
                break;
            }
        }
        state
    }

    fn goes_on(&self) -> bool {
        self.judge.effort < self.limit && !self.stop.is_set()
    }

    /// Judges one move and keeps it if it is the best so far; false once the budget is spent.
    fn offer(&mut self, state: &State, edit: &mut Edit) -> bool {
        if self.judge.effort >= self.limit {
            return false;
        }
        if let Some(score) = self.judge.judge(state, edit)
            && score.beats(&self.best_score)
        {
            self.best_score = score;
            self.best_edit.clone_from(edit);
        }
        true
    }

    fn rules(&self) -> Rules {
        self.judge.problem.rules
    }

    fn shares(&self) -> bool {
        self.rules().share
    }

    fn may_replicate(&self, stages: &Range<usize>) -> bool {
        self.judge.may_replicate(stages)
    }
}

/// The blocks that set the pace, and those that share a processor with them.
fn focus_of(state: &State) -> Vec<usize> {
    let sets_the_pace = |b: &usize| state.pieces[*b].time >= SETS_THE_PACE * state.score.time;
    let slow: Vec<usize> = (0..state.pieces.len()).filter(sets_the_pace).collect();
    let mut related = slow.clone();
    for (b, piece) in state.pieces.iter().enumerate() {
        let with_slow =
            |p: &usize| state.uses[*p] > 1 && slow.iter().any(|&s| state.pieces[s].hosts.contains(p));
        if !slow.contains(&b) && piece.hosts.iter().any(with_slow) {
            related.push(b);
        }
    }
    related
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::costs::Costs;
    use crate::pipeline::{Mapping, PipelineSpec, StageSpec};
    use crate::platform::{Link, Platform};

    /// What becomes of a mapping, and the times of its blocks.
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
        let hosts = |piece: &state::Piece| {
            let mut hosts = piece.hosts.clone();
            hosts.sort_unstable();
            format!("{hosts:?}")
        };
        let text: Vec<String> = state.pieces.iter().map(hosts).collect();
        (text.join(" "), state.pieces.iter().map(|piece| piece.time).collect())
    }

    #[test]
    fn a_part_of_any_budget_is_a_number() {
        assert_eq!([percent(60, 0), percent(60, 999), percent(5, 80_000)], [0, 599, 4000]);
        assert_eq!(percent(60, usize::MAX), (usize::MAX as u128 * 60 / 100) as usize);
    }

    #[test]
    fn a_group_takes_its_hosts_out_of_another_group() {
        // Only hosts 0 to 3 can receive the wide items of `seg`; all can do the rest.
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
        // Replicated blocks share all their hosts or none, so `seg` cannot get a second host while `rank` has it, too.
        let from = "load@0 | seg@1 | order@0 | rank@0,1,2,3,4,5,6,7";
        let (hosts, times) = improved(&platform, &spec, from, |search, state| search.descend(state));
        assert!(times.iter().all(|&time| time < 1.05), "{hosts}: {times:?}");
    }

    #[test]
    fn neighbours_become_one_block_where_that_costs_next_to_nothing() {
        let spec = PipelineSpec::new(0.0)
            .stage(StageSpec::new("cut", 2.0, 1.0))
            .stage(StageSpec::new("match", 2.0, 1.0))
            .stage(StageSpec::new("track", 1.9, 0.0).serial());
        let platform =
            Platform::uniform(5, 1.0, Link { bandwidth: 1e9, setup: 0.0 }).unwrap().with_overlap(true);
        let join = |search: &mut Search<'_>, state| search.join(state);
        let (hosts, _) = improved(&platform, &spec, "cut@0,1 | match@2,3 | track@4", join);
        assert_eq!(hosts, "[0, 1, 2, 3] [4]", "but not the serial stage");
        // Hosts 2 and 3 receive wide items slowly.
        let spec = PipelineSpec::new(0.0)
            .stage(StageSpec::new("cut", 2.0, 0.01))
            .stage(StageSpec::new("match", 2.0, 0.0))
            .stage(StageSpec::new("track", 0.9, 0.0).serial());
        let spec = PipelineSpec { input: 1.0, ..spec };
        let mut platform = Platform::uniform(5, 1.0, Link { bandwidth: 100.0, setup: 0.0 }).unwrap();
        for from in 0..5 {
            for to in [2, 3].into_iter().filter(|to| *to != from) {
                platform.set_link(from, to, Link { bandwidth: 0.1, setup: 0.0 }).unwrap();
            }
        }
        let platform = platform.with_overlap(true).with_ext_on(4).unwrap();
        let (hosts, _) = improved(&platform, &spec, "cut@0,1 | match@2,3 | track@4", join);
        assert_eq!(hosts, "[0, 1] [2, 3] [4]");
    }

    #[test]
    fn blocks_that_could_hardly_keep_up_get_idle_hosts() {
        let spec = PipelineSpec::new(0.0)
            .stage(StageSpec::new("load", 1.0, 1.0).serial())
            .stage(StageSpec::new("rank", 2.0, 0.0))
            .stage(StageSpec::new("out", 0.1, 0.0).serial());
        // Host 5 is so slow that it is better left alone, and host 6 cannot be reached in time.
        let speeds = [1.0, 1.0, 1.0, 1.0, 1.0, 0.05, 1.0];
        let mut platform = Platform::with_speeds(&speeds, Link { bandwidth: 1e9, setup: 0.0 }).unwrap();
        platform.set_link(0, 6, Link { bandwidth: 0.1, setup: 0.0 }).unwrap();
        let platform = platform.with_overlap(true);
        let room = |search: &mut Search<'_>, state| search.make_room(state);
        let (hosts, times) = improved(&platform, &spec, "load@0 | rank@1,2 | out@3", room);
        assert_eq!(hosts, "[0] [1, 2, 4] [3]", "two would do, if nothing ever went wrong");
        assert_eq!((times[0], times[1] < HAS_ROOM), (1.0, true));
        let hurried = improved(&platform, &spec, "load@0 | rank@1,2,4,5 | out@3", room);
        assert_eq!(hurried.0, "[0] [1, 2, 4, 5] [3]", "what there is, is enough");
    }
}
