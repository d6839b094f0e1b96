//! The loop on ranks. This is all that it takes beyond the serial step.

use crate::kernel::{FLOPS, fill, step};
use armature::loops::{OldGrid, Settings, Shape, Stencil, StencilLoop, Summary};
use armature::{BoxError, Session};

/// A plate with so many rows.
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

/// Goes so many steps on all ranks. Rank 0 gets how it went, and the plate if `whole` says so.
///
/// # Errors
/// Those of the loop.
pub fn simulate(
    session: &Session,
    shape: Shape,
    steps: u64,
    settings: Settings,
    whole: bool,
) -> Result<Option<(Summary, Vec<f64>)>, BoxError> {
    let mut heat = StencilLoop::new("heat", shape, Plate { rows: shape.rows }).settings(settings);
    let summary = heat.run(session, steps)?;
    let grid = if whole { heat.collect(session)? } else { None };
    Ok(summary.map(|summary| (summary, grid.unwrap_or_default())))
}
