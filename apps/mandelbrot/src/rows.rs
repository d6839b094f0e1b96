//! Computation of the picture by a loop over its rows, which can move between ranks. Rank 0 collects the rows at the end.

use crate::scene::Scene;
use armature::loops::{DoAll, DoAllLoop, Rows, Summary};
use armature::{BoxError, Session};
use std::ops::Range;

impl DoAll for Scene {
    type Units = Rows<u8>;

    fn create(&mut self, range: Range<u64>) -> Result<Rows<u8>, BoxError> {
        Ok(Rows::zeroed(range, self.row_bytes()))
    }

    fn compute(&mut self, range: Range<u64>, colours: &mut [u8]) -> Result<(), BoxError> {
        for (y, colours) in range.zip(colours.chunks_exact_mut(self.row_bytes())) {
            let row = self.row(y as u32);
            // The work of a row is declared to the simulator only after its computation, because the number of steps is unknown before.
            armature::declare(row.flops, || colours.copy_from_slice(&row.rgb));
        }
        Ok(())
    }
}

/// Computes the picture on all ranks. Returns the picture and the summary of the loop on rank 0.
///
/// # Errors
/// The errors of the loop.
pub fn render(session: &mut Session, scene: &Scene) -> Result<Option<(Vec<u8>, Summary)>, BoxError> {
    let mut rows = DoAllLoop::new("rows", scene.view.height.into(), *scene);
    let summary = rows.run(session, 1)?.into_summary();
    let picture = rows.collect(session)?;
    Ok(picture.map(Rows::into_values).zip(summary))
}
