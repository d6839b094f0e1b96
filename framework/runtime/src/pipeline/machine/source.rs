//! Rank 0's end of the stream: what has been drawn, what has arrived, and whether more may be drawn.

use std::collections::BTreeMap;
use std::time::Duration;

use super::job::{Consumed, Job};
use super::sequence_number::SequenceNumber;
use super::window::{Window, WindowPlan};

/// The source of a stream, with the window that keeps it from drawing too much.
#[derive(Debug)]
pub(crate) struct Source {
    window: Window,
    next_item: u64,
    /// Items of batches that have reached the sink.
    done: u64,
    /// Items that the sink has got.
    delivered: u64,
    drawing: bool,
    ended: bool,
    /// Whether an empty batch is to be drawn behind all others.
    wants_end: bool,
    /// By the number of the first piece: which rank wants to make how many.
    asked: BTreeMap<SequenceNumber, (usize, u64)>,
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
    /// A source at its beginning, before `levels` expanding stages; with `wants_end` an empty batch comes behind all others.
    pub(super) fn new(plan: WindowPlan, levels: usize, wants_end: bool, now: Duration) -> Self {
        Source {
            window: Window::new(plan, levels, now),
            next_item: 0,
            done: 0,
            delivered: 0,
            drawing: false,
            ended: false,
            wants_end,
            asked: BTreeMap::new(),
            left: None,
        }
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
        // The end of the stream comes when all the rest has arrived: without order it could overtake something.
        let is_end = self.ended && self.wants_end && self.window.is_empty();
        if self.drawing || !(is_end || !self.ended && self.window.is_open()) {
            return None;
        }
        self.drawing = true;
        self.wants_end &= !is_end;
        let (number, first, fill) = (self.window.next_batch(), self.next_item, self.window.fill());
        Some(Job::Draw { number, first, fill, is_end })
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
    pub(super) fn consumed(&mut self, batch: &Consumed, now: Duration) {
        self.done += u64::from(batch.done);
        self.delivered += batch.items as u64;
        self.window.consumed(batch, now);
    }

    /// A rank wants to make `pieces` pieces of a batch, of which this is the `first`.
    pub(super) fn ask(&mut self, rank: usize, first: SequenceNumber, pieces: u64) {
        self.asked.insert(first, (rank, pieces));
    }

    /// Room for pieces of a level was not needed.
    pub(super) fn give_back(&mut self, level: usize, pieces: u64) {
        self.window.given_back(level, pieces);
    }

    /// Room for pieces that has been asked for and can be granted: to which rank, of which batch, how many. For the one that the
    /// sink waits for there is always room: nothing else would make any.
    pub(super) fn next_grant(
        &mut self,
        awaited: Option<&SequenceNumber>,
    ) -> Option<(usize, SequenceNumber, u64)> {
        // What was made without it is not needed any more.
        while let (Some(awaited), Some(first)) = (awaited, self.asked.first_entry())
            && first.key() < awaited
            && !awaited.begins(first.key())
        {
            first.remove();
        }
        let (first, &(rank, asked)) = self.asked.first_key_value()?;
        let due = u64::from(awaited.is_some_and(|awaited| awaited.begins(first)));
        // What is being drawn has its room already.
        let room = self.window.room().saturating_sub(self.drawing.into());
        let pieces = room.max(due).min(asked);
        if pieces == 0 {
            return None;
        }
        let (first, _) = self.asked.pop_first()?;
        let level = first.pieces.len();
        let (whole, at) = first.whole()?;
        if asked > pieces {
            self.asked.insert(whole.piece(at + pieces), (rank, asked - pieces));
        }
        self.window.granted(level, pieces);
        Some((rank, whole, pieces))
    }

    /// The first piece for which there was no room yet.
    pub(super) fn first_asked(&self) -> Option<&SequenceNumber> {
        self.asked.first_key_value().map(|(first, _)| first)
    }

    /// Items of a full piece.
    pub(super) fn piece_items(&self) -> usize {
        self.window.piece_items()
    }

    /// Whether the stream is over: everything that there was has reached the sink.
    pub(crate) fn is_over(&self) -> bool {
        !self.drawing && self.window.is_empty() && self.ended && !self.wants_end
    }

    /// Items that have not reached the sink yet, if the user's iterator knows how many it has.
    pub(crate) fn items_left(&self) -> Option<u64> {
        self.left.map(|left| left + self.next_item - self.done)
    }

    /// Batches that have reached the sink, and batches drawn.
    pub(crate) fn batches(&self) -> (u64, u64) {
        self.window.batches()
    }

    /// Whether the window is what keeps the source from drawing.
    pub(super) fn is_held_up(&self) -> bool {
        !self.ended && !self.window.is_open()
    }

    /// Items of the stream that have reached the sink.
    pub(crate) fn items_done(&self) -> u64 {
        self.done
    }

    /// Items that the sink has got.
    pub(crate) fn items_delivered(&self) -> u64 {
        self.delivered
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
