//! Operating-system processes of ranks. The end of a process can be observed by ranks on the same machine.

use std::io;

use serde::{Deserialize, Serialize};

use crate::job_status::place;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    /// Machine and PID namespace in which the process ID `number` is unique; empty if the machine is unknown.
    pub(crate) place: String,
    pub(crate) number: u32,
    /// Start time of the process in clock ticks since the boot of the machine. The start time distinguishes processes, because process IDs are
    /// reused.
    pub(crate) started: u64,
}

impl Process {
    pub(crate) fn own() -> Self {
        let number = std::process::id();
        match read_stat(number) {
            Ok(Some((_, started))) => Process { place: place(), number, started },
            _ => Process::default(),
        }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns true if this process can observe the end of `other`, which is the case if `other` is a different process of the same machine.
    pub(crate) fn sees(&self, other: &Process) -> bool {
        !self.place.is_empty() && self.place == other.place && self.number != other.number
    }

    /// Returns true if the operating-system process has ended. Valid only if the calling process can [observe](Process::sees) it.
    pub(crate) fn has_ended(&self) -> bool {
        match read_stat(self.number) {
            // A process counts as ended if it is a zombie, or if its process ID belongs to a process with another start time.
            Ok(Some((state, started))) => matches!(state, 'Z' | 'X') || started != self.started,
            Ok(None) => true,
            // A process counts as running if its state cannot be read.
            Err(_) => false,
        }
    }

    /// Returns true if the process is stopped by a signal or a debugger. Valid only if the calling process can [observe](Process::sees) it.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(read_stat(self.number), Ok(Some(('T' | 't', started))) if started == self.started)
    }
}

/// Returns true unless the process with this ID on this machine is known to have ended.
pub(crate) fn is_alive(number: u32) -> bool {
    match read_stat(number) {
        Ok(Some((state, _))) => !matches!(state, 'Z' | 'X'),
        Ok(None) => false,
        Err(_) => true,
    }
}

fn read_stat(number: u32) -> io::Result<Option<(char, u64)>> {
    let stat = match std::fs::read_to_string(format!("/proc/{number}/stat")) {
        Ok(stat) => stat,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        // The error `ESRCH` means that the process ended while its `stat` file was being read.
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => return Ok(None),
        Err(e) => return Err(e),
    };
    // In the file `stat` of a process, the fields follow the name in parentheses, which may contain any character: the state is the 3rd field,
    // the start time the 22nd.
    let fields = stat.rsplit(')').next().map(str::split_whitespace);
    let found = fields.and_then(|mut fields| {
        let state = fields.next()?.chars().next()?;
        Some((state, fields.nth(18)?.parse().ok()?))
    });
    found.map(Some).ok_or_else(|| io::Error::other("not a line of /proc"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn end_of_a_process_is_detected() {
        let own = Process::own();
        assert!(!own.place.is_empty() && !own.has_ended() && !own.sees(&own));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let (_, started) = read_stat(child.id()).unwrap().unwrap();
        let other = Process { number: child.id(), started, ..own.clone() };
        assert!(own.sees(&other) && !other.has_ended());
        assert!(Process { started: started + 1, ..other.clone() }.has_ended(), "its number was used again");
        assert!(!other.is_stopped());
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        while !other.is_stopped() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        while !other.has_ended() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(other.has_ended(), "nothing is left of it");
    }

    #[test]
    fn process_of_another_machine_is_not_visible() {
        let own = Process::own();
        let other = Process { place: "elsewhere".into(), number: own.number + 1, ..own.clone() };
        assert!(!own.sees(&other) && !Process::default().sees(&other));
    }
}
