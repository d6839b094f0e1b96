//! How ranks leave: everybody says bye to rank 0, which lets all go when it has heard from each.
//!
//! Whoever sits here gives signs of life, so that nobody waits for long for one that has died. A rank that has not come
//! yet may be busy with the caller's own work, which tells nobody that it is alive; that it has died is seen on the same
//! machine only. Ranks that a farm has gone on without are not waited for; any other that dies before all have said bye
//! has failed the job, since nobody has done its part.

use std::io::Write;
use std::time::Duration;

use super::agreement::Announcement;
use super::config::Config;
use crate::comm::Reminder;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::Control;
use crate::comm::{Backoff, HEARTBEAT_PERIOD};
use crate::error::{Error, ErrorKind, Result};
use crate::wire;

/// The end of the program, as every rank must come to it.
pub(super) fn end() -> Announcement {
    Announcement::new("ends the program").without_the_dead()
}

/// Takes a rank down.
///
/// # Errors
/// [`ErrorKind::Config`] when rank 0 goes on with something else; [`ErrorKind::Timeout`] when a rank does not come, or rank
/// 0 is dead; whatever the transport reports.
pub(super) fn leave(endpoint: &mut Endpoint, config: &Config) -> Result<()> {
    endpoint.begin_run(&end(), config.join_limit)?;
    endpoint.deliver(config.join_limit, config.peer_limit)?;
    if endpoint.rank() == 0 {
        wait_for_all(endpoint, config)?;
        // All have done their part. Whoever dies from here on, or hangs, changes nothing about that.
        endpoint.finish()?;
        // Where ranks may end as they like, nothing is risked for those that were lost.
        let back = |rank: usize| {
            endpoint.is_staying(rank) && !endpoint.has_ended(rank) && !endpoint.capabilities().ranks_may_end
        };
        let lost: Vec<usize> = endpoint.lost().iter().copied().filter(|&rank| !back(rank)).collect();
        if !lost.is_empty() && endpoint.is_process() && !endpoint.capabilities().ranks_may_end {
            // Not by the log, which may be off: it explains an exit code.
            let text = format!(
                "armature: rank(s) {lost:?} have not come back, so that MPI cannot be finalised. All that the job was to do \
                 is done, but its launcher may say that it has failed\n"
            );
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        // Also to those taken for dead: one that was only slow would wait for it.
        for to in 1..endpoint.size() {
            endpoint.send(to, Control::Dismiss, &lost)?;
        }
        endpoint.learn_lost(lost);
    } else {
        endpoint.send(0, Control::Leave, &())?;
        let lost = wait_for_farewell(endpoint, config)?;
        endpoint.learn_lost(lost);
    }
    if endpoint.lost().is_empty() {
        endpoint.drain(config.peer_limit)?;
    } else {
        endpoint.flush();
    }
    endpoint.close()
}

/// Rank 0's part. Ranks that a farm has gone on without are not waited for. One that was only silent may come back; where it
/// cannot be dead, since the launcher would have ended the job, it is waited for.
fn wait_for_all(endpoint: &mut Endpoint, config: &Config) -> Result<()> {
    let mut here = vec![false; endpoint.size()];
    here[0] = true;
    let mut watch = LeaveWatch::new(endpoint);
    loop {
        while let Some(message) = endpoint.poll()? {
            watch.heard(endpoint);
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
        let may_come = |r: usize| patient && !endpoint.is_staying(r) && !endpoint.has_ended(r);
        let is_missing = |&r: &usize| !here[r] && (!endpoint.is_lost(r) || may_come(r));
        let missing: Vec<usize> = (1..endpoint.size()).filter(is_missing).collect();
        if missing.is_empty() {
            // One that has died since its bye has not come through either.
            return endpoint.check_alive(|| "for all ranks to leave".to_string());
        }
        if watch.is_due(endpoint) {
            endpoint.check_alive(|| "for all ranks to leave".to_string())?;
            for (rank, &here) in here.iter().enumerate().skip(1) {
                let silent = endpoint.silence(rank);
                if here && !endpoint.is_lost(rank) && silent > config.peer_limit {
                    let text = format!(
                        "waited {:.0} s for a sign of life from rank {rank}, which waits to leave",
                        silent.as_secs_f64()
                    );
                    return Err(Error::new(ErrorKind::Timeout, text).at_rank(0));
                }
                if here || endpoint.is_staying(rank) {
                    endpoint.give_sign(rank)?;
                }
            }
            watch.check(endpoint, config.join_limit, || format!("for rank(s) {missing:?} to leave"))?;
        }
        watch.wait(endpoint)?;
    }
}

/// The part of every other rank: returns which ranks have died.
fn wait_for_farewell(endpoint: &mut Endpoint, config: &Config) -> Result<Vec<usize>> {
    let mut limit = config.join_limit;
    let mut watch = LeaveWatch::new(endpoint);
    loop {
        while let Some(message) = endpoint.poll()? {
            watch.heard(endpoint);
            match message.tag::<Control>()? {
                Control::Dismiss => return wire::from_bytes(&message.body),
                // Rank 0 waits here, too, and says so every second.
                Control::Heartbeat => limit = config.peer_limit,
                _ => {}
            }
        }
        if watch.is_due(endpoint) {
            if endpoint.has_ended(0) {
                let text = "rank 0 has died before it let this rank leave";
                return Err(Error::new(ErrorKind::Timeout, text).at_rank(endpoint.rank()));
            }
            endpoint.give_sign(0)?;
            watch.check(endpoint, limit, || "for rank 0 to let it leave".to_string())?;
        }
        watch.wait(endpoint)?;
    }
}

/// When something was last heard, and when the next sign of life is due.
struct LeaveWatch {
    /// As the endpoint counts silence.
    here: Duration,
    last: Duration,
    next: Duration,
    /// When the wait began, as the endpoint counts silence.
    start: Duration,
    reminder: Reminder,
    backoff: Backoff,
}

impl LeaveWatch {
    fn new(endpoint: &mut Endpoint) -> Self {
        let now = endpoint.clock().now();
        let here = endpoint.look(now);
        (0..endpoint.size()).for_each(|rank| endpoint.heard_now(rank));
        LeaveWatch {
            here,
            last: here,
            next: now + HEARTBEAT_PERIOD,
            start: here,
            reminder: Reminder::new(),
            backoff: endpoint.backoff(),
        }
    }

    fn heard(&mut self, endpoint: &mut Endpoint) {
        let clock = endpoint.clock();
        self.last = endpoint.look(clock.now());
        self.backoff.reset();
    }

    /// For how long this rank has waited, as of the last look.
    fn waited(&self) -> Duration {
        self.here.saturating_sub(self.start)
    }

    /// Whether signs of life are due.
    fn is_due(&mut self, endpoint: &mut Endpoint) -> bool {
        let now = endpoint.clock().now();
        self.here = endpoint.look(now);
        let due = endpoint.capabilities().real_time && now >= self.next;
        if due {
            self.next = now + HEARTBEAT_PERIOD;
        }
        due
    }

    /// Says now and then for whom the rank waits.
    ///
    /// # Errors
    /// When nothing has been heard for longer than `limit`.
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
