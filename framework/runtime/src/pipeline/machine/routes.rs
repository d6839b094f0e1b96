//! Routing of batches to their receivers under the current mapping.

use super::batch::Batch;
use super::dispatcher::{ItemTime, Offered};
use super::sequence_number::SequenceNumber;
use super::table::Route;
use super::{Machine, Outgoing};
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::messages::{Assign, Content, Offer, OutOfOrder, Request, encode};

impl Machine {
    /// Adds a batch to the input queue of this rank.
    pub(super) fn deliver(&mut self, batch: Batch) -> Result<()> {
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
                    self.report_out_of_order(edge)
                } else {
                    wrong("twice")
                }
            }
        }
    }

    /// Sends a batch to the receiver of its next stage, or offers it to the dispatcher of the edge.
    pub(super) fn send_on(&mut self, batch: Batch) -> Result<()> {
        let edge = self.table.edge_of(batch.stage);
        match self.table.route(edge) {
            Route::Push(to) => self.hand(batch, to),
            Route::RoundRobin => {
                let receivers = self.table.receivers(edge);
                let to = receivers[batch.number.turn(receivers.len())];
                self.hand(batch, to)
            }
            Route::Pull { dispatcher } => {
                let number = batch.number.clone();
                let (behind, items) = (batch.items_behind(), batch.range.live() as u32);
                self.output_buffers[edge].insert(number.clone(), batch);
                if dispatcher == self.me {
                    let me = self.me;
                    self.dispatcher(edge)?.offer(number, Offered { sender: me, items, behind });
                    return self.decide(edge);
                }
                let offer = Offer { epoch: self.epoch(), edge: edge as u32, number, items, behind };
                self.post(dispatcher, &offer)
            }
        }
    }

    /// Sends a batch to rank `to`, which may be this rank.
    fn hand(&mut self, mut batch: Batch, to: usize) -> Result<()> {
        if to == self.me {
            batch.weigh();
            return self.deliver(batch);
        }
        let (epoch, stage) = (self.epoch(), batch.stage);
        let (items, live) = (batch.sources(), batch.range.live());
        // An encoding error is attributed to the stage that made the items.
        let made_by = stage.checked_sub(1).and_then(|s| self.names.get(s)).map_or("source", String::as_str);
        let packed = batch.pack(self.run, epoch, &*self.codecs[stage]);
        let (head, parts, bytes) = packed.map_err(|e| e.in_stage(made_by))?;
        self.traffic.sent_batches += 1;
        self.traffic.sent_bytes += bytes;
        self.volumes[stage].0 += bytes;
        self.volumes[stage].1 += live as u64;
        if let Some(source) = &mut self.source {
            source.sent(items, bytes);
        }
        self.outgoing.push(Outgoing { to, head, parts });
        Ok(())
    }

    /// Handles an assignment: sends batch `number` of this rank to `receiver`.
    pub(super) fn give(&mut self, edge: usize, number: SequenceNumber, receiver: usize) -> Result<()> {
        if !self.table.receivers(edge).contains(&receiver) {
            let text = format!("assigns batch {number} to rank {receiver}, which does not take edge {edge}");
            return Err(Error::new(ErrorKind::Wire, text));
        }
        match self.output_buffers[edge].remove(&number) {
            Some(batch) => self.hand(batch, receiver),
            None => {
                Err(Error::new(ErrorKind::Wire, format!("assigns batch {number} of edge {edge}, not here")))
            }
        }
    }

    /// Matches offers and requests as long as there are both.
    pub(super) fn decide(&mut self, edge: usize) -> Result<()> {
        while let Some(a) = self.dispatcher(edge)?.decide() {
            if a.sender == self.me {
                self.give(edge, a.number, a.receiver)?;
            } else {
                let epoch = self.epoch();
                let assign =
                    Assign { epoch, edge: edge as u32, number: a.number, receiver: a.receiver as u32 };
                self.post(a.sender, &assign)?;
            }
        }
        Ok(())
    }

    /// Requests as many batches as there is room for, if receivers of the edge request batches.
    pub(super) fn ask(&mut self, edge: usize) -> Result<()> {
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
            return self.decide(edge);
        }
        let (batches, held) = (want as u32, have as u32);
        let ItemTime { mean: service_time, deviation } = service_time;
        let request =
            Request { epoch: self.epoch(), edge: edge as u32, batches, held, service_time, deviation };
        self.post(dispatcher, &request)
    }

    /// Reports to rank 0 how many batches wait for an older one at this edge, if the number has changed enough.
    pub(super) fn report_out_of_order(&mut self, edge: usize) -> Result<()> {
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
        let message = OutOfOrder { epoch: self.epoch(), edge: edge as u32, batches: count as u32, bytes };
        self.post(0, &message)
    }

    /// Registers that `batches` batches with a total size of `bytes` bytes wait for an older one at `edge`. They keep no rank busy, so more may be
    /// drawn.
    pub(super) fn note_out_of_order(&mut self, edge: usize, batches: usize, bytes: u64) -> Result<()> {
        let Some(source) = &mut self.source else {
            return Err(Error::new(ErrorKind::Wire, "reports waiting batches to a rank that draws none"));
        };
        source.out_of_order(edge, batches, bytes);
        Ok(())
    }

    pub(super) fn post<C: Content>(&mut self, to: usize, content: &C) -> Result<()> {
        let head = encode(self.run, content)?;
        self.outgoing.push(Outgoing { to, head, parts: Vec::new() });
        Ok(())
    }
}
