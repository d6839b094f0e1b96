//! One rank's part of the pipeline protocol as a state machine: its inputs are messages and results of calls of user code (jobs), its outputs are
//! jobs and messages.
//!
//! The state machine has no clock, no thread and no transport: each event comes with the current time and with a queue for outgoing messages. It
//! therefore works with user code on the communicating thread or on a compute thread, and on every transport. `README.md` in this directory describes
//! its states and invariants.

pub(crate) mod batch;
mod dispatcher;
mod edges;
mod expansions;
mod in_flight;
mod input_queue;
mod job;
mod mapping_runs;
mod migration;
mod resequencer;
pub(crate) mod sequence_number;
mod service_time;
mod source;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod window;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use self::batch::{Batch, SavedStage};
use self::dispatcher::{ItemTime, Offered};
use self::edges::Edges;
use self::expansions::{Expansions, WindowMessage};
use self::input_queue::InputQueue;
pub(crate) use self::job::{Committed, Consumed, Done, Idle, Job, Position, SetUp, Traffic};
use self::migration::Migration;
use self::resequencer::Resequencer;
use self::sequence_number::SequenceNumber;
pub(crate) use self::source::Source;
use self::table::{Route, Table};
use self::window::WindowPlan;
use super::erased::Codec;
use super::fill::Fill;
use super::messages::{Arrived, Grant, Ready, StageToken, StreamMessage};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::Event;
use crate::rank::protocol::{Moment, Outgoing};

/// State machine of one rank in one run of a pipeline.
pub(crate) struct Machine {
    me: usize,
    table: Table,
    codecs: Vec<Arc<dyn Codec>>,
    names: Vec<String>,
    ahead: usize,
    edges: Edges,
    resequencer: Resequencer,
    migration: Migration,
    expansions: Expansions,
    /// Messages of ranks that have already switched to a later mapping; they are processed when this rank switches.
    of_later_mapping: Vec<(usize, StreamMessage)>,
    /// Jobs (calls of user code) that serve no batch, such as the set-up of stages. They run before all jobs that process batches.
    jobs: VecDeque<Job>,
    /// Number of queued or started jobs (calls of user code) that serve no batch and whose result is pending.
    unanswered: usize,
    /// Mapping of stages to ranks to which this rank switches next, while the rank creates its stages for that mapping.
    prepared: Option<Table>,
    source: Option<Source>,
    events: Vec<Event>,
    traffic: Traffic,
    /// True if batches carry the time of sending, so that receivers can measure the links between ranks.
    carries_send_times: bool,
    /// For each edge between consecutive stages: bytes and items that this rank has sent.
    volumes: Vec<(u64, u64)>,
    busy: Duration,
}

impl Machine {
    /// Creates the state machine of rank `me`, which has no mapping yet. `expanding` is true for stages that produce several items from one, and
    /// `fill` limits the items and the time of the first part of such a stage's output for a batch. Ranks request `ahead` batches in advance.
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
            edges: Edges::new(codecs.len() - 1),
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
            carries_send_times: false,
            volumes: vec![(0, 0); codecs.len()],
            busy: Duration::ZERO,
            codecs,
        }
    }

    /// Makes this the state machine of rank 0, which reads the source. If `wants_end` is true, a batch without items follows all others; serial
    /// stages emit their last item when it reaches them.
    pub(crate) fn with_source(mut self, plan: WindowPlan, wants_end: bool, now: Duration) -> Self {
        let levels = self.expansions.levels(self.codecs.len() - 1);
        self.source = Some(Source::new(plan, levels, wants_end, now));
        self
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.table.epoch
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.epoch() > 0 && !self.table.hosts(self.me)
    }

    /// Handles a message of another rank. A message that belongs to a later mapping waits until this rank has switched to that mapping.
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
            StreamMessage::StageToken(token) => self.on_token(from, token, out),
            StreamMessage::WindowRequest(request) => {
                self.on_window_message(from, WindowMessage::Request(request), out)
            }
            StreamMessage::Grant(grant) => self.on_grant(&grant, out),
            StreamMessage::WindowReturn(back) => {
                self.on_window_message(from, WindowMessage::Return(back), out)
            }
            // Offers, requests and assignments of batches that refer to an earlier mapping are dropped: after the switch to a new mapping, the ranks
            // send them again.
            _ if !present => Ok(()),
            StreamMessage::Request { edge, batches, held, service_time, deviation, .. } => {
                let most = self.table.receivers(self.edges.known(edge)?).len() * self.ahead;
                let (batches, held) = ((batches as usize).min(most), held as usize);
                let item_time = ItemTime { mean: service_time, deviation };
                self.edges.dispatcher(edge as usize)?.request(from, batches, held, item_time);
                self.decide(edge as usize, at, out)
            }
            StreamMessage::Offer { edge, number, items, behind, .. } => {
                self.edges.dispatcher(edge as usize)?.offer(number, Offered { sender: from, items, behind });
                self.decide(edge as usize, at, out)
            }
            StreamMessage::OutOfOrder { edge, batches, bytes, .. } => {
                self.set_out_of_order(edge, batches as usize, bytes)
            }
            StreamMessage::Assign { edge, number, receiver, .. } => {
                self.send_assigned(self.edges.known(edge)?, number, receiver as usize, at, out)
            }
        }
    }

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
                for edge in 0..self.edges.len() {
                    let input = self.edges.input_mut(edge);
                    if input.is_some_and(|input| input.service_time.job_ended(self.busy)) {
                        self.request_batches(edge, at, out)?;
                    }
                }
                let produced_by = batch.stage.checked_sub(1);
                if let Some(stage) = produced_by.filter(|&stage| self.expansions.is_expanding(stage)) {
                    let message = self.expansions.produced(stage, &batch, self.epoch())?;
                    if batch.ended() > 0 {
                        // The serial stage has made all of its output for the batch, so this rank can give the stage up if the current mapping
                        // assigns it to another rank.
                        self.leave();
                    }
                    self.send_window_message(message, out)?;
                }
                self.send_on(batch, at, out)
            }
            Done::Consumed(batch) | Done::Committed(batch, _) => {
                if let Some(source) = &mut self.source {
                    source.consumed(&batch, at.now());
                }
                self.grant(out)
            }
            Done::Released { stage, state } => {
                let next = self.migration.saved(stage)?;
                self.pass_on(StageToken { epoch: self.epoch(), stage: stage as u32, next, state }, out)
            }
            Done::Restored { stage } => {
                if let Some(next) = self.migration.restored(stage) {
                    self.resequencer.receive(stage, next);
                    // While this rank restored the stage, the mapping may have changed and may assign the stage to another rank.
                    self.leave();
                }
                Ok(())
            }
            // The caller handles the results of set-up, of the speed measurement and of the sink's `finish`.
            Done::SetUp(_) | Done::Probed(_) | Done::SinkFinished => Ok(()),
        }
    }

    /// Returns the most useful next job (call of user code). Work that only this rank can do comes first, because other ranks wait for it. The order
    /// is: migration of serial stages; the sink; groups of stages that only this rank runs, the last group first; further parts of the output of
    /// stages that make several items from one; new items, if another batch may be in flight; replicated groups of stages, the last group first. A
    /// group that only this rank runs must wait if a far older batch of a replicated group waits on this rank, because all ranks wait for the older
    /// batch.
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
            let first = self.edges.input(edge).and_then(number);
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
        if let Some(batch) = self.expansions.next_batch() {
            let (stage, fill) = (batch.stage, self.expansions.fill);
            return Ok(Some(Job::Process { stages: stage..stage + 1, batch, fill }));
        }
        if let Some(job) = self.source.as_mut().and_then(Source::next_draw) {
            return Ok(Some(job));
        }
        for block in (0..last).rev() {
            // Only replicated groups of stages are considered here; the others were considered above.
            if self.table.receivers(block).len() > 1
                && let Some((stages, batch)) = self.take(block, at, out)?
            {
                return Ok(Some(Job::Process { stages, batch, fill: self.expansions.fill }));
            }
        }
        Ok(None)
    }

    /// Returns the number of the last source batch that unreplicated groups of stages may process while batches of replicated groups wait on this
    /// rank: the oldest waiting batch plus the minimum number of batches in flight. `None` if no batch of a replicated group waits.
    fn overdue(&self) -> Option<u64> {
        let replicated = (0..self.table.last_edge()).filter(|&edge| self.table.receivers(edge).len() > 1);
        let oldest = replicated.filter_map(|edge| self.edges.input(edge)?.first());
        let oldest = oldest.map(|batch| batch.number.batch);
        oldest.min().map(|number| number + window::floor(self.table.host_count(), self.ahead) as u64)
    }

    pub(crate) fn request(&mut self, job: Job) {
        self.unanswered += usize::from(job.is_answered());
        self.jobs.push_back(job);
    }

    pub(crate) fn answered(&mut self) {
        self.unanswered -= 1;
    }

    /// Returns true if the result of a job that serves no batch is pending.
    pub(crate) fn awaits_result(&self) -> bool {
        self.unanswered > 0
    }

    pub(crate) fn has_request(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Removes the oldest batch that waits for a group of stages (or the sink) on this rank, if it may be processed now, and requests another batch.
    /// Returns the batch and the stages that one call of user code applies to it.
    fn take(
        &mut self,
        edge: usize,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<Option<(Range<usize>, Batch)>> {
        let Some(first) = self.edges.input(edge).and_then(InputQueue::first) else { return Ok(None) };
        let stages = self.stages_of(first, edge);
        let is_busy = stages.clone().any(|stage| self.expansions.is_busy(stage));
        if is_busy || !self.resequencer.admit(stages.clone(), &first.number) {
            return Ok(None);
        }
        let Some(input) = self.edges.input_mut(edge) else { return Ok(None) };
        let Some(batch) = input.take() else { return Ok(None) };
        input.service_time.begins(batch.range.live() as u32, self.busy);
        self.resequencer.pass(stages.clone(), &batch);
        self.expansions.begin(stages.clone(), |stage| self.table.is_serial(stage));
        self.request_batches(edge, at, out)?;
        self.report_out_of_order(edge, out)?;
        Ok(Some((stages, batch)))
    }

    /// Returns the stages that one call of user code applies to a waiting batch of `edge` (connection to a group of stages).
    fn stages_of(&self, batch: &Batch, edge: usize) -> Range<usize> {
        let end = self.table.blocks().get(edge).map_or(self.table.stage_count() + 1, |b| b.stages.end);
        self.expansions.in_one_job(batch.stage..end, |stage| self.table.is_serial(stage))
    }

    fn deliver(&mut self, batch: Batch, out: &mut Outgoing<'_>) -> Result<()> {
        let (number, stage) = (batch.number.clone(), batch.stage);
        let wrong =
            |what: &str| Err(Error::new(ErrorKind::Wire, format!("batch {number} for stage {stage} {what}")));
        if stage > self.table.stage_count() {
            return wrong("arrived, but there is no such stage");
        }
        let edge = self.table.edge_of(stage);
        if batch.pieces.len() != self.expansions.levels(stage) {
            return wrong("has a sequence number of another level of pieces");
        }
        let over = self.resequencer.was_processed(self.stages_of(&batch, edge), &number);
        match self.edges.input_mut(edge) {
            None => wrong("arrived at a rank that does not host the stage"),
            Some(input) => {
                if !over && input.store(batch) {
                    self.report_out_of_order(edge, out)
                } else {
                    wrong("arrived twice")
                }
            }
        }
    }

    /// Sends a batch to the rank that runs its next stage. If several ranks run it, the batch is offered to the dispatcher, which selects one of
    /// them.
    fn send_on(&mut self, batch: Batch, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
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
                self.edges.store_output(edge, batch);
                if dispatcher == self.me {
                    let offered = Offered { sender: self.me, items, behind };
                    self.edges.dispatcher(edge)?.offer(number, offered);
                    return self.decide(edge, at, out);
                }
                let (epoch, edge) = (self.epoch(), edge as u32);
                out.send(dispatcher, StreamMessage::Offer { epoch, edge, number, items, behind })
            }
        }
    }

    fn hand(&mut self, mut batch: Batch, to: usize, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if to == self.me {
            batch.measure_size();
            return self.deliver(batch, out);
        }
        let (epoch, stage) = (self.epoch(), batch.stage);
        let (items, live) = (batch.sources(), batch.range.live());
        // An encoding error must name the stage that made the items.
        let produced_by =
            stage.checked_sub(1).and_then(|s| self.names.get(s)).map_or("source", String::as_str);
        let sent = || (self.carries_send_times && at.messages_progress).then(|| at.now());
        let packed = batch.pack((out.run(), epoch), &*self.codecs[stage], sent);
        let frame = packed.map_err(|e| e.in_stage(produced_by))?;
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

    fn send_assigned(
        &mut self,
        edge: usize,
        number: SequenceNumber,
        receiver: usize,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        if !self.table.receivers(edge).contains(&receiver) {
            let text =
                format!("assigns batch {number} to rank {receiver}, which does not receive over edge {edge}");
            return Err(Error::new(ErrorKind::Wire, text));
        }
        let batch = self.edges.take_output(edge, &number)?;
        self.hand(batch, receiver, at, out)
    }

    /// Assigns the batches that wait for a receiver on an edge (connection to a group of stages) to ranks that have requested batches, until none is
    /// left, or until no rank that has requested one would finish it early enough.
    fn decide(&mut self, edge: usize, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        while let Some(a) = self.edges.dispatcher(edge)?.decide() {
            if a.sender == self.me {
                self.send_assigned(edge, a.number, a.receiver, at, out)?;
            } else {
                let epoch = self.epoch();
                let assign = StreamMessage::Assign {
                    epoch,
                    edge: edge as u32,
                    number: a.number,
                    receiver: a.receiver as u32,
                };
                out.send(a.sender, assign)?;
            }
        }
        Ok(())
    }

    /// Requests batches over an edge (connection to a group of stages), if its batches are dispatched on demand, until the rank holds or has
    /// requested as many as it may in advance.
    fn request_batches(&mut self, edge: usize, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let Route::Pull { dispatcher } = self.table.route(edge) else { return Ok(()) };
        let requested = self.edges.input_mut(edge).and_then(|input| input.request(self.ahead));
        let Some((batches, held, item_time)) = requested else { return Ok(()) };
        if dispatcher == self.me {
            self.edges.dispatcher(edge)?.request(self.me, batches, held, item_time);
            return self.decide(edge, at, out);
        }
        let (batches, held) = (batches as u32, held as u32);
        let ItemTime { mean: service_time, deviation } = item_time;
        let (epoch, edge) = (self.epoch(), edge as u32);
        out.send(dispatcher, StreamMessage::Request { epoch, edge, batches, held, service_time, deviation })
    }

    /// Reports to rank 0 how many batches wait on this rank for an older batch, if this number has changed enough. `edge` is the connection to a
    /// group of stages over which these batches arrive.
    fn report_out_of_order(&mut self, edge: usize, out: &mut Outgoing<'_>) -> Result<()> {
        let is_next = |first: &Batch| self.resequencer.admit(self.stages_of(first, edge), &first.number);
        let is_next = self.edges.input(edge).and_then(InputQueue::first).is_none_or(is_next);
        let step = if self.me == 0 { 1 } else { self.table.host_count() };
        let changed = self.edges.input_mut(edge).and_then(|input| input.out_of_order(is_next, step));
        let Some((count, bytes)) = changed else { return Ok(()) };
        let (epoch, edge) = (self.epoch(), edge as u32);
        if self.me == 0 {
            return self.set_out_of_order(edge, count, bytes);
        }
        out.send(0, StreamMessage::OutOfOrder { epoch, edge, batches: count as u32, bytes })
    }

    /// Records on rank 0 that batches wait for an older one on some rank. They keep no rank busy, so more batches may be in flight.
    fn set_out_of_order(&mut self, edge: u32, batches: usize, bytes: u64) -> Result<()> {
        let edge = self.edges.known(edge)?;
        self.source_for("reports out-of-order batches to")?.window.out_of_order(edge, batches, bytes);
        Ok(())
    }

    /// Returns the source of the stream. On a rank other than 0, returns a protocol error whose text begins with `what`.
    fn source_for(&mut self, what: &str) -> Result<&mut Source> {
        let me = self.me;
        let wrong = || Error::new(ErrorKind::Wire, format!("{what} rank {me}, which has no source"));
        self.source.as_mut().ok_or_else(wrong)
    }

    /// Sends rank 0, which may be this rank, a request for permission to make further parts of a stage's output, or returns unused permission.
    fn send_window_message(&mut self, message: Option<WindowMessage>, out: &mut Outgoing<'_>) -> Result<()> {
        match message {
            Some(message) if self.me == 0 => self.on_window_message(0, message, out),
            Some(WindowMessage::Request(request)) => out.send(0, StreamMessage::WindowRequest(request)),
            Some(WindowMessage::Return(back)) => out.send(0, StreamMessage::WindowReturn(back)),
            None => Ok(()),
        }
    }

    /// Handles, on rank 0, a rank's request for permission to make further parts of a stage's output, or its return of unused permission.
    fn on_window_message(
        &mut self,
        from: usize,
        message: WindowMessage,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        self.source_for("requests or returns room at")?.on_window_message(from, message)?;
        self.grant(out)
    }

    /// Permits ranks to make further parts of a stage's output, oldest batch first, within the limit of the batches in flight. The part for which the
    /// sink waits is always permitted.
    fn grant(&mut self, out: &mut Outgoing<'_>) -> Result<()> {
        let sink = self.table.stage_count();
        loop {
            let Some(source) = &mut self.source else { return Ok(()) };
            let awaited = self.resequencer.awaited(sink..sink + 1);
            let Some((to, whole, pieces)) = source.next_grant(awaited) else { return Ok(()) };
            let items = source.window.piece_items() as u32;
            let grant = Grant { epoch: self.epoch(), whole, pieces, items };
            if to == self.me {
                self.on_grant(&grant, out)?
            } else {
                out.send(to, StreamMessage::Grant(grant))?
            }
        }
    }

    fn on_grant(&mut self, grant: &Grant, out: &mut Outgoing<'_>) -> Result<()> {
        let unused = self.expansions.granted(grant, self.epoch());
        self.send_window_message(unused, out)
    }

    /// Starts to create the stages that `table` assigns to this rank, while the stream continues. Between any two stages, the encoded sizes of the
    /// next `measured_batches` batches are measured. If `carries_send_times` is true, batches carry the time of sending from now on. `saved` holds
    /// stage states from a snapshot of an earlier job; this rank restores those of the serial stages that it runs.
    pub(crate) fn prepare(
        &mut self,
        table: Table,
        measured_batches: usize,
        carries_send_times: bool,
        saved: Vec<SavedStage>,
    ) {
        if measured_batches > 0 {
            self.request(Job::Measure { batches: measured_batches });
        }
        self.request(Job::SetUp { hosted: table.hosted(self.me) });
        for SavedStage { stage, state } in saved {
            let stage = stage as usize;
            if table.is_serial(stage) && table.owner(stage) == self.me {
                self.request(Job::Restore { stage, state });
            }
        }
        self.carries_send_times = carries_send_times;
        self.prepared = Some(table);
    }

    /// Records that this rank's stages for the next mapping have been created. Returns the message that reports this to rank 0.
    pub(crate) fn ready(&mut self, SetUp { movable, warm_up }: SetUp) -> Ready {
        self.answered();
        Ready { epoch: self.prepared.as_ref().map_or(0, |table| table.epoch), movable, warm_up }
    }

    /// Switches to the prepared mapping, whose number must be `epoch`. Waiting batches are sent to the ranks to which the new mapping assigns them.
    /// Batches that the rank is processing follow the new mapping afterwards. Serial stages migrate if the new mapping assigns them to another rank.
    pub(crate) fn switch(&mut self, epoch: u32, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(table) = self.prepared.take().filter(|table| table.epoch == epoch) else {
            let text = format!("cannot switch to mapping {epoch}, which it has not prepared");
            return Err(Error::new(ErrorKind::Wire, text));
        };
        if table.epoch != self.epoch() + 1 {
            let text = format!("mapping {} cannot follow mapping {}", table.epoch, self.epoch());
            return Err(Error::new(ErrorKind::Wire, text));
        }
        if table.epoch == 1 {
            let first = self.expansions.first_numbers(table.stage_count());
            self.resequencer = Resequencer::new(&table, self.me, first);
        } else if self.migration.len() > 0 {
            self.traffic.overtaken += 1;
        }
        if let Some(source) = &mut self.source {
            source.window.forget_out_of_order();
        }
        let waiting = self.edges.switch(&self.table, &table, self.me);
        self.table = table;
        self.leave();
        for batch in waiting {
            self.forward(batch, at, out)?;
        }
        (0..self.edges.len()).try_for_each(|edge| self.request_batches(edge, at, out))?;
        for (from, message) in std::mem::take(&mut self.of_later_mapping) {
            self.on_message(from, message, at, out)?;
        }
        // The new mapping may permit more batches in flight, so more requests for parts of a stage's output may be granted.
        self.grant(out)
    }

    /// Sends a batch that reached this rank, or was processed on it, under an earlier mapping to its receiver under the current mapping.
    fn forward(&mut self, batch: Batch, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if batch.stage > self.table.stage_count() {
            let text = format!("batch {} is for stage {}, which does not exist", batch.number, batch.stage);
            return Err(Error::new(ErrorKind::Wire, text));
        }
        let edge = self.table.edge_of(batch.stage);
        if !self.table.receivers(edge).contains(&self.me) {
            self.traffic.forwarded += 1;
            let epoch = self.epoch();
            match self.events.last_mut() {
                Some(Event::Forwarded { epoch: last, batches }) if *last == epoch => *batches += 1,
                _ => self.events.push(Event::Forwarded { epoch, batches: 1 }),
            }
        }
        self.send_on(batch, at, out)
    }

    /// Gives up the serial stages that the current mapping assigns to other ranks. Their last batches on this rank have already been started; the
    /// state of each stage is saved after its last batch.
    ///
    /// A stage that makes several items from one, and has not made all output for a batch, stays on this rank until it has.
    fn leave(&mut self) {
        for stage in self.resequencer.to_leave(&self.table, self.me) {
            if !self.expansions.is_busy(stage)
                && let Some(next) = self.resequencer.skip_missing(stage)
            {
                self.migration.leave(stage, next);
            }
        }
    }

    /// Sends the saved state of a serial stage to the rank that runs the stage under the current mapping; the mapping may have changed while the
    /// state was saved.
    fn pass_on(&mut self, token: StageToken, out: &mut Outgoing<'_>) -> Result<()> {
        let stage = token.stage as usize;
        let owner = self.table.owner(stage);
        if owner != self.me {
            self.traffic.handed_over += 1;
            let (next_batch, bytes) = (token.next.batch, token.state.len() as u64);
            let stage = self.names.get(stage).cloned().unwrap_or_default();
            self.events.push(Event::HandOver { stage, to: owner, next_batch, bytes });
            return out.send(owner, StreamMessage::StageToken(token));
        }
        self.migration.receive(token);
        Ok(())
    }

    /// Handles the arrival of a serial stage's saved state. If the mapping has changed meanwhile, the state is forwarded to the rank that runs the
    /// stage now.
    fn on_token(&mut self, from: usize, token: StageToken, out: &mut Outgoing<'_>) -> Result<()> {
        let stage = token.stage as usize;
        let is_held = self.resequencer.owns(stage) || self.migration.holds(stage);
        if is_held || !self.resequencer.is_serial(stage) {
            let text = format!("rank {from} migrated stage {stage}, which it does not host");
            return Err(Error::new(ErrorKind::Wire, text));
        }
        let name = self.names.get(stage).cloned().unwrap_or_default();
        self.events.push(Event::TakeOver { stage: name, from, next_batch: token.next.batch });
        self.pass_on(StageToken { epoch: self.epoch(), ..token }, out)
    }
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    pub(crate) fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    pub(crate) fn source_mut(&mut self) -> Option<&mut Source> {
        self.source.as_mut()
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    pub(crate) fn volumes(&self) -> &[(u64, u64)] {
        &self.volumes
    }

    pub(crate) fn longest_queues(&mut self) -> &[usize] {
        self.edges.longest_queues(&self.table)
    }

    pub(crate) fn idle_reason(&self) -> Idle {
        let closed = self.source.as_ref().is_some_and(Source::awaits_results);
        if self.edges.has_output() || closed { Idle::Downstream } else { Idle::Input }
    }

    /// Describes the batches that this rank has and what it waits for, for the error message about a run that has stopped.
    pub(crate) fn describe(&self) -> String {
        let mut parts =
            self.edges.describe(|edge| self.edge_name(edge), |edge, first| self.obstacle(edge, first));
        let mut count = |count: usize, what: &str| {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        };
        count(self.expansions.open(), "batch(es) that are only partly expanded");
        count(self.migration.len(), "serial stage(s) in migration");
        count(self.of_later_mapping.len(), "message(s) kept for the next mapping");
        parts.extend(self.source.as_ref().map(Source::describe));
        parts.join("; ")
    }

    /// Returns the reason why the first waiting batch of an edge (connection to a group of stages) cannot be processed; empty if it can.
    fn obstacle(&self, edge: usize, first: &Batch) -> String {
        let stages = self.stages_of(first, edge);
        if stages.clone().any(|stage| self.expansions.is_busy(stage)) {
            ", blocked because a serial stage still expands the previous batch".to_string()
        } else if self.resequencer.admit(stages.clone(), &first.number) {
            String::new()
        } else if let Some(gap) = self.resequencer.awaited(stages) {
            format!(", waiting for batch {gap}")
        } else {
            ", waiting for a serial stage to migrate".to_string()
        }
    }

    fn edge_name(&self, edge: usize) -> String {
        if edge == self.table.last_edge() {
            return "the sink".to_string();
        }
        let stages = self.table.stages(edge);
        match self.names.get(stages.clone()) {
            Some(names) => names.join("+"),
            None => format!("stages {}..{}", stages.start, stages.end),
        }
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}, epoch {}: {}", self.me, self.epoch(), self.describe())
    }
}
