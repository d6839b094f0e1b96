//! What a rank says and hears between two blocks of a DOALL loop.

use std::time::Duration;

use super::engine::Engine;
use super::keeping::pieces;
use super::leader::Leader;
use super::letters::{Orders, Say, Shipment};
use super::member::Addressed;
use crate::error::{Error, ErrorKind, Result};
use crate::loops::units::Units;
use crate::session::letter::{Kind, Letter, envelope};
use crate::session::post::Post;
use crate::transport::Message;
use crate::wire;

impl<U: Units> Engine<U> {
    /// Tells rank 0 of what has been written to a checkpoint.
    fn tell_saved(&mut self, post: &mut Post) -> Result<()> {
        let Some(written) = self.keeping.as_mut().map_or(Ok(None), |keeping| keeping.writer.poll())? else {
            return Ok(());
        };
        match self.run.as_mut().and_then(|run| run.leader.as_mut()) {
            Some(leader) => leader.hear_saved(0, written.0, written.1),
            None => post.send(0, Kind::Saved, &written),
        }
    }

    /// Takes in what has come and says what is to be said. False if there was nothing.
    pub(super) fn converse(&mut self, post: &mut Post) -> Result<bool> {
        self.tell_saved(post)?;
        let mut begin = None;
        loop {
            let letter = post.poll()?;
            let Some(run) = &mut self.run else { return Ok(false) };
            let reports = letter.is_none() && self.member.is_to_report(|| run.meter.since_note());
            if letter.is_none() && !reports && !run.stirred {
                break;
            }
            begin.get_or_insert_with(|| run.clock.now());
            if let Some(letter) = letter {
                self.hear(post, letter)?;
            } else if reports {
                self.report(post)?;
            } else {
                run.stirred = false;
                let now = run.clock.now();
                if let Some(orders) = run.leader.as_mut().map_or(Ok(None), |leader| leader.step(now))? {
                    self.order(post, &orders)?;
                }
            }
        }
        let Some(run) = &mut self.run else { return Ok(false) };
        if let Some(begin) = begin {
            run.meter.interaction(run.clock.now().saturating_sub(begin));
        }
        Ok(begin.is_some())
    }

    fn hear(&mut self, post: &mut Post, letter: Letter) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        match (letter.kind, &mut run.leader) {
            (Kind::Report, Some(leader)) => {
                let say: Say = wire::from_bytes(&letter.body)?;
                leader.hear(letter.from, &say, run.clock.now());
                run.stirred = true;
                Ok(())
            }
            (Kind::Orders, None) if letter.from == 0 => {
                let orders: Orders = wire::from_bytes(&letter.body)?;
                self.obey(post, &orders)
            }
            (Kind::Saved, Some(leader)) => {
                let (pass, saved) = wire::from_bytes(&letter.body)?;
                leader.hear_saved(letter.from, pass, saved)
            }
            (Kind::Units, _) => {
                let begin = run.clock.now();
                let shipment = Shipment::unpack(letter.body, letter.parts, self.units)?;
                self.member.accept(letter.from, shipment)?;
                run.moving += run.clock.now().saturating_sub(begin);
                self.settle();
                Ok(())
            }
            (other, _) => {
                let text = format!("rank {} sent {other:?}, which a loop does not expect here", letter.from);
                Err(Error::new(ErrorKind::Wire, text))
            }
        }
    }

    /// Tells all ranks.
    pub(super) fn order(&mut self, post: &mut Post, orders: &Orders) -> Result<()> {
        let mut head = envelope(post.run(), Kind::Orders).to_vec();
        head.extend_from_slice(&wire::to_bytes(orders)?);
        let message = Message::new(head);
        for rank in 1..post.size() {
            post.send_ready(rank, message.clone())?;
        }
        self.obey(post, orders)
    }

    fn obey(&mut self, post: &mut Post, orders: &Orders) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        if let (Some(pass), Some(keeping)) = (orders.save, &mut self.keeping) {
            keeping.writer.save(pass, pieces(self.member.stock.segments())?)?;
        }
        let begin = run.clock.now();
        let shipments: Vec<Addressed<U>> = self.member.obey(orders)?;
        for (to, shipment) in shipments {
            post.send_ready(to, shipment.pack(post.run(), Kind::Units)?)?;
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

    fn report(&mut self, post: &mut Post) -> Result<()> {
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
            None => post.send(0, Kind::Report, &say),
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
