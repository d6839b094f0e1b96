//! Records the run that this process starts in its run directory: its attempts (starts of the program), their output, and why each ended.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Instant;

use armature::job_status::{STOPPED, State};
use armature_files::lock::{LockFile, TRIES};

use super::attempt::{Attempt, Start};
use super::description::{BatchJob, Description};
use super::end_reason::{End, Evidence, Reason};
use super::log::Log;
use super::request::{Requested, Used};
use super::{RUNS, RunDirectory, description, name, newest};
use crate::batch::messages::{self, Cause};
use crate::batch::slurm;
use crate::command_line::CommandLine;
use crate::error::LaunchError;
use crate::job_state::ExitCodeRecord;
use crate::message;
use crate::supervise::{JobUsage, MemoryGroup, Usage};

/// Environment variables that the ranks get: the directory for their event files, and the directory of the run.
pub(crate) const VARIABLES: [&str; 2] = ["ARMATURE_EVENTS", "ARMATURE_RUN"];

/// Exit code of `srun` if it has ended a rank with SIGTERM.
const TERMINATED: u8 = 143;

#[derive(Debug)]
pub(crate) struct Recorder {
    run: RunDirectory,
    log: Log,
    current: Option<Current>,
    _lock: LockFile,
}

/// Attempt (start of the program) that has not ended.
#[derive(Debug)]
struct Current {
    attempt: Attempt,
    began: Instant,
    exit_code: Option<ExitCodeRecord>,
    /// Memory cgroup of the job on this host, with the number of out-of-memory kills before the attempt.
    memory: Option<(MemoryGroup, Usage)>,
    /// Memory and processor time that the batch job had used on this host before the attempt.
    used_before: JobUsage,
    stop_asked: Option<Instant>,
}

impl Recorder {
    /// Opens the run directory, and locks the run until the recorder is dropped.
    ///
    /// An existing run is continued if `name` is its full name with its number, or if it is the newest run of this name and belongs to the same batch
    /// job. Otherwise a new run is created.
    pub(crate) fn open(name: &str, command: &[OsString]) -> Result<Self, LaunchError> {
        let runs = std::path::absolute(RUNS).map_err(LaunchError::io("find out the current directory"))?;
        let run = match earlier(&runs, name, BatchJob::own().as_ref()) {
            Some(run) => run,
            None => RunDirectory::create(&runs, name)?,
        };
        let shown = run.path().display().to_string();
        let waiting = |holder: &str| {
            message::print_message(format_args!(
                "the run directory {shown} is in use by {holder}; waiting for its lock"
            ));
        };
        let lock =
            LockFile::acquire(&run.path().join("lock"), TRIES, waiting).map_err(|error| {
                match error.kind() {
                    std::io::ErrorKind::ResourceBusy => {
                        LaunchError::Usage(format!("the run directory {shown}: {error}"))
                    }
                    _ => LaunchError::io(format!("lock the run directory {shown}"))(error),
                }
            })?;
        if Description::read(&run).is_none() {
            Description::new(command).write(&run)?;
        }
        let path = run.log();
        let log = Log::open(&path).map_err(LaunchError::io(format!("open the log {}", path.display())))?;
        Ok(Recorder { run, log, current: None, _lock: lock })
    }

    /// Creates a run that the user has not named. If that fails, a message is printed, and nothing is recorded.
    pub(crate) fn open_implicit(command: &[OsString]) -> Option<Self> {
        let name = name::of_program(Path::new(&command[0]));
        match Recorder::open(&name, command) {
            Ok(recorder) => Some(recorder),
            Err(error) => {
                message::print_message(format_args!("the run has no run directory: {error}"));
                None
            }
        }
    }

    pub(crate) fn run(&self) -> &RunDirectory {
        &self.run
    }

    /// Reserves the next attempt (start of the program). Returns the environment variables for its launcher.
    pub(crate) fn begin(&mut self, line: &CommandLine) -> Result<Vec<(&'static str, PathBuf)>, LaunchError> {
        let before = Attempt::newest(&self.run);
        let attempt = Attempt::take(&self.run)?;
        let start = Start::now(line.ranks, line.is_labelled, line.display("hosts"), self.log.length());
        if let Some(before) = before {
            self.end_of_requeued(&before, &start);
        }
        attempt.write_start(&start)?;
        // A request to stop that is older than this attempt was meant for the previous one.
        let _ = std::fs::remove_file(self.run.stop_file());
        let job = start.batch.as_ref().map(|batch| format!(", job {}", batch.job)).unwrap_or_default();
        self.log.write_line(&format!(
            "=== attempt {} of {}, {} on {}{job} ===",
            attempt.number(),
            self.run.name(),
            start.started,
            start.host
        ));
        message::copy_to(self.log.for_messages());
        let directory = attempt.directory().to_path_buf();
        self.current = Some(Current {
            exit_code: ExitCodeRecord::before_start(Some(directory.clone().into())),
            memory: MemoryGroup::own().map(|group| (group.clone(), group.usage())),
            used_before: JobUsage::read(),
            attempt,
            began: Instant::now(),
            stop_asked: None,
        });
        let [events, run] = VARIABLES;
        let mut variables = vec![(events, directory), (run, self.run.path().to_path_buf())];
        // Slurm before 23.02 does not set `SLURM_JOB_END_TIME`, so that the ranks read `ARMATURE_END_TIME`.
        let is_known =
            ["ARMATURE_END_TIME", "SLURM_JOB_END_TIME"].iter().any(|name| std::env::var_os(name).is_some());
        if let Some(end) = start.ends_at.filter(|_| !is_known) {
            variables.push(("ARMATURE_END_TIME", end.to_string().into()));
        }
        Ok(variables)
    }

    /// Records the end of the previous attempt if Slurm has killed its `armature run` and requeued the job.
    fn end_of_requeued(&self, attempt: &Attempt, start: &Start) {
        let Some(ended) =
            attempt.start().filter(|ended| ended.batch == start.batch && ended.requeues < start.requeues)
        else {
            return;
        };
        let printed = Log::tail(&self.run.log(), ended.log_offset);
        // Slurm prints a message when it ends the processes of a requeued or preempted job, and none for a lost node.
        let cause = messages::cause_in(&printed).unwrap_or(Cause::NodeFailure);
        let seen = Evidence { code: 1, status: attempt.status(), cause: Some(cause), ..Evidence::default() };
        let mut end = End::new(&seen, attempt.last_sign().unwrap_or(0.0));
        if end.detail.is_empty() {
            end.detail = "the process that started it was ended, and Slurm has started the job again".into();
        }
        end.requeued = true;
        if let Err(error) = attempt.write_end(&end) {
            message::print_message(error);
        }
    }

    pub(crate) fn streams(&self) -> [Stdio; 2] {
        self.log.streams()
    }

    pub(crate) fn copy(&mut self, child: &mut Child) {
        self.log.copy(child);
    }

    /// Asks the ranks to stop at a checkpoint; `why` is the reason that is shown to the user.
    pub(crate) fn request_stop(&mut self, why: &str) {
        if let Some(current) = &mut self.current {
            current.stop_asked.get_or_insert_with(Instant::now);
        }
        match write_stop_file(&self.run, why) {
            Ok(()) => message::print_message(format_args!("{why}: the run is asked to stop at a checkpoint")),
            Err(error) => message::print_message(error),
        }
    }

    /// Returns true if a signal of the batch system can be turned into a stop at a checkpoint: in a batch job, if the program uses armature and its
    /// ranks are running.
    pub(crate) fn is_stopped_by_signals(&self) -> bool {
        let Some(attempt) = self.current.as_ref().map(|current| &current.attempt) else { return false };
        let is_in_job = attempt.start().is_some_and(|start| start.batch.is_some());
        is_in_job && attempt.status().is_some_and(|status| status.state == State::Running)
    }

    pub(crate) fn finish_log(&mut self) {
        self.log.finish();
    }

    /// Adds the state of the batch job, the kills for lack of memory and the messages in the log to `seen`, records why the attempt has ended, and
    /// corrects the exit code in the status file of the ranks. Returns the exit code of the job.
    pub(crate) fn end(&mut self, mut seen: Evidence) -> u8 {
        self.log.finish();
        let Some(Current { attempt, began, exit_code, memory, used_before, stop_asked }) =
            self.current.take()
        else {
            return seen.code;
        };
        let seconds = began.elapsed().as_secs_f64();
        let start = attempt.start().unwrap_or_default();
        let printed = Log::tail(&self.run.log(), start.log_offset);
        if seen.code == TERMINATED && messages::has_stopped_first(&printed) {
            seen.code = STOPPED;
        }
        if let Some(record) = exit_code {
            seen.code = record.write(seen.code);
        }
        seen.stop_seconds = stop_asked.map(|asked| asked.elapsed().as_secs_f64());
        seen.status = attempt.status().or(seen.status);
        seen.out_of_memory |= memory.is_some_and(|(group, before)| group.usage().kills > before.kills);
        if seen.code == 0 && seen.status.is_none() && messages::cause_in(&printed) == Some(Cause::NodeFailure)
        {
            // srun has exited with 0 after the loss of a node, although the job has failed.
            seen.code = 1;
        }
        if let Some(batch) = start.batch.as_ref().filter(|batch| batch.system == "slurm" && seen.code != 0) {
            let nodes = std::env::var("SLURM_JOB_NUM_NODES").ok().and_then(|nodes| nodes.trim().parse().ok());
            seen.batch = slurm::state_of(&batch.job, nodes, start.requeues);
            seen.cause = messages::cause_in(&printed);
            let has_started = seen.status.as_ref().is_some_and(|status| status.state != State::Starting);
            if seen.missing.is_none() && !has_started {
                seen.missing = messages::start_failure_in(&printed).map(armature_text::line);
            }
        }
        let left = || Some(start.ends_at?.saturating_sub(description::seconds_since_1970()));
        seen.batch.seconds_left = seen.batch.seconds_left.or_else(left);
        let end = End::new(&seen, seconds);
        if let Err(error) = attempt.write_end(&end) {
            message::print_message(error);
        }
        if start.batch.is_some() && end.reason != Reason::StartFailed {
            let used = Used::between(used_before, JobUsage::read(), seconds, end.reason == Reason::Finished);
            let requested = Requested::of(|name| std::env::var(name).ok());
            requested.compare(&used, &start.host).into_iter().for_each(message::print_message);
        }
        seen.code
    }
}

pub(crate) fn write_stop_file(run: &RunDirectory, why: &str) -> Result<(), LaunchError> {
    let file = run.stop_file();
    let text = format!("{why}\n");
    armature_files::output::publish(&file, text.as_bytes())
        .map_err(LaunchError::io(format!("write {}", file.display())))
}

/// Returns the run that a new start with `name` continues. This is the run with the full name `name` (with its number). Otherwise it is the newest
/// run of this name, if it belongs to the same batch job: the job was then requeued.
fn earlier(runs: &Path, name: &str, job: Option<&BatchJob>) -> Option<RunDirectory> {
    let exact = runs.join(name);
    if super::split(name).is_some() && exact.is_dir() {
        return Some(RunDirectory::at(exact));
    }
    let (_, run) = newest(runs, name)?;
    let of_run = Description::read(&run).and_then(|description| description.batch);
    (job.is_some() && of_run.as_ref() == job).then_some(run)
}

/// A program with the option `--journal` can resume from a file, so that its run is likely to have several attempts.
pub(crate) fn has_journal_option(command: &[OsString]) -> bool {
    let is_journal =
        |word: &OsString| word == OsStr::new("--journal") || word.to_string_lossy().starts_with("--journal=");
    command.iter().skip(1).any(is_journal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requeued_job_continues_its_run_and_another_job_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let job = |number: &str| BatchJob { system: "slurm".into(), job: number.into() };
        assert_eq!(earlier(dir.path(), "a", Some(&job("7"))), None);
        let run = RunDirectory::create(dir.path(), "a").unwrap();
        let description = Description { batch: Some(job("7")), ..Description::default() };
        description.write(&run).unwrap();
        assert_eq!(earlier(dir.path(), "a", Some(&job("7"))), Some(run.clone()));
        assert_eq!(earlier(dir.path(), "a", Some(&job("8"))), None);
        assert_eq!(earlier(dir.path(), "a", None), None);
        assert_eq!(earlier(dir.path(), "a-1", None), Some(run));
        assert_eq!(earlier(dir.path(), "a-2", None), None);
    }

    #[test]
    fn journal_is_found_among_the_arguments() {
        let has_option =
            |words: &[&str]| has_journal_option(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(has_option(&["x", "--journal", "f"]) && has_option(&["x", "--journal=f"]));
        assert!(
            !has_option(&["--journal"])
                && !has_option(&["x", "journal"])
                && !has_option(&["x", "--journals"])
        );
    }
}
