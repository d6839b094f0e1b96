//! How much may be between the iterator and the sink: tasks and results, in bytes.
//!
//! What is there is counted: tasks as they were encoded, results as they came. What is still to come is expected to be as
//! large as the largest so far, so that the bound holds where sizes differ. The size of a type that owns no memory is that of
//! the type; of others nothing is known before the first one, and until then each worker has one task.

/// Tasks with fewer bytes are small: the time that they cost is not that of their bytes.
const SMALL: f64 = 4096.0;

/// The largest so far of its kind, in bytes.
#[derive(Clone, Copy, Debug)]
struct Largest {
    bytes: f64,
    known: bool,
}

impl Largest {
    fn of<T>() -> Self {
        // A value in memory, or on the wire, has a byte at least.
        Largest { bytes: size_of::<T>().max(1) as f64, known: !std::mem::needs_drop::<T>() }
    }

    /// `count` of them had `bytes` bytes together.
    fn see(&mut self, count: u64, bytes: u64) {
        if count > 0 {
            self.bytes = self.bytes.max(bytes as f64 / count as f64);
            self.known = true;
        }
    }
}

/// Tasks that are not at the sink yet, as others count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// Tasks that somebody has.
    pub(crate) out: u64,
    /// Tasks that have come back and wait for somebody.
    pub(crate) back: u64,
    /// Bytes of results that wait for those of earlier tasks.
    pub(crate) early: u64,
    /// Tasks and bytes of results that are due and not at the sink yet.
    pub(crate) due: (u64, u64),
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Window {
    window: u64,
    /// Bytes of tasks that somebody has.
    out: u64,
    task: Largest,
    result: Largest,
}

impl Window {
    /// For tasks `I` and results `O`, which may take `window` bytes.
    pub(crate) fn new<I, O>(window: usize) -> Self {
        Window { window: window as u64, out: 0, task: Largest::of::<I>(), result: Largest::of::<O>() }
    }

    /// `tasks` tasks of `bytes` bytes were given to somebody.
    pub(crate) fn gave(&mut self, tasks: u64, bytes: usize) {
        self.out += bytes as u64;
        self.task.see(tasks, bytes as u64);
    }

    /// They are done, or come back.
    pub(crate) fn returned(&mut self, bytes: usize) {
        self.out = self.out.saturating_sub(bytes as u64);
    }

    /// `results` results of `bytes` bytes have come.
    pub(crate) fn got(&mut self, results: u64, bytes: usize) {
        self.result.see(results, bytes as u64);
    }

    /// Whether sizes of tasks and results are known.
    pub(crate) fn is_sure(&self) -> bool {
        self.task.known && self.result.known
    }

    /// Whether no task so far was large.
    pub(crate) fn are_small(&self) -> bool {
        self.task.known && self.task.bytes < SMALL
    }

    /// Bytes that are left.
    pub(crate) fn bytes_left(&self, in_flight: InFlight) -> u64 {
        let InFlight { out, back, early, due } = in_flight;
        let (task, result) = (self.task.bytes, self.result.bytes);
        let expected = out as f64 * result + back as f64 * (task + result);
        self.window.saturating_sub(
            self.out.saturating_add(early).saturating_add(due.1).saturating_add(expected as u64),
        )
    }

    /// Tasks that may be drawn. One always may be if no other is on its way: what waits for it takes no more than the bound.
    pub(crate) fn room(&self, in_flight: InFlight) -> u64 {
        let room = (self.bytes_left(in_flight) as f64 / (self.task.bytes + self.result.bytes)) as u64;
        let room = if self.is_sure() { room } else { room.min(1) };
        if in_flight.out + in_flight.back + in_flight.due.0 == 0 { room.max(1) } else { room }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_flight(out: u64, back: u64, early: u64) -> InFlight {
        InFlight { out, back, early, due: (0, 0) }
    }

    #[test]
    fn types_without_memory_of_their_own_are_known_at_once() {
        let window = Window::new::<u64, u64>(1600);
        assert_eq!((window.is_sure(), window.room(in_flight(0, 0, 0))), (true, 100));
        let window = Window::new::<u64, String>(1 << 20);
        assert_eq!((window.is_sure(), window.room(in_flight(0, 0, 0))), (false, 1), "anything may come");
        assert_eq!(Window::new::<u64, u64>(3).room(in_flight(0, 0, 0)), 1, "one is always allowed");
    }

    #[test]
    fn what_is_there_is_counted_and_what_comes_is_expected_to_be_large() {
        let mut window = Window::new::<Vec<u8>, Vec<u8>>(10_000);
        window.gave(2, 200);
        assert!(!window.is_sure());
        window.got(1, 900);
        assert_eq!((window.room(in_flight(2, 0, 0)), window.bytes_left(in_flight(2, 0, 0))), (8, 8_000));
        window.got(10, 10);
        assert_eq!(window.room(in_flight(2, 0, 0)), 8, "the largest counts");
        assert_eq!((window.room(in_flight(2, 3, 0)), window.room(in_flight(2, 0, 7_500))), (5, 0));
        window.returned(200);
        assert_eq!((window.room(in_flight(0, 0, 9_999)), window.room(in_flight(0, 1, 9_999))), (1, 0));
        window.got(1, 20_000);
        assert_eq!((window.room(in_flight(0, 0, 0)), window.room(in_flight(1, 0, 0))), (1, 0));
    }
}
