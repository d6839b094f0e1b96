//! A farm whose ranks are killed: it leaves on disk who it is, what it has begun, and what it has delivered.
//!
//! In its folder every rank writes its process number to `pid-RANK`, and appends to `begun-RANK` the number of each task
//! that it begins. Rank 0 writes `started` when the farm starts, and one line `TASK RESULT` to `output` for each
//! result that it is handed.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use armature::farm::{Context, Farm, Worker};
use armature::{BoxError, Config, Progress, Session};

use super::{
    job::{Job, Way},
    subject::Worktop,
};
use crate::{Outcome, toil::landing};

/// Files of a run.
#[derive(Clone, Debug)]
pub struct Traces {
    folder: PathBuf,
}

impl Traces {
    /// The files in an empty folder, which is made.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(folder: &Path) -> Outcome<Self> {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
        Ok(Traces { folder: folder.into() })
    }

    /// Words of the rank program: these files, what is run, and how long a worker may be silent, with a compute thread of
    /// its own and without.
    pub fn words(&self, silence: [Duration; 2], job: &Job) -> Vec<String> {
        let mut words = vec![self.folder.display().to_string()];
        words.extend(silence.map(|time| time.as_millis().to_string()));
        words.extend(job.words());
        words
    }

    /// Whether rank 0 has started its farm.
    pub fn started(&self) -> bool {
        self.path("started").is_file()
    }

    /// The process of a rank, once it has said so.
    pub fn process(&self, rank: usize) -> Option<i32> {
        fs::read_to_string(self.path(&format!("pid-{rank}"))).ok()?.trim().parse().ok()
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

    /// How many tasks were begun, by all of so many ranks.
    pub fn begun(&self, ranks: usize) -> u64 {
        let size = |rank| fs::metadata(self.path(&format!("begun-{rank}"))).map_or(0, |file| file.len());
        (0..ranks).map(size).sum::<u64>() / 8
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

fn line(number: u64, result: u64) -> String {
    format!("{number} {result:016x}")
}

/// The rank program: prints `result seconds S again N lost N` on rank 0.
///
/// # Errors
/// If the arguments are wrong or a file cannot be written.
pub fn main(words: &[String]) -> Outcome {
    let [folder, silence, peer, job @ ..] = words else {
        return Err("expected FOLDER MILLISECONDS MILLISECONDS JOB".into());
    };
    let traces = Traces { folder: folder.into() };
    let silence = Duration::from_millis(silence.parse()?);
    let job = Job::parse(job)?;
    let peer = Duration::from_millis(peer.parse()?);
    let config = Config::from_env()?.progress(Progress::Off).peer_limit(peer);
    Ok(armature::run(&config, |session| traces.rank(session, silence, &job))?)
}

impl Traces {
    fn rank(&self, session: &Session, silence: Duration, job: &Job) -> Result<(), BoxError> {
        let Way::Farm(chunking) = job.way else { return Err("expected farm=CHUNKING".into()) };
        let rank = session.rank();
        let steps = job.chores.steps()?;
        // By another name until it is complete: who sees the file must find the number in it.
        fs::write(self.path(&format!("new-{rank}")), std::process::id().to_string())?;
        fs::rename(self.path(&format!("new-{rank}")), self.path(&format!("pid-{rank}")))?;
        let begun = self.path(&format!("begun-{rank}"));
        let make = move || {
            let log = File::options().create(true).append(true).open(&begun)?;
            Ok(Watched { top: Worktop { steps: steps.clone() }, log })
        };
        let mut farm = Farm::worker("mortal", make).chunking(chunking).silence_limit(silence);
        let mut output = None;
        if session.is_root() {
            output = Some(BufWriter::new(File::create(self.path("output"))?));
            fs::write(self.path("started"), "")?;
        }
        let mut wrong: Option<BoxError> = None;
        let summary = farm.map(session, 0..job.chores.tasks as u64, |number, result| {
            let outcome = match (result, &mut output) {
                (Ok(result), Some(output)) => {
                    writeln!(output, "{}", line(number, result)).map_err(BoxError::from)
                }
                (Ok(_), None) => Ok(()),
                (Err(failed), _) => Err(failed.into()),
            };
            if let Err(error) = outcome {
                wrong.get_or_insert(error);
            }
        })?;
        wrong.map_or(Ok(()), Err)?;
        if let (Some(mut output), Some(summary)) = (output, summary) {
            output.flush()?;
            println!(
                "result seconds {} again {} lost {}",
                summary.elapsed.as_secs_f64(),
                summary.again,
                summary.lost.len()
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
        armature::run(&config, |session| traces.rank(session, Duration::from_secs(10), &job)).unwrap();
        traces.check(&job).unwrap();
        assert!(traces.started() && traces.process(2).is_some() && traces.begun(3) == 200);

        let output = fs::read_to_string(traces.path("output")).unwrap();
        let (first, rest) = output.split_once('\n').unwrap();
        for wrong in [rest.to_string(), format!("{first}\n{output}"), format!("{output}{first}\n")] {
            fs::write(traces.path("output"), &wrong).unwrap();
            assert!(traces.check(&job).is_err(), "not seen");
        }
    }
}
