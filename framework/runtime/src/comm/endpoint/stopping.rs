//! Requests to stop the job, and the run that a request has stopped.
//!
//! A rank that has received a signal reports it to rank 0, where the running farm, pipeline, loop or workflow polls for stop requests. When it has
//! determined which results are kept, rank 0 sends a sentence about the stop to all ranks. The messages that end the run follow, and on each rank the
//! run returns an error.

use std::time::Duration;

use super::Endpoint;
use super::stop_requests::StopRequests;
use crate::comm::message::{Arrival, Control, FRAME_HEADER, run_of};
use crate::error::{Error, ErrorKind, Result};
use crate::wire;

impl Endpoint {
    /// Sets how the job can be asked to stop: by signals, and on rank 0 by the stop file, which a user creates.
    pub(crate) fn accept_stops(&mut self, stops: StopRequests) {
        self.stops = stops;
    }

    /// Checks at time `now` whether the job has been asked to stop. A rank other than 0 reports the request to rank 0.
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

    pub(crate) fn stops_at_checkpoint(&self) -> bool {
        self.stops.at_checkpoint
    }

    /// Receives pending messages, keeps them for the next run, and checks whether the job has been asked to stop. Called between two runs.
    ///
    /// # Errors
    /// The errors of the transport.
    pub(crate) fn poll_for_stop(&mut self) -> Result<bool> {
        while let Some(arrival) = self.arrival()? {
            self.liveness.record_message(arrival.from);
            self.early.push_back(arrival);
        }
        self.is_stop_requested(self.clock.now())
    }

    /// Marks the current run as stopped on rank 0, and sends a sentence about the reason to all ranks, except dead ranks whose process has ended. The
    /// sentence ends with `kept`, a description of the kept results. The caller must send the messages that end the run afterwards.
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

    /// Marks the current run as stopped on this rank only. Returns a sentence that says why, and that ends with `kept`, a description of the kept
    /// results.
    pub(crate) fn stop_here(&mut self, kept: &str) -> String {
        let cause = self.stops.cause.as_deref().unwrap_or("a request");
        let text = format!("stopped by {cause} after {:.1} s; {kept}", self.clock.now().as_secs_f64());
        self.stops.stopped.insert(self.run, text.clone());
        text
    }

    /// Marks the current run of the session as stopped, because the run of a group of its ranks returned the error `stopped`.
    pub(crate) fn stop_with(&mut self, stopped: &Error) {
        self.stops.stopped.insert(self.run, stopped.message().to_string());
    }

    pub(crate) fn is_run_stopped(&self) -> bool {
        self.stops.stopped.contains_key(&self.run)
    }

    pub(crate) fn check_run_stopped(&self) -> Result<()> {
        match self.stops.stopped.get(&self.run) {
            Some(text) => Err(Error::new(ErrorKind::Stopped, text)),
            None => Ok(()),
        }
    }

    /// Returns the error of the last run of the job that a request to stop the job has ended, if there was one.
    pub(crate) fn stopped(&self) -> Option<Error> {
        let (_, text) = self.stops.stopped.last_key_value()?;
        Some(Error::new(ErrorKind::Stopped, text))
    }

    /// Handles a `Stop` message, which may belong to another run than the current one.
    ///
    /// # Errors
    /// If the message cannot be decoded.
    pub(super) fn on_stop(&mut self, arrival: &Arrival) -> Result<()> {
        let run = run_of(&arrival.frame)?;
        let text = wire::from_bytes(&arrival.frame.head[FRAME_HEADER..])?;
        self.stops.on_message(self.rank() == 0, run, text);
        Ok(())
    }
}

/// Returns the sentence about the results that a stopped run keeps: `done` of `total` units of work, which are called `what`, in the journal or
/// checkpoint at `place`; `None` if nothing is kept.
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

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
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
    fn message_contains_counts_and_path() {
        let text = kept((566, Some(1_200)), "tasks", Some(std::path::Path::new("big.journal")));
        assert_eq!(text, "566 of 1,200 tasks are in big.journal; the same command continues");
        assert_eq!(kept((1_234_567, None), "items", None), "1,234,567 items were done, and nothing is kept");
    }
}
