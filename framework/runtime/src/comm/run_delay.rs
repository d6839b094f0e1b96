//! Time in which a thread was ready to run but had no core, from Linux's scheduler statistics.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Reader of a thread's `schedstat` file, with the time (waiting for a core) that the file showed at the last reading.
#[derive(Debug)]
pub(crate) struct RunDelay {
    file: Option<File>,
    waited: Duration,
}

impl RunDelay {
    /// Opens the statistics of the calling thread. The first reading returns the time for which it has waited for a core since its start.
    pub(crate) fn of_this_thread() -> Self {
        RunDelay { file: File::open("/proc/thread-self/schedstat").ok(), waited: Duration::ZERO }
    }

    /// Opens the statistics of a thread of this process, by its system thread number. Time of waiting for a core counts from now on.
    pub(crate) fn of_thread(id: i32) -> Self {
        let file = File::open(format!("/proc/self/task/{id}/schedstat")).ok();
        let mut delay = RunDelay { file, waited: Duration::ZERO };
        delay.since_last();
        delay
    }

    /// Returns the time for which the thread has been ready without a core since the last reading; `None` if the system keeps no
    /// statistics.
    pub(crate) fn since_last(&mut self) -> Option<Duration> {
        let mut text = [0u8; 96];
        let length = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        let waited = parse(&text[..length])?;
        let since = waited.saturating_sub(self.waited);
        self.waited = waited;
        Some(since)
    }
}

/// Returns the second of the three numbers in a `schedstat` file: the time for which the thread waited for a core.
fn parse(text: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(text).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
    let (ran, waited): (u64, u64) = (numbers.next()??, numbers.next()??);
    // A kernel without scheduler statistics shows zeros, so two zeros count as no statistics.
    (ran > 0 || waited > 0).then(|| Duration::from_nanos(waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_is_parsed_and_missing_accounting_is_none() {
        assert_eq!(parse(b"205515868 94466807 12\n"), Some(Duration::from_nanos(94_466_807)));
        assert_eq!(parse(b"205515868 0 12\n"), Some(Duration::ZERO));
        assert_eq!(parse(b"0 0 0\n"), None);
        assert_eq!(parse(b"no such thing"), None);
    }

    #[test]
    fn ended_thread_has_no_run_delay() {
        assert_eq!(RunDelay::of_thread(i32::MAX).since_last(), None);
    }
}
