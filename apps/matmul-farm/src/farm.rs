//! Repeated squaring of a matrix on all ranks: each iteration of the farm is one squaring.

use crate::block::{Blocks, Pair};
use crate::matrix::Symmetric;
use crate::squaring::{Limits, Squaring, Step};
use armature::farm::{Context, Farm, Summary, Worker};
use armature::{BoxError, Session};
use armature_apps::farm::FarmArgs;

struct Multiply;

impl Worker for Multiply {
    type In = Pair;
    type Out = Vec<f64>;

    fn work(&mut self, pair: Pair, cx: &mut Context) -> Result<Vec<f64>, BoxError> {
        Ok(cx.declare(pair.flops(), || pair.product()))
    }
}

/// Squares `matrix`, which only rank 0 has, until only the projection on its dominant eigenvector remains. Each task multiplies two panels of
/// `height` adjacent rows. Returns the projection and the summary of the farm on rank 0.
///
/// # Errors
/// The errors of the farm and of [`Squaring::step`].
pub fn square(
    session: &mut Session,
    matrix: Option<Symmetric>,
    height: usize,
    limits: Limits,
    options: &FarmArgs,
) -> Result<Option<(Squaring, Summary)>, BoxError> {
    let mut farm = options.set_up(session, Farm::worker("squares", || Ok(Multiply)));
    let Some(matrix) = matrix else {
        farm.iterate(session, [], |_, _| Ok(None))?;
        return Ok(None);
    };
    let blocks = Blocks { size: matrix.size(), height };
    let mut squaring = Squaring::new(matrix, limits);
    let first = blocks.tasks(squaring.matrix());
    let outcome = farm.iterate(session, first, |results, _| {
        Ok(match squaring.step(blocks.assemble(&results)?)? {
            Step::Square => Some(blocks.tasks(squaring.matrix())),
            Step::Done => None,
        })
    })?;
    Ok(outcome.into_summary().map(|summary| (squaring, summary)))
}
