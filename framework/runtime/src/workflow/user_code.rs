//! Work of a rank's executor in a workflow: tasks, planning, and reading and writing of values on disk.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::workflow::Replanned;

use super::closure::{AfterCommand, Erased, Inputs};
use super::commands::Try;
use super::graph::Graph;
use super::messages::{Exceeded, Reason};
use super::planning::{Found, PLANS, Question, ReplanQuestion};
use super::spill::SpillFolder;
use super::task_journal::JournalPlace;
use super::value::Value;
use crate::balance::probe::{self, Speed};
use crate::comm::clock::Clock;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::number_format::seconds;
use crate::rank::flight_recorder::{FlightRecordLocation, FlightRecorder, MIN_RECORDED};
use crate::rank::user_code::UserCode;
use crate::user_code;

/// Work for the executor of a rank in a workflow, such as a closure, planning or a disk operation, on the communicating thread or on a compute
/// thread.
#[derive(Debug)]
pub(super) enum Job {
    /// Compute the first plan, on rank 0.
    Plan(Box<Question>),
    /// Compute a plan for the rest of the run, on rank 0.
    Replan(Box<ReplanQuestion>),
    Measure,
    /// Run a closure, after `attempt` failed tries of its task. `exceeded` are the numbers of tries that exceeded a limit.
    Run {
        task: usize,
        attempt: u32,
        exceeded: Exceeded,
        inputs: Vec<Value>,
    },
    /// Call the program's function `after_command` for an ended command.
    AfterCommand(Box<Try>),
    /// Write the value of a task to disk.
    Spill(usize, Value),
    /// Read the value of a task from disk.
    Load(usize),
    /// On rank 0, copy the values of these tasks from the journal to the directory for spilled values.
    Restore(Box<JournalPlace>, BTreeSet<usize>),
    /// Delete the values of these tasks from the disk.
    Forget(Vec<usize>),
}

#[derive(Debug)]
pub(super) enum Done {
    /// Result of planning before the run: the plan, or an error, with the request for it. The two times are the planning time, and the expected time
    /// to compute a new plan during the run.
    Planned(Box<(armature_planner::Result<Found>, Question)>, [Duration; 2]),
    Replanned(Box<armature_planner::Result<Replanned>>, Duration),
    Measured(Speed),
    Ran {
        task: usize,
        result: Result<Value, (Reason, String)>,
        took: Duration,
    },
    /// Ended command for which `after_command` was called, and the failure if that function has failed.
    AfterCommand(Box<Try>, Option<(Reason, String)>),
    Spilled(usize),
    /// Tasks whose values were copied from the journal to the directory for spilled values, and the sizes of the values in bytes.
    Restored(Vec<(usize, u64)>),
    Loaded(usize, Value),
}

/// Flight recorder of a rank in a workflow. It records which closure runs; rank 0 reads the record if this rank dies.
#[derive(Debug)]
pub(super) struct ClosureFlightRecorder {
    flight_recorder: FlightRecorder,
    took: Option<Duration>,
    /// True if the flight record (the memory that rank 0 reads if this rank dies) contains [`SHORT`](ClosureFlightRecorder::SHORT) instead of the
    /// number of a closure's task.
    names_short: bool,
}

impl ClosureFlightRecorder {
    /// Number in the flight record (the memory in which a rank records its running closure) in place of a task's number while closures are short.
    /// Recording each short closure would take a noticeable part of the time.
    pub(super) const SHORT: u64 = u64::MAX - 1;

    pub(super) fn new() -> Option<Self> {
        Some(ClosureFlightRecorder {
            flight_recorder: FlightRecorder::new()?,
            took: None,
            names_short: false,
        })
    }

    pub(super) fn place(&self) -> FlightRecordLocation {
        self.flight_recorder.place()
    }

    fn begin(&mut self, task: usize) {
        let is_short = self.took.is_some_and(|took| took < MIN_RECORDED);
        if !is_short {
            self.flight_recorder.begin(task as u64, None);
        } else if !self.names_short {
            self.flight_recorder.begin(ClosureFlightRecorder::SHORT, None);
        }
        self.names_short = is_short;
    }

    fn end(&mut self) {
        if !self.names_short {
            self.flight_recorder.end();
        }
    }

    fn took(&mut self, took: Duration) {
        self.took = Some(took);
    }
}

/// User code of a rank in a workflow, with the state that the executor needs for it: closures, their context, and the directory for spilled values.
pub(super) struct TaskCode<'c, 'w> {
    pub(super) graph: Arc<Graph>,
    pub(super) closures: &'c mut [Box<dyn Erased + 'w>],
    pub(super) closure_of: Arc<[usize]>,
    pub(super) after_command: Option<&'c mut AfterCommand<'w>>,
    pub(super) context: Context,
    pub(super) spill: SpillFolder,
    pub(super) flight_recorder: Option<ClosureFlightRecorder>,
    pub(super) clock: Clock,
}

impl TaskCode<'_, '_> {
    fn begin(&mut self, task: usize, attempt: u32) {
        self.context.name = self.graph.dag.name(task).into();
        (self.context.number, self.context.attempt) = (task as u64, attempt);
    }

    fn call(&mut self, task: usize, attempt: u32, inputs: Vec<Value>) -> Result<Value> {
        self.begin(task, attempt);
        let mut inputs = Inputs::new(&self.graph, task, inputs);
        let closure = &mut self.closures[self.closure_of[task]];
        if let Some(flight_recorder) = &mut self.flight_recorder {
            flight_recorder.begin(task);
        }
        let result = user_code::call(|| closure.call(&mut inputs, &self.context));
        if let Some(flight_recorder) = &mut self.flight_recorder {
            flight_recorder.end();
        }
        result
    }

    fn timed<T>(&mut self, code: impl FnOnce(&mut Self) -> T) -> (T, Duration) {
        let begin = self.clock.now();
        let result = code(self);
        (result, self.clock.now().saturating_sub(begin))
    }

    /// Returns the value of a closure that took the time `took`, or a failure if that exceeds the task's time limit. A closure cannot be ended
    /// earlier.
    fn in_time(&self, task: usize, value: Value, took: Duration) -> Result<Value, (Reason, String)> {
        match self.graph.needs(task).time_limit.filter(|&limit| took > limit) {
            None => Ok(value),
            Some(limit) => Err((Reason::TimeLimit, too_long("took", took, limit))),
        }
    }

    fn call_after_command(&mut self, ended: &Try) -> Result<()> {
        self.begin(ended.task, ended.attempt);
        let Some(call_after_command) = &mut self.after_command else { return Ok(()) };
        let here = std::mem::replace(&mut self.context.place.rank, ended.rank);
        let result = user_code::call(|| call_after_command(&ended.ended, &self.context));
        self.context.place.rank = here;
        result
    }
}

/// Returns the error text about a task that has exceeded its time limit. `runs` is the verb of the sentence, such as "took".
pub(super) fn too_long(runs: &str, took: Duration, limit: Duration) -> String {
    let [took, limit] = [took, limit].map(|time| seconds(time.as_secs_f64()));
    format!("{runs} {took}, longer than its limit of {limit}")
}

fn reason_and_message(error: &Error) -> (Reason, String) {
    let reason = if error.kind() == ErrorKind::Panic { Reason::Panic } else { Reason::Error };
    (reason, error.message().to_string())
}

impl UserCode for TaskCode<'_, '_> {
    type Job = Job;
    type Done = Done;

    fn run(&mut self, job: Job) -> Result<Option<Done>> {
        Ok(Some(match job {
            Job::Plan(question) => {
                let (found, plan) = self.timed(|code| question.answer(&code.graph.dag));
                let (_, took) = self.timed(|code| question.rehearse(&code.graph.dag, &found));
                Done::Planned(Box::new((found, *question)), [plan, PLANS * took])
            }
            Job::Replan(question) => {
                let (found, took) = self.timed(|code| question.answer(&code.graph.dag));
                Done::Replanned(Box::new(found), took)
            }
            Job::Measure => Done::Measured(probe::speed(self.clock)),
            Job::Run { task, attempt, inputs, .. } => {
                let (result, took) = self.timed(|code| code.call(task, attempt, inputs));
                if let Some(flight_recorder) = &mut self.flight_recorder {
                    flight_recorder.took(took);
                }
                let result = result
                    .map_err(|error| reason_and_message(&error))
                    .and_then(|value| self.in_time(task, value, took));
                Done::Ran { task, result, took }
            }
            Job::AfterCommand(ended) => {
                let failure = self.call_after_command(&ended).err().map(|error| reason_and_message(&error));
                Done::AfterCommand(ended, failure)
            }
            Job::Spill(task, value) => {
                self.spill.write(task, &value)?;
                Done::Spilled(task)
            }
            Job::Load(task) => Done::Loaded(task, self.spill.read(task)?),
            Job::Restore(place, tasks) => {
                Done::Restored(place.restore(&tasks, &self.graph, &mut self.spill)?)
            }
            Job::Forget(tasks) => {
                tasks.into_iter().for_each(|task| self.spill.remove(task));
                return Ok(None);
            }
        }))
    }

    fn answers(job: &Job) -> bool {
        !matches!(job, Job::Forget(_))
    }

    fn is_work(job: &Job) -> bool {
        matches!(job, Job::Run { .. })
    }

    fn may_block(&self, job: &Job) -> bool {
        match job {
            // A closure with a time limit runs on a compute thread, so that the communicating thread can detect that it takes too long.
            Job::Run { task, .. } => self.graph.needs(*task).time_limit.is_some(),
            _ => true,
        }
    }

    fn took(done: &Done) -> Option<Duration> {
        match done {
            Done::Ran { took, .. } => Some(*took),
            _ => None,
        }
    }
}
