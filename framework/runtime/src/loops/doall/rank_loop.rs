//! A rank while a DOALL loop runs: gives out blocks. What happens between two of them is in `hooks.rs`.

use std::ops::Range;
use std::time::Duration;

use armature_planner::loops::{LoopBalancer, Reach};

use super::block_size::BlockSize;
use super::checkpoint::{Checkpoints, resume};
use super::coordinator::Coordinator;
use super::messages::UnitMigration;
use super::unit_queue::{Segment, UnitBlock};
use super::worker::Worker;
use crate::comm::Waiting;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::loops::LOOK;
use crate::loops::controller::LoopController;
use crate::loops::metrics::{Begun, Metrics};
use crate::loops::settings::{LoopKind, Settings};
use crate::loops::summary::Summary;
use crate::loops::units::Units;
use crate::session::{Announcement, Config};

/// A loop on this rank, through all its runs.
pub(in crate::loops) struct RankLoop<U> {
    pub(super) name: String,
    pub(super) settings: Settings,
    pub(super) units: u64,
    pub(super) worker: Worker<U>,
    pub(super) block_size: BlockSize,
    pub(super) has_units: bool,
    /// Runs of this loop so far, where it is run as a whole.
    pub(super) runs: u64,
    /// A unit's next pass may begin before all units have had this one.
    pub(super) nowait: bool,
    /// Checkpoints, in the first run, if they are asked for.
    pub(super) checkpoints: Option<Checkpoints>,
    /// Rank 0: what was learned in earlier runs, and the units that each rank has.
    pub(super) learned: Option<(LoopBalancer, Vec<u64>)>,
    pub(super) run: Option<Run>,
}

/// What belongs to one run.
pub(super) struct Run {
    pub(super) coordinator: Option<Coordinator>,
    pub(super) metrics: Metrics,
    pub(super) clock: Clock,
    pub(super) begin: Duration,
    pub(super) passes: u64,
    pub(super) first: Vec<u64>,
    pub(super) current: Option<(UnitBlock, Begun)>,
    /// Time that the movement in hand has taken so far.
    pub(super) moving: Duration,
    /// Rank 0: a report has come that may lead to a directive.
    pub(super) dirty: bool,
    pub(super) alone: bool,
    pub(super) peer_limit: Duration,
    pub(super) join_limit: Duration,
}

impl<U: Units> RankLoop<U> {
    /// A loop over `units` units.
    pub(in crate::loops) fn new(name: &str, units: u64, settings: Settings) -> Self {
        RankLoop {
            name: name.to_string(),
            block_size: BlockSize::new(settings.block_size),
            settings,
            units,
            worker: Worker::new(0),
            has_units: false,
            runs: 0,
            nowait: false,
            checkpoints: None,
            learned: None,
            run: None,
        }
    }

    pub(in crate::loops) fn name(&self) -> &str {
        &self.name
    }

    pub(in crate::loops) fn units(&self) -> u64 {
        self.units
    }

    /// Changes what was set.
    pub(in crate::loops) fn change(&mut self, set: impl FnOnce(&mut Settings)) {
        set(&mut self.settings);
        self.block_size = BlockSize::new(self.settings.block_size);
    }

    /// Whether all ranks get what is collected.
    pub(in crate::loops) fn on_all_ranks(&self) -> bool {
        self.settings.on_all_ranks
    }

    /// Whether a loop of this kind has the options that are set.
    ///
    /// # Errors
    /// If it has not.
    pub(in crate::loops) fn check(&self, kind: LoopKind, rank: usize) -> Result<()> {
        self.settings.check(kind).map_err(|error| error.in_loop(&self.name).at_rank(rank))
    }

    /// The units that this rank is to have at first; `None` if it has them already.
    ///
    /// # Errors
    /// If the shares that were set cannot be used.
    pub(in crate::loops) fn wants(&self, rank: usize, ranks: usize) -> Result<Option<Range<u64>>> {
        if self.has_units {
            return Ok(None);
        }
        let first = self.first(ranks)?;
        let start = first[..rank].iter().sum();
        Ok(Some(start..start + first[rank]))
    }

    fn first(&self, ranks: usize) -> Result<Vec<u64>> {
        self.settings.first(self.units, ranks).map_err(|error| error.in_loop(&self.name))
    }

    /// The data of the units that it [wants](RankLoop::wants).
    ///
    /// # Errors
    /// If they are not the data of as many units.
    pub(in crate::loops) fn give(&mut self, rank: usize, range: Range<u64>, units: U) -> Result<()> {
        let count = range.end - range.start;
        let fits = match usize::try_from(count) {
            Ok(count) => units.check(count),
            Err(_) => Err(format!("{count} units, more than fit into memory")),
        };
        if let Err(what) = fits {
            let text = format!("the data of units {range:?} cannot be {what}");
            return Err(Error::new(ErrorKind::User, text).in_loop(&self.name).at_rank(rank));
        }
        units.check_travel().map_err(|error| error.in_loop(&self.name).at_rank(rank))?;
        self.worker = Worker::new(rank);
        self.worker.unit_queue.receive(Segment::new(range.start, count, units));
        self.has_units = true;
        Ok(())
    }

    /// What a run of `passes` passes is, as all ranks must run it.
    pub(in crate::loops) fn announcement(&mut self, passes: u64) -> Announcement {
        self.runs += 1;
        let what = Announcement::new(format!("runs the DOALL loop {:?}", self.name));
        let what = what.with("units", self.units).with("storage", std::any::type_name::<U>());
        let what = what.with("passes", passes).with("run number", self.runs).with("barriers", !self.nowait);
        self.settings.announced(what)
    }

    /// Before a run of `passes` passes: looks for a checkpoint, if they are asked for, and takes this rank's units out of it.
    /// Returns the passes that are left.
    ///
    /// # Errors
    /// If it is not the loop's first run, or the checkpoint is of more passes; and as [`resume`].
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
            return refuse("a checkpoint is of one run of a loop, and this is not its first".into());
        };
        let (checkpoints, units) = resume(endpoint, config, checkpoint, (&self.name, self.units), &range)?;
        let before = checkpoints.before;
        if before > passes {
            return refuse(format!(
                "the checkpoint is after {before} passes, but only {passes} are asked for"
            ));
        }
        if let Some(units) = units {
            self.give(rank, range, units)?;
        }
        self.checkpoints = Some(checkpoints);
        Ok(passes - before)
    }

    /// Begins a run of `passes` passes, at least one.
    ///
    /// # Errors
    /// If the options cannot be used.
    pub(in crate::loops) fn begin(
        &mut self,
        endpoint: &mut Endpoint,
        config: &Config,
        passes: u64,
    ) -> Result<()> {
        let clock = endpoint.clock();
        let eager = self.settings.forced.is_some();
        // Passes that need not wait for each other are one, in which units are done as many times, as far as these can be counted. A
        // checkpoint is of a moment in which all units have been done equally often.
        let is_one = self.nowait && self.checkpoints.is_none() && self.units.checked_mul(passes).is_some();
        let (rounds, times) = if is_one { (1, passes) } else { (passes, 1) };
        self.worker.begin(times, eager);
        let mut run = Run {
            coordinator: None,
            metrics: Metrics::new(clock),
            clock,
            begin: clock.now(),
            passes,
            first: Vec::new(),
            current: None,
            moving: Duration::ZERO,
            dirty: true,
            alone: endpoint.size() == 1,
            peer_limit: config.peer_limit,
            join_limit: config.join_limit,
        };
        let mut directive = None;
        if endpoint.rank() == 0 {
            let (learned, held) = match self.learned.take() {
                Some((balancer, held)) => (Some(balancer), held),
                None => (None, self.first(endpoint.size())?),
            };
            let controller =
                LoopController::new(&self.name, &self.settings, config, endpoint, Reach::Anywhere, &held)?;
            let snapshots = self.checkpoints.as_mut().and_then(|checkpoints| checkpoints.snapshots.take());
            let mut coordinator = Coordinator::new(controller, snapshots, &held, (rounds, times), eager);
            if let Some(balancer) = learned {
                directive = coordinator.open(balancer)?;
            }
            (run.first, run.coordinator) = (held, Some(coordinator));
        }
        self.run = Some(run);
        directive.map_or(Ok(()), |directive| self.issue(endpoint, directive))
    }

    /// The next block to do, when the one before is done; `None` when the run is over.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if other ranks are silent for too long; what the transport reports; what another rank sent
    /// and makes no sense.
    pub(in crate::loops) fn next(&mut self, endpoint: &mut Endpoint) -> Result<Option<UnitBlock>> {
        self.hook(endpoint).map_err(|error| self.placed(endpoint, error))
    }

    /// What is still to be done of the block that [`next`](RankLoop::next) has given, where user code has come to the unit `rest` of
    /// it: after a hook, if it is time for one, in which units may have moved away. `None` if nothing is left.
    ///
    /// # Errors
    /// As [`next`](RankLoop::next).
    pub(in crate::loops) fn rest(&mut self, endpoint: &mut Endpoint, rest: u64) -> Result<Option<UnitBlock>> {
        self.hook_within(endpoint, rest).map_err(|error| self.placed(endpoint, error))
    }

    /// An error between two blocks, with its loop and rank.
    fn placed(&self, endpoint: &Endpoint, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Peer => error,
            _ => error.in_loop(&self.name).at_rank(endpoint.rank()),
        }
    }

    fn hook_within(&mut self, endpoint: &mut Endpoint, rest: u64) -> Result<Option<UnitBlock>> {
        let Some(run) = &mut self.run else { return Ok(None) };
        let Some((block, begun)) = &run.current else { return Ok(None) };
        let Range { start, end } = block.range;
        if rest >= end {
            return Ok(None);
        }
        if rest <= start || run.metrics.since(begun) < LOOK {
            return Ok(Some(UnitBlock { range: rest..end }));
        }
        let done = UnitBlock { range: start..rest };
        run.metrics.end(begun, done.len() as f64);
        run.current = None;
        self.worker.finished(&done);
        self.exchange(endpoint)?;
        // What is left of the block is next, if it is still here. In a synchronous loop it waits for an answer.
        let left = self.take(end - rest).filter(|block| block.range.start == rest);
        self.start(left.clone());
        Ok(left)
    }

    /// The units that may be done now, at most `most`.
    fn take(&mut self, most: u64) -> Option<UnitBlock> {
        let alone = self.run.as_ref().is_none_or(|run| run.alone);
        let waits = self.settings.synchronous && !alone && self.worker.is_unanswered();
        if self.worker.is_over() || waits { None } else { self.worker.next(most) }
    }

    /// A block begins.
    fn start(&mut self, block: Option<UnitBlock>) {
        if let Some(run) = &mut self.run {
            run.current = block.map(|block| (block, run.metrics.begin()));
        }
    }

    fn hook(&mut self, endpoint: &mut Endpoint) -> Result<Option<UnitBlock>> {
        let Some(run) = &mut self.run else { return Ok(None) };
        if let Some((block, begun)) = run.current.take() {
            let took = run.metrics.end(&begun, block.len() as f64);
            self.block_size.done(block.len(), took);
            self.worker.finished(&block);
        }
        let mut wait: Option<Waiting> = None;
        loop {
            let has_received = self.exchange(endpoint)?;
            let unit_queue = &self.worker.unit_queue;
            let most = self.block_size.next(unit_queue.undone().min(unit_queue.held()));
            let block = self.take(most);
            let Some(run) = &mut self.run else { return Ok(None) };
            if block.is_some() || self.worker.is_over() {
                if let Some(wait) = wait {
                    run.metrics.waited(run.clock.now().saturating_sub(wait.began()));
                }
                self.start(block.clone());
                return Ok(block);
            }
            let limit = self.limit();
            let wait = wait.get_or_insert_with(|| Waiting::new(endpoint));
            if has_received {
                wait.heard(endpoint);
            }
            wait.wait(endpoint, limit, || self.waits_for())?;
        }
    }

    /// The data of the block that [`next`](RankLoop::next) has given.
    pub(in crate::loops) fn slices(&mut self, block: &UnitBlock) -> Option<U::Slices<'_>> {
        self.worker.unit_queue.slices(block)
    }

    /// An error of user code in a block; the loop's first unit has the number `base`.
    pub(in crate::loops) fn blame(&self, error: &Error, block: &UnitBlock, base: u64, rank: usize) -> Error {
        let pass = match &self.run {
            Some(run) if run.passes > 1 => format!(" of pass {}", self.worker.pass()),
            _ => String::new(),
        };
        let units = match block.range.start + base..block.range.end + base {
            Range { start, end } if end == start + 1 => format!("unit {start}"),
            Range { start, end } => format!("units {start}..{end}"),
        };
        let text = format!("{} (in {units}{pass})", error.message());
        Error::new(error.kind(), text).in_loop(&self.name).at_rank(rank)
    }

    /// How the run went, on rank 0, after its end.
    pub(in crate::loops) fn finish(&mut self) -> Option<Summary> {
        let run = self.run.take()?;
        let mut coordinator = run.coordinator?;
        let (ended, ranks, held) = (coordinator.ended()?, coordinator.totals(), coordinator.held());
        let elapsed = ended.saturating_sub(run.begin);
        let controller = coordinator.controller();
        controller.end(run.passes, elapsed);
        let summary = Summary {
            name: self.name.clone(),
            units: self.units,
            passes: run.passes,
            elapsed,
            interactions: controller.interactions(),
            movements: controller.movements(),
            block: self.block_size.usual(),
            first: run.first,
            change: controller.change(),
            ranks,
        };
        self.learned = Some((coordinator.into_balancer(), held));
        Some(summary)
    }

    /// The segments that are here, copied.
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
