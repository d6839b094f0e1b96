//! What is done beside the messages: tasks, the plan, and the disk.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::workflow::{BestPlan, Cluster, PlanOptions, plan};

use super::closure::{AfterCommand, Erased, Inputs};
use super::commands::Try;
use super::graph::Graph;
use super::messages::Reason;
use super::spill::SpillFolder;
use super::task_journal::JournalPlace;
use super::value::Value;
use crate::comm::clock::Clock;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::rank::user_code::UserCode;
use crate::user_code;

/// What the planner is asked. The time that the disk takes is in no plan, so one that needs it is made only where none does without.
#[derive(Debug)]
pub(super) struct Question {
    /// The ranks, each with its memory alone.
    pub(super) in_memory: Cluster,
    /// The same with as much room on their disks as is wanted.
    pub(super) with_disk: Cluster,
    pub(super) options: PlanOptions,
}

/// What is asked.
#[derive(Debug)]
pub(super) enum Job {
    /// On rank 0: who is to run what.
    Plan(Box<Question>),
    /// To run a task.
    Run { task: usize, attempt: u32, inputs: Vec<Value> },
    /// To hear of a command that has ended.
    Hear(Box<Try>),
    /// To write a value to disk.
    Spill(usize, Value),
    /// To read one.
    Load(usize),
    /// On rank 0: to put what these tasks gave on disk, from the journal.
    Restore(Box<JournalPlace>, BTreeSet<usize>),
    /// To remove these from it.
    Forget(Vec<usize>),
}

/// What comes of it.
#[derive(Debug)]
pub(super) enum Outcome {
    Planned(Box<armature_planner::Result<BestPlan>>),
    Ran {
        task: usize,
        given: Result<Value, (Reason, String)>,
        took: Duration,
    },
    /// A command that has ended, and why user code says that its try has failed.
    Heard(Box<Try>, Option<(Reason, String)>),
    Spilled(usize),
    /// Values, and their sizes.
    Restored(Vec<(usize, u64)>),
    Loaded(usize, Value),
}

/// The closures and the disk of a rank.
pub(super) struct TaskCode<'c, 'w> {
    pub(super) graph: Arc<Graph>,
    pub(super) closures: &'c mut [Box<dyn Erased + 'w>],
    /// By task: the closure that it runs.
    pub(super) closure_of: Arc<[usize]>,
    pub(super) after_command: Option<&'c mut AfterCommand<'w>>,
    pub(super) context: Context,
    /// By task.
    pub(super) names: Vec<Arc<str>>,
    pub(super) spill: SpillFolder,
    pub(super) clock: Clock,
}

impl TaskCode<'_, '_> {
    /// From now on user code is about this try.
    fn begin(&mut self, task: usize, attempt: u32) {
        self.context.name.clone_from(&self.names[task]);
        (self.context.number, self.context.attempt) = (task as u64, attempt);
    }

    fn call(&mut self, task: usize, attempt: u32, inputs: Vec<Value>) -> Result<Value> {
        self.begin(task, attempt);
        let mut inputs = Inputs::new(&self.graph, task, inputs);
        let closure = &mut self.closures[self.closure_of[task]];
        user_code::call(|| closure.call(&mut inputs, &self.context))
    }

    fn hear(&mut self, ended: &Try) -> Result<()> {
        self.begin(ended.task, ended.attempt);
        let Some(hear) = &mut self.after_command else { return Ok(()) };
        user_code::call(|| hear(&ended.ended, &self.context))
    }
}

/// Why a try has failed.
fn told(error: &Error) -> (Reason, String) {
    let reason = if error.kind() == ErrorKind::Panic { Reason::Panic } else { Reason::Error };
    (reason, error.message().to_string())
}

impl UserCode for TaskCode<'_, '_> {
    type Task = Job;
    type Outcome = Outcome;

    fn run(&mut self, job: Job) -> Result<Option<Outcome>> {
        Ok(Some(match job {
            Job::Plan(question) => {
                let Question { in_memory, with_disk, options } = *question;
                let plan = |cluster| plan(&self.graph.dag, cluster, &options);
                Outcome::Planned(Box::new(plan(&in_memory).or_else(|_| plan(&with_disk))))
            }
            Job::Run { task, attempt, inputs } => {
                let begin = self.clock.now();
                let given = self.call(task, attempt, inputs).map_err(|error| told(&error));
                Outcome::Ran { task, given, took: self.clock.now().saturating_sub(begin) }
            }
            Job::Hear(ended) => {
                let failure = self.hear(&ended).err().map(|error| told(&error));
                Outcome::Heard(ended, failure)
            }
            Job::Spill(task, value) => {
                self.spill.write(task, &value)?;
                Outcome::Spilled(task)
            }
            Job::Load(task) => Outcome::Loaded(task, self.spill.read(task)?),
            Job::Restore(place, tasks) => {
                Outcome::Restored(place.restore(&tasks, &self.graph, &mut self.spill)?)
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

    fn may_block(&self, job: &Job) -> bool {
        !matches!(job, Job::Run { .. })
    }

    fn took(outcome: &Outcome) -> Option<Duration> {
        match outcome {
            Outcome::Ran { took, .. } => Some(*took),
            _ => None,
        }
    }
}
