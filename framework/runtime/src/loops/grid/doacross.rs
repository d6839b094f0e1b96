//! Loops whose rows depend on both neighbouring rows of the same grid: Gauss-Seidel order.

use std::fmt;
use std::ops::Range;

use bytemuck::Pod;

use super::convergence::UntilDone;
use super::findings::{Findings, Resume, nothing_found};
use super::grid_loop::{Begin, GridLoop, Passes};
use super::local_rows::LocalRows;
use super::prefetch::in_bands;
use super::shape::Shape;
use super::strip_width::StripWidth;
use super::view::Grid;
use super::wavefront::Wavefront;
use super::worker::typed;
use crate::error::{BoxError, Result};
use crate::loops::settings::{LoopKind, Settings, loop_options};
use crate::loops::summary::Summary;
use crate::loops::until::{Converged, OwnResidual, Until};
use crate::outcome::Outcome;
use crate::session::Session;

/// A loop nest that sweeps repeatedly over a grid, in place. Each value depends on values above and to the left, which the present sweep has already
/// computed, and on values below and to the right, which it has not.
///
/// The rows are the units of the loop, and move. Each rank computes its rows in *strips* of some columns, all rows of one strip before the next
/// strip, so the rank below can begin when the first strip is done. The dependences of a value must allow this order:
///
/// - above: on the previous row, in its own column and those before it;
/// - in its own row: on any column;
/// - below: on the next row, in its own column and those after it within the strip.
pub trait DoAcross: Send {
    /// Type of the values of the grid: plain data.
    type Value: Pod + Send;

    /// Writes the initial values of a row of the whole grid, fixed edges included. It is called for the initial rows of the rank, and for one row
    /// above and one row below them.
    ///
    /// # Errors
    /// Any error ends the job.
    fn row(&mut self, index: u64, values: &mut [Self::Value]) -> Result<(), BoxError>;

    /// Computes `columns` of all rows of `grid` except its first and last, as the serial loop would. The grid contains all rows of the rank, or a few
    /// neighbouring rows at a time, from top to bottom, while the next rows are fetched from memory.
    ///
    /// The computation of a row must not depend on the number of rows in the grid.
    ///
    /// # Errors
    /// Any error ends the job.
    fn sweep(&mut self, grid: Grid<'_, Self::Value>, columns: Range<usize>) -> Result<(), BoxError>;
}

/// Runs a [`DoAcross`] loop on all ranks.
///
/// Every rank creates the same loop and calls the same methods. The grid stays distributed over the ranks from run to run.
///
/// ```
/// use std::ops::Range;
/// use armature::BoxError;
/// use armature::loops::{DoAcross, Grid, Shape, DoAcrossLoop};
///
/// struct Relax;
///
/// impl DoAcross for Relax {
///     type Value = f64;
///
///     fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
///         // The upper edge is hot.
///         values.fill(if index == 0 { 1.0 } else { 0.0 });
///         Ok(())
///     }
///
///     fn sweep(&mut self, grid: Grid<'_, f64>, columns: Range<usize>) -> Result<(), BoxError> {
///         relax(grid.values, grid.width, columns);
///         Ok(())
///     }
/// }
///
/// /// The serial loop.
/// fn relax(b: &mut [f64], width: usize, columns: Range<usize>) {
///     for row in 1..b.len() / width - 1 {
///         for i in row * width + columns.start..row * width + columns.end {
///             b[i] = 0.25 * (b[i - width] + b[i - 1] + b[i + 1] + b[i + width]);
///         }
///     }
/// }
///
/// let shape = Shape { rows: 30, columns: 20 };
/// let config = armature::Config::new().ranks(3);
/// let grid = armature::run(&config, |session| {
///     let mut relax = DoAcrossLoop::new("relax", shape, Relax);
///     relax.run(session, 50)?;
///     Ok(relax.collect(session)?)
/// })?;
///
/// let mut serial = vec![0.0; 600];
/// serial[..20].fill(1.0);
/// (0..50).for_each(|_| relax(&mut serial, 20, 1..19));
/// assert_eq!(grid, Some(serial));
/// # Ok::<(), armature::Error>(())
/// ```
#[must_use = "a loop does nothing until it is run"]
pub struct DoAcrossLoop<U: DoAcross> {
    pub(super) grid_loop: GridLoop<U::Value>,
    /// Choice of the strip width (columns of a strip) on rank 0, which is kept for the next run.
    strip_width: Option<StripWidth>,
    user: U,
}

/// Arguments of a run that only some kinds of loops have: a condition for convergence, and results of user code that are written to checkpoints
/// (findings).
pub(super) struct Extras<'e, R> {
    pub(super) until: Option<UntilDone<'e>>,
    pub(super) findings: Option<Findings>,
    pub(super) resume: R,
}

impl<U> Extras<'_, fn(&mut U, u64, Vec<Vec<u8>>) -> Result<(), BoxError>> {
    fn none() -> Self {
        Extras { until: None, findings: None, resume: nothing_found }
    }
}

impl<U: DoAcross> DoAcrossLoop<U> {
    /// Creates a loop over a grid of shape `shape`.
    pub fn new(name: &str, shape: Shape, user: U) -> Self {
        DoAcrossLoop::of_kind(name, shape, user, LoopKind::DoAcross)
    }

    pub(super) fn of_kind(name: &str, shape: Shape, user: U, kind: LoopKind) -> Self {
        DoAcrossLoop { grid_loop: GridLoop::new(name, shape, kind), strip_width: None, user }
    }

    loop_options!(common);
    loop_options!(strip_width);
    loop_options!(checkpoint);

    pub(in crate::loops) fn change(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(&mut self.grid_loop.state.settings);
        self.strip_width = None;
        self
    }

    /// Runs `sweeps` sweeps over the grid. The first run creates the rows; later runs continue with them.
    ///
    /// # Errors
    /// An error or a panic of user code, with the rank and the place in the loop; options that cannot be used; a rank that is silent for longer than
    /// [`Config::peer_limit`](crate::Config::peer_limit).
    pub fn run(&mut self, session: &mut Session, sweeps: u64) -> Result<Outcome<(), Summary>> {
        self.run_passes(session, sweeps, Extras::none(), |_| Ok(())).map(|end| Outcome::of(end.summary))
    }

    /// Sweeps until the loop has converged. At each check that `until` asks for, each rank contributes the residual of its rows, and `is_done`
    /// decides on rank 0 whether the residual of the whole grid is small enough. All ranks return the result.
    ///
    /// `residual` is called after each piece of rows and returns the residual since its last call, such as the largest change, which `sweep` keeps in
    /// the loop's body: `|body| std::mem::take(&mut body.change)`. The largest residual does not depend on the number of ranks or on where rows are,
    /// so the loop ends after the same sweep as the serial one. A [sum](Until::sum) does depend on them.
    ///
    /// # Errors
    /// The errors of [`run`](DoAcrossLoop::run); a panic of `residual` or `is_done`.
    ///
    /// ```
    /// use armature::BoxError;
    /// use armature::loops::{DoAcross, DoAcrossLoop, Grid, Shape, Until};
    ///
    /// struct Relax { change: f64 }
    ///
    /// impl DoAcross for Relax {
    ///     type Value = f64;
    ///
    ///     fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
    ///         values.fill(if index == 0 { 1.0 } else { 0.0 });
    ///         Ok(())
    ///     }
    ///
    ///     fn sweep(&mut self, grid: Grid<'_, f64>, columns: std::ops::Range<usize>) -> Result<(), BoxError> {
    ///         let (b, width) = (grid.values, grid.width);
    ///         for row in 1..b.len() / width - 1 {
    ///             for i in row * width + columns.start..row * width + columns.end {
    ///                 let new = 0.25 * (b[i - width] + b[i - 1] + b[i + 1] + b[i + width]);
    ///                 self.change = self.change.max((new - b[i]).abs());
    ///                 b[i] = new;
    ///             }
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let sweeps = |ranks| {
    ///     armature::run(&armature::Config::new().ranks(ranks), |session| {
    ///         let mut relax = DoAcrossLoop::new("relax", Shape { rows: 20, columns: 12 }, Relax { change: 0.0 });
    ///         let change = |relax: &mut Relax| std::mem::take(&mut relax.change);
    ///         let until = Until::at_most(1_000).every(5);
    ///         Ok(relax.run_until(session, until, change, |change| change < 1e-3)?.passes)
    ///     })
    /// };
    /// assert_eq!(sweeps(3)?, sweeps(1)?);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn run_until(
        &mut self,
        session: &mut Session,
        until: Until,
        mut residual: impl FnMut(&mut U) -> f64 + Send,
        mut is_done: impl FnMut(f64) -> bool,
    ) -> Result<Converged> {
        let mine = OwnResidual::new(until);
        let user_side = mine.clone();
        let job = Some(UntilDone { until, mine, is_done: &mut is_done });
        let extras = Extras { until: job, ..Extras::none() };
        self.run_passes(session, until.passes, extras, move |user| {
            user_side.add(residual(user));
            Ok(())
        })
    }

    /// Runs the sweeps of the loop. `after` is called each time user code has computed a part of a sweep.
    pub(super) fn run_passes(
        &mut self,
        session: &mut Session,
        sweeps: u64,
        extras: Extras<'_, impl Resume<U>>,
        mut after: impl FnMut(&mut U) -> Result<(), BoxError> + Send,
    ) -> Result<Converged> {
        let Extras { until, findings, resume } = extras;
        let inner = self.grid_loop.state.inner();
        let fixed = self.grid_loop.state.settings.strip_width;
        let strip_width =
            self.strip_width.take().unwrap_or_else(|| StripWidth::new(inner.len(), session.size(), fixed));
        let kept = &mut self.strip_width;
        // Simulated processors have no caches, and each call of user code costs the simulator time, so all rows of a strip are
        // computed in one call.
        let has_caches = !session.is_simulated();
        self.grid_loop.run(
            session,
            Passes { sweeps, until, findings },
            Begin { user: &mut self.user, row: U::row, resume },
            |position, block, sweeps| Wavefront::new(position, block, inner, sweeps, strip_width),
            move |user, storage, columns| {
                let local = typed::<LocalRows<U::Value>>(storage)?;
                if has_caches {
                    in_bands(local, columns, |grid| user.sweep(grid, columns.clone()))?;
                } else {
                    user.sweep(local.grid(), columns.clone())?;
                }
                after(user)
            },
            |worker| {
                *kept = Some(worker.strip_width);
                worker.local
            },
        )
    }

    /// Returns the body of the loop: the value that implements [`DoAcross`].
    pub fn body(&self) -> &U {
        &self.user
    }

    /// Returns the value that implements [`DoAcross`], the body of the loop, for changes between runs.
    pub fn body_mut(&mut self) -> &mut U {
        &mut self.user
    }

    /// Returns the whole grid, row by row, fixed edges included, on rank 0; `None` on the other ranks. The ranks keep
    /// their rows.
    ///
    /// # Errors
    /// The errors of [`run`](DoAcrossLoop::run).
    pub fn collect(&mut self, session: &mut Session) -> Result<Option<Vec<U::Value>>> {
        self.grid_loop.collect(session, false, &mut self.user, U::row)
    }

    /// Like [`collect`](DoAcrossLoop::collect), but returns the grid on every rank.
    ///
    /// # Errors
    /// The errors of [`run`](DoAcrossLoop::run).
    pub fn collect_on_all(&mut self, session: &mut Session) -> Result<Vec<U::Value>> {
        self.grid_loop.collect(session, true, &mut self.user, U::row).map(Option::unwrap_or_default)
    }
}

impl<U: DoAcross> fmt::Debug for DoAcrossLoop<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoAcrossLoop")
            .field("name", &self.grid_loop.state.name)
            .field("shape", &self.grid_loop.state.shape)
            .finish_non_exhaustive()
    }
}
