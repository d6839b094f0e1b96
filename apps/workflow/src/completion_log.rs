//! Records in the rescue file of completed tasks, and of the parts (outputs of a task) that are appended to other files, so that each part is
//! appended exactly once.
//!
//! A rank writes lines to the rescue file while it holds the lock on the file (see [`notes`] for their format). For a task with parts, `APPENDS`
//! lines are written first, then the parts are appended and their source files removed, and then the `DONE` line follows. If a rank dies in between,
//! `APPENDS` lines without a `DONE` line remain. The next rank that writes to the rescue file then truncates the files to which these parts were
//! appended.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use armature::BoxError;
use armature_apps::names;
use armature_files::regular::{self, Links};
use rustix::fs::{FlockOperation, flock};

use crate::notes::{self, Append, Notes};
use crate::rescue::Rescue;

/// Number of bytes at the end of the rescue file that are read to find its last line. If the line is longer, the whole file is read.
const TAIL: u64 = 4096;

/// Part: output file of a completed task that is appended to another file, and then removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedPart {
    /// File whose content is appended.
    pub source: PathBuf,
    /// File to which the content is appended.
    pub destination: PathBuf,
    /// True if the task need not write the file. If such a file is missing, nothing is appended.
    pub is_optional: bool,
}

/// Write access of one rank to the rescue file (list of completed tasks).
#[derive(Debug)]
pub struct CompletionLog {
    rescue: Rescue,
    read: u64,
    /// Names of the tasks with a `DONE` line in the first `read` bytes of the rescue file.
    done: HashSet<String>,
}

impl CompletionLog {
    /// Returns write access to a rescue file. The file is created when the first completed task is recorded.
    pub fn new(rescue: &Rescue) -> Self {
        CompletionLog { rescue: rescue.clone(), read: 0, done: HashSet::new() }
    }

    /// Appends the files `parts` of a task to their destinations, removes them, and records the task as done. If a task with parts is already
    /// recorded, nothing is appended: its rank died after the first run, whose parts have been appended, and the task was run again.
    ///
    /// # Errors
    /// A file cannot be read or written. In this case the task is not recorded, and nothing is appended.
    pub fn record(&mut self, task: &str, parts: &[AppendedPart]) -> Result<(), BoxError> {
        let path = self.rescue.path().display().to_string();
        let write_error = |error: io::Error| format!("cannot write to the rescue file {path}: {error}");
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        let mut file = self.rescue.open(&mut options).map_err(write_error)?;
        // The file is locked, because ranks on other hosts also append to it, and on network file systems only a lock makes the true end of the file
        // visible.
        flock(&file, FlockOperation::LockExclusive).map_err(|error| write_error(error.into()))?;
        let mut sum = repair(&mut file).map_err(write_error)?;
        if !parts.is_empty() {
            self.read_new_completions(&mut file).map_err(write_error)?;
            if self.done.contains(task) {
                return Ok(());
            }
            let lines = append_parts(parts, &mut file, write_error).inspect_err(|_| {
                // Removes output that was appended incompletely. If this fails, the next rank that writes to the rescue file removes it.
                let _ = repair(&mut file);
            })?;
            sum = notes::extend_checksum(sum, lines.as_bytes());
            for part in parts {
                // An error is ignored, because the file is overwritten if the task runs again.
                let _ = fs::remove_file(&part.source);
            }
        }
        Ok(file.write_all(notes::done(task, sum).as_bytes()).map_err(write_error)?)
    }

    fn read_new_completions(&mut self, file: &mut File) -> io::Result<()> {
        let mut text = String::new();
        file.seek(SeekFrom::Start(self.read))?;
        self.read += file.read_to_string(&mut text)? as u64;
        self.done.extend(text.lines().filter_map(|line| line.strip_prefix("DONE ")).map(String::from));
        Ok(())
    }
}

/// Records in the rescue file that a task appends these parts to their destinations, and appends them. Returns the recorded lines.
fn append_parts(
    parts: &[AppendedPart],
    rescue: &mut File,
    write_error: impl Fn(io::Error) -> String,
) -> Result<String, BoxError> {
    let is_absent =
        |path: &Path| fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let existing: Vec<&AppendedPart> =
        parts.iter().filter(|part| !(part.is_optional && is_absent(&part.source))).collect();
    let mut targets = PartFiles::default();
    let lines = targets.open(&existing)?;
    rescue.write_all(lines.as_bytes()).map_err(write_error)?;
    for part in existing {
        targets.append(part).map_err(|error| {
            let AppendedPart { source, destination, .. } = part;
            format!("cannot append {} to {}: {error}", names::path(source), names::path(destination))
        })?;
    }
    Ok(lines)
}

/// Removes from the rescue file the lines that killed ranks left: an incomplete line, and `APPENDS` lines without a `DONE` line, whose output is also
/// removed from the files to which it was appended. Returns the CRC-32 of the rescue file.
pub fn repair(file: &mut File) -> io::Result<u32> {
    let length = file.metadata()?.len();
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    file.read_to_end(&mut tail)?;
    let last = tail.split_inclusive(|&byte| byte == b'\n').next_back();
    if let Some(sum) = last.and_then(notes::checksum_after) {
        return Ok(sum);
    }
    let mut all = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut all)?;
    let notes =
        Notes::parse(&all).map_err(|text| io::Error::new(ErrorKind::InvalidData, format!("it {text}")))?;
    notes.interrupted.iter().rev().try_for_each(roll_back)?;
    if notes.end < all.len() {
        file.set_len(notes.end as u64)?;
    }
    Ok(crc32fast::hash(&all[..notes.end]))
}

fn roll_back(Append { length, bytes, path }: &Append) -> io::Result<()> {
    let file = match regular::open_with(path, OpenOptions::new().write(true), Links::Followed) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    flock(&file, FlockOperation::LockExclusive)?;
    let now = file.metadata()?.len();
    if now > length.saturating_add(*bytes) {
        let path = path.display();
        let text = format!(
            "{path} has {now} bytes, expected {length} and at most {bytes} that an interrupted task has appended: another \
             program has appended to it, or lines of the rescue file are missing"
        );
        return Err(io::Error::new(ErrorKind::InvalidData, text));
    }
    if now > *length { file.set_len(*length) } else { Ok(()) }
}

#[derive(Default)]
struct PartFiles<'h> {
    /// Files to which outputs are appended, sorted by path. All ranks lock them in this order, which prevents a deadlock.
    files: BTreeMap<&'h Path, File>,
}

impl<'h> PartFiles<'h> {
    /// Opens and locks the files to which `parts` are appended. Returns the `APPENDS` lines for the rescue file.
    fn open(&mut self, parts: &[&'h AppendedPart]) -> Result<String, BoxError> {
        let mut lengths: BTreeMap<&Path, u64> =
            parts.iter().map(|part| (part.destination.as_path(), 0)).collect();
        for (&path, length) in &mut lengths {
            let write_error = |error: io::Error| format!("cannot append to {}: {error}", path.display());
            let mut options = OpenOptions::new();
            options.append(true).create(true);
            let file = regular::open_with(path, &mut options, Links::Followed).map_err(write_error)?;
            flock(&file, FlockOperation::LockExclusive).map_err(|error| write_error(error.into()))?;
            *length = file.metadata().map_err(write_error)?.len();
            self.files.insert(path, file);
        }
        let mut lines = String::new();
        for AppendedPart { source, destination, .. } in parts {
            let write_error = |error| format!("cannot forward {}: {error}", source.display());
            let bytes = fs::metadata(source).map_err(write_error)?.len();
            if let Some(length) = lengths.get_mut(destination.as_path()) {
                lines += &Append { length: *length, bytes, path: destination.clone() }.line();
                *length += bytes;
            }
        }
        Ok(lines)
    }

    fn append(&mut self, part: &AppendedPart) -> io::Result<()> {
        let mut from = regular::open(&part.source)?;
        match self.files.get_mut(part.destination.as_path()) {
            Some(to) => io::copy(&mut from, to).map(drop),
            None => Err(ErrorKind::NotFound.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestDirectory(tempfile::TempDir);

    impl TestDirectory {
        fn new() -> Self {
            let dir = TestDirectory(tempfile::tempdir().unwrap());
            dir.write("one", "1\n");
            dir.write("two", "22\n");
            dir
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.path(name)).unwrap_or_default()
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.path(name), text).unwrap();
        }

        fn part(&self, source: &str, destination: &str) -> AppendedPart {
            let (source, destination) = (self.path(source), self.path(destination));
            AppendedPart { source, destination, is_optional: false }
        }

        fn completion_log(&self) -> CompletionLog {
            CompletionLog::new(&Rescue::new(self.path("rescue"), Links::Refused))
        }

        fn lines(&self) -> String {
            self.text("rescue").split_inclusive('\n').filter(|line| !line.starts_with("# SUM ")).collect()
        }
    }

    #[test]
    fn parts_are_appended_once_and_their_sources_removed() {
        let dir = TestDirectory::new();
        let mut log = dir.completion_log();
        dir.write("all", "0\n");
        log.record("a", &[]).unwrap();
        let both = [dir.part("one", "all"), dir.part("two", "all"), dir.part("two", "new")];
        log.record("b", &both).unwrap();
        assert_eq!((dir.text("all"), dir.text("new")), ("0\n1\n22\n".into(), "22\n".into()));
        assert!(!dir.path("one").exists() && !dir.path("two").exists());
        // The rank that ran task `b` died after it had recorded the task as done, and another rank runs the task again.
        dir.write("one", "1\n");
        dir.completion_log().record("b", &both).unwrap();
        assert_eq!(dir.text("all"), "0\n1\n22\n");
        assert!(dir.lines().starts_with("DONE a\n# APPENDS 2 2 /"));
        assert!(dir.lines().ends_with("DONE b\n"));
        let error = log.record("c", &[dir.part("none", "all")]).unwrap_err().to_string();
        assert!(error.starts_with("cannot forward "), "{error}");
        assert!(!dir.text("rescue").contains("DONE c"));
        log.record("c", &[AppendedPart { is_optional: true, ..dir.part("none", "never") }]).unwrap();
        assert!(dir.lines().ends_with("DONE b\nDONE c\n") && !dir.path("never").exists());
    }

    #[test]
    fn parts_of_a_task_interrupted_at_any_moment_are_rolled_back() {
        let dir = TestDirectory::new();
        let both = [dir.part("one", "all"), dir.part("two", "all")];
        let all = dir.path("all").display().to_string();
        let notes = format!("# APPENDS 2 2 {all}\n# APPENDS 4 3 {all}\n");
        let first = notes::done("a", 0);
        let whole = "0\n1\n22\n";
        for (note, appended) in (0..=notes.len()).map(|note| (note, 2)).chain((2..=7).map(|at| (99, at))) {
            dir.write("one", "1\n");
            dir.write("two", "22\n");
            dir.write("rescue", &format!("{first}{}", &notes[..note.min(notes.len())]));
            dir.write("all", &whole[..appended]);
            dir.completion_log().record("b", &both).unwrap();
            assert_eq!(dir.text("all"), whole, "{note} bytes noted, {appended} bytes there");
            assert_eq!(dir.lines(), format!("DONE a\n{notes}DONE b\n"));
        }
        dir.write("rescue", &format!("{first}{notes}DONE "));
        dir.completion_log().record("c", &[]).unwrap();
        assert_eq!((dir.lines(), dir.text("all")), ("DONE a\nDONE c\n".into(), "0\n".into()));
    }

    /// The run may end before another rank writes to the rescue file and removes the partial output.
    #[test]
    fn failed_append_leaves_no_partial_output() {
        let dir = TestDirectory::new();
        dir.write("all", "0\n");
        dir.completion_log().record("a", &[]).unwrap();
        fs::create_dir(dir.path("directory")).unwrap();
        let both = [dir.part("one", "all"), dir.part("directory", "all")];
        let error = dir.completion_log().record("b", &both).unwrap_err().to_string();
        assert!(error.contains("is a directory, expected a regular file"), "{error}");
        assert_eq!((dir.text("all"), dir.lines()), ("0\n".into(), "DONE a\n".into()));
    }

    #[test]
    fn text_appended_by_others_is_not_truncated() {
        let dir = TestDirectory::new();
        dir.write("all", "0\n1\nsomebody else's\n");
        let first = notes::done("a", 0);
        dir.write("rescue", &format!("{first}# APPENDS 2 2 {}\n", dir.path("all").display()));
        let error = dir.completion_log().record("b", &[]).unwrap_err().to_string();
        assert!(error.contains("has 20 bytes, expected 2 and at most 2"), "{error}");
        assert_eq!(dir.text("all"), "0\n1\nsomebody else's\n");
        dir.write("rescue", &format!("{first}# APPENDS 2 x y\n"));
        let error = dir.completion_log().record("b", &[]).unwrap_err().to_string();
        assert!(error.contains("is not a valid note of an appended part"), "{error}");
    }

    #[test]
    fn task_names_may_exceed_the_first_read_block() {
        let dir = TestDirectory::new();
        let name = "n".repeat(2 * TAIL as usize);
        let mut log = dir.completion_log();
        for task in [name.as_str(), "b"] {
            log.record(task, &[]).unwrap();
        }
        assert_eq!(dir.lines(), format!("DONE {name}\nDONE b\n"));
        Notes::parse(dir.text("rescue").as_bytes()).unwrap();
    }
}
