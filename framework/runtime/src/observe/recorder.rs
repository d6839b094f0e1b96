//! Measures how a rank spends its time during a run, and writes the result to the event log: see [`activity`](super::activity).
//!
//! Without an event log, the cost is one test of a pointer. With a log, it is one reading of the clock per wait and a few additions per call of user
//! code. The size of the log is bounded: the time of the rank is divided into intervals, one line each, which become longer during the run.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::activity::{Activity, Longest, RankStart, SCHEMA, Traffic, Work};
use super::event::Event;
use super::log::{EventLog, LogOrigin, Stem};
use super::progress::Progress;
use super::tally::{SharedTally, Tally};
use crate::comm::endpoint::{Endpoint, Sent};
use crate::comm::run_delay::RunDelay;
use crate::session::topology::this_process;

/// Minimum length of an interval of a rank's time that gets a line in the event log. A line has 150 bytes, so a rank writes at most 15 kB/s in the
/// first seconds of a run.
const SHORTEST: Duration = Duration::from_millis(10);
/// Minimum length of an interval of a rank's time as a fraction of the run so far: with a 500th, a rank writes at most about 3800 lines in a run of
/// an hour.
const PARTS: u32 = 500;
/// Delay between the end of an interval of a rank's time and its line in the log. Work that is noticed late, such as the end of a command, is added
/// to its interval within this delay. Work that is noticed later is added to later intervals; the sum over all intervals remains correct.
const HELD: Duration = Duration::from_millis(500);
/// Number of lines about intervals of a rank's time between two lines about its calls of user code and the messages that it sent.
const PARTS_PER_TALLY: u32 = 50;
/// Time between two lines about the progress of the run: `armature top` updates its display once a second.
const PROGRESS: Duration = Duration::from_secs(1);

pub(crate) fn shortest_part(run_so_far: Duration) -> Duration {
    SHORTEST.max(run_so_far / PARTS)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// A call of user code was running, or ready to run, on the compute thread.
    Computing,
    /// The rank processed messages. The time of user code on the same thread is measured separately.
    Communicating,
    Waiting,
    /// The rank was parked: it had no work and waited to be woken.
    Parked,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    open: Option<Box<Open>>,
}

#[derive(Debug)]
struct Open {
    log: EventLog,
    /// End of the time that the recorded intervals cover.
    last: Duration,
    begin: Duration,
    part: Part,
    /// Intervals of the rank's time that have ended and are not in the event log yet.
    held: VecDeque<Part>,
    tally: SharedTally,
    /// Time in user code that the intervals of the rank's time contain so far. It is adjusted to the [measured time](Tally::time), some of which
    /// becomes known late.
    attributed: Duration,
    set_up: Duration,
    messages: u64,
    parts_since_tally: u32,
    progress_due: Duration,
    /// Number and size of the messages to each rank until the end of the last interval; `sent_written` are those that the event log contains already.
    sent: Vec<Sent>,
    sent_written: Vec<Sent>,
    /// Time for which a CPU quota had [stopped](this_process::throttled) the rank when the event log was last written.
    throttled: Duration,
    /// Id of the thread that runs user code, and a counter of the time for which this thread waited for a core.
    core: Option<(i32, RunDelay)>,
    /// True in a simulation: all ranks are threads of one process, so its memory use is not that of a rank.
    simulated: bool,
}

/// Times of one interval in a rank's run, by activity.
#[derive(Debug, Default)]
struct Part {
    since: Duration,
    until: Duration,
    work: Duration,
    idle: Duration,
    parked: Duration,
    messages: Duration,
    set_up: Duration,
    // The event log gets `lost`, `done` and `longest` only at the end of the interval.
    lost: Duration,
    done: Vec<u64>,
    longest: Option<Longest>,
}

impl Part {
    /// Adds time in user code that became known after the end of this interval. Returns the added time, which
    /// is at most the part of the interval that was neither in user code nor parked.
    fn add_delayed(&mut self, work: Duration) -> Duration {
        let room = self.until.saturating_sub(self.since).saturating_sub(self.work + self.parked);
        let added = work.min(room);
        self.work += added;
        // The added time had been counted as other activities, whose times are reduced: the end of a call of user code, or the start of a command,
        // was noticed late.
        let rest = room - added;
        self.set_up = self.set_up.min(rest);
        self.idle = self.idle.min(rest - self.set_up);
        self.messages = self.messages.min(rest - self.set_up - self.idle);
        added
    }

    /// Converts time in user code of this interval to idle time, because the compute thread actually waited
    /// for a core or for its next call. Returns the converted time.
    fn take_back(&mut self, work: Duration) -> Duration {
        let less = work.min(self.work);
        self.work -= less;
        self.idle += less;
        less
    }
}

impl Recorder {
    /// Begins to measure the rank's time if `dir`, the directory of the event log, is given. `what` names the run, such as `the farm`, `kinds` are
    /// the names of the kinds of calls of user code, and `tally` holds the counts and times of these calls.
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

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.open.is_some()
    }

    /// Attributes the time from the last call until `now` to the activity `doing`. `thread` is the id of the thread that runs user code. `measured`
    /// adds work that the farm, pipeline, loop or workflow has measured itself to the tally (counts and times of user code).
    pub(crate) fn record_activity(
        &mut self,
        now: Duration,
        doing: Doing,
        endpoint: &Endpoint,
        thread: Option<i32>,
        measured: impl FnOnce(&mut Tally),
    ) {
        if let Some(open) = &mut self.open {
            open.tally.with(measured);
            open.record_activity(now, doing, endpoint.messages());
            let shortest = shortest_part(now.saturating_sub(open.begin));
            if now.saturating_sub(open.part.since) >= shortest {
                open.end_part(now, thread);
                open.sent.clone_from_slice(endpoint.sent());
            }
            open.write_old(now);
            open.log.tick(now);
        }
    }

    pub(crate) fn record_progress(&mut self, now: Duration, progress: impl FnOnce() -> Option<Progress>) {
        let Some(open) = self.open.as_mut().filter(|open| now >= open.progress_due) else { return };
        open.progress_due = now + PROGRESS.max(shortest_part(now.saturating_sub(open.begin)));
        if let Some(event) = progress().and_then(Progress::event) {
            open.log.record(now, || event);
        }
    }

    /// Updates the counts of sent messages at the end of a run, when [`record_activity`](Recorder::record_activity) is not called any more.
    pub(crate) fn record_sent(&mut self, endpoint: &Endpoint) {
        if let Some(open) = &mut self.open {
            open.sent.clone_from_slice(endpoint.sent());
        }
    }

    /// Writes the unwritten intervals of the rank's time and the end event to the event log. The end event has the time of the last reading of the
    /// rank's clock.
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
        // If the clock is set to a time before 1970, the start time becomes 0.
        let unix = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let clock_s = if clock.is_simulated() { begin.as_secs_f64() } else { unix() };
        let run = endpoint.run().saturating_sub(1);
        let mut log =
            EventLog::open_as(Stem::Activity, dir, LogOrigin { rank, run, offset: -begin.as_secs_f64() });
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
            threads: if simulated { Vec::new() } else { this_process::threads() },
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

    fn record_activity(&mut self, now: Duration, doing: Doing, messages: u64) {
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

    /// Adjusts the time in user code of all unwritten intervals, so that the sum over all intervals is the measured time. Missing time is added first
    /// to `passed`, the time since the last call of this function, then to the intervals, the latest one first. Returns the part of `passed` in user
    /// code.
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
        parts.for_each(|part| more -= part.add_delayed(more));
        self.part.work += new;
        self.attributed = measured - more;
        new
    }

    fn tally<R: Default>(&self, f: impl FnOnce(&mut Tally) -> R) -> R {
        self.tally.with(f).unwrap_or_default()
    }

    /// Returns the time, since the last call of this function, in which the thread that runs user code was ready to run but had no core. It is 0 on
    /// simulated hosts, because other programs on this machine do not slow them down.
    fn lost(&mut self, thread: Option<i32>) -> Duration {
        let Some(thread) = thread.filter(|_| !self.simulated) else { return Duration::ZERO };
        match &mut self.core {
            Some((of, delay)) if *of == thread => delay.since_last().unwrap_or_default(),
            core => {
                *core = Some((thread, RunDelay::of_thread(thread)));
                Duration::ZERO
            }
        }
    }

    /// Writes all that was known at the last reading of the rank's clock to the event log. A call of user code whose result the rank has not received
    /// is left out, as in the summary of the run.
    fn write_rest(&mut self) {
        self.tally(Tally::abandon);
        self.attribute_work(self.last, Duration::ZERO);
        if self.last > self.part.since || self.tally(|tally| tally.is_new()) {
            self.end_part(self.last, None);
        }
        self.write_old(self.last + HELD);
        if self.tally(|tally| tally.is_new()) || self.sent != self.sent_written || self.parts_since_tally > 0
        {
            self.write_tally(self.last);
        }
    }

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
    /// After a failed run, `end` was not called, so the unwritten intervals are written here.
    fn drop(&mut self) {
        self.write_rest();
    }
}

/// Rounds a number of seconds to a tenth of a microsecond, to keep lines of the event log short.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e7).round() / 1e7
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
