//! Requests to stop the job that have reached this rank, and the runs that were stopped.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use armature_files::regular;

use crate::comm::signals;
use crate::job_status::AFTER_CHECKPOINT;

/// Period of the checks for the stop file, with which a user asks the job to stop.
const FILE_PERIOD: Duration = Duration::from_secs(1);

/// Maximum size in bytes of a stop file whose text is read. A stop file holds one line.
const LONGEST: u64 = 4 << 10;

/// Stop requests and stopped runs, as known to this rank. This type has no clock and no transport: its caller passes the time and sends the messages
/// to other ranks.
#[derive(Debug, Default)]
pub(crate) struct StopRequests {
    handles_signals: bool,
    /// Path of the stop file; `None` on ranks other than 0.
    file: Option<PathBuf>,
    next_check: Duration,
    /// Cause of the request to stop, in words that follow "stopped by".
    pub(super) cause: Option<String>,
    /// True if the request asks for a stop at the next checkpoint or snapshot. A later request can ask for a stop at once.
    pub(super) at_checkpoint: bool,
    /// True if this rank has reported its request to stop to rank 0.
    is_reported: bool,
    /// For each stopped run, by run number: the sentence that says why the run was stopped and which results are kept.
    pub(super) stopped: BTreeMap<u32, String>,
}

impl StopRequests {
    pub(crate) fn new(handles_signals: bool, file: Option<PathBuf>) -> Self {
        StopRequests { handles_signals, file, ..StopRequests::default() }
    }

    /// Checks at time `now` whether a signal has arrived or the stop file exists. Returns true if the job has been asked to stop, now or
    /// earlier.
    pub(super) fn check(&mut self, now: Duration) -> bool {
        if self.handles_signals
            && self.is_open()
            && let Some(signal) = signals::first()
        {
            (self.cause, self.at_checkpoint) = (Some(signal.to_string()), false);
        }
        if let Some(file) = self.file.as_ref().filter(|_| self.is_open() && now >= self.next_check) {
            self.next_check = now + FILE_PERIOD;
            let text = regular::read_text_at_most(file, LONGEST).unwrap_or_default();
            // The stop file is removed, so that the same command can later continue the job.
            if std::fs::remove_file(file).is_ok() {
                self.cause = Some(format!("the file {}", armature_text::path(file)));
                self.at_checkpoint = text.split_whitespace().any(|word| word == AFTER_CHECKPOINT);
            }
        }
        self.cause.is_some()
    }

    /// Returns true if no request has arrived that asks for a stop at once.
    fn is_open(&self) -> bool {
        self.cause.is_none() || self.at_checkpoint
    }

    /// Returns the cause of a request to stop that has not been reported to rank 0, and marks the request as reported.
    pub(super) fn take_report(&mut self) -> Option<&str> {
        match std::mem::replace(&mut self.is_reported, self.cause.is_some()) {
            true => None,
            false => self.cause.as_deref(),
        }
    }

    /// Handles a `Stop` message: on rank 0 the request of another rank to stop the job, on the other ranks the notice that run `run` was
    /// stopped.
    pub(super) fn on_message(&mut self, is_root: bool, run: u32, text: String) {
        if is_root {
            if self.is_open() {
                (self.cause, self.at_checkpoint) = (Some(text), false);
            }
        } else {
            self.stopped.insert(run, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_checked_once_a_second_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("stop");
        let mut stops = StopRequests::new(false, Some(file.clone()));
        assert!(!stops.check(Duration::ZERO));
        std::fs::write(&file, "").unwrap();
        assert!(!stops.check(Duration::from_millis(999)) && file.exists());
        assert!(stops.check(Duration::from_secs(1)) && !file.exists());
        assert!(stops.check(Duration::from_millis(1001)));
        assert!(stops.cause.unwrap().starts_with("the file ") && !stops.at_checkpoint);
    }

    #[test]
    fn request_for_a_stop_at_once_replaces_one_for_a_stop_at_the_next_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("stop");
        let mut stops = StopRequests::new(false, Some(file.clone()));
        std::fs::write(&file, "armature stop --after-checkpoint\n").unwrap();
        assert!(stops.check(Duration::ZERO) && stops.at_checkpoint && !file.exists());
        std::fs::write(&file, "armature stop\n").unwrap();
        assert!(stops.check(Duration::from_secs(1)) && !stops.at_checkpoint);
        std::fs::write(&file, "--after-checkpoint").unwrap();
        assert!(stops.check(Duration::from_secs(2)) && !stops.at_checkpoint && file.exists());

        let cause = Some("the file `stop`".into());
        let mut other = StopRequests { cause, at_checkpoint: true, ..StopRequests::default() };
        other.on_message(true, 1, "SIGTERM".into());
        assert!(other.cause.as_deref() == Some("SIGTERM") && !other.at_checkpoint);
    }

    #[test]
    fn request_is_reported_once() {
        let mut stops = StopRequests { cause: Some("SIGUSR1".into()), ..StopRequests::default() };
        assert_eq!(stops.take_report(), Some("SIGUSR1"));
        assert_eq!(stops.take_report(), None);
        assert_eq!(StopRequests::default().take_report(), None);
    }

    #[test]
    fn first_request_counts_and_stops_belong_to_one_run() {
        let mut root = StopRequests::default();
        root.on_message(true, 3, "SIGTERM".into());
        root.on_message(true, 3, "SIGUSR2".into());
        assert!(root.cause.as_deref() == Some("SIGTERM") && root.stopped.is_empty());
        let mut other = StopRequests::default();
        other.on_message(false, 4, "stopped".into());
        assert!(other.cause.is_none() && other.stopped.keys().eq([&4]));
    }
}
