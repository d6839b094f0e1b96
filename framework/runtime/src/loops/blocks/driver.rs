//! Runs a machine on a rank: user code, messages, time.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

mod waiting;

use self::waiting::Wait;
use super::ending::{all_done, hear};
use super::leader::Leader;
use super::machine::{Machine, Step};
use super::mail::{Mail, Out, Place, room, unexpected};
use super::scribe::Scribe;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Message, Tag, frame_header};
use crate::comm::{Frame, Part};
use crate::error::{BoxError, Error, Result};
use crate::loops::checkpoint::Saved;
use crate::loops::note::{Begun, Meter, Note};
use crate::loops::summary::RankReport;
use crate::session::Config;
use crate::user_code;

/// So long a rank computes between two looks at its messages, if none has to come before.
const LOOK: Duration = Duration::from_millis(1);
/// Pieces between two looks at most.
const MOST: u32 = 1 << 14;
/// How often ranks without rows are told that the others are alive.
const PING: Duration = Duration::from_secs(1);
/// How often a message there and back is timed; the shortest time counts.
const PROBES: u32 = 4;

/// What a rank tells rank 0.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Told {
    /// What it did since it reported last.
    Note(Note),
    /// It has written its rows as they were after so many passes.
    Saved(u64, Vec<Saved>),
    /// What it did in all, and that it has done everything.
    Total(RankReport),
}

/// A machine's messages as messages.
struct Mouth<'p>(&'p mut Endpoint);

impl Out for Mouth<'_> {
    #[inline]
    fn begin(&mut self, tag: Tag, bytes: usize) -> Vec<u8> {
        let mut head = Vec::with_capacity(room(bytes));
        head.extend_from_slice(&frame_header(self.0.run(), tag));
        head
    }

    #[inline]
    fn send(&mut self, to: usize, head: Vec<u8>, parts: Vec<Part>) -> Result<()> {
        self.0.send_ready(to, Frame { head: Bytes::from(head), parts })
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
pub(super) struct Driver<'d> {
    endpoint: &'d mut Endpoint,
    clock: Clock,
    place: Place,
    /// How long other ranks may be silent once they have been heard …
    peer_limit: Duration,
    /// … and before: they may be busy with the program's own work.
    join_limit: Duration,
    is_joined: bool,
    meter: Meter,
    stretch: Option<Stretch>,
    /// Pieces between two looks at the messages.
    pieces: u32,
    wait: Option<Wait>,
    moving: Option<Moving>,
    /// The rank that waits for rows which this one has sent.
    awaited_by: Option<usize>,
    leader: Option<Leader>,
    pinged: Duration,
    scribe: Option<Scribe>,
}

impl<'d> Driver<'d> {
    /// Rank 0 has a leader.
    pub(super) fn new(
        endpoint: &'d mut Endpoint,
        place: Place,
        config: &Config,
        leader: Option<Leader>,
        scribe: Option<Scribe>,
    ) -> Self {
        let clock = endpoint.clock();
        let now = clock.now();
        Driver {
            meter: Meter::new(clock),
            endpoint,
            clock,
            place,
            peer_limit: config.peer_limit,
            join_limit: config.join_limit,
            is_joined: false,
            stretch: None,
            pieces: 1,
            wait: None,
            moving: None,
            awaited_by: None,
            leader,
            pinged: now,
            scribe,
        }
    }

    /// Does all sweeps. Returns the leader on rank 0, which has then heard that all ranks are done.
    pub(super) fn run<M: Machine>(
        mut self,
        machine: &mut M,
        mut work: impl FnMut(&mut M, &M::Piece) -> Result<(), BoxError>,
    ) -> Result<Option<Leader>> {
        self.probe(machine)?;
        loop {
            if let Some(to) = self.awaited_by.take() {
                self.push_out(machine, to)?;
            }
            let step = machine.next(&mut Mouth(self.endpoint))?;
            let is_transfer = self.moving.is_some() && !machine.awaits_mover();
            if !matches!(step, Step::Wait)
                || self.wait.as_ref().is_some_and(|wait| wait.is_transfer != is_transfer)
            {
                self.end_wait();
            }
            match step {
                Step::Compute(piece) => self.compute(machine, &piece, &mut work)?,
                Step::Boundary(sweep) => self.boundary(machine, sweep)?,
                Step::Moving => {
                    self.end_stretch();
                    self.moving = Some(Moving { since: self.clock.now(), waited: Duration::ZERO });
                }
                Step::Moved { sent, received } => {
                    if let Some(Moving { since, waited }) = self.moving.take() {
                        let took = self.clock.now().saturating_sub(since + waited);
                        self.meter.moved(took, sent, received);
                    }
                }
                Step::Wait => self.wait(machine, is_transfer, M::waiting_for)?,
                Step::Done => break,
            }
        }
        self.end_stretch();
        self.finish(machine.held())
    }

    /// On rank 0, times messages to the next rank and back, if that is asked for.
    fn probe<M: Machine>(&mut self, machine: &mut M) -> Result<()> {
        let (Some(bytes), Some(below), Some(_)) =
            (machine.asks_for_costs(), self.place.below(), &self.leader)
        else {
            return Ok(());
        };
        let mut best = [f64::INFINITY; 2];
        for (bytes, best) in [0, bytes].into_iter().zip(&mut best) {
            for _ in 0..PROBES {
                let start = self.clock.now();
                let mut out = Mouth(self.endpoint);
                let mut head = out.begin(Tag::Probe, bytes);
                head.resize(head.len() + bytes, 0);
                out.send(below, head, Vec::new())?;
                self.endpoint.wait_until(
                    self.join_limit,
                    |_, message| match message.map(|m| m.tag().map(|tag| (m.from, tag))).transpose()? {
                        Some((from, Tag::Echo)) if from == below => Ok(Some(())),
                        Some((from, tag)) => Err(unexpected(from, &format!("{tag:?}"), "an echo")),
                        None => Ok(None),
                    },
                    || format!("for the rows of rank {below} to be made"),
                )?;
                let round = self.clock.now().saturating_sub(start);
                *best = best.min(round.as_secs_f64() / 2.0);
            }
        }
        machine.know_costs(best[0], best[1]);
        Ok(())
    }

    #[inline]
    fn compute<M: Machine>(
        &mut self,
        machine: &mut M,
        piece: &M::Piece,
        work: &mut impl FnMut(&mut M, &M::Piece) -> Result<(), BoxError>,
    ) -> Result<()> {
        let meter = &self.meter;
        let stretch =
            self.stretch.get_or_insert_with(|| Stretch { begun: meter.begin(), units: 0.0, pieces: 0 });
        stretch.units += machine.units(piece);
        stretch.pieces += 1;
        let is_full = stretch.pieces >= self.pieces;
        user_code::call(|| work(machine, piece)).map_err(|e| self.blame(e, machine, piece))?;
        machine.computed(&mut Mouth(self.endpoint))?;
        if is_full {
            self.end_stretch();
            self.listen(machine)?;
        }
        Ok(())
    }

    /// An error of user code.
    fn blame<M: Machine>(&self, error: Error, machine: &M, piece: &M::Piece) -> Error {
        let text = format!("{} (in {})", error.message(), machine.whereabouts(piece));
        Error::new(error.kind(), text).at_rank(self.place.rank)
    }

    /// Pieces were done up to here. The next stretch has about as many as take the time between two looks.
    fn end_stretch(&mut self) {
        if let Some(Stretch { begun, units, pieces }) = self.stretch.take() {
            let took = self.meter.end(&begun, units);
            let fit = LOOK.as_nanos() * u128::from(pieces) / took.as_nanos().max(1);
            self.pieces = u32::try_from(fit).unwrap_or(MOST).clamp(1, MOST);
        }
    }

    /// Takes up all that has come.
    fn listen<M: Machine>(&mut self, machine: &mut M) -> Result<()> {
        while let Some(message) = self.endpoint.poll()? {
            self.take(machine, message)?;
        }
        Ok(())
    }

    #[inline]
    fn take<M: Machine>(&mut self, machine: &mut M, message: Message) -> Result<()> {
        let tag = message.tag()?;
        let Message { from, body, parts, .. } = message;
        self.is_joined = true;
        match tag {
            Tag::Border | Tag::Units | Tag::Orders => machine.receive(from, Mail { tag, body, parts }),
            Tag::Wanted => {
                self.awaited_by = Some(from);
                Ok(())
            }
            // Rank 0 times how long this takes.
            Tag::Probe => {
                let mut head = Mouth(self.endpoint).begin(Tag::Echo, body.len());
                head.extend_from_slice(&body);
                Mouth(self.endpoint).send(from, head, Vec::new())
            }
            _ => hear(self.leader.as_mut(), from, tag, &body),
        }
    }

    /// Reports, and on rank 0 decisions.
    fn boundary<M: Machine>(&mut self, machine: &mut M, sweep: u64) -> Result<()> {
        let is_due = sweep > 0 && machine.report_after() == sweep - 1;
        if is_due {
            self.end_stretch();
            let begin = self.clock.now();
            let note = self.meter.note(machine.held()).of_all_work();
            self.tell(Told::Note(note))?;
            self.meter.interaction(self.clock.now().saturating_sub(begin));
        }
        self.save(machine, sweep)?;
        if self.leader.is_none() {
            return Ok(());
        }
        self.listen(machine)?;
        self.hear_all(machine, sweep)?;
        let begin = self.clock.now();
        if let Some(leader) = &mut self.leader {
            if let Some((block, why)) = machine.tune(leader.lap(sweep, begin), leader.most()) {
                leader.chose(block, why);
            }
            leader.use_grain(sweep, machine.grain());
            if let Some(orders) = leader.decide(sweep, machine.delay())? {
                machine.order(orders, &mut Mouth(self.endpoint))?;
                self.meter.interaction(self.clock.now().saturating_sub(begin));
            }
        }
        if begin.saturating_sub(self.pinged) > PING {
            self.pinged = begin;
            for to in self.place.chain..self.endpoint.size() {
                self.endpoint.send(to, Tag::Status, &())?;
            }
        }
        Ok(())
    }

    /// At an interaction of a synchronous loop rank 0 waits until all ranks have reported. The others cannot go on without its
    /// next border, which comes after its orders.
    fn hear_all<M: Machine>(&mut self, machine: &mut M, sweep: u64) -> Result<()> {
        loop {
            let delay = machine.delay();
            let missing = self.leader.as_ref().map_or_else(Vec::new, |leader| leader.awaited(sweep, delay));
            if missing.is_empty() {
                self.end_wait();
                return Ok(());
            }
            self.wait(machine, false, |_| {
                format!("for the reports of ranks {missing:?} before sweep {sweep}")
            })?;
        }
    }

    /// Begins to write the rows if they are to be written before this sweep, and tells what has been written.
    fn save<M: Machine>(&mut self, machine: &mut M, sweep: u64) -> Result<()> {
        let Some(scribe) = &mut self.scribe else { return Ok(()) };
        if machine.save_before() == Some(sweep) {
            scribe.save(sweep, machine.pieces())?;
        }
        scribe.told()?.map_or(Ok(()), |told| self.tell(told))
    }

    /// Tells rank 0.
    fn tell(&mut self, told: Told) -> Result<()> {
        match &mut self.leader {
            Some(leader) => leader.hear(0, told),
            None => self.endpoint.send(0, Tag::Report, &told),
        }
    }

    /// The rank has done everything. Rank 0 waits until all have.
    fn finish(mut self, held: u64) -> Result<Option<Leader>> {
        while let Some(scribe) = &mut self.scribe
            && let Some(told) = scribe.last(self.peer_limit)?
        {
            self.tell(told)?;
        }
        let report = self.meter.report(held);
        self.tell(Told::Total(report))?;
        let Driver { endpoint, leader, place, peer_limit, .. } = self;
        leader.map(|leader| all_done(leader, endpoint, place, peer_limit)).transpose()
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
