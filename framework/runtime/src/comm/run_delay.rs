//! How long a thread was ready to run and had no core: Linux's own account of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// `schedstat` of one thread, and how long that had been ready without a core at the last look.
#[derive(Debug)]
pub(crate) struct RunDelay {
    file: Option<File>,
    waited: Duration,
}

impl RunDelay {
    /// That of the calling thread. What it waited for before, nobody knows: the first look tells all since the thread's start.
    pub(crate) fn of_this_thread() -> Self {
        RunDelay { file: File::open("/proc/thread-self/schedstat").ok(), waited: Duration::ZERO }
    }

    /// That of a thread of this process, by the system's number of it, from now on.
    pub(crate) fn of_thread(id: i32) -> Self {
        let file = File::open(format!("/proc/self/task/{id}/schedstat")).ok();
        let mut delay = RunDelay { file, waited: Duration::ZERO };
        delay.since_last();
        delay
    }

    /// How long the thread has been ready without a core since the last look; `None` where the system keeps no account.
    pub(crate) fn since_last(&mut self) -> Option<Duration> {
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

    #[test]
    fn the_account_is_read_and_one_that_is_not_kept_says_nothing() {
        assert_eq!(parse(b"205515868 94466807 12\n"), Some(Duration::from_nanos(94_466_807)));
        assert_eq!(parse(b"205515868 0 12\n"), Some(Duration::ZERO));
        assert_eq!(parse(b"0 0 0\n"), None);
        assert_eq!(parse(b"no such thing"), None);
    }

    #[test]
    fn a_thread_that_is_gone_has_no_account() {
        assert_eq!(RunDelay::of_thread(i32::MAX).since_last(), None);
    }
}
