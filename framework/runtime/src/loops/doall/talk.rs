//! What a rank says and hears between two blocks of a DOALL loop.

use std::time::Duration;

use super::engine::Engine;
use super::keeping::pieces;
use super::leader::Leader;
use super::member::Addressed;
use super::messages::{Orders, Say, Shipment};
use crate::comm::Frame;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Message, Tag, frame_header};
use crate::error::{Error, ErrorKind, Result};
use crate::loops::units::Units;
use crate::wire;

impl<U: Units> Engine<U> {
    /// Tells rank 0 of what has been written to a checkpoint.
    fn tell_saved(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        let Some(written) = self.keeping.as_mut().map_or(Ok(None), |keeping| keeping.writer.poll())? else {
            return Ok(());
        };
        match self.run.as_mut().and_then(|run| run.leader.as_mut()) {
            Some(leader) => leader.hear_saved(0, written.0, written.1),
            None => endpoint.send(0, Tag::Saved, &written),
        }
    }

    /// Takes in what has come and says what is to be said. False if there was nothing.
    pub(super) fn converse(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        self.tell_saved(endpoint)?;
        let mut begin = None;
        loop {
            let message = endpoint.poll()?;
            let Some(run) = &mut self.run else { return Ok(false) };
            let reports = message.is_none() && self.member.is_to_report(|| run.meter.since_note());
            if message.is_none() && !reports && !run.stirred {
                break;
            }
            begin.get_or_insert_with(|| run.clock.now());
            if let Some(message) = message {
                self.hear(endpoint, message)?;
            } else if reports {
                self.report(endpoint)?;
            } else {
                run.stirred = false;
                let now = run.clock.now();
                if let Some(orders) = run.leader.as_mut().map_or(Ok(None), |leader| leader.step(now))? {
                    self.order(endpoint, &orders)?;
                }
            }
        }
        let Some(run) = &mut self.run else { return Ok(false) };
        if let Some(begin) = begin {
            run.meter.interaction(run.clock.now().saturating_sub(begin));
        }
        Ok(begin.is_some())
    }

    fn hear(&mut self, endpoint: &mut Endpoint, message: Message) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        match (message.tag()?, &mut run.leader) {
            (Tag::Report, Some(leader)) => {
                let say: Say = wire::from_bytes(&message.body)?;
                leader.hear(message.from, &say, run.clock.now());
                run.stirred = true;
                Ok(())
            }
            (Tag::Orders, None) if message.from == 0 => {
                let orders: Orders = wire::from_bytes(&message.body)?;
                self.obey(endpoint, &orders)
            }
            (Tag::Saved, Some(leader)) => {
                let (pass, saved) = wire::from_bytes(&message.body)?;
                leader.hear_saved(message.from, pass, saved)
            }
            (Tag::Units, _) => {
                let begin = run.clock.now();
                let shipment = Shipment::unpack(message.body, message.parts, self.units)?;
                self.member.accept(message.from, shipment)?;
                run.moving += run.clock.now().saturating_sub(begin);
                self.settle();
                Ok(())
            }
            (other, _) => {
                let text = format!("rank {} sent {other:?}, which a loop does not expect here", message.from);
                Err(Error::new(ErrorKind::Wire, text))
            }
        }
    }

    /// Tells all ranks.
    pub(super) fn order(&mut self, endpoint: &mut Endpoint, orders: &Orders) -> Result<()> {
        let mut head = frame_header(endpoint.run(), Tag::Orders).to_vec();
        head.extend_from_slice(&wire::to_bytes(orders)?);
        let message = Frame::new(head);
        for rank in 1..endpoint.size() {
            endpoint.send_ready(rank, message.clone())?;
        }
        self.obey(endpoint, orders)
    }

    fn obey(&mut self, endpoint: &mut Endpoint, orders: &Orders) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        if let (Some(pass), Some(keeping)) = (orders.save, &mut self.keeping) {
            keeping.writer.save(pass, pieces(self.member.stock.segments())?)?;
        }
        let begin = run.clock.now();
        let shipments: Vec<Addressed<U>> = self.member.obey(orders)?;
        for (to, shipment) in shipments {
            endpoint.send_ready(to, shipment.pack(endpoint.run(), Tag::Units)?)?;
        }
        if !orders.moves.is_empty() {
            run.moving += run.clock.now().saturating_sub(begin);
        }
        self.settle();
        Ok(())
    }

    /// Notes the movement of which this rank has made its part.
    fn settle(&mut self) {
        if let (Some(made), Some(run)) = (self.member.take_made(), &mut self.run) {
            run.meter.moved(std::mem::take(&mut run.moving), made.sent, made.received);
        }
    }

    fn report(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let (undone, held) = (self.member.stock.undone(), self.member.stock.held());
        let note = run.meter.note(undone);
        let total = (undone == 0).then(|| run.meter.report(held));
        let at = run.clock.now().as_secs_f64();
        let say = Say { at, round: self.member.round(), done: self.member.done(), held, note, total };
        self.member.has_reported();
        match &mut run.leader {
            Some(leader) => {
                leader.hear(0, &say, run.clock.now());
                run.stirred = true;
                Ok(())
            }
            None => endpoint.send(0, Tag::Report, &say),
        }
    }

    /// How long this rank waits in silence.
    pub(super) fn limit(&self) -> Duration {
        let Some(run) = &self.run else { return Duration::MAX };
        match &run.leader {
            Some(leader) if leader.has_heard_all() => run.peer_limit,
            // Rank 0 knows more, so it is the one to say so.
            None if self.member.round() > 0 => run.peer_limit + run.peer_limit / 4,
            _ => run.join_limit,
        }
    }

    /// For whom and what it waits.
    pub(super) fn waits_for(&self) -> String {
        let leader = self.run.as_ref().and_then(|run| run.leader.as_ref());
        leader.map_or_else(|| self.member.waits_for(), Leader::waits_for)
    }
}
