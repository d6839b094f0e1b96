//! Protocol of one rank as a state machine: its inputs are messages and finished jobs, its outputs are jobs and messages.
//!
//! The machine has no clock, no thread and no transport (the time of an event is a parameter), so it runs under both drivers and on every transport.
//! `README.md` in this directory describes its states and invariants.

pub(crate) mod batch;
mod describe;
mod dispatcher;
mod expansions;
mod grants;
mod in_flight;
mod input_queue;
mod job;
mod migration;
mod pieces;
mod resequencer;
mod routes;
pub(crate) mod sequence_number;
mod service_time;
mod source;
mod switching;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod window;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use self::batch::Batch;
use self::dispatcher::{Dispatcher, ItemTime, Offered};
use self::expansions::Expansions;
use self::input_queue::InputQueue;
pub(crate) use self::job::{Consumed, Done, Idle, Job, SetUp, StreamEvent, Traffic};
use self::migration::Migration;
use self::resequencer::Resequencer;
use self::sequence_number::SequenceNumber;
pub(crate) use self::source::Source;
use self::table::Table;
use self::window::WindowPlan;
use super::erased::Codec;
use super::fill::Fill;
use super::messages::batch::stamp;
use super::messages::{Arrived, Assign, Offer, OutOfOrder, Request, StreamMessage};
use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};

/// State of one rank in one run.
pub(crate) struct Machine {
    me: usize,
    run: u32,
    table: Table,
    codecs: Vec<Arc<dyn Codec>>,
    /// Stage names, for messages.
    names: Vec<String>,
    ahead: usize,
    /// By edge: present if this rank receives batches over it.
    inputs: Vec<Option<InputQueue>>,
    /// By edge: finished batches that have been offered and wait for a receiver.
    output_buffers: Vec<BTreeMap<SequenceNumber, Batch>>,
    /// By edge: present if this rank dispatches its batches.
    dispatchers: Vec<Option<Dispatcher>>,
    resequencer: Resequencer,
    migration: Migration,
    expansions: Expansions,
    /// Messages of a mapping to which this rank has not switched yet.
    of_later_mapping: Vec<(usize, StreamMessage)>,
    /// Present on rank 0.
    source: Option<Source>,
    outgoing: Vec<Outgoing>,
    events: Vec<StreamEvent>,
    traffic: Traffic,
    /// By edge between stages: bytes and items that this rank has sent over it.
    volumes: Vec<(u64, u64)>,
    /// Total time that the compute side has spent on stages.
    busy: Duration,
    /// By first stage of a block that was hosted on this rank: maximum number of batches that waited in front of the block.
    longest: Vec<usize>,
}

/// Message that waits to be sent.
struct Outgoing {
    to: usize,
    head: Vec<u8>,
    parts: Vec<Part>,
}

impl Machine {
    /// Creates the machine of rank `me`, without a mapping. Replicas request `ahead` batches in advance.
    pub(crate) fn new(me: usize, run: u32, codecs: Vec<Arc<dyn Codec>>, ahead: usize) -> Self {
        Machine {
            me,
            run,
            table: Table::none(),
            names: Vec::new(),
            ahead,
            inputs: Vec::new(),
            output_buffers: Vec::new(),
            dispatchers: Vec::new(),
            resequencer: Resequencer::default(),
            migration: Migration::default(),
            expansions: Expansions::new(Vec::new(), Fill { items: 1, time: None }),
            of_later_mapping: Vec::new(),
            source: None,
            outgoing: Vec::new(),
            events: Vec::new(),
            traffic: Traffic::default(),
            volumes: vec![(0, 0); codecs.len()],
            busy: Duration::ZERO,
            longest: vec![0; codecs.len()],
            codecs,
        }
    }

    /// Sets the stage names that messages contain.
    pub(crate) fn with_names(mut self, names: &[String]) -> Self {
        self.names = names.to_vec();
        self
    }

    /// Sets which stages make several items of one, and when the first piece of their output is full.
    pub(crate) fn with_expanding(mut self, expanding: Vec<bool>, fill: Fill) -> Self {
        self.expansions = Expansions::new(expanding, fill);
        self
    }

    /// Makes this the machine of rank 0, which reads the source. With `wants_end`, an empty batch follows all others.
    pub(crate) fn with_source(mut self, plan: WindowPlan, wants_end: bool, now: Duration) -> Self {
        let levels = self.expansions.levels(self.codecs.len() - 1);
        self.source = Some(Source::new(plan, levels, wants_end, now));
        self
    }

    /// Returns the epoch of this rank's current mapping; 0 before the first mapping.
    pub(crate) fn epoch(&self) -> u32 {
        self.table.epoch
    }

    /// Returns true if this rank runs no stage under the current mapping.
    pub(crate) fn is_parked(&self) -> bool {
        self.epoch() > 0 && !self.table.hosts(self.me)
    }

    /// Handles a message. A message of a later mapping waits until this rank has switched to that mapping.
    pub(crate) fn on_message(&mut self, from: usize, message: StreamMessage) -> Result<()> {
        self.take_in(from, message).map_err(|e| match e.kind() {
            ErrorKind::Wire => Error::new(ErrorKind::Wire, format!("from rank {from}: {}", e.message())),
            _ => e,
        })
    }

    fn take_in(&mut self, from: usize, message: StreamMessage) -> Result<()> {
        let epoch = message.epoch();
        if epoch > self.epoch() {
            self.of_later_mapping.push((from, message));
            return Ok(());
        }
        let present = epoch == self.epoch();
        match message {
            StreamMessage::Batch(Arrived { batch, bytes, .. }) => {
                self.traffic.received_batches += 1;
                self.traffic.received_bytes += bytes as u64;
                if present { self.deliver(batch) } else { self.forward(batch) }
            }
            StreamMessage::Token(token) => self.on_token(from, token),
            StreamMessage::AskForRoom(ask) => self.on_ask_for_room(from, ask),
            StreamMessage::Grant(grant) => self.on_grant(&grant),
            StreamMessage::GiveBack(back) => self.on_give_back(&back),
            // Messages about offers, requests, assignments and waiting batches of an earlier mapping are obsolete: the ranks send new ones after the
            // switch.
            _ if !present => Ok(()),
            StreamMessage::Request(Request { edge, batches, held, service_time, deviation, .. }) => {
                let most = self.table.receivers(self.known(edge as usize)?).len() * self.ahead;
                let (batches, held) = ((batches as usize).min(most), held as usize);
                let item_time = ItemTime { mean: service_time, deviation };
                self.dispatcher(edge as usize)?.request(from, batches, held, item_time);
                self.decide(edge as usize)
            }
            StreamMessage::Offer(Offer { edge, number, items, behind, .. }) => {
                self.dispatcher(edge as usize)?.offer(number, Offered { sender: from, items, behind });
                self.decide(edge as usize)
            }
            StreamMessage::OutOfOrder(OutOfOrder { edge, batches, bytes, .. }) => {
                let edge = self.known(edge as usize)?;
                self.note_out_of_order(edge, batches as usize, bytes)
            }
            StreamMessage::Assign(Assign { edge, number, receiver, .. }) => {
                self.give(self.known(edge as usize)?, number, receiver as usize)
            }
        }
    }

    /// Handles the result of a job.
    pub(crate) fn on_done(&mut self, done: Done, now: Duration) -> Result<()> {
        match done {
            Done::Drawn { batch, ended, left } => {
                if let Some(source) = &mut self.source {
                    source.drawn(batch.as_ref().map(|p| p.range.count), ended, left);
                }
                batch.map_or(Ok(()), |batch| self.send_on(batch))
            }
            Done::Processed { batch, took } => {
                self.busy += took;
                for edge in 0..self.inputs.len() {
                    if self.inputs[edge].as_mut().is_some_and(|input| input.service_time.job_ended(self.busy))
                    {
                        self.ask(edge)?;
                    }
                }
                self.on_piece(&batch)?;
                self.send_on(batch)
            }
            Done::Consumed(batch) => {
                if let Some(source) = &mut self.source {
                    source.consumed(&batch, now);
                }
                self.grant()
            }
            Done::Released { stage, state } => self.released(stage, state),
            Done::Restored { stage } => {
                self.restored(stage);
                Ok(())
            }
            // The protocol of the rank handles them.
            Done::SetUp(_) | Done::Probed(_) => Ok(()),
        }
    }

    /// Returns the most useful next job. Work that only this rank can do comes first, because other ranks wait for it: serial stages that migrate,
    /// the sink, blocks hosted by this rank alone from the last to the first, further pieces of expanding stages, then new items while the window is
    /// open. Replicated blocks follow, again from the last to the first. A block hosted by this rank alone has to wait while a far older batch of a
    /// replicated block waits on this rank, because all ranks wait for that batch.
    pub(crate) fn next_job(&mut self) -> Result<Option<Job>> {
        if self.epoch() == 0 {
            return Ok(None);
        }
        if let Some(job) = self.migration.next_job() {
            return Ok(Some(job));
        }
        let last = self.table.last_edge();
        let overdue = self.overdue();
        for edge in (0..=last).rev() {
            let number = |input: &InputQueue| input.first().map(|batch| batch.number.batch);
            let first = self.inputs[edge].as_ref().and_then(number);
            let must_wait = edge < last && overdue.is_some_and(|overdue| first > Some(overdue));
            if self.table.receivers(edge).len() == 1
                && !must_wait
                && let Some((stages, batch)) = self.take(edge)?
            {
                let consume = edge == last;
                let fill = self.expansions.fill;
                let job = if consume { Job::Consume { batch } } else { Job::Process { stages, batch, fill } };
                return Ok(Some(job));
            }
        }
        if let Some(job) = self.next_piece() {
            return Ok(Some(job));
        }
        if let Some(job) = self.source.as_mut().and_then(Source::next_draw) {
            return Ok(Some(job));
        }
        for block in (0..last).rev() {
            // A block with a single host was considered above.
            if self.table.receivers(block).len() > 1
                && let Some((stages, batch)) = self.take(block)?
            {
                return Ok(Some(Job::Process { stages, batch, fill: self.expansions.fill }));
            }
        }
        Ok(None)
    }

    /// Returns the last batch that unreplicated blocks may process before the batches of replicated blocks that wait on this rank: the oldest waiting
    /// batch plus the minimum size of the window. `None` if no batch of a replicated block waits.
    fn overdue(&self) -> Option<u64> {
        let replicated = (0..self.table.last_edge()).filter(|&edge| self.table.receivers(edge).len() > 1);
        let oldest = replicated.filter_map(|edge| self.inputs[edge].as_ref()?.first());
        let oldest = oldest.map(|batch| batch.number.batch);
        oldest.min().map(|number| number + window::floor(self.table.host_count(), self.ahead) as u64)
    }

    /// Removes the oldest batch from the input queue of an edge, if its turn has come, and requests another one. Returns the batch and the stages
    /// that it passes in one job.
    fn take(&mut self, edge: usize) -> Result<Option<(Range<usize>, Batch)>> {
        let Some(first) = self.inputs[edge].as_ref().and_then(InputQueue::first) else { return Ok(None) };
        let stages = self.stages_of(first, edge);
        let is_busy = stages.clone().any(|stage| self.expansions.is_busy(stage));
        if is_busy || !self.resequencer.admit(stages.clone(), &first.number) {
            return Ok(None);
        }
        let Some(input) = &mut self.inputs[edge] else { return Ok(None) };
        let Some(batch) = input.take() else { return Ok(None) };
        input.service_time.begins(batch.range.live() as u32, self.busy);
        self.resequencer.pass(stages.clone(), &batch);
        self.expansions.begin(stages.clone(), |stage| self.table.is_serial(stage));
        self.ask(edge)?;
        self.report_out_of_order(edge)?;
        Ok(Some((stages, batch)))
    }

    /// Returns the stages that a batch received over `edge` passes in one job on this rank.
    fn stages_of(&self, batch: &Batch, edge: usize) -> Range<usize> {
        let end = self.table.blocks().get(edge).map_or(self.table.stage_count() + 1, |b| b.stages.end);
        self.expansions.in_one_job(batch.stage..end, |stage| self.table.is_serial(stage))
    }

    /// Returns true if messages wait to be sent.
    pub(crate) fn has_messages(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Removes and returns the messages that wait to be sent. Batches are stamped with `sent` as the time of sending, if it is given.
    pub(crate) fn take_messages(&mut self, sent: Option<Duration>) -> impl Iterator<Item = (usize, Frame)> {
        self.outgoing.drain(..).map(move |Outgoing { to, mut head, parts }| {
            if let Some(sent) = sent {
                stamp(&mut head, sent);
            }
            (to, Frame { head: head.into(), parts })
        })
    }

    /// Removes and returns the events since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<StreamEvent> {
        std::mem::take(&mut self.events)
    }

    /// Returns the source; `None` on ranks other than 0.
    pub(crate) fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// Returns the source to be changed; `None` on ranks other than 0.
    pub(crate) fn source_mut(&mut self) -> Option<&mut Source> {
        self.source.as_mut()
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Returns, by edge between stages (the number of stages before it), the bytes and items that this rank has sent over it.
    pub(crate) fn volumes(&self) -> &[(u64, u64)] {
        &self.volumes
    }

    /// Returns true if the result `done` is handled with the current time, which only the window needs.
    pub(crate) fn needs_time(&self, done: &Done) -> bool {
        matches!(done, Done::Consumed(_))
    }

    /// Returns, by first stage of each block that was hosted on this rank, the maximum number of batches that waited in front of the block.
    pub(crate) fn longest_queues(&mut self) -> &[usize] {
        self.note_queues();
        &self.longest
    }

    fn note_queues(&mut self) {
        for (block, input) in self.inputs.iter().take(self.table.last_edge()).enumerate() {
            if let Some(input) = input {
                let longest = &mut self.longest[self.table.stages(block).start];
                *longest = input.queued().1.max(*longest);
            }
        }
    }

    /// Returns the reason why there is nothing to compute.
    pub(crate) fn idle_reason(&self) -> Idle {
        let buffered = self.output_buffers.iter().any(|s| !s.is_empty());
        let closed = self.source.as_ref().is_some_and(Source::is_held_up);
        if buffered || closed { Idle::Downstream } else { Idle::Input }
    }

    fn known(&self, edge: usize) -> Result<usize> {
        if edge < self.inputs.len() {
            return Ok(edge);
        }
        Err(Error::new(ErrorKind::Wire, format!("names edge {edge}, but there are {}", self.inputs.len())))
    }

    fn dispatcher(&mut self, edge: usize) -> Result<&mut Dispatcher> {
        self.known(edge)?;
        self.dispatchers[edge].as_mut().ok_or_else(|| {
            Error::new(ErrorKind::Wire, format!("asks about edge {edge}, whose dispatcher is elsewhere"))
        })
    }
}
