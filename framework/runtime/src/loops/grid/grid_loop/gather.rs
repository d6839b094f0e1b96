//! Collection of the rows of all ranks to the whole grid on rank 0.

use std::ops::Range;
use std::time::Duration;

use bytemuck::Pod;

use super::{GridLoop, make_row};
use crate::comm::endpoint::Endpoint;
use crate::error::{BoxError, Result};
use crate::loops::grid::local_rows::LocalRows;
use crate::loops::grid::messages::{Rows, unexpected};
use crate::loops::grid::shape::Edges;
use crate::session::{Config, Session};
use crate::wire::Codec;

impl<T: Pod + Send> GridLoop<T> {
    /// Returns the whole grid, row by row, on rank 0, or on every rank if `to_all` is true; `None` on the other ranks.
    pub(in crate::loops::grid) fn collect<U>(
        &mut self,
        session: &mut Session,
        to_all: bool,
        user: &mut U,
        row: impl FnMut(&mut U, u64, &mut [T]) -> Result<(), BoxError>,
    ) -> Result<Option<Vec<T>>> {
        let (endpoint, config) = session.endpoint();
        let what = self.state.announcement(&format!("gathers the grid of {:?}", self.state.name));
        let run = endpoint.begin_run(&what.with("on all ranks", to_all), config.join_limit)?;
        let gathered = self.gather(endpoint, run, config, user, row);
        let shared = gathered.and_then(|grid| match to_all {
            true => self.share(endpoint, config, grid).map(Some),
            false => Ok(grid),
        });
        self.state.reported(endpoint, shared)
    }

    fn share(&self, endpoint: &mut Endpoint, config: &Config, grid: Option<Vec<T>>) -> Result<Vec<T>> {
        let what = self.state.announcement(&format!("gives all ranks the grid of {:?}", self.state.name));
        let root = grid.map(|grid| (grid, ()));
        let (codec, limits) = (Codec::plain(), config.limits());
        endpoint.broadcast_items(what, limits, &codec, size_of::<T>(), root).map(|(grid, ())| grid)
    }

    fn gather<U>(
        &mut self,
        endpoint: &mut Endpoint,
        run: u32,
        config: &Config,
        user: &mut U,
        mut row: impl FnMut(&mut U, u64, &mut [T]) -> Result<(), BoxError>,
    ) -> Result<Option<Vec<T>>> {
        let (rank, size, width) = (endpoint.rank(), endpoint.size(), self.state.width());
        let edges = self.state.edges();
        self.create(rank, size, user, &mut row)?;
        let position = self.state.position(rank, size);
        if rank > 0 {
            if let Some(local) = &self.local {
                // The last rank with rows also sends the fixed row at the lower edge of the grid.
                let has_edge = position.below().is_none() && edges == Edges::Fixed;
                let values = local.all(has_edge).to_vec();
                endpoint.send_ready(0, Rows::new(local.rows().start, values).encode_gathered(run)?)?;
            }
            return Ok(None);
        }
        let rows = usize::try_from(self.state.shape.rows).unwrap_or(usize::MAX);
        let mut all = bytemuck::allocation::zeroed_vec(rows * width);
        let Some(local) = &self.local else {
            if width > 0 {
                for (index, values) in (0..).zip(all.chunks_exact_mut(width)) {
                    make_row(rank, index, || row(user, index, values))?;
                }
            }
            return Ok(Some(all));
        };
        gather(endpoint, config.join_limit, (local, edges), &self.state.held, &mut all)?;
        Ok(Some(all))
    }
}

/// Copies rank 0's own rows and those received from the other ranks into `all`, the rows of the grid. `held` is the number of rows of
/// each rank that has any.
///
/// # Errors
/// If a rank is silent for longer than `limit`, or sends other rows than its own.
fn gather<T: Pod + Send>(
    endpoint: &mut Endpoint,
    limit: Duration,
    (local, edges): (&LocalRows<T>, Edges),
    held: &[u64],
    all: &mut [T],
) -> Result<()> {
    let width = local.width();
    // Rank 0 also holds the fixed row at the upper edge of the grid, and the one at the lower edge if it holds all rows.
    let is_fixed = edges == Edges::Fixed;
    let own = if is_fixed { local.some(0..local.len() + 2) } else { local.all(false) };
    all[..own.len()].copy_from_slice(own);
    let mut missing: Vec<usize> = (1..held.len()).collect();
    let awaited = std::cell::RefCell::new(missing.clone());
    let mut starts = vec![1_u64];
    for units in held {
        starts.push(starts[starts.len() - 1] + units);
    }
    endpoint.wait_until(
        limit,
        |_, message| {
            if let Some(message) = message {
                let from = message.from;
                let sent = Rows::decode_gathered(message)?;
                let Some(at) = missing.iter().position(|&rank| rank == from) else {
                    return Err(unexpected(from, "rows of the grid", "nothing more"));
                };
                missing.swap_remove(at);
                awaited.borrow_mut().clone_from(&missing);
                // The last rank with rows has also sent the fixed row at the lower edge of the grid.
                let edge = u64::from(is_fixed && from + 1 == held.len());
                let rows: Range<u64> = starts[from]..starts[from + 1] + edge;
                let values: Vec<T> = sent.into_values(&rows, width, from)?;
                let begin = edges.number(rows.start) as usize * width;
                all[begin..begin + values.len()].copy_from_slice(&values);
            }
            Ok(missing.is_empty().then_some(()))
        },
        || format!("for the rows of ranks {:?}", awaited.borrow()),
    )
}
