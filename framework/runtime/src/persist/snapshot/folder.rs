//! Directory of a checkpoint's data, to which only one start of the job writes.
//!
//! A killed job may have left a running rank on another machine, or a thread that waits for its disk. Their writes must not affect the files of
//! the job that was started in its place, even if both jobs write checkpoints of the same pass of the loop.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open, openat};
use serde::{Deserialize, Serialize};

const START: &str = "pass-";

/// Sixteen hexadecimal digits that identify one start of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Attempt(String);

impl Attempt {
    pub(super) fn new() -> Self {
        Attempt(armature_files::fresh())
    }
}

/// Checks that a text from a manifest is sixteen hexadecimal digits, because it becomes part of a path.
impl TryFrom<String> for Attempt {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_one = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_one { Ok(Attempt(text)) } else { Err(format!("`{text}`: expected sixteen hexadecimal digits")) }
    }
}

/// Directory with a checkpoint of a loop: the units (rows or indices) as they are after `pass` passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder {
    pub(super) pass: u64,
    pub(super) attempt: Attempt,
}

impl Folder {
    pub(super) fn named(name: &str) -> Option<Folder> {
        let (pass, attempt) = name.strip_prefix(START)?.split_once('-')?;
        Some(Folder { pass: pass.parse().ok()?, attempt: attempt.to_string().try_into().ok()? })
    }

    pub(super) fn path(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{START}{}-{}", self.pass, self.attempt.0))
    }

    pub(super) fn file(&self, dir: &Path, rank: usize) -> PathBuf {
        self.path(dir).join(file_name(rank))
    }

    /// Creates the file for the checkpoint data of a rank, and its directory if no other rank has created it. Existing files are not overwritten, and
    /// links are not followed. Returns the file and the directory.
    ///
    /// # Errors
    /// The errors of the file system.
    pub(super) fn create(&self, dir: &Path, rank: usize) -> io::Result<(File, File)> {
        let path = self.path(dir);
        fs::create_dir_all(&path)?;
        let own = OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = open(&path, own | OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let new = own | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        // The default mode of a new file is requested, to which the umask of the process is applied.
        let file = openat(&folder, file_name(rank), new, Mode::from_raw_mode(0o666))?;
        Ok((file.into(), folder.into()))
    }

    /// Removes the data of a checkpoint. A failure is only logged, because the remaining files only occupy disk space.
    pub(super) fn remove(&self, dir: &Path) {
        if let Err(error) = fs::remove_dir_all(self.path(dir)) {
            log::debug!("{} stays: {error}", self.path(dir).display());
        }
    }
}

fn file_name(rank: usize) -> String {
    format!("rank-{rank}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_own_folder_names_are_parsed() {
        let folder = Folder { pass: 120, attempt: Attempt::new() };
        let name = folder.path(Path::new("")).display().to_string();
        assert_eq!(Folder::named(&name), Some(folder));
        for other in
            ["pass-120", "pass-120-", "pass-x-0123456789abcdef", "pass-1-0123456789abcdeg", "manifest"]
        {
            assert_eq!(Folder::named(other), None, "{other}");
        }
    }

    #[test]
    fn files_are_not_overwritten_and_links_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, folder) = (dir.path(), Folder { pass: 3, attempt: Attempt::new() });
        folder.create(dir, 0).unwrap();
        assert_eq!(folder.create(dir, 0).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        symlink("../victim", folder.file(dir, 1)).unwrap();
        assert_eq!(folder.create(dir, 1).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        fs::create_dir(dir.join("elsewhere")).unwrap();
        let planted = Folder { pass: 4, ..folder };
        symlink("elsewhere", planted.path(dir)).unwrap();
        assert!(planted.create(dir, 0).is_err());
        assert!(!dir.join("victim").exists() && !dir.join("elsewhere/rank-0").exists());
        // If the directory of a checkpoint's data is a symbolic link, only the link is removed, and not its target.
        planted.remove(dir);
        assert!(dir.join("elsewhere").exists());
    }
}
