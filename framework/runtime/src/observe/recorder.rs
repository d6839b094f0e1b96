//! Keeps account of a rank's time while it runs, and writes it now and then: see [`activity`](super::activity).
//!
//! A rank that is not asked for events pays a test of a pointer. One that is pays a reading of the clock for each wait, and a few
//! additions for each call of user code. How much is written is bounded: the longer a run lasts, the longer are the parts of its time
//! that are written as one.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::activity::{Activity, Longest, RankStart, SCHEMA, Traffic, Work};
use super::event::Event;
use super::log::{EventLog, Place, Stem};
use super::progress::Progress;
use super::step_recorder::StepRecorder;
use super::steps::{Step, Steps};
use crate::comm::endpoint::{Departure, Endpoint, Sent};
use crate::comm::run_delay::RunDelay;
use crate::session::topology::this_process;

/// The shortest part of a rank's time that is written as one: a line has 150 bytes, so that this is at most 15 kB/s for the first
/// seconds of a run.
const SHORTEST: Duration = Duration::from_millis(10);
/// No part is shorter than one in this number of the run so far. With 500, what is written of a run of an hour has 3600 lines a rank.
const PARTS: u32 = 500;
/// Tallies are written once in this number of parts.
const PARTS_PER_TALLY: u32 = 50;
/// Between two words on how far the run is: who looks at a run that goes on looks once a second.
const PROGRESS: Duration = Duration::from_secs(1);

/// The shortest part of its time that a rank tells as one, when a run has lasted for so long.
pub(crate) fn shortest_part(run_so_far: Duration) -> Duration {
    SHORTEST.max(run_so_far / PARTS)
}

/// What the rank has done since the last look at the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// User code ran, on another thread.
    Computing,
    /// The rank took in messages and handed them out; what user code did on the same thread is in the tally.
    Communicating,
    /// It waited, with nothing to compute.
    Waiting,
    /// The same, and is not needed for now.
    Parked,
}

/// Keeps account of one rank's time in one run, or does nothing.
#[derive(Debug)]
pub(crate) struct Recorder {
    open: Option<Box<Open>>,
}

#[derive(Debug)]
struct Open {
    log: EventLog,
    /// Up to here the time is accounted for.
    last: Duration,
    begin: Duration,
    part: Part,
    /// For how long user code has run on another thread since the rank last did something else.
    computed: Duration,
    tally: Tally,
    parts_since_tally: u32,
    steps: StepRecorder,
    /// When to look next how far the run is.
    progress_due: Duration,
    /// What had been sent at the last look, and when that was last written.
    sent: Vec<Sent>,
    sent_written: Vec<Sent>,
    /// The thread that computes.
    core: Option<(i32, RunDelay)>,
    /// Its ranks are threads of one process, whose memory says nothing of them.
    simulated: bool,
}

/// The part of the time that is not written yet.
#[derive(Debug, Default)]
struct Part {
    since: Duration,
    work: Duration,
    idle: Duration,
    parked: Duration,
}

/// What user code has done.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    kinds: Vec<Kind>,
    longest: Option<Longest>,
    /// Time in calls of which the part does not know yet; those on another thread it knows.
    taken: Duration,
    /// What a call took of those that are seldom timed.
    usual: Duration,
}

#[derive(Debug, Default)]
struct Kind {
    /// In this part.
    done: u64,
    /// Since the last tally.
    work: Work,
    steps: Vec<u64>,
}

impl Tally {
    /// Whether there is anything that is not written.
    fn is_new(&self) -> bool {
        self.kinds.iter().any(|kind| kind.done > 0 || kind.work.done > 0)
    }

    /// The last of the kinds.
    pub(crate) fn last_kind(&self) -> usize {
        self.kinds.len().saturating_sub(1)
    }

    /// The same as [`add`](Tally::add) for one of many short calls, whose time is taken now and then: where it was not, it counts as the
    /// last one that was.
    #[inline]
    pub(crate) fn add_usual(&mut self, of: usize, first: Option<u64>, took: Option<Duration>) {
        self.usual = took.unwrap_or(self.usual);
        self.add(of, first, 1, self.usual);
    }

    /// A call of kind `of` that did `count` items, tasks or units, from number `first` on, took this time.
    #[inline]
    pub(crate) fn add(&mut self, of: usize, first: Option<u64>, count: u64, took: Duration) {
        let Some(kind) = self.kinds.get_mut(of) else { return };
        let seconds = took.as_secs_f64();
        self.taken += took;
        kind.done += count;
        kind.work.done += count;
        kind.work.seconds += seconds;
        if let Some(each) = (took.as_nanos() as u64).checked_div(count) {
            let step = Work::step_of(each) as usize;
            if step >= kind.steps.len() {
                kind.steps.resize(step + 1, 0);
            }
            kind.steps[step] += count;
        }
        if self.longest.as_ref().is_none_or(|longest| seconds > longest.seconds) {
            self.longest = Some(Longest { of, first, count, seconds });
        }
    }
}

impl Recorder {
    /// Begins an account if there is a directory for it. `what` the rank takes part in, and the kinds of what user code does there.
    pub(crate) fn begin(endpoint: &mut Endpoint, dir: Option<&Path>, what: &str, kinds: Vec<String>) -> Self {
        let open = dir.and_then(|dir| Open::new(endpoint, dir, what, kinds)).map(Box::new);
        endpoint.note_departures(open.is_some());
        Recorder { open }
    }

    /// Whether an account is kept.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.open.is_some()
    }

    /// A job of user code begins.
    #[inline]
    pub(crate) fn begins(&mut self, endpoint: &mut Endpoint) {
        if let Some(open) = &mut self.open {
            open.note_departures(endpoint);
            open.steps.begins(open.last);
        }
    }

    /// A message of the skeleton has come, which is message `number` from rank `from`.
    #[inline]
    pub(crate) fn received(&mut self, endpoint: &mut Endpoint, from: usize, number: u64) {
        if let Some(open) = &mut self.open {
            open.note_departures(endpoint);
            open.steps.push(open.last, Step::Received { from, number });
        }
    }

    /// User code has done a job, which is to be added to the tally; `is_new` if that was since the last mark.
    #[inline]
    pub(crate) fn done(&mut self, endpoint: &mut Endpoint, is_new: bool, add: impl FnOnce(&mut Tally)) {
        if let Some(open) = &mut self.open {
            open.note_departures(endpoint);
            let before = open.tally.taken;
            add(&mut open.tally);
            let took = open.tally.taken.saturating_sub(before);
            let at = if is_new { open.steps.latest().max(open.last) + took } else { open.last };
            open.steps.ended(at, Some(took).filter(|took| !took.is_zero()));
        }
    }

    /// It is `now`, and since the last time the rank was doing this. `thread` is the number of the one that computes.
    pub(crate) fn mark(&mut self, now: Duration, doing: Doing, endpoint: &mut Endpoint, thread: Option<i32>) {
        if let Some(open) = &mut self.open {
            open.note_departures(endpoint);
            open.mark(now, doing);
            let shortest = shortest_part(now.saturating_sub(open.begin));
            if now.saturating_sub(open.part.since) >= shortest {
                open.write_part(now, thread);
                open.write_steps(now, false);
                open.sent.clone_from_slice(endpoint.sent());
                open.parts_since_tally += 1;
                if open.parts_since_tally >= PARTS_PER_TALLY {
                    open.write_tally(now);
                }
            }
            open.log.tick(now);
        }
    }

    /// It is `now`, and rank 0 knows how far the run is, if anybody asks it.
    pub(crate) fn note_progress(&mut self, now: Duration, progress: impl FnOnce() -> Option<Progress>) {
        let Some(open) = self.open.as_mut().filter(|open| now >= open.progress_due) else { return };
        open.progress_due = now + PROGRESS.max(shortest_part(now.saturating_sub(open.begin)));
        if let Some(event) = progress().and_then(Progress::event) {
            open.log.record(now, || event);
        }
    }

    /// The rank may not look again at what it has sent.
    pub(crate) fn note_sent(&mut self, endpoint: &mut Endpoint) {
        if let Some(open) = &mut self.open {
            open.note_departures(endpoint);
            open.sent.clone_from_slice(endpoint.sent());
        }
    }

    /// The rank has done its part, at the time that was looked at last.
    pub(crate) fn end(&mut self, endpoint: &mut Endpoint) {
        if let Some(mut open) = self.open.take() {
            open.note_departures(endpoint);
            endpoint.note_departures(false);
            open.write_rest();
            let (last, seconds) = (open.last, open.last.saturating_sub(open.begin).as_secs_f64());
            open.log.record(last, || Event::RankEnd { seconds });
        }
    }
}

impl Open {
    fn new(endpoint: &Endpoint, dir: &Path, what: &str, kinds: Vec<String>) -> Option<Self> {
        let (rank, size, clock) = (endpoint.rank(), endpoint.size(), endpoint.clock());
        let begin = clock.now();
        // A clock before 1970 is set by nobody.
        let unix = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let clock_s = if clock.is_simulated() { begin.as_secs_f64() } else { unix() };
        let run = endpoint.run().saturating_sub(1);
        let mut log =
            EventLog::open_as(Stem::Activity, dir, Place { rank, run, offset: -begin.as_secs_f64() });
        if !log.is_on() {
            return None;
        }
        let tally = Tally {
            kinds: (0..kinds.len())
                .map(|of| Kind { work: Work { of, ..Work::default() }, ..Kind::default() })
                .collect(),
            ..Tally::default()
        };
        let simulated = clock.is_simulated();
        let start = RankStart {
            schema: SCHEMA,
            ranks: size,
            what: what.to_string(),
            host: if simulated { "simulated".to_string() } else { this_process::host() },
            program: this_process::program(),
            clock_s,
            kinds,
            memory_limit: if simulated { None } else { this_process::memory_limit() },
        };
        log.record(begin, || Event::RankStart(start));
        Some(Open {
            log,
            last: begin,
            begin,
            part: Part { since: begin, ..Part::default() },
            computed: Duration::ZERO,
            tally,
            parts_since_tally: 0,
            steps: StepRecorder::new(begin),
            progress_due: begin + PROGRESS,
            sent: endpoint.sent().to_vec(),
            sent_written: endpoint.sent().to_vec(),
            core: None,
            simulated,
        })
    }

    fn mark(&mut self, now: Duration, doing: Doing) {
        let mut passed = now.saturating_sub(self.last);
        self.last = now;
        if doing == Doing::Computing {
            self.part.work += passed;
            self.computed += passed;
            return;
        }
        // Calls on another thread have been accounted for while they ran.
        self.tally.taken = self.tally.taken.saturating_sub(std::mem::take(&mut self.computed));
        // What user code did here is known when it is done, and was done since the last look, or a little before.
        let work = self.tally.taken.min(passed);
        self.tally.taken -= work;
        self.part.work += work;
        passed -= work;
        match doing {
            Doing::Waiting => self.part.idle += passed,
            Doing::Parked => self.part.parked += passed,
            Doing::Communicating | Doing::Computing => {}
        }
    }

    /// What has left since the last look is a step, too.
    fn note_departures(&mut self, endpoint: &mut Endpoint) {
        for Departure { to, number } in endpoint.take_departures() {
            self.steps.push(self.last, Step::Sent { to, number });
        }
    }

    fn write_steps(&mut self, now: Duration, is_last: bool) {
        if let Some(steps) = self.steps.take(now, is_last) {
            let steps = Steps { seconds: rounded(steps.seconds), ..steps };
            self.log.record(now, || Event::Steps(steps));
        }
    }

    /// For how long the thread that computes was ready and had no core, since this was last asked.
    fn lost(&mut self, thread: Option<i32>) -> Duration {
        let Some(thread) = thread else { return Duration::ZERO };
        match &mut self.core {
            Some((of, delay)) if *of == thread => delay.since_last().unwrap_or_default(),
            core => {
                *core = Some((thread, RunDelay::of_thread(thread)));
                Duration::ZERO
            }
        }
    }

    /// What is known up to the last look.
    fn write_rest(&mut self) {
        if self.last > self.part.since || self.tally.is_new() {
            self.write_part(self.last, None);
        }
        self.write_steps(self.last, true);
        if self.tally.is_new() || self.sent != self.sent_written || self.parts_since_tally > 0 {
            self.write_tally(self.last);
        }
    }

    fn write_part(&mut self, now: Duration, thread: Option<i32>) {
        let lost = self.lost(thread);
        let part = std::mem::replace(&mut self.part, Part { since: now, ..Part::default() });
        let whole = now.saturating_sub(part.since);
        let activity = Activity {
            seconds: rounded(whole.as_secs_f64()),
            work_s: rounded(part.work.as_secs_f64()),
            idle_s: rounded(part.idle.as_secs_f64()),
            parked_s: rounded(part.parked.as_secs_f64()),
            lost_s: rounded(lost.min(whole).as_secs_f64()),
            done: self.tally.kinds.iter_mut().map(|kind| std::mem::take(&mut kind.done)).collect(),
            longest: self.tally.longest.take().map(|l| Longest { seconds: rounded(l.seconds), ..l }),
        };
        self.log.record(now, || Event::Activity(activity));
    }

    fn write_tally(&mut self, now: Duration) {
        self.parts_since_tally = 0;
        for (of, kind) in self.tally.kinds.iter_mut().enumerate() {
            if kind.work.done == 0 && kind.work.seconds == 0.0 {
                continue;
            }
            let mut work = std::mem::replace(&mut kind.work, Work { of, ..Work::default() });
            work.seconds = rounded(work.seconds);
            let some = kind.steps.iter_mut().enumerate().filter(|(_, count)| **count > 0);
            work.steps = some.map(|(step, count)| (step as u32, std::mem::take(count))).collect();
            self.log.record(now, || Event::Work(work));
        }
        let pairs = self.sent.iter().zip(&self.sent_written).enumerate();
        let new = pairs.map(|(to, (now, then))| (to, now.messages - then.messages, now.bytes - then.bytes));
        let to = new.filter(|(_, messages, _)| *messages > 0).collect();
        self.sent_written.clone_from(&self.sent);
        let memory_peak = if self.simulated { None } else { this_process::memory_peak() };
        self.log.record(now, || Event::Traffic(Traffic { to, memory_peak }));
    }
}

impl Drop for Open {
    /// A run that failed.
    fn drop(&mut self) {
        self.write_rest();
    }
}

/// To a tenth of a microsecond: more figures would only make lines longer.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e7).round() / 1e7
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
