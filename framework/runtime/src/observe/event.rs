//! What can happen in a run that somebody may want to know of afterwards.

use armature_planner::SharedCores;
use serde::{Deserialize, Serialize};

use super::activity::{Activity, RankStart, Reached, Traffic, Work};
use super::figure;
use super::plan_event::PlanInForce;
use super::subject::{Input, Subject};
use super::summary::RunSummary;
use super::task_events::{
    Held, Planned, TaskBegan, TaskEnded, TaskHeld, ValueCame, ValueOnDisk, WorkflowEnd, WorkflowStart,
};
use crate::balance::probe::Probed;

/// Something that happened in a run. Its `Display` is one sentence in plain words.
///
/// Times of an item are seconds per item: of a stage, how long one item keeps it busy; of a mapping, how long after
/// one result the next one comes (its production time). An *epoch* is the time during which one mapping is in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Event {
    /// A run begins.
    Start {
        /// How many ranks take part.
        ranks: usize,
        /// The mapping that it begins with, in its text form.
        mapping: String,
        /// Whether the mapping is changed while the stream runs: `off`, `once` or `live`.
        balance: String,
    },
    /// The ranks and their links to rank 0 were measured.
    Probe {
        /// Speed of each rank, relative to the fastest (1).
        #[serde(with = "figure::list")]
        speeds: Vec<f64>,
        /// Bandwidth of the slowest link to rank 0, in bytes per second; `None` on one rank.
        #[serde(with = "figure::optional")]
        slowest_link: Option<f64>,
        /// Longest time that an empty message takes to or from rank 0, in seconds; `None` on one rank.
        #[serde(with = "figure::optional")]
        longest_delay: Option<f64>,
        /// Ranks that share cores, and how many cores they have together.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sharing: Vec<(Vec<usize>, f64)>,
    },
    /// A stage's service time on a rank was estimated anew.
    Measured {
        /// The stage.
        stage: String,
        /// The rank that runs it.
        rank: usize,
        /// Items that the estimate stands on.
        items: u64,
        /// The estimate, in seconds per item.
        #[serde(with = "figure")]
        seconds_per_item: f64,
        /// Which estimator it comes from.
        by: String,
        /// Whether the estimate no longer moves.
        settled: bool,
    },
    /// A link was seen to be other than it was probed, by the messages that went over it.
    Link {
        /// The rank that sends over it.
        from: usize,
        /// The rank that receives.
        to: usize,
        /// The estimate of its bandwidth, in bytes per second.
        #[serde(with = "figure")]
        bandwidth: f64,
        /// The estimate of what a message takes before its first byte arrives, in seconds.
        #[serde(with = "figure")]
        setup: f64,
        /// Which estimator it comes from.
        by: String,
        /// Whether the estimate no longer moves.
        settled: bool,
    },
    /// A farm's run begins.
    FarmStart {
        /// The farm.
        farm: String,
        /// How many ranks there are.
        ranks: usize,
        /// How many of them take part; the others are parked.
        workers: usize,
        /// How chunks are made.
        chunking: String,
        /// Whether the number of workers is changed while the farm runs: `off`, `once` or `live`.
        balance: String,
    },
    /// It was considered whether another arrangement is worth a change.
    Decision {
        /// What is arranged.
        #[serde(default, skip_serializing_if = "Subject::is_mapping")]
        of: Subject,
        /// The arrangement in force: a mapping, or a number.
        current: String,
        /// The best other one that was found, if there was one.
        candidate: Option<String>,
        /// What the one in force takes, in seconds per item.
        #[serde(with = "figure")]
        current_s: f64,
        /// What the other one is predicted to take, in seconds per item.
        #[serde(with = "figure::optional")]
        candidate_s: Option<f64>,
        /// Which part of the current time the other one would save: 0.2 is a fifth.
        #[serde(with = "figure")]
        gain: f64,
        /// The gain from which on a change is considered.
        #[serde(with = "figure")]
        threshold: f64,
        /// What the change would save in the time ahead, in seconds.
        #[serde(with = "figure")]
        benefit_s: f64,
        /// What the change would cost, in seconds.
        #[serde(with = "figure")]
        cost_s: f64,
        /// By stage: what an item takes on the fastest rank, in seconds, as the decision has it; empty where measurements
        /// are missing.
        #[serde(default, with = "figure::list", skip_serializing_if = "Vec::is_empty")]
        works_s: Vec<f64>,
        /// By rank: its speed, relative to the fastest (1), as the decision has it; empty where measurements are missing.
        #[serde(default, with = "figure::list", skip_serializing_if = "Vec::is_empty")]
        speeds: Vec<f64>,
        /// What else was measured that the decision stands on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        inputs: Vec<Input>,
        /// Whether a change is made.
        acted: bool,
        /// Why, or why not, as the end of a sentence: `the gain has lasted for three periods`.
        reason: String,
    },
    /// The ranks were told of the next mapping, and to make ready for it.
    Prepare {
        /// The epoch of the next mapping.
        epoch: u32,
        /// The next mapping.
        mapping: String,
    },
    /// A stage was set up on the rank that writes this.
    WarmUp {
        /// The stage.
        stage: String,
        /// How long it took.
        #[serde(with = "figure")]
        seconds: f64,
    },
    /// The rank that writes this (rank 0: every rank) is ready for the next mapping.
    Ready {
        /// The epoch of the next mapping.
        epoch: u32,
    },
    /// The next mapping is in force from now on.
    Switch {
        /// Its epoch.
        epoch: u32,
        /// The mapping.
        mapping: String,
    },
    /// The rank that writes this gave a serial stage to another one.
    HandOver {
        /// The stage.
        stage: String,
        /// The rank that has it now.
        to: usize,
        /// The first batch that the other rank will run.
        next_batch: u64,
        /// Size of the stage's state, in bytes.
        bytes: u64,
    },
    /// The rank that writes this received a serial stage from another one.
    TakeOver {
        /// The stage.
        stage: String,
        /// The rank that had it.
        from: usize,
        /// The first batch that it will run here.
        next_batch: u64,
    },
    /// The rank that writes this passed batches on that came to it by an earlier mapping.
    Forwarded {
        /// The epoch in which it did.
        epoch: u32,
        /// How many batches.
        batches: u64,
    },
    /// A farm's automatic chunks are made in another way from now on.
    Chunks {
        /// How.
        by: String,
        /// How they were made before.
        before: String,
        /// Tasks that are left.
        left: u64,
        /// Workers that take part.
        workers: usize,
        /// Mean time of a task, in seconds.
        #[serde(with = "figure")]
        mean_s: f64,
        /// Standard deviation of a task's time, in seconds.
        #[serde(with = "figure")]
        deviation_s: f64,
        /// Neighbouring tasks whose times are alike; 1 if they are independent.
        #[serde(with = "figure")]
        block: f64,
        /// What a message with one task takes, in seconds.
        #[serde(with = "figure")]
        message_s: f64,
        /// What is predicted for the tasks that are left, in seconds.
        #[serde(with = "figure")]
        predicted_s: f64,
        /// The same for the way before, if that was predicted.
        #[serde(with = "figure::optional")]
        before_s: Option<f64>,
        /// Ways that were compared.
        compared: usize,
    },
    /// A rank is not used by a farm any more: it has died, or hangs.
    Lost {
        /// The rank.
        rank: usize,
        /// Tasks that it had, which go to others.
        tasks: u64,
        /// How that was noticed, as a sentence without its end.
        why: String,
    },
    /// A rank of a farm that was lost, because nothing was heard of it, takes part again.
    Heard {
        /// The rank.
        rank: usize,
    },
    /// What a farm did more than once, or in vain.
    Failures {
        /// Tasks that failed at every attempt.
        failed: u64,
        /// Attempts after the first, because of an error.
        retried: u64,
        /// Tasks that were handed out again because their rank was lost.
        again: u64,
    },
    /// Workers of a farm get no tasks from now on.
    Parked {
        /// Their ranks.
        ranks: Vec<usize>,
    },
    /// Parked workers of a farm take part again.
    Woken {
        /// Their ranks.
        ranks: Vec<usize>,
    },
    /// A farm's workers are put under sub-masters.
    Split {
        /// The ranks that lead others from now on.
        sub_masters: Vec<usize>,
        /// How many ranks these lead together.
        workers: usize,
        /// Why, as the end of a sentence.
        reason: String,
    },
    /// A loop's run begins.
    LoopStart {
        /// The loop.
        name: String,
        /// Its units.
        units: u64,
        /// How many each rank has at first.
        held: Vec<u64>,
        /// Whether units move while the loop runs: `off`, `once` or `live`.
        balance: String,
    },
    /// A run of a loop ended as it should.
    LoopEnd {
        /// How many times its units were done.
        passes: u64,
        /// Time from its start, in seconds.
        #[serde(with = "figure")]
        seconds: f64,
    },
    /// Units of a loop were moved between ranks, after a decision to do so.
    Moved {
        /// The number of the movement, from 1.
        number: u64,
        /// Units that moved; one that passed through several ranks counts for each.
        units: u64,
        /// Messages that carried them.
        messages: u64,
        /// Time that the rank which it took longest spent on it, in seconds.
        #[serde(with = "figure")]
        seconds: f64,
    },
    /// A loop is done in larger or smaller blocks from now on.
    Grain {
        /// Units, or iterations of the pipelined loop, in a block.
        block: u64,
        /// Why, as the end of a sentence.
        reason: String,
    },
    /// A workflow's run begins.
    WorkflowStart(WorkflowStart),
    /// The planner was asked which rank is to run which of a workflow's tasks.
    Planned(Planned),
    /// What that has come to: a plan of a workflow's tasks that is in force from now on.
    Plan(PlanInForce),
    /// A task of a workflow has to wait for a limit.
    TaskHeld(TaskHeld),
    /// The rank that writes this has begun a task of a workflow.
    TaskBegan(TaskBegan),
    /// A try of a workflow's task has ended on the rank that writes this.
    TaskEnded(TaskEnded),
    /// What a task gives has come to the rank that writes this.
    ValueCame(ValueCame),
    /// The rank that writes this has written what a task gives to disk, because memory was short.
    ValueSpilled(ValueOnDisk),
    /// The rank that writes this has read it from there.
    ValueLoaded(ValueOnDisk),
    /// What the rank that writes this holds for a workflow's tasks.
    Held(Held),
    /// A run of a workflow ended.
    WorkflowEnd(WorkflowEnd),
    /// What came of a change, after it has been in force for a while.
    Outcome {
        /// What was changed.
        #[serde(default, skip_serializing_if = "Subject::is_mapping")]
        of: Subject,
        /// The epoch of the mapping that was changed to, or the number of the change.
        epoch: u32,
        /// Before the change, in seconds per item.
        #[serde(with = "figure")]
        before_s: f64,
        /// What was predicted, in seconds per item.
        #[serde(with = "figure")]
        predicted_s: f64,
        /// What was measured after the change, in seconds per item.
        #[serde(with = "figure")]
        after_s: f64,
    },
    /// A rank begins its part of a run.
    RankStart(RankStart),
    /// What a rank did in a part of its time.
    Activity(Activity),
    /// What calls of user code took.
    Work(Work),
    /// What a rank sent.
    Traffic(Traffic),
    /// How far the run is.
    Progress(Reached),
    /// A rank has done its part of a run.
    RankEnd {
        /// Time since it began, in seconds.
        seconds: f64,
    },
    /// A run ended as it should.
    Finish {
        /// Items that the source gave.
        items: u64,
        /// Time from its start, in seconds.
        #[serde(with = "figure")]
        seconds: f64,
    },
    /// Totals of a run's summary, by rank: what ranks tell of their time adds up to the same.
    Totals {
        /// Items, tasks or units that the rank did; of units that were done in parts, the parts.
        #[serde(with = "figure::list")]
        done: Vec<f64>,
        /// Time that it spent in user code and commands, in seconds.
        #[serde(with = "figure::list")]
        busy_s: Vec<f64>,
    },
}

impl Event {
    /// Totals of `summary`.
    pub(crate) fn totals_of(summary: &impl RunSummary) -> Self {
        let ranks = summary.ranks();
        Event::Totals {
            done: ranks.iter().map(|rank| rank.done).collect(),
            busy_s: ranks.iter().map(|rank| rank.busy.as_secs_f64()).collect(),
        }
    }

    /// What was probed, where `sharing` are groups of ranks that share cores.
    pub(crate) fn of_probe(probed: &Probed, sharing: &[SharedCores]) -> Self {
        let links = || (1..probed.platform.processors()).map(|rank| probed.platform.link(0, rank));
        Event::Probe {
            speeds: probed.speeds(),
            slowest_link: links().map(|link| link.bandwidth).reduce(f64::min),
            longest_delay: links().map(|link| link.setup).reduce(f64::max),
            sharing: sharing.iter().map(|group| (group.processors.clone(), group.cores)).collect(),
        }
    }

    /// Whether it is the last of a run that ended as it should.
    pub fn is_end(&self) -> bool {
        matches!(self, Event::Finish { .. } | Event::LoopEnd { .. } | Event::WorkflowEnd(_))
    }

    /// Whether it tells what a rank did with its time.
    pub fn is_of_activity(&self) -> bool {
        use Event::{Activity, Progress, RankEnd, RankStart, Traffic, Work};
        matches!(self, RankStart(_) | Activity(_) | Work(_) | Traffic(_) | Progress(_) | RankEnd { .. })
    }
}
#[cfg(test)]
#[path = "event_tests.rs"]
pub(super) mod tests;
