//! One run, as the events of its ranks tell of it.

use std::collections::BTreeMap;

#[cfg(doc)]
use armature::observe::activity::Work;
use armature::observe::activity::{Activity, Longest, Reached};
use armature::observe::{PlanInForce, TaskWait, WaitedFor};

use crate::mapping::Mapping;

mod gather;

/// Which skeleton ran.
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
    /// The log does not say.
    #[default]
    Unknown,
}

/// One run of a skeleton. Times are seconds since rank 0 began with it.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Which of the job's runs it is, from 0.
    pub number: u32,
    /// Which skeleton ran.
    pub skeleton: Skeleton,
    /// The name that the program gave it, where it has one.
    pub name: String,
    /// The program, as far as that is known.
    pub program: String,
    /// When it began: seconds since 1970; `None` where no rank says so.
    pub began: Option<f64>,
    /// Whether it ended as it should.
    pub has_ended: bool,
    /// From its begin to the last that is known of it, in seconds.
    pub seconds: f64,
    /// Items, tasks or passes, where the log tells.
    pub done: Option<u64>,
    /// Whether it was balanced while it ran: `off`, `once` or `live`; empty where the log does not tell.
    pub balance: String,
    /// The ranks.
    pub ranks: Vec<Rank>,
    /// What user code does, by kind.
    pub kinds: Vec<Kind>,
    /// Mappings (pipelines) or units by rank (loops), from when on they were in force.
    pub arrangements: Vec<(f64, Arrangement)>,
    /// Decisions, whether something was changed or not.
    pub decisions: Vec<Decision>,
    /// Changes that were made: when, and in a word or two.
    pub changes: Vec<(f64, String)>,
    /// What came of changes: when, before, predicted, after, in seconds per item.
    pub outcomes: Vec<Outcome>,
    /// Speeds of the ranks as measured or assumed at the latest, relative to the fastest.
    pub speeds: Vec<f64>,
    /// Rates that a decision stood on, which are filtered: when, rank, units per second.
    pub filtered: Vec<(f64, usize, f64)>,
    /// Links as estimated last: from, to, bytes per second, seconds of set-up.
    pub links: BTreeMap<(usize, usize), (f64, f64)>,
    /// Bandwidth of the slowest link to rank 0 as it was probed, in bytes per second.
    pub slowest_probed: Option<f64>,
    /// What a message with one task takes, in seconds, as a farm's master has it.
    pub message_s: Option<f64>,
    /// For how long tasks that could have begun waited for memory, all ranks together, in seconds, where the log tells.
    pub memory_wait_s: Option<f64>,
    /// Tries of a workflow's tasks, in the order in which they began.
    pub tasks: Vec<TaskRun>,
    /// Plans of a workflow: when they were made, and when the last task ends by them, in seconds since the run began.
    pub plans: Vec<(f64, f64)>,
    /// A plan was in force.
    pub(crate) is_planned: bool,
    /// What was to run where and when by these plans, where the log tells: when they came into force, and their tasks.
    pub schedules: Vec<(f64, PlanInForce)>,
    /// Values of a workflow's tasks and their bytes that went from one rank to another: by sender and receiver.
    pub values_sent: BTreeMap<(usize, usize), (u64, u64)>,
    /// How far it was, where rank 0 tells: the first time at which so much was done.
    pub reached: Vec<(f64, Reached)>,
    /// How many tasks a workflow or a farm has, where the log tells; those that were done before are not counted.
    pub total: Option<u64>,
    /// Ranks that were lost.
    pub lost: Vec<usize>,
    /// All events but those on ranks' time, as they are told.
    pub lines: Vec<Line>,
}

/// What runs where.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrangement {
    /// Of stages.
    Mapping(Mapping),
    /// Of a loop's units.
    Units(Vec<u64>),
    /// Of a farm: how many ranks work.
    Workers(usize),
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// When it was known.
    pub at: f64,
    /// Seconds per item before the change.
    pub before_s: f64,
    /// What was predicted.
    pub predicted_s: f64,
    /// What was measured.
    pub after_s: f64,
}

/// A try of a workflow's task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskRun {
    /// The task.
    pub task: String,
    /// The rank that ran it.
    pub rank: usize,
    /// How often it had been tried before.
    pub attempt: u32,
    /// When it began.
    pub begin: f64,
    /// When it ended; `None` if the log does not tell.
    pub end: Option<f64>,
    /// What it had waited for before, one after the other.
    pub waits: Vec<TaskWait>,
    /// The tasks whose values it reads.
    pub reads: Vec<String>,
    /// Size of what it gives, in bytes, once it has ended.
    pub bytes: u64,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

impl TaskRun {
    /// For how long it has waited for this, in seconds.
    pub fn waited(&self, what: WaitedFor) -> f64 {
        let some = self.waits.iter().filter(|wait| wait.waited_for == what);
        some.map(|wait| wait.seconds).filter(|seconds| seconds.is_finite()).sum()
    }
}

/// What a rank held for a workflow's tasks at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldAt {
    /// When.
    pub at: f64,
    /// How much, in bytes.
    pub bytes: u64,
    /// The most since the time before, in bytes.
    pub most: u64,
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When.
    pub at: f64,
    /// Whether something was changed.
    pub acted: bool,
    /// In a sentence.
    pub text: String,
}

/// An event as it is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// When.
    pub at: f64,
    /// Which rank tells it.
    pub rank: usize,
    /// In a sentence.
    pub text: String,
}

/// One rank.
#[derive(Clone, Debug, Default)]
pub struct Rank {
    /// The host that it ran on.
    pub host: String,
    /// What it did, one part after the other.
    pub parts: Vec<Part>,
    /// Messages and bytes that it sent, by receiver.
    pub sent: BTreeMap<usize, (u64, u64)>,
    /// The most memory that its process had, in bytes.
    pub memory_peak: Option<u64>,
    /// Time in which a CPU quota stopped its control group, in seconds.
    pub throttled_s: f64,
    /// What that may have.
    pub memory_limit: Option<u64>,
    /// What it held for a workflow's tasks, by its own account.
    pub held: Vec<HeldAt>,
    /// What it may hold for them, in bytes.
    pub budget: Option<u64>,
    /// The tries that it is at, as places in [`Run::tasks`].
    pub running: Vec<usize>,
    /// When it had done its part, if it says so.
    pub end: Option<f64>,
}

/// A part of a rank's time.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// When it ends.
    pub to: f64,
    /// What was done in it.
    pub activity: Activity,
}

impl Part {
    /// When it begins.
    pub fn from(&self) -> f64 {
        self.to - self.activity.seconds
    }
}

/// What user code does of one kind: a stage, say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// Items, tasks or units that were done.
    pub done: u64,
    /// What they took together, in seconds.
    pub seconds: f64,
    /// How many took how long, by [step](Work::step_s).
    pub steps: BTreeMap<u32, u64>,
    /// The longest call.
    pub longest: Option<Longest>,
    /// By rank: what it took there, in seconds.
    pub by_rank: BTreeMap<usize, (u64, f64)>,
}

impl Run {
    /// Whether any rank tells what it did with its time.
    pub fn has_activity(&self) -> bool {
        self.ranks.iter().any(|rank| !rank.parts.is_empty())
    }

    /// What an item is called, in the plural.
    pub fn things(&self) -> &'static str {
        match self.skeleton {
            Skeleton::Pipeline => "items",
            Skeleton::Loop => "units",
            Skeleton::Farm | Skeleton::Workflow | Skeleton::Unknown => "tasks",
        }
    }

    /// What [`done`](Run::done) counts.
    pub fn done_things(&self) -> &'static str {
        if self.skeleton == Skeleton::Loop { "passes" } else { self.things() }
    }

    /// What an item, task or unit takes in the mean, in seconds.
    pub fn calls(&self) -> Option<f64> {
        let (done, seconds) =
            self.kinds.iter().fold((0, 0.0), |sum, kind| (sum.0 + kind.done, sum.1 + kind.seconds));
        (done > 0).then(|| seconds / done as f64)
    }

    /// Speeds of the ranks: as they were measured, or by what they did of the same kind in the same time.
    pub fn relative_speeds(&self) -> Option<Vec<f64>> {
        if self.speeds.len() == self.ranks.len() && !self.speeds.is_empty() {
            return Some(self.speeds.clone());
        }
        let [kind] = self.kinds.as_slice() else { return None };
        let rate = |rank: usize| kind.by_rank.get(&rank).filter(|w| w.1 > 0.0).map(|w| w.0 as f64 / w.1);
        let rates: Vec<f64> = (0..self.ranks.len()).map(rate).collect::<Option<_>>()?;
        let most = rates.iter().copied().fold(0.0, f64::max);
        (most > 0.0).then(|| rates.iter().map(|rate| rate / most).collect())
    }

    /// The filtered rates of a rank.
    pub fn filtered_of(&self, rank: usize) -> Vec<(f64, f64)> {
        self.filtered.iter().filter(|f| f.1 == rank).map(|f| (f.0, f.2)).collect()
    }
}

/// The longest that a rank did.
pub(crate) fn told(longest: &Longest, kinds: &[Kind]) -> String {
    let name = kinds.get(longest.of).map_or("user code", |kind| kind.name.as_str());
    let number = match (longest.first, longest.count) {
        (None, 0 | 1) => String::new(),
        (None, count) => format!(", {count} at once"),
        (Some(first), 0 | 1) => format!(" {first}"),
        (Some(first), count) => format!(" {first} to {}", first + count - 1),
    };
    format!("{name}{number}")
}
