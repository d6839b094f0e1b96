//! Events that record how a rank spends its time, in the file `activity-<n>.jsonl` of rank n.

use std::fmt;

use armature_text::shown;
use serde::{Deserialize, Serialize};

use super::figure;
use super::number_format::{count, seconds};

/// Version of the format of the events about a rank's activity. The version increases when an event or a field is removed or changes its meaning, but
/// not when an event or field is added.
pub const SCHEMA: u32 = 2;

/// A rank starts its part of a run of a pipeline, farm, loop or workflow. The times in the rank's activity
/// events count from this event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankStart {
    /// Version of the format ([`SCHEMA`]) of the activity events that follow.
    pub schema: u32,
    /// Number of ranks.
    pub ranks: usize,
    /// The pipeline, farm, loop or workflow that runs, such as `the farm`.
    pub what: String,
    /// Name of the host of the rank.
    pub host: String,
    /// File name of the program that the rank runs.
    pub program: String,
    /// Start time of the rank on a clock that all ranks share: seconds since 1970, or simulated time.
    #[serde(with = "figure")]
    pub clock_s: f64,
    /// Names of the kinds of calls of user code: names of stages, or `task`.
    pub kinds: Vec<String>,
    /// Memory limit of the rank's process in bytes, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
    /// Hardware threads of the host on which the rank may run; empty if they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<usize>,
}

/// Account of one interval of a rank's time: computing, waiting, communicating. The event is written at the end of the interval. Time that no field
/// contains was not measured: see [`unknown_s`](Activity::unknown_s).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Activity {
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// Time in user code for items, tasks and units (rows or indices of a loop), and in commands, in seconds. It is the same measurement as the busy
    /// time in the summary of the run.
    pub work_s: f64,
    /// Time in which the rank waited for messages and had nothing to compute, in seconds.
    pub idle_s: f64,
    /// Time in which the rank sent, received and handled messages, in seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub messages_s: f64,
    /// Time in seconds of work that belongs to no single item, task or unit of a loop: creating stages or units, planning, spilling values to disk
    /// and loading them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub set_up_s: f64,
    /// Time in which the rank was parked (without work until woken), in seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parked_s: f64,
    /// Part of the time in user code in which the thread was ready to run but had no core, in seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_s: f64,
    /// Number of completed items, tasks or units of a loop, by kind of call of user code (see [`RankStart::kinds`]).
    pub done: Vec<u64>,
    /// Longest call of user code that ended in this interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<Longest>,
}

/// A call of user code on a rank: the longest one in an interval of the rank's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Longest {
    /// Kind of the call of user code, as an index into [`RankStart::kinds`].
    pub of: usize,
    /// Number of the first item, task or unit (row or index of a loop) in the call of user code, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// Number of items, tasks or units of a loop in the call of user code.
    pub count: u64,
    /// Duration of this call of user code in seconds.
    pub seconds: f64,
}

/// Times of a rank's calls of user code of one kind, since the rank's last event about this kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Kind of the calls of user code, as an index into [`RankStart::kinds`].
    pub of: usize,
    /// Number of items, tasks or units of a loop that were completed in these calls of user code.
    pub done: u64,
    /// Total time in seconds of these calls of user code.
    pub seconds: f64,
    /// Histogram of the times of single items, tasks or units of a loop: pairs of the number of a bin and the count in it. An even bin n begins at
    /// 2^(n/2) nanoseconds, an odd one at 3·2^((n-3)/2) nanoseconds. The items of one call count with their mean time.
    pub steps: Vec<(u32, u64)>,
}

/// Memory use of a rank, and the messages that it has sent since its last event of this type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// For each rank to which this rank sent messages: its number, the number of messages, and the number of bytes.
    pub to: Vec<(usize, u64, u64)>,
    /// Peak memory use of the process in bytes, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak: Option<u64>,
    /// Time in seconds in which a CPU quota stopped the processes of the rank's control group, since the rank's last event of this type.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub throttled_s: f64,
}

/// Progress of a run whose amount of work is known. Rank 0 writes this event once a second, in a long run less often: at most 500 times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reached {
    /// Number of completed items, tasks or units of a loop, including those of earlier runs.
    pub done: u64,
    /// Number of items, tasks or units of a loop that an earlier run had completed.
    #[serde(default, skip_serializing_if = "is_none")]
    pub before: u64,
    /// Total number of items, tasks or units of a loop.
    pub total: u64,
    /// Noun for the amounts of work in this event, in the plural: `items`, `sweeps`.
    pub what: String,
}

impl Activity {
    /// Returns the seconds of the interval that were not measured: time in a farm's source and sink, in
    /// decisions, in checkpoints, and in the framework itself.
    pub fn unknown_s(&self) -> f64 {
        let known = self.work_s + self.idle_s + self.messages_s + self.set_up_s + self.parked_s;
        (self.seconds - known).max(0.0)
    }
}

impl Work {
    /// Returns the time in seconds at which bin number `step` of the histogram [`Work::steps`] begins.
    pub fn step_s(step: u32) -> f64 {
        let half = f64::from(step / 2).exp2();
        1e-9 * if step.is_multiple_of(2) { half } else { 1.5 * half }
    }

    pub(super) fn step_of(nanos: u64) -> u32 {
        match nanos.checked_ilog2() {
            None | Some(0) => 0,
            Some(log) => 2 * log + ((nanos >> (log - 1)) & 1) as u32,
        }
    }
}

fn is_zero(x: &f64) -> bool {
    *x == 0.0
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

impl fmt::Display for RankStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RankStart { ranks, what, host, program, .. } = self;
        write!(
            f,
            "The rank takes part in {} of {} on host {}, as one of {}.",
            shown(what),
            shown(program),
            shown(host),
            count(*ranks as u64, "rank")
        )
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Of the last {} the rank computed for {} and waited for {}.",
            seconds(self.seconds),
            seconds(self.work_s),
            seconds(self.idle_s + self.parked_s)
        )
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of kind {} took {}.", count(self.done, "piece"), self.of, seconds(self.seconds))
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (messages, bytes) = self.to.iter().fold((0, 0), |(m, b), to| (m + to.1, b + to.2));
        write!(f, "{} with {} were sent.", count(messages, "message"), count(bytes, "byte"))
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reached { done, total, what, .. } = self;
        write!(f, "{done} of {total} {what} are done.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_has_two_adjacent_steps_per_octave() {
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 8].map(Work::step_of), [0, 0, 2, 3, 4, 4, 5, 5, 6]);
        for nanos in (1..100_000).step_by(7).chain([u64::MAX]) {
            let step = Work::step_of(nanos);
            let (from, to) = (Work::step_s(step), Work::step_s(step + 1));
            let seconds = nanos as f64 * 1e-9;
            assert!(from <= seconds * (1.0 + 1e-12) && seconds < to * (1.0 + 1e-12), "{nanos}: {from} {to}");
        }
    }

    #[test]
    fn remaining_time_is_never_negative() {
        let activity =
            Activity { seconds: 1.0, work_s: 0.5, idle_s: 0.125, messages_s: 0.125, ..Activity::default() };
        assert_eq!(activity.unknown_s(), 0.25);
        assert_eq!(Activity { work_s: 2.0, ..activity }.unknown_s(), 0.0);
    }
}
