//! Finds, from the heartbeats of all ranks, the ranks that other ranks wait for. This module has no clock and no transport.

use std::time::Duration;

use super::heartbeat_state::{HeartbeatState, Occupation};
use crate::comm::Reminder;
use crate::comm::waiting::FIRST_REMINDER;

/// Last known state of a rank, from its last heartbeat.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastState<'s> {
    pub(super) rank: usize,
    pub(super) heartbeat_state: &'s HeartbeatState,
    /// Age of the rank's last heartbeat.
    pub(super) silent: Duration,
}

impl LastState<'_> {
    /// Returns true if no recent heartbeat shows that the rank is alive: the rank may be stuck, or too busy to send heartbeats.
    pub(super) fn is_silent(&self) -> bool {
        self.silent >= FIRST_REMINDER
    }

    fn time(&self) -> Duration {
        self.heartbeat_state.unchanged_for + self.silent
    }

    fn is_waiting(&self) -> bool {
        self.heartbeat_state.occupation == Occupation::Waits
            && self.heartbeat_state.unchanged_for >= FIRST_REMINDER
            && !self.is_silent()
    }

    fn keeps_waiting(&self) -> bool {
        self.heartbeat_state.occupation == Occupation::Computes || self.is_silent()
    }
}

/// Schedules the log messages about ranks that wait for other ranks.
#[derive(Debug)]
pub(super) struct BlockedRanks {
    reminder: Reminder,
}

impl BlockedRanks {
    pub(super) fn new() -> Self {
        BlockedRanks { reminder: Reminder::new() }
    }

    /// Returns the log message that is due, if any: the ranks that have waited for ten seconds or more, and one rank that they wait for. Candidates
    /// are the ranks that compute, however short their calls of user code are, and the silent ranks. The message names the candidate that has not
    /// changed its state for the longest time.
    pub(super) fn due_message(&mut self, ranks: &[LastState<'_>]) -> Option<String> {
        let waiting: Vec<&LastState<'_>> = ranks.iter().filter(|rank| rank.is_waiting()).collect();
        let waited = waiting.iter().map(|rank| rank.heartbeat_state.unchanged_for).max()?;
        let others = ranks.iter().filter(|rank| rank.keeps_waiting()).count().checked_sub(1)?;
        let longest = ranks.iter().filter(|rank| rank.keeps_waiting()).max_by_key(|rank| rank.time())?;
        if !self.reminder.is_due(waited) {
            return None;
        }
        let waiting_ranks = ranks_of(&waiting.iter().map(|rank| rank.rank).collect::<Vec<_>>());
        let have = if waiting.len() == 1 { "has" } else { "have" };
        let state = &longest.heartbeat_state.state;
        let does = match longest.is_silent() {
            true => format!("silent for {:.0} s; its last heartbeat: {state}", longest.silent.as_secs_f64()),
            false => format!("for {:.0} s {state}", longest.time().as_secs_f64()),
        };
        let and = if others == 0 { String::new() } else { format!(" and {others} more") };
        let (waited, rank) = (waited.as_secs_f64(), longest.rank);
        Some(format!("{waiting_ranks} {have} waited {waited:.0} s for rank {rank} ({does}){and}"))
    }
}

/// Formats ascending rank numbers: `ranks 0, 3-5`.
pub(crate) fn ranks_of(ranks: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let text = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    let runs: Vec<String> = runs.iter().map(text).collect();
    format!("{} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, runs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn heartbeat_state(occupation: Occupation, unchanged_for: u32, state: &str) -> HeartbeatState {
        HeartbeatState { occupation, unchanged_for: unchanged_for * S, ..HeartbeatState::new(false, state) }
    }

    fn due_message(blocked_ranks: &mut BlockedRanks, ranks: &[(HeartbeatState, u32)]) -> Option<String> {
        let last_states = ranks.iter().enumerate().map(|(rank, (heartbeat_state, silent))| LastState {
            rank,
            heartbeat_state,
            silent: S * *silent,
        });
        blocked_ranks.due_message(&last_states.collect::<Vec<_>>())
    }

    #[test]
    fn wait_report_names_waiters_peer_and_activity() {
        let waits = |seconds| (heartbeat_state(Occupation::Waits, seconds, "waits for rows"), 0);
        let busy =
            |seconds| (heartbeat_state(Occupation::Computes, seconds, "in stage seg, items from 7 on"), 1);
        let replaced =
            due_message(&mut BlockedRanks::new(), &[waits(12), busy(11), waits(3), waits(11), waits(10)]);
        let expected = "ranks 0, 3-4 have waited 12 s for rank 1 (for 12 s in stage seg, items from 7 on)";
        assert_eq!(replaced.as_deref(), Some(expected));
        let replaced = due_message(&mut BlockedRanks::new(), &[busy(0), waits(10), busy(3)]);
        // Rank 0 runs one short call of user code after another, and rank 2 has been in one call for 4 s: the message describes rank 2, and counts
        // rank 0 as one more.
        let expected = "rank 1 has waited 10 s for rank 2 (for 4 s in stage seg, items from 7 on) and 1 more";
        assert_eq!(replaced.as_deref(), Some(expected));
    }

    #[test]
    fn wait_report_names_silent_ranks() {
        let waits = (heartbeat_state(Occupation::Waits, 15, "waits for rows"), 0);
        let silent = (heartbeat_state(Occupation::Waits, 20, "waits for units"), 14);
        let replaced = due_message(&mut BlockedRanks::new(), &[waits, silent]).unwrap();
        assert_eq!(
            replaced,
            "rank 0 has waited 15 s for rank 1 (silent for 14 s; its last heartbeat: waits for units)"
        );
    }

    #[test]
    fn no_wait_report_without_waiters_or_busy_ranks() {
        let waits = |seconds| (heartbeat_state(Occupation::Waits, seconds, "waits"), 0);
        let busy = || (heartbeat_state(Occupation::Computes, 50, "computes"), 0);
        let rests = || (heartbeat_state(Occupation::Rests, 50, "has no rows"), 0);
        for ranks in
            [vec![busy(), busy()], vec![busy(), rests()], vec![waits(50), rests()], vec![busy(), waits(9)]]
        {
            assert_eq!(due_message(&mut BlockedRanks::new(), &ranks), None, "{ranks:?}");
        }
    }

    #[test]
    fn wait_reports_become_rarer() {
        let mut blocked_ranks = BlockedRanks::new();
        let at = |second| {
            [
                (heartbeat_state(Occupation::Waits, second, "waits"), 0),
                (heartbeat_state(Occupation::Computes, second, "computes"), 0),
            ]
        };
        let replaced = (0..100).filter(|&second| due_message(&mut blocked_ranks, &at(second)).is_some());
        assert_eq!(replaced.collect::<Vec<_>>(), [10, 20, 40, 80]);
    }
}
