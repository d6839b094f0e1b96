//! The protocol of one rank, as a state machine: messages and finished jobs go in, jobs and messages come out.
//!
//! It has no clock, no thread and no transport of its own (the time of an event is handed in), so the same
//! machine runs under both drivers and on every transport. See the README beside it for states and invariants.

mod broker;
mod describe;
#[cfg(test)]
mod golden_tests;
mod handover;
mod inbox;
mod job;
mod messages;
mod pace;
pub(crate) mod parcel;
mod routes;
mod source;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod turns;
pub(crate) mod window;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use self::broker::{Broker, ItemTime, Lot};
use self::handover::Moving;
use self::inbox::Inbox;
pub(crate) use self::job::{Done, Idle, Job, Note, Traffic};
use self::messages::{Assign, Early, Offer, Request, Token, epoch_of};
use self::parcel::Parcel;
pub(crate) use self::source::Source;
use self::table::Table;
use self::turns::Turns;
use self::window::WindowPlan;
use super::erased::Codec;
use crate::comm::message::{Message, TAG_AT, Tag};
use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::wire;

/// How much older than its other work a replica's batch must be to come first, in batches for each host: about what the
/// window holds at least.
const LAG: usize = 6;

/// The state of one rank in one run.
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
    turns: Turns,
    moving: Moving,
    /// Messages of a mapping that this rank has not been told to use yet.
    early: Vec<Message>,
    /// Present on rank 0.
    source: Option<Source>,
    outbox: Vec<Mail>,
    notes: Vec<Note>,
    traffic: Traffic,
    /// By edge between stages: bytes and items that this rank has sent over it.
    volumes: Vec<(u64, u64)>,
    /// What the compute side has spent on stages so far.
    busy: Duration,
    /// By first stage of a block that was hosted here: the most batches that have waited in front of it.
    longest: Vec<usize>,
}

/// A message that waits to be sent.
struct Mail {
    to: usize,
    head: Vec<u8>,
    parts: Vec<Part>,
}

impl Machine {
    /// The machine of rank `me`, which knows no mapping yet; replicas ask for `ahead` batches.
    pub(crate) fn new(me: usize, run: u32, codecs: Vec<Arc<dyn Codec>>, ahead: usize) -> Self {
        Machine {
            me,
            run,
            table: Table::none(),
            names: Vec::new(),
            ahead,
            inboxes: Vec::new(),
            shelves: Vec::new(),
            brokers: Vec::new(),
            turns: Turns::default(),
            moving: Moving::default(),
            early: Vec::new(),
            source: None,
            outbox: Vec::new(),
            notes: Vec::new(),
            traffic: Traffic::default(),
            volumes: vec![(0, 0); codecs.len()],
            busy: Duration::ZERO,
            longest: vec![0; codecs.len()],
            codecs,
        }
    }

    /// Gives the stages the names by which messages call them.
    pub(crate) fn with_names(mut self, names: &[String]) -> Self {
        self.names = names.to_vec();
        self
    }

    /// Makes this the machine of rank 0, which reads the source.
    pub(crate) fn with_source(mut self, plan: WindowPlan, now: Duration) -> Self {
        self.source = Some(Source::new(plan, now));
        self
    }

    /// The mapping in force here; 0 before the first.
    pub(crate) fn epoch(&self) -> u32 {
        self.table.epoch
    }

    /// Whether the mapping in force has nothing for this rank.
    pub(crate) fn is_parked(&self) -> bool {
        self.epoch() > 0 && !self.table.hosts(self.me)
    }

    /// Takes a message in. One of a mapping that is not in force here yet waits until it is.
    pub(crate) fn on_message(&mut self, message: Message) -> Result<()> {
        let from = message.from;
        self.read(message).map_err(|e| match e.kind() {
            ErrorKind::Wire => Error::new(ErrorKind::Wire, format!("from rank {from}: {}", e.message())),
            _ => e,
        })
    }

    fn read(&mut self, message: Message) -> Result<()> {
        let epoch = epoch_of(&message)?;
        if epoch > self.epoch() {
            self.early.push(message);
            return Ok(());
        }
        let present = epoch == self.epoch();
        match message.tag::<Tag>()? {
            Tag::Data => {
                let bytes = message.body.len() + message.parts.iter().map(Part::len).sum::<usize>();
                let (_, parcel) = Parcel::unpack(message.body, message.parts)?;
                self.traffic.received_batches += 1;
                self.traffic.received_bytes += bytes as u64;
                if present { self.deliver(parcel) } else { self.forward(parcel) }
            }
            Tag::Token => self.on_token(message.from, wire::from_bytes(&message.body)?),
            // Book-keeping of a mapping that is over: everybody begins his books anew.
            _ if !present => Ok(()),
            Tag::Request => {
                let Request { edge, batches, held, pace, deviation, .. } = wire::from_bytes(&message.body)?;
                let most = self.table.receivers(self.known(edge as usize)?).len() * self.ahead;
                let (batches, held) = ((batches as usize).min(most), held as usize);
                let pace = ItemTime { mean: pace, deviation };
                self.book(edge as usize)?.request(message.from, batches, held, pace);
                self.decide(edge as usize)
            }
            Tag::Offer => {
                let Offer { edge, number, items, behind, .. } = wire::from_bytes(&message.body)?;
                self.book(edge as usize)?.offer(number, Lot { sender: message.from, items, behind });
                self.decide(edge as usize)
            }
            Tag::Early => {
                let Early { edge, batches, bytes, .. } = wire::from_bytes(&message.body)?;
                let edge = self.known(edge as usize)?;
                self.note_early(edge, batches as usize, bytes)
            }
            _ => {
                let Assign { edge, number, receiver, .. } = wire::from_bytes(&message.body)?;
                self.give(self.known(edge as usize)?, number, receiver as usize)
            }
        }
    }

    /// Takes the result of a job in.
    pub(crate) fn on_done(&mut self, done: Done, now: Duration) -> Result<()> {
        match done {
            Done::Drawn { parcel, ended, left } => {
                if let Some(source) = &mut self.source {
                    source.drawn(parcel.as_ref().map(|p| p.range.count), ended, left);
                }
                parcel.map_or(Ok(()), |parcel| self.send_on(parcel))
            }
            Done::Processed { parcel, took } => {
                self.busy += took;
                for edge in 0..self.inboxes.len() {
                    if self.inboxes[edge].as_mut().is_some_and(|inbox| inbox.pace.ends(self.busy)) {
                        self.ask(edge)?;
                    }
                }
                self.send_on(parcel)
            }
            Done::Consumed { count, service, bytes } => {
                if let Some(source) = &mut self.source {
                    source.consumed(count, service, bytes, now);
                }
                Ok(())
            }
            Done::Released { stage, state } => self.released(stage, state),
            Done::Restored { stage } => {
                self.restored(stage);
                Ok(())
            }
        }
    }

    /// The most useful thing to compute now. What only this rank can do comes first, for others wait for it: serial
    /// stages that change hands, the sink, then its own blocks from the last to the first, then new items while the
    /// window is open. Work that other replicas can do as well comes after that, again the farthest downstream first;
    /// but what is far older than the work of one of its own blocks comes before that: everybody waits for it.
    pub(crate) fn next_job(&mut self) -> Result<Option<Job>> {
        if self.epoch() == 0 {
            return Ok(None);
        }
        if let Some(job) = self.moving.next_job() {
            return Ok(Some(job));
        }
        let last = self.table.last_edge();
        let overdue = self.overdue();
        for edge in (0..=last).rev() {
            let number = |inbox: &Inbox| inbox.first().map(|parcel| parcel.number);
            let first = self.inboxes[edge].as_ref().and_then(number);
            let must_wait = edge < last && overdue.is_some_and(|overdue| first > Some(overdue));
            if self.table.receivers(edge).len() == 1
                && !must_wait
                && let Some((stages, parcel)) = self.take(edge)?
            {
                let consume = edge == last;
                let job = if consume { Job::Consume { parcel } } else { Job::Process { stages, parcel } };
                return Ok(Some(job));
            }
        }
        if let Some(job) = self.source.as_mut().and_then(Source::next_draw) {
            return Ok(Some(job));
        }
        for block in (0..last).rev() {
            // A block that has one host has been looked at.
            if self.table.receivers(block).len() > 1
                && let Some((stages, parcel)) = self.take(block)?
            {
                return Ok(Some(Job::Process { stages, parcel }));
            }
        }
        Ok(None)
    }

    /// Own blocks do not go on with batches behind this one while one that another replica could have had waits here.
    fn overdue(&self) -> Option<u64> {
        let replicated = (0..self.table.last_edge()).filter(|&edge| self.table.receivers(edge).len() > 1);
        let oldest = replicated.filter_map(|edge| self.inboxes[edge].as_ref()?.first()).map(|p| p.number);
        oldest.min().map(|number| number + (LAG * self.table.host_count()) as u64)
    }

    /// Takes the oldest batch of an edge out of its inbox, if it is its turn, with the stages that it goes through
    /// here; asks for another one in its place.
    fn take(&mut self, edge: usize) -> Result<Option<(Range<usize>, Parcel)>> {
        let Some(inbox) = &mut self.inboxes[edge] else { return Ok(None) };
        let Some(first) = inbox.first() else { return Ok(None) };
        let stages = first.stage..end_of(&self.table, edge);
        if !self.turns.admit(stages.clone(), first.number) {
            return Ok(None);
        }
        let Some(parcel) = inbox.take() else { return Ok(None) };
        inbox.pace.begins(parcel.range.live() as u32, self.busy);
        self.turns.pass(stages.clone(), parcel.number);
        self.ask(edge)?;
        self.tell_early(edge)?;
        Ok(Some((stages, parcel)))
    }

    /// Whether messages have come up since they were taken last.
    pub(crate) fn has_mail(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Messages that have come up since the last call. Batches tell their receiver that they were sent at `sent`, if
    /// that matters to anybody.
    pub(crate) fn take_mail(&mut self, sent: Option<Duration>) -> impl Iterator<Item = (usize, Frame)> {
        self.outbox.drain(..).map(move |Mail { to, mut head, parts }| {
            if let Some(sent) = sent
                && head[TAG_AT] == Tag::Data as u8
            {
                parcel::stamp(&mut head, sent);
            }
            (to, Frame { head: head.into(), parts })
        })
    }

    /// What has happened since the last call that is worth telling.
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Rank 0's end of the stream; `None` on other ranks.
    pub(crate) fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// The same, to change it.
    pub(crate) fn source_mut(&mut self) -> Option<&mut Source> {
        self.source.as_mut()
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// By edge between stages (the number of stages before it): bytes and items that this rank has sent over it.
    pub(crate) fn volumes(&self) -> &[(u64, u64)] {
        &self.volumes
    }

    /// Whether taking in `done` needs to know the time: only the window does.
    pub(crate) fn needs_time(&self, done: &Done) -> bool {
        matches!(done, Done::Consumed { .. })
    }

    /// By first stage of each block that was hosted here: the most batches that have waited in front of it.
    pub(crate) fn longest_queues(&mut self) -> &[usize] {
        self.note_queues();
        &self.longest
    }

    fn note_queues(&mut self) {
        for (block, inbox) in self.inboxes.iter().take(self.table.last_edge()).enumerate() {
            if let Some(inbox) = inbox {
                let longest = &mut self.longest[self.table.stages(block).start];
                *longest = inbox.queued().1.max(*longest);
            }
        }
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
}

/// The stage behind the last one of a block; the sink counts as a stage.
fn end_of(table: &Table, edge: usize) -> usize {
    table.blocks().get(edge).map_or(table.stage_count() + 1, |b| b.stages.end)
}
