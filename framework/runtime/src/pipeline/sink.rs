//! Sinks of a pipeline whose output survives a restart of the job: the trait, and the output file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use armature_files::partial::PartialOutput;

use crate::error::BoxError;
use crate::wire::Item;

/// Sink of a pipeline whose output survives a restart of the job. It runs on rank 0.
///
/// With [snapshots](super::Pipeline::snapshots), every item reaches the output exactly once, in any number of starts of the job: a job that
/// continues from a snapshot calls [`resume`](Sink::resume), which must undo everything after the commit of that snapshot. Without snapshots,
/// only [`take`](Sink::take) and [`finish`](Sink::finish) are called.
pub trait Sink: Send {
    /// Type of the items that the sink takes.
    type In: Item;

    /// Receives the next item that has passed all stages.
    ///
    /// # Errors
    /// An error ends the job.
    fn take(&mut self, item: Self::In) -> Result<(), BoxError>;

    /// Makes all output durable that the sink has taken, which is everything that the pipeline has made from the first `items` items of its source.
    /// Returns the state from which the sink can resume, such as the length of a file.
    ///
    /// # Errors
    /// An error ends the job.
    fn commit(&mut self, items: u64) -> Result<Vec<u8>, BoxError>;

    /// Continues behind the [`commit`](Sink::commit) that was called with `items` and returned `state`, and undoes everything that was taken after
    /// it. This is the first call in a job that continues from a snapshot. A job may have died after a commit and before its snapshot was complete,
    /// so the sink may have committed items after it.
    ///
    /// # Errors
    /// An error ends the job.
    fn resume(&mut self, items: u64, state: &[u8]) -> Result<(), BoxError>;

    /// Ends the output, when all items have been taken and, with snapshots, committed. A later start of the job may call `finish` again, after
    /// [`resume`](Sink::resume).
    ///
    /// # Errors
    /// An error ends the job.
    fn finish(&mut self) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Output file as a sink of a pipeline. The function `F` writes an item to the file.
pub(crate) struct FileSink<T, F> {
    path: PathBuf,
    /// The output file; `None` when the output has ended.
    output: Option<PartialOutput>,
    write: F,
    item: std::marker::PhantomData<fn(T)>,
}

impl<T, F> FileSink<T, F> {
    /// # Errors
    /// If `path` is not the path of a regular file or of a new one, or its directory does not exist.
    pub(crate) fn new(path: PathBuf, write: F) -> Result<Self, BoxError> {
        let output = PartialOutput::new(&path).map_err(|error| wrong(&path, error))?;
        Ok(FileSink { path, output: Some(output), write, item: std::marker::PhantomData })
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut PartialOutput) -> io::Result<R>) -> Result<R, BoxError> {
        let output = self.output.as_mut().ok_or("the output has ended")?;
        f(output).map_err(|error| wrong(&self.path, error))
    }
}

fn wrong(path: &Path, error: io::Error) -> BoxError {
    format!("cannot write the output {}: {error}", path.display()).into()
}

impl<T, F> Sink for FileSink<T, F>
where
    T: Item,
    F: FnMut(T, &mut dyn Write) -> Result<(), BoxError> + Send,
{
    type In = T;

    fn take(&mut self, item: T) -> Result<(), BoxError> {
        let output = self.output.as_mut().ok_or("the output has ended")?;
        (self.write)(item, output)
    }

    fn commit(&mut self, _: u64) -> Result<Vec<u8>, BoxError> {
        Ok(self.with(PartialOutput::sync)?.to_le_bytes().to_vec())
    }

    fn resume(&mut self, _: u64, state: &[u8]) -> Result<(), BoxError> {
        let length = state.try_into().map(u64::from_le_bytes);
        let length = length.map_err(|_| "the snapshot does not hold the length of an output file")?;
        self.with(|output| output.resume(length))
    }

    fn finish(&mut self) -> Result<(), BoxError> {
        let output = self.output.take();
        output.map_or(Ok(()), PartialOutput::finish).map_err(|error| wrong(&self.path, error))
    }
}
