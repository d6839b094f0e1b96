//! Events of a run of a pipeline, farm, loop or workflow, as the event log records them.

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

/// Event of a run. Its `Display` is one sentence.
///
/// Times are in seconds per item. The time of a stage is the service time of one item; the time of a mapping (assignment of stages to ranks) is the
/// time between two items that the source yields while the pipeline is full. An *epoch* is the period in which one mapping applies. The *logging
/// rank* is the rank whose log contains the event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Event {
    /// The run of a pipeline begins.
    Start {
        /// Number of ranks of the job.
        ranks: usize,
        /// First mapping of stages to ranks, in its text form.
        mapping: String,
        /// Mode of balancing, which changes the mapping: `off`, `once` or `live`.
        balance: String,
    },
    /// The ranks and their links to rank 0 were measured.
    Probe {
        /// Measured speed of each rank, relative to the fastest rank (1).
        #[serde(with = "figure::list")]
        speeds: Vec<f64>,
        /// Bandwidth of the slowest link between a rank and rank 0, in bytes per second; `None` on one rank.
        #[serde(with = "figure::optional")]
        slowest_link: Option<f64>,
        /// Longest transfer time of an empty message to or from rank 0, in seconds; `None` on one rank.
        #[serde(with = "figure::optional")]
        longest_delay: Option<f64>,
        /// Groups of ranks that share cores, with the number of cores of each group.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sharing: Vec<(Vec<usize>, f64)>,
    },
    /// The estimate of a stage's service time on a rank changed.
    Measured {
        /// Name of the stage whose service time is estimated.
        stage: String,
        /// Rank that runs the pipeline's stage.
        rank: usize,
        /// Number of items on which the estimate of the stage's service time is based.
        items: u64,
        /// Estimated service time of the stage on the rank, in seconds per item.
        #[serde(with = "figure")]
        seconds_per_item: f64,
        /// Name of the method that estimated the service time.
        by: String,
        /// True if the estimate of the service time no longer changes much with further measurements.
        settled: bool,
    },
    /// Messages over a link took another time than the initial measurement had predicted.
    Link {
        /// Rank that sends messages over the link.
        from: usize,
        /// Rank that receives messages over the link.
        to: usize,
        /// Estimated bandwidth of the link in bytes per second.
        #[serde(with = "figure")]
        bandwidth: f64,
        /// Estimated time until the first byte of a message over the link arrives, in seconds.
        #[serde(with = "figure")]
        setup: f64,
        /// Name of the method that estimated bandwidth and delay of the link.
        by: String,
        /// True if the estimate of the link no longer changes much with further measurements.
        settled: bool,
    },
    /// The run of a farm begins.
    FarmStart {
        /// Name of the farm.
        farm: String,
        /// Number of ranks of the job.
        ranks: usize,
        /// Number of active workers; the other ranks are parked: they get no tasks until they are woken.
        workers: usize,
        /// Name of the policy that divides tasks into chunks.
        chunking: String,
        /// Mode of balancing, which changes the number of workers: `off`, `once` or `live`.
        balance: String,
    },
    /// Rank 0 decided between the current arrangement (a mapping, or a distribution of the work) and another one.
    Decision {
        /// Subject of the balancing decision, such as the mapping or the number of workers.
        #[serde(default, skip_serializing_if = "Subject::is_mapping")]
        of: Subject,
        /// Current arrangement of the work: a mapping in its text form, a number of workers, or the numbers of units (rows or indices) on the ranks.
        current: String,
        /// Best other arrangement of the work (mapping, number of workers, or distribution of a loop's units) that was considered, if there was one.
        candidate: Option<String>,
        /// Time of the current arrangement of the work, in seconds per item.
        #[serde(with = "figure")]
        current_s: f64,
        /// Predicted time of the best other arrangement of the work, in seconds per item.
        #[serde(with = "figure::optional")]
        candidate_s: Option<f64>,
        /// Predicted saving by the best other arrangement of the work, as a fraction of the current time.
        #[serde(with = "figure")]
        gain: f64,
        /// Smallest predicted gain, as a fraction of the current time, for which rank 0 considers to change the arrangement of the work.
        #[serde(with = "figure")]
        threshold: f64,
        /// Predicted saving by the best other arrangement of the work, in seconds over the rest of the run.
        #[serde(with = "figure")]
        benefit_s: f64,
        /// Predicted cost of changing to the best other arrangement of the work, in seconds.
        #[serde(with = "figure")]
        cost_s: f64,
        /// Service time of each stage on the fastest rank, in seconds, as used for the balancing decision; empty if measurements are missing.
        #[serde(default, with = "figure::list", skip_serializing_if = "Vec::is_empty")]
        works_s: Vec<f64>,
        /// Speed of each rank relative to the fastest rank (1), as used for the balancing decision; empty if measurements are missing.
        #[serde(default, with = "figure::list", skip_serializing_if = "Vec::is_empty")]
        speeds: Vec<f64>,
        /// Measurements on which the balancing decision is based, in addition to service times and speeds.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        inputs: Vec<Input>,
        /// True if rank 0 changes to the best other arrangement of the work.
        acted: bool,
        /// Reason for the balancing decision, as the end of a sentence: `the gain has lasted for three periods`.
        reason: String,
    },
    /// Rank 0 announced the next mapping of a pipeline to the ranks, which prepare for it.
    Prepare {
        /// The epoch (period of one mapping) in which the announced mapping applies.
        epoch: u32,
        /// The next mapping of stages to ranks, in its text form.
        mapping: String,
    },
    /// A stage of a pipeline was set up on the logging rank.
    WarmUp {
        /// Name of the stage that was set up.
        stage: String,
        /// Duration of the set-up of the stage in seconds.
        #[serde(with = "figure")]
        seconds: f64,
    },
    /// The logging rank is ready to use the next mapping of a pipeline; on rank 0: all ranks are ready.
    Ready {
        /// The epoch (period of one mapping) of the next mapping.
        epoch: u32,
    },
    /// The next mapping of a pipeline takes effect.
    Switch {
        /// Epoch (period of one mapping) that begins with this event.
        epoch: u32,
        /// Text form of the mapping that takes effect.
        mapping: String,
    },
    /// The logging rank sent a serial stage and its state to another rank of the pipeline.
    HandOver {
        /// Name of the stage that migrates to another rank.
        stage: String,
        /// Rank that runs the stage after its migration.
        to: usize,
        /// Number of the first batch that the stage processes on the receiving rank.
        next_batch: u64,
        /// Size of the stage's state in bytes.
        bytes: u64,
    },
    /// The logging rank received a serial stage and its state from another rank of the pipeline.
    TakeOver {
        /// Name of the stage that migrated to the logging rank.
        stage: String,
        /// Rank that sent the stage and its state.
        from: usize,
        /// Number of the first batch that the stage processes on this rank.
        next_batch: u64,
    },
    /// The logging rank forwarded batches to other ranks, because they were sent to it under an earlier mapping of the pipeline.
    Forwarded {
        /// Epoch (period of one mapping) in which the rank forwarded the batches.
        epoch: u32,
        /// Number of forwarded batches.
        batches: u64,
    },
    /// A snapshot of a pipeline, from which a killed job can continue, is complete.
    Snapshot {
        /// Number of source items before the snapshot, counted from the first start of the job.
        items: u64,
        /// Total size in bytes of the states of stages and sink in the snapshot.
        bytes: u64,
        /// Time in which stages saved their states and the sink committed its items for the snapshot, in seconds.
        #[serde(with = "figure")]
        took_s: f64,
        /// Time in which the files of the snapshot were written, while the stream ran, in seconds.
        #[serde(with = "figure")]
        written_s: f64,
        /// Time in seconds from the start of this snapshot of the pipeline until the next one is due.
        #[serde(with = "figure")]
        next_s: f64,
    },
    /// The policy that divides the tasks of a farm into chunks was changed automatically.
    Chunks {
        /// Name of the new chunk policy.
        by: String,
        /// Name of the earlier chunk policy.
        before: String,
        /// Number of tasks of the farm that remain to be done.
        left: u64,
        /// Number of active workers of the farm.
        workers: usize,
        /// Mean time of a task of the farm, in seconds.
        #[serde(with = "figure")]
        mean_s: f64,
        /// Standard deviation of the time of a farm's task, in seconds.
        #[serde(with = "figure")]
        deviation_s: f64,
        /// Number of consecutive tasks of the farm with similar times; 1 if the times of tasks are independent.
        #[serde(with = "figure")]
        block: f64,
        /// Cost of a message with one task of the farm, in seconds.
        #[serde(with = "figure")]
        message_s: f64,
        /// Predicted time for the remaining tasks with the new chunk policy, in seconds.
        #[serde(with = "figure")]
        predicted_s: f64,
        /// Predicted time for the remaining tasks with the earlier chunk policy, in seconds, if it was predicted.
        #[serde(with = "figure::optional")]
        before_s: Option<f64>,
        /// Number of chunk policies that were compared.
        compared: usize,
    },
    /// A rank is lost: it has died or hangs, and other ranks do its work.
    Lost {
        /// Rank that died or hangs.
        rank: usize,
        /// Number of tasks of the lost rank that other ranks run again.
        tasks: u64,
        /// Evidence that the rank is dead or hangs, as a sentence without a full stop.
        why: String,
    },
    /// A rank that was taken for dead because of its silence takes part in the farm again.
    Heard {
        /// Rank that was taken for dead and takes part in the farm again.
        rank: usize,
    },
    /// A farm sent the unfinished tasks of a slow rank to an idle rank as well. The results that arrive first count.
    Copied {
        /// Slow rank, whose unfinished tasks are sent a second time.
        from: usize,
        /// Idle rank to which the farm sends the unfinished tasks of the slow rank too.
        to: usize,
        /// Number of the first task that was sent to a second rank.
        first: u64,
        /// Number of tasks that were sent to a second rank.
        tasks: u64,
    },
    /// Number of failed and repeated tasks in a farm.
    Failures {
        /// Number of tasks of the farm that failed at every attempt.
        failed: u64,
        /// Number of attempts of tasks of the farm that followed a failed attempt.
        retried: u64,
        /// Number of tasks that were dispatched again because their rank was lost.
        again: u64,
    },
    /// Workers of a farm are parked: they get no tasks until they are woken.
    Parked {
        /// Ranks of the parked workers.
        ranks: Vec<usize>,
    },
    /// Parked workers of a farm get tasks again.
    Woken {
        /// Ranks of the workers that get tasks again.
        ranks: Vec<usize>,
    },
    /// Workers of a farm are assigned to sub-masters, which forward their tasks and results.
    Split {
        /// Ranks that forward tasks and results between rank 0 and other workers.
        sub_masters: Vec<usize>,
        /// Number of workers of all sub-masters together.
        workers: usize,
        /// Reason for the assignment of workers to sub-masters, as the end of a sentence.
        reason: String,
    },
    /// The run of a loop begins.
    LoopStart {
        /// Name of the loop.
        name: String,
        /// Number of units (rows or indices) of the loop.
        units: u64,
        /// Number of units (rows or indices) on each rank at the start of the loop's run.
        held: Vec<u64>,
        /// Mode of balancing, which moves units (rows or indices) of the loop: `off`, `once` or `live`.
        balance: String,
    },
    /// The run of a loop ended without an error.
    LoopEnd {
        /// Number of completed passes over the units (rows or indices) of the loop.
        passes: u64,
        /// Time since the start of the run, in seconds.
        #[serde(with = "figure")]
        seconds: f64,
    },
    /// Units (rows or indices) of a loop were moved between ranks.
    Moved {
        /// Number, from 1, of this movement of units (rows or indices) between ranks in the run.
        number: u64,
        /// Number of units that rank 0 decided to move; a unit that passed through several ranks counts for each of them. A rank of a DOALL loop
        /// that has computed some of the units meanwhile sends fewer units.
        units: u64,
        /// Number of messages that carried the moved units (rows or indices).
        messages: u64,
        /// Longest time in seconds that a rank spent on sending and receiving the moved units (rows or indices).
        #[serde(with = "figure")]
        seconds: f64,
    },
    /// The block size of a loop (work of a rank between two messages) changed.
    Grain {
        /// New block size: number of units (rows or indices) that a rank of a DOALL loop computes in one call, or number of columns between two
        /// messages in a loop over a grid.
        block: u64,
        /// Reason for the new block size (work of a rank between two messages), as the end of a sentence.
        reason: String,
    },
    /// The run of a workflow begins.
    WorkflowStart(WorkflowStart),
    /// The planner computed a plan for a workflow.
    Planned(Planned),
    /// A plan for a workflow takes effect: from now on, tasks run on the ranks that the plan names.
    Plan(PlanInForce),
    /// A task of a workflow waits because other tasks use up a named limit, such as a number of database connections.
    TaskHeld(TaskHeld),
    /// The logging rank began to run a task of a workflow.
    TaskBegan(TaskBegan),
    /// An attempt of a workflow's task ended on the logging rank.
    TaskEnded(TaskEnded),
    /// The logging rank received the value that a task of a workflow has computed.
    ValueCame(ValueCame),
    /// The logging rank spilled the value of a task to disk, because memory was short.
    ValueSpilled(ValueOnDisk),
    /// The logging rank read the spilled value of a task from disk.
    ValueLoaded(ValueOnDisk),
    /// The memory that the logging rank holds for the tasks of a workflow has changed.
    Held(Held),
    /// The run of a workflow ended.
    WorkflowEnd(WorkflowEnd),
    /// Measured result of a change of the mapping or of the distribution of work, some time after the change took effect.
    Outcome {
        /// Subject of the change by balancing, such as the mapping or the number of workers.
        #[serde(default, skip_serializing_if = "Subject::is_mapping")]
        of: Subject,
        /// Epoch (period of one mapping) that began with the change, or number of the change of the distribution of work.
        epoch: u32,
        /// Measured time before the change of the mapping or distribution, in seconds per item.
        #[serde(with = "figure")]
        before_s: f64,
        /// Predicted time after the change of the mapping or distribution, in seconds per item.
        #[serde(with = "figure")]
        predicted_s: f64,
        /// Measured time after the change of the mapping or distribution took effect, in seconds per item.
        #[serde(with = "figure")]
        after_s: f64,
    },
    /// A rank begins its part of a run of a pipeline, farm, loop or workflow.
    RankStart(RankStart),
    /// Account of a rank's time: how long it worked, waited and communicated in one interval.
    Activity(Activity),
    /// Times of a rank's calls of user code.
    Work(Work),
    /// Messages sent by a rank, and its memory use.
    Traffic(Traffic),
    /// Progress of the run: amount of finished work, such as items or passes.
    Progress(Reached),
    /// A rank ends its part of a run of a pipeline, farm, loop or workflow.
    RankEnd {
        /// Time since the rank began its part of the run, in seconds.
        seconds: f64,
    },
    /// The run of a pipeline ended without an error.
    Finish {
        /// Number of items that the source of the pipeline produced.
        items: u64,
        /// Time since the start of the run, in seconds.
        #[serde(with = "figure")]
        seconds: f64,
    },
    /// Totals of each rank in the summary of a run. The events in the activity log of the ranks add up to the same totals.
    Totals {
        /// Number of items, tasks or units of a loop (rows or indices) that each rank completed; includes fractions of a unit.
        #[serde(with = "figure::list")]
        done: Vec<f64>,
        /// Time of each rank in user code and commands, in seconds.
        #[serde(with = "figure::list")]
        busy_s: Vec<f64>,
    },
}

impl Event {
    pub(crate) fn totals_of(summary: &impl RunSummary) -> Self {
        let ranks = summary.ranks();
        Event::Totals {
            done: ranks.iter().map(|rank| rank.done).collect(),
            busy_s: ranks.iter().map(|rank| rank.busy.as_secs_f64()).collect(),
        }
    }

    pub(crate) fn of_probe(probed: &Probed, sharing: &[SharedCores]) -> Self {
        let links = || (1..probed.platform.processors()).map(|rank| probed.platform.link(0, rank));
        Event::Probe {
            speeds: probed.speeds(),
            slowest_link: links().map(|link| link.bandwidth).reduce(f64::min),
            longest_delay: links().map(|link| link.setup).reduce(f64::max),
            sharing: sharing.iter().map(|group| (group.processors.clone(), group.cores)).collect(),
        }
    }

    /// Returns true for the final event of a run that ended without an error.
    pub fn is_end(&self) -> bool {
        matches!(self, Event::Finish { .. } | Event::LoopEnd { .. } | Event::WorkflowEnd(_))
    }

    /// Returns true for events that account for the use of a rank's time.
    pub fn is_of_activity(&self) -> bool {
        use Event::{Activity, Progress, RankEnd, RankStart, Traffic, Work};
        matches!(self, RankStart(_) | Activity(_) | Work(_) | Traffic(_) | Progress(_) | RankEnd { .. })
    }
}
#[cfg(test)]
#[path = "event_tests.rs"]
pub(super) mod tests;
