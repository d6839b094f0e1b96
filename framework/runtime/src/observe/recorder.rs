//! Keeps account of a rank's time while it runs, and writes it now and then: see [`activity`](super::activity).
//!
//! A rank that is not asked for events pays a test of a pointer. One that is pays a reading of the clock for each wait, and a few
//! additions for each call of user code. How much is written is bounded: the longer a run lasts, the longer are the parts of its time
//! that are written as one.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::activity::{Activity, Longest, RankStart, SCHEMA, Traffic, Work};
use super::event::Event;
use super::log::{EventLog, Place, Stem};
use super::progress::Progress;
use super::tally::{SharedTally, Tally};
use crate::comm::endpoint::{Endpoint, Sent};
use crate::comm::run_delay::RunDelay;
use crate::session::topology::this_process;

/// The shortest part of a rank's time that is written as one: a line has 150 bytes, so that this is at most 15 kB/s for the first
/// seconds of a run.
const SHORTEST: Duration = Duration::from_millis(10);
/// No part is shorter than one in this number of the run so far. With 500, what is written of a run of an hour has 3600 lines a rank.
const PARTS: u32 = 500;
/// A part is written this much later than it ends. What is noticed late, as the end of a command is, still changes it until then; what is
/// noticed later than this changes the parts that follow, so that only the sum is right.
const HELD: Duration = Duration::from_millis(500);
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
    /// User code had a job in hand on another thread.
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
    /// Parts that have ended and are not written yet.
    held: VecDeque<Part>,
    tally: SharedTally,
    /// Work that is in parts of the time so far. It follows the [measured work](Tally::time), which becomes known later.
    attributed: Duration,
    /// The same for [set-up](Tally::set_up).
    set_up: Duration,
    /// [Messages](Endpoint::messages) at the last look.
    messages: u64,
    parts_since_tally: u32,
    /// When to look next how far the run is.
    progress_due: Duration,
    /// What had been sent at the last look, and when that was last written.
    sent: Vec<Sent>,
    sent_written: Vec<Sent>,
    /// [Throttled time](this_process::throttled) when it was last written.
    throttled: Duration,
    /// The thread that computes.
    core: Option<(i32, RunDelay)>,
    /// Its ranks are threads of one process, whose memory says nothing of them.
    simulated: bool,
}

/// Account of a part of a rank's time, before it is written.
#[derive(Debug, Default)]
struct Part {
    since: Duration,
    until: Duration,
    work: Duration,
    idle: Duration,
    parked: Duration,
    messages: Duration,
    set_up: Duration,
    // Set when the part ends.
    lost: Duration,
    done: Vec<u64>,
    longest: Option<Longest>,
}

impl Part {
    /// Adds work that became known after the part, as far as the part has time that is neither work nor parked. Returns the time added.
    fn add_late(&mut self, work: Duration) -> Duration {
        let room = self.until.saturating_sub(self.since).saturating_sub(self.work + self.parked);
        let late = work.min(room);
        self.work += late;
        // The ends of jobs and the starts of commands are noticed late, so some of the work was counted as something else.
        let rest = room - late;
        self.set_up = self.set_up.min(rest);
        self.idle = self.idle.min(rest - self.set_up);
        self.messages = self.messages.min(rest - self.set_up - self.idle);
        late
    }

    /// Turns work into idle time: the compute thread waited for a core or for the next job. Returns the time turned.
    fn take_back(&mut self, work: Duration) -> Duration {
        let less = work.min(self.work);
        self.work -= less;
        self.idle += less;
        less
    }
}

impl Recorder {
    /// Begins an account if there is a directory for it. `what` the rank takes part in, the kinds of what user code does there, and the
    /// tally of user code.
    pub(crate) fn begin(
        endpoint: &mut Endpoint,
        dir: Option<&Path>,
        what: &str,
        kinds: Vec<String>,
        tally: SharedTally,
    ) -> Self {
        let open = dir.and_then(|dir| Open::new(endpoint, dir, what, kinds, tally)).map(Box::new);
        Recorder { open }
    }

    /// Whether an account is kept.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.open.is_some()
    }

    /// Accounts for the time from the last call until `now`, in which the rank was `doing` this. `thread` is the number of the
    /// thread that computes, and `measured` adds what the skeleton has measured beside user code.
    pub(crate) fn mark(
        &mut self,
        now: Duration,
        doing: Doing,
        endpoint: &Endpoint,
        thread: Option<i32>,
        measured: impl FnOnce(&mut Tally),
    ) {
        if let Some(open) = &mut self.open {
            open.tally.with(measured);
            open.mark(now, doing, endpoint.messages());
            let shortest = shortest_part(now.saturating_sub(open.begin));
            if now.saturating_sub(open.part.since) >= shortest {
                open.end_part(now, thread);
                open.sent.clone_from_slice(endpoint.sent());
            }
            open.write_old(now);
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
    pub(crate) fn note_sent(&mut self, endpoint: &Endpoint) {
        if let Some(open) = &mut self.open {
            open.sent.clone_from_slice(endpoint.sent());
        }
    }

    /// The rank has done its part, at the time that was looked at last.
    pub(crate) fn end(&mut self) {
        if let Some(mut open) = self.open.take() {
            open.write_rest();
            let (last, seconds) = (open.last, open.last.saturating_sub(open.begin).as_secs_f64());
            open.log.record(last, || Event::RankEnd { seconds });
        }
    }
}

impl Open {
    fn new(
        endpoint: &Endpoint,
        dir: &Path,
        what: &str,
        kinds: Vec<String>,
        tally: SharedTally,
    ) -> Option<Self> {
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
        tally.begin(kinds.len());
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
            part: Part { since: begin, until: begin, ..Part::default() },
            held: VecDeque::new(),
            tally,
            attributed: Duration::ZERO,
            set_up: Duration::ZERO,
            messages: endpoint.messages(),
            parts_since_tally: 0,
            progress_due: begin + PROGRESS,
            sent: endpoint.sent().to_vec(),
            sent_written: endpoint.sent().to_vec(),
            throttled: if simulated { Duration::ZERO } else { this_process::throttled() },
            core: None,
            simulated,
        })
    }

    fn mark(&mut self, now: Duration, doing: Doing, messages: u64) {
        let mut passed = now.saturating_sub(self.last);
        let had_messages = std::mem::replace(&mut self.messages, messages) != messages;
        self.last = now;
        passed -= self.attribute_work(now, passed);
        self.part.until = now;
        let set_up = self.tally(|tally| tally.set_up(now));
        let new = set_up.saturating_sub(self.set_up).min(passed);
        self.set_up = set_up;
        self.part.set_up += new;
        passed -= new;
        match doing {
            Doing::Waiting => self.part.idle += passed,
            Doing::Parked => self.part.parked += passed,
            Doing::Communicating | Doing::Computing if had_messages => self.part.messages += passed,
            Doing::Communicating | Doing::Computing => {}
        }
    }

    /// Brings the work of all unwritten parts to the measured work. New work is added to the last `passed` time first, then to earlier
    /// parts, newest first. Returns the work within `passed`.
    fn attribute_work(&mut self, now: Duration, passed: Duration) -> Duration {
        let measured = self.tally(|tally| tally.time(now));
        let parts = std::iter::once(&mut self.part).chain(self.held.iter_mut().rev());
        let Some(mut more) = measured.checked_sub(self.attributed) else {
            for part in parts {
                self.attributed -= part.take_back(self.attributed - measured);
            }
            return Duration::ZERO;
        };
        let new = more.min(passed);
        more -= new;
        parts.for_each(|part| more -= part.add_late(more));
        self.part.work += new;
        self.attributed = measured - more;
        new
    }

    /// Calls `f` with the tally, which [`new`](Open::new) has begun.
    fn tally<R: Default>(&self, f: impl FnOnce(&mut Tally) -> R) -> R {
        self.tally.with(f).unwrap_or_default()
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

    /// Writes what is known up to the last look. A job that is still running then is left out, as it is in the summary.
    fn write_rest(&mut self) {
        let last = self.last;
        self.tally(|tally| tally.end_job(|| last));
        self.attribute_work(last, Duration::ZERO);
        if self.last > self.part.since || self.tally(|tally| tally.is_new()) {
            self.end_part(self.last, None);
        }
        self.write_old(self.last + HELD);
        if self.tally(|tally| tally.is_new()) || self.sent != self.sent_written || self.parts_since_tally > 0
        {
            self.write_tally(self.last);
        }
    }

    /// Ends the current part.
    fn end_part(&mut self, now: Duration, thread: Option<i32>) {
        let lost = self.lost(thread);
        let part = std::mem::replace(&mut self.part, Part { since: now, until: now, ..Part::default() });
        let (done, longest) = self.tally(|tally| {
            let done = tally.kinds.iter_mut().map(|kind| std::mem::take(&mut kind.done)).collect();
            (done, tally.longest.take())
        });
        let longest = longest.map(|l: Longest| Longest { seconds: rounded(l.seconds), ..l });
        self.held.push_back(Part { until: now, lost, done, longest, ..part });
    }

    /// Writes the parts that ended [`HELD`] ago.
    fn write_old(&mut self, now: Duration) {
        let is_old = |part: &Part| now.saturating_sub(part.until) >= HELD;
        while self.held.front().is_some_and(is_old)
            && let Some(part) = self.held.pop_front()
        {
            let activity = Activity {
                seconds: rounded(part.until.saturating_sub(part.since).as_secs_f64()),
                work_s: rounded(part.work.as_secs_f64()),
                idle_s: rounded(part.idle.as_secs_f64()),
                parked_s: rounded(part.parked.as_secs_f64()),
                messages_s: rounded(part.messages.as_secs_f64()),
                set_up_s: rounded(part.set_up.as_secs_f64()),
                lost_s: rounded(part.lost.min(part.work).as_secs_f64()),
                done: part.done,
                longest: part.longest,
            };
            self.log.record(part.until, || Event::Activity(activity));
            self.parts_since_tally += 1;
        }
        if self.parts_since_tally >= PARTS_PER_TALLY {
            self.write_tally(now);
        }
    }

    fn write_tally(&mut self, now: Duration) {
        self.parts_since_tally = 0;
        for work in self.tally(Tally::take) {
            let work = Work { seconds: rounded(work.seconds), ..work };
            self.log.record(now, || Event::Work(work));
        }
        let pairs = self.sent.iter().zip(&self.sent_written).enumerate();
        let new = pairs.map(|(to, (now, then))| (to, now.messages - then.messages, now.bytes - then.bytes));
        let to = new.filter(|(_, messages, _)| *messages > 0).collect();
        self.sent_written.clone_from(&self.sent);
        let memory_peak = if self.simulated { None } else { this_process::memory_peak() };
        let throttled = if self.simulated { self.throttled } else { this_process::throttled() };
        let new = throttled.saturating_sub(std::mem::replace(&mut self.throttled, throttled));
        let throttled_s = rounded(new.as_secs_f64());
        self.log.record(now, || Event::Traffic(Traffic { to, memory_peak, throttled_s }));
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
