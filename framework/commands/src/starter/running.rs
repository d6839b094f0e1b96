//! A command from its start until all its processes have ended.

use std::io::{ErrorKind, PipeReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use wait4::Wait4;

use super::out_of_memory;
use super::spawn::Spawned;
use super::tree;
use super::watch::Watch;
use crate::event::{Ended, Outcome, Stopped, last_line};
use crate::output::{OutputWriter, Stream};
use crate::request::Request;

/// A command whose root process runs, or some of whose other processes still run.
pub(super) struct Running {
    pub(super) id: u64,
    attempt: u32,
    pub(super) cores: u32,
    child: Child,
    pub(super) pid: Pid,
    /// Value of the variable [`JOB_MARK`](super::spawn::JOB_MARK) in the environment of its processes.
    pub(super) job_mark: String,
    pub(super) pipes: [Option<PipeReader>; 2],
    pub(super) watch: Watch,
    start: Instant,
    /// End of the command's root process. Its descendants may still run.
    end: Option<End>,
    /// Number of processes that the kernel had killed for lack of memory before the start.
    kills_before: Option<u64>,
    /// CPU time of ended orphans of the command.
    orphans_cpu_time: Duration,
    lost_output: u64,
    /// Last bytes that the command wrote to standard error.
    errors: Vec<u8>,
}

/// Maximum number of kept bytes of standard error: some lines, for messages.
const ERRORS: usize = 1 << 11;

struct End {
    status: ExitStatus,
    at: Instant,
    cpu_time: Duration,
    peak_memory: u64,
    /// Number of processes that the kernel had killed for lack of memory at the end.
    kills: Option<u64>,
}

const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

impl Running {
    pub(super) fn new(
        request: &Request,
        spawned: Spawned,
        job_mark: String,
        start: Instant,
        grace: Duration,
    ) -> Self {
        let Spawned { child, pipes } = spawned;
        let pid = Pid::from_child(&child);
        Running {
            id: request.id,
            attempt: request.attempt,
            cores: request.cores,
            child,
            pid,
            job_mark,
            pipes,
            watch: Watch::new(start, request.time_limit, request.memory_limit, grace),
            start,
            end: None,
            kills_before: out_of_memory::recent_kills(start),
            orphans_cpu_time: Duration::ZERO,
            lost_output: 0,
            errors: Vec::new(),
        }
    }

    /// Returns true if the root process has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Returns true if the command may still have to be stopped or measured. A command that has ended without being stopped is not watched.
    pub(super) fn is_watched(&self) -> bool {
        !self.has_ended() || self.watch.stopped().is_some()
    }

    /// Checks for the end of the root process. If it has ended, the rest of its process group is killed, unless the command was stopped and
    /// its grace period has not passed.
    pub(super) fn notice_end(&mut self, now: Instant) -> std::io::Result<()> {
        if self.has_ended() {
            return Ok(());
        }
        let ended = waitid(
            WaitId::Pid(self.pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
        )?;
        if ended.is_none() {
            return Ok(());
        }
        if !self.watch.has_grace(now) {
            // The root process is not reaped before its group is killed: until then its number is not reused,
            // so that the signal reaches no other group.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        let used = self.child.wait4()?;
        let cpu_time = used.rusage.utime + used.rusage.stime;
        // The number of processes killed for lack of memory is read only for commands that did not succeed.
        let kills = if used.status.success() { None } else { out_of_memory::kills() };
        let peak_memory = used.rusage.maxrss;
        self.end = Some(End { status: used.status, at: now, cpu_time, peak_memory, kills });
        Ok(())
    }

    /// Measures the memory of the command's processes if that is due, and sends a signal if one is due. `orphans` are the roots of its
    /// orphaned process trees.
    pub(super) fn poll(&mut self, orphans: &[Pid], now: Instant) {
        if !self.is_watched() || now < self.watch.next() && self.watch.stopped().is_none() {
            return;
        }
        let mut tree = if self.has_ended() { Vec::new() } else { tree::with_descendants(self.pid) };
        tree.extend(orphans.iter().flat_map(|&orphan| tree::with_descendants(orphan)));
        if self.watch.wants_memory(now) {
            self.watch.holds(tree::memory(&tree), now);
        }
        if let Some(signal) = self.watch.due(now) {
            if !self.has_ended() {
                let _ = kill_process_group(self.pid, signal);
            }
            tree::signal(&tree, signal);
        }
    }

    /// Adds the CPU time of an orphan that has ended.
    pub(super) fn add_cpu_time(&mut self, time: Duration) {
        self.orphans_cpu_time += time;
    }

    /// Copies output of the command to the output file. Without `all` it reads once from each pipe, so that a command with endless output
    /// does not block the others; with `all` it reads everything that is available.
    pub(super) fn copy_output(&mut self, to: &mut Option<OutputWriter>, buffer: &mut [u8], all: bool) {
        for (pipe, stream) in self.pipes.iter_mut().zip(STREAMS) {
            while let Some(reader) = pipe {
                match reader.read(buffer) {
                    Ok(0) => *pipe = None,
                    Ok(count) => {
                        let written = match to {
                            Some(to) => to.write(self.id, self.attempt, stream, &buffer[..count]),
                            None => false,
                        };
                        if !written {
                            self.lost_output += count as u64;
                        }
                        if stream == Stream::Stderr {
                            self.errors.extend_from_slice(&buffer[count.saturating_sub(ERRORS)..count]);
                            self.errors.drain(..self.errors.len().saturating_sub(ERRORS));
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => *pipe = None,
                }
                if !all {
                    break;
                }
            }
        }
    }

    /// Returns how the command ended, once the root process has ended.
    pub(super) fn ended(&self) -> Option<Ended> {
        let end = self.end.as_ref()?;
        let outcome = match (end.status.code(), end.status.signal()) {
            (Some(code), _) => Outcome::Exited(code),
            (None, signal) => Outcome::Signalled(signal.unwrap_or(0)),
        };
        let peak_memory = match self.watch.peak() {
            // The kernel's peak memory of the root process also includes the memory of the starter at the
            // time of the fork. It is not used if it is no larger than the starter's own peak.
            seen if seen > 0 && end.peak_memory <= tree::own_peak() => seen,
            seen => seen.max(end.peak_memory),
        };
        let is_out_of_memory = out_of_memory::explains(&outcome, self.kills_before, end.kills);
        let stopped = self.watch.stopped().or(is_out_of_memory.then_some(Stopped::OutOfMemory));
        let mut ended = Ended {
            outcome,
            stopped,
            run_time: end.at.duration_since(self.start),
            cpu_time: end.cpu_time + self.orphans_cpu_time,
            peak_memory,
            lost_output: self.lost_output,
            last_line: String::new(),
        };
        if !ended.is_success() {
            ended.last_line = last_line(&self.errors);
        }
        Some(ended)
    }
}
