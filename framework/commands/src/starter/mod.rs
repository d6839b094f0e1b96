//! The starter: a process with one thread that starts commands, supervises them, and reports their results.
//!
//! README.md in this directory describes processes, states and invariants.

mod orphans;
mod out_of_memory;
mod running;
mod spawn;
pub(crate) mod tree;
mod watch;

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getppid, set_child_subreaper, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::connection::Connection;
use crate::error::Result;
use crate::event::{CommandStatus, Ended, Event, Stopped};
use crate::message::{FromStarter, Setup, ToStarter};
use crate::output::OutputWriter;
use crate::poll::{Interest, wait};
use crate::request::Request;
use orphans::Orphans;
use running::Running;

/// Maximum number of bytes per read from a command's pipe: the capacity of a pipe.
const PIECE: usize = 1 << 16;

/// Maximum time for which a process that SIGKILL does not end, such as a process that waits for a dead file server,
/// delays the end of its command.
const UNKILLABLE: Duration = Duration::from_secs(10);

/// Runs commands until the caller has ended and all processes of commands have ended. Returns the exit code.
pub(crate) fn run(guard: Pid) -> i32 {
    match Starter::new(guard).and_then(|mut starter| starter.serve()) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("armature: the starter of commands: {error}");
            1
        }
    }
}

struct Starter {
    guard: Pid,
    connection: Connection<ToStarter>,
    /// Socket that becomes readable when a child process of the starter has ended or a signal has arrived.
    signals: UnixStream,
    setup: Setup,
    output: Option<OutputWriter>,
    queue: VecDeque<Request>,
    running: Vec<Running>,
    orphans: Orphans,
    started: u64,
    buffer: Vec<u8>,
    /// True if the caller or the guard (the process between the caller and the starter) has ended. The starter then
    /// stops all commands and exits.
    closing: bool,
}

type Outcomes<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

impl Starter {
    fn new(guard: Pid) -> Outcomes<Self> {
        let (signals, sender) = UnixStream::pair()?;
        signals.set_nonblocking(true)?;
        for signal in [SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2] {
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        set_child_subreaper(Some(rustix::process::getpid()))?;
        // The kernel sends the starter SIGTERM when its parent process, the guard, dies. The starter detects the
        // death by its changed parent process id.
        set_parent_process_death_signal(Some(Signal::TERM))?;
        free_of_cores();
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Starter {
            guard,
            connection: Connection::new(socket)?,
            signals,
            setup: Setup { output: None, cores: 1, grace: Duration::ZERO },
            output: None,
            queue: VecDeque::new(),
            running: Vec::new(),
            orphans: Orphans::default(),
            started: 0,
            buffer: vec![0; PIECE],
            closing: false,
        })
    }

    fn serve(&mut self) -> Outcomes {
        while !(self.closing && self.running.is_empty() && self.orphans.is_empty()) {
            self.wait()?;
            let now = Instant::now();
            if !self.closing {
                for message in self.connection.receive()? {
                    self.handle(message, now)?;
                }
                if self.connection.is_closed() || getppid() != Some(self.guard) {
                    self.close(now);
                }
            }
            self.poll_commands(now)?;
            self.start()?;
            // If the caller has closed the connection, events for the caller are discarded, and the starter continues.
            self.connection.flush()?;
        }
        Ok(())
    }

    fn wait(&mut self) -> Outcomes {
        let poll_times =
            self.running.iter().filter(|command| command.is_watched()).map(|command| command.watch.next());
        let next = poll_times.chain(self.orphans.next()).min();
        let limit = next.map(|next| next.saturating_duration_since(Instant::now()));
        let interest = match self.connection.is_pending() {
            true => Interest::ReadAndWrite,
            false => Interest::Read,
        };
        let mut fds = vec![(self.signals.as_fd(), Interest::Read)];
        // While the starter closes, it does not wait for the socket: a closed socket is always readable and would end every wait at once.
        if !self.closing {
            fds.push((self.connection.as_fd(), interest));
        }
        let others = fds.len();
        let pipes = |command: &Running| command.pipes.iter().flatten().count();
        for command in &self.running {
            fds.extend(command.pipes.iter().flatten().map(|pipe| (pipe.as_fd(), Interest::Read)));
        }
        let ready = wait(&fds, limit)?;
        if ready[0] {
            // Signal handlers write bytes to this socket to wake the starter. The bytes do not identify signals, so
            // they are discarded, and the starter checks its children.
            while matches!((&self.signals).read(&mut self.buffer), Ok(count) if count == self.buffer.len()) {}
        }
        let mut ready = &ready[others..];
        for command in &mut self.running {
            let (own, rest) = ready.split_at(pipes(command));
            if own.contains(&true) {
                command.copy_output(&mut self.output, &mut self.buffer, false);
            }
            ready = rest;
        }
        Ok(())
    }

    fn handle(&mut self, message: ToStarter, now: Instant) -> Result<()> {
        match message {
            ToStarter::Setup(setup) => {
                let opened = setup.output.as_deref().map(OutputWriter::open).transpose();
                self.setup = setup;
                let refusal = match opened {
                    Ok(output) => {
                        self.output = output;
                        None
                    }
                    Err(error) => Some(error.to_string()),
                };
                self.connection.queue(&FromStarter::Ready(refusal))?;
                // The reply to the caller's settings is sent before any command starts, so that the caller receives
                // it even if the starter dies soon.
                self.connection.flush()
            }
            ToStarter::Run(request) => {
                self.queue.push_back(*request);
                Ok(())
            }
            ToStarter::Cancel(id) => {
                if let Some(at) = self.queue.iter().position(|request| request.id == id) {
                    self.queue.remove(at);
                    let why = "it was cancelled before it started".to_string();
                    let ended = Ended {
                        stopped: Some(Stopped::Cancelled),
                        ..Ended::new(CommandStatus::NotStarted(why))
                    };
                    return self.send_event(Event::Ended { id, ended });
                }
                if let Some(command) = self.running.iter_mut().find(|command| command.id == id) {
                    command.watch.stop(Stopped::Cancelled, now);
                }
                Ok(())
            }
        }
    }

    fn close(&mut self, now: Instant) {
        self.closing = true;
        self.queue.clear();
        for command in &mut self.running {
            command.watch.stop(Stopped::Cancelled, now);
        }
    }

    fn poll_commands(&mut self, now: Instant) -> Outcomes {
        for command in &mut self.running {
            command.notice_end(now)?;
        }
        // Orphaned processes must be assigned to their commands before a command counts as finished, is measured or
        // is stopped.
        let is_moment = |command: &Running| command.has_ended() || now >= command.watch.next();
        if self.running.iter().any(is_moment) || self.orphans.is_due(now) || self.closing {
            self.orphans.poll(&mut self.running, self.closing, now);
        }
        let running = self.running.len() as u32;
        for command in &mut self.running {
            command.poll(&self.orphans.of(&command.job_mark), running, now);
        }
        let mut at = 0;
        while at < self.running.len() {
            let command = &mut self.running[at];
            let has_finished = command.has_ended()
                && (!self.orphans.any_of(&command.job_mark)
                    || self.orphans.has_waited(&command.job_mark, now, UNKILLABLE));
            if !has_finished {
                at += 1;
                continue;
            }
            command.copy_output(&mut self.output, &mut self.buffer, true);
            let mut command = self.running.swap_remove(at);
            self.orphans.forget(&command.job_mark);
            if let Some(ended) = command.ended() {
                command.pipes = [None, None];
                self.send_event(Event::Ended { id: command.id, ended })?;
            }
        }
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        while let Some(request) = self.queue.front() {
            let used: u64 = self.running.iter().map(|command| u64::from(command.cores)).sum();
            if !self.running.is_empty() && used + u64::from(request.cores) > u64::from(self.setup.cores) {
                break;
            }
            let Some(request) = self.queue.pop_front() else { break };
            self.started += 1;
            let job_mark = format!("{}.{}", self.guard.as_raw_nonzero(), self.started);
            let start = Instant::now();
            let event = match spawn::spawn(&request, &job_mark, self.output.is_some()) {
                Ok(spawned) => {
                    let command = Running::new(&request, spawned, job_mark, start, self.setup.grace);
                    let process = command.pid.as_raw_nonzero().get().unsigned_abs();
                    self.running.push(command);
                    Event::Started { id: request.id, process }
                }
                Err(why) => {
                    Event::Ended { id: request.id, ended: Ended::new(CommandStatus::NotStarted(why)) }
                }
            };
            self.send_event(event)?;
        }
        Ok(())
    }

    /// While the starter closes, it sends no events; the caller detects the end of the starter by the closed
    /// connection.
    fn send_event(&mut self, event: Event) -> Result<()> {
        if self.closing {
            return Ok(());
        }
        self.connection.queue(&FromStarter::Event(event))
    }
}

/// Removes the CPU binding that a launcher has set for the caller, because commands are not to be bound.
fn free_of_cores() {
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|core| all.set(core));
    // The kernel removes CPUs from the set that this process may not use. If the call fails, commands keep the
    // caller's binding.
    let _ = sched_setaffinity(None, &all);
}
