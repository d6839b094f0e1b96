//! Source of a pipeline on rank 0: counts the items drawn from it and those that have reached the sink, and decides whether more may be drawn.

use std::collections::BTreeMap;
use std::time::Duration;

use super::batch::BatchKind;
use super::expansions::WindowMessage;
use super::job::{Consumed, Job};
use super::sequence_number::SequenceNumber;
use super::window::{Window, WindowPlan};
use crate::error::{Error, ErrorKind, Result};

/// State of the markers for snapshots. A marker is a batch without items that the source sends through the stream; serial stages save their states
/// when it reaches them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Markers {
    /// True if the next batch of the source must be the marker of a snapshot.
    is_due: bool,
    /// True if the source must still send a marker at the end of the stream.
    at_end: bool,
    /// Number of items that were drawn before the last marker of a snapshot.
    items: u64,
    /// True if the last batch of the source was the marker of a snapshot.
    is_last: bool,
    in_flight: usize,
}

#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) window: Window,
    levels: usize,
    next_item: u64,
    /// Number of source items all of whose output has reached the sink.
    done: u64,
    /// Number of items that the sink has received, which differs from the number of source items if a stage drops items or produces several.
    delivered: u64,
    /// Number of source items that an earlier start of the job has processed.
    before: u64,
    /// True if items reach the sink in order, so that the marker of a snapshot separates the items before it from those behind it.
    ordered: bool,
    markers: Markers,
    drawing: bool,
    ended: bool,
    is_cut: bool,
    /// True if a batch without items must still follow all others; serial stages emit their last item when it reaches them.
    wants_end: bool,
    /// Requests of ranks for permission to make further parts of a stage's output, by sequence number of the first requested part: requesting rank
    /// and number of parts.
    requested: BTreeMap<SequenceNumber, (usize, u64)>,
    left: Option<u64>,
}

impl Source {
    /// Creates the source of a pipeline in which `levels` stages make several items from one. If `wants_end` is true, a batch without items follows
    /// all others; serial stages emit their last item when it reaches them.
    pub(super) fn new(plan: WindowPlan, levels: usize, wants_end: bool, now: Duration) -> Self {
        Source {
            before: 0,
            ordered: true,
            markers: Markers::default(),
            window: Window::new(plan, levels, now),
            levels,
            next_item: 0,
            done: 0,
            delivered: 0,
            drawing: false,
            ended: false,
            is_cut: false,
            wants_end,
            requested: BTreeMap::new(),
            left: None,
        }
    }

    /// Turns snapshots on: the stream ends with the marker of a snapshot. An earlier start of the job has processed the first `before` items of the
    /// source, and all items if `is_finished` is true.
    pub(crate) fn with_snapshots(&mut self, ordered: bool, before: u64, is_finished: bool) {
        (self.ordered, self.before, self.ended) = (ordered, before, is_finished);
        self.markers.at_end = !is_finished;
        self.wants_end &= !is_finished;
        self.left = is_finished.then_some(0);
    }

    /// Requests that the source sends the marker of a snapshot (a batch without items) behind the items drawn so far.
    pub(crate) fn request_marker(&mut self) {
        self.markers.is_due = true;
    }

    /// Returns the job (call of user code) that draws the next batch, if there is one and it may be in flight now.
    pub(super) fn next_draw(&mut self) -> Option<Job> {
        let kind = self.next_kind().filter(|_| !self.drawing && self.window.is_open())?;
        self.drawing = true;
        self.markers.is_last = false;
        match kind {
            BatchKind::Items => {}
            BatchKind::End => self.wants_end = false,
            BatchKind::Marker(_) => {
                let at_end = self.markers.at_end && !self.ended;
                let in_flight = self.markers.in_flight + 1;
                self.markers =
                    Markers { is_due: false, at_end, items: self.next_item, is_last: true, in_flight };
            }
        }
        let (number, first, fill) =
            (self.window.next_batch(), self.before + self.next_item, self.window.fill());
        Some(Job::Draw { number, first, fill, kind })
    }

    /// Returns the kind of the next batch; `None` if the stream has ended, or if all earlier batches must reach the sink first.
    fn next_kind(&self) -> Option<BatchKind> {
        let (all_arrived, marker) = (self.window.is_empty(), BatchKind::Marker(Vec::new()));
        if self.markers.is_last && !self.ordered && !all_arrived {
            // In an unordered stream, no batch is drawn until the marker of a snapshot has reached the sink. A later batch could overtake the marker,
            // and the sink would then commit its items with the snapshot.
            return None;
        }
        if !self.ended && !self.markers.is_due {
            return Some(BatchKind::Items);
        }
        if self.ended && self.wants_end && !self.is_cut {
            // In an unordered stream the last batch, which has no items, could overtake other batches, so it is drawn only when they have reached the
            // sink.
            return all_arrived.then_some(BatchKind::End);
        }
        let is_marker = self.markers.is_due || self.markers.at_end;
        (is_marker && (self.ordered || all_arrived)).then_some(marker)
    }

    /// Records the result of a draw from the source: a batch of `items` items, or no batch if `items` is `None`. `ended` is true if no batch follows,
    /// and `left` is the number of remaining items, if it is known.
    pub(super) fn drawn(&mut self, items: Option<u32>, ended: bool, left: Option<u64>) {
        self.drawing = false;
        self.ended |= ended;
        self.is_cut &= !ended;
        self.left = left;
        if let Some(items) = items {
            self.window.produced();
            self.next_item += u64::from(items);
        }
    }

    /// Ends the stream before the last item of the source, unless it has ended. Items that have been drawn still pass the stages, but the stages emit
    /// no last item, because the stream is not complete.
    pub(crate) fn end(&mut self) {
        self.is_cut |= !std::mem::replace(&mut self.ended, true);
    }

    /// Returns true if another snapshot would contain more than the last one: items were drawn after the last marker of a snapshot, and the stream
    /// has not ended.
    pub(crate) fn is_marker_useful(&self) -> bool {
        !self.ended && self.next_item > self.markers.items
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(super) fn consumed(&mut self, batch: &Consumed, now: Duration) {
        self.done += u64::from(batch.done);
        self.delivered += batch.items as u64;
        self.window.consumed(batch, now);
    }

    /// Records that the marker of a snapshot has reached the sink. Returns true if the snapshot covers the complete stream: no batch follows the
    /// marker, and the source was not ended early. [`is_finished`](Source::is_finished) may be false even then, because ranks may still have to
    /// return unused permission to make parts of a stage's output.
    pub(crate) fn marker_arrived(&mut self) -> bool {
        self.markers.in_flight = self.markers.in_flight.saturating_sub(1);
        let has_more = self.markers.in_flight > 0 || self.markers.at_end || self.wants_end;
        self.ended && !self.is_cut && !has_more
    }

    /// Handles a message of rank `from`, which requests permission to make further parts of a stage's output, or returns unused permission.
    pub(super) fn on_window_message(&mut self, from: usize, message: WindowMessage) -> Result<()> {
        let levels = self.levels;
        let wrong = |what: &str, batch: &SequenceNumber| {
            let text = format!("{what} batch {batch}, but the pipeline has {levels} expanding stage(s)");
            Err(Error::new(ErrorKind::Wire, text))
        };
        match message {
            WindowMessage::Request(request) if !(1..=levels).contains(&request.first.pieces.len()) => {
                return wrong("requests room for", &request.first);
            }
            WindowMessage::Request(request) => {
                self.requested.insert(request.first, (from, request.pieces));
            }
            WindowMessage::Return(back) if back.whole.pieces.len() >= levels => {
                return wrong("returns room of", &back.whole);
            }
            WindowMessage::Return(back) => self.window.returned(back.whole.pieces.len() + 1, back.pieces),
        }
        Ok(())
    }

    /// Returns the next permission to make parts of a stage's output, if a request can be granted: requesting rank, batch, and number of parts. The
    /// part for which the sink waits is permitted even if the limit of the batches in flight is reached, because no other batch can reach the sink
    /// before it.
    pub(super) fn next_grant(
        &mut self,
        awaited: Option<&SequenceNumber>,
    ) -> Option<(usize, SequenceNumber, u64)> {
        // A request for parts of output before the one for which the sink waits is obsolete: the stage did not need them, because its output for that
        // batch was complete.
        while let (Some(awaited), Some(first)) = (awaited, self.requested.first_entry())
            && first.key() < awaited
            && !awaited.begins(first.key())
        {
            first.remove();
        }
        let (first, &(rank, requested)) = self.requested.first_key_value()?;
        let due = u64::from(awaited.is_some_and(|awaited| awaited.begins(first)));
        // The batch that is being drawn from the source counts as in flight.
        let room = self.window.room().saturating_sub(self.drawing.into());
        let pieces = room.max(due).min(requested);
        if pieces == 0 {
            return None;
        }
        let (first, _) = self.requested.pop_first()?;
        let level = first.pieces.len();
        let (whole, at) = first.whole()?;
        if requested > pieces {
            self.requested.insert(whole.piece(at + pieces), (rank, requested - pieces));
        }
        self.window.granted(level, pieces);
        Some((rank, whole, pieces))
    }

    /// Describes the number and limit of the batches in flight, and the first request for parts of a stage's output, for an error message.
    pub(super) fn describe(&self) -> String {
        let (window, drawn) = (&self.window, self.next_item);
        let (batch_items, in_flight, limit) = (window.batch_items(), window.in_flight(), window.limit());
        let mut text =
            format!("{in_flight} of {limit} batches of {batch_items} in flight, {drawn} items drawn");
        if let Some((first, _)) = self.requested.first_key_value() {
            text += &format!("; room is requested for batch {first}");
        }
        text
    }

    pub(crate) fn is_finished(&self) -> bool {
        let has_more = self.markers.at_end || self.wants_end && !self.is_cut;
        !self.drawing && self.window.is_empty() && self.ended && !has_more
    }

    /// Returns the number of source items that are not done, including those not drawn yet, if the user's iterator knows its length.
    pub(crate) fn items_left(&self) -> Option<u64> {
        self.left.map(|left| left + self.next_item - self.done)
    }

    pub(super) fn awaits_results(&self) -> bool {
        !self.ended && !self.window.is_open()
    }

    pub(crate) fn items_before(&self) -> u64 {
        self.before
    }

    pub(crate) fn items_done(&self) -> u64 {
        self.done
    }

    pub(crate) fn items_delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the number of items drawn, which is also the number of the next item.
    pub(crate) fn items_drawn(&self) -> u64 {
        self.next_item
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::BatchMode;

    fn source() -> Source {
        let batch_time = Duration::from_micros(500);
        let (fixed, bytes) = (Some(4), 1 << 20);
        let plan =
            WindowPlan { batch: BatchMode::Auto, batch_time, fixed, bytes, hosts: 1, ranks: 1, ahead: 2 };
        Source::new(plan, 0, true, Duration::ZERO)
    }

    #[test]
    fn only_the_last_marker_belongs_to_the_complete_stream() {
        let mut source = source();
        source.with_snapshots(true, 0, false);
        let draw = |source: &mut Source, items, is_last| {
            assert!(source.next_draw().is_some());
            source.drawn(Some(items), is_last, None);
        };
        draw(&mut source, 2, false);
        source.request_marker();
        draw(&mut source, 0, false);
        draw(&mut source, 1, true);
        source.wants_end = false;
        draw(&mut source, 0, false);
        assert!(source.next_draw().is_none(), "the second marker is the last batch");
        // The batches drawn above are still in flight, so the source is not finished.
        assert_eq!([source.marker_arrived(), source.marker_arrived()], [false, true]);
        assert!(!source.is_finished());
        source.is_cut = true;
        assert!(!source.marker_arrived());
    }

    #[test]
    fn ended_source_stops_drawing_and_reports_truncation() {
        // The source is ended early while no batch is being drawn.
        let mut between = source();
        between.end();
        assert!(between.next_draw().is_none() && between.is_cut() && between.is_finished());
        // The source is ended early while a batch is being drawn, which still passes the stages.
        let mut during = source();
        assert!(during.next_draw().is_some());
        during.end();
        during.drawn(Some(2), false, Some(7));
        assert!(during.next_draw().is_none() && during.is_cut() && !during.is_finished());
        // The source is ended early during or after the draw that finds the end of the stream. The stream is then complete, so the stages finish.
        let mut last = source();
        assert!(last.next_draw().is_some());
        last.end();
        last.drawn(None, true, Some(0));
        assert!(!last.is_cut());
        let mut after = source();
        assert!(after.next_draw().is_some());
        after.drawn(None, true, Some(0));
        after.end();
        assert!(!after.is_cut() && matches!(after.next_draw(), Some(Job::Draw { kind: BatchKind::End, .. })));
    }
}
