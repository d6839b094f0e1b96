//! Private directories of one process in places where others may also write, such as `/tmp`.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::fresh;
use crate::lock::{is_at, lock};
use crate::regular::{Links, open_with};

/// Name of a file in each private directory. The process that owns the directory locks the file until it exits.
const LOCK: &str = "lock";

/// New directory that only its user can access, with a name that cannot be guessed. Dropping the value removes the
/// directory and its content. If the process dies first, the next call of [`PrivateDir::create`] with the same prefix
/// on this host removes the directory.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    /// The lock is held while this file is open.
    _lock: fs::File,
}

impl PrivateDir {
    /// Creates a directory in `parent` whose name begins with `prefix`. Removes directories with this prefix that dead processes of this
    /// user on this host have left there.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn create(parent: &Path, prefix: &str) -> io::Result<Self> {
        // The name of the host is part of the directory's name, because not every network file system shows the locks
        // of other hosts.
        let host = rustix::system::uname().nodename().to_string_lossy().replace('/', "_");
        let prefix = format!("{prefix}{host}-");
        remove_left_overs(parent, &prefix);
        loop {
            let path = parent.join(prefix.clone() + &fresh());
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let at = path.join(LOCK);
            let opened = open_with(&at, OpenOptions::new().write(true).create_new(true), Links::Refused);
            match opened.and_then(|file| {
                let locked = lock(&file, 1, |_| ());
                // If the file system has no locks, the directory is used without a lock, and directories of dead
                // processes are not removed.
                let is_locked =
                    locked.map_or_else(|error| error.kind() == io::ErrorKind::Unsupported, |()| true);
                Ok((is_locked && is_at(&file, &at)?).then_some(file))
            }) {
                Ok(Some(file)) => return Ok(PrivateDir { path, _lock: file }),
                // Before this process locked the new directory, another process found it unlocked and removed it. The
                // loop creates another one.
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the path of the private directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        // If the directory cannot be removed now, a later process will remove it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn remove_left_overs(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_of_this_kind = entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix));
        // `metadata` describes the directory entry itself and not the target of a link, so a symbolic link to a
        // directory is skipped.
        let is_ours = |found: fs::Metadata| found.is_dir() && found.uid() == geteuid().as_raw();
        if !is_of_this_kind || !entry.metadata().is_ok_and(is_ours) {
            continue;
        }
        // Another process may be removing the directory at the same time.
        match open_with(&entry.path().join(LOCK), OpenOptions::new().write(true), Links::Refused) {
            Ok(file) if lock(&file, 1, |_| ()).is_ok() => {
                let _ = fs::remove_dir_all(entry.path());
            }
            // The process died before it created the lock file, or is about to create it, and then creates another directory. A directory that is
            // not empty is kept.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let _ = fs::remove_dir(entry.path());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn private_directory_has_mode_700_and_is_removed_on_drop() {
        let parent = tempfile::tempdir().unwrap();
        let (one, two) = (
            PrivateDir::create(parent.path(), "a-").unwrap(),
            PrivateDir::create(parent.path(), "a-").unwrap(),
        );
        assert_ne!(one.path(), two.path());
        assert_eq!(fs::metadata(one.path()).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(one.path().join("file"), "text").unwrap();
        drop(one);
        assert_eq!(names(parent.path()).len(), 1);
        assert!(two.path().is_dir());
    }

    #[test]
    fn only_directories_of_dead_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let living = PrivateDir::create(parent.path(), "a-").unwrap();
        let (start, _) = living.path().file_name().unwrap().to_str().unwrap().rsplit_once('-').unwrap();
        let victim = tempfile::tempdir().unwrap();
        fs::write(victim.path().join(LOCK), "").unwrap();
        let at = |name: &str| parent.path().join(format!("{start}-{name}"));
        symlink(victim.path(), at("link")).unwrap();
        // A process that dies while it creates its directory leaves it without a lock file.
        fs::create_dir(at("dead-early")).unwrap();
        fs::create_dir(at("without-lock")).unwrap();
        fs::write(at("without-lock").join("file"), "text").unwrap();
        for dead in ["dead", "dead-too"] {
            fs::create_dir(at(dead)).unwrap();
            fs::write(at(dead).join(LOCK), "").unwrap();
            fs::write(at(dead).join("file"), "text").unwrap();
        }
        fs::write(at("file"), "").unwrap();
        fs::create_dir(parent.path().join("b-of-another-kind")).unwrap();
        let before = names(parent.path());
        let new = PrivateDir::create(parent.path(), "a-").unwrap();
        let is_dead = |name: &String| name.contains("dead");
        let mut expected: Vec<String> = before.into_iter().filter(|name| !is_dead(name)).collect();
        expected.push(new.path().file_name().unwrap().to_str().unwrap().into());
        expected.sort();
        assert_eq!(names(parent.path()), expected);
        assert!(victim.path().join(LOCK).exists());
    }

    #[test]
    fn processes_that_start_together_each_get_a_directory() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let own = PrivateDir::create(parent.path(), "a-").unwrap();
                        fs::write(own.path().join("file"), "text").unwrap();
                    }
                });
            }
        });
        assert_eq!(names(parent.path()), [""; 0]);
    }
}
