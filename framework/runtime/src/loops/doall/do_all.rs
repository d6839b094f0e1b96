//! Loops as a trait: the framework has the units' data and moves them.

use std::fmt;

use super::gather::{gather, spread};
use super::rank_loop::RankLoop;
use super::user_code::{DoAll, make};
use crate::comm::endpoint::Endpoint;
use crate::error::Result;
use crate::loops::settings::{LoopKind, Settings, loop_options};
use crate::loops::summary::Summary;
use crate::session::Session;

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
    /// [`Config::peer_limit`](crate::Config::peer_limit). A unit may take longer than that, unless blocks are so short that they are
    /// computed inline ([`Config::driver`](crate::Config::driver)). On MPI a failure ends the job instead of returning.
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
        if passes == 0 {
            return self.make(endpoint).map(|()| None);
        }
        self.rank_loop.run(endpoint, session.config(), passes, (&mut self.body, 0))
    }

    /// Makes this rank's units, if it has none yet.
    fn make(&mut self, endpoint: &Endpoint) -> Result<()> {
        let rank = endpoint.rank();
        let Some(range) = self.rank_loop.wants(rank, endpoint.size())? else { return Ok(()) };
        let made = make(&mut self.body, &range).and_then(|units| self.rank_loop.give(range, units));
        made.map_err(|error| error.in_loop(self.rank_loop.name()).at_rank(rank))
    }

    /// All units in their order, on rank 0, or on every rank with [`on_all_ranks`](DoAllLoop::on_all_ranks); `None` on the
    /// others. The ranks keep theirs.
    ///
    /// # Errors
    /// As [`run`](DoAllLoop::run).
    pub fn collect(&mut self, session: &Session) -> Result<Option<L::Units>> {
        let endpoint = &mut *session.endpoint()?;
        let limits = session.config().limits();
        let (name, units) = (self.rank_loop.name().to_string(), self.rank_loop.units());
        let gathered = self.make(endpoint).and_then(|()| {
            let all = gather(endpoint, &name, units, self.rank_loop.copies(), limits.join)?;
            if self.rank_loop.on_all_ranks() {
                spread(endpoint, &name, units, all, limits).map(Some)
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
