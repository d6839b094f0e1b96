//! Loops as a trait: the framework has the units' data and moves them.

use std::fmt;
use std::ops::Range;

use super::gather::{gather, spread};
use super::rank_loop::RankLoop;
use crate::comm::endpoint::Endpoint;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::loops::settings::{LoopKind, Settings, loop_options};
use crate::loops::summary::Summary;
use crate::loops::units::Units;
use crate::session::Session;
use crate::user_code;

/// A DOALL loop: its units do not depend on each other, so that any rank may do any of them.
///
/// See the [module's page](crate::loops) for a complete program. What all ranks need (the other matrix of a product, say)
/// is in `self`; what belongs to the units is in [`Units`](DoAll::Units), and moves with them.
pub trait DoAll {
    /// Where the data of neighbouring units lie.
    type Units: Units;

    /// Whether a unit may be done again before all others have been done in the same pass. Then [passes](DoAllLoop::run) of it
    /// are one stretch of work without barriers in between, and nobody waits for the slowest rank before its end. It is for
    /// loops in which a pass changes nothing that other units read: independent simulations that go on step by step, say.
    const NOWAIT: bool = false;

    /// The data of these units, on the rank that has them first. It is called once on each rank, before its first pass;
    /// `range` is empty where there are fewer units than ranks. Units out of a [checkpoint](DoAllLoop::checkpoint) are not
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
}

/// A [`DoAll`] loop with the units that this rank has of it. Every rank makes the same and runs it in the same way.
///
/// ```
/// use armature::BoxError;
/// use armature::loops::{DoAll, DoAllLoop};
///
/// struct Squares;
///
/// impl DoAll for Squares {
///     type Units = Vec<u64>;
///
///     fn create(&mut self, range: std::ops::Range<u64>) -> Result<Vec<u64>, BoxError> {
///         Ok(range.collect())
///     }
///
///     fn compute(&mut self, _: std::ops::Range<u64>, numbers: &mut [u64]) -> Result<(), BoxError> {
///         numbers.iter_mut().for_each(|x| *x *= *x);
///         Ok(())
///     }
/// }
///
/// let config = armature::Config::new().ranks(3);
/// let numbers = armature::run(&config, |session| {
///     let mut squares = DoAllLoop::new("squares", 5, Squares);
///     squares.run(session, 2)?;
///     Ok(squares.collect(session)?)
/// })?;
/// assert_eq!(numbers.unwrap(), [0, 1, 16, 81, 256]);
/// # Ok::<(), armature::Error>(())
/// ```
#[must_use = "a loop does nothing until it is run"]
pub struct DoAllLoop<L: DoAll> {
    body: L,
    rank_loop: RankLoop<L::Units>,
}

impl<L: DoAll> DoAllLoop<L> {
    /// A loop over `units` units.
    pub fn new(name: &str, units: u64, body: L) -> Self {
        let rank_loop = RankLoop { nowait: L::NOWAIT, ..RankLoop::new(name, units, Settings::new()) };
        DoAllLoop { body, rank_loop }
    }

    loop_options!(settings);
    loop_options!(common);
    loop_options!(block_size);
    loop_options!(checkpoint);

    fn change(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        self.rank_loop.change(set);
        self
    }

    /// Several passes over all units, each when all ranks are done with the one before, unless the loop is one of those that
    /// [need not wait](DoAll::NOWAIT) and keeps no checkpoints. 0 passes only make the units. Called again, it finds the units
    /// where the run before has left them, and begins with what that has learned of the ranks.
    ///
    /// Returns a [`Summary`] on rank 0 and `None` on the others, when all ranks are done.
    ///
    /// # Errors
    /// An error or a panic of [`create`](DoAll::create) or [`compute`](DoAll::compute), with the rank, the loop and the
    /// units; options that cannot be used; a rank that is silent for longer than
    /// [`Config::peer_limit`](crate::Config::peer_limit), as one is during a unit that takes as long. On MPI a failure ends the
    /// job instead of returning.
    pub fn run(&mut self, session: &Session, passes: u64) -> Result<Option<Summary>> {
        let endpoint = &mut *session.endpoint()?;
        self.go(session, endpoint, passes).inspect_err(|error| endpoint.report(error))
    }

    fn go(&mut self, session: &Session, endpoint: &mut Endpoint, passes: u64) -> Result<Option<Summary>> {
        self.rank_loop.check(LoopKind::DoAll, endpoint.rank())?;
        endpoint.begin_run(&self.rank_loop.announcement(passes), session.config().join_limit)?;
        if passes == 0 {
            return self.make(endpoint).map(|()| None);
        }
        let rank = endpoint.rank();
        let left = self.rank_loop.resume(endpoint, session.config(), passes);
        let passes = left.map_err(|error| error.in_loop(self.rank_loop.name()).at_rank(rank))?;
        self.make(endpoint)?;
        if passes == 0 {
            return Ok(None);
        }
        let DoAllLoop { body, rank_loop } = self;
        rank_loop.begin(endpoint, session.config(), passes)?;
        while let Some(block) = rank_loop.next(endpoint)? {
            let done = match rank_loop.slices(&block) {
                Some(units) => user_code::call(|| body.compute(block.range.clone(), units)),
                None => Err(Error::new(ErrorKind::Wire, "the block is not here")),
            };
            done.map_err(|error| rank_loop.blame(&error, &block, 0, rank))?;
        }
        Ok(rank_loop.finish())
    }

    /// Makes this rank's units, if it has none yet.
    fn make(&mut self, endpoint: &Endpoint) -> Result<()> {
        let rank = endpoint.rank();
        let Some(range) = self.rank_loop.wants(rank, endpoint.size())? else { return Ok(()) };
        let made = user_code::call(|| self.body.create(range.clone())).map_err(|error| {
            let text = format!("{} (in making units {}..{})", error.message(), range.start, range.end);
            Error::new(error.kind(), text).in_loop(self.rank_loop.name()).at_rank(rank)
        })?;
        self.rank_loop.give(rank, range, made)
    }

    /// All units in their order, on rank 0, or on every rank with [`on_all_ranks`](DoAllLoop::on_all_ranks); `None` on the
    /// others. The ranks keep theirs.
    ///
    /// # Errors
    /// As [`run`](DoAllLoop::run).
    pub fn collect(&mut self, session: &Session) -> Result<Option<L::Units>> {
        let endpoint = &mut *session.endpoint()?;
        let limit = session.config().join_limit;
        let (name, units) = (self.rank_loop.name().to_string(), self.rank_loop.units());
        let gathered = self.make(endpoint).and_then(|()| {
            let all = gather(endpoint, &name, units, self.rank_loop.copies(), limit)?;
            if self.rank_loop.on_all_ranks() {
                spread(endpoint, &name, units, all, limit).map(Some)
            } else {
                Ok(all)
            }
        });
        gathered.inspect_err(|error| endpoint.report(error))
    }

    /// What is computed.
    pub fn body(&self) -> &L {
        &self.body
    }

    /// The same, to be changed between runs.
    pub fn body_mut(&mut self) -> &mut L {
        &mut self.body
    }
}

impl<L: DoAll> fmt::Debug for DoAllLoop<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoAllLoop").field("loop", &self.rank_loop).finish_non_exhaustive()
    }
}
