//! Rank 0 in a run of a workflow: the master, and what it keeps for the caller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use armature_planner::workflow::BestPlan;

use super::graph::Graph;
use super::master::Master;
use super::messages::Report;
use super::summary::RankReport;
use super::task_journal::{JournalPlace, TaskJournal};
use super::user_code::Question;
use super::value::Value;
use super::worker::Worker;
use crate::error::{Error, Result};
use crate::observe::Display;
use crate::observe::words::seconds;
use crate::rank::protocol::Outgoing;

/// See the module's page.
pub(super) struct Root {
    pub(super) master: Master,
    /// The question for the planner, if there is one, until it has been asked.
    pub(super) plan: Option<Box<Question>>,
    /// Who has made the plan, and its makespan.
    pub(super) planned: Option<(String, f64)>,
    /// Whether what final tasks give is for the caller.
    pub(super) collects: bool,
    pub(super) results: BTreeMap<usize, Value>,
    /// By rank: what it did, once it has left.
    pub(super) finals: Vec<Option<RankReport>>,
    pub(super) ended: Option<Duration>,
    pub(super) display: Display,
    pub(super) graph: Arc<Graph>,
    pub(super) journal: Option<TaskJournal>,
}

impl Root {
    /// What a task gives has come.
    pub(super) fn keep(&mut self, task: usize, value: Value, now: Duration) -> Result<()> {
        if let Some(journal) = &mut self.journal {
            journal.keep(task, &value, now)?;
            self.master.has_journalled(task);
        }
        if self.collects && self.graph.is_final(task) {
            self.results.insert(task, value);
        }
        Ok(())
    }

    pub(super) fn on_report(&mut self, rank: usize, report: Report, out: &mut Outgoing<'_>) -> Result<()> {
        let before = self.master.progress().0;
        self.master.on_report(rank, report)?;
        out.note_done((self.master.progress().0.saturating_sub(before)) as u64);
        Ok(())
    }

    /// There is a plan, or none is possible: plans count a value once for each of its readers, ranks hold it once for all.
    pub(super) fn planned(&mut self, found: armature_planner::Result<BestPlan>) {
        match found {
            Ok(best) => {
                self.master.plan(&best.plan.processor_of, &best.plan.sequence);
                self.planned = Some((best.planner.to_string(), best.plan.makespan));
            }
            Err(error) => log::warn!("workflow {}: it runs without a plan: {error}", self.graph.name),
        }
        self.master.begin();
    }

    /// Values that a dead rank had and that are to be here now: what commands gave is given to rank 0's worker; for all others, what is
    /// to be read from the journal, and where that is.
    pub(super) fn lost_values(
        &mut self,
        worker: &mut Worker,
        now: Duration,
    ) -> Result<Option<(JournalPlace, BTreeSet<usize>)>> {
        let is_command = |task: &usize| self.graph.needs(*task).is_command;
        let (commands, tasks): (BTreeSet<usize>, BTreeSet<usize>) =
            self.master.take_to_restore().into_iter().partition(is_command);
        for task in commands {
            worker.on_given(task, Value::nothing()?);
        }
        let Some(journal) = self.journal.as_mut().filter(|_| !tasks.is_empty()) else { return Ok(None) };
        Ok(Some((journal.place(now)?, tasks)))
    }

    pub(super) fn on_lost(&mut self, rank: usize, error: &Error) -> Result<()> {
        let again = self.master.on_lost(rank)?;
        log::warn!("{error}; {again} tasks are run again");
        Ok(())
    }

    pub(super) fn tick(&mut self, now: Duration) -> Result<()> {
        if let Some(journal) = &mut self.journal {
            journal.tick(now)?;
        }
        if self.display.is_due(now) {
            let (done, all) = self.master.progress();
            let left = self.master.critical_path();
            let left = left.map_or(String::new(), |left| format!(", critical path {}", seconds(left)));
            let rest = format!("of {all}{left}");
            self.display.show(now, (done as u64, "tasks"), &rest);
        }
        Ok(())
    }

    pub(super) fn is_over(&self) -> bool {
        self.plan.is_none() && self.master.is_over()
    }

    /// Whether all other ranks have said what they did, or are lost.
    pub(super) fn have_all_left(&self) -> bool {
        (0..self.finals.len()).all(|rank| self.finals[rank].is_some() || self.master.is_lost(rank))
    }

    pub(super) fn waits_for(&self) -> String {
        self.master.waits_for()
    }
}
