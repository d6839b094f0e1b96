//! Output of a pipeline: standard output, or a file that a job with snapshots continues after a restart.

use crate::loops::{checkpoint, parse_seconds};
use crate::names;
use crate::terminal::{self, Reader};
use armature::pipeline::{Pipeline, Sink, Summary};
use armature::{BoxError, Item, Session};
use armature_files::output::Output;
use armature_files::partial::PartialOutput;
use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Directory of the snapshots of a pipeline.
#[derive(Clone, Debug, Default, Args)]
pub struct SnapshotArgs {
    /// Save the progress in this directory on the host of rank 0. A job that is started again with it, on any number of ranks, continues from the
    /// last snapshot, and writes each result once
    #[arg(long, value_name = "DIR")]
    snapshots: Option<PathBuf>,
    /// Fixed time between two snapshots, in seconds [default: from their cost, see --checkpoint-overhead]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, requires = "snapshots")]
    snapshot_every: Option<f64>,
}

impl SnapshotArgs {
    /// Returns true if the user requested snapshots (saved states) of the pipeline.
    pub fn is_given(&self) -> bool {
        self.snapshots.is_some()
    }

    /// Returns the pipeline with the requested snapshots. `identity` returns a text that names everything on which the output depends; only the text
    /// of rank 0 is used.
    pub fn add_to<'p, T>(&self, job: Pipeline<'p, T>, identity: impl FnOnce() -> String) -> Pipeline<'p, T> {
        match &self.snapshots {
            Some(dir) => job.snapshots(checkpoint(dir, self.snapshot_every, &identity())),
            None => job,
        }
    }
}

/// Returns a short text that distinguishes lists of input names: the length and a checksum of the list. It serves as part of a job's identity.
pub fn fingerprint(list: &[impl Serialize]) -> String {
    let bytes = serde_json::to_vec(list).unwrap_or_default();
    let fnv = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{} ({:016x})", list.len(), bytes.iter().fold(0xcbf2_9ce4_8422_2325, fnv))
}

/// Destination of the output of a program: standard output or a file. The default, for ranks other than 0, discards the output.
#[derive(Debug, Default)]
pub struct Destination {
    to: To,
    path: PathBuf,
}

#[derive(Debug, Default)]
enum To {
    #[default]
    Nothing,
    Terminal(Box<BufWriter<terminal::Output>>),
    File(Output),
    Partial(PartialOutput),
}

impl Destination {
    /// Opens a file, or standard output if there is no `path`. Only a file can be continued by a job with snapshots.
    ///
    /// # Errors
    /// The file cannot be written; snapshots are requested without a file.
    pub fn open(path: Option<&Path>, snapshots: &SnapshotArgs) -> Result<Self, String> {
        let to = match (path, snapshots.is_given()) {
            (None, true) => {
                let text = "--snapshots needs an output file, -o FILE: lines on standard output cannot be taken back after a restart";
                return Err(text.into());
            }
            (None, false) => To::Terminal(Box::new(BufWriter::new(terminal::Output::standard()))),
            (Some(path), true) => {
                To::Partial(PartialOutput::new(path).map_err(|error| refused(path, error))?)
            }
            (Some(path), false) => To::File(Output::create(path).map_err(|error| refused(path, error))?),
        };
        Ok(Destination { to, path: path.unwrap_or(Path::new("")).to_path_buf() })
    }

    /// Returns a handle that shows whether the reader of standard output has closed it. For a file, the handle never shows this.
    pub fn reader(&self) -> Reader {
        match &self.to {
            To::Terminal(terminal) => terminal.get_ref().reader(),
            _ => Reader::default(),
        }
    }

    /// Flushes the output. A file appears at its path only after this call.
    /// # Errors
    /// The output cannot be written.
    pub fn finish(self) -> Result<(), BoxError> {
        match self.to {
            To::Nothing => {}
            To::Terminal(mut terminal) => terminal.flush()?,
            To::File(file) => file.commit().map_err(|error| refused(&self.path, error))?,
            To::Partial(file) => file.finish().map_err(|error| refused(&self.path, error))?,
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<u64, String> {
        let To::Partial(file) = &mut self.to else { return Ok(0) };
        file.sync().map_err(|error| refused(&self.path, error))
    }

    /// Continues the output file of a restarted job behind its first `length` bytes, the length that the last snapshot contains.
    fn resume(&mut self, length: u64) -> Result<(), String> {
        let To::Partial(file) = &mut self.to else { return Ok(()) };
        file.resume(length).map_err(|error| refused(&self.path, error))
    }
}

fn refused(path: &Path, error: impl Display) -> String {
    format!("cannot write {}: {error}", names::path(path))
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.to {
            To::Nothing => Ok(bytes.len()),
            To::Terminal(terminal) => return terminal.write(bytes),
            To::File(file) => file.write(bytes),
            To::Partial(file) => file.write(bytes),
        };
        written.map_err(|error| io::Error::new(error.kind(), refused(&self.path, error)))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = match &mut self.to {
            To::Nothing => Ok(()),
            To::Terminal(terminal) => return terminal.flush(),
            To::File(file) => file.flush(),
            To::Partial(file) => file.flush(),
        };
        flushed.map_err(|error| io::Error::new(error.kind(), refused(&self.path, error)))
    }
}

/// Runs a pipeline whose sink on rank 0 passes each item to `take`, which writes to `to` and updates `state`. The snapshots of the pipeline contain
/// the length of the output file and the state, so that a restarted job ends with the file and state of an undisturbed run. Returns the summary on
/// rank 0.
///
/// # Errors
/// The errors of the pipeline and of `take`.
pub fn run_into<'p, T: Item, S: Serialize + DeserializeOwned + Send>(
    job: Pipeline<'p, T>,
    (session, name): (&mut Session, &str),
    (to, state): (&'p mut Destination, &'p mut S),
    take: impl FnMut(T, &mut S, &mut Destination) -> Result<(), BoxError> + Send + 'p,
) -> Result<Option<Summary>, BoxError> {
    let sink = StatefulSink { to, state, take, item: PhantomData };
    Ok(job.run_into(session, name, || Ok(sink))?.into_summary())
}

/// Sink of a pipeline that writes items to a file and updates a state. A snapshot contains the state and the length of the file.
struct StatefulSink<'s, T, S, F> {
    to: &'s mut Destination,
    state: &'s mut S,
    take: F,
    item: PhantomData<fn(T)>,
}

impl<T, S, F> Sink for StatefulSink<'_, T, S, F>
where
    T: Item,
    S: Serialize + DeserializeOwned + Send,
    F: FnMut(T, &mut S, &mut Destination) -> Result<(), BoxError> + Send,
{
    type In = T;

    fn take(&mut self, item: T) -> Result<(), BoxError> {
        (self.take)(item, self.state, self.to)
    }

    fn commit(&mut self, _: u64) -> Result<Vec<u8>, BoxError> {
        Ok(serde_json::to_vec(&(self.to.sync()?, &*self.state))?)
    }

    fn resume(&mut self, _: u64, saved: &[u8]) -> Result<(), BoxError> {
        let (length, state) = serde_json::from_slice(saved)?;
        *self.state = state;
        Ok(self.to.resume(length)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armature::Config;
    use clap::Parser;
    use std::fs;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        snapshots: SnapshotArgs,
    }

    fn snapshots(arguments: &str) -> Result<SnapshotArgs, String> {
        let line = Line::try_parse_from(["test"].into_iter().chain(arguments.split_whitespace()));
        line.map(|line| line.snapshots).map_err(|error| error.to_string())
    }

    /// Runs a job with snapshots that writes the numbers from 0 to 99 to `dir/out` and fails before the number `fails_at`. Returns the sum of all
    /// numbers, and the count of numbers that this start of the job processed.
    fn sum(dir: &Path, fails_at: Option<u64>) -> Result<(u64, u64), String> {
        let kept = dir.join("kept");
        let snapshots = snapshots(&format!("--snapshots {} --snapshot-every 0", kept.display()))?;
        let summed = armature::run(&Config::new().ranks(2), |session| {
            let (mut to, mut sum) = (Destination::default(), 0);
            if session.is_root() {
                to = Destination::open(Some(&dir.join("out")), &snapshots)?;
            }
            let numbers = Pipeline::source("numbers", || 0..100_u64).map("same", |x| {
                std::thread::sleep(std::time::Duration::from_micros(100));
                x
            });
            let numbers = numbers.batch(armature::BatchMode::Fixed(1)).window(4);
            let numbers = snapshots.add_to(numbers, || "up to 99".into());
            let done = run_into(numbers, (session, "sum"), (&mut to, &mut sum), |x, sum, to| {
                if fails_at == Some(x) {
                    return Err("enough".into());
                }
                *sum += x;
                Ok(writeln!(to, "{x}")?)
            })?;
            to.finish()?;
            Ok(done.map(|summary| (sum, summary.items)))
        });
        summed.map(Option::unwrap).map_err(|error| error.to_string())
    }

    #[test]
    fn file_and_state_are_continued_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        assert!(sum(dir.path(), Some(90)).unwrap_err().contains("enough"));
        assert!(!out.exists(), "the output is not complete");
        let (total, items) = sum(dir.path(), None).unwrap();
        assert!(total == 4950 && items < 100, "{total} after {items} items");
        let expected: String = (0..100).map(|x| format!("{x}\n")).collect();
        assert_eq!(fs::read_to_string(&out).unwrap(), expected);
        assert_eq!(sum(dir.path(), None), Ok((4950, 0)));
        assert_eq!(fs::read_to_string(&out).unwrap(), expected);
    }

    #[test]
    fn unusable_options_are_refused() {
        assert!(snapshots("--snapshot-every 3").unwrap_err().contains("--snapshots <DIR>"));
        assert!(snapshots("--snapshots kept --snapshot-every -1").is_err());
        let given = snapshots("--snapshots kept").unwrap();
        assert!(Destination::open(None, &given).unwrap_err().contains("-o FILE"));
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing/out");
        for unusable in [dir.path(), &missing] {
            assert!(Destination::open(Some(unusable), &given).unwrap_err().contains("cannot write "));
        }
    }

    #[test]
    fn fingerprint_depends_on_each_element() {
        assert_eq!(fingerprint(&["a", "b"]), fingerprint(&["a", "b"]));
        assert_ne!(fingerprint(&["a", "b"]), fingerprint(&["ab"]));
        assert!(fingerprint(&["a", "b"]).starts_with("2 ("));
    }
}
