//! Measurements of a whole farm, and checks whether the farm would be faster with another number of workers.
//!
//! [`WorkerCount`] of the planner crate makes the decision; this module supplies its input.

mod events;
mod round_trips;
mod situation;

use std::time::Duration;

use armature_planner::farm::{
    FarmFit, IterationModel, MessageCosts, Protocol, Repeated, StreamModel, WorkerCount,
};

use events::{event, inputs, outcome_event, regret, shared, why};
use round_trips::RoundTrips;
pub(crate) use situation::Situation;

use crate::balance::is_affordable;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Event, Input};
use crate::session::Balance;

/// Interval between two checks of the number of workers of a stream of tasks.
const STREAM_PERIOD: Duration = Duration::from_secs(2);
/// Interval before the first check of the number of workers in a stream that may get sub-masters; each further interval is twice as long.
const FIRST_PERIOD: Duration = Duration::from_millis(20);
/// Minimum number of workers for the introduction of sub-masters. With fewer workers, rank 0 spends more time on the results of tasks than on
/// messages, but sub-masters reduce only the number of messages.
const SPLIT_LEAST: usize = 4 * GROUP_LEAST;
const GROUP_LEAST: usize = 8;
/// Number of consecutive checks that must find more workers than rank 0 can serve, before sub-masters are introduced.
const SPLIT_LOOKS: u32 = 2;
/// Minimum interval between two checks of the number of workers of a farm that runs iterations.
const LEAST_PERIOD: Duration = Duration::from_millis(5);
/// Minimum number of messages between rank 0 and workers whose cost must have been measured before the number of workers is changed.
const ENOUGH_MESSAGES: u64 = 8;
/// Minimum and maximum size in bytes of the long messages that measure a link. Between these bounds they are as long as the message of a chunk.
const LEAST_BULK: f64 = 1024.0;
const MOST_BULK: f64 = 65536.0;
/// Safety factor: a stream keeps at least this multiple of the number of workers that the master can keep busy.
const RESERVE: f64 = 1.25;
/// Factor by which a master that runs tasks must be faster alone than with one worker, before all workers are parked (get no tasks).
const ALONE: f64 = 1.2;
/// Assumed cost in seconds of a change of the number of workers, before any change is measured: one message to each rank that is to get no tasks or
/// tasks again.
const FIRST_COST: f64 = 100e-6;

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    since: Duration,
    iterations: u32,
    chunks: u64,
    /// Number of tasks that workers completed; `own` counts those of rank 0.
    away: u64,
    here: u64,
    /// Bytes of the messages to workers; `back` counts the bytes of the results.
    out: f64,
    back: f64,
    compute: f64,
    creating: f64,
    /// Seconds that rank 0 spent on making and sending chunks (`sending`), and on making chunks and handling results (`served`).
    sending: f64,
    served: f64,
}

#[derive(Debug)]
pub(crate) struct WorkerController {
    count: Option<WorkerCount>,
    once: bool,
    fit: FarmFit,
    messages: u64,
    bytes: (f64, f64),
    round_trips: RoundTrips,
    span: Sample,
    replanning_time: Duration,
    replans: u32,
    overloaded: u32,
    changes: u32,
    why: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Replan {
    pub(crate) target: Option<usize>,
    pub(crate) split: Option<(usize, String)>,
    pub(crate) events: Vec<Event>,
}

impl WorkerController {
    pub(crate) fn new(balance: Balance, now: Duration) -> Result<Self> {
        let wrong = |e: armature_planner::Error| {
            Error::new(ErrorKind::Config, format!("invalid options for the number of workers: {e}"))
        };
        let count = match balance {
            Balance::Off => None,
            _ => Some(WorkerCount::new(WorkerCount::options()).map_err(wrong)?),
        };
        Ok(WorkerController {
            count,
            once: balance == Balance::Once,
            fit: FarmFit::new(MessageCosts::FREE),
            messages: 0,
            bytes: (0.0, 0.0),
            round_trips: RoundTrips::default(),
            span: Sample { since: now, ..Sample::default() },
            replanning_time: Duration::ZERO,
            replans: 0,
            overloaded: 0,
            changes: 0,
            why: None,
        })
    }

    pub(crate) fn is_on(&self) -> bool {
        self.count.is_some()
    }

    pub(crate) fn sent(&mut self, bytes: usize, took: Duration) {
        self.messages += 1;
        self.fit.message(bytes as f64, took.as_secs_f64());
        self.span.chunks += 1;
        self.span.out += bytes as f64;
        self.span.sending += took.as_secs_f64();
        self.span.served += took.as_secs_f64();
    }

    /// Records the results of `tasks` tasks, of `bytes` bytes, which rank 0 handled in the time `took`. Their worker spent `busy` seconds in the
    /// tasks.
    pub(crate) fn received(&mut self, tasks: u32, bytes: usize, busy: f64, took: Duration) {
        self.span.away += u64::from(tasks);
        self.span.back += bytes as f64;
        self.span.compute += busy.max(0.0);
        self.span.served += took.as_secs_f64();
    }

    pub(crate) fn own(&mut self, tasks: u32, busy: f64) {
        self.span.here += u64::from(tasks);
        self.span.compute += busy.max(0.0);
    }

    /// Records an iteration. `took` is the time in which the tasks of the next iteration were created.
    pub(crate) fn iteration(&mut self, took: Duration) {
        self.span.creating += took.as_secs_f64();
        self.span.iterations += 1;
    }

    pub(crate) fn is_due(&self, now: Duration, stream: bool, splittable: usize) -> bool {
        let least = match stream {
            false => LEAST_PERIOD,
            true if splittable < SPLIT_LEAST => STREAM_PERIOD,
            // The number of workers is not checked until as many tasks have been completed as there are workers, because fewer
            // measurements say little.
            true if self.span.away < splittable as u64 => return false,
            true => STREAM_PERIOD.min(FIRST_PERIOD * 2u32.saturating_pow(self.replans.min(16))),
        };
        let period = now.saturating_sub(self.span.since);
        self.is_on() && period >= least && is_affordable(self.replanning_time, period)
    }

    /// Returns the number of sub-masters to introduce, with the reason, for a stream that has more workers than rank 0 can supply with chunks.
    /// Returns `None` unless several checks in a row have found too many workers. With sub-masters rank 0 sends fewer messages, but handles as many
    /// results.
    fn split(&mut self, situation: Situation, span: &Sample) -> Option<(usize, String)> {
        self.replans += 1;
        let most = situation.most;
        // Number of workers that rank 0 can supply: as many as compute while rank 0 sends one chunk to each. The conversion to an integer saturates.
        let capability = (span.compute / span.sending.max(f64::MIN_POSITIVE)) as usize;
        if !situation.stream || !situation.may_split || most < SPLIT_LEAST || most <= capability {
            self.overloaded = 0;
            return None;
        }
        self.overloaded += 1;
        let count = most.div_ceil(capability + 1).max(2).min(most / GROUP_LEAST);
        let why = format!("rank 0 was measured to serve only {capability} of {most} workers");
        (self.overloaded >= SPLIT_LOOKS).then_some((count, why))
    }

    /// Returns the sizes in bytes of the long messages for round trips that measure links between two iterations, one size for each link.
    pub(crate) fn round_trips(&self, elapsed: Duration) -> Vec<usize> {
        let sent = self.span.chunks.max(1) as f64;
        let bulk = (self.span.out / sent).max(self.span.back / sent).clamp(LEAST_BULK, MOST_BULK) as usize;
        if !self.is_on() {
            Vec::new()
        } else if self.round_trips.round().is_none() {
            vec![bulk, bulk]
        } else if is_affordable(self.round_trips.spent(), elapsed) {
            vec![bulk]
        } else {
            Vec::new()
        }
    }

    pub(crate) fn echo(&mut self, bytes: usize, [empty, full]: [Duration; 2]) {
        self.round_trips.add(0, empty);
        self.round_trips.add(bytes, full);
    }

    /// Excludes the time of the last check of the number of workers from the measurements, which continue at `now`.
    pub(crate) fn resume(&mut self, now: Duration) {
        if self.span.iterations == 0 {
            self.span = Sample { since: now, ..Sample::default() };
        }
    }

    pub(crate) fn messages(&self) -> MessageCosts {
        let costs = self.fit.messages();
        MessageCosts { per_byte: costs.per_byte.max(self.round_trips.per_byte()), ..costs }
    }

    fn model(&self) -> Option<IterationModel> {
        let model = self.fit.model(Protocol::Asynchronous)?;
        let messages = self.messages();
        // Time of an iteration that more workers do not shorten: the creation of its tasks, and the part of a round trip in which no rank is busy
        // with the message.
        let way = self.round_trips.round().unwrap_or(0.0) - 2.0 * messages.start_up.of(0.0);
        Some(IterationModel { messages, master: model.master + way.max(0.0), ..model })
    }

    /// Checks whether another number of workers would make the farm faster; `None` if too little has been measured to decide.
    pub(crate) fn replan(&mut self, situation: Situation, clock: impl Fn() -> Duration) -> Option<Replan> {
        let begin = clock();
        let span = std::mem::replace(&mut self.span, Sample { since: situation.now, ..Sample::default() });
        let period = self.measured(&span, situation)?;
        if self.messages < ENOUGH_MESSAGES || situation.most < 2 {
            return None;
        }
        let model = self.model()?;
        // In a stream, `model.master` is the time in which rank 0 makes the chunk of one task and handles its result.
        let stream = StreamModel { serving: model.master, compute: model.compute };
        let split = self.split(situation, &span);
        if split.is_some() {
            return Some(Replan { target: None, split, events: Vec::new() });
        }
        if situation.stream && situation.now.saturating_sub(span.since) < STREAM_PERIOD {
            return None;
        }
        let replan = if situation.stream {
            self.decide_count(
                situation,
                period,
                &stream,
                least_of_stream(situation, &stream),
                shared(&stream),
            )
        } else {
            self.decide_count(situation, period, &model, least(situation, &model), inputs(&model))
        };
        self.replanning_time = clock().saturating_sub(begin);
        replan
    }

    /// Decides about the number of workers, which must not be below `least`. `period` is the measured time in seconds of an
    /// iteration, or of a task of a stream.
    fn decide_count(
        &mut self,
        situation: Situation,
        period: f64,
        model: &impl Repeated,
        least: usize,
        inputs: Vec<Input>,
    ) -> Option<Replan> {
        let cost = self.round_trips.round().unwrap_or(FIRST_COST);
        let is_settled = self.once && self.changes > 0;
        let count = self.count.as_mut()?;
        let now = situation.now.as_secs_f64();
        let range = least..=situation.most;
        let decision = count.evaluate(now, period, situation.workers, range.clone(), model, None, cost);
        let mut events = vec![event(&decision, inputs, is_settled)];
        let mut target = None;
        if decision.is_act() {
            if is_settled {
                count.abandoned(now);
            } else {
                let wanted = count.wanted(range, model);
                count.acted(now, cost);
                self.changes += 1;
                self.why = Some(why(situation, wanted, model));
                target = Some(wanted);
            }
        }
        if let Some(outcome) = count.outcome() {
            events.push(outcome_event(&outcome, self.changes));
            if outcome.take_back && target.is_none() {
                count.acted(now, cost);
                self.why = Some(regret(situation, &outcome));
                target = Some(outcome.before.min(situation.most));
            }
            if is_settled {
                self.count = None;
            }
        }
        Some(Replan { target, split: None, events })
    }

    /// Adds the measurements since the last check to the model. Returns the measured time in seconds of an iteration, or of a task of a stream;
    /// `None` if no task was completed.
    fn measured(&mut self, span: &Sample, situation: Situation) -> Option<f64> {
        let tasks = (span.away + span.here) as f64;
        if tasks == 0.0 {
            return None;
        }
        if span.away > 0 {
            let away = span.away as f64;
            self.bytes = (span.out / away, span.back / away);
        }
        let spans = if situation.stream { tasks } else { f64::from(span.iterations.max(1)) };
        // The model gets the bytes of all tasks, including tasks that rank 0 runs without a message. The time in which rank 0 serves a task is part
        // of the cost of messages in iterations, and a separate value in a stream.
        let master =
            if situation.stream { span.served * tasks / span.away.max(1) as f64 } else { span.creating };
        let [out, back, compute, master] =
            [tasks * self.bytes.0, tasks * self.bytes.1, span.compute, master].map(|total| total / spans);
        self.fit.iteration(out, back, compute, master);
        Some(situation.now.saturating_sub(span.since).as_secs_f64() / spans)
    }

    pub(crate) fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }
}

/// Returns the smallest number of workers that a change may choose. Too many workers cost little, but too few cost much of the farm's speed, so that
/// only clear measurements make a farm small.
fn least(situation: Situation, model: &IterationModel) -> usize {
    if situation.computes && model.time(1) * ALONE > model.time(2) { 2 } else { 1 }
}

fn least_of_stream(situation: Situation, model: &StreamModel) -> usize {
    let busy = (RESERVE * model.busy()).ceil();
    // `busy` is infinite or NaN if the measured time in which the master serves a task is zero; the master can then keep all workers busy.
    if busy < situation.most as f64 {
        (busy as usize).max(if situation.computes { 2 } else { 1 })
    } else {
        situation.most
    }
}

#[cfg(test)]
mod tests;
