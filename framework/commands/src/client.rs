//! Caller's side of a starter, the separate process that runs commands for the caller.

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

/// Default time between SIGTERM and SIGKILL for a command that is stopped. A batch system gives a job about 30 s to end, most of which its ranks
/// need; a program needs about a second to clean up.
const GRACE: Duration = Duration::from_secs(2);

/// Time that the caller waits for the starter (the process that runs its commands) to exit, in addition to the grace
/// period of the commands. Killing processes takes milliseconds; writing many core files takes seconds.
const END: Duration = Duration::from_secs(5);

/// Connection to a starter, a process that runs commands for its caller.
///
/// The starter is started before the caller joins anything that must not be inherited, such as an MPI job. When the
/// starter ends, all its commands are ended. The starter ends when the caller ends, for whatever reason.
#[derive(Debug)]
pub struct Starter {
    connection: Connection<FromStarter>,
    guard: Child,
    options: Options,
    is_ready: bool,
}

/// Options of a starter, the process that runs commands for its caller.
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
    /// Returns the default options: one core, no output file, and 2 s between SIGTERM and SIGKILL.
    pub fn new() -> Self {
        Options::default()
    }

    /// Sets the output file of all commands, which an [`OutputLog`](crate::OutputLog) reads. Output of earlier runs
    /// in the file is kept. Without an output file, output of the commands is discarded.
    pub fn output(mut self, file: impl Into<PathBuf>) -> Self {
        self.output = Some(file.into());
        self
    }

    /// Sets the number of cores that commands may occupy at the same time, at least 1.
    pub fn cores(mut self, cores: u32) -> Self {
        self.cores = cores.max(1);
        self
    }

    fn setup(&self) -> Setup {
        Setup { output: self.output.clone(), cores: self.cores, grace: self.grace }
    }

    /// Sets the time between SIGTERM and SIGKILL for the processes of a stopped command.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

impl Starter {
    /// Starts another process of this program, which becomes a starter when it calls [`enter`](crate::enter). Does
    /// not wait until the starter is ready.
    ///
    /// # Errors
    /// [`ErrorKind::Start`] if this program has not called [`enter`](crate::enter), or cannot be started.
    pub fn spawn(options: &Options) -> Result<Self> {
        if !enter::has_been_called() {
            let message = "commands need a starter, but this program has not called armature_commands::enter, which \
                           must be the first call of the program";
            return Err(Error::new(ErrorKind::Start, message));
        }
        let mut arguments = std::env::args_os();
        let name = arguments.next().unwrap_or_default();
        Self::start(THIS_PROGRAM.as_ref(), &name, arguments, options)
    }

    /// Starts another program as a starter. The program must call [`enter`](crate::enter) first.
    ///
    /// # Errors
    /// [`ErrorKind::Start`] if the program cannot be started. If it does not become a starter, [`events`](Starter::events) reports the
    /// error.
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
        let (ours, theirs) = UnixStream::pair().map_err(start("create a socket"))?;
        let mut command = Command::new(program);
        // The starter (the process that runs the commands) is in its own process group. A signal that a launcher or a
        // terminal sends to the caller's group then does not end the starter, which needs time to end its commands.
        command.arg0(name).args(arguments).process_group(0);
        for (variable, _) in std::env::vars_os() {
            if variable.to_str().is_some_and(is_removed) {
                command.env_remove(variable);
            }
        }
        command.env(VARIABLE, GUARD).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        let guard = command.spawn().map_err(start("start this program again"))?;
        let mut connection = Connection::new(ours).map_err(start("set up a socket"))?;
        let setup = options.setup();
        connection.queue(&ToStarter::Setup(setup))?;
        let mut starter = Starter { connection, guard, options: options.clone(), is_ready: false };
        starter.flush()?;
        Ok(starter)
    }

    /// Sets the output file of the commands that are started from now on. A rank knows its number, and therefore the
    /// name of its file, only after the MPI job has begun. If the file cannot be written, [`events`](Starter::events)
    /// reports the error.
    ///
    /// # Errors
    /// [`ErrorKind::Dead`] if the starter has died.
    pub fn output(&mut self, file: impl Into<PathBuf>) -> Result<()> {
        self.options.output = Some(file.into());
        self.connection.queue(&ToStarter::Setup(self.options.setup()))?;
        self.flush()
    }

    /// Requests the run of a command. The command starts after those requested earlier, as soon as enough cores are
    /// free.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] for a request of more than 256 MiB, [`ErrorKind::Dead`] if the starter has died.
    pub fn run(&mut self, request: Request) -> Result<()> {
        self.connection.queue(&ToStarter::Run(Box::new(request)))?;
        self.flush()
    }

    /// Cancels a running or queued command. [`Event::Ended`] is reported for it as for other commands.
    ///
    /// # Errors
    /// [`ErrorKind::Dead`] if the starter has died.
    pub fn cancel(&mut self, id: u64) -> Result<()> {
        self.connection.queue(&ToStarter::Cancel(id))?;
        self.flush()
    }

    /// Returns the events of the commands since the last call. If there are none, waits at most `patience` for one.
    ///
    /// # Errors
    /// [`ErrorKind::Dead`] if the starter has died, [`ErrorKind::Start`] if it cannot apply its [`Options`].
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

    /// Ends all commands and the starter, and waits until they have ended.
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
            None => {
                Err(Error::new(ErrorKind::Dead, "the starter of commands did not end its commands in time"))
            }
        }
    }

    /// Waits at most `limit` for the end of the guard (the process between the caller and the starter). Returns the
    /// exit status of the guard as text, or `None` if it still runs.
    fn exit_within(&mut self, limit: Duration) -> Option<String> {
        /// Time between two checks whether the guard (the process between caller and starter) has ended, which
        /// usually happens within some milliseconds.
        const POLL_PERIOD: Duration = Duration::from_millis(1);
        let start = Instant::now();
        loop {
            match self.guard.try_wait() {
                Ok(Some(status)) => return Some(status.to_string()),
                Err(error) => return Some(error.to_string()),
                Ok(None) if start.elapsed() >= limit => return None,
                Ok(None) => std::thread::sleep(POLL_PERIOD),
            }
        }
    }

    fn death(&mut self) -> Error {
        let exit = self.exit_within(END).unwrap_or_else(|| "its guard is still running".into());
        let message = match self.is_ready {
            true => format!("the starter of commands has died ({exit}), and its commands have been killed"),
            false => format!(
                "the starter of commands has ended before it was ready ({exit}): does the program call \
                 armature_commands::enter first?"
            ),
        };
        Error::new(ErrorKind::Dead, message)
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        // If the starter does not end in time, it ends its commands and itself later, without the caller.
        let _ = self.end();
    }
}

/// Descriptor of the socket to the starter, which becomes readable when events are available. A caller that also
/// waits for other descriptors can poll it.
impl AsFd for Starter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}
