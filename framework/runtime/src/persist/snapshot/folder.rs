//! Where the data of a checkpoint are: a directory of its own, which no other start of the job writes to.
//!
//! A job that was killed may have left a rank behind on another machine, or a thread that waits for its disk. What these write
//! must not meet the files of the job that was started in its place, not even where both write the same pass.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open, openat};
use serde::{Deserialize, Serialize};

/// How the name of a directory begins.
const START: &str = "pass-";

/// One start of a job: sixteen hexadecimal digits that no other start has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Attempt(String);

impl Attempt {
    /// This one.
    pub(super) fn new() -> Self {
        Attempt(armature_files::fresh())
    }
}

/// What a manifest says becomes part of a path, so it is checked.
impl TryFrom<String> for Attempt {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_one = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_one { Ok(Attempt(text)) } else { Err(format!("`{text}`: expected sixteen hexadecimal digits")) }
    }
}

/// The directory of the units as they are after a number of passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder {
    pub(super) pass: u64,
    pub(super) attempt: Attempt,
}

impl Folder {
    /// The one that has this name.
    pub(super) fn named(name: &str) -> Option<Folder> {
        let (pass, attempt) = name.strip_prefix(START)?.split_once('-')?;
        Some(Folder { pass: pass.parse().ok()?, attempt: attempt.to_string().try_into().ok()? })
    }

    /// Where it is.
    pub(super) fn path(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{START}{}-{}", self.pass, self.attempt.0))
    }

    /// The file of a rank.
    pub(super) fn file(&self, dir: &Path, rank: usize) -> PathBuf {
        self.path(dir).join(file_name(rank))
    }

    /// Makes the file of a rank, and the directory, if no other rank has done that. Nothing is written over, and no link is
    /// followed. Returns the file and the directory.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn create(&self, dir: &Path, rank: usize) -> io::Result<(File, File)> {
        let path = self.path(dir);
        fs::create_dir_all(&path)?;
        let own = OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = open(&path, own | OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let new = own | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        // As any new file; the process's mask takes away what it is to.
        let file = openat(&folder, file_name(rank), new, Mode::from_raw_mode(0o666))?;
        Ok((file.into(), folder.into()))
    }

    /// Removes it. What cannot be removed takes room and nothing else.
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
    fn names_are_read_back_and_others_are_not_ours() {
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
    fn neither_a_file_is_written_over_nor_a_link_followed() {
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
        // What the link leads to is not removed with it.
        planted.remove(dir);
        assert!(dir.join("elsewhere").exists());
    }
}
