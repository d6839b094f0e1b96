//! Supervises a job whose result is in a status file, and restarts a job that dies.
//!
//! The ranks write the status file ([`armature::job_status`]). When it says that the job has ended, the launcher gets a grace period, after which it
//! is ended together with all processes that it has started. `restart_policy.rs` decides if the job is restarted.

mod job_usage;
mod memory;
mod process_tree;
mod restart_policy;
mod start_watch;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use armature::job_status::{JobStatus, State, place};
use armature_files::fresh;
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::command_line::CommandLine;
use crate::environment::slurm::Overrides;
use crate::error::LaunchError;
use crate::execute::{Call, GRACE_OF_RANKS, TICK, code, send};
use crate::message::print_message;
pub(crate) use job_usage::JobUsage;
pub(crate) use memory::{MemoryGroup, Usage};
pub(crate) use process_tree::{began, is_alive};
use restart_policy::{Ended, Next, RestartPolicy};
use start_watch::StartWatch;

/// Environment variable with the path of the status file. Ranks of this job are recognised by it among the processes of the machine.
const JOB_STATUS: &str = "ARMATURE_JOB_STATUS";

/// Interval between reads of the file to which the ranks write their status.
const POLL_PERIOD: Duration = Duration::from_millis(200);

/// Interval between counts of the ranks of a starting job. A count reads `/proc` for all processes of the machine, which takes some milliseconds.
const COUNT: Duration = Duration::from_millis(500);

/// Time that the launcher gets to exit after a rank was found missing during the start. Usually it exits with a code that shows the cause.
const GRACE_AT_START: Duration = Duration::from_secs(2);

/// Time that the launcher gets to exit after the job has ended or rank 0 has died.
const GRACE: Duration = Duration::from_secs(5);

/// Time between SIGTERM and SIGKILL for the launcher and its processes.
const GRACE_BEFORE_KILL: Duration = Duration::from_secs(3);

/// Settings of a job that is supervised and restarted if it dies.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Path of the file to which the ranks write the status of the job.
    pub job_status: &'a Path,
    /// Maximum number of restarts of the job after it has died.
    pub restarts: u32,
    /// Time limit of the job with all its restarts.
    pub limit: Option<Duration>,
    /// Time limit of each start of the job, until all ranks have connected to each other.
    pub start_limit: Duration,
    /// Number of ranks of the job, if all of them run on this machine.
    pub all_here: Option<usize>,
}

/// Makes orphaned descendants of this process its children, so that it can end them.
///
/// # Errors
/// If the system call fails.
pub(crate) fn adopt_orphans() -> Result<(), LaunchError> {
    process_tree::adopt_orphans().map_err(LaunchError::io("adopt the launcher's processes"))
}

/// Runs the job until its status file is final or no further restart is allowed. The exit code is 0 only if the status file reports success. `renew`
/// returns another command line for a restart if nodes were lost.
///
/// # Errors
/// If another job uses the same status file, the file cannot be written and read back, or the
/// launcher cannot be started.
pub(crate) fn supervise(
    call: &mut Call,
    terms: &Terms<'_>,
    renew: impl Fn() -> Result<Option<(CommandLine, Overrides)>, LaunchError>,
) -> Result<u8, LaunchError> {
    adopt_orphans()?;
    let _lock = JobStatus::claim(terms.job_status).map_err(LaunchError::JobStatus)?;
    let started_by = format!("process {} on {} ({})", std::process::id(), host(), fresh());
    let (start, mut policy) = (Instant::now(), RestartPolicy::new(terms.restarts));
    loop {
        // The status file is created before the job starts, because network file systems of other machines may cache that it does not exist.
        let mut status = JobStatus::default();
        (status.restarts, status.starter) = (policy.restarts(), std::process::id());
        status.started_by.clone_from(&started_by);
        status.write(terms.job_status).map_err(LaunchError::JobStatus)?;
        // The status file is read back, which detects a path such as `/dev/null` that accepts a status but does not store it.
        JobStatus::read(terms.job_status).map_err(LaunchError::JobStatus)?;
        let limit = terms.limit.map(|limit| limit.saturating_sub(start.elapsed()));
        let ended = attempt(call, &Terms { limit, ..*terms }, &started_by)?;
        call.finish_log();
        match policy.decide(&ended) {
            Next::Exit(code, text) => {
                call.record_end(ended.evidence(code));
                if let Some(text) = text {
                    print_message(text);
                }
                return Ok(code);
            }
            Next::Restart(text) => {
                call.record_end(ended.evidence(ended.failure()));
                print_message(text);
                if let Some((line, overrides)) = renew()? {
                    print_message(format_args!(
                        "the allocation has lost nodes: {} ranks are started on the remaining nodes",
                        line.ranks
                    ));
                    call.replace(line, overrides);
                }
            }
        }
    }
}

pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Starts the job once, and observes it until it has ended.
fn attempt(call: &mut Call, terms: &Terms<'_>, started_by: &str) -> Result<Ended, LaunchError> {
    let mut watch = Watch::new(terms, started_by);
    let mut child = call.start(&[(JOB_STATUS, terms.job_status.as_os_str())])?;
    let status = loop {
        let wait = child.try_wait().map_err(LaunchError::io("wait for the launcher"))?;
        if let Some(status) = wait {
            break status;
        }
        for signal in call.signals() {
            watch.signalled(signal);
            call.forward_signal(&child, signal);
        }
        if watch.has_ended() {
            break end(&mut child).map_err(LaunchError::io("wait for the launcher"))?;
        }
        std::thread::sleep(TICK);
    };
    // Most processes that outlive the launcher end soon; the others are killed.
    let left = clear(&child);
    if let Some(signal) = status.signal().filter(|_| !watch.by_us) {
        print_message(format_args!("the launcher was ended by signal {signal}; {left}"));
    }
    watch.poll();
    call.signals().into_iter().for_each(|signal| watch.signalled(signal));
    Ok(watch.ended(status))
}

/// Observed state of a started job, and the time by which its launcher must end.
struct Watch<'a> {
    terms: &'a Terms<'a>,
    /// Identity of this process, which the ranks of this job copy to their status file. A file with another identity is ignored.
    started_by: &'a str,
    /// True if the status file was found to be that of another job. A message about this is printed once.
    has_foreign_status: bool,
    /// Memory cgroup of the job on this host, with the kills for lack of memory before the start.
    memory: Option<(MemoryGroup, Usage)>,
    out_of_memory: bool,
    place: String,
    start: Instant,
    last_poll: Instant,
    counted: Instant,
    start_watch: StartWatch,
    /// Reason why not all ranks can start, such as the death of a rank.
    missing: Option<String>,
    job_status: Option<JobStatus>,
    signal: Option<u8>,
    /// Last signal that does not end the job, such as the warning of a batch system before the time limit.
    warning: Option<u8>,
    timed_out: bool,
    /// Time at which this process will end the launcher, if it has not exited by then.
    until: Option<Instant>,
    by_us: bool,
}

impl<'a> Watch<'a> {
    fn new(terms: &'a Terms<'a>, started_by: &'a str) -> Self {
        let now = Instant::now();
        Watch {
            terms,
            started_by,
            has_foreign_status: false,
            memory: MemoryGroup::own().map(|group| (group.clone(), group.usage())),
            out_of_memory: false,
            place: place(),
            start: now,
            last_poll: now,
            counted: now,
            start_watch: StartWatch::new(terms.all_here),
            missing: None,
            job_status: None,
            signal: None,
            warning: None,
            timed_out: false,
            until: None,
            by_us: false,
        }
    }

    fn has_ended(&mut self) -> bool {
        if self.last_poll.elapsed() >= POLL_PERIOD {
            self.poll();
        }
        if self.counted.elapsed() >= COUNT && self.missing.is_none() && self.is_starting() {
            self.count();
        }
        if self.terms.limit.is_some_and(|limit| self.start.elapsed() >= limit) && !self.timed_out {
            self.timed_out = true;
            print_message("the job has not ended within its time limit and is being ended");
            self.until = Some(Instant::now());
        }
        self.by_us = self.until.is_some_and(|until| Instant::now() >= until);
        self.by_us
    }

    fn within(&mut self, grace: Duration) {
        let until = Instant::now() + grace;
        self.until = Some(self.until.map_or(until, |earlier| earlier.min(until)));
    }

    /// Reads the status of the job. A file that cannot be read now is read again later; one that can never be read counts as missing.
    fn poll(&mut self) {
        self.last_poll = Instant::now();
        self.check_memory();
        self.read_status();
        if self.missing.is_some() && self.state() == State::Running {
            // The missing rank had connected before it died, so that the other ranks detect its death, and the job is not ended here.
            self.missing = None;
            self.until = self.signal.and(self.until);
        }
        let Some(job_status) = self.job_status.as_ref().filter(|_| self.until.is_none()) else { return };
        let here = !self.place.is_empty() && job_status.place == self.place;
        if job_status.state.has_ended() {
            self.within(GRACE);
        } else if job_status.state == State::Running && here && !process_tree::is_alive(job_status.process) {
            // The status file is read again, because rank 0 may have written a final status and exited after the first read.
            self.read_status();
            self.within(GRACE);
        }
    }

    /// A status file that belongs to another job is ignored.
    fn read_status(&mut self) {
        match JobStatus::read(self.terms.job_status) {
            Ok(Some(foreign)) if foreign.started_by != self.started_by => {
                if !self.has_foreign_status {
                    self.has_foreign_status = true;
                    let by = if foreign.started_by.is_empty() { "hand" } else { &foreign.started_by };
                    let file = self.terms.job_status.display();
                    print_message(format_args!(
                        "the job status {file} was written by another job, started by {by}, and is ignored. Each job needs a separate file"
                    ));
                }
            }
            Ok(own) => self.job_status = own,
            Err(_) => {}
        }
    }

    fn check_memory(&mut self) {
        let Some((group, before)) = self.memory.as_ref().filter(|_| !self.out_of_memory) else { return };
        let usage = group.usage();
        if usage.kills <= before.kills {
            return;
        }
        let rank = self.start_watch.only_missing(&process_tree::ranks(self.terms.job_status));
        if let Some(text) = usage.since(before, rank, &host()) {
            self.out_of_memory = true;
            print_message(text);
        }
    }

    fn state(&self) -> State {
        self.job_status.as_ref().map_or(State::Starting, |job_status| job_status.state)
    }

    fn is_starting(&self) -> bool {
        self.state() == State::Starting && self.until.is_none()
    }

    /// Sets a deadline for the launcher if not all ranks can start any more.
    fn count(&mut self) {
        self.counted = Instant::now();
        let limit = self.terms.start_limit;
        if self.start.elapsed() >= limit {
            let limit = limit.as_secs_f64();
            self.missing = Some(format!(
                "not all ranks have started and connected to each other within {limit} s (--start-limit sets another limit)"
            ));
            self.within(Duration::ZERO);
        } else if let Some(why) = self.start_watch.poll(&process_tree::ranks(self.terms.job_status)) {
            self.missing = Some(why);
            self.within(GRACE_AT_START);
        }
    }

    /// Handles a signal to this process. If it asks for the end of the job, the job is not restarted.
    fn signalled(&mut self, signal: i32) {
        if [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&signal) {
            self.signal = u8::try_from(signal).ok();
            self.within(GRACE_OF_RANKS);
        } else {
            self.warning = u8::try_from(signal).ok();
        }
    }

    fn ended(self, status: ExitStatus) -> Ended {
        Ended {
            code: code(status),
            launcher_signal: status.signal(),
            out_of_memory: self.out_of_memory,
            by_us: self.by_us,
            job_status: self.job_status,
            missing: self.missing,
            signal: self.signal,
            warning: self.warning,
            timed_out: self.timed_out,
            took: self.start.elapsed(),
        }
    }
}

/// Ends the launcher and all processes that it has started: with SIGTERM, then with SIGKILL.
fn end(child: &mut Child) -> std::io::Result<ExitStatus> {
    send(child, signal_hook::consts::SIGTERM);
    let requested_at = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if requested_at.elapsed() >= GRACE_BEFORE_KILL {
            process_tree::signal(Signal::KILL);
        }
        std::thread::sleep(TICK);
    }
}

/// Waits for the processes that the launcher has started, and ends those that remain. Returns a clause about their end for a message.
pub(crate) fn clear(child: &Child) -> String {
    for step in [None, Some(Signal::TERM), Some(Signal::KILL)] {
        if let Some(signal) = step {
            process_tree::signal(signal);
        }
        let start = Instant::now();
        while start.elapsed() < GRACE_BEFORE_KILL {
            process_tree::reap(child.id());
            if process_tree::living().is_empty() {
                let end = if step.is_none() { "have ended" } else { "were ended" };
                return format!("the processes that it had started {end}");
            }
            std::thread::sleep(TICK);
        }
    }
    // A process that survives SIGKILL is blocked in the kernel.
    format!("{} processes that it had started cannot be ended", process_tree::living().len())
}
