//! Runs a launcher command: writes the hostfile, forwards signals, enforces the time limit and returns the exit code.

use std::ffi::OsStr;
use std::fs::File;
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
use crate::intermediate;
use crate::message::print_message;
use crate::platform;
use crate::run_directory::end_reason::Evidence;
use crate::run_directory::recorder::Recorder;
use crate::supervise::{adopt_orphans, clear};

/// Exit code of a job that exceeded its time limit; coreutils' `timeout` uses the same.
pub const TIMED_OUT: u8 = 124;

/// Time between SIGTERM and SIGKILL for a launcher that is to end.
const GRACE: Duration = Duration::from_secs(10);

/// Time that ranks have after SIGTERM to stop at a checkpoint, before SIGTERM is forwarded to the launcher. With their default settings, batch
/// systems kill the job within this time.
pub(crate) const GRACE_OF_RANKS: Duration = Duration::from_secs(30);

/// Time in which several signals count as one request to stop, because a batch system signals several processes of a job.
const SAME_REQUEST: Duration = Duration::from_secs(1);

pub(crate) const TICK: Duration = Duration::from_millis(20);

/// Command of a launcher that can be run once or several times.
///
/// The launcher has no input, unless [`reads_stdin`](Call::reads_stdin) is set. Otherwise it would consume the input of others, such as the
/// loop of a shell script in which it is started.
///
/// Signals of a batch system (SIGTERM, SIGUSR1 and others) are forwarded to the launcher, which forwards them to the ranks. Ctrl-C is not
/// forwarded, because the terminal sends it to the launcher as well.
#[derive(Debug)]
pub struct Call {
    line: CommandLine,
    /// New values of the batch job's environment variables, after it has lost nodes.
    overrides: Overrides,
    /// Speeds, memory and bandwidths of the hosts, which the ranks get in an environment variable.
    platform: Option<String>,
    hostfile: Option<NamedTempFile>,
    signals: Signals,
    from_terminal: bool,
    reads_stdin: bool,
    intermediate: Option<PathBuf>,
    /// Time at which the ranks were asked to stop at a checkpoint because of SIGTERM.
    stop_asked: Option<Instant>,
    recorder: Option<Recorder>,
}

impl Call {
    /// Writes the hostfile for the command, and catches the signals to this process from now on.
    ///
    /// # Errors
    /// If the hostfile cannot be written or signals cannot be caught.
    pub fn new(line: CommandLine) -> Result<Self, LaunchError> {
        let hostfile = match &line.hostfile {
            None => None,
            Some(text) => {
                let named = tempfile::Builder::new().prefix("armature-hosts-").tempfile();
                let mut file = named.map_err(LaunchError::io("make a temporary file for the hosts"))?;
                // The text is written through the open file, because the path of the file may lead to another file by now.
                let written = file.write_all(text.as_bytes());
                written.map_err(LaunchError::io("write the temporary hostfile"))?;
                Some(file)
            }
        };
        // Signals are caught before the launcher starts, so that none is lost.
        let signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2])
            .map_err(LaunchError::io("listen for signals"))?;
        let from_terminal = std::io::stdin().is_terminal() || std::io::stderr().is_terminal();
        let (overrides, intermediate) = (Overrides::new(), None);
        let (reads_stdin, stop_asked, recorder) = (false, None, None);
        Ok(Call {
            line,
            overrides,
            platform: None,
            hostfile,
            signals,
            from_terminal,
            reads_stdin,
            intermediate,
            stop_asked,
            recorder,
        })
    }

    /// Sets whether the launcher, and with it rank 0, inherits this process's standard input.
    pub fn reads_stdin(self, yes: bool) -> Self {
        Call { reads_stdin: yes, ..self }
    }

    /// Makes the launcher end when this process ends, even by SIGKILL. The launcher is started through `program`, which is
    /// the file of this program; its `main` must call [`cli::main`](crate::cli::main).
    pub fn bound_to_this_process(self, program: PathBuf) -> Self {
        Call { intermediate: Some(program), ..self }
    }

    pub(crate) fn on_platform(self, platform: Option<String>) -> Self {
        Call { platform, ..self }
    }

    /// From now on, records the events and the output of the launcher in a run directory.
    pub(crate) fn recorded_by(self, recorder: Option<Recorder>) -> Self {
        Call { recorder, ..self }
    }

    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    pub(crate) fn finish_log(&mut self) {
        self.recorder.iter_mut().for_each(Recorder::finish_log);
    }

    /// Records how this start of the launcher has ended, and returns the exit code of the job.
    pub(crate) fn record_end(&mut self, seen: Evidence) -> u8 {
        match &mut self.recorder {
            Some(recorder) => recorder.end(seen),
            None => seen.code,
        }
    }

    /// Sets the command and the batch job's environment variables for the next starts, after nodes were lost. No hostfile is written for the new
    /// command.
    pub(crate) fn replace(&mut self, line: CommandLine, overrides: Overrides) {
        (self.line, self.overrides) = (line, overrides);
    }

    pub(crate) fn start(&mut self, variables: &[(&str, &OsStr)]) -> Result<Child, LaunchError> {
        let hosts = self.hostfile.as_ref().map_or(Path::new(""), |file| file.path());
        let launcher = &self.line.program;
        let command =
            self.intermediate.as_ref().map(|intermediate| intermediate::command(intermediate, launcher));
        let stdin = match (self.reads_stdin, self.line.minds_end_of_input) {
            (true, _) => Stdio::inherit(),
            (false, true) => unreadable()?.into(),
            (false, false) => Stdio::null(),
        };
        let mut command = command.unwrap_or_else(|| Command::new(launcher));
        command.envs(self.platform.iter().map(|platform| (platform::VARIABLE, platform)));
        for (name, value) in &self.overrides {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .stdin(stdin)
            .args(self.line.args(hosts))
            .envs(self.line.variables.iter().map(|(name, value)| (name, value.as_ref())))
            .envs(variables.iter().copied());
        if let Some(recorder) = &mut self.recorder {
            command.envs(recorder.begin(&self.line)?);
            let [output, errors] = recorder.streams();
            command.stdout(output).stderr(errors);
        }
        let spawned = command.spawn().map_err(LaunchError::io(format!("start {}", launcher.display())));
        match (spawned, &mut self.recorder) {
            (Ok(mut child), Some(recorder)) => {
                recorder.copy(&mut child);
                Ok(child)
            }
            (Err(error), Some(recorder)) => {
                let missing = Some(error.to_string());
                recorder.end(Evidence { code: error.exit_code(), missing, ..Evidence::default() });
                Err(error)
            }
            (spawned, None) => spawned,
        }
    }

    pub(crate) fn signals(&mut self) -> Vec<i32> {
        self.signals.pending().collect()
    }

    /// Asks the ranks to stop after a SIGTERM of the batch system. Returns false if SIGTERM is to be forwarded to the launcher instead, because the
    /// ranks cannot stop at a checkpoint or were asked before.
    fn asks_ranks_to_stop(&mut self) -> bool {
        let Some(recorder) = self.recorder.as_mut().filter(|recorder| recorder.is_stopped_by_signals())
        else {
            return false;
        };
        if self.stop_asked.is_none() {
            recorder.request_stop("SIGTERM");
        }
        self.stop_asked.get_or_insert_with(Instant::now).elapsed() < SAME_REQUEST
    }

    /// Forwards a signal to the launcher, unless the terminal has sent it to the launcher as well (Ctrl-C).
    pub(crate) fn forward_signal(&mut self, child: &Child, signal: i32) {
        if let Some(recorder) = self.recorder.as_mut().filter(|_| signal == SIGUSR1) {
            // SIGUSR1 would end ranks without a handler for it. They are asked to stop by a file in the run directory instead.
            recorder.request_stop("SIGUSR1");
        } else if signal == SIGTERM && self.asks_ranks_to_stop() {
            // If SIGTERM were forwarded while the ranks stop at a checkpoint, srun would kill them at once, and mpirun after a second.
        } else if !(self.from_terminal && matches!(signal, SIGINT | SIGQUIT)) {
            send(child, signal);
        }
    }

    /// Runs the command and waits for it. Returns the exit code for this process: the launcher's own, 128 + N if signal N ended it, or
    /// [`TIMED_OUT`] after the time limit. If a signal has ended the launcher, the processes that it has started are waited for, and ended
    /// after a grace period.
    ///
    /// # Errors
    /// If the launcher cannot be started.
    pub fn run(&mut self, limit: Option<Duration>) -> Result<u8, LaunchError> {
        adopt_orphans()?;
        let mut child = self.start(&[])?;
        let doing = format!("wait for {}", self.line.program.display());
        let mut seen = Evidence::default();
        seen.code = self.wait(&mut child, limit, &mut seen).map_err(LaunchError::io(doing))?;
        Ok(self.record_end(seen))
    }

    fn wait(
        &mut self,
        child: &mut Child,
        limit: Option<Duration>,
        seen: &mut Evidence,
    ) -> std::io::Result<u8> {
        let start = Instant::now();
        let mut is_terminating = false;
        loop {
            if let Some(status) = child.try_wait()? {
                if let Some(signal) = status.signal() {
                    let left = clear(child);
                    print_message(format_args!("the launcher was ended by signal {signal}; {left}"));
                }
                return Ok(if is_terminating { TIMED_OUT } else { code(status) });
            }
            for signal in self.signals() {
                self.forward_signal(child, signal);
                seen.signal = u8::try_from(signal).ok();
            }
            if self.stop_asked.take_if(|asked| asked.elapsed() >= GRACE_OF_RANKS).is_some() {
                send(child, SIGTERM);
            }
            if let Some(limit) = limit {
                if !is_terminating && start.elapsed() >= limit {
                    print_message(format_args!(
                        "the job has not ended within {} s and is being ended",
                        limit.as_secs_f64()
                    ));
                    send(child, SIGTERM);
                    is_terminating = true;
                    seen.timed_out = true;
                }
                if is_terminating && start.elapsed() >= limit + GRACE {
                    child.kill()?;
                }
            }
            std::thread::sleep(TICK);
        }
    }
}

/// Opens a standard input that cannot be read, which MPICH's launcher ignores. It would forward the end of an empty input to rank 0.
fn unreadable() -> Result<File, LaunchError> {
    File::options().write(true).open("/dev/null").map_err(LaunchError::io("open /dev/null"))
}

pub(crate) fn send(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        let _ = kill_process(pid, signal);
    }
}

/// The exit code is 128 + N for a process that signal N has ended, as in a shell.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(u8::MAX)
}
