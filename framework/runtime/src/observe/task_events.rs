//! What happens in a workflow, and what its tasks wait for.

use std::fmt;

use armature_text::{quoted, shown};
use serde::{Deserialize, Serialize};

use super::figure;
use super::words::{count, seconds};
use crate::session::topology::Size;

/// A workflow's run begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkflowStart {
    /// The workflow.
    pub name: String,
    /// How many ranks there are.
    pub ranks: usize,
    /// Its tasks.
    pub tasks: u64,
    /// Those of them that were done before.
    pub known: u64,
}

/// The planner was asked which rank is to run which of a workflow's tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Who made the plan that is in force from now on; `None` if none was found.
    pub by: Option<String>,
    /// When the last task ends by it, in seconds from now on.
    #[serde(with = "figure::optional")]
    pub ends_s: Option<f64>,
    /// What planning has taken, in seconds.
    #[serde(with = "figure")]
    pub seconds: f64,
    /// Why the planner was asked, as the end of a sentence.
    pub reason: String,
    /// Whether the plan is the one before.
    pub kept: bool,
}

/// A task waits for a named limit before a rank is told to run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskHeld {
    /// The task.
    pub task: String,
    /// The limit.
    pub limit: String,
}

/// A rank has begun a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskBegan {
    /// The task.
    pub task: String,
    /// How often it has been tried before.
    pub attempt: u32,
    /// What it has waited for since the rank was told to run it, one after the other.
    pub waits: Vec<TaskWait>,
    /// The tasks whose values it reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
}

/// What a rank holds for tasks, by its own account: values, those that are being sent included, room that is kept for some, and what running tasks
/// may take. It is written when it has changed, and as rarely as what ranks tell of their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// How much, in bytes.
    pub bytes: u64,
    /// The most since this was last written, in bytes.
    pub most: u64,
    /// What it may hold, in bytes, if that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
}

/// A part of the time from the order to run a task to its beginning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskWait {
    /// What it waited for.
    #[serde(rename = "for")]
    pub waited_for: WaitedFor,
    /// Where it waited for something to be made, the task that gave the last of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// How long, in seconds.
    #[serde(with = "figure")]
    pub seconds: f64,
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitedFor {
    /// What it reads was not made yet.
    Input,
    /// What it reads had to come from other ranks or from disk, or to wait until memory was free for it.
    Transfer,
    /// Its inputs were in memory, but beside them too little was free for what it needs itself.
    Memory,
    /// The rank was busy with other tasks.
    Core,
}

/// A try of a task has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskEnded {
    /// The task.
    pub task: String,
    /// How long it took.
    #[serde(with = "figure")]
    pub seconds: f64,
    /// Size of what it gives, in bytes.
    pub bytes: u64,
    /// Most memory that its processes held, in bytes, if it was a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What a task gives has come from another rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueCame {
    /// The task.
    pub task: String,
    /// The rank that sent it.
    pub from: usize,
    /// Its size.
    pub bytes: u64,
}

/// What a task gives was written to disk, or read from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueOnDisk {
    /// The task.
    pub task: String,
    /// Its size.
    pub bytes: u64,
}

/// A run of a workflow ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkflowEnd {
    /// Tasks that were done.
    pub tasks: u64,
    /// Tasks that failed, or depend on one that did.
    pub failed: u64,
    /// Time from its start, in seconds.
    #[serde(with = "figure")]
    pub seconds: f64,
}

impl fmt::Display for WorkflowStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tasks, ranks) = (count(self.tasks, "task"), count(self.ranks as u64, "rank"));
        write!(f, "Workflow {} starts with {tasks} on {ranks}", shown(&self.name))?;
        if self.known > 0 { write!(f, "; {} were done before.", self.known) } else { f.write_str(".") }
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "The planner was asked because {}, and has worked for {}: ",
            self.reason,
            seconds(self.seconds)
        )?;
        match &self.by {
            Some(_) if self.kept => f.write_str("the plan stays")?,
            Some(by) => write!(f, "tasks are run by a plan of {by} from now on")?,
            None => return f.write_str("it has found no plan that can be used."),
        }
        self.ends_s.map_or(Ok(()), |ends| write!(f, ", which ends in {}", seconds(ends)))?;
        f.write_str(".")
    }
}

impl fmt::Display for TaskHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task {} has to wait for the limit {}.", quoted(&self.task), quoted(&self.limit))
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
            write!(f, "{} {wait}", if number == 0 { "; it has waited" } else { "," })?;
        }
        f.write_str(".")
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "The rank holds {} for tasks", Size(self.bytes))?;
        self.budget.map_or(Ok(()), |budget| write!(f, ", of {} that it may", Size(budget)))?;
        f.write_str(".")
    }
}

impl fmt::Display for TaskWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for ", seconds(self.seconds))?;
        match (self.waited_for, &self.of) {
            (WaitedFor::Input, Some(task)) => write!(f, "what {} gives", quoted(task)),
            (WaitedFor::Input, None) => f.write_str("what it reads to be made"),
            (WaitedFor::Transfer, _) => f.write_str("what it reads to be here"),
            (WaitedFor::Memory, _) => f.write_str("memory"),
            (WaitedFor::Core, _) => f.write_str("other tasks of the rank"),
        }
    }
}

impl fmt::Display for TaskEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (task, took) = (quoted(&self.task), seconds(self.seconds));
        match &self.failure {
            Some(why) => write!(f, "Task {task} has failed after {took}: {why}")?,
            None => write!(f, "Task {task} is done after {took} and gives {}", Size(self.bytes))?,
        }
        if let Some(peak) = self.peak_memory {
            write!(f, "; its processes held {} at most", Size(peak))?;
        }
        f.write_str(".")
    }
}

impl fmt::Display for ValueCame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (task, size) = (quoted(&self.task), Size(self.bytes));
        write!(f, "What task {task} gives has come from rank {}: {size}.", self.from)
    }
}

impl fmt::Display for WorkflowEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "The workflow ends after {} and {}", count(self.tasks, "task"), seconds(self.seconds))?;
        match self.failed {
            0 => f.write_str("."),
            failed => write!(f, "; {failed} more have failed, or depend on one that did."),
        }
    }
}

impl ValueOnDisk {
    /// That it was `written` or read, as a sentence.
    pub(super) fn told(&self, f: &mut fmt::Formatter<'_>, written: bool) -> fmt::Result {
        let done = if written { "written to disk, as memory is short" } else { "read from disk" };
        write!(f, "What task {} gives was {done}: {}.", quoted(&self.task), Size(self.bytes))
    }
}
