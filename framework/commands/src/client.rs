//! The caller's side: a starter that has been started, and what is asked of it.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::enter;
use crate::environment::is_removed;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::message::{FromStarter, Setup, ToStarter};
use crate::poll::{Interest, wait};
use crate::request::Request;
use crate::role::{GUARD, THIS_PROGRAM, VARIABLE};

/// How long commands have between SIGTERM and SIGKILL unless the caller says otherwise. Batch systems give 30 s for a whole job,
/// of which the rest of it needs most; a program that tidies up needs a second.
const GRACE: Duration = Duration::from_secs(2);

/// How long a starter that was told to end may take beyond the grace of its commands, before it is left to itself. Killing
/// processes takes milliseconds, writing the cores of many of them seconds.
const END: Duration = Duration::from_secs(5);

/// A process that runs commands.
///
/// It is started before the caller becomes part of anything that it should not be copied into, such as an MPI job; whatever it
/// starts is ended with it, and it ends when the caller does, however that dies.
#[derive(Debug)]
pub struct Starter {
    connection: Connection<FromStarter>,
    guard: Child,
    options: Options,
    is_ready: bool,
}

/// How a starter is to run commands.
#[derive(Clone, Debug)]
pub struct Options {
    output: Option<PathBuf>,
    cores: u32,
    grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options { output: None, cores: 1, grace: GRACE }
    }
}

impl Options {
    /// One core, no output file, and 2 s between SIGTERM and SIGKILL.
    pub fn new() -> Self {
        Options::default()
    }

    /// Where the output of all commands goes: a file that an [`OutputLog`](crate::OutputLog) reads. What another run has left in
    /// it stays. Without it output is dropped.
    pub fn output(mut self, file: impl Into<PathBuf>) -> Self {
        self.output = Some(file.into());
        self
    }

    /// How many cores commands may occupy at once, at least 1.
    pub fn cores(mut self, cores: u32) -> Self {
        self.cores = cores.max(1);
        self
    }

    fn setup(&self) -> Setup {
        Setup { output: self.output.clone(), cores: self.cores, grace: self.grace }
    }

    /// How long a command's processes have between SIGTERM and SIGKILL when they are to end.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

impl Starter {
    /// Starts this program once more, as a starter; it does not wait for it.
    ///
    /// # Errors
    /// [`ErrorKind::Start`] if this program has not called [`enter`](crate::enter), or cannot be started.
    pub fn spawn(options: &Options) -> Result<Self> {
        if !enter::has_been_called() {
            let message = "commands need a starter, but this program has not called armature_commands::enter, as programs \
                           have to before anything else";
            return Err(Error::new(ErrorKind::Start, message));
        }
        let mut arguments = std::env::args_os();
        let name = arguments.next().unwrap_or_default();
        Self::start(THIS_PROGRAM.as_ref(), &name, arguments, options)
    }

    /// Starts another program as a starter, one that calls [`enter`](crate::enter) first.
    ///
    /// # Errors
    /// [`ErrorKind::Start`] if it cannot be started. That it is no such program is noticed by [`events`](Starter::events).
    pub fn spawn_program(program: &Path, options: &Options) -> Result<Self> {
        Self::start(program, program.as_os_str(), [], options)
    }

    fn start(
        program: &Path,
        name: &OsStr,
        arguments: impl IntoIterator<Item = OsString>,
        options: &Options,
    ) -> Result<Self> {
        let start = |doing: &str| Error::io(ErrorKind::Start, format!("{doing} for a starter of commands"));
        let (ours, theirs) = UnixStream::pair().map_err(start("make a socket"))?;
        let mut command = Command::new(program);
        // A group of its own, so that what a launcher or a terminal does to ours leaves it the time to end its commands.
        command.arg0(name).args(arguments).process_group(0);
        for (variable, _) in std::env::vars_os() {
            if variable.to_str().is_some_and(is_removed) {
                command.env_remove(variable);
            }
        }
        command.env(VARIABLE, GUARD).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        let guard = command.spawn().map_err(start("start this program once more"))?;
        let mut connection = Connection::new(ours).map_err(start("set up a socket"))?;
        let setup = options.setup();
        connection.queue(&ToStarter::Setup(setup))?;
        let mut starter = Starter { connection, guard, options: options.clone(), is_ready: false };
        starter.flush()?;
        Ok(starter)
    }

    /// Says where the output of commands goes that are run from now on: a rank knows its number, and so the name of its file, only when
    /// the job has begun. That the file cannot be written to is noticed by [`events`](Starter::events).
    ///
    /// # Errors
    /// [`ErrorKind::Dead`] if the starter has died.
    pub fn output(&mut self, file: impl Into<PathBuf>) -> Result<()> {
        self.options.output = Some(file.into());
        self.connection.queue(&ToStarter::Setup(self.options.setup()))?;
        self.flush()
    }

    /// Asks for a command. It starts when the cores that it needs are free of those that were asked for before.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] for a request of more than 256 MiB, [`ErrorKind::Dead`] if the starter has died.
    pub fn run(&mut self, request: Request) -> Result<()> {
        self.connection.queue(&ToStarter::Run(Box::new(request)))?;
        self.flush()
    }

    /// Ends a command that runs, or that waits to. Its [`Event::Ended`] comes as always.
    ///
    /// # Errors
    /// [`ErrorKind::Dead`] if the starter has died.
    pub fn cancel(&mut self, id: u64) -> Result<()> {
        self.connection.queue(&ToStarter::Cancel(id))?;
        self.flush()
    }

    /// What has happened since the last call; waits for something so long at most.
    ///
    /// # Errors
    /// [`ErrorKind::Dead`] if the starter has died, [`ErrorKind::Start`] if it cannot do what its [`Options`] say.
    pub fn events(&mut self, patience: Duration) -> Result<Vec<Event>> {
        let deadline = Instant::now() + patience;
        loop {
            self.flush()?;
            let mut events = Vec::new();
            for message in self.connection.receive()? {
                match message {
                    FromStarter::Ready(None) => self.is_ready = true,
                    FromStarter::Ready(Some(refusal)) => return Err(Error::new(ErrorKind::Start, refusal)),
                    FromStarter::Event(event) => events.push(event),
                }
            }
            if !events.is_empty() {
                return Ok(events);
            }
            if self.connection.is_closed() {
                return Err(self.death());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(events);
            }
            let interest = match self.connection.is_pending() {
                true => Interest::ReadAndWrite,
                false => Interest::Read,
            };
            wait(&[(self.connection.as_fd(), interest)], Some(left))
                .map_err(Error::io(ErrorKind::Dead, "wait for the starter of commands"))?;
        }
    }

    /// Ends what still runs, and waits for that.
    ///
    /// # Errors
    /// [`ErrorKind::Dead`] if the starter does not end in time.
    pub fn close(mut self) -> Result<()> {
        self.end()
    }

    fn flush(&mut self) -> Result<()> {
        self.connection.flush()
    }

    fn end(&mut self) -> Result<()> {
        self.connection.close();
        match self.exit_within(self.options.grace.saturating_add(END)) {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::Dead, "the starter of commands does not end its commands")),
        }
    }

    /// How the guard ended, if it does so in time.
    fn exit_within(&mut self, limit: Duration) -> Option<String> {
        /// How often it is looked at: ending takes some milliseconds, and happens once.
        const LOOK: Duration = Duration::from_millis(1);
        let start = Instant::now();
        loop {
            match self.guard.try_wait() {
                Ok(Some(status)) => return Some(status.to_string()),
                Err(error) => return Some(error.to_string()),
                Ok(None) if start.elapsed() >= limit => return None,
                Ok(None) => std::thread::sleep(LOOK),
            }
        }
    }

    fn death(&mut self) -> Error {
        let how = self.exit_within(END).unwrap_or_else(|| "its guard still runs".into());
        let message = match self.is_ready {
            true => format!("the starter of commands has died ({how}), and with it what it had started"),
            false => format!(
                "the starter of commands has ended before it was ready ({how}): does the program call \
                 armature_commands::enter first?"
            ),
        };
        Error::new(ErrorKind::Dead, message)
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        // It ends by itself if it takes longer.
        let _ = self.end();
    }
}

/// What becomes readable when there are events, for callers that wait for other things as well.
impl AsFd for Starter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}
