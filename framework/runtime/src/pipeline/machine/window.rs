//! Window of the source: limits the batches in flight and sets the number of items per batch.
//!
//! The window is the only bound on memory: sending never blocks, so everything in flight is in queues of the ranks. By Little's law, a pipeline needs
//! as many batches in flight as it delivers during the longest time that a batch takes from source to sink; more batches only fill queues. Batches
//! that wait for an older one at a serial stage or at the sink keep no rank busy. They do not count towards the limit as long as all batches together
//! stay below the limit in bytes. If they counted, one slow rank would stop all others.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::fill::Fill;
use super::in_flight::InFlight;
use super::job::Consumed;
use crate::session::BatchMode;

/// Maximum number of items in a batch. The cost of a message is then so small per item that a larger batch gains nothing.
const MOST_ITEMS: usize = 4096;
/// Maximum number of items in a part of a stage's output: equal to the maximum size of a batch in bytes, so that the limit in bytes is reached first
/// even with items of one byte.
const MOST_MADE: usize = MOST_BYTES as usize;
/// Maximum encoded size in bytes of a batch of several items. Larger batches are not transferred faster, and the receiver waits longer for them.
const MOST_BYTES: u64 = 128 << 10;
/// Maximum processing time of a part of a stage's output, as a multiple of that of a batch. Output that is slightly larger than expected then needs
/// no second part, for which the rank would have to ask rank 0 for permission.
const SLACK: usize = 4;
/// Minimum number of batches in flight, as a multiple of the batches that ranks hold or may request. With a factor of 1, ranks would wait whenever a
/// batch is in transit.
const ROOM: usize = 2;
/// Factor by which the number of batches in flight exceeds the mean that Little's law requires. Batches take different times, and with too few of
/// them ranks are idle.
const MARGIN: f64 = 1.5;
/// Maximum number of batches in flight by Little's law. With large items, the limit in bytes is reached first.
const MOST_BATCHES: f64 = 4096.0;
/// Weight of the newest batch in the decayed means of processing times per item: the means cover about ten batches.
const FRESH: f64 = 0.2;
/// Weight of the newest batch in the decayed mean and maximum of processing times per batch and in the decayed maximum size of an item, which cover
/// about forty batches.
const FRESH_LONG: f64 = FRESH / 4.0;

/// Returns the minimum number of batches in flight if groups of stages run in `hosts` places (pairs of a group and a rank): for each place, the batch
/// that is computed and `ahead` more, all multiplied by [`ROOM`] because other batches are in transit.
pub(super) fn floor(hosts: usize, ahead: usize) -> usize {
    hosts * (ahead + 1) * ROOM
}

/// Settings of the window (limit of the batches in flight), from the configuration and the mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowPlan {
    pub(crate) batch: BatchMode,
    pub(crate) batch_time: Duration,
    pub(crate) fixed: Option<usize>,
    pub(crate) bytes: usize,
    /// Number of pairs of a group of stages and a rank that runs it.
    pub(crate) hosts: usize,
    pub(crate) ranks: usize,
    pub(crate) ahead: usize,
}

/// Limits of the batches in flight and of their sizes, on rank 0, and the measurements from which they follow.
#[derive(Debug)]
pub(crate) struct Window {
    plan: WindowPlan,
    in_flight: InFlight,
    consumed: u64,
    /// Present number of items in a full batch of the source.
    batch: usize,
    /// Present number of items in a full part of a stage's output.
    piece: usize,
    /// Processing time, over all stages, of an item made by a stage that makes several items from one: decayed mean in seconds.
    production_time: f64,
    /// Number of batches in flight by Little's law, from the last computation.
    little: usize,
    /// Processing time of a source item, summed over all stages: decayed mean in seconds.
    item_time: Option<f64>,
    /// Processing time of a batch, summed over all stages: decayed maximum in seconds.
    slowest: f64,
    /// Processing time of a batch, summed over all stages: decayed mean in seconds.
    mean_service: f64,
    /// Size of an item between the two stages where it is largest: decayed maximum in bytes.
    item_bytes: f64,
    /// For each edge (connection between groups of stages): number and total size of the batches that wait for an older one.
    out_of_order: BTreeMap<usize, (usize, u64)>,
    rate: Rate,
}

/// Rate at which batches reach the sink, per second, measured over at least 20 ms and eight batches.
#[derive(Debug, Default)]
struct Rate {
    since: Duration,
    batches: u32,
    per_second: f64,
}

impl Window {
    pub(crate) fn new(plan: WindowPlan, levels: usize, now: Duration) -> Self {
        let first = first_fill(plan.batch, plan.batch_time).items;
        Window {
            plan,
            in_flight: InFlight::new(levels),
            consumed: 0,
            batch: first,
            piece: first,
            production_time: 0.0,
            little: 0,
            item_time: None,
            slowest: 0.0,
            mean_service: 0.0,
            item_bytes: 0.0,
            out_of_order: BTreeMap::new(),
            rate: Rate { since: now, ..Rate::default() },
        }
    }

    pub(crate) fn replan(&mut self, plan: WindowPlan) {
        self.plan = plan;
        if let BatchMode::Fixed(n) = plan.batch {
            (self.batch, self.piece) = (n, n);
        }
    }

    pub(crate) fn limit(&self) -> usize {
        let floor = floor(self.plan.hosts, self.plan.ahead);
        let useful = self.little.max(floor);
        let (waiting, waiting_bytes) = self.waiting();
        let out_of_order = waiting.min((MOST_BATCHES as usize).saturating_sub(useful)).min(self.in_flight());
        let wanted = self.plan.fixed.unwrap_or(useful + out_of_order);
        // The batches in flight that do not wait for an older one are assumed to be as large as a batch of the largest recent items, and at least as
        // large as the mean waiting batch.
        let mean_early = waiting_bytes as f64 / waiting.max(1) as f64;
        let batch_bytes = (self.item_bytes * self.batch as f64).max(mean_early).max(1.0);
        let left = (self.plan.bytes as f64 - waiting_bytes as f64).max(0.0);
        let by_bytes = waiting.saturating_add((left / batch_bytes) as usize);
        wanted.min(by_bytes).max(1)
    }

    fn waiting(&self) -> (usize, u64) {
        self.out_of_order
            .values()
            .fold((0, 0), |(batches, bytes), out_of_order| (batches + out_of_order.0, bytes + out_of_order.1))
    }

    /// Records that `batches` batches with a total size of `bytes` bytes wait for an older one. `edge` is the connection to the group of stages for
    /// which they wait.
    pub(crate) fn out_of_order(&mut self, edge: usize, batches: usize, bytes: u64) {
        self.out_of_order.insert(edge, (batches, bytes));
    }

    pub(crate) fn forget_out_of_order(&mut self) {
        self.out_of_order.clear();
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.batches()
    }

    pub(crate) fn batches(&self) -> (u64, u64) {
        self.in_flight.of_source()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Returns how many more batches may be in flight.
    pub(crate) fn room(&self) -> u64 {
        self.limit().saturating_sub(self.in_flight()) as u64
    }

    pub(crate) fn granted(&mut self, level: usize, pieces: u64) {
        self.in_flight.granted(level, pieces);
    }

    pub(crate) fn returned(&mut self, level: usize, pieces: u64) {
        self.in_flight.returned(level, pieces);
    }

    pub(crate) fn piece_items(&self) -> usize {
        self.piece
    }

    pub(crate) fn is_open(&self) -> bool {
        self.in_flight() < self.limit()
    }

    pub(crate) fn next_batch(&self) -> u64 {
        self.in_flight.of_source().1
    }

    /// Returns the limits at which no more items are added to the next batch. The time limit keeps items of a slow source from waiting for others.
    pub(crate) fn fill(&self) -> Fill {
        Fill { items: self.batch, time: (self.plan.batch == BatchMode::Auto).then_some(self.plan.batch_time) }
    }

    pub(crate) fn batch_items(&self) -> usize {
        self.batch
    }

    pub(crate) fn produced(&mut self) {
        self.in_flight.drawn();
    }

    /// Records that rank 0 has sent a batch of `count` items in `bytes` bytes, so that the size of items is known, and the limit in bytes holds, even
    /// before the first batch reaches the sink.
    pub(crate) fn sent(&mut self, count: usize, bytes: u64) {
        self.item_bytes = self.item_bytes.max(bytes as f64 / count.max(1) as f64);
    }

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
            // On a rank, a batch waits for the batches that the rank requested before it, so its time from source to sink is a multiple of its
            // processing time.
            let residence = self.slowest * (self.plan.ahead + 1) as f64;
            // If the stream is slow because few batches may be in flight, the rate at the sink says nothing about the rate that the ranks
            // could reach together, which is computed instead.
            let possible = self.plan.ranks as f64 / self.mean_service.max(1e-9);
            let wanted = (per_second * residence).max(possible * self.slowest);
            self.little = (wanted * MARGIN).ceil().min(MOST_BATCHES) as usize;
        }
        if self.plan.batch == BatchMode::Auto {
            self.batch = self.grown();
            if let Some(produced) = batch.produced.filter(|&produced| produced > 0) {
                let item = service / f64::from(produced);
                self.production_time +=
                    if self.production_time == 0.0 { item } else { FRESH * (item - self.production_time) };
                let by_time = SLACK as f64 * self.plan.batch_time.as_secs_f64() / self.production_time;
                self.piece = (by_time as usize).min(MOST_MADE).min(self.piece * 2).max(1);
            }
        }
    }

    /// Returns the number of items per batch that follows from the measured times and sizes, at most twice the current number.
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

/// Returns the limits on items and time for the first batch of a stream, and for the first part of a stage's output.
pub(crate) fn first_fill(batch: BatchMode, batch_time: Duration) -> Fill {
    match batch {
        BatchMode::Fixed(items) => Fill { items, time: None },
        BatchMode::Auto => Fill { items: 1, time: Some(batch_time * SLACK as u32) },
    }
}

impl Rate {
    /// Counts one batch that has reached the sink. Returns the rate in batches per second if enough time and batches have passed for a measurement.
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
