//! Loop that fills a table on all ranks.

use std::fmt;

use super::doacross::{DoAcrossLoop, Extras};
use super::findings::Findings;
use super::grid_loop::LoopState;
use super::shape::Shape;
use super::table::{Panels, Table};
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::loops::settings::{LoopKind, Settings, loop_options};
use crate::loops::summary::Summary;
use crate::outcome::Outcome;
use crate::session::Session;
use crate::user_code;

/// Fills a [`Table`] on all ranks.
///
/// Every rank creates the same loop and calls the same methods. All rows and columns of the shape are part of the table. [`above`](Table::above) and
/// [`left`](Table::left) define the values above and to the left of it.
///
/// The example finds the longest common substring of two texts and its position, with a table that no rank holds as a whole:
///
/// ```
/// use armature::BoxError;
/// use armature::loops::{Cells, Line, Shape, Table, TableLoop};
///
/// struct Common<'t> {
///     a: &'t [u8],
///     b: &'t [u8],
///     /// Of this rank's rows: the length, and the ends in both texts.
///     best: (u32, u64, u64),
/// }
///
/// impl Table for Common<'_> {
///     /// Letters before this place that are the same in both.
///     type Value = u32;
///
///     fn fill(&mut self, mut cells: Cells<'_, u32>) -> Result<(), BoxError> {
///         let columns = cells.columns();
///         for row in cells.rows() {
///             let letter = self.a[row as usize];
///             let Line { above, values, .. } = cells.line(row);
///             for ((column, value), before) in columns.clone().zip(values).zip(above) {
///                 *value = if self.b[column as usize] == letter { before + 1 } else { 0 };
///                 self.best = self.best.max((*value, row + 1, column + 1));
///             }
///         }
///         Ok(())
///     }
/// }
///
/// let (a, b) = ("the quick brown fox", "a quick brow is raised");
/// let config = armature::Config::new().ranks(3);
/// let best = armature::run(&config, |session| {
///     let shape = Shape { rows: a.len() as u64, columns: b.len() };
///     let common = Common { a: a.as_bytes(), b: b.as_bytes(), best: (0, 0, 0) };
///     let mut table = TableLoop::new("common", shape, common);
///     table.run(session)?;
///     // Wherever rows were filled, the largest is the same.
///     Ok(session.all_reduce(table.body().best, std::cmp::max)?)
/// })?;
/// assert_eq!(best, (11, 14, 12));
/// assert_eq!(&a[14 - 11..14], " quick brow");
/// # Ok::<(), armature::Error>(())
/// ```
#[must_use = "a loop does nothing until it is run"]
pub struct TableLoop<U: Table> {
    sweeps: DoAcrossLoop<Panels<U>>,
}

impl<U: Table> TableLoop<U> {
    /// Creates a loop that fills a table of shape `shape`.
    pub fn new(name: &str, shape: Shape, user: U) -> Self {
        let panels = Panels::new(user, shape.columns);
        TableLoop { sweeps: DoAcrossLoop::of_kind(name, shape, panels, LoopKind::Table) }
    }

    loop_options!(common);
    loop_options!(strip_width);
    loop_options!(panel_width);
    loop_options!(checkpoint);

    pub(in crate::loops) fn change(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        self.sweeps = self.sweeps.change(set);
        self
    }

    /// Fills the table. A second run fills it again, with the rows on the ranks where the first run has left them. The passes of the [`Summary`] are
    /// panels.
    ///
    /// # Errors
    /// An error or a panic of user code, with the rank and the place in the table; options that cannot be used; a rank that is silent for longer than
    /// [`Config::peer_limit`](crate::Config::peer_limit).
    pub fn run(&mut self, session: &mut Session) -> Result<Outcome<(), Summary>> {
        let width = self.sweeps.grid_loop.state.inner().len();
        let panels = self.sweeps.body_mut().begin(width);
        let findings = self.findings(session)?;
        let user_side = findings.clone();
        let extras = Extras { until: None, findings, resume: Panels::resume };
        let after = move |panels: &mut Panels<U>| panels.end_strip(user_side.as_ref());
        self.sweeps.run_passes(session, panels, extras, after).map(|end| Outcome::of(end.summary))
    }

    fn findings(&self, session: &mut Session) -> Result<Option<Findings>> {
        let LoopState { settings, shape, .. } = &self.sweeps.grid_loop.state;
        if settings.checkpoint.is_none() {
            return Ok(None);
        }
        let columns = shape.columns;
        let why = match settings.panel_width {
            Some(width) if width >= columns as u64 && columns > 0 => format!(
                "a panel of {width} columns contains all {columns} columns of the table, but checkpoints are written \
                 between two panels"
            ),
            _ if user_code::call(|| Ok::<_, BoxError>(self.body().save()))?.is_none() => {
                "a checkpoint is set, but the table has no `save`: the results of its rows would be lost"
                    .to_string()
            }
            _ => return Ok(Some(Findings::new(columns))),
        };
        Err(self.misused(session, why))
    }

    fn misused(&self, session: &mut Session, why: String) -> Error {
        let (endpoint, _) = session.endpoint();
        let error = Error::new(ErrorKind::Config, why).in_loop(&self.sweeps.grid_loop.state.name);
        let error = error.at_rank(endpoint.rank());
        endpoint.report(&error);
        error
    }

    /// Returns the body of the loop: the value that implements [`Table`], with the results gathered from this rank's rows.
    pub fn body(&self) -> &U {
        &self.sweeps.body().user
    }

    /// Returns the value that implements [`Table`], the body of the loop, for changes between runs.
    pub fn body_mut(&mut self) -> &mut U {
        &mut self.sweeps.body_mut().user
    }

    /// Returns the whole table, row by row, on rank 0; `None` on the other ranks. Ranks must keep all columns:
    /// [`panel_width`](TableLoop::panel_width) must be at least the number of columns of the table.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if ranks do not keep all columns; the errors of [`run`](TableLoop::run).
    pub fn collect(&mut self, session: &mut Session) -> Result<Option<Vec<U::Value>>> {
        self.check_kept(session)?;
        let rows = self.sweeps.collect(session)?;
        Ok(rows.map(|rows| self.inner(&rows)))
    }

    /// Like [`collect`](TableLoop::collect), but returns the table on every rank.
    ///
    /// # Errors
    /// The errors of [`collect`](TableLoop::collect).
    pub fn collect_on_all(&mut self, session: &mut Session) -> Result<Vec<U::Value>> {
        self.check_kept(session)?;
        let rows = self.sweeps.collect_on_all(session)?;
        Ok(self.inner(&rows))
    }

    fn check_kept(&self, session: &mut Session) -> Result<()> {
        let (width, columns) =
            (self.sweeps.grid_loop.state.width(), self.sweeps.grid_loop.state.shape.columns);
        if width > columns {
            return Ok(());
        }
        let text = format!(
            "{} of the {columns} columns of the table are kept, but collecting the table needs all: set panel_width",
            width - 1
        );
        Err(self.misused(session, text))
    }

    /// Returns the values of `rows` without their first stored column, which holds the values to the left of the table.
    fn inner(&self, rows: &[U::Value]) -> Vec<U::Value> {
        rows.chunks_exact(self.sweeps.grid_loop.state.width()).flat_map(|row| &row[1..]).copied().collect()
    }
}

impl<U: Table> fmt::Debug for TableLoop<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableLoop")
            .field("name", &self.sweeps.grid_loop.state.name)
            .field("shape", &self.sweeps.grid_loop.state.shape)
            .finish_non_exhaustive()
    }
}
