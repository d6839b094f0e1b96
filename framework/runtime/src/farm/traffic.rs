//! Measurements of a farm's messages, and limits of the number and size of chunks that follow from them.

use std::time::Duration;

use armature_planner::farm::{Knowledge, MessageCosts};

/// Weight of a new measurement in the moving averages of the times and sizes of tasks and chunks.
const FRESH: f64 = 0.125;
/// Time in seconds for which workers should have chunks in addition to the running one. Within this time the master may sleep or compute before it
/// answers the request for another chunk.
const ANSWER: f64 = 2e-3;
const MOST_AHEAD: u32 = 8;
/// Size in bytes of a chunk, or of its results, beyond which a larger chunk does not reduce the cost per task: the time of a message is then
/// proportional to its bytes, and several chunks do not fit into the caches. Messages of this size are large enough for plain data to be sent without
/// a copy.
pub(crate) const ENOUGH_BYTES: f64 = 96.0 * 1024.0;
/// Time in seconds for which rank 0 runs tasks on the communicating thread between two polls for messages.
const OWN_GRAIN: f64 = 100e-6;

/// Number of chunks that a sub-master holds ahead for each member, below which the members themselves hold none: a chunk takes longer than 20 ms. A
/// sub-master runs no tasks and answers within 0.2 ms, of which a member loses one per cent. If members held long chunks ahead, others would have none
/// at the end: tasks of 10 ms on 1,000 simulated workers took 1.07 times as long.
const LEAST_OF_MEMBERS: f64 = 0.1;

/// Assumed start-up time of a message in seconds, before it is measured: that of shared memory if both ranks are awake.
const START_UP: f64 = 2e-6;
/// Assumed transfer time per byte, in seconds: that of one copy through memory. A network needs more time per byte, but for small messages the
/// measured start-up time includes it.
const PER_BYTE: f64 = 2.5e-10;
/// Factor by which the shortest measured time is increased with each new measurement, so that old measurements lose their weight.
const FORGET: f64 = 1.02;

#[derive(Debug)]
pub(crate) struct TrafficStats {
    /// Moving average of the time of a task on a worker, in seconds.
    task_time: Option<f64>,
    own_task: Option<f64>,
    /// Estimated bytes of a task and of a result: at first the size in memory, then a mean that rises at once and falls slowly.
    task_bytes: f64,
    result_bytes: f64,
    /// Number of tasks in the last chunk for another rank; `own_chunk` counts those in the last chunk that rank 0 took for itself.
    last_chunk: u64,
    own_chunk: u64,
    /// Time in seconds of a message from one rank to another, half of the fastest round trip.
    one_way: Option<f64>,
    /// Shortest measured time in seconds for which making and sending one message occupies rank 0.
    sending: Option<f64>,
}

/// Returns the shorter of two times. The old one is first increased by the factor [`FORGET`], so that a short measurement is not kept
/// forever.
fn shortest(old: Option<f64>, new: f64) -> f64 {
    old.map_or(new, |old| new.min(old * FORGET))
}

fn mean(old: Option<f64>, new: f64) -> Option<f64> {
    Some(old.map_or(new, |old| old + FRESH * (new - old)))
}

/// Returns the number of chunks that a member of a sub-master holds in addition to the running one, if the sub-master holds `ahead`
/// chunks for each member.
pub(crate) fn ahead_of_members(ahead: f64) -> u32 {
    if ahead < LEAST_OF_MEMBERS { 0 } else { ahead.ceil() as u32 }
}

impl TrafficStats {
    /// Creates statistics without measurements. `task_size` and `result_size` are the sizes of a task and a result in memory.
    pub(crate) fn new(task_size: usize, result_size: usize) -> Self {
        TrafficStats {
            task_time: None,
            own_task: None,
            task_bytes: task_size.max(1) as f64,
            result_bytes: result_size.max(1) as f64,
            last_chunk: 1,
            own_chunk: 1,
            one_way: None,
            sending: None,
        }
    }

    pub(crate) fn dispatched(&mut self, tasks: u64, bytes: usize) {
        self.last_chunk = tasks.max(1);
        let each = bytes as f64 / tasks.max(1) as f64;
        // The mean size of tasks rises at once and falls slowly, because it bounds the memory of a chunk.
        self.task_bytes = each.max(self.task_bytes + FRESH * (each - self.task_bytes));
    }

    pub(crate) fn kept(&mut self, tasks: u64) {
        self.own_chunk = tasks.max(1);
    }

    pub(crate) fn received(&mut self, tasks: u64, took: Duration, bytes: usize) {
        self.task_time = mean(self.task_time, took.as_secs_f64() / tasks.max(1) as f64);
        self.received_bytes(tasks, bytes);
    }

    pub(crate) fn received_bytes(&mut self, tasks: u64, bytes: usize) {
        let each = bytes as f64 / tasks.max(1) as f64;
        self.result_bytes = each.max(self.result_bytes + FRESH * (each - self.result_bytes));
    }

    pub(crate) fn own(&mut self, tasks: u64, took: Duration) {
        self.own_task = mean(self.own_task, took.as_secs_f64() / tasks.max(1) as f64);
    }

    /// Records the time of a round trip to an idle worker, from a chunk to its result, without the time in which the chunk ran. The shortest time
    /// counts, because the master is often busy when the result arrives; it is increased by the factor [`FORGET`] at each later round trip.
    pub(crate) fn exchanged(&mut self, round_trip: Duration) {
        self.one_way = Some(shortest(self.one_way, round_trip.as_secs_f64() / 2.0));
    }

    /// Records that rank 0 needed the time `took` to make a message and send it to a worker or a sub-master.
    pub(crate) fn sent(&mut self, took: Duration) {
        self.sending = Some(shortest(self.sending, took.as_secs_f64()));
    }

    /// Returns the cost of a message: the seconds for which it occupies its sender, and the seconds for each byte. The first cost is divided by
    /// `ports`, the number of ranks that send chunks at the same time: the sub-masters, or else rank 0 alone.
    pub(crate) fn messages(&self, ports: usize) -> MessageCosts {
        let sending = self.sending.or(self.one_way).unwrap_or(START_UP);
        MessageCosts::new(sending / ports.max(1) as f64, PER_BYTE)
    }

    /// Returns the time in seconds from the sending of a message to its arrival, without the time for which the message occupies its sender; 0 as
    /// long as one of the two times has not been measured.
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

    /// Returns the number of tasks in a chunk beyond which a larger chunk does not reduce the cost per task.
    pub(crate) fn enough(&self) -> u64 {
        (ENOUGH_BYTES / self.task_bytes.max(self.result_bytes)).ceil() as u64
    }

    /// Returns the number of chunks that a worker should hold in addition to the running one, which may be a fraction: as many as it runs before the
    /// master answers a request, but no more than its share if the `left` remaining tasks (`None` if unknown) are divided equally among `workers`
    /// workers. It is 0 while no time of a chunk is known: workers that join first would take the chunks of those that join later.
    pub(crate) fn ahead(&self, left: Option<u64>, workers: usize) -> f64 {
        // The latest chunk tells the size of the chunks that follow; those whose results have arrived may have been much smaller.
        let wanted = match self.task_time.map(|time| time * self.last_chunk as f64) {
            Some(time) if time > Knowledge::LONG_CHUNK => 0.0,
            Some(time) if time > 0.0 => (ANSWER / time).min(f64::from(MOST_AHEAD)),
            Some(_) => f64::from(MOST_AHEAD),
            None => 0.0,
        };
        let share = left.map_or(MOST_AHEAD.into(), |left| left / (workers.max(1) as u64 * self.last_chunk));
        wanted.min(share as f64)
    }

    /// Returns the number of tasks above which a worker that holds them gets no further chunk, because they take it longer than
    /// [`Knowledge::LONG_CHUNK`].
    pub(crate) fn most_tasks(&self) -> u32 {
        self.task_time.map_or(u32::MAX, |time| (Knowledge::LONG_CHUNK / time) as u32)
    }

    /// Returns true if rank 0 may take another chunk while it holds one: enough tasks are left for all `workers` workers.
    pub(crate) fn spares_another(&self, left: Option<u64>, workers: usize) -> bool {
        left.is_none_or(|left| left >= (workers as u64).saturating_mul(self.own_chunk))
    }

    /// Returns the number of tasks that rank 0 runs on the communicating thread between two polls for messages.
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
    fn members_hold_only_short_chunks_ahead() {
        assert_eq!([0.0, 0.09, 0.1, 0.9, 1.0, 7.2].map(ahead_of_members), [0, 0, 1, 1, 1, 8]);
    }

    #[test]
    fn short_chunks_are_requested_ahead_except_near_the_end() {
        let mut traffic = TrafficStats::new(8, 8);
        assert_eq!(traffic.ahead(None, 4), 0.0, "nothing is known");
        traffic.dispatched(10, 80);
        traffic.received(10, Duration::from_micros(500), 80);
        assert_eq!(
            (traffic.ahead(None, 4), traffic.ahead(Some(1000), 4), traffic.ahead(Some(100), 4)),
            (4.0, 4.0, 2.0)
        );
        assert_eq!((traffic.ahead(Some(39), 4), traffic.ahead(Some(0), 0)), (0.0, 0.0));
        (0..100).for_each(|_| traffic.received(10, Duration::from_millis(50), 80));
        let ahead = traffic.ahead(None, 4);
        assert!((0.02..0.05).contains(&ahead), "{ahead}");
        (0..200).for_each(|_| traffic.received(10, Duration::from_micros(1), 80));
        assert_eq!(traffic.ahead(None, 4), f64::from(MOST_AHEAD));
        (0..200).for_each(|_| traffic.received(10, Duration::from_secs(1), 80));
        assert_eq!(traffic.ahead(None, 4), 0.0, "a worker that waits for its next chunk loses little");
    }

    #[test]
    fn workers_hold_tasks_for_a_fifth_of_a_second() {
        let mut traffic = TrafficStats::new(8, 8);
        assert_eq!(traffic.most_tasks(), u32::MAX, "the time of a task is not known");
        traffic.received(10, Duration::from_millis(100), 80);
        assert_eq!(traffic.most_tasks(), 20);
        let mut traffic = TrafficStats::new(8, 8);
        traffic.received(10, Duration::ZERO, 80);
        assert_eq!(traffic.most_tasks(), u32::MAX);
    }

    #[test]
    fn rank_0_takes_a_second_chunk_only_if_plenty_remain() {
        let mut traffic = TrafficStats::new(8, 8);
        traffic.kept(50);
        let spares = |left| traffic.spares_another(left, 2);
        assert_eq!([None, Some(100), Some(99)].map(spares), [true, true, false]);
    }

    #[test]
    fn wide_tasks_have_small_chunks() {
        let mut traffic = TrafficStats::new(8, 8);
        traffic.dispatched(2, 2000);
        traffic.received(1, Duration::ZERO, 600);
        assert_eq!(traffic.enough(), 99);
    }

    #[test]
    fn shortest_exchange_determines_the_start_up_time() {
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
    fn grain_of_rank_0_fits_between_two_polls() {
        let mut traffic = TrafficStats::new(8, 8);
        assert_eq!(traffic.own_grain(), 1);
        traffic.own(1000, Duration::from_micros(1000));
        assert_eq!(traffic.own_grain(), 100);
        traffic.own(1, Duration::from_secs(1));
        assert_eq!(traffic.own_grain(), 1);
    }
}
