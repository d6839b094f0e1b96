//! The processes that this one has started, and those that they have: found by their parents, ended one by one.
//!
//! Launchers put ranks into process groups and sessions of their own, so that no group can be signalled. Instead this
//! process takes in the orphans among its descendants (it is their "subreaper"), and none gets out of the family.

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};

/// A process as `/proc` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    id: i32,
    parent: i32,
    /// It has ended, and its parent has not taken notice yet.
    dead: bool,
}

/// From now on, orphans among this process's descendants become its children.
pub(super) fn adopt_orphans() -> std::io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// The living descendants of this process.
pub(super) fn living() -> Vec<Pid> {
    let (all, me) = (processes(), getpid().as_raw_nonzero().get());
    descendants(&all, me).into_iter().filter(|p| !p.dead).filter_map(|p| Pid::from_raw(p.id)).collect()
}

/// Sends a signal to each living descendant.
pub(super) fn signal(signal: Signal) {
    for process in living() {
        // It may have ended meanwhile.
        let _ = kill_process(process, signal);
    }
}

/// Takes notice of adopted children that have ended. `launcher` has somebody else who waits for it.
pub(super) fn bury(launcher: u32) {
    let me = getpid().as_raw_nonzero().get();
    let ours = |p: &Process| p.dead && p.parent == me && u32::try_from(p.id) != Ok(launcher);
    for process in processes().into_iter().filter(ours) {
        let _ = waitpid(Pid::from_raw(process.id), WaitOptions::NOHANG);
    }
}

/// Whether there is a living process of this number.
pub(super) fn is_alive(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
    stat.is_ok_and(|stat| parse(&stat).is_none_or(|process| !process.dead))
}

fn processes() -> Vec<Process> {
    let read = |entry: std::fs::DirEntry| {
        entry.file_name().to_str()?.parse::<i32>().ok()?;
        parse(&std::fs::read_to_string(entry.path().join("stat")).ok()?)
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(read).collect()
}

/// Reads a line of `/proc/N/stat`. The name, in parentheses, may contain anything.
fn parse(stat: &str) -> Option<Process> {
    let (id, _) = stat.split_once(' ')?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    Some(Process { id: id.parse().ok()?, parent: fields.next()?.parse().ok()?, dead })
}

fn descendants(all: &[Process], of: i32) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        let children = all.iter().filter(|p| p.parent == parent && p.id != of && !found.contains(p));
        let children: Vec<Process> = children.copied().collect();
        parents.extend(children.iter().map(|p| p.id));
        found.extend(children);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_contain_anything() {
        let process = |id, parent, dead| Some(Process { id, parent, dead });
        assert_eq!(parse("7 (sh) S 3 7 7 0"), process(7, 3, false));
        assert_eq!(parse("8 (a) Z 1 (b)) Z 4 8"), process(8, 4, true));
        assert_eq!(parse("8 (a"), None);
    }

    #[test]
    fn only_descendants_are_found() {
        let all: Vec<Process> = [(1, 0), (2, 1), (3, 2), (4, 3), (5, 1), (6, 4), (7, 5)]
            .map(|(id, parent)| Process { id, parent, dead: false })
            .into();
        let mut found: Vec<i32> = descendants(&all, 2).iter().map(|p| p.id).collect();
        found.sort_unstable();
        assert_eq!(found, [3, 4, 6]);
        assert_eq!(descendants(&all, 7), []);
    }

    #[test]
    fn this_process_lives() {
        assert!(is_alive(std::process::id()));
        assert!(!is_alive(u32::MAX));
    }
}
