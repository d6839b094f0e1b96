//! Events of workflows, and the causes for which tasks of a workflow wait.

use std::fmt;

use armature_text::{quoted, shown};
use serde::{Deserialize, Serialize};

use super::figure;
use super::number_format::{count, seconds};
use crate::session::topology::Size;

/// The run of a workflow begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkflowStart {
    /// Name of the workflow whose run begins.
    pub name: String,
    /// Number of ranks of the job.
    pub ranks: usize,
    /// Number of tasks of the workflow.
    pub tasks: u64,
    /// Number of tasks that an earlier run of the workflow had completed.
    pub known: u64,
}

/// The planner computed a plan for a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Name of the planner that made the new plan; `None` if no plan was found.
    pub by: Option<String>,
    /// Planned end of the last task, in seconds after the event.
    #[serde(with = "figure::optional")]
    pub ends_s: Option<f64>,
    /// Duration of the planning of the workflow, in seconds.
    #[serde(with = "figure")]
    pub seconds: f64,
    /// Reason for which the workflow was planned, as the end of a sentence.
    pub reason: String,
    /// True if the earlier plan of the workflow was kept.
    pub kept: bool,
}

/// A task of a workflow cannot be dispatched to a rank, because other tasks use up a limit that the program has named, such as a number of database
/// connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskHeld {
    /// Name of the task that cannot be dispatched.
    pub task: String,
    /// Name of the limit that other tasks use up. The program has given the name, for example to a number of database connections.
    pub limit: String,
}

/// A rank began a task of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskBegan {
    /// Name of the task that the rank began.
    pub task: String,
    /// Number of earlier attempts of the task.
    pub attempt: u32,
    /// Waits of the task between its dispatch to the rank and its start, in order of time.
    pub waits: Vec<TaskWait>,
    /// Tasks whose values the task reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
}

/// Memory that a rank holds for tasks of a workflow: values, including those that are being sent, memory reserved for values, and the memory limits
/// of running tasks. The event is logged when the memory has changed, at most as often as a rank's activity event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Memory that the rank holds for tasks, in bytes.
    pub bytes: u64,
    /// Maximum of the memory that the rank has held for tasks since the last event of this kind, in bytes.
    pub most: u64,
    /// Limit of the memory that the rank may hold for tasks, in bytes, if there is a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
}

/// A wait of a workflow's task between its dispatch to a rank and its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskWait {
    /// Cause for which the task waited.
    #[serde(rename = "for")]
    pub waited_for: WaitedFor,
    /// Task that computed the last missing input, if the task waited until its inputs were computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Duration in seconds of the task's wait on its rank.
    #[serde(with = "figure")]
    pub seconds: f64,
}

/// Cause for which a task of a workflow waited on its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitedFor {
    /// Other tasks had not computed the inputs of the task yet.
    Input,
    /// The inputs of the task were being received from other ranks or read from disk, or there was too little free memory for them.
    Transfer,
    /// The inputs of the task were in memory, but there was too little free memory for the task itself.
    Memory,
    /// The rank was busy with other tasks of the workflow.
    Core,
}

/// An attempt of a workflow's task ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskEnded {
    /// Name of the task whose attempt ended.
    pub task: String,
    /// Duration of the attempt in seconds.
    #[serde(with = "figure")]
    pub seconds: f64,
    /// Size in bytes of the value that the task computed.
    pub bytes: u64,
    /// Peak memory of a command's processes in bytes; `None` for a task that is no command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// Reason of the failure, if this attempt of the task failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The value of a workflow's task was received from another rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueCame {
    /// Name of the task that computed the value.
    pub task: String,
    /// Rank that sent the value.
    pub from: usize,
    /// Size in bytes of the task's value.
    pub bytes: u64,
}

/// The value of a workflow's task was written to disk, or read from disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueOnDisk {
    /// Name of the task that computed the value.
    pub task: String,
    /// Size in bytes of the task's value.
    pub bytes: u64,
}

/// The run of a workflow ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkflowEnd {
    /// Number of tasks of the workflow that were completed.
    pub tasks: u64,
    /// Number of tasks that failed, or that were not run because they depend on a failed task.
    pub failed: u64,
    /// Time since the start of the run, in seconds.
    #[serde(with = "figure")]
    pub seconds: f64,
}

impl fmt::Display for WorkflowStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tasks, ranks) = (count(self.tasks, "task"), count(self.ranks as u64, "rank"));
        write!(f, "Workflow {} starts with {tasks} on {ranks}", shown(&self.name))?;
        if self.known > 0 { write!(f, "; {} were finished before.", self.known) } else { f.write_str(".") }
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "The planner ran for {1}, because {0}: ", self.reason, seconds(self.seconds))?;
        match &self.by {
            Some(_) if self.kept => f.write_str("the plan stays")?,
            Some(by) => write!(f, "tasks now follow a plan of {by}")?,
            None => return f.write_str("it found no usable plan."),
        }
        self.ends_s.map_or(Ok(()), |ends| write!(f, ", which ends in {}", seconds(ends)))?;
        f.write_str(".")
    }
}

impl fmt::Display for TaskHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task {} waits for the limit {}.", quoted(&self.task), quoted(&self.limit))
    }
}

impl fmt::Display for TaskBegan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task {} begins", quoted(&self.task))?;
        match self.attempt {
            0 => {}
            1 => f.write_str(" once more")?,
            tries => write!(f, " for the {}th time", tries + 1)?,
        }
        for (number, wait) in self.waits.iter().enumerate() {
            write!(f, "{} {wait}", if number == 0 { "; it waited" } else { "," })?;
        }
        f.write_str(".")
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "The rank holds {} for tasks", Size(self.bytes))?;
        self.budget.map_or(Ok(()), |budget| write!(f, " (limit {})", Size(budget)))?;
        f.write_str(".")
    }
}

impl fmt::Display for TaskWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for ", seconds(self.seconds))?;
        match (self.waited_for, &self.of) {
            (WaitedFor::Input, Some(task)) => write!(f, "the output of {}", quoted(task)),
            (WaitedFor::Input, None) => f.write_str("its inputs to be produced"),
            (WaitedFor::Transfer, _) => f.write_str("its inputs to arrive"),
            (WaitedFor::Memory, _) => f.write_str("memory"),
            (WaitedFor::Core, _) => f.write_str("other tasks of the rank"),
        }
    }
}

impl fmt::Display for TaskEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (task, took) = (quoted(&self.task), seconds(self.seconds));
        match &self.failure {
            Some(why) => write!(f, "Task {task} failed after {took}: {why}")?,
            None => write!(f, "Task {task} ended after {took} with an output of {}", Size(self.bytes))?,
        }
        if let Some(peak) = self.peak_memory {
            write!(f, "; its processes used at most {}", Size(peak))?;
        }
        f.write_str(".")
    }
}

impl fmt::Display for ValueCame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (task, size) = (quoted(&self.task), Size(self.bytes));
        write!(f, "The output of task {task} arrived from rank {}: {size}.", self.from)
    }
}

impl fmt::Display for WorkflowEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "The workflow ends after {} and {}", count(self.tasks, "task"), seconds(self.seconds))?;
        match self.failed {
            0 => f.write_str("."),
            failed => write!(f, "; {failed} more failed or depend on a failed task."),
        }
    }
}

impl ValueOnDisk {
    pub(super) fn fmt_sentence(&self, f: &mut fmt::Formatter<'_>, written: bool) -> fmt::Result {
        let done = if written { "written to disk, because memory is short" } else { "read from disk" };
        write!(f, "The output of task {} was {done}: {}.", quoted(&self.task), Size(self.bytes))
    }
}
