//! Count of the solutions by a farm of workers: all the code needed in addition to the serial count.

use std::path::Path;

use armature::farm::{Farm, Summary};
use armature::{BoxError, Session};
use armature_apps::farm::FarmArgs;

use crate::board::Board;

/// Counts the solutions on a board of `size` rows. A task is a board with some queens. If at most `serial` rows remain, the task counts the
/// solutions; otherwise it creates a task for each board with one more queen. Returns the total on rank 0.
///
/// # Errors
/// The errors of the farm.
pub fn count(
    session: &mut Session,
    size: u32,
    serial: u32,
    options: &FarmArgs,
    journal: Option<&Path>,
) -> Result<Option<(u64, Summary)>, BoxError> {
    let farm = Farm::try_exploring("queens", move |board: &Board, more| {
        if board.rows_left() <= serial {
            return Ok(board.count());
        }
        more.extend(board.next());
        Ok(0)
    });
    let mut farm = options.set_up(session, farm);
    if let Some(file) = journal {
        farm = farm.journal(file, &(size, serial));
    }
    let mut ways = 0;
    let outcome = farm.explore(session, [Board::new(size)], |found| ways += found)?;
    Ok(outcome.into_summary().map(|summary| (ways, summary)))
}
