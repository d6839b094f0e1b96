//! Protocol of one rank as a state machine: its inputs are messages and finished jobs, its outputs are jobs and messages.
//!
//! The machine has no clock, no thread and no transport (each event comes with its time and the way out), so it runs under both drivers and on every
//! transport.
//! `README.md` in this directory describes its states and invariants.

pub(crate) mod batch;
mod describe;
mod dispatcher;
mod expansions;
mod in_flight;
mod input_queue;
mod job;
mod migration;
mod pieces;
mod resequencer;
pub(crate) mod sequence_number;
mod service_time;
mod source;
mod switching;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod window;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use self::batch::Batch;
use self::dispatcher::{Dispatcher, ItemTime, Offered};
use self::expansions::Expansions;
use self::input_queue::InputQueue;
pub(crate) use self::job::{Consumed, Done, Idle, Job, SetUp, Traffic};
use self::migration::Migration;
use self::resequencer::Resequencer;
use self::sequence_number::SequenceNumber;
pub(crate) use self::source::Source;
use self::table::{Route, Table};
use self::window::WindowPlan;
use super::erased::Codec;
use super::fill::Fill;
use super::messages::{Arrived, StreamMessage};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::Event;
use crate::rank::protocol::{Moment, Outgoing};

/// State of one rank in one run.
pub(crate) struct Machine {
    me: usize,
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
    /// Jobs of the rank's protocol, which run before all jobs of the stream.
    jobs: VecDeque<Job>,
    /// Number of queued or running jobs of the rank's protocol whose result is pending.
    unanswered: usize,
    /// Mapping for which the stages of this rank are set up or being set up, and to which the rank has not switched yet.
    prepared: Option<Table>,
    /// Present on rank 0.
    source: Option<Source>,
    /// Events that are not written to the event log yet.
    events: Vec<Event>,
    traffic: Traffic,
    /// True if batches are stamped with the time of sending, because links are monitored.
    stamps: bool,
    /// By edge between stages: bytes and items that this rank has sent over it.
    volumes: Vec<(u64, u64)>,
    /// Total time that the compute side has spent on stages.
    busy: Duration,
    /// By first stage of a block that was hosted on this rank: maximum number of batches that waited in front of the block.
    longest: Vec<usize>,
}

impl Machine {
    /// Creates the machine of rank `me`, without a mapping. `expanding` is true for stages that make several items of one, and `fill` is the size of the
    /// first piece of their output. Replicas request `ahead` batches in advance.
    pub(crate) fn new(
        me: usize,
        codecs: Vec<Arc<dyn Codec>>,
        (names, expanding): (Vec<String>, Vec<bool>),
        fill: Fill,
        ahead: usize,
    ) -> Self {
        Machine {
            me,
            table: Table::none(),
            names,
            ahead,
            inputs: Vec::new(),
            output_buffers: Vec::new(),
            dispatchers: Vec::new(),
            resequencer: Resequencer::default(),
            migration: Migration::default(),
            expansions: Expansions::new(expanding, fill),
            of_later_mapping: Vec::new(),
            jobs: VecDeque::new(),
            unanswered: 0,
            prepared: None,
            source: None,
            events: Vec::new(),
            traffic: Traffic::default(),
            stamps: false,
            volumes: vec![(0, 0); codecs.len()],
            busy: Duration::ZERO,
            longest: vec![0; codecs.len()],
            codecs,
        }
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
    pub(crate) fn on_message(
        &mut self,
        from: usize,
        message: StreamMessage,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        self.take_in(from, message, at, out).map_err(|e| match e.kind() {
            ErrorKind::Wire => Error::new(ErrorKind::Wire, format!("from rank {from}: {}", e.message())),
            _ => e,
        })
    }

    fn take_in(
        &mut self,
        from: usize,
        message: StreamMessage,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
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
                if present { self.deliver(batch, out) } else { self.forward(batch, at, out) }
            }
            StreamMessage::Token(token) => self.on_token(from, token, out),
            StreamMessage::AskForRoom(ask) => self.on_ask_for_room(from, ask, out),
            StreamMessage::Grant(grant) => self.on_grant(&grant, out),
            StreamMessage::GiveBack(back) => self.on_give_back(&back, out),
            // Messages about offers, requests, assignments and waiting batches of an earlier mapping are obsolete: the ranks send new ones after the
            // switch.
            _ if !present => Ok(()),
            StreamMessage::Request { edge, batches, held, service_time, deviation, .. } => {
                let most = self.table.receivers(self.known(edge as usize)?).len() * self.ahead;
                let (batches, held) = ((batches as usize).min(most), held as usize);
                let item_time = ItemTime { mean: service_time, deviation };
                self.dispatcher(edge as usize)?.request(from, batches, held, item_time);
                self.decide(edge as usize, at, out)
            }
            StreamMessage::Offer { edge, number, items, behind, .. } => {
                self.dispatcher(edge as usize)?.offer(number, Offered { sender: from, items, behind });
                self.decide(edge as usize, at, out)
            }
            StreamMessage::OutOfOrder { edge, batches, bytes, .. } => {
                let edge = self.known(edge as usize)?;
                self.note_out_of_order(edge, batches as usize, bytes)
            }
            StreamMessage::Assign { edge, number, receiver, .. } => {
                self.give(self.known(edge as usize)?, number, receiver as usize, at, out)
            }
        }
    }

    /// Handles the result of a job.
    pub(crate) fn on_done(&mut self, done: Done, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        match done {
            Done::Drawn { batch, ended, left } => {
                if let Some(source) = &mut self.source {
                    source.drawn(batch.as_ref().map(|p| p.range.count), ended, left);
                }
                batch.map_or(Ok(()), |batch| self.send_on(batch, at, out))
            }
            Done::Processed { batch, took } => {
                self.busy += took;
                for edge in 0..self.inputs.len() {
                    if self.inputs[edge].as_mut().is_some_and(|input| input.service_time.job_ended(self.busy))
                    {
                        self.ask(edge, at, out)?;
                    }
                }
                let made_by = batch.stage.checked_sub(1);
                if let Some(stage) = made_by.filter(|&stage| self.expansions.is_expanding(stage)) {
                    self.on_piece(stage, &batch, out)?;
                }
                self.send_on(batch, at, out)
            }
            Done::Consumed(batch) => {
                if let Some(source) = &mut self.source {
                    source.consumed(&batch, at.now());
                }
                self.grant(out)
            }
            Done::Released { stage, state } => self.released(stage, state, out),
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
    pub(crate) fn next_job(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<Option<Job>> {
        if let Some(job) = self.jobs.pop_front() {
            return Ok(Some(job));
        }
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
                && let Some((stages, batch)) = self.take(edge, at, out)?
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
                && let Some((stages, batch)) = self.take(block, at, out)?
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

    /// Enqueues a job of the rank's protocol.
    pub(crate) fn request(&mut self, job: Job) {
        self.unanswered += usize::from(!matches!(job, Job::Measure { .. }));
        self.jobs.push_back(job);
    }

    /// Registers the result of a job of the rank's protocol.
    pub(crate) fn answered(&mut self) {
        self.unanswered -= 1;
    }

    /// Returns true if the result of a job of the rank's protocol is pending.
    pub(crate) fn is_asked(&self) -> bool {
        self.unanswered > 0
    }

    /// Returns true if a job of the rank's protocol is queued.
    pub(crate) fn has_request(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Removes the oldest batch from the input queue of an edge, if its turn has come, and requests another one. Returns the batch and the stages
    /// that it passes in one job.
    fn take(
        &mut self,
        edge: usize,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<Option<(Range<usize>, Batch)>> {
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
        self.ask(edge, at, out)?;
        self.report_out_of_order(edge, out)?;
        Ok(Some((stages, batch)))
    }

    /// Returns the stages that a batch received over `edge` passes in one job on this rank.
    fn stages_of(&self, batch: &Batch, edge: usize) -> Range<usize> {
        let end = self.table.blocks().get(edge).map_or(self.table.stage_count() + 1, |b| b.stages.end);
        self.expansions.in_one_job(batch.stage..end, |stage| self.table.is_serial(stage))
    }

    /// Adds a batch to the input queue of this rank.
    pub(super) fn deliver(&mut self, batch: Batch, out: &mut Outgoing<'_>) -> Result<()> {
        let (number, stage) = (batch.number.clone(), batch.stage);
        let wrong = |what: &str| {
            Err(Error::new(ErrorKind::Wire, format!("batch {number} for stage {stage} came {what}")))
        };
        if stage > self.table.stage_count() {
            return wrong("although there is no such stage");
        }
        let edge = self.table.edge_of(stage);
        if batch.pieces.len() != self.expansions.levels(stage) {
            return wrong("with a number that it cannot have there");
        }
        let over = self.resequencer.is_over(self.stages_of(&batch, edge), &number);
        match &mut self.inputs[edge] {
            None => wrong("to a rank that does not take it"),
            Some(input) => {
                if !over && input.put(batch) {
                    self.report_out_of_order(edge, out)
                } else {
                    wrong("twice")
                }
            }
        }
    }

    /// Sends a batch to the receiver of its next stage, or offers it to the dispatcher of the edge.
    pub(super) fn send_on(&mut self, batch: Batch, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let edge = self.table.edge_of(batch.stage);
        match self.table.route(edge) {
            Route::Push(to) => self.hand(batch, to, at, out),
            Route::RoundRobin => {
                let receivers = self.table.receivers(edge);
                let to = receivers[batch.number.turn(receivers.len())];
                self.hand(batch, to, at, out)
            }
            Route::Pull { dispatcher } => {
                let number = batch.number.clone();
                let (behind, items) = (batch.items_behind(), batch.range.live() as u32);
                self.output_buffers[edge].insert(number.clone(), batch);
                if dispatcher == self.me {
                    let me = self.me;
                    self.dispatcher(edge)?.offer(number, Offered { sender: me, items, behind });
                    return self.decide(edge, at, out);
                }
                let (epoch, edge) = (self.epoch(), edge as u32);
                out.send(dispatcher, StreamMessage::Offer { epoch, edge, number, items, behind })
            }
        }
    }

    /// Sends a batch to rank `to`, which may be this rank.
    fn hand(&mut self, mut batch: Batch, to: usize, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if to == self.me {
            batch.weigh();
            return self.deliver(batch, out);
        }
        let (epoch, stage) = (self.epoch(), batch.stage);
        let (items, live) = (batch.sources(), batch.range.live());
        // An encoding error is attributed to the stage that made the items.
        let made_by = stage.checked_sub(1).and_then(|s| self.names.get(s)).map_or("source", String::as_str);
        let sent = || (self.stamps && at.looks_after_messages).then(|| at.now());
        let packed = batch.pack((out.run(), epoch), &*self.codecs[stage], sent);
        let frame = packed.map_err(|e| e.in_stage(made_by))?;
        let bytes = frame.len() as u64;
        self.traffic.sent_batches += 1;
        self.traffic.sent_bytes += bytes;
        self.volumes[stage].0 += bytes;
        self.volumes[stage].1 += live as u64;
        if let Some(source) = &mut self.source {
            source.window.sent(items, bytes);
        }
        out.send(to, frame)
    }

    /// Handles an assignment: sends batch `number` of this rank to `receiver`.
    pub(super) fn give(
        &mut self,
        edge: usize,
        number: SequenceNumber,
        receiver: usize,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        if !self.table.receivers(edge).contains(&receiver) {
            let text = format!("assigns batch {number} to rank {receiver}, which does not take edge {edge}");
            return Err(Error::new(ErrorKind::Wire, text));
        }
        match self.output_buffers[edge].remove(&number) {
            Some(batch) => self.hand(batch, receiver, at, out),
            None => {
                Err(Error::new(ErrorKind::Wire, format!("assigns batch {number} of edge {edge}, not here")))
            }
        }
    }

    /// Matches offers and requests as long as there are both.
    pub(super) fn decide(&mut self, edge: usize, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        while let Some(a) = self.dispatcher(edge)?.decide() {
            if a.sender == self.me {
                self.give(edge, a.number, a.receiver, at, out)?;
            } else {
                let (epoch, edge, receiver) = (self.epoch(), edge as u32, a.receiver as u32);
                out.send(a.sender, StreamMessage::Assign { epoch, edge, number: a.number, receiver })?;
            }
        }
        Ok(())
    }

    /// Requests as many batches as there is room for, if receivers of the edge request batches.
    pub(super) fn ask(&mut self, edge: usize, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let Route::Pull { dispatcher } = self.table.route(edge) else { return Ok(()) };
        let Some(input) = &mut self.inputs[edge] else { return Ok(()) };
        let have = input.asked + input.queued().0;
        // A batch that waits behind a long one could be processed on another rank meanwhile.
        let ahead = match &input.service_time {
            service_time if service_time.is_at_first() => 0,
            service_time if service_time.is_brisk() => self.ahead,
            _ => usize::max(self.ahead - 1, 1),
        };
        let want = ahead.saturating_sub(have);
        if want == 0 {
            return Ok(());
        }
        input.asked += want;
        let service_time =
            ItemTime { mean: input.service_time.nanos(), deviation: input.service_time.deviation() };
        if dispatcher == self.me {
            let me = self.me;
            self.dispatcher(edge)?.request(me, want, have, service_time);
            return self.decide(edge, at, out);
        }
        let (batches, held) = (want as u32, have as u32);
        let ItemTime { mean: service_time, deviation } = service_time;
        let (epoch, edge) = (self.epoch(), edge as u32);
        out.send(dispatcher, StreamMessage::Request { epoch, edge, batches, held, service_time, deviation })
    }

    /// Reports to rank 0 how many batches wait for an older one at this edge, if the number has changed enough.
    pub(super) fn report_out_of_order(&mut self, edge: usize, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(input) = &self.inputs[edge] else { return Ok(()) };
        let is_out_of_order =
            |first: &Batch| !self.resequencer.admit(self.stages_of(first, edge), &first.number);
        let (count, bytes) = if input.first().is_some_and(is_out_of_order) {
            (input.queued().0, input.bytes())
        } else {
            (0, 0)
        };
        // A change by a few batches is not worth a message, but a change to zero is.
        let step = if self.me == 0 { 1 } else { self.table.host_count() };
        let reported = input.out_of_order_reported;
        if count.abs_diff(reported) < step && (count > 0 || reported == 0) {
            return Ok(());
        }
        self.inputs[edge].iter_mut().for_each(|input| input.out_of_order_reported = count);
        if self.me == 0 {
            return self.note_out_of_order(edge, count, bytes);
        }
        let (epoch, edge, batches) = (self.epoch(), edge as u32, count as u32);
        out.send(0, StreamMessage::OutOfOrder { epoch, edge, batches, bytes })
    }

    /// Registers that `batches` batches with a total size of `bytes` bytes wait for an older one at `edge`. They keep no rank busy, so more may be
    /// drawn.
    pub(super) fn note_out_of_order(&mut self, edge: usize, batches: usize, bytes: u64) -> Result<()> {
        let Some(source) = &mut self.source else {
            return Err(Error::new(ErrorKind::Wire, "reports waiting batches to a rank that draws none"));
        };
        source.window.out_of_order(edge, batches, bytes);
        Ok(())
    }

    /// Removes and returns the events since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
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
