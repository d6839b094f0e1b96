//! Contents of the buffer of one processor, which holds files outside of its memory, over time.

use super::moment::Moment;

/// Bytes in a buffer as a step function of time. Files are added for intervals of time in any order, because a list scheduler places tasks in the
/// order of its list.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    /// For each point in time at which the contents change, the bytes in the buffer from then on; sorted by time, and 0 bytes before the first entry.
    steps: Vec<(Moment, u64)>,
    /// Upper bound of the bytes in the buffer at any time, which answers most queries without a look at the steps.
    bound: u64,
}

impl Buffer {
    fn most_from(&self, from: f64) -> u64 {
        let first = self.steps.partition_point(|&(at, _)| at.0 <= from);
        self.steps[first.saturating_sub(1)..].iter().map(|&(_, bytes)| bytes).max().unwrap_or(0)
    }

    pub(super) fn fits(&self, from: f64, bytes: u64, capacity: u64) -> bool {
        let within = |held: u64| held.checked_add(bytes).is_some_and(|sum| sum <= capacity);
        within(self.bound) || within(self.most_from(from))
    }

    pub(super) fn hold(&mut self, from: f64, to: f64, bytes: u64) {
        if bytes == 0 || from >= to {
            return;
        }
        let (first, last) = self.interval(from, to);
        for (_, held) in &mut self.steps[first..last] {
            *held += bytes;
            self.bound = self.bound.max(*held);
        }
    }

    pub(super) fn release(&mut self, from: f64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let (first, last) = self.interval(from, f64::INFINITY);
        for (_, held) in &mut self.steps[first..last] {
            *held -= bytes;
        }
    }

    fn interval(&mut self, from: f64, to: f64) -> (usize, usize) {
        let first = self.step(from);
        let last = if to == f64::INFINITY { self.steps.len() } else { self.step(to) };
        (first, last)
    }

    fn step(&mut self, at: f64) -> usize {
        let next = self.steps.partition_point(|&(other, _)| other.0 < at);
        if self.steps.get(next).is_none_or(|&(other, _)| other.0 != at) {
            let held = if next == 0 { 0 } else { self.steps[next - 1].1 };
            self.steps.insert(next, (Moment(at), held));
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_files_are_summed() {
        let mut buffer = Buffer::default();
        buffer.hold(5.0, 9.0, 10);
        buffer.hold(1.0, 6.0, 7);
        assert_eq!(buffer.most_from(0.0), 17);
        assert_eq!(buffer.most_from(6.0), 10);
        assert_eq!(buffer.most_from(9.0), 0);
        assert!(buffer.fits(0.0, 3, 20) && !buffer.fits(0.0, 4, 20) && buffer.fits(7.0, 10, 20));
    }

    #[test]
    fn indefinitely_held_file_can_be_released() {
        let mut buffer = Buffer::default();
        buffer.hold(2.0, f64::INFINITY, 5);
        buffer.hold(4.0, 8.0, 1);
        assert_eq!(buffer.most_from(10.0), 5);
        buffer.release(6.0, 5);
        assert_eq!((buffer.most_from(2.0), buffer.most_from(6.0), buffer.most_from(8.0)), (6, 1, 0));
    }

    #[test]
    fn empty_interval_holds_nothing() {
        let mut buffer = Buffer::default();
        buffer.hold(2.0, 2.0, 5);
        assert_eq!(buffer.most_from(0.0), 0);
        assert!(!buffer.fits(0.0, u64::MAX, 5));
    }
}
