//! Accounts for the time of a rank while it runs, and writes the account to the log of events: see [`activity`](super::activity).
//!
//! Without a log of events, the cost is one test of a pointer. With a log, it is one reading of the clock per wait and a few additions per call
//! of user code. The size of the log is bounded: the time is divided into parts, one line each, which become longer as the run goes on.

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

/// Minimum length of a part of a rank's time, for which one line is logged. A line has 150 bytes, so a rank writes at most 15 kB/s in the first
/// seconds of a run.
const SHORTEST: Duration = Duration::from_millis(10);
/// Minimum length of a part of a rank's time, as a fraction of the run so far: with a 500th, a rank writes 3600 lines for a run of an hour.
const PARTS: u32 = 500;
/// Delay between the end of a part of a rank's time and its line in the log. Work that is noticed late, such as the end of a command, is still
/// added to the part. Work that is noticed later than this is added to later parts, so that only the sum is right.
const HELD: Duration = Duration::from_millis(500);
/// Number of parts of a rank's time between two lines with the times of calls and the sent messages.
const PARTS_PER_TALLY: u32 = 50;
/// Time between two lines with the progress of the run: `armature top` updates its display once a second.
const PROGRESS: Duration = Duration::from_secs(1);

/// Returns the minimum length of a part of a rank's time, if the run has lasted for `run_so_far`.
pub(crate) fn shortest_part(run_so_far: Duration) -> Duration {
    SHORTEST.max(run_so_far / PARTS)
}

/// Activity of a rank since the last reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// The compute thread had a job of user code.
    Computing,
    /// The rank processed messages. User code that ran on the same thread is measured separately.
    Communicating,
    /// The rank waited and had nothing to compute.
    Waiting,
    /// The rank was parked: it had no work and waited to be woken.
    Parked,
}

/// Keeps the account of one rank's time in one run, or does nothing if events are not logged.
#[derive(Debug)]
pub(crate) struct Recorder {
    open: Option<Box<Open>>,
}

#[derive(Debug)]
struct Open {
    log: EventLog,
    /// End of the part of the run for which the account of the rank's time is complete.
    last: Duration,
    begin: Duration,
    part: Part,
    /// Parts of the rank's time that have ended and are not written yet.
    held: VecDeque<Part>,
    tally: SharedTally,
    /// Time in user code in all parts of the rank's time so far. The value follows the [measured time](Tally::time), part of which becomes known
    /// late.
    attributed: Duration,
    /// Time of [set-up](Tally::set_up) in all parts of the rank's time so far.
    set_up: Duration,
    /// Number of [messages](Endpoint::messages) at the last call of `record_activity`.
    messages: u64,
    parts_since_tally: u32,
    /// Time at which the next line with the progress of the run is due.
    progress_due: Duration,
    /// Messages sent until the end of the last part of the rank's time; `sent_written` are those already in the log.
    sent: Vec<Sent>,
    sent_written: Vec<Sent>,
    /// Time for which a CPU quota had [stopped](this_process::throttled) the rank, as already written to the log.
    throttled: Duration,
    /// Id of the thread that runs user code, with the time for which it waited for a core.
    core: Option<(i32, RunDelay)>,
    /// True if the ranks are threads of a simulator, where the memory use of the process is not that of a rank.
    simulated: bool,
}

/// Account of one part of a rank's time, before it is written.
#[derive(Debug, Default)]
struct Part {
    since: Duration,
    until: Duration,
    work: Duration,
    idle: Duration,
    parked: Duration,
    messages: Duration,
    set_up: Duration,
    // The fields `lost`, `done` and `longest` are set when the part of the rank's time ends.
    lost: Duration,
    done: Vec<u64>,
    longest: Option<Longest>,
}

impl Part {
    /// Adds time in user code that became known after the part ended, at most the time of the part that is neither user code nor parked. Returns
    /// the time added.
    fn add_delayed(&mut self, work: Duration) -> Duration {
        let room = self.until.saturating_sub(self.since).saturating_sub(self.work + self.parked);
        let added = work.min(room);
        self.work += added;
        // The other activities of the part become shorter: the end of a job or the start of a command is noticed late, so some of the time in
        // user code was counted as another activity.
        let rest = room - added;
        self.set_up = self.set_up.min(rest);
        self.idle = self.idle.min(rest - self.set_up);
        self.messages = self.messages.min(rest - self.set_up - self.idle);
        added
    }

    /// Turns time in user code into idle time, because the compute thread actually waited for a core or for its next job. Returns the time
    /// turned.
    fn take_back(&mut self, work: Duration) -> Duration {
        let less = work.min(self.work);
        self.work -= less;
        self.idle += less;
        less
    }
}

impl Recorder {
    /// Begins an account of the rank's time if `dir`, the directory of the log, is given. `what` is the skeleton, `kinds` are the kinds of jobs
    /// of user code, and `tally` is their tally.
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

    /// Returns true if an account of the rank's time is kept.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.open.is_some()
    }

    /// Accounts for the time between the last call and `now`, in which the activity of the rank was `doing`. `thread` is the id of the thread
    /// that runs user code. `measured` adds the work that the skeleton has measured itself to the tally.
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

    /// Writes the progress of the run to the log if a line is due. Called on rank 0.
    pub(crate) fn record_progress(&mut self, now: Duration, progress: impl FnOnce() -> Option<Progress>) {
        let Some(open) = self.open.as_mut().filter(|open| now >= open.progress_due) else { return };
        open.progress_due = now + PROGRESS.max(shortest_part(now.saturating_sub(open.begin)));
        if let Some(event) = progress().and_then(Progress::event) {
            open.log.record(now, || event);
        }
    }

    /// Updates the counts of sent messages at the end of a run, because it is not certain that [`mark`](Recorder::mark) is called once more.
    pub(crate) fn record_sent(&mut self, endpoint: &Endpoint) {
        if let Some(open) = &mut self.open {
            open.sent.clone_from_slice(endpoint.sent());
        }
    }

    /// Ends the account of the rank's time at the last reading of the clock.
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
        // A negative duration is replaced by 0: it occurs only if the clock is set to a time before 1970.
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

    /// Corrects the time in user code of all parts that are not written yet, so that its sum is the measured time. Time that is missing from the
    /// parts is added to the last interval, of length `passed`, first, and then to earlier parts, the latest part first. Returns the time in user
    /// code within the last interval.
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

    /// Returns the time since the last call in which the thread that runs user code was ready to run but had no core.
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

    /// Writes everything that is known up to the last reading of the clock to the log. A job whose outcome has not been fetched is left out, as
    /// in the summary of the run.
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

    /// Ends the current part of the rank's time.
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

    /// Writes the parts of the rank's time that ended at least the delay [`HELD`] ago to the log.
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
    /// Writes the rest of the account if the run has failed.
    fn drop(&mut self) {
        self.write_rest();
    }
}

/// Rounds a number of seconds to a tenth of a microsecond, to keep lines of the log short.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e7).round() / 1e7
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
