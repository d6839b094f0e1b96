//! Mutual exclusion of processes by file locks, which the system releases when the holder dies.
//!
//! The locks are those of `flock`. On NFS the server keeps them for all machines that have mounted the file system. If it is mounted with
//! `nolock` or `local_lock`, each machine has separate locks. File systems without locks (Lustre mounted with `noflock`) are refused.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;

use crate::regular::{Links, open_with};

/// Number of attempts to take a lock, one every [`PAUSE`], so that they take ten seconds together: a job that was
/// just killed may need this time to end.
pub const TRIES: u32 = 200;
/// Time between two attempts to take a lock.
pub const PAUSE: Duration = Duration::from_millis(50);

/// Locks an open file until it is closed. If the lock is held, `waiting` is called once with a description of the holder.
///
/// # Errors
/// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if all `tries` attempts find the lock held, by another process or by another open file description
/// of this process. The text names the holder if it is a process of this machine. All other errors are those of the system.
pub fn lock(file: &File, tries: u32, waiting: impl FnOnce(&str)) -> io::Result<()> {
    lock_or_report(file, tries, waiting, || local_holder(file).unwrap_or_else(|| "another process".into()))
}

fn lock_or_report(
    file: &File,
    tries: u32,
    waiting: impl FnOnce(&str),
    holder: impl Fn() -> String,
) -> io::Result<()> {
    let mut waiting = Some(waiting);
    for tried in 1..=tries {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(error @ (Errno::NOSYS | Errno::NOLCK | Errno::OPNOTSUPP)) => {
                let error = io::Error::from(error);
                let text = format!(
                    "its file system does not support locks ({error}): mount it with locks (Lustre: -o flock), or use \
                     another file system"
                );
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
            Err(error) => return Err(error.into()),
        }
        if let Some(waiting) = waiting.take() {
            waiting(&holder());
        }
        if tried < tries {
            std::thread::sleep(PAUSE);
        }
    }
    let (holder, waited) = (holder(), (PAUSE * tries).as_secs_f64());
    let text = format!("{holder} uses it and has not released its lock within {waited} s");
    Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
}

/// Releases the lock of a file at once, even if other parts of this process still have the file open.
pub fn unlock(file: &File) {
    // The lock is also released when the file is closed.
    let _ = flock(file, FlockOperation::Unlock);
}

/// Lock on a separate file, for a resource that is more than one file. The lock file names the holder for processes
/// on other machines. Dropping the value releases the lock; the file stays unless the lock is
/// [temporary](LockFile::temporary).
#[derive(Debug)]
pub struct LockFile {
    file: File,
    path: PathBuf,
    is_temporary: bool,
}

impl LockFile {
    /// Opens or creates the file and locks it with [`lock`](fn@lock). A symbolic link is refused.
    ///
    /// # Errors
    /// The errors of [`lock`](fn@lock). The text also names a holder on another machine.
    pub fn acquire(path: &Path, tries: u32, waiting: impl FnOnce(&str)) -> io::Result<LockFile> {
        let mut waiting = Some(waiting);
        loop {
            let mut options = OpenOptions::new();
            let file = open_with(path, options.read(true).write(true).create(true), Links::Refused)?;
            let holder = || local_holder(&file).or_else(|| read_holder(&file));
            let wait = |holder: &str| {
                if let Some(waiting) = waiting.take() {
                    waiting(holder);
                }
            };
            lock_or_report(&file, tries, wait, || holder().unwrap_or_else(|| "another process".into()))?;
            // The holder of a temporary lock file may have removed it while this process waited. Other processes then
            // lock a new file, so another attempt is needed.
            if is_at(&file, path)? {
                let lock = LockFile { file, path: path.into(), is_temporary: false };
                lock.write_holder(&own_name())?;
                return Ok(lock);
            }
        }
    }

    /// Makes the lock remove its file when it is dropped.
    pub fn temporary(mut self) -> Self {
        self.is_temporary = true;
        self
    }

    fn write_holder(&self, text: &str) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(text.as_bytes())
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // The holder's name is erased before the lock is released, so that no process reads the name of a former
        // holder.
        let _ = self.write_holder("");
        if self.is_temporary {
            let _ = std::fs::remove_file(&self.path);
        }
        unlock(&self.file);
    }
}

pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn read_holder(mut file: &File) -> Option<String> {
    /// Maximum length in bytes of the holder's description, which contains two names and a number.
    const LONGEST: u64 = 500;
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    let text = text.trim();
    (!text.is_empty() && !text.contains(char::is_control)).then(|| text.to_string())
}

fn own_name() -> String {
    let (host, number) = (rustix::system::uname(), std::process::id());
    let process = process_name(number).unwrap_or_else(|| format!("process {number}"));
    format!("{process} on {}\n", host.nodename().to_string_lossy())
}

fn process_name(number: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{number}/comm")).ok()?;
    Some(format!("process {number} ({})", name.trim()))
}

/// Describes the process of this machine that holds the lock of a file, if the kernel lists it. The kernel lists the
/// process that has taken the lock, which may since have passed the lock to a child and exited.
fn local_holder(file: &File) -> Option<String> {
    let number = holder_in(&std::fs::read_to_string("/proc/locks").ok()?, file)?;
    match number == std::process::id() {
        true => Some("another part of this process".into()),
        false => process_name(number),
    }
}

/// Returns the id of the process that holds the lock of a file, from the text of `/proc/locks`. A line of the text is
/// `1: FLOCK  ADVISORY  WRITE 32382 fe:00:5309488 0 EOF`.
fn holder_in(locks: &str, file: &File) -> Option<u32> {
    let found = file.metadata().ok()?;
    let place = format!("{:02x}:{:02x}:{}", major(found.dev()), minor(found.dev()), found.ino());
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // In `/proc/locks`, the line of a process that waits for a lock has `->` as its second field.
        let [_, "FLOCK", _, _, process, at, ..] = words[..] else { return None };
        // In `/proc/locks`, a process id of 0 means that the holder is in another PID namespace.
        (at == place).then(|| process.parse().ok()).flatten().filter(|&number| number > 0)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn lock_is_exclusive_and_released_on_drop() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = LockFile::acquire(&path, 1, |_| panic!("nobody has it")).unwrap();
        let mut reported = String::new();
        let error = LockFile::acquire(&path, 2, |holder| reported = holder.to_string()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(
            error.to_string().ends_with(" uses it and has not released its lock within 0.1 s"),
            "{error}"
        );
        // While other processes lock files, the kernel's list may lack a line. The name in the lock file is then used.
        for text in [&reported, &error.to_string()] {
            let number = format!("process {} ", std::process::id());
            assert!(
                text.starts_with("another part of this process") || text.starts_with(&number),
                "{reported}: {error}"
            );
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&format!("process {} (", std::process::id())), "{text}");
        drop(first);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        LockFile::acquire(&path, 1, |_| panic!("nobody has it")).unwrap();
    }

    #[test]
    fn waiting_process_gets_the_lock_when_it_is_released() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = LockFile::acquire(&path, 1, |_| ()).unwrap();
        let (waits, reported) = std::sync::mpsc::channel();
        let second = std::thread::spawn({
            let path = path.clone();
            move || LockFile::acquire(&path, 1200, |_| waits.send(()).unwrap())
        });
        reported.recv().unwrap();
        drop(first);
        second.join().unwrap().unwrap();
    }

    /// The kernel does not list a lock that is held on another machine, but the lock file names the holder.
    #[test]
    fn remote_lock_holder_is_read_from_the_lock_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        std::fs::write(&path, "process 7 (sor) on node03\n").unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(local_holder(&file), None);
        assert_eq!(read_holder(&file).unwrap(), "process 7 (sor) on node03");
        for unusable in ["", "\n", "a\nb\n", "\x1b[2J"] {
            std::fs::write(&path, unusable).unwrap();
            assert_eq!(read_holder(&file), None, "{unusable:?}");
        }
    }

    #[test]
    fn local_lock_holder_is_read_from_proc_locks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        std::fs::write(&path, "").unwrap();
        let file = File::open(&path).unwrap();
        let found = file.metadata().unwrap();
        let at = format!("{:02x}:{:02x}:{}", major(found.dev()), minor(found.dev()), found.ino());
        let list = format!(
            "1: POSIX  ADVISORY  WRITE 1 {at} 0 EOF\n2: FLOCK  ADVISORY  WRITE 5 fe:00:1 0 EOF\n\
             3: FLOCK  ADVISORY  WRITE 77 {at} 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 78 {at} 0 EOF\n"
        );
        assert_eq!(holder_in(&list, &file), Some(77));
        assert_eq!(holder_in("", &file), None);
        assert_eq!(holder_in(&format!("1: FLOCK ADVISORY WRITE 0 {at} 0 EOF"), &file), None);
    }

    /// The command `flock` takes the lock and exits, and the shell that started it keeps the lock. When the shell is
    /// killed, the system releases the lock.
    #[test]
    fn killed_process_loses_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let line = "exec 9>>\"$0\"; flock 9; echo held; exec sleep 1000";
        let mut child =
            Command::new("sh").args(["-c", line]).arg(&path).stdout(Stdio::piped()).spawn().unwrap();
        let mut held = [0; 5];
        child.stdout.take().unwrap().read_exact(&mut held).unwrap();
        let error = LockFile::acquire(&path, 1, |_| ()).unwrap_err().to_string();
        child.kill().unwrap();
        child.wait().unwrap();
        // The command `flock` took the lock and has ended, so the error cannot name the holder.
        assert!(error.starts_with("another process uses it"), "{error}");
        LockFile::acquire(&path, TRIES, |_| ()).unwrap();
    }

    /// A thread waits for a temporary lock. It must lock the present file, and not the file that the former holder
    /// has removed.
    #[test]
    fn temporary_lock_file_is_removed_with_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = LockFile::acquire(&path, 1, |_| ()).unwrap().temporary();
        let (waits, reported) = std::sync::mpsc::channel();
        let second = std::thread::spawn({
            let path = path.clone();
            move || LockFile::acquire(&path, 1200, |_| waits.send(()).unwrap())
        });
        reported.recv().unwrap();
        drop(first);
        let second = second.join().unwrap().unwrap();
        assert!(LockFile::acquire(&path, 1, |_| ()).is_err());
        drop(second.temporary());
        assert!(!path.exists());
    }

    #[test]
    fn symbolic_link_in_place_of_the_lock_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        symlink("elsewhere", &path).unwrap();
        let error = LockFile::acquire(&path, 1, |_| ()).unwrap_err();
        assert!(error.to_string().contains("is a symbolic link"), "{error}");
        assert!(!dir.path().join("elsewhere").exists());
    }
}
