//! Orphans: processes that commands have started and whose parents have ended, so that they have become children of the starter.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgid};

use super::running::Running;
use super::spawn::JOB_MARK;
use super::tree;

/// Time between two checks while orphaned processes are being killed. A killed process usually ends within a
/// millisecond.
const POLL_PERIOD: Duration = Duration::from_millis(1);
/// Time between two checks for new or ended orphaned processes while all known ones belong to running commands. They
/// must be reaped when they end, but not at once.
const REAP: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Orphans {
    known: Vec<Orphan>,
    next: Option<Instant>,
}

#[derive(Debug)]
struct Orphan {
    pid: Pid,
    /// Value of the environment variable that identifies the command that has started the orphan (a process whose
    /// parent has ended). `None` if the command is unknown, because the orphan has cleared its environment and left
    /// the process group.
    of: Option<String>,
    killed: Option<Instant>,
}

impl Orphans {
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| now >= next)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(super) fn of(&self, job_mark: &str) -> Vec<Pid> {
        self.known.iter().filter(|orphan| orphan.is_of(job_mark)).map(|orphan| orphan.pid).collect()
    }

    pub(super) fn any_of(&self, job_mark: &str) -> bool {
        self.known.iter().any(|orphan| orphan.is_of(job_mark))
    }

    pub(super) fn has_waited(&self, job_mark: &str, now: Instant, limit: Duration) -> bool {
        let mut own = self.known.iter().filter(|orphan| orphan.is_of(job_mark));
        own.all(|orphan| orphan.killed.is_some_and(|since| now.duration_since(since) > limit))
    }

    /// Records that a command has finished. Those of its orphaned processes that could not be killed no longer belong
    /// to a command.
    pub(super) fn forget(&mut self, job_mark: &str) {
        for orphan in self.known.iter_mut().filter(|orphan| orphan.is_of(job_mark)) {
            orphan.of = None;
        }
    }

    /// Finds new orphaned processes, reaps those that have ended, and kills those whose command has ended. If `all`
    /// is true, also kills those whose command is unknown.
    pub(super) fn poll(&mut self, running: &mut [Running], all: bool, now: Instant) {
        // Ended orphaned processes are reaped first, because their children then become orphans, which the search
        // below finds. Otherwise a command would be reported as ended while some of its processes still run.
        self.known.retain(|orphan| {
            let cpu_time =
                if tree::is_zombie(orphan.pid) { tree::cpu_time(orphan.pid) } else { Duration::ZERO };
            let is_reaped = tree::reap(orphan.pid);
            if is_reaped
                && let Some(command) = running.iter_mut().find(|command| orphan.is_of(&command.job_mark))
            {
                command.add_cpu_time(cpu_time);
            }
            !is_reaped
        });
        for pid in tree::own_children() {
            let is_command = running.iter().any(|command| command.pid == pid && !command.has_ended());
            if !is_command && !self.known.iter().any(|orphan| orphan.pid == pid) {
                self.known.push(Orphan { pid, of: owner(pid, running), killed: None });
            }
        }
        let none_runs = running.iter().all(Running::has_ended);
        let mut has_survivors = false;
        for orphan in &mut self.known {
            let command = running.iter().find(|command| orphan.is_of(&command.job_mark));
            let survives = match command {
                Some(command) => command.has_ended() && !command.watch.has_grace(now),
                // An orphaned process whose command is unknown is killed when no command is running that could have
                // started it.
                None => none_runs || all,
            };
            has_survivors |= survives || command.is_some_and(Running::has_ended);
            if survives {
                orphan.killed.get_or_insert(now);
                tree::signal(&tree::with_descendants(orphan.pid), Signal::KILL);
            }
        }
        let apart = if has_survivors { POLL_PERIOD } else { REAP };
        self.next = (!self.known.is_empty()).then(|| now + apart);
    }
}

impl Orphan {
    fn is_of(&self, job_mark: &str) -> bool {
        self.of.as_deref() == Some(job_mark)
    }
}

/// Returns the value of the environment variable that identifies the command that has started a process. The command
/// is found by the process group or, if the process has left the group, by this variable in its environment.
fn owner(pid: Pid, running: &[Running]) -> Option<String> {
    let group = getpgid(Some(pid)).ok();
    let by_group = running.iter().find(|command| Some(command.pid) == group);
    let entry = |command: &Running| [JOB_MARK.as_bytes(), b"=", command.job_mark.as_bytes()].concat();
    let by_job_mark = || running.iter().find(|command| tree::has_variable(pid, &entry(command)));
    by_group.or_else(by_job_mark).map(|command| command.job_mark.clone())
}
