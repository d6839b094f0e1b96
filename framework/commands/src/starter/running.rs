//! One command, from its start until nothing of it is left.

use std::io::{ErrorKind, PipeReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use wait4::Wait4;

use super::spawn::Spawned;
use super::tree;
use super::watch::Watch;
use crate::event::{Ended, Outcome, last_line};
use crate::output::{OutputWriter, Stream};
use crate::request::Request;

/// A command that runs, or of which something still runs.
pub(super) struct Running {
    pub(super) id: u64,
    attempt: u32,
    pub(super) cores: u32,
    child: Child,
    pub(super) pid: Pid,
    /// What the environment of its processes has.
    pub(super) mark: String,
    pub(super) pipes: [Option<PipeReader>; 2],
    pub(super) watch: Watch,
    start: Instant,
    /// How its first process ended; what that has left behind may still run.
    end: Option<End>,
    /// Of processes that it has left behind and that have ended.
    orphans_cpu_time: Duration,
    lost_output: u64,
    /// End of what it wrote to standard error.
    errors: Vec<u8>,
}

/// Bytes of standard error that are kept for messages: some lines.
const ERRORS: usize = 1 << 11;

struct End {
    status: ExitStatus,
    at: Instant,
    cpu_time: Duration,
    peak_memory: u64,
}

const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

impl Running {
    pub(super) fn new(
        request: &Request,
        spawned: Spawned,
        mark: String,
        start: Instant,
        grace: Duration,
    ) -> Self {
        let Spawned { child, pipes } = spawned;
        // The system's numbers of processes are positive.
        let pid = Pid::from_child(&child);
        Running {
            id: request.id,
            attempt: request.attempt,
            cores: request.cores,
            child,
            pid,
            mark,
            pipes,
            watch: Watch::new(start, request.time_limit, request.memory_limit, grace),
            start,
            end: None,
            orphans_cpu_time: Duration::ZERO,
            lost_output: 0,
            errors: Vec::new(),
        }
    }

    /// Whether its first process has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Whether it may still be told to end, or look at: one that has ended by itself is not.
    pub(super) fn is_watched(&self) -> bool {
        !self.has_ended() || self.watch.stopped().is_some()
    }

    /// Takes notice of the end of its first process. What that leaves in its group ends with it, unless all of them have been told
    /// to end and still have the time for it.
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
            // As long as nobody has taken notice of the process, its number is nobody else's.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        let used = self.child.wait4()?;
        let cpu_time = used.rusage.utime + used.rusage.stime;
        self.end = Some(End { status: used.status, at: now, cpu_time, peak_memory: used.rusage.maxrss });
        Ok(())
    }

    /// Looks at the memory of its processes, if that is due, and sends the signal that is due. `orphans` are the roots of what it has
    /// left behind.
    pub(super) fn look(&mut self, orphans: &[Pid], now: Instant) {
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

    /// An orphan of it has ended.
    pub(super) fn add_cpu_time(&mut self, time: Duration) {
        self.orphans_cpu_time += time;
    }

    /// Copies what has come out of it to the output file: from each pipe one piece, so that one that never ends does not keep the
    /// others waiting, or with `all` everything that is there.
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

    /// What came of it; its first process has ended.
    pub(super) fn ended(&self) -> Option<Ended> {
        let end = self.end.as_ref()?;
        let outcome = match (end.status.code(), end.status.signal()) {
            (Some(code), _) => Outcome::Exited(code),
            (None, signal) => Outcome::Signalled(signal.unwrap_or(0)),
        };
        let peak_memory = match self.watch.peak() {
            // The system counts for a process also what the starter held when it started it.
            seen if seen > 0 && end.peak_memory <= tree::own_peak() => seen,
            seen => seen.max(end.peak_memory),
        };
        let mut ended = Ended {
            outcome,
            stopped: self.watch.stopped(),
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
