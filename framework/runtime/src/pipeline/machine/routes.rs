//! How a batch finds its receiver under the mapping in force.

use serde::Serialize;

use super::broker::{ItemTime, Lot};
use super::messages::{Assign, Early, Offer, Request};
use super::parcel::Parcel;
use super::table::Route;
use super::{Machine, Mail, end_of};
use crate::comm::message::{Tag, frame_header};
use crate::error::{Error, ErrorKind, Result};
use crate::wire;

impl Machine {
    /// A batch arrives here to be worked on.
    pub(super) fn deliver(&mut self, parcel: Parcel) -> Result<()> {
        let (number, stage) = (parcel.number, parcel.stage);
        let wrong = |what: &str| {
            Err(Error::new(ErrorKind::Wire, format!("batch {number} for stage {stage} came {what}")))
        };
        if stage > self.table.stage_count() {
            return wrong("although there is no such stage");
        }
        let edge = self.table.edge_of(stage);
        let over = self.turns.is_over(stage..end_of(&self.table, edge), number);
        match &mut self.inboxes[edge] {
            None => wrong("to a rank that does not take it"),
            Some(inbox) => {
                if !over && inbox.put(parcel) {
                    self.tell_early(edge)
                } else {
                    wrong("twice")
                }
            }
        }
    }

    /// A batch is ready for its next stage: find out who gets it.
    pub(super) fn send_on(&mut self, parcel: Parcel) -> Result<()> {
        let edge = self.table.edge_of(parcel.stage);
        match self.table.route(edge) {
            Route::Push(to) => self.hand(parcel, to),
            Route::RoundRobin => {
                let receivers = self.table.receivers(edge);
                let to = receivers[(parcel.number % receivers.len() as u64) as usize];
                self.hand(parcel, to)
            }
            Route::Pull { broker } => {
                let (number, behind, items) = (parcel.number, parcel.behind, parcel.range.live() as u32);
                self.shelves[edge].insert(number, parcel);
                if broker == self.me {
                    let me = self.me;
                    self.book(edge)?.offer(number, Lot { sender: me, items, behind });
                    return self.decide(edge);
                }
                let offer = Offer { epoch: self.epoch(), edge: edge as u32, number, items, behind };
                self.mail(broker, Tag::Offer, &offer)
            }
        }
    }

    /// Hands a batch to `to`, which may be this rank.
    fn hand(&mut self, mut parcel: Parcel, to: usize) -> Result<()> {
        if to == self.me {
            parcel.weigh(&*self.codecs[parcel.stage]);
            return self.deliver(parcel);
        }
        let (epoch, stage) = (self.epoch(), parcel.stage);
        let (items, live) = (parcel.range.count as usize, parcel.range.live());
        // Items that cannot be sent are the fault of the stage that made them.
        let made_by = stage.checked_sub(1).and_then(|s| self.names.get(s)).map_or("source", String::as_str);
        let packed = parcel.pack(self.run, epoch, &*self.codecs[stage]);
        let (head, parts, bytes) = packed.map_err(|e| e.in_stage(made_by))?;
        self.traffic.sent_batches += 1;
        self.traffic.sent_bytes += bytes;
        self.volumes[stage].0 += bytes;
        self.volumes[stage].1 += live as u64;
        if let Some(source) = &mut self.source {
            source.sent(items, bytes);
        }
        self.outbox.push(Mail { to, head, parts });
        Ok(())
    }

    /// A broker's decision reaches the sender, which is this rank.
    pub(super) fn give(&mut self, edge: usize, number: u64, receiver: usize) -> Result<()> {
        if !self.table.receivers(edge).contains(&receiver) {
            let text = format!("assigns batch {number} to rank {receiver}, which does not take edge {edge}");
            return Err(Error::new(ErrorKind::Wire, text));
        }
        match self.shelves[edge].remove(&number) {
            Some(parcel) => self.hand(parcel, receiver),
            None => {
                Err(Error::new(ErrorKind::Wire, format!("assigns batch {number} of edge {edge}, not here")))
            }
        }
    }

    /// Brings offers and requests together, as far as there are both.
    pub(super) fn decide(&mut self, edge: usize) -> Result<()> {
        while let Some(a) = self.book(edge)?.decide() {
            if a.sender == self.me {
                self.give(edge, a.number, a.receiver)?;
            } else {
                let epoch = self.epoch();
                let assign =
                    Assign { epoch, edge: edge as u32, number: a.number, receiver: a.receiver as u32 };
                self.mail(a.sender, Tag::Assign, &assign)?;
            }
        }
        Ok(())
    }

    /// Asks for as many batches over a pulled edge as there is room for.
    pub(super) fn ask(&mut self, edge: usize) -> Result<()> {
        let Route::Pull { broker } = self.table.route(edge) else { return Ok(()) };
        let Some(inbox) = &mut self.inboxes[edge] else { return Ok(()) };
        let have = inbox.asked + inbox.queued().0;
        // What waits behind a long batch could be done elsewhere meanwhile.
        let ahead = match &inbox.pace {
            pace if pace.is_at_first() => 0,
            pace if pace.is_brisk() => self.ahead,
            _ => usize::max(self.ahead - 1, 1),
        };
        let want = ahead.saturating_sub(have);
        if want == 0 {
            return Ok(());
        }
        inbox.asked += want;
        let pace = ItemTime { mean: inbox.pace.nanos(), deviation: inbox.pace.deviation() };
        if broker == self.me {
            let me = self.me;
            self.book(edge)?.request(me, want, have, pace);
            return self.decide(edge);
        }
        let (batches, held) = (want as u32, have as u32);
        let ItemTime { mean: pace, deviation } = pace;
        let request = Request { epoch: self.epoch(), edge: edge as u32, batches, held, pace, deviation };
        self.mail(broker, Tag::Request, &request)
    }

    /// Tells rank 0 how many batches wait at this edge for an older one, if that is news.
    pub(super) fn tell_early(&mut self, edge: usize) -> Result<()> {
        let Some(inbox) = &mut self.inboxes[edge] else { return Ok(()) };
        let is_early =
            |first: &Parcel| !self.turns.admit(first.stage..end_of(&self.table, edge), first.number);
        let (early, bytes) =
            if inbox.first().is_some_and(is_early) { (inbox.queued().0, inbox.bytes()) } else { (0, 0) };
        // Each of them is not worth a message; that there are none is.
        let step = if self.me == 0 { 1 } else { self.table.host_count() };
        let told = inbox.early_told;
        if early.abs_diff(told) < step && (early > 0 || told == 0) {
            return Ok(());
        }
        inbox.early_told = early;
        if self.me == 0 {
            return self.note_early(edge, early, bytes);
        }
        let message = Early { epoch: self.epoch(), edge: edge as u32, batches: early as u32, bytes };
        self.mail(0, Tag::Early, &message)
    }

    /// `batches` batches of `bytes` bytes wait at `edge` for an older one: they keep nobody busy, so more may be drawn.
    pub(super) fn note_early(&mut self, edge: usize, batches: usize, bytes: u64) -> Result<()> {
        let Some(source) = &mut self.source else {
            return Err(Error::new(ErrorKind::Wire, "tells of waiting batches a rank that draws none"));
        };
        source.early(edge, batches, bytes);
        Ok(())
    }

    pub(super) fn mail<T: Serialize>(&mut self, to: usize, tag: Tag, content: &T) -> Result<()> {
        let mut head = frame_header(self.run, tag).to_vec();
        head.extend_from_slice(&wire::to_bytes(content)?);
        self.outbox.push(Mail { to, head, parts: Vec::new() });
        Ok(())
    }
}
