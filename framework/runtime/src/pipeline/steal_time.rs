//! The time that others kept a thread from its core.

use std::thread::ThreadId;
use std::time::Duration;

use crate::comm::run_delay::RunDelay;

/// Gaps from this time on are looked into: shorter than a scheduler's turn, longer than an interrupt.
const LEAST_GAP: Duration = Duration::from_micros(20);
/// And those that are at least one part in 64 of the time: shorter ones change no decision.
const GAP_PART: u32 = 64;
/// Where the kernel keeps no account: who computes for less than this part of its time waits for something itself.
const WAITING_PART: u32 = 8;

/// What passes on a clock and not in CPU time was either lost to others or spent on waiting for something, a disk or a
/// server; only Linux's own account of how long a thread was ready and had no core shows which.
#[derive(Debug, Default)]
pub(crate) struct StealTime {
    account: Option<Account>,
}

/// The account of one thread.
#[derive(Debug)]
struct Account {
    thread: ThreadId,
    delay: RunDelay,
}

impl StealTime {
    /// Of the last `took`, by its [clock](crate::comm::clock::Clock), on this thread, of which it has computed for `cpu`, the part in which others had the core.
    pub(crate) fn lost(&mut self, took: Duration, cpu: Duration) -> Duration {
        let gap = took.saturating_sub(cpu);
        if gap < LEAST_GAP.max(took / GAP_PART) {
            return Duration::ZERO;
        }
        let thread = std::thread::current().id();
        let account = match &mut self.account {
            Some(account) if account.thread == thread => account,
            // What it waited for before, nobody knows: the first look may say too much, and no more than the gap.
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
    fn a_thread_that_waits_for_something_itself_has_lost_nothing_to_others() {
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
        // A busy machine may be late to wake it, but not for as long as it slept.
        assert!(took >= Duration::from_millis(100) && lost < took / 2, "{lost:?} of {took:?}");
    }

    #[test]
    fn a_short_gap_is_nobodys_turn() {
        let mut core = StealTime::default();
        let us = Duration::from_micros;
        assert_eq!(core.lost(us(100), us(90)), Duration::ZERO);
        assert_eq!(core.lost(us(10_000), us(9_900)), Duration::ZERO);
    }
}
