//! Limit on the bytes of tasks and results between the iterator and the sink.
//!
//! Tasks count with their encoded size, and results with their size at arrival. A task that is not drawn yet, or a result that has not arrived,
//! counts as the largest one so far. A type that owns no memory has its size in memory. The size of other types is not known before the first value;
//! until then each worker has one task.

use crate::wire::erased::Shape;

/// Size in bytes below which tasks count as small: the time to handle a small task does not depend on its size.
const SMALL: f64 = 4096.0;

#[derive(Clone, Copy, Debug)]
struct Largest {
    bytes: f64,
    known: bool,
}

impl Largest {
    fn of(shape: Shape) -> Self {
        // A size counts as at least one byte, also for types of size 0, because the limit of bytes is divided by it.
        Largest { bytes: shape.size.max(1) as f64, known: !shape.owns }
    }

    /// Updates the largest size of a value (task or result) with `count` values of `bytes` bytes in total.
    fn see(&mut self, count: u64, bytes: u64) {
        if count > 0 {
            self.bytes = self.bytes.max(bytes as f64 / count as f64);
            self.known = true;
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub(crate) out: u64,
    pub(crate) back: u64,
    pub(crate) early: u64,
    /// Number and bytes of the results that the sink could receive now (no earlier result is missing) and has not received.
    pub(crate) due: (u64, u64),
}

#[derive(Debug)]
pub(crate) struct Window {
    window: u64,
    out: u64,
    task: Largest,
    result: Largest,
}

impl Window {
    pub(crate) fn new(window: usize, [task, result]: [Shape; 2]) -> Self {
        Window { window: window as u64, out: 0, task: Largest::of(task), result: Largest::of(result) }
    }

    pub(crate) fn dispatched(&mut self, tasks: u64, bytes: usize) {
        self.out += bytes as u64;
        self.task.see(tasks, bytes as u64);
    }

    pub(crate) fn returned(&mut self, bytes: usize) {
        self.out = self.out.saturating_sub(bytes as u64);
    }

    pub(crate) fn received(&mut self, results: u64, bytes: usize) {
        self.result.see(results, bytes as u64);
    }

    /// Returns true if the sizes of a task and of a result are known: from a first value, or because the type owns no memory.
    pub(crate) fn is_sure(&self) -> bool {
        self.task.known && self.result.known
    }

    /// Returns true if the size of tasks is known and no task so far was large.
    pub(crate) fn are_small(&self) -> bool {
        self.task.known && self.task.bytes < SMALL
    }

    pub(crate) fn bytes_left(&self, in_flight: InFlight) -> u64 {
        let InFlight { out, back, early, due } = in_flight;
        let (task, result) = (self.task.bytes, self.result.bytes);
        let expected = out as f64 * result + back as f64 * (task + result);
        self.window.saturating_sub(
            self.out.saturating_add(early).saturating_add(due.1).saturating_add(expected as u64),
        )
    }

    /// Returns the number of tasks that may be drawn from the source. It is at least 1 if no task is dispatched or requeued and the sink has
    /// received all results except those that wait for an earlier task: otherwise the run could not continue.
    pub(crate) fn room(&self, in_flight: InFlight) -> u64 {
        let room = (self.bytes_left(in_flight) as f64 / (self.task.bytes + self.result.bytes)) as u64;
        let room = if self.is_sure() { room } else { room.min(1) };
        if in_flight.out + in_flight.back + in_flight.due.0 == 0 { room.max(1) } else { room }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<I, O>(bytes: usize) -> Window {
        Window::new(bytes, [Shape::of::<I>(), Shape::of::<O>()])
    }

    fn in_flight(out: u64, back: u64, early: u64) -> InFlight {
        InFlight { out, back, early, due: (0, 0) }
    }

    #[test]
    fn sizes_of_plain_types_are_known_immediately() {
        let window = of::<u64, u64>(1600);
        assert_eq!((window.is_sure(), window.room(in_flight(0, 0, 0))), (true, 100));
        let window = of::<u64, String>(1 << 20);
        assert_eq!((window.is_sure(), window.room(in_flight(0, 0, 0))), (false, 1), "anything may come");
        assert_eq!(of::<u64, u64>(3).room(in_flight(0, 0, 0)), 1, "one is always allowed");
    }

    #[test]
    fn expected_results_count_with_the_largest_size() {
        let mut window = of::<Vec<u8>, Vec<u8>>(10_000);
        window.dispatched(2, 200);
        assert!(!window.is_sure());
        window.received(1, 900);
        assert_eq!((window.room(in_flight(2, 0, 0)), window.bytes_left(in_flight(2, 0, 0))), (8, 8_000));
        window.received(10, 10);
        assert_eq!(window.room(in_flight(2, 0, 0)), 8, "the largest counts");
        assert_eq!((window.room(in_flight(2, 3, 0)), window.room(in_flight(2, 0, 7_500))), (5, 0));
        window.returned(200);
        assert_eq!((window.room(in_flight(0, 0, 9_999)), window.room(in_flight(0, 1, 9_999))), (1, 0));
        window.received(1, 20_000);
        assert_eq!((window.room(in_flight(0, 0, 0)), window.room(in_flight(1, 0, 0))), (1, 0));
    }
}
