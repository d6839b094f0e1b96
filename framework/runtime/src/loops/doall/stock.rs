//! The units that a rank has, in segments of neighbouring ones.

use std::collections::VecDeque;
use std::ops::Range;

use crate::loops::units::Units;

/// Segments are put together if at most so many times as many units are copied as the smaller one has. …
const CHEAP: u64 = 4;
/// … But more than so many pairs of neighbours are not left: each costs a block that is shorter than it could be.
const MOST_JOINTS: usize = 16;

/// Neighbouring units. Those from the front are done first and those from the back leave first, so that the ones that are
/// done in this pass are always at the front.
#[derive(Debug)]
pub(in crate::loops) struct Segment<U> {
    pub(in crate::loops) first: u64,
    pub(in crate::loops) count: u64,
    /// How many are done in this pass, from the front.
    done: u64,
    pub(in crate::loops) units: U,
}

impl<U> Segment<U> {
    /// Units that are not done yet.
    pub(in crate::loops) fn new(first: u64, count: u64, units: U) -> Self {
        Segment { first, count, done: 0, units }
    }

    fn left(&self) -> u64 {
        self.count - self.done
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
pub(in crate::loops) struct Block {
    pub(in crate::loops) range: Range<u64>,
}

impl Block {
    pub(super) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Stock<U> {
    segments: VecDeque<Segment<U>>,
    /// The first segment with units that are not done.
    current: usize,
    held: u64,
    undone: u64,
}

impl<U: Units> Stock<U> {
    pub(super) fn new() -> Self {
        Stock { segments: VecDeque::new(), current: 0, held: 0, undone: 0 }
    }

    /// Units that are here.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Those of them that are not done in this pass.
    pub(super) fn undone(&self) -> u64 {
        self.undone
    }

    /// Takes in units that are not done yet. None at all are passed over.
    pub(super) fn receive(&mut self, segment: Segment<U>) {
        if segment.count > 0 {
            self.held += segment.count;
            self.undone += segment.left();
            self.segments.push_back(segment);
        }
    }

    /// Every unit is to be done again. Neighbours become one, so that blocks need not end between them, where that takes no
    /// longer than it is worth: after each movement most units of a rank would be copied otherwise.
    pub(super) fn begin_pass(&mut self) {
        let mut segments: Vec<_> = self.segments.drain(..).collect();
        segments.sort_by_key(|segment| segment.first);
        let joints = segments.windows(2).filter(|pair| pair[0].is_before(&pair[1])).count();
        for mut segment in segments {
            segment.done = 0;
            match self.segments.back_mut() {
                Some(last)
                    if last.is_before(&segment) && (joints > MOST_JOINTS || last.is_cheap_with(&segment)) =>
                {
                    last.count += segment.count;
                    last.units.append(segment.units);
                }
                _ => self.segments.push_back(segment),
            }
        }
        self.current = 0;
        self.undone = self.held;
    }

    /// The next units to be done, at most `most` of them.
    pub(super) fn next(&mut self, most: u64) -> Option<Block> {
        while self.segments.get(self.current)?.left() == 0 {
            self.current += 1;
        }
        let segment = &self.segments[self.current];
        let first = segment.first + segment.done;
        Some(Block { range: first..first + segment.left().min(most.max(1)) })
    }

    /// The data of the block that [`next`](Stock::next) has given.
    pub(super) fn slices(&mut self, block: &Block) -> Option<U::Slices<'_>> {
        let segment = self.segments.get_mut(self.current)?;
        let from = block.range.start.checked_sub(segment.first)?;
        // What is in memory can be counted in a usize.
        let units = from as usize..(from + block.len()) as usize;
        Some(segment.units.slices(units))
    }

    /// The block that [`next`](Stock::next) has given is done.
    pub(super) fn finished(&mut self, block: &Block) {
        if let Some(segment) = self.segments.get_mut(self.current) {
            segment.done += block.len();
            self.undone -= block.len();
        }
    }

    /// Takes units that are not done off the back, at most so many.
    pub(super) fn ship(&mut self, mut units: u64) -> Vec<Segment<U>> {
        let mut shipped = Vec::new();
        while units > 0 && self.undone > 0 {
            let Some(mut segment) = self.segments.pop_back() else { break };
            let take = units.min(segment.left());
            if take == segment.count {
                shipped.push(segment);
            } else {
                segment.count -= take;
                // What is in memory can be counted in a usize.
                let back = segment.units.split_off(segment.count as usize);
                shipped.push(Segment::new(segment.first + segment.count, take, back));
                self.segments.push_back(segment);
            }
            units -= take;
            self.undone -= take;
            self.held -= take;
        }
        self.current = self.current.min(self.segments.len());
        shipped
    }

    /// All segments.
    pub(super) fn segments(&self) -> impl Iterator<Item = &Segment<U>> {
        self.segments.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::Rows;

    fn segment(units: Range<u64>) -> Segment<Rows<u64>> {
        let rows = Rows::from_fn(units.clone(), 2, |unit, row| row.fill(unit));
        Segment::new(units.start, units.end - units.start, rows)
    }

    fn firsts(stock: &Stock<Rows<u64>>) -> Vec<(u64, u64)> {
        stock.segments().map(|s| (s.first, s.count)).collect()
    }

    #[test]
    fn a_few_units_do_not_make_many_be_copied() {
        let mut stock = Stock::new();
        stock.receive(segment(100..600));
        // As if they had come from a rank with lower numbers, and gone to one.
        stock.receive(segment(90..100));
        stock.begin_pass();
        assert_eq!(firsts(&stock), [(90, 10), (100, 500)]);
        let gone = stock.ship(20);
        assert_eq!((gone.len(), stock.held()), (1, 490));
        // What comes back finds its place.
        gone.into_iter().for_each(|segment| stock.receive(segment));
        stock.begin_pass();
        assert_eq!(firsts(&stock), [(90, 10), (100, 500)]);
        // Few units and few become one; …
        stock.receive(segment(80..90));
        stock.begin_pass();
        assert_eq!(firsts(&stock), [(80, 20), (100, 500)]);
        // … and so do all if there are too many pieces of them.
        let mut first = 600;
        for count in [1, 50].into_iter().cycle().take(16) {
            stock.receive(segment(first..first + count));
            first += count;
        }
        stock.begin_pass();
        assert_eq!((firsts(&stock), stock.undone()), (vec![(80, first - 80)], first - 80));
        let all = stock.next(u64::MAX).unwrap();
        let values = stock.slices(&all).unwrap().iter().copied().step_by(2);
        assert!(values.eq(80..first));
    }

    #[test]
    fn units_are_done_from_the_front_and_leave_from_the_back() {
        let mut stock = Stock::new();
        stock.receive(segment(10..16));
        stock.receive(segment(0..0));
        stock.receive(segment(2..5));
        assert_eq!((stock.held(), stock.undone()), (9, 9));
        let block = stock.next(4).unwrap();
        assert_eq!(block.range, 10..14);
        assert_eq!(stock.slices(&block).unwrap(), [10, 10, 11, 11, 12, 12, 13, 13]);
        stock.finished(&block);
        let shipped: Vec<_> = stock.ship(4).into_iter().map(|s| (s.first, s.units.into_values())).collect();
        assert_eq!(shipped, [(2, vec![2, 2, 3, 3, 4, 4]), (15, vec![15, 15])]);
        assert_eq!((stock.held(), stock.undone()), (5, 1));
        let block = stock.next(4).unwrap();
        assert_eq!((block.range.clone(), stock.slices(&block).unwrap().to_vec()), (14..15, vec![14, 14]));
        stock.finished(&block);
        assert_eq!((stock.next(1), stock.undone()), (None, 0));
        assert!(stock.ship(3).is_empty(), "what is done stays in this pass");
        stock.receive(segment(16..18));
        assert_eq!(stock.next(9).unwrap().range, 16..18);
        stock.begin_pass();
        // Unit 15 has gone, so these are not neighbours.
        assert_eq!((firsts(&stock), stock.undone()), (vec![(10, 5), (16, 2)], 7));
        stock.receive(segment(15..16));
        stock.begin_pass();
        assert_eq!((firsts(&stock), stock.undone()), (vec![(10, 8)], 8));
        let block = stock.next(8).unwrap();
        assert_eq!(stock.slices(&block).unwrap()[10..], [15, 15, 16, 16, 17, 17]);
        assert_eq!(stock.ship(100).len(), 1);
        assert_eq!((stock.held(), stock.undone(), stock.next(1)), (0, 0, None));
    }
}
