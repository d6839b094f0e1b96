//! Grid whose rows are distributed over the ranks in blocks.

mod gather;
mod resume;
mod state;

use std::ops::Range;

use bytemuck::Pod;

use super::findings::Resume;
use super::local_rows::LocalRows;
use super::neighbours::Position;
use super::shape::Shape;
use super::worker::{GridWorker, Storage};
use crate::error::{BoxError, Error, Result};
use crate::loops::settings::LoopKind;
use crate::loops::until::Converged;
use crate::persist::snapshot::LoadedPiece;
use crate::session::Session;
use crate::user_code;

pub(super) use self::state::{LoopState, Passes};

/// This rank's rows of a loop over a grid, and the state of the loop. [`LoopState`], which executes the runs, does not depend on the type of the
/// values; only the rows and the user code know it.
#[derive(Debug)]
pub(super) struct GridLoop<T> {
    pub(super) state: LoopState,
    /// This rank's rows, once they have been created; `None` on ranks without rows.
    local: Option<LocalRows<T>>,
}

pub(super) struct Begin<'u, U, R, S> {
    pub(super) user: &'u mut U,
    /// Computes the initial values of a row that is not read from a checkpoint.
    pub(super) row: R,
    /// Informs user code of a checkpoint from which the job resumes: the number of sweeps done, and results of user code (findings)
    /// that ranks had saved.
    pub(super) resume: S,
}

impl<T: Pod + Send> GridLoop<T> {
    pub(super) fn new(name: &str, shape: Shape, kind: LoopKind) -> Self {
        let value = (std::any::type_name::<T>(), size_of::<T>());
        GridLoop { state: LoopState::new(name, shape, kind, value), local: None }
    }

    /// Runs the loop on all ranks. `make` turns the rows of a rank into a worker, `work` computes a piece of a sweep with user code, and `end` turns
    /// the worker into rows again.
    pub(super) fn run<U: Send, M: GridWorker>(
        &mut self,
        session: &mut Session,
        passes: Passes<'_>,
        begin: Begin<'_, U, impl FnMut(&mut U, u64, &mut [T]) -> Result<(), BoxError>, impl Resume<U>>,
        make: impl FnOnce(Position, LocalRows<T>, u64) -> M,
        mut work: impl FnMut(&mut U, &mut dyn Storage, &Range<usize>) -> Result<(), BoxError> + Send,
        end: impl FnOnce(M) -> LocalRows<T>,
    ) -> Result<Converged> {
        let (endpoint, config) = session.endpoint();
        let Begin { user, row, resume } = begin;
        let mut run = self.state.begin(endpoint, config, passes, self.local.is_some())?;
        let (position, before) = (run.position, run.resumed.before);
        let found = std::mem::take(&mut run.resumed.found);
        let started = self
            .create(position.rank, endpoint.size(), user, row)
            .and_then(|()| if before > 0 { user_code::call(|| resume(user, before, found)) } else { Ok(()) });
        self.state.reported(endpoint, started)?;
        let local = if run.is_empty { None } else { self.local.take() };
        let mut worker = local.map(|local| make(position, local, run.sweeps));
        let as_worker = worker.as_mut().map(|worker| worker as &mut dyn GridWorker);
        let mut work = |storage: &mut dyn Storage, piece: &Range<usize>| work(user, storage, piece);
        let converged = self.state.finish(endpoint, config, run, as_worker, &mut work)?;
        if let Some(worker) = worker {
            self.local = Some(end(worker));
        }
        Ok(converged)
    }

    fn create<U>(
        &mut self,
        rank: usize,
        size: usize,
        user: &mut U,
        mut row: impl FnMut(&mut U, u64, &mut [T]) -> Result<(), BoxError>,
    ) -> Result<()> {
        let state = &mut self.state;
        let (first, edges, width) = (state.first(size)?, state.edges(), state.width());
        state.initialised = Some((edges, width));
        if self.local.is_some() || rank >= first.len() {
            return Ok(());
        }
        let start = 1 + first[..rank].iter().sum::<u64>();
        let rows = start..start + first[rank];
        let found = std::mem::take(&mut state.found);
        let make = |place: u64, values: &mut [T]| {
            let index = edges.number(place);
            match kept(&found, index.checked_sub(edges.first())) {
                Some(kept) => bytemuck::cast_slice_mut(values).copy_from_slice(kept),
                None => make_row(rank, index, || row(user, index, values))?,
            }
            Ok(())
        };
        self.local = Some(LocalRows::create(width, rows, make)?.between(edges));
        if rank == 0 {
            self.state.held = first;
        }
        Ok(())
    }
}

/// Returns a row as bytes, if the checkpoint pieces that this rank has loaded contain it. `unit` is its number among the computed
/// rows.
fn kept(found: &[LoadedPiece], unit: Option<u64>) -> Option<&[u8]> {
    let unit = unit?;
    let piece = found.iter().find(|piece| piece.units.contains(&unit))?;
    let bytes = piece.data.len() / (piece.units.end - piece.units.start) as usize;
    let at = (unit - piece.units.start) as usize * bytes;
    Some(&piece.data[at..at + bytes])
}

/// Calls the user code that fills a row, and adds the number of the row to its errors.
fn make_row(rank: usize, index: u64, row: impl FnOnce() -> Result<(), BoxError>) -> Result<()> {
    let position = |error: Error| {
        Error::new(error.kind(), format!("{} (in row {index})", error.message())).at_rank(rank)
    };
    user_code::call(row).map_err(position)
}
