//! Interface to the user code of a DOALL loop, which creates a rank's units (rows or indices) and computes blocks of them.

use std::ops::Range;
use std::time::Duration;

use super::unit_queue::UnitBlock;
use crate::error::{BoxError, Error, Result};
use crate::loops::metrics::{BlockTime, BlockTimer};
use crate::loops::units::Units;
use crate::observe::Tally;
use crate::rank::user_code::UserCode;
use crate::user_code;

/// A DOALL loop: its units do not depend on each other, so that any rank may compute any unit.
///
/// See the [module's page](crate::loops) for a complete program. Data that all ranks need, such as the right-hand matrix of a product, are in `self`.
/// Data of the units are in [`Units`](DoAll::Units) and move with the units. Except for short blocks, user code runs on a thread apart from the
/// one that communicates, so a unit may take long.
pub trait DoAll: Send {
    /// Storage of the data of neighbouring units (rows or indices).
    type Units: Units;

    /// True if a unit (row or index) may be computed again before all other units have been computed in the same pass. All
    /// [passes](super::DoAllLoop::run) of a run then follow each other without barriers, and ranks wait for the slowest one only at the end of the
    /// run. This suits loops in which a pass changes nothing that other units read, such as independent simulations that advance step by step.
    const NOWAIT: bool = false;

    /// Creates the data of the units (rows or indices) in `range`, on the rank that holds them first. It is called once on each rank, before
    /// its first pass; `range` is empty if there are fewer units than ranks. It is not called for units that are read from a
    /// [checkpoint](super::DoAllLoop::checkpoint).
    ///
    /// # Errors
    /// Any error ends the job.
    fn create(&mut self, range: Range<u64>) -> Result<Self::Units, BoxError>;

    /// Computes some neighbouring units (rows or indices), whose data are `units`. Each unit is computed exactly once per pass, in blocks that
    /// differ from run to run, so results must not depend on where a block begins or ends.
    ///
    /// # Errors
    /// Any error ends the job.
    fn compute(
        &mut self,
        range: Range<u64>,
        units: <Self::Units as Units>::Slices<'_>,
    ) -> Result<(), BoxError>;
}

#[derive(Debug)]
pub(in crate::loops) enum Job<U> {
    /// Create the data of the units (rows or indices) of this range.
    Create(Range<u64>),
    /// Compute a block of units. `units` is the data of the segment (sequence of consecutive rows or indices) that contains the block, which
    /// begins at index `at` in it. `pass` is the number of the pass, if the run has several.
    Block { block: UnitBlock, units: U, at: usize, pass: Option<u64> },
}

#[derive(Debug)]
pub(in crate::loops) enum Done<U> {
    Created(U),
    /// Range of the computed units (rows or indices), data of the segment (sequence of consecutive units) that contains them, and
    /// duration of the call.
    Block(Range<u64>, U, BlockTime),
}

/// Hides the type of the user's loop from the code that executes runs. The data of the loop's units (rows or indices) are stored as
/// `U`.
pub(in crate::loops) trait Body<U>: Send {
    fn create(&mut self, range: Range<u64>) -> Result<U, BoxError>;

    /// Computes the units (rows or indices) in `range`, whose data begin at index `at` of `units`.
    fn compute(&mut self, range: Range<u64>, units: &mut U, at: usize) -> Result<(), BoxError>;

    fn failed_in(&self) -> Option<u64> {
        None
    }
}

impl<L: DoAll> Body<L::Units> for L {
    fn create(&mut self, range: Range<u64>) -> Result<L::Units, BoxError> {
        DoAll::create(self, range)
    }

    fn compute(&mut self, range: Range<u64>, units: &mut L::Units, at: usize) -> Result<(), BoxError> {
        // The cast to `usize` is lossless, because the units (rows or indices) are in memory.
        let count = (range.end - range.start) as usize;
        DoAll::compute(self, range, units.slices(at..at + count))
    }
}

pub(super) struct LoopCode<'l, U> {
    pub(in crate::loops) body: &'l mut (dyn Body<U> + 'l),
    pub(in crate::loops) timer: BlockTimer,
    /// Number of the loop's first unit (row or index), for error messages.
    pub(in crate::loops) base: u64,
}

impl<U: Units> UserCode for LoopCode<'_, U> {
    type Job = Job<U>;
    type Done = Done<U>;

    fn run(&mut self, job: Job<U>) -> Result<Option<Done<U>>> {
        match job {
            Job::Create(range) => make(self.body, &range).map(|units| Some(Done::Created(units))),
            Job::Block { block, mut units, at, pass } => {
                let start = self.timer.begin();
                let computed = user_code::call(|| self.body.compute(block.range.clone(), &mut units, at));
                computed.map_err(|error| {
                    let unit = self.body.failed_in().map(|unit| unit..unit + 1);
                    blame(&error, unit.as_ref().unwrap_or(&block.range), self.base, pass)
                })?;
                Ok(Some(Done::Block(block.range, units, self.timer.end(&start))))
            }
        }
    }

    fn answers(_: &Job<U>) -> bool {
        true
    }

    fn is_work(job: &Job<U>) -> bool {
        matches!(job, Job::Block { .. })
    }

    fn may_block(&self, job: &Job<U>) -> bool {
        // User code that creates units (rows or indices) may read files, so it may take long even if earlier calls of user code were short.
        matches!(job, Job::Create(_))
    }

    fn took(done: &Done<U>) -> Option<Duration> {
        match done {
            Done::Created(_) => None,
            Done::Block(_, _, time) => Some(time.took),
        }
    }

    const KIND: &'static str = "unit";

    fn tally(done: &Done<U>, tally: &mut Tally) {
        add_to_tally(done, tally);
    }
}

fn add_to_tally<U>(done: &Done<U>, tally: &mut Tally) {
    if let Done::Block(units, _, time) = done {
        tally.add(0, Some(units.start), units.end - units.start, time.took);
    }
}

/// Takes the place of user code in a loop whose caller processes ranges of indices itself: keeps the next block for the caller.
#[derive(Debug, Default)]
pub(in crate::loops) struct ByCaller(pub(in crate::loops) Option<UnitBlock>);

impl UserCode for ByCaller {
    type Job = Job<()>;
    type Done = Done<()>;

    fn run(&mut self, job: Job<()>) -> Result<Option<Done<()>>> {
        match job {
            Job::Create(_) => Ok(Some(Done::Created(()))),
            Job::Block { block, .. } => {
                self.0 = Some(block);
                Ok(None)
            }
        }
    }

    fn answers(job: &Job<()>) -> bool {
        matches!(job, Job::Create(_))
    }

    fn is_work(job: &Job<()>) -> bool {
        matches!(job, Job::Block { .. })
    }

    fn may_block(&self, _: &Job<()>) -> bool {
        false
    }

    fn took(done: &Done<()>) -> Option<Duration> {
        match done {
            Done::Created(()) => None,
            Done::Block(_, (), time) => Some(time.took),
        }
    }

    const KIND: &'static str = "unit";

    fn tally(done: &Done<()>, tally: &mut Tally) {
        add_to_tally(done, tally);
    }
}

/// # Errors
/// The error of [`DoAll::create`], with the numbers of the units (rows or indices).
pub(super) fn make<U>(body: &mut dyn Body<U>, range: &Range<u64>) -> Result<U> {
    user_code::call(|| body.create(range.clone())).map_err(|error| {
        let text = format!("{} (while creating units {}..{})", error.message(), range.start, range.end);
        Error::new(error.kind(), text)
    })
}

/// Adds the numbers of the units (rows or indices) and of the pass to an error of user code. `base` is the number of the loop's first
/// unit.
pub(in crate::loops) fn blame(error: &Error, units: &Range<u64>, base: u64, pass: Option<u64>) -> Error {
    let pass = pass.map_or_else(String::new, |pass| format!(" of pass {pass}"));
    let units = match units.start + base..units.end + base {
        Range { start, end } if end == start + 1 => format!("unit {start}"),
        Range { start, end } => format!("units {start}..{end}"),
    };
    Error::new(error.kind(), format!("{} (in {units}{pass})", error.message()))
}
