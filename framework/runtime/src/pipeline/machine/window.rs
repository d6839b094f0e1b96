//! What the source may have in flight, and how many items it puts into a batch.
//!
//! The window is the only bound on memory: sending never waits, so whatever is in flight lies in somebody's
//! input queue, on somebody's output buffer or in the resequencer. By Little's law a pipeline needs as much in flight as it
//! delivers during the time that the slowest way through it takes; more only fills queues. Batches that wait in front of a
//! serial stage or the sink for an older one keep nobody busy and are not counted, as long as all together stay below the
//! bound in bytes: otherwise one slow replica would hold up all the others.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::fill::Fill;
use super::in_flight::InFlight;
use super::job::Consumed;
use crate::session::BatchMode;

/// Items of the largest batch: what a message costs is spread so thin by then that a larger one gains nothing.
const MOST_ITEMS: usize = 4096;
/// Items of the largest piece: as many as there may be bytes in a batch, so that items of one byte are not cut where a batch of the
/// source would not be.
const MOST_MADE: usize = MOST_BYTES as usize;
/// Bytes of the largest batch of several items on the wire: larger ones do not travel faster, and keep the receiver waiting.
const MOST_BYTES: u64 = 128 << 10;
/// Times as much work as a batch is made for that a piece of one may hold: what has become a little larger than expected is
/// not worth a question.
const SLACK: usize = 4;
/// Times as many batches as replicas can hold: with once as many, all wait whenever one is on its way.
const ROOM: usize = 2;
/// Times what Little's law asks for in the mean: batches differ, and too few in flight leave replicas idle.
const MARGIN: f64 = 1.5;
/// Batches in flight at most, whatever Little's law asks for; where they are wide, their bytes are the bound before.
const MOST_BATCHES: f64 = 4096.0;
/// Part of the newest value in a decayed mean: about ten batches back count.
const FRESH: f64 = 0.2;
/// The same of what is wanted over a longer time: about forty.
const FRESH_LONG: f64 = FRESH / 4.0;

/// Batches that may be in flight at least, so that each of `hosts` replicas has what it computes and `ahead` more.
pub(super) fn floor(hosts: usize, ahead: usize) -> usize {
    hosts * (ahead + 1) * ROOM
}

/// Settings of a window, from the configuration and the mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowPlan {
    pub(crate) batch: BatchMode,
    pub(crate) batch_time: Duration,
    /// Fixed number of batches in flight, if the user set one.
    pub(crate) fixed: Option<usize>,
    pub(crate) bytes: usize,
    /// Hosts of all blocks together.
    pub(crate) hosts: usize,
    /// Ranks that compute.
    pub(crate) ranks: usize,
    pub(crate) ahead: usize,
}

/// The source's side of flow control; lives on rank 0.
#[derive(Debug)]
pub(crate) struct Window {
    plan: WindowPlan,
    in_flight: InFlight,
    consumed: u64,
    /// Items in batches that are full-grown now.
    batch: usize,
    /// Items of a full piece.
    piece: usize,
    /// Time that all stages together spend on an item that an expanding stage has made, decayed mean, seconds.
    made_time: f64,
    /// Limit by Little's law, as last computed.
    little: usize,
    /// Time that all stages together spend on one item, decayed mean, seconds.
    item_time: Option<f64>,
    /// Time that all stages spent on one batch, decayed maximum, seconds.
    slowest: f64,
    /// The same, decayed mean.
    mean_service: f64,
    /// Bytes of one item on its widest edge, decayed maximum.
    item_bytes: f64,
    /// By edge: batches that wait there for an older one, and their bytes.
    out_of_order: BTreeMap<usize, (usize, u64)>,
    rate: Rate,
}

/// Batches per second at the sink, over spans long enough to mean something.
#[derive(Debug, Default)]
struct Rate {
    since: Duration,
    batches: u32,
    per_second: f64,
}

impl Window {
    /// An empty window at the start of a stream with `levels` expanding stages.
    pub(crate) fn new(plan: WindowPlan, levels: usize, now: Duration) -> Self {
        let first = first_fill(plan.batch, plan.batch_time).items;
        Window {
            plan,
            in_flight: InFlight::new(levels),
            consumed: 0,
            batch: first,
            piece: first,
            made_time: 0.0,
            little: 0,
            item_time: None,
            slowest: 0.0,
            mean_service: 0.0,
            item_bytes: 0.0,
            out_of_order: BTreeMap::new(),
            rate: Rate { since: now, ..Rate::default() },
        }
    }

    /// Goes on by another plan.
    pub(crate) fn replan(&mut self, plan: WindowPlan) {
        self.plan = plan;
        if let BatchMode::Fixed(n) = plan.batch {
            (self.batch, self.piece) = (n, n);
        }
    }

    /// Batches that may be in flight now.
    pub(crate) fn limit(&self) -> usize {
        let floor = floor(self.plan.hosts, self.plan.ahead);
        let useful = self.little.max(floor);
        let (waiting, waiting_bytes) = self.waiting();
        let out_of_order = waiting.min((MOST_BATCHES as usize).saturating_sub(useful)).min(self.in_flight());
        let wanted = self.plan.fixed.unwrap_or(useful + out_of_order);
        // Of the others each is expected to become as wide as the widest, of those that wait, too.
        let mean_early = waiting_bytes as f64 / waiting.max(1) as f64;
        let batch_bytes = (self.item_bytes * self.batch as f64).max(mean_early).max(1.0);
        let left = (self.plan.bytes as f64 - waiting_bytes as f64).max(0.0);
        let by_bytes = waiting.saturating_add((left / batch_bytes) as usize);
        wanted.min(by_bytes).max(1)
    }

    /// Batches that wait for older ones, and their bytes.
    fn waiting(&self) -> (usize, u64) {
        self.out_of_order
            .values()
            .fold((0, 0), |(batches, bytes), out_of_order| (batches + out_of_order.0, bytes + out_of_order.1))
    }

    /// `batches` batches of `bytes` bytes wait in front of edge `edge` for an older one.
    pub(crate) fn out_of_order(&mut self, edge: usize, batches: usize, bytes: u64) {
        self.out_of_order.insert(edge, (batches, bytes));
    }

    /// What was said of waiting batches is not true any more.
    pub(crate) fn forget_out_of_order(&mut self) {
        self.out_of_order.clear();
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.batches()
    }

    /// Batches of the source that have reached the sink as a whole, and batches drawn.
    pub(crate) fn batches(&self) -> (u64, u64) {
        self.in_flight.of_source()
    }

    /// Whether all that was drawn has reached the sink, with all that was made of it.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Pieces of batches that may be made now.
    pub(crate) fn room(&self) -> u64 {
        self.limit().saturating_sub(self.in_flight()) as u64
    }

    /// Room for `pieces` pieces is granted to an expanding stage, the `level`th from 1.
    pub(crate) fn granted(&mut self, level: usize, pieces: u64) {
        self.in_flight.granted(level, pieces);
    }

    /// It was not needed.
    pub(crate) fn given_back(&mut self, level: usize, pieces: u64) {
        self.in_flight.given_back(level, pieces);
    }

    /// Items of a full piece.
    pub(crate) fn piece_items(&self) -> usize {
        self.piece
    }

    pub(crate) fn is_open(&self) -> bool {
        self.in_flight() < self.limit()
    }

    /// Number of the next batch.
    pub(crate) fn next_batch(&self) -> u64 {
        self.in_flight.of_source().1
    }

    /// When the next batch is full. Items drawn slowly do not wait for a batch to fill up.
    pub(crate) fn fill(&self) -> Fill {
        Fill { items: self.batch, time: (self.plan.batch == BatchMode::Auto).then_some(self.plan.batch_time) }
    }

    /// Items in a full batch.
    pub(crate) fn batch_items(&self) -> usize {
        self.batch
    }

    pub(crate) fn produced(&mut self) {
        self.in_flight.drawn();
    }

    /// A batch of `count` items has left rank 0 with `bytes` on the wire. The bound on bytes must hold before
    /// the first batch comes back.
    pub(crate) fn sent(&mut self, count: usize, bytes: u64) {
        self.item_bytes = self.item_bytes.max(bytes as f64 / count.max(1) as f64);
    }

    /// A batch has reached the sink.
    pub(crate) fn consumed(&mut self, batch: &Consumed, now: Duration) {
        self.consumed += 1;
        self.in_flight.consumed(batch.ended);
        let Consumed { sources, service, bytes, .. } = *batch;
        let (count, service) = (sources.max(1) as f64, service.as_secs_f64());
        let item = service / count;
        self.item_time = Some(self.item_time.map_or(item, |old| old + FRESH * (item - old)));
        self.slowest = (self.slowest * (1.0 - FRESH_LONG)).max(service);
        self.mean_service +=
            if self.consumed == 1 { service } else { FRESH_LONG * (service - self.mean_service) };
        self.item_bytes = (self.item_bytes * (1.0 - FRESH_LONG)).max(bytes as f64 / count);
        if let Some(per_second) = self.rate.count(now) {
            // A batch waits at each replica behind those asked for ahead.
            let residence = self.slowest * (self.plan.ahead + 1) as f64;
            // While the window itself holds the stream up, the rate at the sink shows only how narrow it is; what all
            // ranks could do together does not depend on it.
            let possible = self.plan.ranks as f64 / self.mean_service.max(1e-9);
            let wanted = (per_second * residence).max(possible * self.slowest);
            self.little = (wanted * MARGIN).ceil().min(MOST_BATCHES) as usize;
        }
        if self.plan.batch == BatchMode::Auto {
            self.batch = self.grown();
            if let Some(made) = batch.made.filter(|&made| made > 0) {
                let item = service / f64::from(made);
                self.made_time += if self.made_time == 0.0 { item } else { FRESH * (item - self.made_time) };
                let by_time = SLACK as f64 * self.plan.batch_time.as_secs_f64() / self.made_time;
                self.piece = (by_time as usize).min(MOST_MADE).min(self.piece * 2).max(1);
            }
        }
    }

    /// The batch size that measurements allow, at most twice the present one.
    fn grown(&self) -> usize {
        let by_time = match self.item_time {
            Some(t) if t > 0.0 => (self.plan.batch_time.as_secs_f64() / t) as usize,
            _ => MOST_ITEMS,
        };
        let by_bytes = match self.item_bytes {
            b if b > 0.0 => (MOST_BYTES as f64 / b) as usize,
            _ => MOST_ITEMS,
        };
        by_time.min(by_bytes).min(MOST_ITEMS).min(self.batch * 2).max(1)
    }
}

/// What the first batch of a stream holds, and the first piece that is made of one.
pub(crate) fn first_fill(batch: BatchMode, batch_time: Duration) -> Fill {
    match batch {
        BatchMode::Fixed(items) => Fill { items, time: None },
        BatchMode::Auto => Fill { items: 1, time: Some(batch_time * SLACK as u32) },
    }
}

impl Rate {
    /// Counts one batch; returns the rate when a span has ended.
    fn count(&mut self, now: Duration) -> Option<f64> {
        const SPAN: Duration = Duration::from_millis(20);
        self.batches += 1;
        let span = now.saturating_sub(self.since);
        if span < SPAN || self.batches < 8 {
            return None;
        }
        self.per_second = f64::from(self.batches) / span.as_secs_f64();
        (self.since, self.batches) = (now, 0);
        Some(self.per_second)
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
