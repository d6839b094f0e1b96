//! Process tree, memory and CPU time of processes, from `/proc`.
//!
//! A process may end at any time. Queries of a process that has ended return an empty or zero value.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

pub(crate) fn children(of: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", of.as_raw_nonzero())) else { return Vec::new() };
    let mut children = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => children.extend(pids(&list)),
            // The list of a thread's children cannot be read if the kernel provides no such lists (then all processes
            // are searched), or if the thread has just ended (then it is skipped).
            Err(_) if !has_lists() => return children_by_walk(of),
            Err(_) => {}
        }
    }
    children
}

/// Returns the children of this process, which must have a single thread.
pub(crate) fn own_children() -> Vec<Pid> {
    match fs::read_to_string("/proc/thread-self/children") {
        Ok(list) => pids(&list).collect(),
        Err(_) => children_by_walk(getpid()),
    }
}

fn has_lists() -> bool {
    fs::metadata("/proc/thread-self/children").is_ok()
}

fn pids(list: &str) -> impl Iterator<Item = Pid> {
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw))
}

/// Fallback for kernels without lists of children: searches all processes.
fn children_by_walk(of: Pid) -> Vec<Pid> {
    let parent = of.as_raw_nonzero().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
    all.filter(|&pid| stat(pid).is_some_and(|stat| field(&stat, PARENT) == Some(parent.as_str()))).collect()
}

pub(crate) fn with_descendants(root: Pid) -> Vec<Pid> {
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        // A process id that is reused during the search must not cause an endless loop.
        let new: Vec<Pid> =
            children(found[next]).into_iter().filter(|child| !found.contains(child)).collect();
        found.extend(new);
        next += 1;
    }
    found
}

/// Returns the memory of the processes `of` in bytes. Memory that they share counts once, if the kernel reports proportional set sizes.
pub(crate) fn memory(of: &[Pid]) -> u64 {
    match of {
        [one] => resident(*one),
        several => several.iter().map(|&pid| proportional(pid).unwrap_or_else(|| resident(pid))).sum(),
    }
}

fn resident(pid: Pid) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/statm", pid.as_raw_nonzero())).unwrap_or_default();
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

pub(crate) fn own_peak() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes: Option<u64> = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Returns the proportional set size of a process: its private memory and its share of the shared memory.
fn proportional(pid: Pid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", pid.as_raw_nonzero())).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Returns the CPU time of a process and of its reaped children.
pub(crate) fn cpu_time(pid: Pid) -> Duration {
    let Some(stat) = stat(pid) else { return Duration::ZERO };
    let ticks: u64 = CPU_TIMES.filter_map(|number| field(&stat, number)?.parse::<u64>().ok()).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

pub(crate) fn is_zombie(pid: Pid) -> bool {
    stat(pid).is_some_and(|stat| field(&stat, STATE) == Some("Z"))
}

/// Returns true if the initial environment of a process has the entry `entry` (`NAME=VALUE`).
pub(crate) fn has_variable(pid: Pid, entry: &[u8]) -> bool {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
    environment.split(|&byte| byte == 0).any(|found| found == entry)
}

const STATE: usize = 3;
const PARENT: usize = 4;
const CPU_TIMES: std::ops::RangeInclusive<usize> = 14..=17;

fn stat(pid: Pid) -> Option<String> {
    fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero()))
        .ok()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns a field of `/proc/PID/stat` after the process name, which is in parentheses and may contain any
/// characters.
fn field(stat: &str, number: usize) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(number - STATE)
}

pub(crate) fn signal(to: &[Pid], signal: Signal) {
    for &pid in to {
        let _ = kill_process(pid, signal);
    }
}

/// Reaps a child of this process. Returns false if the child still runs.
pub(crate) fn reap(child: Pid) -> bool {
    !matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None))
}

/// Sends a signal to all descendants of this process, repeatedly until none is left. This process must be their
/// subreaper. Processes that the kernel cannot end, such as one that waits for a dead file server, remain.
pub(crate) fn end_all_descendants(with: Signal) {
    /// Maximum time for which the descendants are signalled. A killed process usually ends within a millisecond.
    const PATIENCE: Duration = Duration::from_secs(3);
    let start = std::time::Instant::now();
    loop {
        let mut left = own_children();
        left.retain(|&child| !reap(child));
        if left.is_empty() || start.elapsed() > PATIENCE {
            return;
        }
        for child in left {
            signal(&with_descendants(child), with);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_fields_are_parsed_with_any_process_name() {
        let stat = "7 (a) Z 1 (b)) S 3 7 7 0 -1 4194304 1 2 3 4 50 60 70 80 20";
        assert_eq!(field(stat, STATE), Some("S"));
        assert_eq!(field(stat, PARENT), Some("3"));
        let times: Vec<&str> = CPU_TIMES.filter_map(|number| field(stat, number)).collect();
        assert_eq!(times, ["50", "60", "70", "80"]);
        assert_eq!(field("7 (a", STATE), None);
    }

    #[test]
    fn process_tree_is_found_with_and_without_children_lists() {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "sleep 100 & echo; wait"]).stdout(std::process::Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        // The shell's output shows that it has started its child.
        let mut line = [0];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let pid = Pid::from_raw(shell.id() as i32).unwrap();
        let tree = with_descendants(pid);
        assert_eq!(tree.len(), 2);
        assert_eq!(children_by_walk(pid), tree[1..]);
        assert!(children_by_walk(getpid()).contains(&pid));
        assert!((1..resident(tree[0]) + resident(tree[1])).contains(&memory(&tree)));
        signal(&tree, Signal::KILL);
        shell.wait().unwrap();
        assert_eq!(memory(&tree[..1]), 0);
    }
}
