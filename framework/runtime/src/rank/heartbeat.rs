//! Signs of life between rank 0 and the others, and what is said when they stop.
//!
//! Ranks that share nothing but rank 0 need not know of each other: rank 0 hears all of them, and they hear rank 0. How long a
//! rank has been silent is counted by `comm/liveness`, in time in which this one looked.

use std::time::Duration;

use super::hold_up::{HoldUps, Standing};
pub(crate) use super::sign::Sign;
use crate::comm::HEARTBEAT_PERIOD;
use crate::comm::Reminder;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Control, Message};
use crate::error::{Error, ErrorKind, Result};
use crate::session::Config;
use crate::wire;

/// Signs of life within a limit of silence, at least: where one comes late, the next ones are still in time.
const SIGNS_PER_LIMIT: u32 = 4;

/// How a rank looks after another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Not at all.
    No,
    /// Only whether its process has ended.
    Process,
    /// Rank 0 and the others give each other signs of life, within the limits of the session.
    Usual,
    /// The ranks give each other signs of life; this one may be silent for so long.
    Within {
        /// The longest silence.
        limit: Duration,
        /// Whether it has come to what the ranks do together.
        has_come: bool,
    },
}

/// A rank whose process has ended, or that has been silent for too long.
#[derive(Debug)]
pub(crate) struct Silence {
    pub(crate) rank: usize,
    /// Whether its process is seen to have ended.
    pub(crate) has_ended: bool,
    /// How long nothing has come from it.
    pub(crate) silent: Duration,
    /// Which rank it is and what it said last; on rank 0, what the others said, too.
    pub(crate) error: Error,
}

/// Who has been heard when: of rank 0, or on rank 0 of all the others.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// What ranks come to.
    name: &'static str,
    every: Duration,
    next: Duration,
    peer_limit: Duration,
    join_limit: Duration,
    /// Whether user code may keep this rank from giving signs of life, which they say; unknown before the first turn.
    is_interleaved: Option<bool>,
    /// By rank: its last sign of life in this run.
    signs: Vec<Option<Sign>>,
    /// Ranks from which anything has come in this run.
    has_come: Vec<bool>,
    /// Rank 0: since when no rank has computed anything although it waits for them, as the endpoint counts silence.
    standstill: Option<Duration>,
    /// Says which ranks have not come.
    reminder: Reminder,
    hold_ups: HoldUps,
}

impl Heartbeat {
    /// Begins; what was heard before this run says nothing about it.
    pub(crate) fn new(endpoint: &mut Endpoint, config: &Config, name: &'static str) -> Self {
        let (now, size) = (endpoint.clock().now(), endpoint.size());
        endpoint.look(now);
        for rank in 0..size {
            endpoint.heard_now(rank);
        }
        let every = HEARTBEAT_PERIOD.min(config.peer_limit / SIGNS_PER_LIMIT);
        Heartbeat {
            name,
            every,
            next: now + every,
            peer_limit: config.peer_limit,
            join_limit: config.join_limit,
            is_interleaved: None,
            signs: vec![None; size],
            has_come: vec![false; size],
            standstill: None,
            reminder: Reminder::new(),
            hold_ups: HoldUps::new(),
        }
    }

    /// From now on gives signs of life often enough for ranks that wait for so long.
    pub(crate) fn hurry(&mut self, limit: Duration) {
        let every = self.every.min(limit / SIGNS_PER_LIMIT);
        self.next -= self.every - every;
        self.every = every;
    }

    /// Takes in whether user code may keep this rank from giving signs of life from now on. Returns whether the others are to know
    /// at once. At the beginning they need not: who has not given a sign yet is waited for longer in any case.
    pub(crate) fn is_news(&mut self, is_interleaved: bool) -> bool {
        self.is_interleaved.replace(is_interleaved).is_some_and(|told| told != is_interleaved)
    }

    /// Whether it is time for a [`beat`](Heartbeat::beat).
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.signs.len() > 1 && now >= self.next
    }

    /// Takes a message in if it is a sign of life, and returns what it says. Any message shows that its sender has come.
    pub(crate) fn take(&mut self, message: &Message) -> Result<Option<&Sign>> {
        self.has_come[message.from] = true;
        if !message.is(Control::Heartbeat) {
            return Ok(None);
        }
        Ok(Some(self.signs[message.from].insert(wire::from_bytes(&message.body)?)))
    }

    /// The other ranks, and how this one looks after each, as `watch` says: within which limits if as usual.
    fn others(&self, endpoint: &Endpoint, watch: &dyn Fn(usize) -> Watch) -> Vec<(usize, Watch)> {
        let me = endpoint.rank();
        let within_limits = |other: usize| match watch(other) {
            Watch::Usual if endpoint.is_lost(other) || (me != 0 && other != 0) => Watch::No,
            Watch::Usual => match &self.signs[other] {
                // It may still be busy with the caller's own work before its `run`.
                None => Watch::Within { limit: self.join_limit, has_come: false },
                // It may be in a call that takes longer than those before.
                Some(sign) if sign.is_interleaved && !endpoint.is_stopped(other) => {
                    Watch::Within { limit: self.peer_limit.max(self.join_limit), has_come: true }
                }
                Some(_) => Watch::Within { limit: self.peer_limit, has_come: true },
            },
            watch => watch,
        };
        (0..endpoint.size()).filter(|&other| other != me).map(|other| (other, within_limits(other))).collect()
    }

    /// Gives a sign of life to those with whom this rank exchanges them, as `watch` says.
    pub(crate) fn give(
        &self,
        endpoint: &mut Endpoint,
        mine: &Sign,
        watch: &dyn Fn(usize) -> Watch,
    ) -> Result<()> {
        let mine = &Sign { is_interleaved: self.is_interleaved == Some(true), ..mine.clone() };
        for (to, watch) in self.others(endpoint, watch) {
            // One that hangs in a task of an earlier run waits for the end of the job.
            let stays = endpoint.rank() == 0 && endpoint.is_staying(to);
            if stays || matches!(watch, Watch::Within { .. }) {
                endpoint.send(to, Control::Heartbeat, mine)?;
            }
        }
        Ok(())
    }

    /// Gives a sign of life, and looks at who gives none, as `watch` says. `is_held_up` says (rank 0) that this rank
    /// waits for what others compute; `on_lost` is asked whether the job goes on without a rank.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] when a rank without which the job does not go on has died or has been silent for too long, and
    /// when nothing has moved for too long. The job never goes on without a rank that has not come to the skeleton: that rank
    /// was in the program's own code, where no other rank can take its place.
    pub(crate) fn beat(
        &mut self,
        endpoint: &mut Endpoint,
        (mine, is_held_up): (Sign, bool),
        watch: &dyn Fn(usize) -> Watch,
        now: Duration,
        on_lost: &mut dyn FnMut(&mut Endpoint, Silence) -> Result<()>,
    ) -> Result<()> {
        let here = endpoint.look(now);
        let me = endpoint.rank();
        self.give(endpoint, &mine, watch)?;
        let others = self.others(endpoint, watch);
        self.remind(endpoint, &others);
        self.tell_hold_ups(endpoint, &mine, &others);
        let mut pause = self.every;
        for (other, watch) in others {
            let (limit, has_come) = match watch {
                Watch::Within { limit, has_come } => (limit, has_come || self.has_come[other]),
                Watch::Process => (Duration::MAX, true),
                Watch::Usual | Watch::No => continue,
            };
            let silent = endpoint.silence(other);
            let has_ended = endpoint.has_ended(other);
            if has_ended || silent >= limit {
                let mut why = match has_ended && !has_come {
                    true => format!("the process of rank {other} has ended before it came to {}", self.name),
                    false => self.lost(other, has_ended, silent),
                };
                if me == 0 {
                    why = format!("{why}\n{}", self.all(&mine));
                }
                let error = Error::new(ErrorKind::Timeout, why).at_rank(me);
                if !has_come {
                    return Err(error);
                }
                on_lost(endpoint, Silence { rank: other, has_ended, silent, error })?;
            } else {
                pause = pause.min(limit - silent);
            }
        }
        // The next beat is not later than the first limit that can be reached, so that what is said is the limit.
        self.next = now + pause;
        // Only now: what a silent rank said last is no longer true.
        if me == 0 { self.check_standstill(&mine, is_held_up, here) } else { Ok(()) }
    }

    /// Says now and then which ranks have not come.
    fn remind(&mut self, endpoint: &Endpoint, others: &[(usize, Watch)]) {
        let is_away = |watch: &Watch| matches!(watch, Watch::Within { has_come: false, .. });
        let away: Vec<usize> =
            others.iter().filter(|(_, watch)| is_away(watch)).map(|other| other.0).collect();
        let longest = away.iter().map(|&other| endpoint.silence(other)).max().unwrap_or_default();
        if self.reminder.is_due(longest) {
            let (seconds, name) = (longest.as_secs_f64(), self.name);
            log::warn!("has waited {seconds:.0} s for rank(s) {away:?} to come to {name}");
        }
    }

    /// Says now and then for whom ranks wait. Rank 0, which hears all, speaks for all; where it is silent itself, rank 1 does.
    fn tell_hold_ups(&mut self, endpoint: &Endpoint, mine: &Sign, others: &[(usize, Watch)]) {
        let me = endpoint.rank();
        let heard = others.iter().filter(|(rank, watch)| {
            matches!(watch, Watch::Within { has_come: true, .. }) && (me == 0 || *rank == 0)
        });
        let mut standing: Vec<Standing<'_>> = heard
            .filter_map(|&(rank, _)| {
                let sign = self.signs[rank].as_ref()?;
                Some(Standing { rank, sign, silent: endpoint.silence(rank) })
            })
            .collect();
        standing.insert(0, Standing { rank: me, sign: mine, silent: Duration::ZERO });
        let speaks = me == 0 || (me == 1 && standing.iter().any(|rank| rank.rank == 0 && rank.is_silent()));
        if speaks && let Some(word) = self.hold_ups.word(&standing) {
            log::warn!("in {} {word}", self.name);
        }
    }

    /// That a rank has died or is silent for too long, in words.
    fn lost(&self, other: usize, has_ended: bool, silent: Duration) -> String {
        let last = self.signs[other].as_ref();
        let last = last
            .map_or("it has not said anything".to_string(), |sign| format!("last it said: {}", sign.state));
        if has_ended {
            return format!("the process of rank {other} has ended; {last}");
        }
        let seconds = silent.as_secs_f64();
        format!("has waited {seconds:.0} s for a sign of life from rank {other}; {last}")
    }

    /// Rank 0: if it waits for what others compute and no rank computes, nothing will ever come. That is a fault of the
    /// framework; it is reported with every rank's state instead of waiting for ever.
    fn check_standstill(&mut self, mine: &Sign, is_held_up: bool, here: Duration) -> Result<()> {
        let is_quiet = !mine.is_computing() && !self.signs.iter().skip(1).flatten().any(Sign::is_computing);
        // Anything that arrived here would have ended rank 0's wait. It counts from now, not from when that
        // began: until the last beat another rank may have computed, for longer than the limit.
        if !is_held_up || !is_quiet {
            self.standstill = None;
            return Ok(());
        }
        let since = *self.standstill.get_or_insert(here);
        let stood = here.saturating_sub(since);
        if stood <= self.peer_limit {
            return Ok(());
        }
        let seconds = stood.as_secs_f64();
        let text =
            format!("nothing has moved for {seconds:.0} s although ranks wait for work\n{}", self.all(mine));
        Err(Error::new(ErrorKind::Timeout, text).at_rank(0))
    }

    /// Rank 0: every rank's state, a line each.
    fn all(&self, mine: &Sign) -> String {
        let mut lines = vec![format!("  rank 0: {}", mine.state)];
        for (rank, sign) in self.signs.iter().enumerate().skip(1) {
            let state = sign.as_ref().map_or("silent so far", |sign| sign.state.as_str());
            lines.push(format!("  rank {rank}: {state}"));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
#[path = "heartbeat_tests.rs"]
mod tests;
