//! What a rank tells of its time: the events of a file of their own, `activity-<n>.jsonl`.

use std::fmt;

use armature_text::shown;
use serde::{Deserialize, Serialize};

use super::figure;
use super::words::{count, seconds};

/// Which form the events have. It rises when an event or a field comes to mean something else, or is there no more; what only
/// comes in addition does not change it.
pub const SCHEMA: u32 = 2;

/// A rank begins its part of a run. Its times count from here on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankStart {
    /// The [`SCHEMA`] of the events that follow.
    pub schema: u32,
    /// How many ranks there are.
    pub ranks: usize,
    /// What it takes part in, as in `the farm`.
    pub what: String,
    /// The host that it runs on.
    pub host: String,
    /// The file name of the program.
    pub program: String,
    /// Now, on a clock that the ranks share: seconds since 1970, or the simulator's time.
    #[serde(with = "figure")]
    pub clock_s: f64,
    /// What user code does, by kind: the names of stages, or `task`.
    pub kinds: Vec<String>,
    /// Memory that the rank's process may use, in bytes, if that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
}

/// Account of a part of a rank's time. The part ends when the event is written. Time that no field names was not measured: see
/// [`unknown_s`](Activity::unknown_s).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Activity {
    /// The length of the part, in seconds.
    pub seconds: f64,
    /// In items, tasks and units, and in commands, in seconds. The summary's busy time is the same measurement.
    pub work_s: f64,
    /// Waiting for messages, with nothing to compute, in seconds.
    pub idle_s: f64,
    /// Sending, receiving and handling messages, in seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub messages_s: f64,
    /// In jobs that are no item, task or unit, in seconds: making stages or units, planning, moving values to and from disk.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub set_up_s: f64,
    /// Parked, in seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parked_s: f64,
    /// Ready to run without a core, in seconds. It is a part of the work.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_s: f64,
    /// Items, tasks or units that were done, by kind.
    pub done: Vec<u64>,
    /// The call of user code that took longest of those that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<Longest>,
}

/// A call of user code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Longest {
    /// Its kind, as a place in [`RankStart::kinds`].
    pub of: usize,
    /// The number of its first item, task or unit, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// How many items, tasks or units it did.
    pub count: u64,
    /// What it took, in seconds.
    pub seconds: f64,
}

/// What calls of user code of one kind took since this was last written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The kind, as a place in [`RankStart::kinds`].
    pub of: usize,
    /// Items, tasks or units that were done.
    pub done: u64,
    /// What they took together, in seconds.
    pub seconds: f64,
    /// How many items, tasks or units took how long: pairs of a step and a number. Step n holds times from 2^(n/2) nanoseconds on
    /// where n is even, and from 3·2^((n-3)/2) where it is odd, up to the next step. Those of one call count with its mean.
    pub steps: Vec<(u32, u64)>,
}

/// What a rank sent since this was last written, and its memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Receiver, messages, bytes.
    pub to: Vec<(usize, u64, u64)>,
    /// The most memory that its process has had so far, in bytes, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak: Option<u64>,
    /// Time in which a CPU quota kept the processes of the rank's control group from running since this was last written, in seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub throttled_s: f64,
}

/// How far the run is, where it is known how much there is to do. Rank 0 writes it once a second, and later in a long run once in a
/// five-hundredth of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reached {
    /// How much is done, …
    pub done: u64,
    /// … and how much of that an earlier run had done.
    #[serde(default, skip_serializing_if = "is_none")]
    pub before: u64,
    /// How much there is to do.
    pub total: u64,
    /// What is counted, in the plural: `items`, or `sweeps`.
    pub what: String,
}

impl Activity {
    /// Time that was not measured, in seconds: a farm's source and sink, decisions, checkpoints, and the framework itself.
    pub fn unknown_s(&self) -> f64 {
        let known = self.work_s + self.idle_s + self.messages_s + self.set_up_s + self.parked_s;
        (self.seconds - known).max(0.0)
    }
}

impl Work {
    /// Where a step begins, in seconds.
    pub fn step_s(step: u32) -> f64 {
        let half = f64::from(step / 2).exp2();
        1e-9 * if step.is_multiple_of(2) { half } else { 1.5 * half }
    }

    /// The step of a time in nanoseconds.
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
            "The rank takes part in {} of {} on host {}, one of {}.",
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
    fn steps_are_two_to_an_octave_and_meet() {
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 8].map(Work::step_of), [0, 0, 2, 3, 4, 4, 5, 5, 6]);
        for nanos in (1..100_000).step_by(7).chain([u64::MAX]) {
            let step = Work::step_of(nanos);
            let (from, to) = (Work::step_s(step), Work::step_s(step + 1));
            let seconds = nanos as f64 * 1e-9;
            assert!(from <= seconds * (1.0 + 1e-12) && seconds < to * (1.0 + 1e-12), "{nanos}: {from} {to}");
        }
    }

    #[test]
    fn what_is_left_is_never_negative() {
        let activity =
            Activity { seconds: 1.0, work_s: 0.5, idle_s: 0.125, messages_s: 0.125, ..Activity::default() };
        assert_eq!(activity.unknown_s(), 0.25);
        assert_eq!(Activity { work_s: 2.0, ..activity }.unknown_s(), 0.0);
    }
}
