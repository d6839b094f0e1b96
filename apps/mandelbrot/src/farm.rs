//! Computation of the picture by a farm of workers. A task is the number of a row, and its result is the colours of the row.

use crate::scene::Scene;
use armature::farm::{Context, Farm, Summary, Worker};
use armature::{BoxError, Session};
use armature_apps::farm::FarmArgs;
use std::path::Path;

/// Options of the farm (master and workers) that computes the picture.
#[derive(Debug)]
pub struct Options<'o> {
    /// Common options of all programs that run a farm.
    pub farm: &'o FarmArgs,
    /// True if the master accepts rows in the order of their completion.
    pub unordered: bool,
    /// File in which the master records completed rows, so that a restarted job computes only the missing rows.
    pub journal: Option<&'o Path>,
}

struct Rows(Scene);

impl Worker for Rows {
    type In = u32;
    type Out = Vec<u8>;

    fn work(&mut self, y: u32, cx: &mut Context) -> Result<Vec<u8>, BoxError> {
        let row = self.0.row(y);
        // The work of a row is declared to the simulator only after its computation, because the number of steps is unknown before.
        Ok(cx.declare(row.flops, || row.rgb))
    }
}

/// Computes the picture on all ranks. Returns the picture and the summary of the farm on rank 0.
///
/// # Errors
/// The errors of the farm, and the error of a row whose computation failed at every attempt.
pub fn render(
    session: &mut Session,
    scene: &Scene,
    options: &Options,
) -> Result<Option<(Vec<u8>, Summary)>, BoxError> {
    let bytes = scene.row_bytes();
    let rows = if session.is_root() { scene.view.height as usize } else { 0 };
    let mut picture = vec![0; rows * bytes];
    let mut farm = options.farm.set_up(session, Farm::worker("rows", || Ok(Rows(*scene))));
    if options.unordered {
        farm = farm.unordered();
    }
    if let Some(path) = options.journal {
        farm = farm.journal(path, scene);
    }
    let place = |y: u64, row: Vec<u8>| picture[y as usize * bytes..][..bytes].copy_from_slice(&row);
    let outcome = farm.for_each(session, 0..scene.view.height, place)?;
    Ok(outcome.into_summary().map(|summary| (picture, summary)))
}
