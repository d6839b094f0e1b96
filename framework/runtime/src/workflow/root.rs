//! State and decisions of rank 0 in a run of a workflow: the master, requests to the planner, the journal, and the results for the program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::workflow::{Replanned, memory_over_time};
use armature_text::shown;

use super::graph::Graph;
use super::master::{Cause, Change, Master};
use super::planning::{Found, QUICK, Question, ReplanQuestion};
use super::summary::RankReport;
use super::task_journal::{JournalPlace, TaskJournal};
use super::user_code::{ClosureFlightRecorder, Job};
use super::value::Value;
use super::worker::WorkflowWorker;
use crate::balance::probe::{self, Probe, Speed};
use crate::comm::Frame;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::comm::endpoint::stopping::kept;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::number_format::seconds;
use crate::observe::{Event, PlanInForce, Planned, Progress, WorkflowEnd, WorkflowStart};
use crate::rank::heartbeat::Silence;
use crate::rank::protocol::Outgoing;
use crate::session::JobPlatform;
use crate::tasks::{FlightRecords, LastActivity};

pub(super) struct Root {
    pub(super) master: Master,
    /// Measurement of the ranks' speeds and of links, before the first plan; `None` when it has ended, or if the run is too short for it.
    pub(super) probe: Option<Probe>,
    /// Speeds and bandwidths that were known before the job started.
    pub(super) given: Option<JobPlatform>,
    /// Request for the first plan, until it is passed to the planner.
    pub(super) plan: Option<Box<Question>>,
    /// Name of the planner that has computed the first plan, and the plan's makespan in seconds.
    pub(super) planned: Option<(String, f64)>,
    pub(super) replan_question: Option<Box<ReplanQuestion>>,
    pub(super) cause: Option<Cause>,
    pub(super) replanned: u32,
    pub(super) collects: bool,
    pub(super) results: BTreeMap<usize, Value>,
    /// By rank: statistics of its work, once the rank has finished.
    pub(super) finals: Vec<Option<RankReport>>,
    pub(super) begin: Duration,
    pub(super) ended: Option<Duration>,
    pub(super) wall_time: Option<Duration>,
    /// Number of tasks that an earlier run has completed.
    pub(super) known: usize,
    pub(super) graph: Arc<Graph>,
    pub(super) journal: Option<TaskJournal>,
    /// File in which the program itself records completed tasks.
    pub(super) records: Option<PathBuf>,
    /// Flight records of the ranks on the machine of rank 0: the last activity of each rank, in memory that rank 0 can read if the rank dies.
    pub(super) flight_records: FlightRecords,
}

/// Next action of the measurement of ranks and links, after a rank's reply.
#[derive(Debug)]
pub(super) enum Answered {
    Wait,
    Send(usize, Frame),
    /// The measurement has ended. The event describes its result for the log.
    Done(Event),
}

impl Root {
    /// Writes the value of a task to the journal, if there is one, and stores it for the program if it is the value of a final task that the program
    /// collects.
    pub(super) fn keep(&mut self, task: usize, value: &Value, clock: Clock) -> Result<()> {
        if let Some(journal) = &mut self.journal {
            journal.keep(task, value, clock.now())?;
            self.master.has_journalled(task);
        }
        if self.collects && self.graph.is_final(task) {
            self.results.insert(task, value.clone());
        }
        Ok(())
    }

    /// Returns what the executor of rank 0 has to do next besides tasks (planning, or reading the journal), and its name for messages. The first plan
    /// is not requested before ranks and links are measured.
    pub(super) fn next_job(
        &mut self,
        worker: &mut WorkflowWorker,
        now: Duration,
        out: &mut Outgoing<'_>,
    ) -> Result<Option<(&'static str, Job)>> {
        if let Some(question) = self.plan.take_if(|_| self.probe.is_none()) {
            return Ok(Some(("plans", Job::Plan(question))));
        }
        if let Some(question) = self.replan_question.take() {
            return Ok(Some(("plans anew", Job::Replan(question))));
        }
        let lost = self.lost_values(worker, now, out)?;
        Ok(lost.map(|(place, tasks)| ("reads the journal", Job::Restore(Box::new(place), tasks))))
    }

    /// Handles the measured speed of a rank (`speed`), or a rank's reply to a message that measures a link. Returns the next action of the
    /// measurement.
    ///
    /// # Errors
    /// The rank was not asked for a measurement.
    pub(super) fn on_probe_answer(
        &mut self,
        from: usize,
        speed: Option<Speed>,
        now: Duration,
    ) -> Result<Answered> {
        // After the death of a rank the measurement of ranks and links is discarded, and replies that still arrive are ignored.
        let Some(probe) = &mut self.probe else { return Ok(Answered::Wait) };
        let action = match speed {
            Some(speed) => probe.on_speed(from, speed, now, &[]),
            None => probe.on_echo(from, now, &[]),
        };
        match action? {
            probe::ProbeAction::Wait => Ok(Answered::Wait),
            probe::ProbeAction::Send(to, question) => Ok(Answered::Send(to, question)),
            probe::ProbeAction::Done(probed) => {
                self.probe = None;
                let probed = match &self.given {
                    Some(given) => probed.corrected_by(given)?,
                    None => probed,
                };
                if let Some(question) = &mut self.plan {
                    question.use_probed(&probed, &self.graph.name);
                }
                Ok(Answered::Done(Event::of_probe(&probed, &[])))
            }
        }
    }

    pub(super) fn start_event(&self, ranks: usize) -> Event {
        let (known, tasks) = self.master.progress();
        let name = self.graph.name.clone();
        Event::WorkflowStart(WorkflowStart { name, ranks, tasks: tasks as u64, known: known as u64 })
    }

    pub(super) fn end_event(&self, now: Duration) -> Event {
        let failed = self.master.failed().len() as u64 + self.master.skipped;
        let tasks = self.graph.len() as u64 - failed;
        Event::WorkflowEnd(WorkflowEnd {
            tasks,
            failed,
            seconds: now.saturating_sub(self.begin).as_secs_f64(),
        })
    }

    /// Begins the run with the plan that the planner has found, or without a plan. If the planner finds no plan, the tasks may still be able to run:
    /// a plan counts a value once for each task that reads it, while a rank holds it once for all of them. Returns the event for the log.
    pub(super) fn planned(
        &mut self,
        (found, question): (armature_planner::Result<Found>, Question),
        (took, takes): (Duration, Duration),
        now: Duration,
    ) -> Event {
        match found {
            Ok((plan, planner)) => {
                self.planned = Some((planner, plan.makespan));
                self.master.has_planned(plan, question.clusters, takes, now);
            }
            Err(error) => log::warn!(
                "workflow {}: the run has no plan: no list schedule fits ({}); `armature plan` also tries \
                 block plans, and Workflow::follow runs one",
                shown(&self.graph.name),
                error.message()
            ),
        }
        self.master.begin();
        Event::Planned(Planned {
            by: self.planned.as_ref().map(|(by, _)| by.clone()),
            ends_s: self.planned.as_ref().map(|&(_, ends)| ends),
            seconds: took.as_secs_f64(),
            reason: "the run begins".to_string(),
            kept: false,
        })
    }

    pub(super) fn on_replanned(
        &mut self,
        found: armature_planner::Result<Replanned>,
        took: Duration,
        now: Duration,
    ) -> Event {
        let error = found.as_ref().err().map(ToString::to_string);
        let change = self.master.on_replanned(found, took, now);
        self.replanned += u32::from(matches!(change, Change::Fresh(_)));
        let reason = self.cause.take().map_or(String::new(), |cause| cause.to_string());
        let ends_s = match change {
            Change::Fresh(left) | Change::Kept(left) => Some(left),
            Change::None => {
                let why = error.unwrap_or("a rank was lost while the planner ran".to_string());
                log::info!("workflow {}: replanning failed: {why}", shown(&self.graph.name));
                None
            }
        };
        Event::Planned(Planned {
            by: ends_s.map(|_| QUICK.to_string()),
            ends_s,
            seconds: took.as_secs_f64(),
            reason,
            kept: matches!(change, Change::Kept(_)),
        })
    }

    pub(super) fn plan_event(&self) -> Option<Event> {
        let (plan, cluster) = self.master.active_plan()?;
        let dag = &self.graph.dag;
        // Tasks that have ended are not in the event; in a new plan their end time is 0. Memory use is logged only for the first plan, because a new
        // plan does not count the values of tasks that have ended.
        let waits = |task: &usize| plan.finish[*task] > 0.0;
        let tasks = (0..dag.len()).filter(waits);
        let tasks = tasks.map(|task| (task, (plan.processor_of[task], plan.start[task], plan.finish[task])));
        let held = if self.replanned == 0 { memory_over_time(dag, cluster, plan) } else { Vec::new() };
        Some(Event::Plan(PlanInForce::new(tasks.collect(), |task| dag.name(task), held)))
    }

    /// Restores values on rank 0 that were on a dead rank. Empty values of commands are passed to the worker at once. For values that must be read
    /// from the journal, returns the journal's location and the tasks.
    fn lost_values(
        &mut self,
        worker: &mut WorkflowWorker,
        now: Duration,
        out: &mut Outgoing<'_>,
    ) -> Result<Option<(JournalPlace, BTreeSet<usize>)>> {
        let is_command = |task: &usize| self.graph.needs(*task).is_command;
        let (commands, tasks): (BTreeSet<usize>, BTreeSet<usize>) =
            self.master.take_to_restore().into_iter().partition(is_command);
        for task in commands {
            worker.on_owned(task, Value::nothing()?, out)?;
        }
        let Some(journal) = self.journal.as_mut().filter(|_| !tasks.is_empty()) else { return Ok(None) };
        Ok(Some((journal.place(now)?, tasks)))
    }

    /// Handles a rank that has died or stopped answering. Returns the number of tasks that are repeated.
    ///
    /// # Errors
    /// More tasks have failed for good than allowed, because ranks died in them; the journal cannot be written.
    pub(super) fn on_lost(&mut self, silence: &Silence, endpoint: &Endpoint, now: Duration) -> Result<u64> {
        let Silence { rank, error, .. } = silence;
        let last = match self.flight_records.last_activity(*rank, silence.may_be_death(endpoint), None) {
            LastActivity::Chunk { id: ClosureFlightRecorder::SHORT, .. } => LastActivity::Behind(None),
            last => last,
        };
        let before = self.master.attempts();
        let lost = self.master.on_lost(*rank, last);
        if let Some(journal) = &mut self.journal {
            for (task, attempts) in self.master.attempts().into_iter().enumerate() {
                if attempts != before[task] {
                    journal.record_attempts(task, attempts, now)?;
                }
            }
            // The numbers of tries are written to the journal at once, because the death of the rank may end the job.
            journal.tick(now)?;
        }
        let again = lost?;
        self.probe = None;
        log::warn!("{error}; {again} tasks are requeued");
        Ok(again)
    }

    /// Checks the time limit of the run, requests a new plan if there is a reason, and writes the journal.
    ///
    /// # Errors
    /// The run exceeds its time limit; the journal cannot be written.
    pub(super) fn tick(&mut self, now: Duration) -> Result<()> {
        let took = now.saturating_sub(self.begin);
        if let Some(limit) = self.wall_time.filter(|&limit| took > limit && self.ended.is_none()) {
            let (ended, all) = self.master.progress();
            let text = format!(
                "the run has exceeded its time limit of {}: {ended} of {all} tasks have ended; it waits {}",
                seconds(limit.as_secs_f64()),
                self.master.waits_for()
            );
            return Err(Error::new(ErrorKind::Timeout, text));
        }
        if let Some((cause, question)) = self.master.replan_question(now) {
            (self.replan_question, self.cause) = (Some(question), Some(cause));
        }
        if let Some(journal) = &mut self.journal {
            journal.tick(now)?;
        }
        Ok(())
    }

    pub(super) fn progress(&self) -> Progress {
        let (done, all) = self.master.progress();
        let left = self.master.critical_path();
        Progress {
            of: format!("workflow {:?}", self.graph.name),
            done: done as u64,
            before: self.known as u64,
            part: 0.0,
            total: Some(all as u64),
            what: "tasks",
            rest: left.map_or(String::new(), |left| format!("critical path {}", seconds(left))),
        }
    }

    /// Stops the run if the job was asked to stop, or if no further task can end within the job's time limit. Must be called before reports are
    /// handled: a signal that stops the job may also kill commands, whose failures must then not count.
    pub(super) fn stop_if_requested(&mut self, endpoint: &mut Endpoint, now: Duration) -> Result<()> {
        if let Some(why) = self.master.check_time(now) {
            endpoint.stop_for_time_limit(&why);
        }
        if endpoint.is_stop_requested(now)? {
            self.master.stop();
        }
        Ok(())
    }

    /// Describes for the user how many tasks were done when the run was stopped, and where their values are saved.
    pub(super) fn kept(&self) -> String {
        let (done, all) = self.master.progress();
        let file = self.journal.as_ref().map(TaskJournal::path).or(self.records.as_deref());
        kept((done as u64, Some(all as u64)), "tasks", file)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.plan.is_none() && self.master.is_finished()
    }

    /// Returns true if every rank has sent its statistics at the end of the run, or has died.
    pub(super) fn have_all_left(&self) -> bool {
        (0..self.finals.len()).all(|rank| self.finals[rank].is_some() || self.master.is_lost(rank))
    }

    pub(super) fn waits_for(&self) -> String {
        self.master.waits_for()
    }
}
