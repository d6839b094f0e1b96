//! Runs a worker on a rank: user code, messages, time.

use std::time::Duration;

mod waiting;

use self::waiting::Wait;
use super::checkpoint::CheckpointWriter;
use super::coordinator::Coordinator;
use super::messages::{Outgoing, Received, ToCoordinator, ToNeighbour, ToSpare};
use super::neighbours::Position;
use super::shutdown::all_done;
use super::worker::{Step, Worker};
use crate::comm::HEARTBEAT_PERIOD;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::Message;
use crate::error::{BoxError, Error, Result};
use crate::loops::LOOK;
use crate::loops::metrics::{Begun, Metrics};
use crate::session::Config;
use crate::user_code;

/// Pieces between two looks, at most, however short the clock says that they are.
const MOST: u32 = 1 << 14;
/// How many messages there and back are timed; the shortest time counts, as other load only makes them longer.
const PROBES: u32 = 4;

/// A worker's messages go to the endpoint.
struct ToEndpoint<'p>(&'p mut Endpoint);

impl Outgoing for ToEndpoint<'_> {
    #[inline]
    fn send(&mut self, to: usize, message: ToNeighbour<&[u8]>) -> Result<()> {
        self.0.send_ready(to, message.encode(self.0.run())?)
    }
}

/// A rank's part of a movement, while it is made.
struct Moving {
    since: Duration,
    /// How long it has waited for ranks that had not come to it.
    waited: Duration,
}

/// Pieces that were done one after the other, without waiting.
struct Stretch {
    begun: Begun,
    units: f64,
    pieces: u32,
}

/// One rank in a run.
pub(super) struct GridRank<'d> {
    endpoint: &'d mut Endpoint,
    clock: Clock,
    position: Position,
    /// How long other ranks may be silent once a message of theirs has come …
    peer_limit: Duration,
    /// … and before: they may be busy with the program's own work.
    join_limit: Duration,
    is_joined: bool,
    metrics: Metrics,
    stretch: Option<Stretch>,
    /// Pieces between two looks at the messages.
    pieces: u32,
    wait: Option<Wait>,
    moving: Option<Moving>,
    /// The rank that waits for rows which this one has sent.
    awaited_by: Option<usize>,
    coordinator: Option<Coordinator>,
    pinged: Duration,
    checkpoints: Option<CheckpointWriter>,
}

impl<'d> GridRank<'d> {
    /// Rank 0 has a coordinator.
    pub(super) fn new(
        endpoint: &'d mut Endpoint,
        position: Position,
        config: &Config,
        coordinator: Option<Coordinator>,
        checkpoints: Option<CheckpointWriter>,
    ) -> Self {
        let clock = endpoint.clock();
        let now = clock.now();
        GridRank {
            metrics: Metrics::new(clock),
            endpoint,
            clock,
            position,
            peer_limit: config.peer_limit,
            join_limit: config.join_limit,
            is_joined: false,
            stretch: None,
            pieces: 1,
            wait: None,
            moving: None,
            awaited_by: None,
            coordinator,
            pinged: now,
            checkpoints,
        }
    }

    /// Does all sweeps. Returns the coordinator on rank 0, where all ranks have reported then that they are done.
    pub(super) fn run<M: Worker>(
        mut self,
        worker: &mut M,
        mut work: impl FnMut(&mut M, &M::Piece) -> Result<(), BoxError>,
    ) -> Result<Option<Coordinator>> {
        self.probe(worker)?;
        loop {
            if let Some(to) = self.awaited_by.take() {
                self.push_out(worker, to)?;
            }
            let step = worker.next(&mut ToEndpoint(self.endpoint))?;
            let is_transfer = self.moving.is_some() && !worker.awaits_sender();
            if !matches!(step, Step::Wait)
                || self.wait.as_ref().is_some_and(|wait| wait.is_transfer != is_transfer)
            {
                self.end_wait();
            }
            match step {
                Step::Compute(piece) => self.compute(worker, &piece, &mut work)?,
                Step::Boundary(sweep) => self.boundary(worker, sweep)?,
                Step::Moving => {
                    self.end_stretch();
                    self.moving = Some(Moving { since: self.clock.now(), waited: Duration::ZERO });
                }
                Step::Moved { sent, received } => {
                    if let Some(Moving { since, waited }) = self.moving.take() {
                        let took = self.clock.now().saturating_sub(since + waited);
                        self.metrics.moved(took, sent, received);
                    }
                }
                Step::Wait => self.wait(worker, is_transfer, M::waiting_for)?,
                Step::Done => break,
            }
        }
        self.end_stretch();
        self.finish(worker.held())
    }

    /// On rank 0, times messages to the next rank and back, if that is asked for.
    fn probe<M: Worker>(&mut self, worker: &mut M) -> Result<()> {
        let (Some(bytes), Some(below), Some(_)) =
            (worker.asks_for_costs(), self.position.below(), &self.coordinator)
        else {
            return Ok(());
        };
        let mut best = [f64::INFINITY; 2];
        for (bytes, best) in [0, bytes].into_iter().zip(&mut best) {
            let content = vec![0; bytes];
            for _ in 0..PROBES {
                let start = self.clock.now();
                ToEndpoint(self.endpoint).send(below, ToNeighbour::Probe(&content))?;
                self.endpoint.wait_until(
                    self.join_limit,
                    |_, message| {
                        let Some(message) = message else { return Ok(None) };
                        let from = message.from;
                        match Received::decode(message)? {
                            Received::FromNeighbour(ToNeighbour::Echo(_)) if from == below => Ok(Some(())),
                            other => Err(other.unexpected(from, "an echo")),
                        }
                    },
                    || format!("for the rows of rank {below} to be made"),
                )?;
                let round = self.clock.now().saturating_sub(start);
                *best = best.min(round.as_secs_f64() / 2.0);
            }
        }
        worker.know_costs(best[0], best[1]);
        Ok(())
    }

    #[inline]
    fn compute<M: Worker>(
        &mut self,
        worker: &mut M,
        piece: &M::Piece,
        work: &mut impl FnMut(&mut M, &M::Piece) -> Result<(), BoxError>,
    ) -> Result<()> {
        let metrics = &self.metrics;
        let stretch =
            self.stretch.get_or_insert_with(|| Stretch { begun: metrics.begin(), units: 0.0, pieces: 0 });
        stretch.units += worker.units(piece);
        stretch.pieces += 1;
        let is_full = stretch.pieces >= self.pieces;
        user_code::call(|| work(worker, piece)).map_err(|e| self.blame(e, worker, piece))?;
        worker.computed(&mut ToEndpoint(self.endpoint))?;
        if is_full {
            self.end_stretch();
            self.poll_all(worker)?;
        }
        Ok(())
    }

    /// An error of user code.
    fn blame<M: Worker>(&self, error: Error, worker: &M, piece: &M::Piece) -> Error {
        let text = format!("{} (in {})", error.message(), worker.whereabouts(piece));
        Error::new(error.kind(), text).at_rank(self.position.rank)
    }

    /// Pieces were done up to here. The next stretch has about as many as take the time between two looks.
    fn end_stretch(&mut self) {
        if let Some(Stretch { begun, units, pieces }) = self.stretch.take() {
            let took = self.metrics.end(&begun, units);
            let fit = LOOK.as_nanos() * u128::from(pieces) / took.as_nanos().max(1);
            self.pieces = u32::try_from(fit).unwrap_or(MOST).clamp(1, MOST);
        }
    }

    /// Takes up all that has come.
    fn poll_all<M: Worker>(&mut self, worker: &mut M) -> Result<()> {
        while let Some(message) = self.endpoint.poll()? {
            self.take(worker, message)?;
        }
        Ok(())
    }

    #[inline]
    fn take<M: Worker>(&mut self, worker: &mut M, message: Message) -> Result<()> {
        let from = message.from;
        self.is_joined = true;
        match (Received::decode(message)?, &mut self.coordinator) {
            // Rank 0 times how long this takes.
            (Received::FromNeighbour(ToNeighbour::Probe(bytes)), _) => {
                ToEndpoint(self.endpoint).send(from, ToNeighbour::Echo(&bytes))
            }
            (Received::FromNeighbour(ToNeighbour::Wanted), _) => {
                self.awaited_by = Some(from);
                Ok(())
            }
            (Received::FromNeighbour(message), _) => worker.receive(from, message),
            (Received::ForCoordinator(message), Some(coordinator)) => coordinator.on_message(from, message),
            (other, _) => Err(other.unexpected(from, "messages of a loop over a grid")),
        }
    }

    /// Reports, and on rank 0 decisions.
    fn boundary<M: Worker>(&mut self, worker: &mut M, sweep: u64) -> Result<()> {
        let is_due = sweep > 0 && worker.report_after() == sweep - 1;
        if is_due {
            self.end_stretch();
            let begin = self.clock.now();
            let sample = self.metrics.sample(worker.held()).of_all_work();
            self.report(ToCoordinator::Sample(sample))?;
            self.metrics.interaction(self.clock.now().saturating_sub(begin));
        }
        self.save(worker, sweep)?;
        if self.coordinator.is_none() {
            return Ok(());
        }
        self.poll_all(worker)?;
        self.await_reports(worker, sweep)?;
        let begin = self.clock.now();
        if let Some(coordinator) = &mut self.coordinator {
            if let Some((block, why)) = worker.tune(coordinator.begin_sweep(sweep, begin), coordinator.most())
            {
                coordinator.chose(block, why);
            }
            coordinator.use_grain(sweep, worker.grain());
            if let Some(directive) = coordinator.decide(sweep, worker.delay())? {
                worker.carry_out(directive, &mut ToEndpoint(self.endpoint))?;
                self.metrics.interaction(self.clock.now().saturating_sub(begin));
            }
        }
        if begin.saturating_sub(self.pinged) > HEARTBEAT_PERIOD {
            self.pinged = begin;
            for to in self.position.chain..self.endpoint.size() {
                let message = ToSpare::Alive.encode(self.endpoint.run());
                self.endpoint.send_ready(to, message)?;
            }
        }
        Ok(())
    }

    /// At an interaction of a synchronous loop rank 0 waits until all ranks have reported. The others cannot go on without its
    /// next border, which comes after its directive.
    fn await_reports<M: Worker>(&mut self, worker: &mut M, sweep: u64) -> Result<()> {
        loop {
            let delay = worker.delay();
            let missing = self
                .coordinator
                .as_ref()
                .map_or_else(Vec::new, |coordinator| coordinator.awaited(sweep, delay));
            if missing.is_empty() {
                self.end_wait();
                return Ok(());
            }
            self.wait(worker, false, |_| {
                format!("for the reports of ranks {missing:?} before sweep {sweep}")
            })?;
        }
    }

    /// Begins to write the rows if they are to be written before this sweep, and reports what has been written.
    fn save<M: Worker>(&mut self, worker: &mut M, sweep: u64) -> Result<()> {
        let Some(checkpoints) = &mut self.checkpoints else { return Ok(()) };
        if worker.save_before() == Some(sweep) {
            checkpoints.save(sweep, worker.pieces())?;
        }
        checkpoints.saved()?.map_or(Ok(()), |saved| self.report(saved))
    }

    /// To the coordinator, which may be here.
    fn report(&mut self, message: ToCoordinator) -> Result<()> {
        match &mut self.coordinator {
            Some(coordinator) => coordinator.on_message(0, message),
            None => self.endpoint.send_ready(0, message.encode(self.endpoint.run())?),
        }
    }

    /// The rank has done everything. Rank 0 waits until all have.
    fn finish(mut self, held: u64) -> Result<Option<Coordinator>> {
        while let Some(checkpoints) = &mut self.checkpoints
            && let Some(saved) = checkpoints.last(self.peer_limit)?
        {
            self.report(saved)?;
        }
        let report = self.metrics.report(held);
        self.report(ToCoordinator::Total(report))?;
        let GridRank { endpoint, coordinator, position, peer_limit, .. } = self;
        coordinator.map(|coordinator| all_done(coordinator, endpoint, position, peer_limit)).transpose()
    }
}

#[cfg(test)]
#[path = "rank_tests.rs"]
mod tests;
