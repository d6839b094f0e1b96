//! Parallel loop over the rows of a plate: all the code needed in addition to the serial step.

use crate::kernel::{FLOPS, fill, step};
use armature::loops::{OldGrid, Settings, Shape, Stencil, StencilLoop, Summary};
use armature::{BoxError, Session};

/// Loop that computes the temperatures on a plate. Its grid of temperatures has `rows` rows.
#[derive(Clone, Copy, Debug)]
pub struct Plate {
    rows: u64,
}

impl Stencil for Plate {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        fill(index, self.rows, values);
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
        armature::declare(FLOPS * new.len() as f64, || step(old.values, new, old.width));
        Ok(())
    }
}

/// Executes `steps` time steps together with the other ranks. Returns the summary of the loop on rank 0, with all temperatures if `whole` is true.
///
/// # Errors
/// The errors of the loop.
pub fn simulate(
    session: &mut Session,
    shape: Shape,
    steps: u64,
    settings: Settings,
    whole: bool,
) -> Result<Option<(Summary, Vec<f64>)>, BoxError> {
    let mut heat = StencilLoop::new("heat", shape, Plate { rows: shape.rows }).settings(settings);
    let summary = heat.run(session, steps)?.into_summary();
    let grid = if whole { heat.collect(session)? } else { None };
    Ok(summary.map(|summary| (summary, grid.unwrap_or_default())))
}
