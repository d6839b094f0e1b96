//! The user code of a DOALL loop: it makes this rank's units, and does blocks of them.

use std::ops::Range;
use std::time::Duration;

use super::unit_queue::UnitBlock;
use crate::error::{BoxError, Error, Result};
use crate::loops::metrics::{BlockTime, BlockTimer};
use crate::loops::units::Units;
use crate::observe::Tally;
use crate::rank::user_code::UserCode;
use crate::user_code;

/// A DOALL loop: its units do not depend on each other, so that any rank may do any of them.
///
/// See the [module's page](crate::loops) for a complete program. What all ranks need (the other matrix of a product, say)
/// is in `self`; what belongs to the units is in [`Units`](DoAll::Units), and moves with them. Both are used on a thread beside the one
/// that communicates, so that a unit may take long.
pub trait DoAll: Send {
    /// Where the data of neighbouring units lie.
    type Units: Units;

    /// Whether a unit may be done again before all others have been done in the same pass. Then [passes](super::DoAllLoop::run) of it
    /// are one stretch of work without barriers in between, and nobody waits for the slowest rank before its end. It is for
    /// loops in which a pass changes nothing that other units read: independent simulations that go on step by step, say.
    const NOWAIT: bool = false;

    /// The data of these units, on the rank that has them first. It is called once on each rank, before its first pass;
    /// `range` is empty where there are fewer units than ranks. Units out of a [checkpoint](super::DoAllLoop::checkpoint) are not
    /// made.
    ///
    /// # Errors
    /// Any, which ends the job.
    fn create(&mut self, range: Range<u64>) -> Result<Self::Units, BoxError>;

    /// Does some neighbouring units, whose data are `units`. Each unit is done exactly once a pass, in blocks that differ
    /// from run to run: results must not depend on where a block begins or ends.
    ///
    /// # Errors
    /// Any, which ends the job.
    fn compute(
        &mut self,
        range: Range<u64>,
        units: <Self::Units as Units>::Slices<'_>,
    ) -> Result<(), BoxError>;

    /// The unit in which the last [`compute`](DoAll::compute) was when it failed, where the body knows.
    #[doc(hidden)]
    fn failed_in(&self) -> Option<u64> {
        None
    }
}

/// What user code is asked.
#[derive(Debug)]
pub(in crate::loops) enum Job<U> {
    /// To make these units.
    Create(Range<u64>),
    /// To do a block. The data of its segment travel along, in which it begins at `at`; with the pass, where there are several.
    Block { block: UnitBlock, units: U, at: usize, pass: Option<u64> },
}

/// What user code answers.
#[derive(Debug)]
pub(in crate::loops) enum Done<U> {
    Created(U),
    /// The units that were done, the data of the block's segment, and what it took.
    Block(Range<u64>, U, BlockTime),
}

/// A [`DoAll`] on its rank.
pub(super) struct LoopCode<'l, L> {
    pub(in crate::loops) body: &'l mut L,
    pub(in crate::loops) timer: BlockTimer,
    /// The number of the loop's first unit, for errors.
    pub(in crate::loops) base: u64,
}

impl<L: DoAll> UserCode for LoopCode<'_, L> {
    type Task = Job<L::Units>;
    type Outcome = Done<L::Units>;

    fn run(&mut self, job: Job<L::Units>) -> Result<Option<Done<L::Units>>> {
        match job {
            Job::Create(range) => make(self.body, &range).map(|units| Some(Done::Created(units))),
            Job::Block { block, mut units, at, pass } => {
                let begun = self.timer.begin();
                // What is in memory can be counted in a usize.
                let slices = units.slices(at..at + block.len() as usize);
                user_code::call(|| self.body.compute(block.range.clone(), slices)).map_err(|error| {
                    let unit = self.body.failed_in().map(|unit| unit..unit + 1);
                    blame(&error, unit.as_ref().unwrap_or(&block.range), self.base, pass)
                })?;
                Ok(Some(Done::Block(block.range, units, self.timer.end(&begun))))
            }
        }
    }

    fn answers(_: &Job<L::Units>) -> bool {
        true
    }

    fn may_block(&self, job: &Job<L::Units>) -> bool {
        // It may read files.
        matches!(job, Job::Create(_))
    }

    fn took(done: &Done<L::Units>) -> Option<Duration> {
        match done {
            Done::Created(_) => None,
            Done::Block(_, _, time) => Some(time.took),
        }
    }

    const KIND: &'static str = "unit";

    fn tally(done: &Done<L::Units>, tally: &mut Tally) {
        note(done, tally);
    }
}

fn note<U>(done: &Done<U>, tally: &mut Tally) {
    if let Done::Block(units, _, time) = done {
        tally.add(0, Some(units.start), units.end - units.start, time.took);
    }
}

/// Where the caller does the blocks itself: what it is to do.
#[derive(Debug, Default)]
pub(in crate::loops) struct ByCaller(pub(in crate::loops) Option<UnitBlock>);

impl UserCode for ByCaller {
    type Task = Job<()>;
    type Outcome = Done<()>;

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
        note(done, tally);
    }
}

/// The data of these units.
///
/// # Errors
/// What [`DoAll::create`] returns, with the units.
pub(super) fn make<L: DoAll>(body: &mut L, range: &Range<u64>) -> Result<L::Units> {
    user_code::call(|| body.create(range.clone())).map_err(|error| {
        let text = format!("{} (in making units {}..{})", error.message(), range.start, range.end);
        Error::new(error.kind(), text)
    })
}

/// An error of user code in these units; the loop's first unit has the number `base`.
pub(in crate::loops) fn blame(error: &Error, units: &Range<u64>, base: u64, pass: Option<u64>) -> Error {
    let pass = pass.map_or_else(String::new, |pass| format!(" of pass {pass}"));
    let units = match units.start + base..units.end + base {
        Range { start, end } if end == start + 1 => format!("unit {start}"),
        Range { start, end } => format!("units {start}..{end}"),
    };
    Error::new(error.kind(), format!("{} (in {units}{pass})", error.message()))
}
