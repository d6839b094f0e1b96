//! DOALL loops as a trait: the framework stores the units' data and moves them.

use std::fmt;

use super::gather::{gather, spread};
use super::rank_loop::RankLoop;
use super::user_code::{DoAll, make};
use crate::comm::endpoint::Endpoint;
use crate::error::{BoxError, Error, Result};
use crate::loops::settings::{LoopKind, Settings, loop_options};
use crate::loops::summary::Summary;
use crate::loops::until::{CheckResult, Converged, Until};
use crate::outcome::Outcome;
use crate::session::{Config, Session};
use crate::user_code;

/// A [`DoAll`] loop with this rank's units. Every rank creates the same loop and runs it in the same way.
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
    /// Creates a loop over `units` units (rows or indices).
    pub fn new(name: &str, units: u64, body: L) -> Self {
        let rank_loop = RankLoop { nowait: L::NOWAIT, ..RankLoop::new(name, units, Settings::default()) };
        DoAllLoop { body, rank_loop }
    }

    loop_options!(common);
    loop_options!(block_size);
    loop_options!(checkpoint);

    pub(in crate::loops) fn change(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        self.rank_loop.change(set);
        self
    }

    /// Runs several passes over all units. A pass begins when all ranks have finished the previous pass, unless passes of the loop [need not
    /// wait](DoAll::NOWAIT) and it has no checkpoint. With 0 passes the units are only created. A further run finds the units where the previous run
    /// left them, and begins with the speeds of the ranks that the previous run has measured.
    ///
    /// Returns when all ranks have finished.
    ///
    /// # Errors
    /// An error or a panic of [`create`](DoAll::create) or [`compute`](DoAll::compute), with the rank, the loop and the units; options that cannot be
    /// used; a rank that is silent for longer than [`Config::peer_limit`](crate::Config::peer_limit). A rank is silent while it computes a block on
    /// the communicating thread. [`Config::driver`](crate::Config::driver) chooses the thread: by default only short blocks run on the communicating
    /// thread, and other blocks may take longer than the limit.
    pub fn run(&mut self, session: &mut Session, passes: u64) -> Result<Outcome<(), Summary>> {
        let (endpoint, config) = session.endpoint();
        self.run_passes(endpoint, config, passes).map(Outcome::of).inspect_err(|error| endpoint.report(error))
    }

    /// Runs passes until the loop has converged. At each check that `until` asks for, each rank contributes the residual of the units that it has
    /// computed, and `is_done` decides on rank 0 whether the combined residual is small enough. All ranks return the result.
    ///
    /// `residual` returns the residual of the passes since its last call, which [`compute`](DoAll::compute) keeps in the loop's body. The largest
    /// residual does not depend on the number of ranks or on where units are; a [sum](Until::sum) does. The summary covers the last sequence of
    /// passes without a check in between.
    ///
    /// # Errors
    /// The errors of [`run`](DoAllLoop::run); a panic of `residual` or `is_done`; [`ErrorKind::Config`](crate::ErrorKind::Config) if a checkpoint is
    /// set, because a checkpoint belongs to a single run.
    ///
    /// ```
    /// use armature::BoxError;
    /// use armature::loops::{DoAll, DoAllLoop, Until};
    ///
    /// /// Square roots by Newton's method, of numbers from 2 on.
    /// struct Roots { change: f64 }
    ///
    /// impl DoAll for Roots {
    ///     type Units = Vec<f64>;
    ///
    ///     fn create(&mut self, range: std::ops::Range<u64>) -> Result<Vec<f64>, BoxError> {
    ///         Ok(range.map(|n| (n + 2) as f64).collect())
    ///     }
    ///
    ///     fn compute(&mut self, range: std::ops::Range<u64>, roots: &mut [f64]) -> Result<(), BoxError> {
    ///         for (n, root) in range.zip(roots) {
    ///             let better = 0.5 * (*root + (n + 2) as f64 / *root);
    ///             self.change = self.change.max((better - *root).abs());
    ///             *root = better;
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let passes = |ranks| {
    ///     armature::run(&armature::Config::new().ranks(ranks), |session| {
    ///         let mut roots = DoAllLoop::new("roots", 50, Roots { change: 0.0 });
    ///         let change = |roots: &mut Roots| std::mem::take(&mut roots.change);
    ///         let end = roots.run_until(session, Until::at_most(100), change, |change| change < 1e-9)?;
    ///         assert!(end.is_converged);
    ///         Ok(end.passes)
    ///     })
    /// };
    /// assert_eq!(passes(3)?, passes(1)?);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn run_until(
        &mut self,
        session: &mut Session,
        until: Until,
        mut residual: impl FnMut(&mut L) -> f64,
        mut is_done: impl FnMut(f64) -> bool,
    ) -> Result<Converged> {
        let checked = until.check().and_then(|()| self.rank_loop.check_has_no_checkpoint());
        let (name, rank) = (self.rank_loop.name().to_string(), session.rank());
        let here = |error: Error| error.in_loop(&name).at_rank(rank);
        session.report_failure(checked.map_err(here))?;
        let (mut last, mut done, mut summary) = (None, 0, None);
        while done < until.passes {
            let passes = until.every.min(until.passes - done);
            self.rank_loop.until = Some((done, until));
            let ran = self.run(session, passes);
            self.rank_loop.until = None;
            summary = ran?.into_summary();
            done += passes;
            if passes < until.every {
                break;
            }
            // No rank computes units (rows or indices) while residuals are gathered, because all ranks have finished the pass.
            let mine = user_code::call(|| Ok::<_, BoxError>(residual(&mut self.body)));
            let mine = session.report_failure(mine.map_err(here))?;
            let all = session.gather(mine)?;
            let check_result = all.map(|all| {
                let residual = all.into_iter().fold(until.nothing(), |sum, one| until.combine(sum, one));
                let is_converged = user_code::call(|| Ok::<_, BoxError>(is_done(residual)));
                is_converged
                    .map(|is_converged| CheckResult { passes: done, residual, is_converged })
                    .map_err(here)
            });
            let check_result = session.report_failure(check_result.transpose())?;
            let check_result = session.broadcast(check_result)?;
            last = Some(check_result);
            if check_result.is_converged {
                break;
            }
        }
        Ok(Converged::new(last, done, summary))
    }

    fn run_passes(
        &mut self,
        endpoint: &mut Endpoint,
        config: &Config,
        passes: u64,
    ) -> Result<Option<Summary>> {
        self.rank_loop.check(LoopKind::DoAll, endpoint.rank())?;
        endpoint.begin_work(&self.rank_loop.announcement(passes), config.join_limit)?;
        self.rank_loop.expect_speeds(config);
        if passes == 0 {
            return self.make(endpoint).map(|()| None);
        }
        let rank = endpoint.rank();
        let left = self.rank_loop.resume(endpoint, config, passes);
        let passes = left.map_err(|error| error.in_loop(self.rank_loop.name()).at_rank(rank))?;
        if passes == 0 {
            return self.make(endpoint).map(|()| None);
        }
        self.rank_loop.run(endpoint, config, passes, (&mut self.body, 0))
    }

    fn make(&mut self, endpoint: &Endpoint) -> Result<()> {
        let rank = endpoint.rank();
        let Some(range) = self.rank_loop.wants(rank, endpoint.size())? else { return Ok(()) };
        let is_set = make(&mut self.body, &range).and_then(|units| self.rank_loop.set_units(range, units));
        is_set.map_err(|error| error.in_loop(self.rank_loop.name()).at_rank(rank))
    }

    /// Returns all units in order on rank 0; `None` on the other ranks. The ranks keep their units.
    ///
    /// # Errors
    /// The errors of [`run`](DoAllLoop::run).
    pub fn collect(&mut self, session: &mut Session) -> Result<Option<L::Units>> {
        let (endpoint, config) = session.endpoint();
        self.gathered(endpoint, config).inspect_err(|error| endpoint.report(error))
    }

    /// Returns all units in order on every rank. The ranks keep their units.
    ///
    /// # Errors
    /// The errors of [`run`](DoAllLoop::run).
    pub fn collect_on_all(&mut self, session: &mut Session) -> Result<L::Units> {
        let (endpoint, config) = session.endpoint();
        let (name, units) = (self.rank_loop.name().to_string(), self.rank_loop.units());
        let all = self.gathered(endpoint, config);
        let all = all.and_then(|all| spread(endpoint, &name, units, all, config.limits()));
        all.inspect_err(|error| endpoint.report(error))
    }

    fn gathered(&mut self, endpoint: &mut Endpoint, config: &Config) -> Result<Option<L::Units>> {
        self.make(endpoint)?;
        let (name, units) = (self.rank_loop.name().to_string(), self.rank_loop.units());
        gather(endpoint, &name, units, self.rank_loop.copies(), config.join_limit)
    }

    /// Returns the body of the loop: the value that implements [`DoAll`].
    pub fn body(&self) -> &L {
        &self.body
    }

    /// Returns the value that implements [`DoAll`], the body of the loop, for changes between runs.
    pub fn body_mut(&mut self) -> &mut L {
        &mut self.body
    }
}

impl<L: DoAll> fmt::Debug for DoAllLoop<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoAllLoop").field("loop", &self.rank_loop).finish_non_exhaustive()
    }
}
