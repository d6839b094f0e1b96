//! Detection of commands that the kernel has killed because memory was short.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::event::CommandStatus;

/// Exit code of a shell whose child process was killed by SIGKILL.
const CHILD_KILLED: i32 = 128 + KILL;
const KILL: i32 = 9;

/// Returns the number of processes that the kernel of this host has killed because memory was short, in any cgroup; `None` if the kernel does not
/// count them.
pub(super) fn kills() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/vmstat").ok()?)
}

/// Returns a result of [`kills`] that is at most a second old, because reading the counter would take a noticeable
/// part of the time of a short command.
pub(super) fn recent_kills(now: Instant) -> Option<u64> {
    static LAST: Mutex<Option<(Instant, Option<u64>)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match *last {
        Some((at, kills)) if now.saturating_duration_since(at) < Duration::from_secs(1) => kills,
        _ => last.insert((now, kills())).1,
    }
}

fn parse(vmstat: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// Returns true if the kernel has probably killed a command because memory was short: SIGKILL has ended the command or, according to the exit code
/// of its shell, a child of it, and the kernel's count of such kills has grown from `before` to `after` while the command ran.
pub(super) fn explains(outcome: &CommandStatus, before: Option<u64>, after: Option<u64>) -> bool {
    let is_killed = matches!(outcome, CommandStatus::Signalled(KILL) | CommandStatus::Exited(CHILD_KILLED));
    is_killed && before.zip(after).is_some_and(|(before, after)| after > before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_read_from_the_counters_of_the_kernel() {
        assert_eq!(parse("nr_free_pages 7\noom_kill 3\ndrop_pagecache 0\n"), Some(3));
        assert_eq!([parse("nr_free_pages 7\n"), parse("oom_kill many\n")], [None, None]);
    }

    #[test]
    fn killed_command_is_out_of_memory_if_the_kernel_has_killed_meanwhile() {
        let killed = [CommandStatus::Signalled(9), CommandStatus::Exited(137)];
        assert!(killed.iter().all(|outcome| explains(outcome, Some(3), Some(4))));
        assert!(killed.iter().all(|outcome| !explains(outcome, Some(3), Some(3))));
        assert!(killed.iter().all(|outcome| !explains(outcome, None, Some(3))));
        let others = [CommandStatus::Exited(1), CommandStatus::Signalled(15), CommandStatus::Exited(0)];
        assert!(others.iter().all(|outcome| !explains(outcome, Some(3), Some(4))));
    }
}
