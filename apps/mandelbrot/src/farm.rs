//! The picture as a farm: a task is the number of a row, its result the row's colours.

use crate::scene::Scene;
use armature::farm::{Context, Farm, Summary, Worker};
use armature::{BoxError, Session};
use armature_apps::farm::FarmArgs;
use std::path::Path;

/// How the rows are handed out.
#[derive(Debug)]
pub struct Options<'o> {
    /// What every farm can be told.
    pub farm: &'o FarmArgs,
    /// Rows are taken as they come.
    pub unordered: bool,
    /// Where rows are kept, so that a job that is started again computes only those that are missing.
    pub journal: Option<&'o Path>,
}

/// A rank that computes rows.
struct Rows(Scene);

impl Worker for Rows {
    type In = u32;
    type Out = Vec<u8>;

    fn work(&mut self, y: u32, cx: &mut Context) -> Result<Vec<u8>, BoxError> {
        let row = self.0.row(y);
        // What it costs is known only now.
        Ok(cx.declare(row.flops, || row.rgb))
    }
}

/// Computes the picture on all ranks; rank 0 gets it, with how it went.
///
/// # Errors
/// Those of the farm, and a row that failed at every attempt.
pub fn render(
    session: &Session,
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
        farm = farm.journal(path, scene.to_string());
    }
    let place = |y: u64, row: Result<Vec<u8>, _>| -> Result<(), BoxError> {
        picture[y as usize * bytes..][..bytes].copy_from_slice(&row?);
        Ok(())
    };
    let summary = farm.for_each(session, 0..scene.view.height, place)?;
    Ok(summary.map(|summary| (picture, summary)))
}
