//! Rank program of the experiment on snapshots (saved states of a running pipeline): four stages on two ranks, with a
//! sink that folds the items.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use armature::pipeline::{Checkpoint, Context, MappingChoice, Pipeline, Sink, Stage, StageResult};
use armature::{BatchMode, BoxError, Config, Progress};

use crate::RunResult;
use crate::deaths::RunFolder;

/// Parameters of a run with or without snapshots (saved states of the pipeline).
#[derive(Clone, Debug)]
pub struct Job {
    /// Number of items.
    pub items: u64,
    /// Number of items in a batch.
    pub batch: usize,
    /// Time that an item takes in the third stage.
    pub work: Duration,
    /// Folder of the run, in which the snapshots are kept.
    pub folder: PathBuf,
    /// Time between two snapshots; `None` for a run without snapshots.
    pub every: Option<Duration>,
}

impl Job {
    /// Returns the arguments of the rank program.
    pub fn arguments(&self) -> Vec<String> {
        let every = self.every.map_or("none".into(), |every| every.as_secs_f64().to_string());
        let numbers = [self.items.to_string(), self.batch.to_string(), self.work.as_secs_f64().to_string()];
        [&numbers[..], &[every, self.folder.display().to_string()]].concat()
    }

    fn read(arguments: &[String]) -> RunResult<Self> {
        let [items, batch, work, every, folder] = arguments else {
            return Err("expected ITEMS BATCH WORK EVERY|none FOLDER".into());
        };
        let every = if every == "none" { None } else { Some(Duration::from_secs_f64(every.parse()?)) };
        let work = Duration::from_secs_f64(work.parse()?);
        Ok(Job { items: items.parse()?, batch: batch.parse()?, work, folder: folder.into(), every })
    }
}

/// Serial stage whose state is the sum of its items.
#[derive(Default)]
struct Sum(u64);

impl Stage for Sum {
    type In = u64;
    type Out = u64;

    fn process(&mut self, item: u64, _: &mut Context) -> StageResult<u64> {
        self.0 = self.0.wrapping_add(item);
        Ok(Some(self.0))
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(self.0.to_le_bytes().to_vec())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        self.0 = u64::from_le_bytes(state.try_into()?);
        Ok(())
    }
}

struct Fold(u64);

impl Sink for Fold {
    type In = u64;

    fn take(&mut self, item: u64) -> Result<(), BoxError> {
        self.0 = self.0.wrapping_mul(31).wrapping_add(item);
        Ok(())
    }

    fn commit(&mut self, _: u64) -> Result<Vec<u8>, BoxError> {
        Ok(self.0.to_le_bytes().to_vec())
    }

    fn resume(&mut self, _: u64, state: &[u8]) -> Result<(), BoxError> {
        self.0 = u64::from_le_bytes(state.try_into()?);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), BoxError> {
        println!("checksum {}", self.0);
        Ok(())
    }
}

/// Runs the rank program with the [arguments](Job::arguments) of a job. Rank 0 prints a line `checksum NUMBER` and a result line with
/// `seconds`, `items`, `before` (items of earlier starts) and `snapshots`.
///
/// # Errors
/// If the arguments are wrong; errors of the run.
pub fn main(arguments: &[String]) -> RunResult {
    let Job { items, batch, work, folder, every } = Job::read(arguments)?;
    let run_folder = RunFolder::at(&folder);
    let config = Config::from_env()?.progress(Progress::Off);
    armature::run(&config, |session| -> Result<(), BoxError> {
        run_folder.register_process(session.rank()).map_err(|error| error.to_string())?;
        let last = session.size() - 1;
        if session.is_root() {
            run_folder.record_start().map_err(|error| error.to_string())?;
        }
        let start = Instant::now();
        let numbers = Pipeline::source_at("numbers", move |first| first..items)
            .map("one", |x| x ^ 0x55)
            .map("two", |x| x.rotate_left(7))
            .map("three", move |x| {
                let start = Instant::now();
                while start.elapsed() < work {
                    std::hint::spin_loop();
                }
                x.wrapping_mul(3)
            })
            .stage("sum", || Ok(Sum::default()))
            .serial();
        let mapping = MappingChoice::Text(format!("one+two@0 | three+sum@{last}"));
        let numbers = numbers.mapping(mapping).batch(BatchMode::Fixed(batch));
        let kept = every.map(|every| Checkpoint::new(folder.join("kept"), &items).every(every));
        let numbers = kept.into_iter().fold(numbers, Pipeline::snapshots);
        if let Some(summary) = numbers.run_into(session, "fold", || Ok(Fold(0)))?.into_summary() {
            println!(
                "result seconds {} items {} before {} snapshots {}",
                start.elapsed().as_secs_f64(),
                summary.items,
                summary.items_before,
                summary.snapshots.map_or(0, |snapshots| snapshots.count)
            );
        }
        Ok(())
    })?;
    Ok(())
}
