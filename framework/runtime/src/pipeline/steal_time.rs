//! The time that others kept a thread from its core.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread::ThreadId;
use std::time::Duration;

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

/// `/proc/thread-self/schedstat` of one thread, and how long it had been ready without a core at the last look.
#[derive(Debug)]
struct Account {
    thread: ThreadId,
    file: Option<File>,
    waited: Duration,
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
            other => other.insert(Account::open(thread)),
        };
        match account.waited_since() {
            Some(waited) => gap.min(waited),
            None if cpu * WAITING_PART < took => Duration::ZERO,
            None => gap,
        }
    }
}

impl Account {
    fn open(thread: ThreadId) -> Self {
        let file = File::open("/proc/thread-self/schedstat").ok();
        Account { thread, file, waited: Duration::ZERO }
    }

    /// How long the thread has been ready without a core since the last look.
    fn waited_since(&mut self) -> Option<Duration> {
        let mut text = [0u8; 96];
        let length = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        let waited = parse(&text[..length])?;
        let since = waited.saturating_sub(self.waited);
        self.waited = waited;
        Some(since)
    }
}

/// The second of three numbers: nanoseconds on the run queue.
fn parse(text: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(text).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
    let (ran, waited): (u64, u64) = (numbers.next()??, numbers.next()??);
    // A kernel without this account shows zeros.
    (ran > 0 || waited > 0).then(|| Duration::from_nanos(waited))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::clock::Clock;

    #[test]
    fn the_account_is_read_and_one_that_is_not_kept_says_nothing() {
        assert_eq!(parse(b"205515868 94466807 12\n"), Some(Duration::from_nanos(94_466_807)));
        assert_eq!(parse(b"205515868 0 12\n"), Some(Duration::ZERO));
        assert_eq!(parse(b"0 0 0\n"), None);
        assert_eq!(parse(b"no such thing"), None);
    }

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
