//! Parallel loop over the rows of the grid: all the code needed in addition to the serial loop.

use crate::kernel::{FLOPS, fill, relax};
use armature::loops::{DoAcross, DoAcrossLoop, Grid, Settings, Shape, Summary};
use armature::{BoxError, Session};
use std::ops::Range;

/// Loop of successive over-relaxation, whose rows are distributed over the ranks.
#[derive(Clone, Copy, Debug)]
pub struct Sor;

impl DoAcross for Sor {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        fill(index, values);
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, f64>, columns: Range<usize>) -> Result<(), BoxError> {
        let flops = FLOPS * ((grid.rows() - 2) * columns.len()) as f64;
        armature::declare(flops, || relax(grid.values, grid.width, columns));
        Ok(())
    }
}

/// Executes `sweeps` sweeps over a grid together with the other ranks. Returns the summary of the loop on rank 0, with the values of the grid if
/// `whole` is true.
///
/// # Errors
/// The errors of the loop.
pub fn solve(
    session: &mut Session,
    shape: Shape,
    sweeps: u64,
    settings: Settings,
    whole: bool,
) -> Result<Option<(Summary, Vec<f64>)>, BoxError> {
    let mut sor = DoAcrossLoop::new("sor", shape, Sor).settings(settings);
    let summary = sor.run(session, sweeps)?.into_summary();
    let grid = if whole { sor.collect(session)? } else { None };
    Ok(summary.map(|summary| (summary, grid.unwrap_or_default())))
}
