//! Processes that commands have left behind: their parents have ended, and they have become children of the starter.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgid};

use super::running::Running;
use super::spawn::MARK;
use super::tree;

/// How far apart looks are while there are orphans that have been told to go: they do within a millisecond or so.
const LOOK: Duration = Duration::from_millis(1);
/// The same while a command runs that has orphans: when they end is of no interest, but they have to be taken notice of.
const REAP: Duration = Duration::from_millis(100);

/// The orphans that there are.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    known: Vec<Orphan>,
    next: Option<Instant>,
}

#[derive(Debug)]
struct Orphan {
    pid: Pid,
    /// The mark of the command to which it belongs; none is found if it has cleared its environment and left its group.
    of: Option<String>,
    /// Since when it has been told to go.
    killed: Option<Instant>,
}

impl Orphans {
    /// When they are to be looked at.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| now >= next)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Those of a command.
    pub(super) fn of(&self, mark: &str) -> Vec<Pid> {
        self.known.iter().filter(|orphan| orphan.is_of(mark)).map(|orphan| orphan.pid).collect()
    }

    /// Whether a command has some.
    pub(super) fn any_of(&self, mark: &str) -> bool {
        self.known.iter().any(|orphan| orphan.is_of(mark))
    }

    /// Whether all of those that a command has were told to go so long ago.
    pub(super) fn has_waited(&self, mark: &str, now: Instant, limit: Duration) -> bool {
        let mut own = self.known.iter().filter(|orphan| orphan.is_of(mark));
        own.all(|orphan| orphan.killed.is_some_and(|since| now.duration_since(since) > limit))
    }

    /// The command is over; orphans that could not be ended are nobody's.
    pub(super) fn forget(&mut self, mark: &str) {
        for orphan in self.known.iter_mut().filter(|orphan| orphan.is_of(mark)) {
            orphan.of = None;
        }
    }

    /// Finds the orphans, takes notice of those that have ended, and ends those whose command has; with `all` every one.
    pub(super) fn look(&mut self, running: &mut [Running], all: bool, now: Instant) {
        // Exited orphans are reaped first: their children have become orphans by then and are found below. Otherwise a command would be
        // reported as ended while some of its processes still run.
        self.known.retain(|orphan| {
            let cpu_time =
                if tree::is_zombie(orphan.pid) { tree::cpu_time(orphan.pid) } else { Duration::ZERO };
            let is_gone = tree::reap(orphan.pid);
            if is_gone && let Some(command) = running.iter_mut().find(|command| orphan.is_of(&command.mark)) {
                command.add_cpu_time(cpu_time);
            }
            !is_gone
        });
        for pid in tree::own_children() {
            let is_command = running.iter().any(|command| command.pid == pid && !command.has_ended());
            if !is_command && !self.known.iter().any(|orphan| orphan.pid == pid) {
                self.known.push(Orphan { pid, of: owner(pid, running), killed: None });
            }
        }
        let none_runs = running.iter().all(Running::has_ended);
        let mut any_is_going = false;
        for orphan in &mut self.known {
            let command = running.iter().find(|command| orphan.is_of(&command.mark));
            let goes = match command {
                Some(command) => command.has_ended() && !command.watch.has_grace(now),
                // Whose it is nobody knows, so it goes when it can be nobody's.
                None => none_runs || all,
            };
            any_is_going |= goes || command.is_some_and(Running::has_ended);
            if goes {
                orphan.killed.get_or_insert(now);
                tree::signal(&tree::with_descendants(orphan.pid), Signal::KILL);
            }
        }
        let apart = if any_is_going { LOOK } else { REAP };
        self.next = (!self.known.is_empty()).then(|| now + apart);
    }
}

impl Orphan {
    fn is_of(&self, mark: &str) -> bool {
        self.of.as_deref() == Some(mark)
    }
}

/// The command to which a process belongs, by its group, which it may have left, or its environment, which it may have cleared.
fn owner(pid: Pid, running: &[Running]) -> Option<String> {
    let group = getpgid(Some(pid)).ok();
    let by_group = running.iter().find(|command| Some(command.pid) == group);
    let entry = |command: &Running| [MARK.as_bytes(), b"=", command.mark.as_bytes()].concat();
    let by_mark = || running.iter().find(|command| tree::has_variable(pid, &entry(command)));
    by_group.or_else(by_mark).map(|command| command.mark.clone())
}
