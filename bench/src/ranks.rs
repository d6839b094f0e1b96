//! Parts of an experiment that run on MPI ranks or as other processes, with a time limit.
//!
//! An experiment starts its own binary again under `mpirun`, with the hidden command `rank PROGRAM ARGUMENTS`. A rank
//! reports its results in a line `result NAME VALUE NAME VALUE …`, which [`results`] finds in the output.

use std::{
    collections::BTreeMap,
    io::Read,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use armature_tests::phases;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::{
    RunResult,
    baseline::{self, chain, hand_written_farm, loops},
    expanding,
    experiments::{session_values, start_up},
    farm, loops as moving_loops, remap_run, snapshot_run, streams, task_bench, tested_program, workflows,
};

/// Text in the error message of a program that exceeded its time limit; the limit follows the text.
pub const STOPPED: &str = "stopped after";

/// Names and values of one line `result NAME VALUE …` that a rank prints.
pub type Values = BTreeMap<String, f64>;

/// Runs the rank program with the given name, or returns `None` if no such program exists.
///
/// # Errors
/// Errors of the program.
pub fn program(name: &str, arguments: &[String]) -> Option<RunResult> {
    match name {
        "chain" => Some(chain::main::<chain::Stages>(arguments)),
        "tasks" => Some(chain::main::<chain::Tasks>(arguments)),
        "by-hand" => Some(hand_written_farm::main(arguments)),
        "expanding" => Some(expanding::main(arguments)),
        "farm" => Some(farm::tested_program::main(arguments)),
        "empty-workflow" => Some(workflows::empty::main(arguments)),
        "heavy-workflow" => Some(workflows::heavy::main(arguments)),
        "valued-workflow" => Some(workflows::values::main(arguments)),
        "kill-run-workflow" => Some(workflows::kill_run::main(arguments)),
        "empty-loops" => Some(moving_loops::empty::main(arguments)),
        "loop" => Some(moving_loops::tested_program::main(arguments)),
        "loop-by-hand" => Some(loops::main(arguments)),
        "kill-run" => Some(farm::kill_run::main(arguments)),
        "slow-end" => Some(farm::slow_end::main(arguments)),
        "start" => Some(start_up::main()),
        "start-by-hand" => Some(start_up::by_hand()),
        "task-bench" => Some(task_bench::main(arguments)),
        "task-bench-by-hand" => Some(baseline::task_bench::main(arguments)),
        "tiny" => Some(farm::tiny::main(arguments)),
        "tour" => Some(farm::tour::main(arguments)),
        "tree" => Some(farm::tree::main(arguments)),
        "remap-run" => Some(remap_run::main(arguments)),
        "phases" => Some(phases::main(arguments)),
        "pipeline" => Some(tested_program::main(arguments)),
        "snapshots" => Some(snapshot_run::main(arguments)),
        "values" => Some(session_values::main(arguments)),
        "watched" => Some(streams::main(arguments)),
        _ => None,
    }
}

/// Parameters of the start of ranks.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Number of ranks.
    pub ranks: usize,
    /// Time limit of the whole run.
    pub limit: Duration,
    /// True if mpirun binds each rank to a core, which is only useful with at most as many ranks as cores.
    pub bind: bool,
    /// True if the other ranks continue when one dies (`--enable-recovery`).
    pub recovery: bool,
    /// Additional environment variables of the ranks.
    pub environment: Vec<(&'static str, &'static str)>,
}

impl Launch {
    /// Creates parameters for `ranks` ranks without binding, with a time limit of one minute.
    pub fn ranks(ranks: usize) -> Self {
        Launch {
            ranks,
            limit: Duration::from_secs(60),
            bind: false,
            recovery: false,
            environment: Vec::new(),
        }
    }

    /// Runs a [`program`] of this binary on ranks, and returns its result line.
    ///
    /// # Errors
    /// If `mpirun` of Open MPI is missing, or if the ranks fail, exceed the time limit, or print no result.
    pub fn run(&self, program: &str, arguments: &[String]) -> RunResult<Values> {
        one(&self.output(program, arguments)?)
    }

    /// Runs a [`program`] of this binary on ranks, and returns its output.
    ///
    /// # Errors
    /// Same as [`run`](Launch::run), but the output may lack a result line.
    pub fn output(&self, program: &str, arguments: &[String]) -> RunResult<String> {
        let this = std::env::current_exe().map_err(|e| format!("cannot find this binary: {e}"))?;
        let arguments: Vec<String> =
            ["rank", program].map(String::from).into_iter().chain(arguments.to_vec()).collect();
        self.run_other(&this, &arguments)
    }

    /// Runs another program on ranks, and returns its output.
    ///
    /// # Errors
    /// Same as [`run`](Launch::run), but the output may lack a result line.
    pub fn run_other(&self, binary: &std::path::Path, arguments: &[String]) -> RunResult<String> {
        let mut command = self.command()?;
        command.arg(binary).args(arguments);
        finish(command, self.limit)
    }

    fn command(&self) -> RunResult<Command> {
        let mut command = Command::new(open_mpi()?);
        command.args(["-n", &self.ranks.to_string(), "--oversubscribe", "--bind-to"]);
        command.arg(if self.bind { "core" } else { "none" });
        if self.recovery {
            command.arg("--enable-recovery");
        }
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        // Start-up messages of the framework are suppressed, because they would appear between the tables of results.
        command.env("RUST_LOG", "warn");
        command.envs(self.environment.iter().copied());
        Ok(command)
    }
}

/// Returns the name of Open MPI's mpirun. That of MPICH has other options and does not match the linked MPI library.
fn open_mpi() -> RunResult<&'static str> {
    ["mpirun", "mpirun.openmpi"]
        .into_iter()
        .find(|name| {
            let version = Command::new(name).arg("--version").output();
            version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("Open MPI"))
        })
        .ok_or_else(|| "expected mpirun of Open MPI on the path (Debian: openmpi-bin)".into())
}

/// Script that simulates ranks.
pub const SIMULATE: &str = "ci/smpi/run.sh";

/// Returns a command that simulates `ranks` ranks, to which options of `armature simulate`, the program and its arguments are added. The simulation ends
/// after the time `limit`.
pub fn simulation(ranks: usize, limit: Duration) -> Command {
    let mut command = Command::new(SIMULATE);
    command.arg(ranks.to_string());
    command.env("RUST_LOG", "error").env("ARMATURE_SMPI_TIMEOUT", limit.as_secs().to_string());
    command
}

/// Runs a command to its end and returns its standard output; its standard error is passed through.
///
/// # Errors
/// If the command cannot be started, fails, or does not end within `limit`; in the last case the command is stopped
/// with its children.
pub fn finish(mut command: Command, limit: Duration) -> RunResult<String> {
    let what = format!("{} {}", command.get_program().display(), command_line(&command));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|e| format!("cannot start {what}: {e}"))?;
    let mut pipe = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.as_mut().map(|pipe| pipe.read_to_end(&mut bytes));
        bytes
    });
    let status = wait(&mut child, limit)?.ok_or_else(|| format!("{what}: {STOPPED} {limit:?}"))?;
    let output = reader.join().map_err(|_| "the thread that read the output failed")?;
    let output = String::from_utf8_lossy(&output).into_owned();
    if status.success() { Ok(output) } else { Err(format!("{what}: {status}\n{output}").into()) }
}

fn command_line(command: &Command) -> String {
    command.get_args().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Waits for the end of a process. If it runs longer than `limit`, stops its process group and returns `None`.
fn wait(child: &mut Child, limit: Duration) -> RunResult<Option<std::process::ExitStatus>> {
    let poll = |child: &mut Child, until: Instant| -> RunResult<Option<std::process::ExitStatus>> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(2));
        }
    };
    let ended = poll(child, Instant::now() + limit)?;
    if ended.is_none() {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        // mpirun stops its ranks when it receives SIGTERM; it is killed only if it does not exit.
        for (signal, patience) in [(Signal::TERM, 3), (Signal::KILL, 3)] {
            let _ = group.map(|group| kill_process_group(group, signal));
            if poll(child, Instant::now() + Duration::from_secs(patience))?.is_some() {
                break;
            }
        }
    }
    Ok(ended)
}

/// Returns the names and values of all lines `result …` in the output of a rank program.
pub fn results(output: &str) -> Vec<Values> {
    output.lines().filter_map(|line| line.strip_prefix("result ")).filter_map(values).collect()
}

fn values(line: &str) -> Option<Values> {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.chunks(2).map(|pair| Some((pair[0].to_string(), pair.get(1)?.parse().ok()?))).collect()
}

/// Returns the names and values of the only line `result …` in the output of a rank program.
///
/// # Errors
/// If the output has no result line, or more than one.
pub fn one(output: &str) -> RunResult<Values> {
    let mut found = results(output);
    match (found.pop(), found.len()) {
        (Some(values), 0) => Ok(values),
        (last, more) => {
            let count = more + usize::from(last.is_some());
            Err(format!("expected one result line, got {count} in:\n{output}").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn result_lines_are_found_among_others() {
        let values = one("hello\nresult items_per_s 2.5e6 rank 0\nbye\n").unwrap();
        assert_eq!((values["items_per_s"], values["rank"]), (2.5e6, 0.0));
        assert!(one("hello\n").is_err());
        assert!(one("result a 1\nresult a 2\n").is_err());
        assert!(one("result a one\n").is_err());
    }

    #[test]
    fn program_beyond_its_time_limit_is_stopped_with_its_children() {
        let start = Instant::now();
        let error = finish(shell("sleep 100 & sleep 100"), Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("stopped after 100ms"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn failing_program_is_an_error_with_its_output() {
        let error = finish(shell("echo reason; exit 3"), Duration::from_secs(10)).unwrap_err();
        assert!(
            error.to_string().contains("reason") && error.to_string().contains("exit status: 3"),
            "{error}"
        );
    }

    #[test]
    fn long_output_does_not_block() {
        let output = finish(shell("seq 1 100000"), Duration::from_secs(20)).unwrap();
        assert_eq!(output.lines().count(), 100_000);
    }
}
