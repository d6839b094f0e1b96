//! Rank 0's end of the stream: what has been drawn, what has arrived, and whether more may be drawn.

use std::time::Duration;

use super::job::Job;
use super::window::{Window, WindowPlan};

/// The source of a stream, with the window that keeps it from drawing too much.
#[derive(Debug)]
pub(crate) struct Source {
    window: Window,
    next_item: u64,
    /// Items of batches that have reached the sink.
    done: u64,
    drawing: bool,
    ended: bool,
    /// Items that are still to be drawn, if the user's iterator knows.
    left: Option<u64>,
}

/// Items in a full batch, batches in flight, and how many may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) batch_items: usize,
    pub(crate) in_flight: usize,
    pub(crate) limit: usize,
}

impl Source {
    /// A source at its beginning.
    pub(super) fn new(plan: WindowPlan, now: Duration) -> Self {
        let window = Window::new(plan, now);
        Source { window, next_item: 0, done: 0, drawing: false, ended: false, left: None }
    }

    /// From now on the window follows another plan, because the mapping has changed.
    pub(crate) fn replan(&mut self, plan: WindowPlan) {
        self.window.replan(plan);
    }

    /// `batches` batches of `bytes` bytes wait in front of edge `edge` for an older one.
    pub(super) fn out_of_order(&mut self, edge: usize, batches: usize, bytes: u64) {
        self.window.out_of_order(edge, batches, bytes);
    }

    /// Nothing is known of batches that wait for older ones: another mapping is in force.
    pub(super) fn forget_out_of_order(&mut self) {
        self.window.forget_out_of_order();
    }

    /// The next batch to draw, if there is one and the window is open.
    pub(super) fn next_draw(&mut self) -> Option<Job> {
        if self.ended || self.drawing || !self.window.is_open() {
            return None;
        }
        self.drawing = true;
        Some(Job::Draw { number: self.window.next_batch(), first: self.next_item, fill: self.window.fill() })
    }

    /// A batch of `items` was drawn (none at the very end); whether the stream has ended behind it, and how many
    /// items are left.
    pub(super) fn drawn(&mut self, items: Option<u32>, ended: bool, left: Option<u64>) {
        self.drawing = false;
        self.ended |= ended;
        self.left = left;
        if let Some(items) = items {
            self.window.produced();
            self.next_item += u64::from(items);
        }
    }

    /// `items` items were sent in `bytes` bytes.
    pub(super) fn sent(&mut self, items: usize, bytes: u64) {
        self.window.sent(items, bytes);
    }

    /// A batch has reached the sink.
    pub(super) fn consumed(&mut self, items: usize, service: Duration, bytes: u64, now: Duration) {
        self.done += items as u64;
        self.window.consumed(items, service, bytes, now);
    }

    /// Whether the stream is over: everything that there was has reached the sink.
    pub(crate) fn is_over(&self) -> bool {
        !self.drawing && self.window.in_flight() == 0 && self.ended
    }

    /// Items that have not reached the sink yet, if the user's iterator knows how many it has.
    pub(crate) fn items_left(&self) -> Option<u64> {
        self.left.map(|left| left + self.next_item - self.done)
    }

    /// Batches that have reached the sink, and batches drawn.
    pub(crate) fn batches(&self) -> (u64, u64) {
        let drawn = self.window.next_batch();
        (drawn - self.window.in_flight() as u64, drawn)
    }

    /// Whether the window is what keeps the source from drawing.
    pub(super) fn is_held_up(&self) -> bool {
        !self.ended && !self.window.is_open()
    }

    /// Items of the stream that have reached the sink.
    pub(crate) fn items_done(&self) -> u64 {
        self.done
    }

    /// Items that have been drawn, which is the number of the next one.
    pub(crate) fn items_drawn(&self) -> u64 {
        self.next_item
    }

    pub(crate) fn flow(&self) -> Flow {
        let Source { window, .. } = self;
        Flow { batch_items: window.batch_items(), in_flight: window.in_flight(), limit: window.limit() }
    }
}
