//! State of the local search: its budget, and the best edit (change of the mapping) of the current step.

use std::ops::Range;

use super::edit::Edit;
use super::state::{Judge, Problem, Score, State};
use crate::pipeline::rules::Rules;
use crate::pipeline::search::stop::Stop;
use crate::random::Random;

#[derive(Debug)]
pub(in crate::pipeline) struct Search<'a> {
    pub(super) judge: Judge<'a>,
    pub(super) sequence: Random,
    pub(super) best_edit: Edit,
    pub(super) best_score: Score,
    pub(super) limit: usize,
    stop: &'a Stop<'a>,
}

impl<'a> Search<'a> {
    pub(super) fn new(problem: Problem<'a>, limit: usize, stop: &'a Stop<'a>) -> Self {
        Search {
            judge: Judge::new(problem),
            sequence: Random::new(0),
            best_edit: Edit::default(),
            best_score: Score::WORST,
            limit,
            stop,
        }
    }

    pub(super) fn has_budget(&self) -> bool {
        self.judge.effort < self.limit && !self.stop.is_set()
    }

    /// Evaluates one move and keeps it if it is the best of this step so far. Returns false once the budget of evaluations is spent.
    pub(super) fn offer(&mut self, state: &State, edit: &mut Edit) -> bool {
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

    pub(super) fn rules(&self) -> Rules {
        self.judge.problem.rules
    }

    pub(super) fn shares(&self) -> bool {
        self.rules().share
    }

    pub(super) fn may_replicate(&self, stages: &Range<usize>) -> bool {
        self.judge.may_replicate(stages)
    }
}
