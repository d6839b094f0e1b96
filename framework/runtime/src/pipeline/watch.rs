//! The watch over silent ranks: signs of life, and what is said when they stop.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ledger::Doing;
use crate::comm::Reminder;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Message, Tag};
use crate::error::{Error, ErrorKind, Result};
use crate::session::Config;
use crate::wire;

/// How often ranks tell each other that they are alive.
const PING: Duration = Duration::from_secs(1);

/// A sign of life, with what the rank is doing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) doing: Doing,
    pub(crate) state: String,
}

/// Watches rank 0, or on rank 0 all the others.
#[derive(Debug)]
pub(crate) struct Watch {
    stage_names: Vec<String>,
    every: Duration,
    next: Duration,
    peer_limit: Duration,
    join_limit: Duration,
    /// What each rank last said of itself.
    words: Vec<Option<Status>>,
    /// Rank 0: since when no rank has had anything to compute although items are in flight, as the endpoint counts silence.
    standstill: Option<Duration>,
    /// Says which ranks have not come to the pipeline.
    reminder: Reminder,
}

impl Watch {
    /// Begins to watch; what was heard before this run says nothing about it.
    pub(crate) fn new(endpoint: &mut Endpoint, stage_names: Vec<String>, config: &Config) -> Self {
        let (now, size) = (endpoint.clock().now(), endpoint.size());
        endpoint.look(now);
        for rank in 0..size {
            endpoint.heard_now(rank);
        }
        let every = PING.min(config.peer_limit / 4);
        Watch {
            stage_names,
            every,
            next: now + every,
            peer_limit: config.peer_limit,
            join_limit: config.join_limit,
            words: vec![None; size],
            standstill: None,
            reminder: Reminder::new(),
        }
    }

    /// Whether it is time for a [`round`](Watch::round).
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.words.len() > 1 && now >= self.next
    }

    /// Takes a sign of life in.
    pub(crate) fn hear(&mut self, message: &Message) -> Result<()> {
        self.words[message.from] = Some(wire::from_bytes(&message.body)?);
        Ok(())
    }

    /// Gives a sign of life, and looks at who gives none. `stuck` says (rank 0) that this rank waits although items
    /// are in flight.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] when a rank has died, has been silent for too long, or nothing has moved for too long.
    pub(crate) fn round(
        &mut self,
        endpoint: &mut Endpoint,
        mine: Status,
        stuck: bool,
        now: Duration,
    ) -> Result<()> {
        let here = endpoint.look(now);
        let (me, size) = (endpoint.rank(), endpoint.size());
        let watched = if me == 0 { 1..size } else { 0..1 };
        for to in watched.clone() {
            endpoint.send(to, Tag::Status, &mine)?;
        }
        let away: Vec<usize> = watched.clone().filter(|&other| self.words[other].is_none()).collect();
        let longest = away.iter().map(|&other| endpoint.silence(other)).max().unwrap_or_default();
        if self.reminder.is_due(longest) {
            log::warn!(
                "has waited {:.0} s for rank(s) {away:?} to come to the pipeline",
                longest.as_secs_f64()
            );
        }
        let mut patience = self.every;
        for other in watched {
            let silent = endpoint.silence(other);
            let ended = endpoint.has_ended(other);
            // One that has said nothing yet may still be busy with the caller's own work before its `run`.
            let limit = if self.words[other].is_some() { self.peer_limit } else { self.join_limit };
            if ended || silent >= limit {
                let last = self.words[other].as_ref().map_or("it has not said anything".to_string(), |s| {
                    format!("last it said: {}", self.in_words(s))
                });
                let what = match ended {
                    true => format!("the process of rank {other} has ended"),
                    false => {
                        format!(
                            "has waited {:.0} s for a sign of life from rank {other}",
                            silent.as_secs_f64()
                        )
                    }
                };
                let mut text = format!("{what}; {last}");
                if me == 0 {
                    text += &format!("\n{}", self.dump(&mine));
                }
                return Err(Error::new(ErrorKind::Timeout, text).at_rank(me));
            }
            patience = patience.min(limit - silent);
        }
        // The next round is not later than the first limit that can be reached, so that what is said is the limit.
        self.next = now + patience;
        // Only now: what a silent rank said last is no longer true.
        if me == 0 { self.check_standstill(&mine, stuck, here) } else { Ok(()) }
    }

    /// Rank 0: if items are in flight and no rank computes, nothing will ever come. That is a fault of the
    /// framework; it is reported with every rank's state instead of waiting for ever.
    fn check_standstill(&mut self, mine: &Status, stuck: bool, here: Duration) -> Result<()> {
        let mut others = self.words.iter().skip(1).flatten();
        let quiet = mine.doing == Doing::Nothing && others.all(|s| s.doing == Doing::Nothing);
        // Any item that arrived here would have ended rank 0's idleness. It counts from now, not from when that
        // began: until the last look another rank may have computed, for longer than the limit.
        if !stuck || !quiet {
            self.standstill = None;
            return Ok(());
        }
        let since = *self.standstill.get_or_insert(here);
        let stood = here.saturating_sub(since);
        if stood <= self.peer_limit {
            return Ok(());
        }
        let text = format!(
            "nothing has moved for {:.0} s although items are in flight\n{}",
            stood.as_secs_f64(),
            self.dump(mine)
        );
        Err(Error::new(ErrorKind::Timeout, text).at_rank(0))
    }

    /// Rank 0: every rank's state in words, a line each.
    fn dump(&self, mine: &Status) -> String {
        let mut lines = vec![format!("  rank 0: {}", mine.state)];
        for (rank, status) in self.words.iter().enumerate().skip(1) {
            let words = status.as_ref().map_or("silent so far".to_string(), |s| self.in_words(s));
            lines.push(format!("  rank {rank}: {words}"));
        }
        lines.join("\n")
    }

    fn in_words(&self, status: &Status) -> String {
        let doing = match status.doing {
            Doing::Nothing => "computing nothing".to_string(),
            Doing::Drawing { item } => format!("drawing item {item} from the source"),
            Doing::Feeding { item } => format!("feeding item {item} to the sink"),
            Doing::Stage { stage, item } => {
                let name = self.stage_names.get(stage).map_or("?", String::as_str);
                format!("in stage {name}, items from {item} on")
            }
        };
        format!("{doing}; {}", status.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::local::{LocalTransport, World};

    fn status(doing: Doing) -> Status {
        Status { doing, state: "2 of 8 batches in flight".into() }
    }

    fn watch() -> (Watch, Endpoint) {
        let transport = LocalTransport::open(World::new(2), 0);
        let mut endpoint = Endpoint::new(Box::new(transport), Duration::from_millis(1));
        let config = Config::new().peer_limit(Duration::from_secs(10));
        (Watch::new(&mut endpoint, vec!["seg".into()], &config), endpoint)
    }

    #[test]
    fn a_rank_that_falls_silent_is_named_with_what_it_said_last() {
        let (mut watch, mut endpoint) = watch();
        let start = endpoint.clock().now();
        watch.words[1] = Some(status(Doing::Stage { stage: 0, item: 7 }));
        let mut round = |from, to| {
            let now = endpoint.look_on(start, (from, to));
            watch.round(&mut endpoint, status(Doing::Nothing), false, now)
        };
        round(0, 9).unwrap();
        round(500, 500).expect("that it was stopped itself does not count");
        let error = round(500, 503).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(
            error.to_string().contains("from rank 1; last it said: in stage seg, items from 7"),
            "{error}"
        );
    }

    #[test]
    fn silence_is_noticed_when_it_reaches_the_limit() {
        let (mut watch, mut endpoint) = watch();
        let start = endpoint.clock().now();
        watch.words[1] = Some(status(Doing::Nothing));
        let mut silent_for = |from: u64, ms: u64| {
            for at in (from..from + ms).map(|ms| start + Duration::from_millis(ms)) {
                endpoint.look(at);
                if watch.is_due(at) {
                    watch.round(&mut endpoint, status(Doing::Nothing), false, at)?;
                }
            }
            endpoint.heard_now(1);
            Ok(())
        };
        // Rounds are a second apart, and the last sign of life comes between two of them.
        silent_for(0, 2_600).and_then(|()| silent_for(2_600, 9_990)).expect("that is less than the limit");
        let error: Error = silent_for(12_590, 10_020).expect_err("that is more");
        assert!(error.to_string().contains("has waited 10 s for a sign of life from rank 1"), "{error}");
    }

    #[test]
    fn a_standstill_counts_only_while_nobody_computes() {
        let (mut watch, mut endpoint) = watch();
        let start = endpoint.clock().now();
        let mut before = 0;
        let mut round = |seconds: u64, there: Doing, stuck: bool| {
            watch.words[1] = Some(status(there));
            let now = endpoint.look_on(start, (std::mem::replace(&mut before, seconds), seconds));
            endpoint.heard_now(1);
            watch.round(&mut endpoint, status(Doing::Nothing), stuck, now)
        };
        let busy = Doing::Stage { stage: 0, item: 1 };
        round(1, Doing::Nothing, true).unwrap();
        round(9, busy, true).unwrap();
        round(12, Doing::Nothing, true).unwrap();
        round(20, Doing::Nothing, false).unwrap();
        round(25, Doing::Nothing, true).unwrap();
        round(34, Doing::Nothing, true).unwrap();
        let error = round(36, Doing::Nothing, true).unwrap_err();
        assert!(error.to_string().contains("nothing has moved for 11 s"), "{error}");
        assert!(error.to_string().contains("rank 1: computing nothing"), "{error}");
    }
}
