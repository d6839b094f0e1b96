//! What the master measures of the traffic, and the few sizes that follow from it.

use std::time::Duration;

use armature_planner::farm::MessageCosts;

/// The weight of a new value in a running mean.
const FRESH: f64 = 0.125;
/// The time for which workers are to have work beyond the chunk in hand: the master may sleep, or compute, for so
/// long before it answers.
const ANSWER: f64 = 2e-3;
/// Chunks that are asked for ahead at most.
const MOST_AHEAD: u32 = 8;
/// Bytes of a chunk, or of its results, beyond which a larger one costs no less for a task: the time of a message is
/// that of its bytes by then, and the memory of several chunks does not fit the caches any more. It is so much that plain
/// data travel as a part of their own, without being copied.
pub(crate) const ENOUGH_BYTES: f64 = 96.0 * 1024.0;
/// What a master that computes on its communicating thread does before it looks at its messages again.
const OWN_GRAIN: f64 = 100e-6;

/// The start-up time of a message before any was measured, in seconds: that of shared memory with both ends awake.
const START_UP: f64 = 2e-6;
/// The time for a byte, which is not measured: that of one copy through memory, in seconds. On a network the bytes of
/// small messages count as start-up time.
const PER_BYTE: f64 = 2.5e-10;
/// How fast the shortest exchange is forgotten.
const FORGET: f64 = 1.02;

/// Running means of sizes and times.
#[derive(Debug)]
pub(crate) struct TrafficStats {
    /// Seconds of a chunk at its worker.
    chunk_time: Option<f64>,
    /// Seconds of a task on rank 0.
    own_task: Option<f64>,
    /// Bytes of a task and of a result, on the wire or in memory, whichever is more.
    task_bytes: f64,
    result_bytes: f64,
    /// Tasks in the last chunk that was given away, and in rank 0's last one.
    last_chunk: u64,
    own_chunk: u64,
    /// Seconds of a message from one rank to the other beside its bytes, as the fastest exchange had it.
    one_way: Option<f64>,
    /// Seconds that making and sending a message keeps rank 0 busy, as the fastest had it.
    sending: Option<f64>,
}

/// The shortest time so far, forgotten slowly.
fn shortest(old: Option<f64>, new: f64) -> f64 {
    old.map_or(new, |old| new.min(old * FORGET))
}

fn mean(old: Option<f64>, new: f64) -> Option<f64> {
    Some(old.map_or(new, |old| old + FRESH * (new - old)))
}

impl TrafficStats {
    /// Nothing measured: tasks and results have these sizes in memory.
    pub(crate) fn new(task_size: usize, result_size: usize) -> Self {
        TrafficStats {
            chunk_time: None,
            own_task: None,
            task_bytes: task_size.max(1) as f64,
            result_bytes: result_size.max(1) as f64,
            last_chunk: 1,
            own_chunk: 1,
            one_way: None,
            sending: None,
        }
    }

    /// A chunk of `tasks` was given away that has `bytes`.
    pub(crate) fn gave(&mut self, tasks: u64, bytes: usize) {
        self.last_chunk = tasks.max(1);
        let each = bytes as f64 / tasks.max(1) as f64;
        // Up at once, down slowly: the memory of a chunk is bounded by it.
        self.task_bytes = each.max(self.task_bytes + FRESH * (each - self.task_bytes));
    }

    /// Rank 0 has taken a chunk of `tasks` for itself.
    pub(crate) fn kept(&mut self, tasks: u64) {
        self.own_chunk = tasks.max(1);
    }

    /// A chunk's result has come from another rank.
    pub(crate) fn got(&mut self, tasks: u64, took: Duration, bytes: usize) {
        self.chunk_time = mean(self.chunk_time, took.as_secs_f64());
        self.made(tasks, bytes);
    }

    /// `tasks` tasks have results of `bytes` bytes.
    pub(crate) fn made(&mut self, tasks: u64, bytes: usize) {
        let each = bytes as f64 / tasks.max(1) as f64;
        self.result_bytes = each.max(self.result_bytes + FRESH * (each - self.result_bytes));
    }

    /// A chunk of `tasks` was done on rank 0.
    pub(crate) fn own(&mut self, tasks: u64, took: Duration) {
        self.own_task = mean(self.own_task, took.as_secs_f64() / tasks.max(1) as f64);
    }

    /// A chunk went to a worker that had nothing else to do; until its result came, `beside` has passed beside the time
    /// of the chunk itself. Often the master was busy meanwhile, so that the shortest time counts; it is forgotten slowly.
    pub(crate) fn exchanged(&mut self, beside: Duration) {
        self.one_way = Some(shortest(self.one_way, beside.as_secs_f64() / 2.0));
    }

    /// A message to a worker, or to a sub-master, was made and sent within `took`.
    pub(crate) fn sent(&mut self, took: Duration) {
        self.sending = Some(shortest(self.sending, took.as_secs_f64()));
    }

    /// For how long a message keeps its sender busy, as far as it has been measured, where chunks go out by
    /// `ports` ranks at a time: those of sub-masters, or that of rank 0.
    pub(crate) fn messages(&self, ports: usize) -> MessageCosts {
        let sending = self.sending.or(self.one_way).unwrap_or(START_UP);
        MessageCosts::new(sending / ports.max(1) as f64, PER_BYTE)
    }

    /// Seconds that a message is on its way while its sender can go on.
    pub(crate) fn latency(&self) -> f64 {
        match (self.one_way, self.sending) {
            (Some(one_way), Some(sending)) => (one_way - sending).max(0.0),
            _ => 0.0,
        }
    }

    pub(crate) fn task_bytes(&self) -> f64 {
        self.task_bytes
    }

    pub(crate) fn result_bytes(&self) -> f64 {
        self.result_bytes
    }

    /// Tasks beyond which a larger chunk saves nothing.
    pub(crate) fn enough(&self) -> u64 {
        (ENOUGH_BYTES / self.task_bytes.max(self.result_bytes)).ceil() as u64
    }

    /// Chunks that a worker should hold beyond the one in hand, where `left` tasks (if that is known) are still to be
    /// given to `workers`: as many as it does while the master does not answer, but no more than its share.
    pub(crate) fn ahead(&self, left: Option<u64>, workers: usize) -> u32 {
        let wanted = match self.chunk_time {
            Some(time) if time > 0.0 => (ANSWER / time).ceil().min(f64::from(MOST_AHEAD)) as u32,
            Some(_) => MOST_AHEAD,
            None => 1,
        };
        let share = left.map_or(MOST_AHEAD.into(), |left| left / (workers.max(1) as u64 * self.last_chunk));
        wanted.max(1).min(u32::try_from(share).unwrap_or(MOST_AHEAD))
    }

    /// Whether rank 0 may take another chunk while it has one: not if the others of all `workers` would go short.
    pub(crate) fn spares_another(&self, left: Option<u64>, workers: usize) -> bool {
        left.is_none_or(|left| left >= (workers as u64).saturating_mul(self.own_chunk))
    }

    /// Tasks that rank 0 does in one go on the thread that communicates.
    pub(crate) fn own_grain(&self) -> u64 {
        match self.own_task {
            Some(time) => ((OWN_GRAIN / time.max(1e-12)) as u64).max(1),
            None => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_chunks_are_asked_for_ahead_and_the_last_ones_are_shared() {
        let mut traffic = TrafficStats::new(8, 8);
        assert_eq!(traffic.ahead(None, 4), 1, "nothing is known");
        traffic.gave(10, 80);
        traffic.got(10, Duration::from_micros(500), 80);
        assert_eq!(
            (traffic.ahead(None, 4), traffic.ahead(Some(1000), 4), traffic.ahead(Some(100), 4)),
            (4, 4, 2)
        );
        assert_eq!((traffic.ahead(Some(39), 4), traffic.ahead(Some(0), 0)), (0, 0));
        (0..100).for_each(|_| traffic.got(10, Duration::from_millis(50), 80));
        assert_eq!(traffic.ahead(None, 4), 1);
        (0..200).for_each(|_| traffic.got(10, Duration::from_micros(1), 80));
        assert_eq!(traffic.ahead(None, 4), MOST_AHEAD);
    }

    #[test]
    fn rank_0_takes_a_second_chunk_only_if_there_is_one_for_all() {
        let mut traffic = TrafficStats::new(8, 8);
        traffic.kept(50);
        let spares = |left| traffic.spares_another(left, 2);
        assert_eq!([None, Some(100), Some(99)].map(spares), [true, true, false]);
    }

    #[test]
    fn wide_tasks_make_chunks_small() {
        let mut traffic = TrafficStats::new(8, 8);
        traffic.gave(2, 2000);
        traffic.got(1, Duration::ZERO, 600);
        assert_eq!(traffic.enough(), 99);
    }

    #[test]
    fn the_shortest_exchange_counts() {
        let mut traffic = TrafficStats::new(8, 8);
        let start_up = |traffic: &TrafficStats| traffic.messages(1).start_up.of(0.0);
        assert_eq!((start_up(&traffic), traffic.latency()), (START_UP, 0.0));
        traffic.exchanged(Duration::from_micros(300));
        traffic.exchanged(Duration::from_micros(100));
        assert_eq!(start_up(&traffic), 50e-6);
        (0..100).for_each(|_| traffic.exchanged(Duration::from_micros(300)));
        assert_eq!((start_up(&traffic), traffic.latency()), (150e-6, 0.0), "the network has become slower");
        traffic.sent(Duration::from_micros(20));
        traffic.sent(Duration::from_micros(30));
        assert!((traffic.latency() - 130e-6).abs() < 1e-6, "what is on its way keeps nobody busy");
        assert!(start_up(&traffic) < 21e-6 && traffic.messages(4).start_up.of(0.0) < 5.25e-6);
    }

    #[test]
    fn rank_0_does_as_much_as_fits_between_two_looks() {
        let mut traffic = TrafficStats::new(8, 8);
        assert_eq!(traffic.own_grain(), 1);
        traffic.own(1000, Duration::from_micros(1000));
        assert_eq!(traffic.own_grain(), 100);
        traffic.own(1, Duration::from_secs(1));
        assert_eq!(traffic.own_grain(), 1);
    }
}
