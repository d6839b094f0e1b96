//! A farm whose ranks are killed: it leaves on disk who it is, what it has begun, and what it has delivered.
//!
//! In its folder ([`Scene`]) every rank appends to `begun-RANK` the number of each task that it begins. Rank 0 writes one line
//! `TASK RESULT` to `output` for each result that it is handed, and, where results are to outlive the job, the farm's journal to
//! `journal`.

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
    subject::Worktop,
};
use crate::{Outcome, deaths::Scene, toil::landing};

const FARM: &str = "mortal";
const JOURNAL: &str = "journal";
/// The version that a farm gives its journal.
const LAYOUT: &str = concat!("farm 1, armature ", env!("CARGO_PKG_VERSION"));

/// How long a worker may be silent before it counts as dead, and how long it may take to come to the farm.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For one that has come.
    pub silence: Duration,
    /// For one that has not.
    pub coming: Duration,
}

/// Files of a run.
#[derive(Clone, Debug)]
pub struct Traces {
    /// Their folder, with who the ranks are.
    pub scene: Scene,
}

impl Traces {
    /// The files in an empty folder, which is made.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(folder: &Path) -> Outcome<Self> {
        Ok(Traces { scene: Scene::create(folder)? })
    }

    /// Words of the rank program: these files, what is run, and how long a worker may be silent, or take to come.
    pub fn words(&self, limits: Limits, journal: bool, job: &Job) -> Vec<String> {
        let mut words = vec![self.scene.folder().display().to_string()];
        words.extend([limits.silence, limits.coming].map(|time| time.as_millis().to_string()));
        words.push(journal.to_string());
        words.extend(job.words());
        words
    }

    /// Removes the files of a run, except for the journal.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub fn forget(&self) -> Outcome {
        self.scene.forget(&[JOURNAL])
    }

    /// The tasks whose results are intact in the journal, which is left as it is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn journalled(&self, job: &Job) -> Outcome<BTreeSet<u64>> {
        if !self.path(JOURNAL).is_file() {
            return Ok(BTreeSet::new());
        }
        // Opening a journal cuts what is torn.
        let copy = self.path("copy");
        fs::copy(self.path(JOURNAL), &copy)?;
        let mut tasks = BTreeSet::new();
        // A farm stores its identity as JSON.
        Journal::open(&copy, &Identity::new(FARM, LAYOUT, serde_json::to_vec(&job.words())?), |task, _| {
            tasks.insert(task);
            Ok(())
        })?;
        Ok(tasks)
    }

    /// Checks that the output has every task of the job once, in order, with its result.
    ///
    /// # Errors
    /// If it does not: with the first line that is wrong.
    pub fn check(&self, job: &Job) -> Outcome {
        let output = fs::read_to_string(self.path("output"))?;
        let mut lines = output.lines();
        for (number, steps) in (0..).zip(job.chores.steps()?) {
            let expected = line(number, landing(number, steps));
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

    /// Whether a rank's worker has been made.
    pub fn has_come(&self, rank: usize) -> bool {
        self.path(&format!("begun-{rank}")).is_file()
    }

    /// The tasks that a rank has begun.
    pub fn begun(&self, rank: usize) -> Vec<u64> {
        let bytes = fs::read(self.path(&format!("begun-{rank}"))).unwrap_or_default();
        bytes.as_chunks().0.iter().map(|&number| u64::from_le_bytes(number)).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scene.path(name)
    }
}

fn line(number: u64, result: u64) -> String {
    format!("{number} {result:016x}")
}

/// The rank program: prints `result seconds S again N lost N known N` on rank 0. The seconds are those until the farm has
/// let its workers go.
///
/// # Errors
/// If the arguments are wrong or a file cannot be written.
pub fn main(words: &[String]) -> Outcome {
    let [folder, silence, coming, journal, job @ ..] = words else {
        return Err("expected FOLDER MILLISECONDS MILLISECONDS true|false JOB".into());
    };
    let traces = Traces { scene: Scene::at(folder) };
    let silence = Duration::from_millis(silence.parse()?);
    let (job, journal) = (Job::parse(job)?, journal.parse()?);
    let coming = Duration::from_millis(coming.parse()?);
    let config = Config::from_env()?.progress(Progress::Off).join_limit(coming);
    Ok(armature::run(&config, |session| traces.rank(session, silence, journal, &job))?)
}

impl Traces {
    fn rank(
        &self,
        session: &mut Session,
        silence: Duration,
        journal: bool,
        job: &Job,
    ) -> Result<(), BoxError> {
        let Way::Farm(chunking) = job.way else { return Err("expected farm=CHUNKING".into()) };
        let rank = session.rank();
        let steps = job.chores.steps()?;
        self.scene.enter(rank)?;
        let begun = self.path(&format!("begun-{rank}"));
        let make = move || {
            let log = File::options().create(true).append(true).open(&begun)?;
            Ok(Watched { top: Worktop { steps: steps.clone() }, log })
        };
        // A task may be in the hands of a rank that is killed.
        let mut farm = Farm::worker(FARM, make).chunking(chunking).silence_limit(silence).retries(1);
        if journal {
            farm = farm.journal(self.path(JOURNAL), &job.words());
        }
        let mut output = None;
        if session.is_root() {
            output = Some(BufWriter::new(File::create(self.path("output"))?));
            self.scene.start()?;
        }
        let start = Instant::now();
        let run = farm.for_each(session, 0..job.chores.tasks as u64, |number, result| match &mut output {
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

/// Does tasks, and writes down which.
struct Watched {
    top: Worktop,
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
    use crate::farm::chores::Chores;

    #[test]
    fn the_output_of_a_quiet_run_is_complete_and_a_wrong_one_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let traces = Traces::create(&folder.path().join("run")).unwrap();
        let chores = Chores { tasks: 200, mean: 500.0, deviation: 0.8, seed: 2 };
        let job = Job { chores, way: Way::Farm(Chunking::Auto), cores: Vec::new() };
        let config = Config::new().ranks(3).progress(Progress::Off);
        assert!(traces.journalled(&job).unwrap().is_empty());
        for run in 0..2 {
            armature::run(&config, |session| traces.rank(session, Duration::from_secs(10), true, &job))
                .unwrap();
            traces.check(&job).unwrap();
            assert!(traces.scene.has_started() && traces.scene.process(2).is_some());
            let begun: BTreeSet<u64> = (0..3).flat_map(|rank| traces.begun(rank)).collect();
            assert_eq!(begun.len(), [200, 0][run], "the second run knows all results");
            assert!(traces.journalled(&job).unwrap().into_iter().eq(0..200));
            if run == 0 {
                traces.forget().unwrap();
                assert!(!traces.scene.has_started());
            }
        }

        let output = fs::read_to_string(traces.path("output")).unwrap();
        let (first, rest) = output.split_once('\n').unwrap();
        for wrong in [rest.to_string(), format!("{first}\n{output}"), format!("{output}{first}\n")] {
            fs::write(traces.path("output"), &wrong).unwrap();
            assert!(traces.check(&job).is_err(), "not seen");
        }
    }
}
