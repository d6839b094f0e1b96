//! State of a command from its start until all its processes have ended.

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
use crate::event::{CommandStatus, Ended, Stopped, last_line};
use crate::output::{OutputWriter, StandardStream};
use crate::request::Request;

/// A command whose root process or other processes still run.
pub(super) struct Running {
    pub(super) id: u64,
    attempt: u32,
    pub(super) cores: u32,
    child: Child,
    pub(super) pid: Pid,
    /// Value of the environment variable [`JOB_MARK`](super::spawn::JOB_MARK), which identifies the processes of the
    /// command.
    pub(super) job_mark: String,
    pub(super) pipes: [Option<PipeReader>; 2],
    pub(super) watch: Watch,
    start: Instant,
    /// Exit status and resource usage of the root process, once it has ended; other processes of the command may
    /// still run.
    end: Option<End>,
    kills_before: Option<u64>,
    orphans_cpu_time: Duration,
    lost_output: u64,
    /// Last bytes that the command wrote to standard error, for the message about its failure.
    errors: Vec<u8>,
}

/// Maximum number of bytes of a command's standard error that are kept for an error message.
const ERRORS: usize = 1 << 11;

struct End {
    status: ExitStatus,
    at: Instant,
    cpu_time: Duration,
    peak_memory: u64,
    /// Kernel's count of processes killed for lack of memory, at the end of the command; `None` for a successful
    /// command.
    kills: Option<u64>,
}

const STREAMS: [StandardStream; 2] = [StandardStream::Stdout, StandardStream::Stderr];

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

    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    pub(super) fn is_watched(&self) -> bool {
        !self.has_ended() || self.watch.stopped().is_some()
    }

    /// Checks whether the root process has ended. If so, kills the other processes of its process group, unless the
    /// command was stopped and its grace period has not passed.
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
            // The group is killed before the root process is reaped, because until then the root's process id, which
            // is also the id of the group, is not reused.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        let used = self.child.wait4()?;
        let cpu_time = used.rusage.utime + used.rusage.stime;
        // The kernel's count of processes killed for lack of memory serves to explain failures only.
        let kills = if used.status.success() { None } else { out_of_memory::kills() };
        let peak_memory = used.rusage.maxrss;
        self.end = Some(End { status: used.status, at: now, cpu_time, peak_memory, kills });
        Ok(())
    }

    /// Measures the memory of the command's processes when a measurement is due, and signals them when the command is
    /// to be stopped. `orphans` are processes of the command whose parents have ended; their descendants also belong
    /// to the command. `running` is the number of running commands.
    pub(super) fn poll(&mut self, orphans: &[Pid], running: u32, now: Instant) {
        if !self.is_watched() || now < self.watch.next() && self.watch.stopped().is_none() {
            return;
        }
        let begin = Instant::now();
        let mut tree = if self.has_ended() { Vec::new() } else { tree::with_descendants(self.pid) };
        tree.extend(orphans.iter().flat_map(|&orphan| tree::with_descendants(orphan)));
        if self.watch.wants_memory(now) {
            let memory = tree::memory(&tree);
            self.watch.holds(memory, now, begin.elapsed() * running);
        }
        if let Some(signal) = self.watch.due(now) {
            if !self.has_ended() {
                let _ = kill_process_group(self.pid, signal);
            }
            tree::signal(&tree, signal);
        }
    }

    pub(super) fn add_cpu_time(&mut self, time: Duration) {
        self.orphans_cpu_time += time;
    }

    /// Copies output of the command from its pipes to the output file. If `all` is false, reads each pipe only once,
    /// so that a command with endless output does not block the other commands.
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
                        if stream == StandardStream::Stderr {
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

    pub(super) fn ended(&self) -> Option<Ended> {
        let end = self.end.as_ref()?;
        let outcome = match (end.status.code(), end.status.signal()) {
            (Some(code), _) => CommandStatus::Exited(code),
            (None, signal) => CommandStatus::Signalled(signal.unwrap_or(0)),
        };
        let peak_memory = match self.watch.peak() {
            // The kernel's value for the root process includes the memory of the starter at the time of the fork. A
            // value that is not above the starter's own peak is therefore replaced by the measured value.
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
