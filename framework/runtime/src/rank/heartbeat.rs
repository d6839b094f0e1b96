//! Heartbeats between rank 0 and the other ranks, and the error messages about ranks whose heartbeats stop.
//!
//! Workers need not know each other: each worker exchanges heartbeats with rank 0 only, unless its protocol asks for more. The time since the
//! last message of a rank is counted by `comm/liveness`, and includes only time in which this rank polled for messages.

use std::time::Duration;

use super::blocked_ranks::{BlockedRanks, LastState};
pub(crate) use super::heartbeat_state::HeartbeatState;
use crate::comm::HEARTBEAT_PERIOD;
use crate::comm::Reminder;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Control, Message};
use crate::error::{Error, ErrorKind, Result};
use crate::session::Config;
use crate::wire;

/// Minimum number of heartbeats in the time after which a silent rank counts as dead: one late heartbeat must not make a rank count as dead.
const HEARTBEATS_PER_LIMIT: u32 = 4;

/// Supervision of one rank by another rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    No,
    /// Only the end of the rank's process is detected.
    Process,
    /// Rank 0 and each other rank exchange heartbeats. The settings of the session limit the time between two heartbeats.
    Usual,
    Within {
        limit: Duration,
        /// True if the rank has begun the skeleton; false while it runs code of the program before the skeleton.
        has_joined: bool,
    },
}

/// A rank that may be dead: its process has ended, or it has been silent for as long as permitted.
#[derive(Debug)]
pub(crate) struct Silence {
    pub(crate) rank: usize,
    pub(crate) has_ended: bool,
    pub(crate) silent: Duration,
    /// Error message that names the rank and its last state. On rank 0 it also contains the states of all other ranks.
    pub(crate) error: Error,
}

impl Silence {
    /// Returns true if the rank may be dead; false if the process of the rank is known to run, or if ranks are threads.
    pub(crate) fn may_be_death(&self, endpoint: &Endpoint) -> bool {
        self.has_ended || (endpoint.is_process() && !endpoint.is_seen(self.rank))
    }
}

#[derive(Debug)]
pub(crate) struct Heartbeat {
    name: &'static str,
    every: Duration,
    next: Duration,
    peer_limit: Duration,
    join_limit: Duration,
    /// True if user code may keep this rank from sending messages, as the rank's last heartbeat reported; `None` before the first
    /// heartbeat.
    is_interleaved: Option<bool>,
    heartbeat_states: Vec<Option<HeartbeatState>>,
    has_joined: Vec<bool>,
    /// Time since which rank 0 has waited for results while no rank computed, on the clock that runs only while rank 0 polls. Only on rank 0.
    standstill: Option<Duration>,
    reminder: Reminder,
    blocked_ranks: BlockedRanks,
}

impl Heartbeat {
    /// Begins the exchange of heartbeats for a run of a skeleton. Messages that arrived before it do not count as heartbeats.
    pub(crate) fn new(endpoint: &mut Endpoint, config: &Config, name: &'static str) -> Self {
        let (now, size) = (endpoint.clock().now(), endpoint.size());
        endpoint.record_poll(now);
        for rank in 0..size {
            endpoint.reset_silence(rank);
        }
        let every = HEARTBEAT_PERIOD.min(config.peer_limit / HEARTBEATS_PER_LIMIT);
        Heartbeat {
            name,
            every,
            next: now + every,
            peer_limit: config.peer_limit,
            join_limit: config.join_limit,
            is_interleaved: None,
            heartbeat_states: vec![None; size],
            has_joined: vec![false; size],
            standstill: None,
            reminder: Reminder::new(),
            blocked_ranks: BlockedRanks::new(),
        }
    }

    pub(crate) fn hurry(&mut self, limit: Duration) {
        let every = self.every.min(limit / HEARTBEATS_PER_LIMIT);
        self.next -= self.every - every;
        self.every = every;
    }

    /// Sets whether user code may keep this rank from sending messages. Returns true if a heartbeat must report a change at once. The first
    /// call returns false, because a rank that has sent no heartbeat yet may be silent for longer anyway.
    pub(crate) fn replace_interleaved(&mut self, is_interleaved: bool) -> bool {
        self.is_interleaved.replace(is_interleaved).is_some_and(|replaced| replaced != is_interleaved)
    }

    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.heartbeat_states.len() > 1 && now >= self.next
    }

    /// Every message, and not only a heartbeat, shows that its sender has reached the call that runs the skeleton.
    pub(crate) fn take(&mut self, message: &Message) -> Result<Option<&HeartbeatState>> {
        self.has_joined[message.from] = true;
        if !message.is(Control::Heartbeat) {
            return Ok(None);
        }
        Ok(Some(self.heartbeat_states[message.from].insert(wire::from_bytes(&message.body)?)))
    }

    fn others(&self, endpoint: &Endpoint, watch: &dyn Fn(usize) -> Watch) -> Vec<(usize, Watch)> {
        let me = endpoint.rank();
        let within_limits = |other: usize| match watch(other) {
            Watch::Usual if endpoint.is_lost(other) || (me != 0 && other != 0) => Watch::No,
            Watch::Usual => match &self.heartbeat_states[other] {
                // A rank that has sent no heartbeat may be silent for `join_limit`, because it may still run the program's code before the skeleton.
                None => Watch::Within { limit: self.join_limit, has_joined: false },
                // A rank that user code may keep from sending messages may be silent for the longer of `peer_limit` and `join_limit`,
                // because a call of user code may take longer than earlier calls.
                Some(heartbeat_state) if heartbeat_state.is_interleaved && !endpoint.is_stopped(other) => {
                    Watch::Within { limit: self.peer_limit.max(self.join_limit), has_joined: true }
                }
                Some(_) => Watch::Within { limit: self.peer_limit, has_joined: true },
            },
            watch => watch,
        };
        (0..endpoint.size()).filter(|&other| other != me).map(|other| (other, within_limits(other))).collect()
    }

    pub(crate) fn send(
        &self,
        endpoint: &mut Endpoint,
        mine: &HeartbeatState,
        watch: &dyn Fn(usize) -> Watch,
    ) -> Result<()> {
        let mine = &HeartbeatState { is_interleaved: self.is_interleaved == Some(true), ..mine.clone() };
        for (to, watch) in self.others(endpoint, watch) {
            // A rank that was taken for dead but is still present gets a heartbeat as well, because it waits for rank 0 until the end of the job.
            let stays = endpoint.rank() == 0 && endpoint.is_staying(to);
            if stays || matches!(watch, Watch::Within { .. }) {
                endpoint.send(to, Control::Heartbeat, mine)?;
            }
        }
        Ok(())
    }

    /// Sends heartbeats, and checks how long the ranks that `watch` supervises have been silent. `awaits_results` is true on rank 0 if it waits
    /// for results. `on_lost` decides whether the job continues without a rank.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if a rank that the job needs has died or has been silent for too long, or if no rank has made progress for too
    /// long. A rank that has not reached the skeleton is always needed, because no other rank can run the code of the program in its place.
    pub(crate) fn beat(
        &mut self,
        endpoint: &mut Endpoint,
        (mine, awaits_results): (HeartbeatState, bool),
        watch: &dyn Fn(usize) -> Watch,
        now: Duration,
        on_lost: &mut dyn FnMut(&mut Endpoint, Silence) -> Result<()>,
    ) -> Result<()> {
        let here = endpoint.record_poll(now);
        let me = endpoint.rank();
        self.send(endpoint, &mine, watch)?;
        let others = self.others(endpoint, watch);
        self.remind(endpoint, &others);
        self.log_blocked_ranks(endpoint, &mine, &others);
        let mut pause = self.every;
        for (other, watch) in others {
            let (limit, has_joined) = match watch {
                Watch::Within { limit, has_joined } => (limit, has_joined || self.has_joined[other]),
                Watch::Process => (Duration::MAX, true),
                Watch::Usual | Watch::No => continue,
            };
            let silent = endpoint.silence(other);
            let has_ended = endpoint.has_ended(other);
            if has_ended || silent >= limit {
                let mut why = match has_ended && !has_joined {
                    true => format!("the process of rank {other} has ended before it reached {}", self.name),
                    false => self.lost(other, has_ended, silent),
                };
                if me == 0 {
                    why = format!("{why}\n{}", self.all(&mine));
                }
                let error = Error::new(ErrorKind::Timeout, why).at_rank(me);
                if !has_joined {
                    return Err(error);
                }
                on_lost(endpoint, Silence { rank: other, has_ended, silent, error })?;
            } else {
                pause = pause.min(limit - silent);
            }
        }
        // The next exchange of heartbeats is due no later than the first moment at which a rank may have been silent for too long. The
        // error then comes at the limit that it states.
        self.next = now + pause;
        // The check whether any rank makes progress follows the checks of silence, because the last reported state of a silent rank is outdated.
        if me == 0 { self.check_standstill(endpoint, &mine, awaits_results, here) } else { Ok(()) }
    }

    fn remind(&mut self, endpoint: &Endpoint, others: &[(usize, Watch)]) {
        let is_away = |watch: &Watch| matches!(watch, Watch::Within { has_joined: false, .. });
        let away: Vec<usize> =
            others.iter().filter(|(_, watch)| is_away(watch)).map(|other| other.0).collect();
        let longest = away.iter().map(|&other| endpoint.silence(other)).max().unwrap_or_default();
        if self.reminder.is_due(longest) {
            let (seconds, name) = (longest.as_secs_f64(), self.name);
            log::warn!("has waited {seconds:.0} s for rank(s) {away:?} to reach {name}");
        }
    }

    /// Logs from time to time which ranks wait for which other ranks: on rank 0, which receives all heartbeats, or on rank 1 if rank 0 is silent.
    fn log_blocked_ranks(&mut self, endpoint: &Endpoint, mine: &HeartbeatState, others: &[(usize, Watch)]) {
        let me = endpoint.rank();
        let supervised = others.iter().filter(|(rank, watch)| {
            matches!(watch, Watch::Within { has_joined: true, .. }) && (me == 0 || *rank == 0)
        });
        let mut last_states: Vec<LastState<'_>> = supervised
            .filter_map(|&(rank, _)| {
                let heartbeat_state = self.heartbeat_states[rank].as_ref()?;
                Some(LastState { rank, heartbeat_state, silent: endpoint.silence(rank) })
            })
            .collect();
        last_states.insert(0, LastState { rank: me, heartbeat_state: mine, silent: Duration::ZERO });
        let logs = me == 0 || (me == 1 && last_states.iter().any(|rank| rank.rank == 0 && rank.is_silent()));
        if logs && let Some(due_message) = self.blocked_ranks.due_message(&last_states) {
            log::warn!("in {} {due_message}", self.name);
        }
    }

    fn lost(&self, other: usize, has_ended: bool, silent: Duration) -> String {
        let last = self.heartbeat_states[other].as_ref();
        let last = last.map_or("it has sent no heartbeat".to_string(), |heartbeat_state| {
            format!("its last heartbeat: {}", heartbeat_state.state)
        });
        if has_ended {
            return format!("the process of rank {other} has ended; {last}");
        }
        let seconds = silent.as_secs_f64();
        format!("has waited {seconds:.0} s for a heartbeat from rank {other}; {last}")
    }

    /// Returns an error with the state of every rank if rank 0 has waited for results for longer than the longest permitted silence of a rank
    /// while no rank computed, which is a fault of the framework.
    fn check_standstill(
        &mut self,
        endpoint: &Endpoint,
        mine: &HeartbeatState,
        awaits_results: bool,
        here: Duration,
    ) -> Result<()> {
        // A rank that user code may keep from sending messages, and that has been silent for two heartbeats, has perhaps begun a long call since its
        // last heartbeat.
        let may_compute = |(rank, state): (usize, &Option<HeartbeatState>)| {
            state.as_ref().is_some_and(|state| {
                state.is_computing() || (state.is_interleaved && endpoint.silence(rank) > 2 * self.every)
            })
        };
        let is_quiet =
            !mine.is_computing() && !self.heartbeat_states.iter().enumerate().skip(1).any(may_compute);
        // The time without progress counts from the first check at which no rank computes, and not from the start of rank 0's wait: another rank may
        // have computed for most of that wait.
        if !awaits_results || !is_quiet {
            self.standstill = None;
            return Ok(());
        }
        let since = *self.standstill.get_or_insert(here);
        let stood = here.saturating_sub(since);
        if stood <= self.peer_limit {
            return Ok(());
        }
        let seconds = stood.as_secs_f64();
        let text = format!(
            "no rank has made progress for {seconds:.0} s although ranks wait for work\n{}",
            self.all(mine)
        );
        Err(Error::new(ErrorKind::Timeout, text).at_rank(0))
    }

    fn all(&self, mine: &HeartbeatState) -> String {
        let mut lines = vec![format!("  rank 0: {}", mine.state)];
        for (rank, heartbeat_state) in self.heartbeat_states.iter().enumerate().skip(1) {
            let state = heartbeat_state
                .as_ref()
                .map_or("no heartbeat yet", |heartbeat_state| heartbeat_state.state.as_str());
            lines.push(format!("  rank {rank}: {state}"));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
#[path = "heartbeat_tests.rs"]
mod tests;
