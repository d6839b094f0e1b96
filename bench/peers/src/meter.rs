//! Measurement at the sink: throughput, order and number of the received items.
//!
//! The first tenth of the items is a warm-up, in which connections are established and buffers grow. The throughput is that of the other nine tenths.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use crate::{item::Item, stages};

struct Seen {
    sum: u64,
    count: usize,
    items_per_s: f64,
}

static SEEN: OnceLock<Seen> = OnceLock::new();
static FAR: AtomicUsize = AtomicUsize::new(0);

/// Sink of the pipeline or farm: folds the results into a checksum and measures the throughput.
#[derive(Clone)]
pub(crate) struct Sink {
    items: usize,
    warm: usize,
    fold: Fold,
    sum: u64,
    count: usize,
    start: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    InOrder,
    Sum,
}

impl Sink {
    pub(crate) fn new(items: usize, fold: Fold) -> Self {
        Sink { items, warm: items / 10, fold, sum: 0, count: 0, start: None }
    }

    pub(crate) fn take<I: Item>(&mut self, item: &I) {
        self.sum = match self.fold {
            Fold::InOrder => stages::fold(self.sum, item.word()),
            Fold::Sum => self.sum.wrapping_add(item.word()),
        };
        if self.count == self.warm {
            self.start = Some(Instant::now());
        }
        self.count += 1;
        if self.count == self.items {
            let seconds = self.start.map_or(f64::NAN, |start| start.elapsed().as_secs_f64());
            let items_per_s = (self.items - self.warm - 1) as f64 / seconds;
            let _ = SEEN.set(Seen { sum: self.sum, count: self.count, items_per_s });
        }
    }
}

/// Counts a task, or an item at a stage that must run in the second process. Only one thread of a process calls this function, so no atomic addition
/// is needed.
#[inline]
pub(crate) fn count_far() {
    FAR.store(FAR.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

pub(crate) fn far_items() -> usize {
    FAR.load(Ordering::Relaxed)
}

pub(crate) fn report(items: usize, expected: u64) -> Result<(), String> {
    let seen = SEEN.get().ok_or("the sink has not seen all items")?;
    if seen.count != items || seen.sum != expected {
        return Err(format!("the results are wrong: {} items, checksum {:#x}", seen.count, seen.sum));
    }
    println!("result items_per_s {} items {items}", seen.items_per_s);
    Ok(())
}
