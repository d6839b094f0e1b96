//! Model of a run, built from the events of its ranks.

use std::collections::{BTreeMap, BTreeSet};

#[cfg(doc)]
use armature::observe::activity::Work;
use armature::observe::activity::{Activity, Longest, Reached};
use armature::observe::{PlanInForce, TaskWait, WaitedFor};

use crate::mapping::Mapping;

mod gather;

/// Skeleton of a run: the pattern of parallel work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Skeleton {
    /// A pipeline.
    Pipeline,
    /// A farm.
    Farm,
    /// A parallel loop.
    Loop,
    /// A workflow.
    Workflow,
    /// The log does not show the kind of parallel operation.
    #[default]
    Unknown,
}

impl Skeleton {
    /// Returns the word with which the heading of a run begins.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Skeleton::Pipeline => "Pipeline",
            Skeleton::Farm => "Farm",
            Skeleton::Loop => "Loop",
            Skeleton::Workflow => "Workflow",
            Skeleton::Unknown => "Run",
        }
    }
}

/// Run of a pipeline, farm, loop or workflow. Times are in seconds since the start of the run on rank 0.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Number of the run in the job, from 0.
    pub number: u32,
    /// Pattern of parallel work: pipeline, farm, loop or workflow.
    pub skeleton: Skeleton,
    /// Name that the program gave to the skeleton; empty if there is none.
    pub name: String,
    /// File name of the program; empty if it is not known.
    pub program: String,
    /// Start time in seconds since 1970; `None` if the log does not contain it.
    pub began: Option<f64>,
    /// True if the run ended without an error.
    pub has_ended: bool,
    /// Length in seconds from the start of the run to its last event in the log.
    pub seconds: f64,
    /// Number of completed items or tasks or, for a loop, of its passes over all rows or indices;
    /// `None` if the log does not contain it.
    pub done: Option<u64>,
    /// Mode of balancing: `off`, `once` or `live`; empty if the log does not contain it.
    pub balance: String,
    /// Ranks of the run.
    pub ranks: Vec<Rank>,
    /// Kinds of user code of the run, such as the stages of a pipeline.
    pub kinds: Vec<Kind>,
    /// Distributions of the work on the ranks (mapping, units of a loop, or workers), with the
    /// times at which they took effect. The units of a loop are its rows or indices.
    pub arrangements: Vec<(f64, Arrangement)>,
    /// Decisions about the distribution of the work, including those against a change.
    pub decisions: Vec<Decision>,
    /// Changes during the run, such as a new mapping, a movement of rows to another rank or the
    /// loss of a rank: time and short description.
    pub changes: Vec<(f64, String)>,
    /// Predicted and measured times per item before and after changes to the distribution of the work.
    pub outcomes: Vec<ChangeResult>,
    /// Speeds of the ranks relative to the fastest rank, as last measured or assumed.
    pub speeds: Vec<f64>,
    /// Smoothed rates of ranks, on which decisions were based: time, rank, and items (or rows or
    /// indices of a loop) per second.
    pub filtered: Vec<(f64, usize, f64)>,
    /// Last estimates of the links between a sender and a receiver: bandwidth in bytes per second, set-up time in seconds.
    pub links: BTreeMap<(usize, usize), (f64, f64)>,
    /// Bandwidth of the slowest link to rank 0 in bytes per second, as measured before the run.
    pub slowest_probed: Option<f64>,
    /// Cost of a message with one task, in seconds, as estimated by the master of a farm.
    pub message_s: Option<f64>,
    /// Total seconds for which tasks waited for memory although their inputs were complete, over all ranks; `None` if the log does not contain it.
    pub memory_wait_s: Option<f64>,
    /// Attempts of a workflow's tasks, in the order in which they began.
    pub tasks: Vec<TaskRun>,
    /// Plans of a workflow: time of planning, and planned end of the last task.
    pub plans: Vec<(f64, f64)>,
    /// True if the planner has computed a plan in this run.
    pub(crate) is_planned: bool,
    /// Plans of a workflow's tasks, with the times at which they took effect.
    pub schedules: Vec<(f64, PlanInForce)>,
    /// Values that tasks of a workflow sent from one rank to another, by sender and receiver: number of values and bytes.
    pub values_sent: BTreeMap<(usize, usize), (u64, u64)>,
    /// Progress reported by rank 0: time at which each number of completed items was first reported.
    pub reached: Vec<(f64, Reached)>,
    /// Number of tasks that a workflow runs, without those that were completed before the run; `None` if the log does not contain it.
    pub total: Option<u64>,
    /// Ranks that died or were excluded during the run.
    pub lost: Vec<usize>,
    /// Text of all events, without the activity records of the ranks.
    pub lines: Vec<Line>,
}

/// Distribution of the work on the ranks.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrangement {
    /// Mapping of a pipeline's stages.
    Mapping(Mapping),
    /// Number of units of a loop (rows or indices) on each rank.
    Units(Vec<u64>),
    /// Number of a farm's active workers.
    Workers(usize),
}

/// Prediction for a change to the distribution of the work, and measurements before and after the change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangeResult {
    /// Time at which the measurement of `after_s` was complete.
    pub at: f64,
    /// Measured seconds per item before the distribution of the work was changed.
    pub before_s: f64,
    /// Predicted seconds per item after the distribution of the work was changed.
    pub predicted_s: f64,
    /// Measured seconds per item after the distribution of the work was changed.
    pub after_s: f64,
}

/// Attempt of a workflow's task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskRun {
    /// Name of the task.
    pub task: String,
    /// Rank that ran the task.
    pub rank: usize,
    /// Number of earlier attempts of the task.
    pub attempt: u32,
    /// Start time of the attempt.
    pub begin: f64,
    /// End time; `None` if the log does not contain it.
    pub end: Option<f64>,
    /// Waits of the task before its start in order of time, each with its cause.
    pub waits: Vec<TaskWait>,
    /// Tasks whose values the task reads.
    pub reads: Vec<String>,
    /// Size of the task's value in bytes, once the attempt has ended.
    pub bytes: u64,
    /// Error message of the attempt, if it failed.
    pub failure: Option<String>,
}

impl TaskRun {
    /// Returns the time that the task waited for one cause, in seconds.
    pub fn waited(&self, what: WaitedFor) -> f64 {
        let some = self.waits.iter().filter(|wait| wait.waited_for == what);
        some.map(|wait| wait.seconds).filter(|seconds| seconds.is_finite()).sum()
    }
}

/// Measurement of the memory that a rank held for a workflow's tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldAt {
    /// Time at which the memory was measured.
    pub at: f64,
    /// Memory in bytes that the rank held for tasks at this time.
    pub bytes: u64,
    /// Peak of the memory that the rank held since the previous measurement, in bytes.
    pub most: u64,
}

/// Decision of the framework during the run about the distribution of the work.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Time of the decision.
    pub at: f64,
    /// True if the decision changed the distribution of the work.
    pub acted: bool,
    /// Decision as a sentence.
    pub text: String,
}

/// Event of the run as text, for the table of events.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Time of the event.
    pub at: f64,
    /// Rank that recorded the event.
    pub rank: usize,
    /// Event as a sentence.
    pub text: String,
}

/// Measurements and state of one rank in a run.
#[derive(Clone, Debug, Default)]
pub struct Rank {
    /// Name of the host on which the rank runs.
    pub host: String,
    /// Activity records of the rank, each about one part of its time, in order of time.
    pub parts: Vec<Part>,
    /// Messages that the rank sent, by receiver: number of messages, and bytes.
    pub sent: BTreeMap<usize, (u64, u64)>,
    /// Peak memory use of the rank's process, in bytes.
    pub memory_peak: Option<u64>,
    /// Time in which a CPU quota stopped the processes of the rank's control group, in seconds.
    pub throttled_s: f64,
    /// Hardware threads of the host on which the rank may run; empty if they are not known.
    pub threads: Vec<usize>,
    /// Memory limit of the rank's process, in bytes.
    pub memory_limit: Option<u64>,
    /// Memory that the rank held for a workflow's tasks, as reported by the rank.
    pub held: Vec<HeldAt>,
    /// Limit of the memory that the rank may hold for tasks, in bytes.
    pub budget: Option<u64>,
    /// Attempts of tasks that run on the rank, as indices into [`Run::tasks`].
    pub running: Vec<usize>,
    /// Time at which the rank finished its work in the run; `None` if the log does not contain it.
    pub end: Option<f64>,
}

/// Part of a rank's time that one activity record of the log describes.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Time of the run at which this part of the rank's time ends.
    pub to: f64,
    /// Seconds of each activity of the rank in this part of its time.
    pub activity: Activity,
}

impl Part {
    /// Returns the time of the run at which this part of the rank's time begins.
    pub fn from(&self) -> f64 {
        self.to - self.activity.seconds
    }
}

/// Kind of user code of a run, such as a stage, with the statistics of its calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kind {
    /// Name of the kind of user code, such as the name of a stage.
    pub name: String,
    /// Number of items, tasks or units of a loop (rows or indices) that this user code has completed.
    pub done: u64,
    /// Total time of the calls of this user code in seconds.
    pub seconds: f64,
    /// Histogram of the durations of calls: number of items whose call took between this
    /// [step](Work::step_s) and the next.
    pub steps: BTreeMap<u32, u64>,
    /// Longest call of this kind of user code.
    pub longest: Option<Longest>,
    /// Number of completed items and their total seconds, by rank.
    pub by_rank: BTreeMap<usize, (u64, f64)>,
}

/// Minimum number of completed items for the rate of a rank to count as its speed. The rate of fewer items depends on their sizes.
const ENOUGH: u64 = 30;

impl Run {
    /// Returns true if the log contains the activity of any rank.
    pub fn has_activity(&self) -> bool {
        self.ranks.iter().any(|rank| !rank.parts.is_empty())
    }

    /// Returns the hosts of some ranks as the end of a phrase, such as " on node01" or " on 3 hosts"; empty if they are not known.
    pub(crate) fn on_hosts(&self, ranks: impl IntoIterator<Item = usize>) -> String {
        let hosts = ranks.into_iter().map(|rank| self.ranks[rank].host.as_str());
        let hosts: BTreeSet<&str> = hosts.filter(|host| !host.is_empty()).collect();
        match (hosts.len(), hosts.first()) {
            (1, Some(host)) => format!(" on {host}"),
            (0, _) => String::new(),
            (count, _) => format!(" on {count} hosts"),
        }
    }

    /// Returns the word for what the skeleton processes, such as "items" or "tasks".
    pub fn things(&self) -> &'static str {
        match self.skeleton {
            Skeleton::Pipeline => "items",
            Skeleton::Loop => "units",
            Skeleton::Farm | Skeleton::Workflow | Skeleton::Unknown => "tasks",
        }
    }

    /// Returns the word for what [`done`](Run::done) counts: "passes" for a loop, otherwise the same word as [`things`](Run::things).
    pub fn done_things(&self) -> &'static str {
        if self.skeleton == Skeleton::Loop { "passes" } else { self.things() }
    }

    /// Returns the mean time in seconds of user code for an item, a task, or a unit of a loop (row
    /// or index).
    pub fn calls(&self) -> Option<f64> {
        let (done, seconds) =
            self.kinds.iter().fold((0, 0.0), |sum, kind| (sum.0 + kind.done, sum.1 + kind.seconds));
        (done > 0).then(|| seconds / done as f64)
    }

    /// Returns the ranks' speeds relative to the fastest rank: the measured ones or, with a single kind of user code, the rates at which the
    /// ranks completed items. `None` if neither are known.
    pub fn relative_speeds(&self) -> Option<Vec<f64>> {
        if self.speeds.len() == self.ranks.len() && !self.speeds.is_empty() {
            return Some(self.speeds.clone());
        }
        let [kind] = self.kinds.as_slice() else { return None };
        if self.skeleton == Skeleton::Workflow {
            return None;
        }
        let is_enough = |(done, seconds): &&(u64, f64)| *done >= ENOUGH && *seconds > 0.0;
        let rate = |rank: usize| kind.by_rank.get(&rank).filter(is_enough).map(|w| w.0 as f64 / w.1);
        let rates: Vec<f64> = (0..self.ranks.len()).map(rate).collect::<Option<_>>()?;
        let most = rates.iter().copied().fold(0.0, f64::max);
        (most > 0.0).then(|| rates.iter().map(|rate| rate / most).collect())
    }

    /// Returns the smoothed rates of a rank: time, and items (or rows or indices of a loop) per second.
    pub fn filtered_of(&self, rank: usize) -> Vec<(f64, f64)> {
        self.filtered.iter().filter(|f| f.1 == rank).map(|f| (f.0, f.2)).collect()
    }
}

/// Returns a description of a call of user code: its kind, and the numbers of its items.
pub(crate) fn call_text(longest: &Longest, kinds: &[Kind]) -> String {
    let name = kinds.get(longest.of).map_or("user code", |kind| kind.name.as_str());
    let number = match (longest.first, longest.count) {
        (None, 0 | 1) => String::new(),
        (None, count) => format!(", {count} at once"),
        (Some(first), 0 | 1) => format!(" {first}"),
        (Some(first), count) => format!(" {first} to {}", first + count - 1),
    };
    format!("{name}{number}")
}
