//! Parallel loop over the rows of the product: all the code needed in addition to the serial product.

use crate::kernel::{Factor, Matrix, fill, flops, multiply, rows};
use armature::loops::{DoAll, DoAllLoop, Rows, Settings, Summary};
use armature::{BoxError, Session};
use std::ops::Range;

/// Loop over the rows of the product C = A · B. Every rank has all of B.
#[derive(Debug)]
pub struct Product {
    b: Factor,
}

impl DoAll for Product {
    /// Rows of A and of C that move between ranks together.
    type Units = (Rows<f64>, Rows<f64>);

    /// Ranks need not wait for each other between passes over the rows, because a row of the product depends on no other row.
    const NOWAIT: bool = true;

    fn create(&mut self, range: Range<u64>) -> Result<Self::Units, BoxError> {
        let a = Rows::from_fn(range.clone(), self.b.width(), |row, values| fill(Matrix::A, row, values));
        Ok((a, Rows::zeroed(range, self.b.width())))
    }

    fn compute(&mut self, range: Range<u64>, (a, c): (&mut [f64], &mut [f64])) -> Result<(), BoxError> {
        let flops = flops(range.end - range.start, self.b.width());
        armature::declare(flops, || multiply(a, &self.b, c));
        Ok(())
    }
}

/// Multiplies two matrices of `size` rows and columns `passes` times, together with the other ranks. Returns the summary of the loop on rank 0, with
/// the product if `whole` is true.
///
/// # Errors
/// The errors of the loop.
pub fn product(
    session: &mut Session,
    size: usize,
    passes: u64,
    settings: Settings,
    whole: bool,
) -> Result<Option<(Summary, Vec<f64>)>, BoxError> {
    let b = Factor::new(&rows(Matrix::B, 0..size as u64, size), size);
    let mut product = DoAllLoop::new("matmul", size as u64, Product { b }).settings(settings);
    let summary = product.run(session, passes)?.into_summary();
    let all = if whole { product.collect(session)? } else { None };
    Ok(summary.map(|summary| (summary, all.map_or_else(Vec::new, |(_, c)| c.into_values()))))
}
