//! Runs a launcher line: hostfile in a temporary file, signals handed on, a time limit, the exit code passed through.

use std::ffi::OsStr;
use std::io::{IsTerminal, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use tempfile::NamedTempFile;

use crate::command_line::CommandLine;
use crate::environment::slurm::Overrides;
use crate::error::LaunchError;
use crate::say::say;
use crate::stage;
use crate::supervise::{adopt_orphans, clear};

/// What a job that ran into its time limit exits with, as coreutils' `timeout` does.
pub const TIMED_OUT: u8 = 124;

/// How long a launcher may take to end its ranks after it has been told to.
const GRACE: Duration = Duration::from_secs(10);

/// When MPICH's launcher, whose input is empty, comes to its end. It hands that on to the ranks, and dies of SIGPIPE in one of ten
/// jobs that end just then. With an input that has ended before, these are jobs whose ranks only print something.
const END_OF_INPUT: Duration = Duration::from_secs(1);

/// How often we look whether the launcher has ended or a signal has come.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// A launcher line that is ready to be run, once or several times.
///
/// The launcher reads nothing, unless [`reads_stdin`](Call::reads_stdin) says so: it would take what is meant for others,
/// such as the loop of a shell script in which it is started.
///
/// Signals that a batch system sends (SIGTERM, SIGUSR1 and the like) go on to the launcher, which hands them to the
/// ranks. Ctrl-C does not need to: the terminal sends it to the launcher too.
#[derive(Debug)]
pub struct Call {
    line: CommandLine,
    /// Variables of the batch job that are stale.
    overrides: Overrides,
    hostfile: Option<NamedTempFile>,
    signals: Signals,
    from_terminal: bool,
    reads_stdin: bool,
    stage: Option<PathBuf>,
}

impl Call {
    /// Writes the line's hostfile and listens for signals from now on.
    ///
    /// # Errors
    /// When the hostfile cannot be written.
    pub fn new(line: CommandLine) -> Result<Self, LaunchError> {
        let hostfile = match &line.hostfile {
            None => None,
            Some(text) => {
                let named = tempfile::Builder::new().prefix("armature-hosts-").tempfile();
                let mut file = named.map_err(LaunchError::io("make a temporary file for the hosts"))?;
                // Not by its name, which may lead elsewhere by now.
                let written = file.write_all(text.as_bytes());
                written.map_err(LaunchError::io("write the temporary hostfile"))?;
                Some(file)
            }
        };
        // Before the start, so that no signal is lost between the two.
        let signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2])
            .map_err(LaunchError::io("listen for signals"))?;
        let from_terminal = std::io::stdin().is_terminal() || std::io::stderr().is_terminal();
        let (overrides, stage) = (Overrides::new(), None);
        Ok(Call { line, overrides, hostfile, signals, from_terminal, reads_stdin: false, stage })
    }

    /// The launcher gets this process's standard input, and with it rank 0.
    pub fn reads_stdin(self, yes: bool) -> Self {
        Call { reads_stdin: yes, ..self }
    }

    /// The launcher ends when this process does, even if that is killed. `program` is this program's own file, whose `main` is
    /// [`cli::main`](crate::cli::main): the launcher is started by way of it.
    pub fn bound_to_this_process(self, program: PathBuf) -> Self {
        Call { stage: Some(program), ..self }
    }

    /// Starts another line from now on, with some variables of the batch job replaced. It has no hostfile.
    pub(crate) fn replace(&mut self, line: CommandLine, overrides: Overrides) {
        (self.line, self.overrides) = (line, overrides);
    }

    /// Starts the launcher with these variables set, and those of the line.
    pub(crate) fn start(&self, variables: &[(&str, &OsStr)]) -> Result<Child, LaunchError> {
        let hosts = self.hostfile.as_ref().map_or(Path::new(""), |file| file.path());
        let launcher = &self.line.program;
        let command = self.stage.as_ref().map(|stage| stage::command(stage, launcher));
        let stdin = match (self.reads_stdin, self.line.minds_end_of_input) {
            (true, _) => Stdio::inherit(),
            (false, true) => Stdio::piped(),
            (false, false) => Stdio::null(),
        };
        let mut command = command.unwrap_or_else(|| Command::new(launcher));
        for (name, value) in &self.overrides {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command
            .stdin(stdin)
            .args(self.line.args(hosts))
            .envs(self.line.variables.iter().copied())
            .envs(variables.iter().copied())
            .spawn()
            .map_err(LaunchError::io(format!("start {}", launcher.display())))?;
        if let Some(nothing) = child.stdin.take() {
            std::thread::spawn(move || {
                std::thread::sleep(END_OF_INPUT);
                drop(nothing);
            });
        }
        Ok(child)
    }

    /// The signals that have come since the last call.
    pub(crate) fn signals(&mut self) -> Vec<i32> {
        self.signals.pending().collect()
    }

    /// Hands a signal on to the launcher, unless the terminal has sent it there already.
    pub(crate) fn hand_on(&self, child: &Child, signal: i32) {
        if !(self.from_terminal && matches!(signal, SIGINT | SIGQUIT)) {
            send(child, signal);
        }
    }

    /// Runs the line and waits for it. Returns the exit code for this process: the launcher's own, 128 + N if signal N
    /// ended it, [`TIMED_OUT`] if `limit` did. If a signal has ended the launcher, the processes that it has started are waited for, and
    /// ended if that takes too long.
    ///
    /// # Errors
    /// When the launcher cannot be started.
    pub fn run(&mut self, limit: Option<Duration>) -> Result<u8, LaunchError> {
        adopt_orphans()?;
        let mut child = self.start(&[])?;
        let doing = format!("wait for {}", self.line.program.display());
        self.wait(&mut child, limit).map_err(LaunchError::io(doing))
    }

    fn wait(&mut self, child: &mut Child, limit: Option<Duration>) -> std::io::Result<u8> {
        let start = Instant::now();
        let mut told_to_end = false;
        loop {
            if let Some(status) = child.try_wait()? {
                if let Some(signal) = status.signal() {
                    let left = clear(child);
                    say(format_args!("the launcher was ended by signal {signal}; {left}"));
                }
                return Ok(if told_to_end { TIMED_OUT } else { code(status) });
            }
            for signal in self.signals() {
                self.hand_on(child, signal);
            }
            if let Some(limit) = limit {
                if !told_to_end && start.elapsed() >= limit {
                    say(format_args!(
                        "the job has not ended within {} s and is being ended",
                        limit.as_secs_f64()
                    ));
                    send(child, SIGTERM);
                    told_to_end = true;
                }
                if told_to_end && start.elapsed() >= limit + GRACE {
                    child.kill()?;
                }
            }
            std::thread::sleep(TICK);
        }
    }
}

/// Sends a signal to the launcher. That it may have ended meanwhile is no error.
pub(crate) fn send(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        let _ = kill_process(pid, signal);
    }
}

/// The exit code that stands for a status, as a shell has it.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(u8::MAX)
}
