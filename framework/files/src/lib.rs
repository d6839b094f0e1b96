//! File access of armature, its launcher and its programs: opening, replacing and locking files.
//!
//! - [`regular`]: files that are read or appended to must be regular. Files of other types are refused at once, because opening them may
//!   block: a FIFO without a writer would block forever.
//! - [`output`]: results that a user has named, for example with `-o FILE`, and internal files that are replaced as a whole.
//! - [`partial`]: results that several starts of a job write, one after the other.
//! - [`lock`]: mutual exclusion of processes. The system releases a lock when its holder dies.
//! - [`private`]: directories for files of one process, in places where others may also write.
//!
//! The handling of a symbolic link depends on who chose the name. If a user has named the file, the link is followed, and its target is
//! read or replaced. If the name is internal and predictable (`rank-0.jsonl` in a directory of events), another user may have planted the
//! link, and it is not followed. Temporary files get names that cannot be guessed.
//!
//! Errors are those of the system, or name the file type that was found. They do not contain the path, because callers know path and
//! purpose of the file and add both.
//!
//! The crate runs on Linux, because it reads `/proc` to find the holder of a lock and the type of a descriptor.

pub mod lock;
pub mod output;
pub mod partial;
pub mod private;
pub mod regular;

use std::hash::{BuildHasher, RandomState};

/// Returns sixteen hexadecimal digits for the name of a new file. They cannot be guessed, and each call returns other digits.
pub fn fresh() -> String {
    // `RandomState` derives its keys from random numbers of the system, so the digits cannot be guessed.
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    #[track_caller]
    pub(crate) fn fifo(path: &Path) {
        assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
    }

    #[test]
    fn fresh_names_differ_and_are_hexadecimal() {
        let (one, two) = (super::fresh(), super::fresh());
        assert_ne!(one, two);
        assert!(one.len() == 16 && one.bytes().all(|b| b.is_ascii_hexdigit()), "{one}");
    }
}
