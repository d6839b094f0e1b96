//! What the master measures of the farm as a whole, and its looks at whether another number of workers pays.
//!
//! The decision is the planner crate's [`WorkerCount`]; here is what feeds it.

mod events;
mod round_trips;
mod situation;

use std::time::Duration;

use armature_planner::farm::{
    FarmFit, IterationModel, MessageCosts, Protocol, Repeated, StreamModel, WorkerCount,
};

use events::{came_of_it, event, inputs, regret, shared, why};
use round_trips::RoundTrips;
pub(crate) use situation::Situation;

use crate::balance::is_affordable;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Event, Input};
use crate::session::Balance;

/// Between two looks at a stream.
const STREAM_PERIOD: Duration = Duration::from_secs(2);
/// Where the farm may be split, the first looks at a stream come sooner: after this time, then twice as long each time.
const FIRST_PERIOD: Duration = Duration::from_millis(20);
/// Workers from which on a farm is split: with fewer, what rank 0 does for each task counts and not its messages.
const SPLIT_LEAST: usize = 4 * GROUP_LEAST;
/// Workers of a sub-master, at least.
const GROUP_LEAST: usize = 8;
/// Looks in a row that must find more workers than rank 0 can serve.
const SPLIT_LOOKS: u32 = 2;
/// Between two looks at iterations at least.
const LEAST_PERIOD: Duration = Duration::from_millis(5);
/// Messages that must have been sent before anything is decided by what they cost.
const ENOUGH_MESSAGES: u64 = 8;
/// Bytes of the long ones: as many as a chunk's message has, within these bounds.
const LEAST_BULK: f64 = 1024.0;
const MOST_BULK: f64 = 65536.0;
/// In a stream this multiple of the workers is kept that the master can keep busy.
const RESERVE: f64 = 1.25;
/// A master that computes goes on alone only if that is by this factor as fast as with one worker.
const ALONE: f64 = 1.2;
/// A change is a message to each rank that is concerned: its cost where nothing was measured yet, in seconds.
const FIRST_COST: f64 = 100e-6;

/// What was measured since the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    since: Duration,
    iterations: u32,
    /// Chunks that were sent.
    chunks: u64,
    /// Tasks whose results came from workers, and those that rank 0 did.
    away: u64,
    here: u64,
    /// Bytes to workers and back.
    out: f64,
    back: f64,
    /// Time of all workers in tasks.
    compute: f64,
    /// Time in which the next tasks were made.
    made: f64,
    /// Time in which chunks were made and sent, and the same with that in which results were taken in.
    sending: f64,
    served: f64,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct WorkerController {
    count: Option<WorkerCount>,
    once: bool,
    fit: FarmFit,
    messages: u64,
    /// Bytes of a task and of its result, as far as any has travelled.
    bytes: (f64, f64),
    round_trips: RoundTrips,
    span: Sample,
    /// What the last look took.
    looking: Duration,
    looks: u32,
    /// Looks in a row that have found more workers than rank 0 can serve.
    overloaded: u32,
    changes: u32,
    /// Why the last change was made, in one sentence.
    why: Option<String>,
}

/// What came of a look.
#[derive(Debug)]
pub(crate) struct Replan {
    /// The number of workers from now on, if it is another one.
    pub(crate) target: Option<usize>,
    /// The number of sub-masters that there are to be, and why.
    pub(crate) split: Option<(usize, String)>,
    /// What is to be told.
    pub(crate) events: Vec<Event>,
}

impl WorkerController {
    /// Begins to measure at `now`.
    pub(crate) fn new(balance: Balance, now: Duration) -> Result<Self> {
        let wrong = |e: armature_planner::Error| {
            Error::new(ErrorKind::Config, format!("the options of the number of workers: {e}"))
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
            looking: Duration::ZERO,
            looks: 0,
            overloaded: 0,
            changes: 0,
            why: None,
        })
    }

    /// Whether the number of workers may change.
    pub(crate) fn is_on(&self) -> bool {
        self.count.is_some()
    }

    /// A chunk was made and sent within `took`.
    pub(crate) fn sent(&mut self, bytes: usize, took: Duration) {
        self.messages += 1;
        self.fit.message(bytes as f64, took.as_secs_f64());
        self.span.chunks += 1;
        self.span.out += bytes as f64;
        self.span.sending += took.as_secs_f64();
        self.span.served += took.as_secs_f64();
    }

    /// The result of `tasks` was taken in within `took`; its worker spent `busy` seconds in them.
    pub(crate) fn got(&mut self, tasks: u32, bytes: usize, busy: f64, took: Duration) {
        self.span.away += u64::from(tasks);
        self.span.back += bytes as f64;
        self.span.compute += busy.max(0.0);
        self.span.served += took.as_secs_f64();
    }

    /// Rank 0 has spent `busy` seconds in `tasks`.
    pub(crate) fn own(&mut self, tasks: u32, busy: f64) {
        self.span.here += u64::from(tasks);
        self.span.compute += busy.max(0.0);
    }

    /// An iteration is over; it took `took` to make the tasks of the next one.
    pub(crate) fn iteration(&mut self, took: Duration) {
        self.span.made += took.as_secs_f64();
        self.span.iterations += 1;
    }

    /// Whether it is time for a look.
    pub(crate) fn is_due(&self, now: Duration, stream: bool, splittable: usize) -> bool {
        let least = match stream {
            false => LEAST_PERIOD,
            true if splittable < SPLIT_LEAST => STREAM_PERIOD,
            // Before every worker has sent a result, nothing can be said.
            true if self.span.away < splittable as u64 => return false,
            true => STREAM_PERIOD.min(FIRST_PERIOD * 2u32.saturating_pow(self.looks.min(16))),
        };
        let period = now.saturating_sub(self.span.since);
        self.is_on() && period >= least && is_affordable(self.looking, period)
    }

    /// The number of sub-masters that would serve the workers of a stream where rank 0 alone cannot, and why; when that
    /// has lasted. They save rank 0 the messages, and not what it does with results.
    fn split(&mut self, situation: Situation, span: &Sample) -> Option<(usize, String)> {
        self.looks += 1;
        let most = situation.most;
        // As many as compute while a chunk is sent to each: as a number it saturates.
        let capability = (span.compute / span.sending.max(f64::MIN_POSITIVE)) as usize;
        if !situation.stream || !situation.may_split || most < SPLIT_LEAST || most <= capability {
            self.overloaded = 0;
            return None;
        }
        self.overloaded += 1;
        let count = most.div_ceil(capability + 1).max(2).min(most / GROUP_LEAST);
        let why = format!("rank 0 can serve {capability} of {most} workers, as measured");
        (self.overloaded >= SPLIT_LOOKS).then_some((count, why))
    }

    /// The round trips that are due between two iterations: for each link that is measured, the bytes of the longer message.
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

    /// What round trips took: one without content, and one that was `bytes` long on the way there.
    pub(crate) fn echo(&mut self, bytes: usize, [empty, full]: [Duration; 2]) {
        self.round_trips.add(0, empty);
        self.round_trips.add(bytes, full);
    }

    /// What follows does not belong to the measurements: the next look counts from here.
    pub(crate) fn resume(&mut self, now: Duration) {
        if self.span.iterations == 0 {
            self.span = Sample { since: now, ..Sample::default() };
        }
    }

    /// What messages cost, as far as it was measured.
    pub(crate) fn messages(&self) -> MessageCosts {
        let costs = self.fit.messages();
        MessageCosts { per_byte: costs.per_byte.max(self.round_trips.per_byte()), ..costs }
    }

    /// An iteration as it was measured.
    fn model(&self) -> Option<IterationModel> {
        let model = self.fit.model(Protocol::Asynchronous)?;
        let messages = self.messages();
        // What no number of workers shortens: making the tasks, and the way there and back.
        let way = self.round_trips.round().unwrap_or(0.0) - 2.0 * messages.start_up.of(0.0);
        Some(IterationModel { messages, master: model.master + way.max(0.0), ..model })
    }

    /// One look. `None`: nothing can be said yet.
    pub(crate) fn replan(&mut self, situation: Situation, clock: impl Fn() -> Duration) -> Option<Replan> {
        let begin = clock();
        let span = std::mem::replace(&mut self.span, Sample { since: situation.now, ..Sample::default() });
        let period = self.measured(&span, situation)?;
        if self.messages < ENOUGH_MESSAGES || situation.most < 2 {
            return None;
        }
        let model = self.model()?;
        // What serving takes was taken in as the master's own time.
        let stream = StreamModel { serving: model.master, compute: model.compute };
        let split = self.split(situation, &span);
        if split.is_some() {
            return Some(Replan { target: None, split, events: Vec::new() });
        }
        if situation.stream && situation.now.saturating_sub(span.since) < STREAM_PERIOD {
            return None;
        }
        let replan = if situation.stream {
            self.weigh(situation, period, &stream, least_of_stream(situation, &stream), shared(&stream))
        } else {
            self.weigh(situation, period, &model, least(situation, &model), inputs(&model))
        };
        self.looking = clock().saturating_sub(begin);
        replan
    }

    /// Whether there should be another number of workers, at least `least`; an iteration, or a task, has taken `period`.
    fn weigh(
        &mut self,
        situation: Situation,
        period: f64,
        model: &impl Repeated,
        least: usize,
        inputs: Vec<Input>,
    ) -> Option<Replan> {
        let cost = self.round_trips.round().unwrap_or(FIRST_COST);
        let over = self.once && self.changes > 0;
        let count = self.count.as_mut()?;
        let now = situation.now.as_secs_f64();
        let range = least..=situation.most;
        let decision = count.look(now, period, situation.workers, range.clone(), model, None, cost);
        let mut events = vec![event(&decision, inputs, over)];
        let mut target = None;
        if decision.is_act() {
            if over {
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
            events.push(came_of_it(&outcome, self.changes));
            if outcome.take_back && target.is_none() {
                count.acted(now, cost);
                self.why = Some(regret(situation, &outcome));
                target = Some(outcome.before.min(situation.most));
            }
            if over {
                self.count = None;
            }
        }
        Some(Replan { target, split: None, events })
    }

    /// Takes in what was measured since the last look; returns the seconds of an iteration, or of a task of a stream. `None`
    /// if no task was done.
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
        // The model's bytes are those of all tasks, also of those that stay on rank 0. What serving takes is in the messages
        // of an iteration; in a stream it is all that tasks which go to workers share.
        let master = if situation.stream { span.served * tasks / span.away.max(1) as f64 } else { span.made };
        let [out, back, compute, master] =
            [tasks * self.bytes.0, tasks * self.bytes.1, span.compute, master].map(|total| total / spans);
        self.fit.iteration(out, back, compute, master);
        Some(situation.now.saturating_sub(span.since).as_secs_f64() / spans)
    }

    /// Why the last change was made, in one sentence.
    pub(crate) fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }
}

/// The least number of workers that is thought of. Too many cost little, and too few a good part of the farm's speed, so that
/// measurements have to be clear before a farm is small.
fn least(situation: Situation, model: &IterationModel) -> usize {
    if situation.computes && model.time(1) * ALONE > model.time(2) { 2 } else { 1 }
}

fn least_of_stream(situation: Situation, model: &StreamModel) -> usize {
    let busy = (RESERVE * model.busy()).ceil();
    // Infinite, or no number, if serving costs nothing that was measured.
    if busy < situation.most as f64 {
        (busy as usize).max(if situation.computes { 2 } else { 1 })
    } else {
        situation.most
    }
}

#[cfg(test)]
mod tests;
