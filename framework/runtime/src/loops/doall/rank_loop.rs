//! State of a DOALL loop on one rank, which is kept from run to run.

use std::ops::Range;
use std::time::Duration;

use super::block_size::BlockSize;
use super::checkpoint::{Checkpoints, resume};
use super::messages::UnitMigration;
use super::unit_queue::Segment;
use super::worker::DoAllWorker;
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::loops::coordinator::Learned;
use crate::loops::settings::{LoopKind, Settings};
use crate::loops::units::Units;
use crate::loops::until::Until;
use crate::session::{Announcement, Config};

pub(in crate::loops) struct RankLoop<U> {
    pub(super) name: String,
    pub(super) settings: Settings,
    pub(super) units: u64,
    pub(super) worker: DoAllWorker<U>,
    pub(super) block_size: BlockSize,
    pub(super) has_units: bool,
    pub(super) runs: u64,
    /// True if a unit (row or index) may be computed again before all other units have been computed in the present pass.
    pub(super) nowait: bool,
    /// Writer of checkpoints, if the loop has any. Only the loop's first run writes checkpoints.
    pub(super) checkpoints: Option<Checkpoints>,
    /// On rank 0, the distribution of units (rows or indices) and the speeds of the ranks that earlier runs have learned.
    pub(super) learned: Option<Learned>,
    /// Mean duration of a block (call of user code) on this rank in the previous run.
    pub(super) usual: Option<Duration>,
    /// In a loop until convergence: the number of passes before this run, and the options of the whole loop.
    pub(super) until: Option<(u64, Until)>,
}

impl<U: Units> RankLoop<U> {
    pub(in crate::loops) fn new(name: &str, units: u64, settings: Settings) -> Self {
        RankLoop {
            name: name.to_string(),
            block_size: BlockSize::new(settings.block_size),
            settings,
            units,
            worker: DoAllWorker::new(),
            has_units: false,
            runs: 0,
            nowait: false,
            checkpoints: None,
            learned: None,
            usual: None,
            until: None,
        }
    }

    pub(in crate::loops) fn name(&self) -> &str {
        &self.name
    }

    pub(in crate::loops) fn units(&self) -> u64 {
        self.units
    }

    pub(in crate::loops) fn change(&mut self, set: impl FnOnce(&mut Settings)) {
        set(&mut self.settings);
        self.block_size = BlockSize::new(self.settings.block_size);
    }

    /// # Errors
    /// If an option is set that this kind of loop does not have.
    pub(in crate::loops) fn check(&self, kind: LoopKind, rank: usize) -> Result<()> {
        self.settings.check(kind).map_err(|error| error.in_loop(&self.name).at_rank(rank))
    }

    /// # Errors
    /// [`ErrorKind::Config`] if a checkpoint is set, because a loop until convergence consists of several runs.
    pub(super) fn check_has_no_checkpoint(&self) -> Result<()> {
        let text = "the option checkpoint is set, but a DOALL loop until convergence consists of several runs, and a \
                    checkpoint belongs to one";
        if self.settings.checkpoint.is_some() { Err(Error::new(ErrorKind::Config, text)) } else { Ok(()) }
    }

    /// Distributes the units (rows or indices) by the speeds of the ranks that are known before the job starts, unless the program
    /// has set shares. Must be called before the first [`wants`](RankLoop::wants) of a run.
    pub(in crate::loops) fn expect_speeds(&mut self, config: &Config) {
        self.settings.speeds = config.speeds();
    }

    /// Returns the range of units (rows or indices) that this rank holds first, or `None` if the rank has its units already.
    ///
    /// # Errors
    /// If the shares of the units per rank, which the user has set, cannot be used.
    pub(in crate::loops) fn wants(&self, rank: usize, ranks: usize) -> Result<Option<Range<u64>>> {
        if self.has_units {
            return Ok(None);
        }
        let first = self.first(ranks)?;
        let start = first[..rank].iter().sum();
        Ok(Some(start..start + first[rank]))
    }

    pub(super) fn first(&self, ranks: usize) -> Result<Vec<u64>> {
        self.settings.first(self.units, ranks).map_err(|error| error.in_loop(&self.name))
    }

    /// # Errors
    /// If `units` does not hold the data of as many units (rows or indices) as `range` has, or the data cannot be encoded.
    pub(in crate::loops) fn set_units(&mut self, range: Range<u64>, units: U) -> Result<()> {
        let count = range.end - range.start;
        let fits = match usize::try_from(count) {
            Ok(count) => units.check(count),
            Err(_) => Err(format!("{count} units, which do not fit into memory")),
        };
        if let Err(what) = fits {
            let text = format!("the data of units {range:?} cannot be {what}");
            return Err(Error::new(ErrorKind::User, text).in_loop(&self.name));
        }
        units.check_travel().map_err(|error| error.in_loop(&self.name))?;
        self.worker.take_initial(Segment::new(range.start, count, units));
        self.has_units = true;
        Ok(())
    }

    /// Describes a run of `passes` passes for the check that all ranks run the same loop with the same options.
    pub(in crate::loops) fn announcement(&mut self, passes: u64) -> Announcement {
        self.runs += 1;
        let what = Announcement::new(format!("runs the DOALL loop {:?}", self.name));
        let what = self.until.map_or(what.clone(), |(_, until)| until.announced(what));
        let what = what.with("units", self.units).with("storage", std::any::type_name::<U>());
        let what = what.with("passes", passes).with("run number", self.runs).with("barriers", !self.nowait);
        self.settings.announced(what)
    }

    /// Looks for a checkpoint before a run of `passes` passes, if the option is set, and takes this rank's units (rows or indices) from it.
    /// Returns the number of remaining passes.
    ///
    /// # Errors
    /// If this is not the loop's first run, or the checkpoint has more than `passes` passes; the errors of [`resume`].
    pub(in crate::loops) fn resume(
        &mut self,
        endpoint: &mut Endpoint,
        config: &Config,
        passes: u64,
    ) -> Result<u64> {
        self.checkpoints = None;
        let Some(checkpoint) = &self.settings.checkpoint else { return Ok(passes) };
        let refuse = |text: String| Err(Error::new(ErrorKind::Config, text));
        let rank = endpoint.rank();
        let Some(range) = self.wants(rank, endpoint.size())? else {
            return refuse(
                "a checkpoint is set, but this is not the first run of the loop; a checkpoint belongs to \
                           its first run"
                    .into(),
            );
        };
        let (checkpoints, units) = resume(endpoint, config, checkpoint, (&self.name, self.units), &range)?;
        let before = checkpoints.before;
        if before > passes {
            return refuse(format!(
                "the checkpoint was written after {before} passes, but the run has only {passes}"
            ));
        }
        if let Some(units) = units {
            self.set_units(range, units)?;
        }
        self.checkpoints = Some(checkpoints);
        Ok(passes - before)
    }

    /// Adds the name of the loop to an error that arose on this rank.
    pub(in crate::loops) fn placed(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Peer { error } else { error.in_loop(&self.name) }
    }

    pub(in crate::loops) fn copies(&self) -> UnitMigration<U> {
        let copy = |segment: &Segment<U>| Segment::new(segment.first, segment.count, segment.units.copy());
        UnitMigration { round: 0, segments: self.worker.unit_queue.segments().map(copy).collect() }
    }
}

impl<U> std::fmt::Debug for RankLoop<U> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RankLoop")
            .field("name", &self.name)
            .field("units", &self.units)
            .finish_non_exhaustive()
    }
}
