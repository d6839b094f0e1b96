//! How armature, its launcher and its programs open, replace and lock files.
//!
//! - [`regular`]: what is read or appended to must be a regular file. Anything else is refused at once, before it can
//!   block: a FIFO that nobody writes to would be waited for without end.
//! - [`output`]: results that a user has named, as by `-o FILE`, and files of our own that are replaced as a whole.
//! - [`lock`]: one process at a time. The system takes a lock back when its holder dies.
//! - [`private`]: directories for files of one process, in places where others may write, too.
//!
//! What happens to a symbolic link depends on who chose the name. Where a user has named the file, the link is the user's:
//! it is followed, and what it leads to is read or replaced. Where the name is ours and can be guessed (`rank-0.jsonl` in a
//! directory of events, say), a link may have been planted by somebody else and is not followed. New files that have a
//! temporary name get one that cannot be guessed.
//!
//! Errors are those of the system, or say what was found in place of a file. None has the path: callers know what the file
//! is for, and say both.
//!
//! The crate runs on Linux: it asks `/proc` who holds a lock and what a descriptor is.

pub mod lock;
pub mod output;
pub mod private;
pub mod regular;

use std::hash::{BuildHasher, RandomState};

/// Sixteen hexadecimal digits that nobody can guess, and that no two calls share: for names of new files.
pub fn fresh() -> String {
    // Its keys come from the system's random numbers.
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    /// Makes a FIFO.
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
