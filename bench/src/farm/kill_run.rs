//! Farm whose ranks are killed; the ranks record on disk their process ids, the tasks that they started and the results that they delivered.
//!
//! In the folder of the run ([`RunFolder`]) every rank appends to `begun-RANK` the number of each task that it starts. Rank 0 writes one line `TASK
//! RESULT` to `output` for each result that it receives. If results must survive the job, rank 0 writes the farm's journal (file of finished results)
//! to `journal`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use armature::farm::{Context, Farm, Worker};
use armature::journal::{Identity, Journal};
use armature::{BoxError, Config, Progress, Session};

use super::{
    job::{Job, Way},
    tested_program::TaskSetWorker,
};
use crate::{RunResult, deaths::RunFolder, synthetic_work::advance_directly};

const FARM: &str = "kill-run";
const JOURNAL: &str = "journal";
const LAYOUT: &str = concat!("farm 1, armature ", env!("CARGO_PKG_VERSION"));

/// Time limits for silent workers and for workers that have not joined the farm.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Silence after which a worker of the farm counts as dead.
    pub silence: Duration,
    /// Time that a worker may take to join the farm.
    pub join_limit: Duration,
}

/// Files of a farm whose ranks are killed during the run.
#[derive(Clone, Debug)]
pub struct RunFiles {
    /// Folder of the run's files, in which ranks also register their process ids.
    pub run_folder: RunFolder,
}

impl RunFiles {
    /// Creates an empty folder for the files of a run.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn create(folder: &Path) -> RunResult<Self> {
        Ok(RunFiles { run_folder: RunFolder::create(folder)? })
    }

    /// Returns the command-line arguments of the rank program: the folder, the time limits, whether the farm writes a
    /// journal (file of finished results), and the job.
    pub fn arguments(&self, limits: Limits, journal: bool, job: &Job) -> Vec<String> {
        let mut arguments = vec![self.run_folder.folder().display().to_string()];
        arguments.extend([limits.silence, limits.join_limit].map(|time| time.as_millis().to_string()));
        arguments.push(journal.to_string());
        arguments.extend(job.arguments());
        arguments
    }

    /// Removes the files of a run, except for the journal (file of finished results).
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove_run_files(&self) -> RunResult {
        self.run_folder.remove_files_except(&[JOURNAL])
    }

    /// Returns the tasks whose results are intact in the farm's journal (file of finished results). Does not change the journal.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn journalled(&self, job: &Job) -> RunResult<BTreeSet<u64>> {
        if !self.path(JOURNAL).is_file() {
            return Ok(BTreeSet::new());
        }
        // A copy of the journal is opened, because opening it removes an incomplete record at its end.
        let copy = self.path("copy");
        fs::copy(self.path(JOURNAL), &copy)?;
        let mut tasks = BTreeSet::new();
        // A journal can be opened only with the identity of its farm, which the farm writes as JSON.
        Journal::open(
            &copy,
            &Identity::new(FARM, LAYOUT, serde_json::to_vec(&job.arguments())?),
            |task, _| {
                tasks.insert(task);
                Ok(())
            },
        )?;
        Ok(tasks)
    }

    /// Checks that the file `output` has every task of the job once, in order, with its result.
    ///
    /// # Errors
    /// If the file is wrong; the error contains its first wrong line.
    pub fn check(&self, job: &Job) -> RunResult {
        let output = fs::read_to_string(self.path("output"))?;
        let mut lines = output.lines();
        for (number, steps) in (0..).zip(job.task_set.steps()?) {
            let expected = line(number, advance_directly(number, steps));
            let found = lines.next().unwrap_or("nothing");
            if found != expected {
                return Err(format!("expected `{expected}` in the output, got `{found}`").into());
            }
        }
        match lines.next() {
            Some(more) => Err(format!("the output has `{more}` behind the last task").into()),
            None => Ok(()),
        }
    }

    /// Returns true if the worker of a rank has been created.
    pub fn has_joined(&self, rank: usize) -> bool {
        self.path(&format!("begun-{rank}")).is_file()
    }

    /// Returns the tasks that a rank has started.
    pub fn started_tasks(&self, rank: usize) -> Vec<u64> {
        let bytes = fs::read(self.path(&format!("begun-{rank}"))).unwrap_or_default();
        bytes.as_chunks().0.iter().map(|&number| u64::from_le_bytes(number)).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.run_folder.path(name)
    }
}

fn line(number: u64, result: u64) -> String {
    format!("{number} {result:016x}")
}

/// Runs the rank program. Rank 0 prints `result seconds S again N lost N known N`: seconds until the farm has released its workers, tasks sent again
/// because their rank died, lost ranks, and tasks whose results the journal (file of finished results) already had.
///
/// # Errors
/// If the arguments are wrong or a file cannot be written.
pub fn main(arguments: &[String]) -> RunResult {
    let [folder, silence, join_limit, journal, job @ ..] = arguments else {
        return Err("expected FOLDER MILLISECONDS MILLISECONDS true|false JOB".into());
    };
    let run_files = RunFiles { run_folder: RunFolder::at(folder) };
    let silence = Duration::from_millis(silence.parse()?);
    let (job, journal) = (Job::parse(job)?, journal.parse()?);
    let join_limit = Duration::from_millis(join_limit.parse()?);
    let config = Config::from_env()?.progress(Progress::Off).join_limit(join_limit);
    Ok(armature::run(&config, |session| run_files.rank(session, silence, journal, &job))?)
}

impl RunFiles {
    fn rank(
        &self,
        session: &mut Session,
        silence: Duration,
        journal: bool,
        job: &Job,
    ) -> Result<(), BoxError> {
        let Way::Farm(chunking) = job.way else { return Err("expected farm=CHUNKING".into()) };
        let rank = session.rank();
        let steps = job.task_set.steps()?;
        self.run_folder.register_process(rank)?;
        let start_log = self.path(&format!("begun-{rank}"));
        let make = move || {
            let log = File::options().create(true).append(true).open(&start_log)?;
            Ok(Watched { top: TaskSetWorker { steps: steps.clone() }, log })
        };
        // The farm must retry a task once, because a task may be running on a rank when the rank is killed.
        let mut farm = Farm::worker(FARM, make).chunking(chunking).silence_limit(silence).retries(1);
        if journal {
            farm = farm.journal(self.path(JOURNAL), &job.arguments());
        }
        let mut output = None;
        if session.is_root() {
            output = Some(BufWriter::new(File::create(self.path("output"))?));
            self.run_folder.record_start()?;
        }
        let start = Instant::now();
        let run =
            farm.for_each(session, 0..job.task_set.tasks as u64, |number, result| match &mut output {
                Some(output) => writeln!(output, "{}", line(number, result)).map_err(BoxError::from),
                None => Ok(()),
            })?;
        let seconds = start.elapsed().as_secs_f64();
        if let (Some(mut output), Some(summary)) = (output, run.into_summary()) {
            output.flush()?;
            println!(
                "result seconds {} again {} lost {} known {}",
                seconds,
                summary.again,
                summary.lost.len(),
                summary.known
            );
        }
        Ok(())
    }
}

/// Worker that runs tasks and records the number of each task in a file.
struct Watched {
    top: TaskSetWorker,
    log: File,
}

impl Worker for Watched {
    type In = u64;
    type Out = u64;

    fn work(&mut self, number: u64, cx: &mut Context) -> Result<u64, BoxError> {
        self.log.write_all(&number.to_le_bytes())?;
        self.top.work(number, cx)
    }
}

#[cfg(test)]
mod tests {
    use armature_planner::farm::Chunking;

    use super::*;
    use crate::farm::task_set::TaskSet;

    #[test]
    fn output_of_an_undisturbed_run_is_complete_and_errors_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        let run_files = RunFiles::create(&folder.path().join("run")).unwrap();
        let task_set = TaskSet { tasks: 200, mean: 500.0, deviation: 0.8, seed: 2 };
        let job = Job { task_set, way: Way::Farm(Chunking::Auto), cores: Vec::new() };
        let config = Config::new().ranks(3).progress(Progress::Off);
        assert!(run_files.journalled(&job).unwrap().is_empty());
        for run in 0..2 {
            armature::run(&config, |session| run_files.rank(session, Duration::from_secs(10), true, &job))
                .unwrap();
            run_files.check(&job).unwrap();
            assert!(run_files.run_folder.has_started() && run_files.run_folder.process(2).is_some());
            let start_log: BTreeSet<u64> = (0..3).flat_map(|rank| run_files.started_tasks(rank)).collect();
            assert_eq!(start_log.len(), [200, 0][run], "the second run knows all results");
            assert!(run_files.journalled(&job).unwrap().into_iter().eq(0..200));
            if run == 0 {
                run_files.remove_run_files().unwrap();
                assert!(!run_files.run_folder.has_started());
            }
        }

        let output = fs::read_to_string(run_files.path("output")).unwrap();
        let (first, rest) = output.split_once('\n').unwrap();
        for wrong in [rest.to_string(), format!("{first}\n{output}"), format!("{output}{first}\n")] {
            fs::write(run_files.path("output"), &wrong).unwrap();
            assert!(run_files.check(&job).is_err(), "not seen");
        }
    }
}
