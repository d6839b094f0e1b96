//! Steal time: time in which a thread was ready to compute while other threads had its core.

use std::thread::ThreadId;
use std::time::Duration;

use crate::comm::run_delay::RunDelay;

/// Minimum difference between elapsed time and processor time from which the kernel is asked for steal time (time in which other threads
/// had the core): shorter than a time slice of the scheduler, longer than an interrupt.
const LEAST_GAP: Duration = Duration::from_micros(20);
/// Minimum difference between elapsed time and processor time, as one part in this number of the elapsed time, from which the kernel is asked for
/// steal time (time in which other threads had the core). Less steal time changes no decision about the mapping of stages to ranks.
const GAP_PART: u32 = 64;
/// Minimum processor time of a thread that may have waited for a core, as one part in this number of the elapsed time. It is used if the kernel does
/// not record how long a thread was ready without a core. A thread with less processor time is assumed to have waited for a disk or a server, for
/// example.
const WAITING_PART: u32 = 8;

/// Meter of steal time.
///
/// Time that passes on a clock but not in processor time was either lost to other threads, or spent on waiting for a disk or a server, for example.
/// Only Linux's account of the time in which a thread was ready and had no core separates the two.
#[derive(Debug, Default)]
pub(crate) struct StealTime {
    account: Option<Account>,
}

/// Kernel's account of the time in which one thread was ready and had no core.
#[derive(Debug)]
struct Account {
    thread: ThreadId,
    delay: RunDelay,
}

impl StealTime {
    /// Returns for how long other threads had the core while this thread was ready, in the last period. The period took `took`, measured by the
    /// thread's [clock](crate::comm::clock::Clock), and the thread computed for `cpu` of it.
    pub(crate) fn lost(&mut self, took: Duration, cpu: Duration) -> Duration {
        let gap = took.saturating_sub(cpu);
        if gap < LEAST_GAP.max(took / GAP_PART) {
            return Duration::ZERO;
        }
        let thread = std::thread::current().id();
        let account = match &mut self.account {
            Some(account) if account.thread == thread => account,
            // The kernel's account of this thread is opened at the first gap between elapsed time and processor time. It then includes
            // waits before this period, so the first result may be too large, but it never exceeds the gap.
            other => other.insert(Account { thread, delay: RunDelay::of_this_thread() }),
        };
        match account.delay.since_last() {
            Some(waited) => gap.min(waited),
            None if cpu * WAITING_PART < took => Duration::ZERO,
            None => gap,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::clock::Clock;

    #[test]
    fn voluntary_waiting_is_not_steal_time() {
        let clock = Clock::wall();
        let mut core = StealTime::default();
        let (mut took, mut lost) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..5 {
            let (start, cpu) = (clock.now(), clock.cpu());
            std::thread::sleep(Duration::from_millis(20));
            let stage_time = clock.now().saturating_sub(start);
            took += stage_time;
            lost += core.lost(stage_time, clock.cpu().saturating_sub(cpu));
        }
        // The thread sleeps for 100 ms. A busy machine may wake it late, but not by as much as it slept.
        assert!(took >= Duration::from_millis(100) && lost < took / 2, "{lost:?} of {took:?}");
    }

    #[test]
    fn short_gaps_are_not_steal_time() {
        let mut core = StealTime::default();
        let us = Duration::from_micros;
        assert_eq!(core.lost(us(100), us(90)), Duration::ZERO);
        assert_eq!(core.lost(us(10_000), us(9_900)), Duration::ZERO);
    }
}
