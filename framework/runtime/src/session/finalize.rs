//! End of the job on each rank: every rank reports to rank 0 that it leaves, and rank 0 dismisses all ranks when all have reported.
//!
//! A rank that waits here sends heartbeats, so that the death of a rank is detected soon. A rank that has not reported yet may be busy with the
//! program's own code, in which it sends no heartbeats; its death is detected only on the same machine. Ranks that a farm has lost are not
//! waited for. If any other rank dies before all have reported, the job has failed, because the work of that rank is missing.

use std::io::Write;
use std::time::Duration;

use super::agreement::Announcement;
use super::config::Config;
use crate::comm::Reminder;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::Control;
use crate::comm::{Backoff, HEARTBEAT_PERIOD};
use crate::error::{Error, ErrorKind, Result};

/// Describes the end of the program as a run that every rank must reach, so that ranks can compare it with the next run of rank 0.
pub(super) fn end() -> Announcement {
    Announcement::new("ends the program").without_the_dead()
}

/// Leaves the job on this rank.
///
/// # Errors
/// [`ErrorKind::Config`] if rank 0 continues with another run; [`ErrorKind::Timeout`] if a rank does not report, or rank 0 is dead; errors of
/// the transport.
pub(super) fn leave(endpoint: &mut Endpoint, config: &Config) -> Result<()> {
    endpoint.begin_run(&end(), config.join_limit)?;
    endpoint.deliver(config.join_limit, config.peer_limit)?;
    if endpoint.rank() == 0 {
        wait_for_all(endpoint, config)?;
        // All ranks have done their work. The death of a rank from here on does not change the result of the job.
        endpoint.finish()?;
        if let Some(stopped) = endpoint.stopped().filter(|_| endpoint.is_process()) {
            // Rank 0 prints this text before it dismisses the other ranks: when the first rank exits with the code of a stopped job, the
            // launcher ends rank 0.
            let _ = std::io::stderr().write_all(format!("armature: {stopped}\n").as_bytes());
        }
        // Ranks that were taken for dead but still exist can finalise MPI with the others. Where the launcher permits ranks to end early, the others
        // do not wait for these ranks and leave out MPI's finalisation, so that the end of the job does not depend on them.
        let back = |rank: usize| {
            endpoint.is_staying(rank) && !endpoint.has_ended(rank) && !endpoint.capabilities().ranks_may_end
        };
        let lost: Vec<usize> = endpoint.lost().iter().copied().filter(|&rank| !back(rank)).collect();
        if !lost.is_empty() && endpoint.is_process() && !endpoint.capabilities().ranks_may_end {
            // This text explains the exit code of the launcher. It is printed, because log messages may be off.
            let text = format!(
                "armature: rank(s) {lost:?} have not returned, so MPI cannot be finalised. The other ranks have ended in \
                 order, but the launcher may report a failure\n"
            );
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        // Ranks that were taken for dead are dismissed as well, because a rank that was only slow waits for the message.
        for to in 1..endpoint.size() {
            endpoint.send(to, Control::Dismiss, &lost)?;
        }
        endpoint.learn_lost(lost);
    } else {
        endpoint.send(0, Control::Leave, &())?;
        let lost = wait_for_dismissal(endpoint, config)?;
        endpoint.learn_lost(lost);
    }
    if endpoint.lost().is_empty() {
        endpoint.drain(config.peer_limit)?;
    } else {
        endpoint.flush();
    }
    endpoint.close()
}

/// Waits on rank 0 until all ranks have reported that they leave. Rank 0 does not wait for ranks that a farm has lost, with one exception: under a
/// launcher that ends the job when a rank dies, a lost rank may be alive and only slow, because the job has not ended. Rank 0 then waits for the rank
/// up to the longest permitted silence.
fn wait_for_all(endpoint: &mut Endpoint, config: &Config) -> Result<()> {
    let mut here = vec![false; endpoint.size()];
    here[0] = true;
    let mut watch = LeaveWatch::new(endpoint);
    loop {
        while let Some(message) = endpoint.poll()? {
            watch.record_message(endpoint);
            if message.is(Control::Leave) {
                here[message.from] = true;
                if endpoint.is_lost(message.from) {
                    endpoint.stays(message.from);
                }
            }
        }
        let patient = endpoint.is_process()
            && !endpoint.capabilities().ranks_may_end
            && watch.waited() <= config.peer_limit;
        let may_arrive = |r: usize| patient && !endpoint.is_staying(r) && !endpoint.has_ended(r);
        let is_missing = |&r: &usize| !here[r] && (!endpoint.is_lost(r) || may_arrive(r));
        let missing: Vec<usize> = (1..endpoint.size()).filter(is_missing).collect();
        if missing.is_empty() {
            // When all ranks have reported that they leave, their processes are checked as well: a rank that died after its report has not completed
            // the job.
            return endpoint.check_alive(|| "for all ranks to leave".to_string());
        }
        if watch.is_due(endpoint) {
            endpoint.check_alive(|| "for all ranks to leave".to_string())?;
            for (rank, &here) in here.iter().enumerate().skip(1) {
                let silent = endpoint.silence(rank);
                if here && !endpoint.is_lost(rank) && silent > config.peer_limit {
                    let text = format!(
                        "waited {:.0} s for a heartbeat from rank {rank}, which waits to leave",
                        silent.as_secs_f64()
                    );
                    return Err(Error::new(ErrorKind::Timeout, text).at_rank(0));
                }
                if here || endpoint.is_staying(rank) {
                    endpoint.send_heartbeat(rank)?;
                }
            }
            watch.check(endpoint, config.join_limit, || format!("for rank(s) {missing:?} to leave"))?;
        }
        watch.wait(endpoint)?;
    }
}

fn wait_for_dismissal(endpoint: &mut Endpoint, config: &Config) -> Result<Vec<usize>> {
    let mut limit = config.join_limit;
    let mut watch = LeaveWatch::new(endpoint);
    loop {
        while let Some(message) = endpoint.poll()? {
            watch.record_message(endpoint);
            match message.tag::<Control>()? {
                Control::Dismiss => return message.expect(Control::Dismiss)?.value(),
                // Once rank 0 has sent a heartbeat, it also waits for the end of the job and sends a heartbeat every second. From then on
                // it may be silent only for `peer_limit`, because it runs no code of the program.
                Control::Heartbeat => limit = config.peer_limit,
                _ => {}
            }
        }
        if watch.is_due(endpoint) {
            if endpoint.has_ended(0) {
                let text = "rank 0 has died before it allowed this rank to leave";
                return Err(Error::new(ErrorKind::Timeout, text).at_rank(endpoint.rank()));
            }
            endpoint.send_heartbeat(0)?;
            watch.check(endpoint, limit, || "for rank 0 to allow it to leave".to_string())?;
        }
        watch.wait(endpoint)?;
    }
}

struct LeaveWatch {
    /// Time of the last poll for messages, on a clock that runs only while this rank polls.
    here: Duration,
    last: Duration,
    next: Duration,
    start: Duration,
    reminder: Reminder,
    backoff: Backoff,
}

impl LeaveWatch {
    fn new(endpoint: &mut Endpoint) -> Self {
        let now = endpoint.clock().now();
        let here = endpoint.record_poll(now);
        (0..endpoint.size()).for_each(|rank| endpoint.reset_silence(rank));
        LeaveWatch {
            here,
            last: here,
            next: now + HEARTBEAT_PERIOD,
            start: here,
            reminder: Reminder::new(),
            backoff: endpoint.backoff(),
        }
    }

    fn record_message(&mut self, endpoint: &mut Endpoint) {
        let clock = endpoint.clock();
        self.last = endpoint.record_poll(clock.now());
        self.backoff.reset();
    }

    fn waited(&self) -> Duration {
        self.here.saturating_sub(self.start)
    }

    fn is_due(&mut self, endpoint: &mut Endpoint) -> bool {
        let now = endpoint.clock().now();
        self.here = endpoint.record_poll(now);
        let due = endpoint.capabilities().real_time && now >= self.next;
        if due {
            self.next = now + HEARTBEAT_PERIOD;
        }
        due
    }

    /// Logs, at increasing intervals, for which ranks or messages this rank waits before it can leave the job. `waiting_for` returns the text.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if no message has arrived for longer than `limit`.
    fn check(
        &mut self,
        endpoint: &Endpoint,
        limit: Duration,
        waiting_for: impl FnOnce() -> String,
    ) -> Result<()> {
        let silent = self.here.saturating_sub(self.last);
        if silent <= limit {
            let waited = self.waited();
            if self.reminder.is_due(waited) {
                log::warn!("has waited {:.0} s {}", waited.as_secs_f64(), waiting_for());
            }
            return Ok(());
        }
        let text = format!("waited {:.0} s {}", silent.as_secs_f64(), waiting_for());
        Err(Error::new(ErrorKind::Timeout, text).at_rank(endpoint.rank()))
    }

    fn wait(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        let clock = endpoint.clock();
        self.backoff.wait(endpoint.transport(), clock)
    }
}
