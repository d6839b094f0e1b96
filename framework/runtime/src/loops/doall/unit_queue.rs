//! The queue of the units that a rank has, in segments of neighbouring ones.

use std::ops::Range;

use crate::loops::units::Units;

/// Segments are put together if at most this many times the units of the smaller one are copied: a copy costs less than one more block a pass. …
const CHEAP: u64 = 4;
/// … But no more than this number of pairs of neighbours is left: each costs a block that is shorter than it could be.
const MOST_JOINTS: usize = 16;

/// Neighbouring units. Those from the front are done first and those from the back leave first, so that the ones that have been
/// done more often are always at the front.
#[derive(Debug)]
pub(in crate::loops) struct Segment<U> {
    pub(in crate::loops) first: u64,
    pub(in crate::loops) count: u64,
    /// How often its units are still to be done, …
    pub(super) left: u64,
    /// … but for this number from the front, which are to be done once less.
    done: u64,
    pub(in crate::loops) units: U,
}

impl<U> Segment<U> {
    /// Units that have nothing to do yet.
    pub(in crate::loops) fn new(first: u64, count: u64, units: U) -> Self {
        Segment { first, count, left: 0, done: 0, units }
    }

    /// The same units, each to be done `left` times.
    pub(super) fn due(self, left: u64) -> Self {
        Segment { left, done: 0, ..self }
    }

    /// How many times a unit is still to be done, over all units.
    fn undone(&self) -> u64 {
        self.left * self.count - self.done
    }

    /// `units` more were done; when all have been, they are to be done once less.
    fn go_on(&mut self, units: u64) {
        self.done += units;
        if self.done == self.count && self.left > 0 {
            (self.left, self.done) = (self.left - 1, 0);
        }
    }

    /// Whether the next unit is the first of the other one.
    fn is_before(&self, other: &Self) -> bool {
        self.first + self.count == other.first
    }
}

impl<U: Units> Segment<U> {
    /// Whether few units are copied when the other one's are put behind these: not many more than the smaller one has.
    fn is_cheap_with(&self, other: &Self) -> bool {
        // What is in memory can be counted in a usize.
        let copied = match self.units.has_room(other.count as usize) {
            true => other.count,
            false => self.count + other.count,
        };
        copied <= CHEAP * self.count.min(other.count)
    }
}

/// Units that are being done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::loops) struct UnitBlock {
    pub(in crate::loops) range: Range<u64>,
}

impl UnitBlock {
    pub(super) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// See the module's page. A *time* is one unit done once: a unit that is to be done in three more passes is three times.
#[derive(Debug)]
pub(super) struct UnitQueue<U> {
    segments: Vec<Segment<U>>,
    /// The segment of the block that is being done. Only in it some units have been done more often than others.
    current: usize,
    held: u64,
    undone: u64,
    /// Segments have come since neighbours were last put together.
    loose: bool,
}

impl<U: Units> UnitQueue<U> {
    pub(super) fn new() -> Self {
        UnitQueue { segments: Vec::new(), current: 0, held: 0, undone: 0, loose: false }
    }

    /// Units that are here.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// How many times they are still to be done, all together.
    pub(super) fn undone(&self) -> u64 {
        self.undone
    }

    /// How often the unit that is done next is still to be done.
    pub(super) fn left(&self) -> u64 {
        self.segments.get(self.current).map_or(0, |segment| segment.left)
    }

    /// Takes units in. None at all are passed over.
    pub(super) fn receive(&mut self, segment: Segment<U>) {
        if segment.count > 0 {
            self.held += segment.count;
            self.undone += segment.undone();
            self.segments.push(segment);
            self.loose = true;
        }
    }

    /// Every unit is to be done `times` times.
    pub(super) fn begin(&mut self, times: u64) {
        self.segments.iter_mut().for_each(|segment| (segment.left, segment.done) = (times, 0));
        self.undone = self.held * times;
        self.put_together();
    }

    /// Neighbours that are to be done equally often become one, so that blocks need not end between them, where that takes no
    /// longer than it is worth: after each movement most units of a rank would be copied otherwise.
    fn put_together(&mut self) {
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

    /// The next units to be done, at most `most` of them: those of the segment that is being done, and then of the first of
    /// those that have been done least often.
    pub(super) fn next(&mut self, most: u64) -> Option<UnitBlock> {
        if self.segments.get(self.current).is_none_or(|segment| segment.done == 0) {
            let left = self.segments.iter().map(|segment| segment.left).max().filter(|left| *left > 0)?;
            // In the last pass, or the only one, what comes is done as it came.
            if self.loose && left > 1 && self.segments.iter().all(|segment| segment.left == left) {
                self.put_together();
            }
            self.current = self.segments.iter().position(|segment| segment.left == left)?;
        }
        let segment = &self.segments[self.current];
        let first = segment.first + segment.done;
        Some(UnitBlock { range: first..first + (segment.count - segment.done).min(most.max(1)) })
    }

    /// Takes out the data of the segment of the block that [`next`](UnitQueue::next) has given, for user code, and says where in them
    /// the block begins. The queue stays as it is until they are [put back](UnitQueue::put_back).
    pub(super) fn take_out(&mut self, block: &UnitBlock) -> Option<(U, usize)> {
        let segment = self.segments.get_mut(self.current)?;
        let from = block.range.start.checked_sub(segment.first)?;
        // What is in memory can be counted in a usize.
        Some((std::mem::replace(&mut segment.units, U::empty()), from as usize))
    }

    /// User code is done with these data.
    pub(super) fn put_back(&mut self, units: U) {
        if let Some(segment) = self.segments.get_mut(self.current) {
            segment.units = units;
        }
    }

    /// The block that [`next`](UnitQueue::next) has given is done.
    pub(super) fn finished(&mut self, block: &UnitBlock) {
        if let Some(segment) = self.segments.get_mut(self.current) {
            segment.go_on(block.len());
            self.undone -= block.len();
        }
    }

    /// Takes units out that have been done least often, off the back, until they make up `times` times; fewer if there are no
    /// more, and up to half a unit more or less.
    pub(super) fn take_back(&mut self, mut times: u64) -> Vec<Segment<U>> {
        let mut shipped = Vec::new();
        while times > 0 {
            // The last one of those.
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
                // What is in memory can be counted in a usize.
                let back = segment.units.split_off(segment.count as usize);
                shipped.push(Segment::new(segment.first + segment.count, take, back).due(left));
                segment.go_on(0);
            }
            times = times.saturating_sub(take * left);
            self.undone -= take * left;
            self.held -= take;
        }
        shipped
    }

    /// All segments.
    pub(super) fn segments(&self) -> impl Iterator<Item = &Segment<U>> {
        self.segments.iter()
    }
}

#[cfg(test)]
#[path = "unit_queue_tests.rs"]
mod tests;
