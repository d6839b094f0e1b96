//! Requests to stop the job, and the run that a request has stopped.
//!
//! A rank that has received a signal reports it to rank 0. Rank 0 asks the running skeleton to stop. When the skeleton knows what is kept, rank 0
//! sends this to all ranks, before or together with the messages that end the run. Each rank returns an error of the run then.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::Endpoint;
use crate::comm::message::{Arrival, Control, FRAME_HEADER, run_of};
use crate::comm::signals;
use crate::error::{Error, ErrorKind, Result};
use crate::wire;

/// Time between two checks whether the file exists that asks the job to stop.
const FILE_PERIOD: Duration = Duration::from_secs(1);

/// Requests to stop that have reached a rank, and stopped runs. It has no clock and sends nothing.
#[derive(Debug, Default)]
pub(crate) struct StopRequests {
    handles_signals: bool,
    /// File that asks the job to stop; only on rank 0.
    file: Option<PathBuf>,
    /// Time of the next check of the file.
    next_check: Duration,
    /// Cause of the request, in words that follow "stopped by".
    cause: Option<String>,
    /// True if rank 0 knows of the request.
    is_reported: bool,
    /// What is kept, by the numbers of stopped runs.
    stopped: BTreeMap<u32, String>,
}

impl StopRequests {
    pub(crate) fn new(handles_signals: bool, file: Option<PathBuf>) -> Self {
        StopRequests { handles_signals, file, ..StopRequests::default() }
    }

    /// Checks at time `now` whether a signal or the file asks the job to stop. Returns true if the job has been asked to stop.
    fn check(&mut self, now: Duration) -> bool {
        if self.cause.is_none() && self.handles_signals {
            self.cause = signals::first().map(str::to_string);
        }
        if let Some(file) = self.file.as_ref().filter(|_| self.cause.is_none() && now >= self.next_check) {
            self.next_check = now + FILE_PERIOD;
            // The file is removed, so that the same command can continue the job.
            if std::fs::remove_file(file).is_ok() {
                self.cause = Some(format!("the file {}", armature_text::path(file)));
            }
        }
        self.cause.is_some()
    }

    /// Returns the request that this rank has to report to rank 0 now, if there is one.
    fn take_report(&mut self) -> Option<&str> {
        match std::mem::replace(&mut self.is_reported, self.cause.is_some()) {
            true => None,
            false => self.cause.as_deref(),
        }
    }

    /// Handles the message about a stop: on rank 0 the request of another rank, on the other ranks the end of a run.
    fn on_message(&mut self, is_root: bool, run: u32, text: String) {
        if is_root {
            self.cause.get_or_insert(text);
        } else {
            self.stopped.insert(run, text);
        }
    }
}

impl Endpoint {
    /// Sets by what the job can be asked to stop.
    pub(crate) fn accept_stops(&mut self, stops: StopRequests) {
        self.stops = stops;
    }

    /// Checks at time `now` whether the job has been asked to stop. A rank other than 0 reports its request to rank 0.
    ///
    /// # Errors
    /// The errors of the transport.
    pub(crate) fn is_stop_requested(&mut self, now: Duration) -> Result<bool> {
        let is_requested = self.stops.check(now);
        if is_requested
            && self.rank() > 0
            && let Some(cause) = self.stops.take_report()
        {
            let cause = cause.to_string();
            self.send(0, Control::Stop, &cause)?;
        }
        Ok(is_requested)
    }

    /// Like [`is_stop_requested`](Endpoint::is_stop_requested), between two runs: receives pending messages and keeps them for the next run.
    ///
    /// # Errors
    /// The errors of the transport.
    pub(crate) fn poll_for_stop(&mut self) -> Result<bool> {
        while let Some(arrival) = self.arrival()? {
            self.liveness.heard(arrival.from);
            self.early.push_back(arrival);
        }
        self.is_stop_requested(self.clock.now())
    }

    /// Stops the current run on rank 0, and tells all ranks what is `kept`. The messages that end the run must be sent later.
    ///
    /// # Errors
    /// The errors of the transport.
    pub(crate) fn stop_run(&mut self, kept: &str) -> Result<()> {
        let text = self.stop_here(kept);
        let lost: Vec<usize> =
            (1..self.size()).filter(|&rank| self.is_lost(rank) && self.has_ended(rank)).collect();
        (1..self.size())
            .filter(|rank| !lost.contains(rank))
            .try_for_each(|to| self.send(to, Control::Stop, &text))
    }

    /// Marks the current run as stopped on this rank. Returns the sentence about the stop.
    pub(crate) fn stop_here(&mut self, kept: &str) -> String {
        let cause = self.stops.cause.as_deref().unwrap_or("a request");
        let text = format!("stopped by {cause} after {:.1} s; {kept}", self.clock.now().as_secs_f64());
        self.stops.stopped.insert(self.run, text.clone());
        text
    }

    /// Marks the current run as stopped by a session of a group of its ranks.
    pub(crate) fn stop_with(&mut self, stopped: &Error) {
        self.stops.stopped.insert(self.run, stopped.message().to_string());
    }

    /// Returns true if the current run was stopped.
    pub(crate) fn is_run_stopped(&self) -> bool {
        self.stops.stopped.contains_key(&self.run)
    }

    /// Ends a run on this rank.
    ///
    /// # Errors
    /// [`ErrorKind::Stopped`] if the run was stopped.
    pub(crate) fn check_run_stopped(&self) -> Result<()> {
        match self.stops.stopped.get(&self.run) {
            Some(text) => Err(Error::new(ErrorKind::Stopped, text)),
            None => Ok(()),
        }
    }

    /// Returns the error of the last stopped run of the job, if there was one.
    pub(crate) fn stopped(&self) -> Option<Error> {
        let (_, text) = self.stops.stopped.last_key_value()?;
        Some(Error::new(ErrorKind::Stopped, text))
    }

    /// Handles a frame about a stop, of any run.
    ///
    /// # Errors
    /// If the frame cannot be decoded.
    pub(super) fn on_stop(&mut self, arrival: &Arrival) -> Result<()> {
        let run = run_of(&arrival.frame)?;
        let text = wire::from_bytes(&arrival.frame.head[FRAME_HEADER..])?;
        self.stops.on_message(self.rank() == 0, run, text);
        Ok(())
    }
}

/// Describes what a journal or a checkpoint keeps of a stopped run: `done` of `total` units of work, which are called `what`, in `place`.
pub(crate) fn kept((done, total): (u64, Option<u64>), what: &str, place: Option<&std::path::Path>) -> String {
    let of = total.map_or(String::new(), |total| format!(" of {}", grouped(total)));
    let done = grouped(done);
    match place {
        Some(place) => {
            format!("{done}{of} {what} are in {}; the same command continues", armature_text::path(place))
        }
        None => format!("{done}{of} {what} were done, and nothing is kept"),
    }
}

/// Formats a number with a comma between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
        assert!(stops.cause.unwrap().starts_with("the file "));
    }

    #[test]
    fn request_is_reported_once() {
        let mut stops = StopRequests { cause: Some("SIGUSR1".into()), ..StopRequests::default() };
        assert_eq!(stops.take_report(), Some("SIGUSR1"));
        assert_eq!(stops.take_report(), None);
        assert_eq!(StopRequests::default().take_report(), None);
    }

    #[test]
    fn first_request_counts_and_stops_are_of_their_run() {
        let mut root = StopRequests::default();
        root.on_message(true, 3, "SIGTERM".into());
        root.on_message(true, 3, "SIGUSR2".into());
        assert!(root.cause.as_deref() == Some("SIGTERM") && root.stopped.is_empty());
        let mut other = StopRequests::default();
        other.on_message(false, 4, "stopped".into());
        assert!(other.cause.is_none() && other.stopped.keys().eq([&4]));
    }

    #[test]
    fn sentences_name_numbers_and_place() {
        let text = kept((566, Some(1_200)), "tasks", Some(std::path::Path::new("big.journal")));
        assert_eq!(text, "566 of 1,200 tasks are in big.journal; the same command continues");
        assert_eq!(kept((1_234_567, None), "items", None), "1,234,567 items were done, and nothing is kept");
    }
}
