//! A grid that is distributed over the ranks in blocks of rows.

mod gather;
mod resume;

use std::ops::Range;
use std::time::Duration;

use bytemuck::Pod;

use super::chain::Chain;
use super::checkpoint::{CheckpointWriter, Resumed};
use super::convergence::{Checks, UntilDone, share};
use super::findings::{Findings, Resume};
use super::kernel::Kernel;
use super::local_rows::LocalRows;
use super::neighbours::Position;
use super::participant::Participant;
use super::shape::{Edges, Shape};
use super::spare::stand_by;
use super::worker::Worker;
use crate::comm::endpoint::Endpoint;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::loops::controller::LoopController;
use crate::loops::coordinator::{Coordinator, Learned};
use crate::loops::settings::{LoopKind, Settings};
use crate::loops::summary::Summary;
use crate::loops::until::{Converged, Verdict};
use crate::persist::snapshot::LoadedPiece;
use crate::rank::driver::Driver;
use crate::rank::executor::Executor;
use crate::session::{Announcement, Config, Driver as Choice, Session};
use crate::user_code;
use armature_planner::loops::Reach;

/// State of a loop over a grid that lasts from run to run.
#[derive(Debug)]
pub(super) struct GridLoop<T> {
    pub(super) name: String,
    pub(super) kind: LoopKind,
    pub(super) shape: Shape,
    pub(super) settings: Settings,
    /// Number of runs so far.
    runs: u64,
    /// This rank's rows, once they have been created; `None` on ranks without rows.
    local: Option<LocalRows<T>>,
    /// Edges and width with which the rows have been created.
    made: Option<(Edges, usize)>,
    /// Rows read from a checkpoint, until `local` is created from them.
    found: Vec<LoadedPiece>,
    /// On rank 0, the number of rows of each rank that has any.
    held: Vec<u64>,
    /// On rank 0, what the previous run has learned.
    learned: Option<Learned>,
    /// Duration of a piece in the previous run.
    piece_time: Option<Duration>,
}

/// Passes of a run.
pub(super) struct Passes<'d> {
    /// Number of sweeps; the maximum number in a loop until convergence.
    pub(super) sweeps: u64,
    pub(super) until: Option<UntilDone<'d>>,
    /// Findings of user code in the rows, if they belong in checkpoints.
    pub(super) findings: Option<Findings>,
}

/// User code before the first sweep.
pub(super) struct Begin<'u, U, R, S> {
    pub(super) user: &'u mut U,
    /// Creates a row that is in no checkpoint.
    pub(super) row: R,
    /// Receives the number of sweeps that an earlier job has done, and the findings of some of its ranks.
    pub(super) resume: S,
}

/// Coordinator, checkpoint writer and convergence checks of a rank, and the number of sweeps that an earlier job has done.
type Watched<'d> = (Option<Chain>, Option<CheckpointWriter>, Option<Checks<'d>>, u64);

impl<T: Pod + Send> GridLoop<T> {
    pub(super) fn new(name: &str, shape: Shape, kind: LoopKind) -> Self {
        let name = name.to_string();
        GridLoop {
            name,
            kind,
            shape,
            settings: Settings::default(),
            runs: 0,
            local: None,
            made: None,
            found: Vec::new(),
            held: Vec::new(),
            learned: None,
            piece_time: None,
        }
    }

    /// Runs the loop on all ranks. Each rank makes a worker of its rows, computes the worker's pieces with `work`, and gets its rows back with `end`.
    pub(super) fn run<U: Send, M: Worker>(
        &mut self,
        session: &mut Session,
        passes: Passes<'_>,
        begin: Begin<'_, U, impl FnMut(&mut U, u64, &mut [T]) -> Result<(), BoxError>, impl Resume<U>>,
        make: impl FnOnce(Position, LocalRows<T>, u64) -> M,
        work: impl FnMut(&mut U, &mut M::Storage, &M::Piece) -> Result<(), BoxError> + Send,
        end: impl FnOnce(M) -> (LocalRows<T>, u64),
    ) -> Result<Converged> {
        let (endpoint, config) = session.endpoint();
        let rank = endpoint.rank();
        let (sweeps, until) = (passes.sweeps, passes.until.as_ref().map(|until| until.until));
        let checked = self.settings.check(self.kind).and_then(|()| self.check_made());
        let checked = checked.and_then(|()| until.map_or(Ok(()), |until| until.check()));
        let checked = checked.map_err(|error| error.in_loop(&self.name).at_rank(rank));
        checked.inspect_err(|error| endpoint.report(error))?;
        self.runs += 1;
        let what = self.announcement(&format!("runs the {} {:?}", self.kind, self.name));
        let what = self.settings.announced(what.with("sweeps", sweeps).with("run number", self.runs));
        let what = until.map_or(what.clone(), |until| until.announced(what));
        endpoint.begin_work(&what, config.join_limit)?;
        let result =
            self.on_rank((endpoint, config), passes, begin, make, work, end).and_then(|(summary, last)| {
                endpoint.check_run_stopped()?;
                let last =
                    if until.is_some() { share(endpoint, &self.name, config.limits(), last)? } else { None };
                Ok(Converged::new(last, sweeps, summary))
            });
        result.map_err(|error| self.here(error, rank)).inspect_err(|error| endpoint.report(error))
    }

    fn on_rank<U: Send, M: Worker>(
        &mut self,
        (endpoint, config): (&mut Endpoint, &Config),
        passes: Passes<'_>,
        begin: Begin<'_, U, impl FnMut(&mut U, u64, &mut [T]) -> Result<(), BoxError>, impl Resume<U>>,
        make: impl FnOnce(Position, LocalRows<T>, u64) -> M,
        mut work: impl FnMut(&mut U, &mut M::Storage, &M::Piece) -> Result<(), BoxError> + Send,
        end: impl FnOnce(M) -> (LocalRows<T>, u64),
    ) -> Result<(Option<Summary>, Option<Verdict>)> {
        let (rank, size) = (endpoint.rank(), endpoint.size());
        let position = self.position(rank, size);
        let Begin { user, row, resume } = begin;
        let Resumed { snapshots, writer, before, found } =
            self.resume(endpoint, position, config, passes.sweeps, passes.findings.as_ref())?;
        self.create(rank, size, user, row)?;
        if before > 0 {
            user_code::call(|| resume(user, before, found))?;
        }
        let sweeps = passes.sweeps - before;
        let checkpoints = writer.map(|writer| CheckpointWriter::new(writer, before, passes.findings));
        let coordinator = if rank == 0 {
            let name = &self.name;
            let mut controller =
                LoopController::new(name, &self.settings, config, endpoint, Reach::Neighbours, &self.held)?;
            if let Some(learned) = self.learned.take() {
                controller.resume(learned.balancer);
            }
            let eager = self.settings.forced.is_some();
            let now = endpoint.clock().now();
            let of_run = Coordinator::new(name, controller, snapshots, self.held.clone(), now);
            Some(Chain::new(of_run, sweeps, eager, now).after(self.kind.passes(), before))
        } else {
            None
        };
        let mut block_size = 0;
        if self.edges().is_empty(self.shape) || sweeps == 0 {
            let finish = |coordinator: Chain| coordinator.finish(self.units(), 0, size).0;
            return Ok((coordinator.map(finish), None));
        }
        let checks = passes.until.map(|UntilDone { until, mine, is_done }| {
            Checks::new(until, mine, (before, sweeps), (rank == 0).then_some((position.chain, is_done)))
        });
        let (coordinator, last) = match self.local.take() {
            Some(local) => {
                let mut worker = make(position, local, sweeps);
                let code = |storage: &mut M::Storage, piece: &M::Piece| work(user, storage, piece);
                let watched = (coordinator, checkpoints, checks, before);
                let ended = self.sweep(endpoint, position, config, &mut worker, code, watched)?;
                let (local, size) = end(worker);
                (self.local, block_size) = (Some(local), size);
                ended
            }
            None => {
                stand_by(endpoint, config)?;
                (coordinator, None)
            }
        };
        let summary = coordinator.map(|coordinator| {
            let is_stopped = last.is_some_and(|last| last.is_over);
            let (summary, learned) = coordinator.finish(self.units(), block_size, size);
            self.held.clone_from(&learned.held);
            // After a stop the state may include a movement that was not made.
            self.learned = (!is_stopped).then_some(learned);
            summary
        });
        Ok((summary, last))
    }

    /// Runs all sweeps on a rank that has rows. Returns the coordinator on rank 0, and the verdict of the last check.
    fn sweep<M: Worker>(
        &mut self,
        endpoint: &mut Endpoint,
        position: Position,
        config: &Config,
        worker: &mut M,
        code: impl FnMut(&mut M::Storage, &M::Piece) -> Result<(), BoxError> + Send,
        (coordinator, checkpoints, checks, before): Watched<'_>,
    ) -> Result<(Option<Chain>, Option<Verdict>)> {
        let (clock, waker) = (endpoint.clock(), endpoint.transport().waker());
        let choice = if endpoint.capabilities().real_time { config.driver } else { Choice::Inline };
        let kernel = Kernel::new(code, clock, before);
        std::thread::scope(|scope| {
            let usual = self.piece_time;
            let executor =
                Executor::at_first_task(Some(scope), position.rank, choice, waker, clock, kernel, usual);
            let driver = Driver::new(endpoint, executor, config, super::NAME);
            let mut participant =
                Participant::new(worker, endpoint, position, config, coordinator, checkpoints, checks);
            let result =
                driver.run(endpoint, &mut participant).map_err(|error| self.here(error, position.rank));
            // The scope waits for the compute thread, which may be in user code for long. A failure is reported before the scope ends, so that the
            // other ranks do not wait for the compute thread.
            result.inspect_err(|error| endpoint.report(error))?;
            let (coordinator, piece_time, last) = participant.finish();
            self.piece_time = piece_time;
            Ok((coordinator, last))
        })
    }

    /// Adds the loop and the rank to an error, unless the error came from another rank.
    fn here(&self, error: Error, rank: usize) -> Error {
        match error.kind() {
            ErrorKind::Peer => error,
            _ => error.in_loop(&self.name).at_rank(rank),
        }
    }

    /// Returns the neighbours of the first and the last computed row.
    fn edges(&self) -> Edges {
        match self.kind {
            LoopKind::Table => Edges::Above,
            _ if self.settings.is_periodic => Edges::Periodic(self.shape.rows),
            _ => Edges::Fixed,
        }
    }

    /// Returns the number of columns that ranks keep of their rows. For a table these are a panel and the column to the left of it.
    pub(super) fn width(&self) -> usize {
        match self.kind {
            LoopKind::Table => 1 + self.settings.panel(self.shape.columns),
            _ => self.shape.columns,
        }
    }

    /// Returns the kept columns that a sweep computes.
    pub(super) fn inner(&self) -> Range<usize> {
        match self.kind {
            LoopKind::Table => 1..self.width(),
            _ => self.shape.inner(),
        }
    }

    /// Returns the number of computed rows.
    fn units(&self) -> u64 {
        self.edges().units(self.shape)
    }

    /// Checks that edges and width have not changed since the rows were created.
    fn check_made(&self) -> Result<()> {
        match self.made {
            Some(made) if made != (self.edges(), self.width()) => {
                let text = "periodic rows or the panel width were changed after the rows had been created";
                Err(Error::new(ErrorKind::Config, text))
            }
            _ => Ok(()),
        }
    }

    /// Describes an operation on the grid; all ranks must announce the same.
    fn announcement(&self, what: &str) -> Announcement {
        let Shape { rows, columns } = self.shape;
        let what = Announcement::new(what).with("shape", format_args!("{rows} x {columns}"));
        what.with("values of type", std::any::type_name::<T>())
    }

    /// Returns the position of a rank in the chain of ranks with rows.
    fn position(&self, rank: usize, size: usize) -> Position {
        let chain = usize::try_from(self.units()).unwrap_or(usize::MAX).min(size);
        Position { rank, chain }
    }

    /// Returns the initial number of rows of each rank that has any: one row each if there are fewer rows than ranks.
    fn first(&self, size: usize) -> Result<Vec<u64>> {
        Shape { columns: self.width(), ..self.shape }.check::<T>()?;
        let first = self.settings.first(self.units(), size)?;
        let chain = self.position(0, size).chain;
        Ok(if chain < size { vec![1; chain] } else { first })
    }

    /// Creates this rank's rows, if that was not done before.
    fn create<U>(
        &mut self,
        rank: usize,
        size: usize,
        user: &mut U,
        mut row: impl FnMut(&mut U, u64, &mut [T]) -> Result<(), BoxError>,
    ) -> Result<()> {
        let first = self.first(size)?;
        let edges = self.edges();
        self.made = Some((edges, self.width()));
        if self.local.is_some() || rank >= first.len() {
            return Ok(());
        }
        let start = 1 + first[..rank].iter().sum::<u64>();
        let rows = start..start + first[rank];
        let found = std::mem::take(&mut self.found);
        let make = |place: u64, values: &mut [T]| {
            let index = edges.number(place);
            match kept(&found, index.checked_sub(edges.first())) {
                Some(kept) => bytemuck::cast_slice_mut(values).copy_from_slice(kept),
                None => make_row(rank, index, || row(user, index, values))?,
            }
            Ok(())
        };
        self.local = Some(LocalRows::create(self.width(), rows, make)?.between(edges));
        if rank == 0 {
            self.held = first;
        }
        Ok(())
    }
}

/// Returns the bytes of a unit from the pieces of a checkpoint, if they contain it.
fn kept(found: &[LoadedPiece], unit: Option<u64>) -> Option<&[u8]> {
    let unit = unit?;
    let piece = found.iter().find(|piece| piece.units.contains(&unit))?;
    let bytes = piece.data.len() / (piece.units.end - piece.units.start) as usize;
    let at = (unit - piece.units.start) as usize * bytes;
    Some(&piece.data[at..at + bytes])
}

/// Calls user code that fills a row.
fn make_row(rank: usize, index: u64, row: impl FnOnce() -> Result<(), BoxError>) -> Result<()> {
    let position = |error: Error| {
        Error::new(error.kind(), format!("{} (in row {index})", error.message())).at_rank(rank)
    };
    user_code::call(row).map_err(position)
}
