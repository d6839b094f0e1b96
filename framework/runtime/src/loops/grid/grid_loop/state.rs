//! State and runs of a loop over a grid, independent of the type of its values.

use std::ops::Range;
use std::time::Duration;

use armature_planner::loops::Reach;

use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::loops::controller::LoopController;
use crate::loops::coordinator::{Learned, LoopCoordinator};
use crate::loops::grid::NAME;
use crate::loops::grid::checkpoint::{CheckpointWriter, Resumed};
use crate::loops::grid::convergence::{Checks, UntilDone, share};
use crate::loops::grid::coordinator::GridCoordinator;
use crate::loops::grid::findings::Findings;
use crate::loops::grid::kernel::{Kernel, Work};
use crate::loops::grid::neighbours::Position;
use crate::loops::grid::participant::GridParticipant;
use crate::loops::grid::rowless::run_without_rows;
use crate::loops::grid::shape::{Edges, Shape};
use crate::loops::grid::worker::GridWorker;
use crate::loops::settings::{LoopKind, Settings};
use crate::loops::summary::Summary;
use crate::loops::until::{CheckResult, Converged};
use crate::persist::snapshot::LoadedPiece;
use crate::rank::driver::RankDriver;
use crate::rank::executor::Executor;
use crate::session::{Announcement, Config, Driver};

#[derive(Debug)]
pub(in crate::loops::grid) struct LoopState {
    pub(in crate::loops::grid) name: String,
    pub(in crate::loops::grid) kind: LoopKind,
    pub(in crate::loops::grid) shape: Shape,
    pub(in crate::loops::grid) settings: Settings,
    /// Name of the type of the values, and its size in bytes.
    pub(super) value: (&'static str, usize),
    runs: u64,
    /// Kind of edges and number of stored columns with which this rank's rows have been created.
    pub(super) initialised: Option<(Edges, usize)>,
    /// Rows read from a checkpoint, kept until this rank's rows are created from them.
    pub(super) found: Vec<LoadedPiece>,
    pub(super) held: Vec<u64>,
    /// On rank 0, the distribution of rows and the speeds of the ranks that the previous run has learned.
    learned: Option<Learned>,
    /// Duration of a piece of a sweep, as measured in the previous run.
    piece_time: Option<Duration>,
}

pub(in crate::loops::grid) struct Passes<'d> {
    /// Number of sweeps; the maximum number in a loop until convergence.
    pub(in crate::loops::grid) sweeps: u64,
    pub(in crate::loops::grid) until: Option<UntilDone<'d>>,
    /// Results that user code has gathered (findings), if they are written to checkpoints.
    pub(in crate::loops::grid) findings: Option<Findings>,
}

/// Run of a loop over a grid, after all ranks have announced that they begin it.
pub(super) struct Run<'d> {
    pub(super) position: Position,
    /// Number of sweeps that this run has to do, without those that an earlier job has done.
    pub(super) sweeps: u64,
    /// True if the run has nothing to compute, because the number of sweeps, rows or columns is zero.
    pub(super) is_empty: bool,
    pub(super) resumed: Resumed,
    passes: Passes<'d>,
}

/// Parts of a run on one rank: coordinator, checkpoint writer, convergence checks, and number of sweeps that an earlier job has done.
type Watched<'d> = (Option<GridCoordinator>, Option<CheckpointWriter>, Option<Checks<'d>>, u64);

impl LoopState {
    pub(super) fn new(name: &str, shape: Shape, kind: LoopKind, value: (&'static str, usize)) -> Self {
        LoopState {
            name: name.to_string(),
            kind,
            shape,
            settings: Settings::default(),
            value,
            runs: 0,
            initialised: None,
            found: Vec::new(),
            held: Vec::new(),
            learned: None,
            piece_time: None,
        }
    }

    /// Begins a run on all ranks, and looks for a checkpoint. `has_rows` is true if this rank has its rows already.
    pub(super) fn begin<'d>(
        &mut self,
        endpoint: &mut Endpoint,
        config: &Config,
        passes: Passes<'d>,
        has_rows: bool,
    ) -> Result<Run<'d>> {
        let (rank, until) = (endpoint.rank(), passes.until.as_ref().map(|until| until.until));
        self.settings.speeds = config.speeds();
        let checked = self.settings.check(self.kind).and_then(|()| self.check_initialised());
        let checked = checked.and_then(|()| until.map_or(Ok(()), |until| until.check()));
        let checked = checked.map_err(|error| error.in_loop(&self.name).at_rank(rank));
        checked.inspect_err(|error| endpoint.report(error))?;
        self.runs += 1;
        let what = self.announcement(&format!("runs the {} {:?}", self.kind, self.name));
        let what = self.settings.announced(what.with("sweeps", passes.sweeps).with("run number", self.runs));
        let what = until.map_or(what.clone(), |until| until.announced(what));
        endpoint.begin_work(&what, config.join_limit)?;
        let position = self.position(rank, endpoint.size());
        let resumed = self.resume(endpoint, position, config, &passes, has_rows);
        let resumed = self.reported(endpoint, resumed)?;
        let sweeps = passes.sweeps - resumed.before;
        let is_empty = self.edges().is_empty(self.shape) || sweeps == 0;
        Ok(Run { position, sweeps, is_empty, resumed, passes })
    }

    /// Runs all sweeps. If the rank has rows, `worker` is its worker and `work` calls user code for a piece of a sweep.
    pub(super) fn finish<'w>(
        &mut self,
        endpoint: &mut Endpoint,
        config: &Config,
        run: Run<'_>,
        worker: Option<&'w mut (dyn GridWorker + 'w)>,
        work: &'w mut Work<'w>,
    ) -> Result<Converged> {
        let (sweeps, is_until) = (run.passes.sweeps, run.passes.until.is_some());
        let ended = self.on_rank(endpoint, config, run, worker, work).and_then(|(summary, last)| {
            endpoint.check_run_stopped()?;
            let last = if is_until { share(endpoint, &self.name, config.limits(), last)? } else { None };
            Ok(Converged::new(last, sweeps, summary))
        });
        self.reported(endpoint, ended)
    }

    fn on_rank<'w>(
        &mut self,
        endpoint: &mut Endpoint,
        config: &Config,
        Run { position, sweeps, is_empty, resumed, passes }: Run<'_>,
        worker: Option<&'w mut (dyn GridWorker + 'w)>,
        work: &'w mut Work<'w>,
    ) -> Result<(Option<Summary>, Option<CheckResult>)> {
        let (rank, size) = (endpoint.rank(), endpoint.size());
        let Resumed { snapshots, writer, before, .. } = resumed;
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
            let of_run = LoopCoordinator::new(name, controller, snapshots, self.held.clone(), now);
            Some(GridCoordinator::new(of_run, sweeps, eager, now).after(self.kind.passes(), before))
        } else {
            None
        };
        if is_empty {
            let finish = |coordinator: GridCoordinator| coordinator.finish(self.units(), 0, size).0;
            return Ok((coordinator.map(finish), None));
        }
        let checks = passes.until.map(|UntilDone { until, mine, is_done }| {
            Checks::new(until, mine, (before, sweeps), (rank == 0).then_some((position.chain, is_done)))
        });
        let (coordinator, last, block_size) = match worker {
            Some(worker) => {
                let watched = (coordinator, checkpoints, checks, before);
                self.sweep(endpoint, position, config, worker, work, watched)?
            }
            None => {
                run_without_rows(endpoint, config)?;
                (coordinator, None, 0)
            }
        };
        let summary = coordinator.map(|coordinator| {
            let is_stopped = last.is_some_and(|last| last.is_converged);
            let (summary, learned) = coordinator.finish(self.units(), block_size, size);
            self.held.clone_from(&learned.held);
            // A loop that converged may have ended before a movement of rows that was ordered, so the distribution of rows that the
            // coordinator has recorded is not used.
            self.learned = (!is_stopped).then_some(learned);
            summary
        });
        Ok((summary, last))
    }

    pub(super) fn reported<R>(&self, endpoint: &mut Endpoint, result: Result<R>) -> Result<R> {
        let rank = endpoint.rank();
        result.map_err(|error| self.here(error, rank)).inspect_err(|error| endpoint.report(error))
    }

    /// Runs all sweeps on a rank that has rows. Returns the coordinator on rank 0, the last verdict about convergence, and the block
    /// size.
    fn sweep<'w>(
        &mut self,
        endpoint: &mut Endpoint,
        position: Position,
        config: &Config,
        worker: &'w mut (dyn GridWorker + 'w),
        work: &'w mut Work<'w>,
        (coordinator, checkpoints, checks, before): Watched<'_>,
    ) -> Result<(Option<GridCoordinator>, Option<CheckResult>, u64)> {
        let (clock, waker) = (endpoint.clock(), endpoint.transport().waker());
        let choice = if endpoint.capabilities().real_time { config.driver } else { Driver::Inline };
        let kernel = Kernel::new(work, clock, before);
        std::thread::scope(|scope| {
            let usual = self.piece_time;
            let executor =
                Executor::at_first_job(Some(scope), position.rank, choice, waker, clock, kernel, usual);
            let driver = RankDriver::new(endpoint, executor, config, NAME);
            let mut participant =
                GridParticipant::new(worker, endpoint, position, config, coordinator, checkpoints, checks);
            let result =
                driver.run(endpoint, &mut participant).map_err(|error| self.here(error, position.rank));
            // A failure is reported to the other ranks before the thread scope ends. Its end waits for the compute thread, which may be in user code
            // for a long time.
            result.inspect_err(|error| endpoint.report(error))?;
            let (coordinator, piece_time, last, block_size) = participant.finish();
            self.piece_time = piece_time;
            Ok((coordinator, last, block_size))
        })
    }

    /// Adds the names of the loop and of the rank to an error, unless the error came from another rank.
    pub(super) fn here(&self, error: Error, rank: usize) -> Error {
        match error.kind() {
            ErrorKind::Peer => error,
            _ => error.in_loop(&self.name).at_rank(rank),
        }
    }

    pub(super) fn edges(&self) -> Edges {
        match self.kind {
            LoopKind::Table => Edges::Above,
            _ if self.settings.is_periodic => Edges::Periodic(self.shape.rows),
            _ => Edges::Fixed,
        }
    }

    /// Returns the number of columns that a rank stores of each of its rows: all columns of a grid, but of a table only one panel (the block of
    /// columns that one sweep fills) and the column to the left of the panel.
    pub(in crate::loops::grid) fn width(&self) -> usize {
        match self.kind {
            LoopKind::Table => 1 + self.settings.panel(self.shape.columns),
            _ => self.shape.columns,
        }
    }

    /// Returns the range of columns that a sweep computes, as indices into a stored row. Stored rows of a table contain only one panel of
    /// columns and the column to its left.
    pub(in crate::loops::grid) fn inner(&self) -> Range<usize> {
        match self.kind {
            LoopKind::Table => 1..self.width(),
            _ => self.shape.inner(),
        }
    }

    pub(super) fn units(&self) -> u64 {
        self.edges().units(self.shape)
    }

    /// Checks that the options that determine edges and columns of the grid have not changed since the rows were created.
    fn check_initialised(&self) -> Result<()> {
        match self.initialised {
            Some(initialised) if initialised != (self.edges(), self.width()) => {
                let text = "periodic rows or the panel width were changed after the rows had been created";
                Err(Error::new(ErrorKind::Config, text))
            }
            _ => Ok(()),
        }
    }

    /// Describes an operation on the grid, for the check that all ranks call the same operation.
    pub(super) fn announcement(&self, what: &str) -> Announcement {
        let Shape { rows, columns } = self.shape;
        let what = Announcement::new(what).with("shape", format_args!("{rows} x {columns}"));
        what.with("values of type", self.value.0)
    }

    pub(super) fn position(&self, rank: usize, size: usize) -> Position {
        let chain = usize::try_from(self.units()).unwrap_or(usize::MAX).min(size);
        Position { rank, chain }
    }

    /// Returns the initial number of rows of each rank. If there are fewer rows than ranks, the first ranks have one row each, and
    /// the others none.
    pub(super) fn first(&self, size: usize) -> Result<Vec<u64>> {
        Shape { columns: self.width(), ..self.shape }.check(self.value.1)?;
        let first = self.settings.first(self.units(), size)?;
        let chain = self.position(0, size).chain;
        Ok(if chain < size { vec![1; chain] } else { first })
    }
}
