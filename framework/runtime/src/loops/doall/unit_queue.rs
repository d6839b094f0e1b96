//! Queue of the units that a rank holds, as segments: sequences of consecutive rows or indices with one storage.

use std::ops::Range;

use crate::loops::units::Units;

/// Two neighbouring segments (sequences of consecutive rows or indices) are merged if this copies at most this many times as many units as the
/// smaller one has. Copying so few units costs less than one more block (call of user code) per pass.
const CHEAP: u64 = 4;
/// Maximum number of segments (sequences of consecutive rows or indices) that follow each other directly and stay unmerged. A block, which user
/// code computes in one call, ends where two segments meet, and may then be shorter than necessary.
const MOST_JOINTS: usize = 16;

/// Segment: consecutive units (rows or indices) in one storage. The units at the front are computed first, and units for other ranks are taken
/// from the back, so the units at the front have been computed more often.
#[derive(Debug)]
pub(in crate::loops) struct Segment<U> {
    pub(in crate::loops) first: u64,
    pub(in crate::loops) count: u64,
    /// Number of times that each unit of the segment (sequence of consecutive rows or indices) is still to be computed, apart from the first
    /// `done` units.
    pub(super) left: u64,
    /// Number of units at the front of this segment (sequence of consecutive rows or indices) that have been computed in the present pass; each
    /// of them is to be computed only `left` - 1 more times.
    done: u64,
    pub(in crate::loops) units: U,
}

impl<U> Segment<U> {
    pub(in crate::loops) fn new(first: u64, count: u64, units: U) -> Self {
        Segment { first, count, left: 0, done: 0, units }
    }

    pub(super) fn due(self, left: u64) -> Self {
        Segment { left, done: 0, ..self }
    }

    fn undone(&self) -> u64 {
        self.left * self.count - self.done
    }

    /// Records that `units` more units of the segment (sequence of consecutive rows or indices) were computed. Once all its units have been
    /// computed in this pass, `left` (computations per unit still to do) decreases by one.
    fn record_computed(&mut self, units: u64) {
        self.done += units;
        if self.done == self.count && self.left > 0 {
            (self.left, self.done) = (self.left - 1, 0);
        }
    }

    fn is_before(&self, other: &Self) -> bool {
        self.first + self.count == other.first
    }
}

impl<U: Units> Segment<U> {
    /// Returns true if appending the units of `other` to this segment (sequence of consecutive rows or indices) copies few units: not many more
    /// than the smaller segment has.
    fn is_cheap_with(&self, other: &Self) -> bool {
        // The cast to `usize` is lossless, because the units (rows or indices) are in memory.
        let copied = match self.units.has_room(other.count as usize) {
            true => other.count,
            false => self.count + other.count,
        };
        copied <= CHEAP * self.count.min(other.count)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::loops) struct UnitBlock {
    pub(in crate::loops) range: Range<u64>,
}

impl UnitBlock {
    pub(super) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// Queue of the units (rows or indices) that a rank holds, and of the work that remains on them, counted in computations of one unit: a unit
/// that is to be computed in three more passes counts three times.
#[derive(Debug)]
pub(super) struct UnitQueue<U> {
    segments: Vec<Segment<U>>,
    /// Index of the segment (sequence of consecutive rows or indices) that user code computes or computed last. Only in this segment may some
    /// units have been computed more often than others.
    current: usize,
    held: u64,
    undone: u64,
    loose: bool,
}

impl<U: Units> UnitQueue<U> {
    pub(super) fn new() -> Self {
        UnitQueue { segments: Vec::new(), current: 0, held: 0, undone: 0, loose: false }
    }

    pub(super) fn held(&self) -> u64 {
        self.held
    }

    pub(super) fn undone(&self) -> u64 {
        self.undone
    }

    /// Returns how often the unit (row or index) that is computed next must still be computed in this pass: several times if passes
    /// need not wait for each other.
    pub(super) fn left(&self) -> u64 {
        self.segments.get(self.current).map_or(0, |segment| segment.left)
    }

    pub(super) fn receive(&mut self, segment: Segment<U>) {
        if segment.count > 0 {
            self.held += segment.count;
            self.undone += segment.undone();
            self.segments.push(segment);
            self.loose = true;
        }
    }

    pub(super) fn begin(&mut self, times: u64) {
        self.segments.iter_mut().for_each(|segment| (segment.left, segment.done) = (times, 0));
        self.undone = self.held * times;
        self.merge_segments();
    }

    /// Merges neighbouring segments (sequences of consecutive rows or indices) whose units are to be computed equally often, so that blocks
    /// need not end between them. Where a merge would copy many units, segments stay separate; otherwise most units of a rank would be copied
    /// after each movement of units.
    fn merge_segments(&mut self) {
        let mut segments = std::mem::take(&mut self.segments);
        segments.sort_by_key(|segment| segment.first);
        let are_neighbours = |a: &Segment<U>, b: &Segment<U>| a.is_before(b) && a.left == b.left;
        let joints = segments.windows(2).filter(|pair| are_neighbours(&pair[0], &pair[1])).count();
        for segment in segments {
            match self.segments.last_mut() {
                Some(last)
                    if are_neighbours(last, &segment)
                        && (joints > MOST_JOINTS || last.is_cheap_with(&segment)) =>
                {
                    last.count += segment.count;
                    last.units.append(segment.units);
                }
                _ => self.segments.push(segment),
            }
        }
        (self.current, self.loose) = (0, false);
    }

    /// Returns the next block for user code, of at most `most` units. It is taken from the segment (sequence of consecutive rows or indices)
    /// that is partly computed in this pass, if there is one, and otherwise from the first of the segments that have been computed least often.
    pub(super) fn next(&mut self, most: u64) -> Option<UnitBlock> {
        if self.segments.get(self.current).is_none_or(|segment| segment.done == 0) {
            let left = self.segments.iter().map(|segment| segment.left).max().filter(|left| *left > 0)?;
            // Segments (sequences of consecutive rows or indices) that came from other ranks are merged before a new pass begins. Before the last
            // pass they are not merged.
            if self.loose && left > 1 && self.segments.iter().all(|segment| segment.left == left) {
                self.merge_segments();
            }
            self.current = self.segments.iter().position(|segment| segment.left == left)?;
        }
        let segment = &self.segments[self.current];
        let first = segment.first + segment.done;
        Some(UnitBlock { range: first..first + (segment.count - segment.done).min(most.max(1)) })
    }

    /// Lends the storage of the segment to which `block` (from [`next`](UnitQueue::next)) belongs to user code, with the index of the block's
    /// first unit (row or index) in it. The queue must stay unchanged until the storage is [returned](UnitQueue::return_units).
    pub(super) fn take_out(&mut self, block: &UnitBlock) -> Option<(U, usize)> {
        let segment = self.segments.get_mut(self.current)?;
        let from = block.range.start.checked_sub(segment.first)?;
        // The cast to `usize` is lossless, because the units (rows or indices) are in memory.
        Some((std::mem::replace(&mut segment.units, U::empty()), from as usize))
    }

    pub(super) fn return_units(&mut self, units: U) {
        if let Some(segment) = self.segments.get_mut(self.current) {
            segment.units = units;
        }
    }

    pub(super) fn finished(&mut self, block: &UnitBlock) {
        if let Some(segment) = self.segments.get_mut(self.current) {
            segment.record_computed(block.len());
            self.undone -= block.len();
        }
    }

    /// Removes units (rows or indices) that move to another rank, from the back of the queue; those that have been computed least
    /// often go first. The computations that the removed units still need add up to `times`, rounded by at most half a unit's
    /// computations, or to less if there are no more units.
    pub(super) fn take_back(&mut self, mut times: u64) -> Vec<Segment<U>> {
        let mut shipped = Vec::new();
        while times > 0 {
            let behind = self.segments.iter().enumerate().max_by_key(|(at, segment)| (segment.left, *at));
            let Some(at) = behind.filter(|(_, segment)| segment.left > 0).map(|(at, _)| at) else { break };
            let segment = &mut self.segments[at];
            let left = segment.left;
            let take = (times / left + u64::from(times % left > left / 2)).min(segment.count - segment.done);
            if take == 0 {
                break;
            }
            if take == segment.count {
                shipped.push(self.segments.remove(at));
                if at < self.current {
                    self.current -= 1;
                }
            } else {
                segment.count -= take;
                // The cast to `usize` is lossless, because the units (rows or indices) are in memory.
                let back = segment.units.split_off(segment.count as usize);
                shipped.push(Segment::new(segment.first + segment.count, take, back).due(left));
                segment.record_computed(0);
            }
            times = times.saturating_sub(take * left);
            self.undone -= take * left;
            self.held -= take;
        }
        shipped
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = &Segment<U>> {
        self.segments.iter()
    }
}

#[cfg(test)]
#[path = "unit_queue_tests.rs"]
mod tests;
