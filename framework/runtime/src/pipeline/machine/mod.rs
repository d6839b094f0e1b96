//! The protocol of one rank, as a state machine: messages and finished jobs go in, jobs and messages come out.
//!
//! It has no clock, no thread and no transport of its own (the time of an event is handed in), so the same
//! machine runs under both drivers and on every transport. See the README beside it for states and invariants.

mod broker;
mod describe;
mod inbox;
mod job;
mod letters;
pub(crate) mod parcel;
mod source;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod window;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use self::broker::Broker;
use self::inbox::Inbox;
pub(crate) use self::job::{Done, Idle, Job, Traffic};
pub(crate) use self::letters::epoch_of;
use self::letters::{Assign, Offer, Request};
use self::parcel::Parcel;
pub(crate) use self::source::{Flow, Source};
use self::table::{Route, Table};
use self::window::WindowPlan;
use super::erased::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::session::post::{Kind, Letter, envelope};
use crate::transport::Message;
use crate::wire;

/// The state of one rank in one epoch.
pub(crate) struct Machine {
    me: usize,
    run: u32,
    table: Table,
    codecs: Vec<Arc<dyn Codec>>,
    /// Stage names, for messages.
    names: Vec<String>,
    ahead: usize,
    /// By edge: present where this rank receives.
    inboxes: Vec<Option<Inbox>>,
    /// By edge: finished batches that have been offered and wait for a receiver.
    shelves: Vec<BTreeMap<u64, Parcel>>,
    /// By edge: present where this rank keeps the book.
    brokers: Vec<Option<Broker>>,
    /// Present on rank 0.
    source: Option<Source>,
    outbox: Vec<(usize, Message)>,
    traffic: Traffic,
}

impl Machine {
    /// The machine of rank `me` for the epoch of `table`; replicas ask for `ahead` batches.
    pub(crate) fn new(me: usize, run: u32, table: Table, codecs: Vec<Arc<dyn Codec>>, ahead: usize) -> Self {
        let edges = table.last_edge() + 1;
        let receives = |edge: usize| table.receivers(edge).contains(&me);
        let inboxes = (0..edges).map(|e| receives(e).then(|| Inbox::new(table.must_order(e), 0))).collect();
        let keeps_book = |edge: usize| table.route(edge) == Route::Pull { broker: me };
        let brokers = (0..edges).map(|e| keeps_book(e).then(Broker::default)).collect();
        Machine {
            me,
            run,
            codecs,
            names: Vec::new(),
            ahead,
            inboxes,
            shelves: (0..edges).map(|_| BTreeMap::new()).collect(),
            brokers,
            source: None,
            outbox: Vec::new(),
            traffic: Traffic::default(),
            table,
        }
    }

    /// Gives the stages the names by which messages call them.
    pub(crate) fn with_names(mut self, names: &[String]) -> Self {
        self.names = names.to_vec();
        self
    }

    /// Makes this the machine of rank 0, which reads the source. `start` is the stream's next item.
    pub(crate) fn with_source(mut self, plan: WindowPlan, start: u64, now: Duration) -> Self {
        self.source = Some(Source::new(plan, start, now));
        self
    }

    /// Begins: replicas ask for their first batches.
    pub(crate) fn start(&mut self) -> Result<()> {
        (0..self.inboxes.len()).try_for_each(|edge| self.ask(edge))
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.table.epoch
    }

    /// Takes a message in. Those of another epoch must not come here.
    pub(crate) fn on_letter(&mut self, letter: Letter) -> Result<()> {
        let from = letter.from;
        self.read(letter).map_err(|e| match e.kind() {
            ErrorKind::Wire => Error::new(ErrorKind::Wire, format!("from rank {from}: {}", e.message())),
            _ => e,
        })
    }

    fn read(&mut self, letter: Letter) -> Result<()> {
        match letter.kind {
            Kind::Data => {
                let bytes = letter.body.len() + letter.parts.iter().map(bytes::Bytes::len).sum::<usize>();
                let (_, edge, parcel) = Parcel::unpack(letter.body, letter.parts)?;
                self.traffic.received_batches += 1;
                self.traffic.received_bytes += bytes as u64;
                self.deliver(edge, parcel)
            }
            Kind::Request => {
                let Request { edge, batches, .. } = wire::from_bytes(&letter.body)?;
                let most = self.table.receivers(self.known(edge as usize)?).len() * self.ahead;
                self.book(edge as usize)?.request(letter.from, (batches as usize).min(most));
                self.decide(edge as usize)
            }
            Kind::Offer => {
                let Offer { edge, number, .. } = wire::from_bytes(&letter.body)?;
                self.book(edge as usize)?.offer(letter.from, number);
                self.decide(edge as usize)
            }
            Kind::Assign => {
                let Assign { edge, number, receiver, .. } = wire::from_bytes(&letter.body)?;
                self.give(self.known(edge as usize)?, number, receiver as usize)
            }
            other => {
                Err(Error::new(ErrorKind::Wire, format!("a {other:?} message in the middle of a stream")))
            }
        }
    }

    /// Takes the result of a job in.
    pub(crate) fn on_done(&mut self, done: Done, now: Duration) -> Result<()> {
        match done {
            Done::Drawn { parcel, ended } => {
                if let Some(source) = &mut self.source {
                    source.drawn(parcel.as_ref().map(|p| p.range.count), ended);
                }
                parcel.map_or(Ok(()), |parcel| self.send_on(0, parcel))
            }
            Done::Processed { block, parcel } => self.send_on(block + 1, parcel),
            Done::Consumed { count, service, bytes } => {
                if let Some(source) = &mut self.source {
                    source.consumed(count, service, bytes, now);
                }
                Ok(())
            }
        }
    }

    /// The most useful thing to compute now. What only this rank can do comes first, for others wait for it: the
    /// sink, then its own blocks from the last to the first, then new items while the window is open. Work that
    /// other replicas can do as well comes after that, again the farthest downstream first.
    pub(crate) fn next_job(&mut self) -> Result<Option<Job>> {
        let last = self.table.last_edge();
        for edge in (0..=last).rev() {
            if self.table.receivers(edge).len() == 1
                && let Some(parcel) = self.take(edge)?
            {
                let consume = edge == last;
                let job =
                    if consume { Job::Consume { parcel } } else { Job::Process { block: edge, parcel } };
                return Ok(Some(job));
            }
        }
        if let Some(job) = self.source.as_mut().and_then(Source::next_draw) {
            return Ok(Some(job));
        }
        for block in (0..last).rev() {
            if let Some(parcel) = self.take(block)? {
                return Ok(Some(Job::Process { block, parcel }));
            }
        }
        Ok(None)
    }

    /// Takes the next batch of an edge out of its inbox, and asks for another one in its place.
    fn take(&mut self, edge: usize) -> Result<Option<Parcel>> {
        let parcel = self.inboxes[edge].as_mut().and_then(Inbox::take);
        if parcel.is_some() {
            self.ask(edge)?;
        }
        Ok(parcel)
    }

    /// Messages that have come up since the last call.
    pub(crate) fn take_mail(&mut self) -> std::vec::Drain<'_, (usize, Message)> {
        self.outbox.drain(..)
    }

    /// Rank 0's end of the stream; `None` on other ranks.
    pub(crate) fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// The same, to [pause](Source::pause) it.
    pub(crate) fn source_mut(&mut self) -> Option<&mut Source> {
        self.source.as_mut()
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Whether taking in `done` needs to know the time: only the window does.
    pub(crate) fn needs_time(&self, done: &Done) -> bool {
        matches!(done, Done::Consumed { .. })
    }

    /// By first stage of each block hosted here: the most batches that have waited in front of it.
    pub(crate) fn longest_queues(&self) -> impl Iterator<Item = (usize, usize)> {
        let most = |(block, inbox): (usize, &Option<Inbox>)| {
            inbox.as_ref().map(|i| (self.table.stages(block).start, i.queued().1))
        };
        self.inboxes.iter().take(self.table.last_edge()).enumerate().filter_map(most)
    }

    /// Why there is nothing to compute.
    pub(crate) fn idle_reason(&self) -> Idle {
        let shelved = self.shelves.iter().any(|s| !s.is_empty());
        let closed = self.source.as_ref().is_some_and(Source::is_held_up);
        if shelved || closed { Idle::Downstream } else { Idle::Input }
    }

    fn known(&self, edge: usize) -> Result<usize> {
        if edge < self.inboxes.len() {
            return Ok(edge);
        }
        Err(Error::new(ErrorKind::Wire, format!("names edge {edge}, but there are {}", self.inboxes.len())))
    }

    fn book(&mut self, edge: usize) -> Result<&mut Broker> {
        self.known(edge)?;
        self.brokers[edge].as_mut().ok_or_else(|| {
            Error::new(ErrorKind::Wire, format!("asks about edge {edge}, whose book is kept elsewhere"))
        })
    }

    /// A batch arrives here over `edge`.
    fn deliver(&mut self, edge: usize, parcel: Parcel) -> Result<()> {
        self.known(edge)?;
        let number = parcel.number;
        let wrong = |what: &str| {
            Err(Error::new(ErrorKind::Wire, format!("batch {number} of edge {edge} came {what}")))
        };
        match &mut self.inboxes[edge] {
            None => wrong("to a rank that does not take it"),
            Some(inbox) => {
                if inbox.put(parcel) {
                    Ok(())
                } else {
                    wrong("twice, or from far beyond the window")
                }
            }
        }
    }

    /// A batch is ready for `edge`: find out who gets it.
    fn send_on(&mut self, edge: usize, parcel: Parcel) -> Result<()> {
        match self.table.route(edge) {
            Route::Push(to) => self.hand(edge, parcel, to),
            Route::RoundRobin => {
                let receivers = self.table.receivers(edge);
                let to = receivers[(parcel.number % receivers.len() as u64) as usize];
                self.hand(edge, parcel, to)
            }
            Route::Pull { broker } => {
                let number = parcel.number;
                self.shelves[edge].insert(number, parcel);
                if broker == self.me {
                    let me = self.me;
                    self.book(edge)?.offer(me, number);
                    return self.decide(edge);
                }
                let offer = Offer { epoch: self.epoch(), edge: edge as u32, number };
                self.mail(broker, Kind::Offer, &offer)
            }
        }
    }

    /// Hands a batch to `to`, which may be this rank.
    fn hand(&mut self, edge: usize, parcel: Parcel, to: usize) -> Result<()> {
        if to == self.me {
            return self.deliver(edge, parcel);
        }
        let (epoch, stage) = (self.epoch(), self.table.codec(edge));
        let items = parcel.range.count as usize;
        // Items that cannot be sent are the fault of the stage that made them.
        let made_by = stage.checked_sub(1).and_then(|s| self.names.get(s)).map_or("source", String::as_str);
        let packed = parcel.pack(self.run, epoch, edge, &*self.codecs[stage]);
        let (message, bytes) = packed.map_err(|e| e.in_stage(made_by))?;
        self.traffic.sent_batches += 1;
        self.traffic.sent_bytes += bytes;
        if let Some(source) = &mut self.source {
            source.sent(items, bytes);
        }
        self.outbox.push((to, message));
        Ok(())
    }

    /// A broker's decision reaches the sender, which is this rank.
    fn give(&mut self, edge: usize, number: u64, receiver: usize) -> Result<()> {
        if !self.table.receivers(edge).contains(&receiver) {
            let text = format!("assigns batch {number} to rank {receiver}, which does not take edge {edge}");
            return Err(Error::new(ErrorKind::Wire, text));
        }
        match self.shelves[edge].remove(&number) {
            Some(parcel) => self.hand(edge, parcel, receiver),
            None => {
                Err(Error::new(ErrorKind::Wire, format!("assigns batch {number} of edge {edge}, not here")))
            }
        }
    }

    /// Brings offers and requests together, as far as there are both.
    fn decide(&mut self, edge: usize) -> Result<()> {
        while let Some(a) = self.book(edge)?.decide() {
            if a.sender == self.me {
                self.give(edge, a.number, a.receiver)?;
            } else {
                let epoch = self.epoch();
                let assign =
                    Assign { epoch, edge: edge as u32, number: a.number, receiver: a.receiver as u32 };
                self.mail(a.sender, Kind::Assign, &assign)?;
            }
        }
        Ok(())
    }

    /// Asks for as many batches over a pulled edge as there is room for.
    fn ask(&mut self, edge: usize) -> Result<()> {
        let Route::Pull { broker } = self.table.route(edge) else { return Ok(()) };
        let Some(inbox) = &mut self.inboxes[edge] else { return Ok(()) };
        let have = inbox.asked + inbox.queued().0;
        let want = self.ahead.saturating_sub(have);
        if want == 0 {
            return Ok(());
        }
        inbox.asked += want;
        if broker == self.me {
            let me = self.me;
            self.book(edge)?.request(me, want);
            return self.decide(edge);
        }
        let request = Request { epoch: self.epoch(), edge: edge as u32, batches: want as u32 };
        self.mail(broker, Kind::Request, &request)
    }

    fn mail<T: Serialize>(&mut self, to: usize, kind: Kind, content: &T) -> Result<()> {
        let mut head = envelope(self.run, kind).to_vec();
        head.extend_from_slice(&wire::to_bytes(content)?);
        self.outbox.push((to, Message::new(head)));
        Ok(())
    }
}
