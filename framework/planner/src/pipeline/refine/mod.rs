//! Refined: local search from the other planners' mappings.
//!
//! Each start is improved step by step: kind by kind, the moves around the blocks that set the pace are judged ([`moves`])
//! and the best one is made, until none helps. What is left of the budget goes into arbitrary changes of the best
//! mapping ([`kick`]) that are improved in their turn. The result is never worse than any start.

mod edit;
mod kick;
mod moves;
pub(super) mod seeds;
mod state;

use std::ops::Range;

use super::mapping::Block;
use super::plan::Stop;
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
/// Blocks at least this close to the slowest one set the pace.
const SETS_THE_PACE: f64 = 1.0 - 1e-9;

/// Improves the given valid mappings within a budget of evaluations.
pub(super) fn refine(problem: Problem<'_>, starts: &[Vec<Block>], budget: usize, stop: &Stop<'_>) -> Refined {
    let mut search = Search {
        judge: Judge::new(problem),
        sequence: Sequence::default(),
        best_edit: Edit::default(),
        best_score: Score::WORST,
        limit: budget * BUDGET_OF_STARTS / 100,
        stop,
    };
    let mut states: Vec<State> = starts.iter().map(|start| search.judge.state(start)).collect();
    states.sort_by(|a, b| a.score.time.total_cmp(&b.score.time));
    let mut best: Option<State> = None;
    let count = states.len();
    for (i, start) in states.into_iter().enumerate() {
        // Every start gets its part, so that the first cannot use up everything.
        let part = (budget * BUDGET_OF_STARTS / 100).saturating_sub(search.judge.effort) / (count - i);
        search.limit = search.judge.effort + part;
        let local = search.descend(start);
        if best.as_ref().is_none_or(|best| local.score.time < best.score.time) {
            best = Some(local);
        }
    }
    search.limit = budget;
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
    let pieces = best.map(|best| best.pieces).unwrap_or_default();
    Refined {
        blocks: pieces.into_iter().map(|piece| Block::new(piece.stages, piece.hosts)).collect(),
        evaluations: search.judge.evaluations,
        complete: !stop.is_set(),
    }
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

impl Search<'_> {
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
