//! Loops that compute a new grid from the old one: stencils.

use std::fmt;

use bytemuck::Pod;

use super::convergence::UntilDone;
use super::findings::nothing_found;
use super::grid_loop::{Begin, GridLoop, Passes};
use super::shape::Shape;
use super::stencil_step::{OldAndNew, StencilStep};
use super::view::OldGrid;
use super::worker::typed;
use crate::error::{BoxError, Result};
use crate::loops::settings::{LoopKind, Settings, loop_options};
use crate::loops::summary::Summary;
use crate::loops::until::{Converged, OwnResidual, Until};
use crate::outcome::Outcome;
use crate::session::Session;

/// A grid that is computed again in each step from its previous values: each value depends on the old values above, below, to the left and to the
/// right.
///
/// The rows are the units of the loop, and move. Each rank holds its rows twice, before and after the step. The first and the last row of its block
/// are computed first and travel to the neighbours while the rows between them are computed.
pub trait Stencil: Send {
    /// Type of the values of the grid: plain data.
    type Value: Pod + Send;

    /// Writes the initial values of a row of the whole grid, fixed edges included. It is called for the initial rows of the rank, and for one row
    /// above and one row below them: in a grid with [periodic rows](StencilLoop::periodic) the last row is above the first.
    ///
    /// # Errors
    /// Any error ends the job.
    fn row(&mut self, index: u64, values: &mut [Self::Value]) -> Result<(), BoxError>;

    /// Computes `new`, which contains the rows of `old` except its first and last, one step later. It is called several times per step, for some rows
    /// each time.
    ///
    /// Columns that it never writes keep their initial values, such as fixed edges. The computation of a row must not depend on the number of rows in
    /// the call.
    ///
    /// # Errors
    /// Any error ends the job.
    fn step(&mut self, old: OldGrid<'_, Self::Value>, new: &mut [Self::Value]) -> Result<(), BoxError>;
}

/// Runs a [`Stencil`] on all ranks.
///
/// Every rank creates the same loop and calls the same methods. The grid stays distributed over the ranks from run to run.
///
/// ```
/// use armature::BoxError;
/// use armature::loops::{OldGrid, Shape, Stencil, StencilLoop};
///
/// struct Heat;
///
/// impl Stencil for Heat {
///     type Value = f64;
///
///     fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
///         // The upper edge is hot.
///         values.fill(if index == 0 { 1.0 } else { 0.0 });
///         Ok(())
///     }
///
///     fn step(&mut self, old: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
///         step(old.values, new, old.width);
///         Ok(())
///     }
/// }
///
/// /// The serial loop: `new` is the inner rows of `b`.
/// fn step(b: &[f64], new: &mut [f64], width: usize) {
///     for (row, new) in (1..).zip(new.chunks_exact_mut(width)) {
///         for column in 1..width - 1 {
///             let i = row * width + column;
///             new[column] = 0.25 * (b[i - width] + b[i - 1] + b[i + 1] + b[i + width]);
///         }
///     }
/// }
///
/// let shape = Shape { rows: 30, columns: 20 };
/// let config = armature::Config::new().ranks(3);
/// let grid = armature::run(&config, |session| {
///     let mut heat = StencilLoop::new("heat", shape, Heat);
///     heat.run(session, 50)?;
///     Ok(heat.collect(session)?)
/// })?;
///
/// let mut serial = vec![0.0; 600];
/// serial[..20].fill(1.0);
/// for _ in 0..50 {
///     let old = serial.clone();
///     step(&old, &mut serial[20..580], 20);
/// }
/// assert_eq!(grid, Some(serial));
/// # Ok::<(), armature::Error>(())
/// ```
#[must_use = "a loop does nothing until it is run"]
pub struct StencilLoop<U: Stencil> {
    grid_loop: GridLoop<U::Value>,
    user: U,
}

impl<U: Stencil> StencilLoop<U> {
    /// Creates a loop over a grid of shape `shape`.
    pub fn new(name: &str, shape: Shape, user: U) -> Self {
        StencilLoop { grid_loop: GridLoop::new(name, shape, LoopKind::Stencil), user }
    }

    loop_options!(common);
    loop_options!(checkpoint);
    loop_options!(periodic);

    pub(in crate::loops) fn change(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(&mut self.grid_loop.state.settings);
        self
    }

    /// Runs `steps` steps. The first run creates the rows; later runs continue with them.
    ///
    /// # Errors
    /// An error or a panic of user code, with the rank and the place in the loop; options that cannot be used; a rank that is silent for longer than
    /// [`Config::peer_limit`](crate::Config::peer_limit).
    pub fn run(&mut self, session: &mut Session, steps: u64) -> Result<Outcome<(), Summary>> {
        self.run_passes(session, steps, None, |_| ()).map(|end| Outcome::of(end.summary))
    }

    /// Runs steps until the loop has converged. At each check that `until` asks for, each rank contributes the residual of its rows, and `is_done`
    /// decides on rank 0 whether the residual of the whole grid is small enough. All ranks return the result.
    ///
    /// `residual` is called after each piece of rows and returns the residual since its last call, such as the largest change, which `step` keeps in
    /// the loop's body: `|body| std::mem::take(&mut body.change)`. The largest residual does not depend on the number of ranks or on where rows are,
    /// so the loop ends after the same step as the serial one. A [sum](Until::sum) does depend on them.
    ///
    /// # Errors
    /// The errors of [`run`](StencilLoop::run); a panic of `residual` or `is_done`.
    ///
    /// ```
    /// use armature::BoxError;
    /// use armature::loops::{OldGrid, Shape, Stencil, StencilLoop, Until};
    ///
    /// struct Heat { change: f64 }
    ///
    /// impl Stencil for Heat {
    ///     type Value = f64;
    ///
    ///     fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
    ///         values.fill(if index == 0 { 1.0 } else { 0.0 });
    ///         Ok(())
    ///     }
    ///
    ///     fn step(&mut self, old: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
    ///         let (b, width) = (old.values, old.width);
    ///         for (row, new) in (1..).zip(new.chunks_exact_mut(width)) {
    ///             for column in 1..width - 1 {
    ///                 let i = row * width + column;
    ///                 new[column] = 0.25 * (b[i - width] + b[i - 1] + b[i + 1] + b[i + width]);
    ///                 self.change = self.change.max((new[column] - b[i]).abs());
    ///             }
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let steps = |ranks| {
    ///     armature::run(&armature::Config::new().ranks(ranks), |session| {
    ///         let mut heat = StencilLoop::new("heat", Shape { rows: 20, columns: 12 }, Heat { change: 0.0 });
    ///         let change = |heat: &mut Heat| std::mem::take(&mut heat.change);
    ///         let end = heat.run_until(session, Until::at_most(1_000), change, |change| change < 1e-3)?;
    ///         assert!(end.is_converged && end.residual.unwrap() < 1e-3);
    ///         Ok(end.passes)
    ///     })
    /// };
    /// assert_eq!(steps(3)?, steps(1)?);
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
        self.run_passes(session, until.passes, job, move |user| user_side.add(residual(user)))
    }

    /// Runs the steps of the loop. `after` is called each time user code has computed some rows of a step.
    fn run_passes(
        &mut self,
        session: &mut Session,
        steps: u64,
        until: Option<UntilDone<'_>>,
        mut after: impl FnMut(&mut U) + Send,
    ) -> Result<Converged> {
        self.grid_loop.run(
            session,
            Passes { sweeps: steps, until, findings: None },
            Begin { user: &mut self.user, row: U::row, resume: nothing_found },
            StencilStep::new,
            move |user, storage, rows| {
                let (old, new) = typed::<OldAndNew<U::Value>>(storage)?.band(rows);
                user.step(old, new)?;
                after(user);
                Ok(())
            },
            |worker| worker.old,
        )
    }

    /// Returns the body of the loop: the value that implements [`Stencil`].
    pub fn body(&self) -> &U {
        &self.user
    }

    /// Returns the value that implements [`Stencil`], the body of the loop, for changes between runs.
    pub fn body_mut(&mut self) -> &mut U {
        &mut self.user
    }

    /// Returns the whole grid, row by row, fixed edges included, on rank 0; `None` on the other ranks. The ranks keep
    /// their rows.
    ///
    /// # Errors
    /// The errors of [`run`](StencilLoop::run).
    pub fn collect(&mut self, session: &mut Session) -> Result<Option<Vec<U::Value>>> {
        self.grid_loop.collect(session, false, &mut self.user, U::row)
    }

    /// Like [`collect`](StencilLoop::collect), but returns the grid on every rank.
    ///
    /// # Errors
    /// The errors of [`run`](StencilLoop::run).
    pub fn collect_on_all(&mut self, session: &mut Session) -> Result<Vec<U::Value>> {
        self.grid_loop.collect(session, true, &mut self.user, U::row).map(Option::unwrap_or_default)
    }
}

impl<U: Stencil> fmt::Debug for StencilLoop<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StencilLoop")
            .field("name", &self.grid_loop.state.name)
            .field("shape", &self.grid_loop.state.shape)
            .finish_non_exhaustive()
    }
}
