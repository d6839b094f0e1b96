//! Lines of a rescue file (list of a workflow's completed tasks), with checksums that reveal damage.
//!
//! | line | meaning |
//! |---|---|
//! | `DONE task` | The task is done. |
//! | `# STARTS length path` | The file had this length before the workflow appended to it. |
//! | `# APPENDS length bytes path` | The task of the next `DONE` line appends `bytes` to the file, which has this length. |
//! | `# SUM crc` | CRC-32 of all bytes before this line. |
//!
//! A file with only `DONE` lines is valid, because pegasus-mpi-cluster and users write such files. In a file with other lines of this table, each
//! group of lines ends with a `SUM` line. An incomplete last group, which a crash leaves, is valid, too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use armature_apps::names::shown;

const DONE: &str = "DONE ";
const STARTS: &str = "# STARTS ";
const APPENDS: &str = "# APPENDS ";
const SUM: &str = "# SUM ";

/// Output that a task appends to a file, as an `APPENDS` line of the rescue file records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// Length of the file before the task's output is appended, in bytes.
    pub length: u64,
    /// Length of the appended output, in bytes.
    pub bytes: u64,
    /// Path of the file to which the output is appended.
    pub path: PathBuf,
}

impl Append {
    /// Returns the `APPENDS` line of the rescue file for this output.
    pub fn line(&self) -> String {
        format!("{APPENDS}{} {} {}\n", self.length, self.bytes, self.path.display())
    }
}

/// Returns the `DONE` and `SUM` lines for a completed task. `before` is the CRC-32 of the rescue file so far.
pub fn done(task: &str, before: u32) -> String {
    let line = format!("{DONE}{task}\n");
    let sum = extend_checksum(before, line.as_bytes());
    line + &sum_line(sum)
}

/// Returns the CRC-32 of some content followed by `bytes`, where `before` is the CRC-32 of the content.
pub fn extend_checksum(before: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(bytes);
    hasher.finalize()
}

/// Returns the CRC-32 of a whole rescue file from its last line, if this line is a valid `SUM` line.
pub fn checksum_after(last_line: &[u8]) -> Option<u32> {
    let sum = std::str::from_utf8(last_line).ok()?.strip_suffix('\n')?.strip_prefix(SUM)?;
    let before = u32::from_str_radix(sum, 16).ok()?;
    (last_line == sum_line(before).as_bytes()).then(|| extend_checksum(before, last_line))
}

fn sum_line(sum: u32) -> String {
    format!("{SUM}{sum:08x}\n")
}

/// Parsed content of a rescue file (list of a workflow's completed tasks).
#[derive(Debug, Default)]
pub struct Notes {
    /// Length in bytes of each file before the workflow appended output to it.
    starts: BTreeMap<PathBuf, u64>,
    /// Length in bytes that each file has after the appended output of all completed tasks.
    lengths: BTreeMap<PathBuf, u64>,
    /// Outputs that an interrupted task would append to files. Each output may have been appended completely, partially, or not at all.
    pub interrupted: Vec<Append>,
    /// End, in bytes, of the last complete line that does not belong to an interrupted task.
    pub end: usize,
    body: String,
    has_done: bool,
    has_sum: bool,
}

impl Notes {
    /// Parses the lines of a rescue file and checks their checksums, but not the names of tasks.
    ///
    /// # Errors
    /// A description of the damage, with the number of the line.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut notes = Notes::default();
        let (mut at, mut pending, mut is_ours, mut other_line) = (0, String::new(), false, None);
        for (number, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let damaged = |what: &str| format!("is damaged in line {}: {what}", number + 1);
            if line.contains(&0) {
                return Err(damaged("it has bytes that are zero"));
            }
            if !line.ends_with(b"\n") {
                break;
            }
            let text = std::str::from_utf8(line).map_err(|_| damaged("it is not text in UTF-8"))?;
            if let Some(rest) = text.strip_prefix(APPENDS) {
                let append =
                    append(rest).ok_or_else(|| damaged("it is not a valid note of an appended part"))?;
                notes.interrupted.push(append);
                pending.push_str(text);
            } else if text.starts_with(DONE) {
                for Append { length, bytes, path } in notes.interrupted.drain(..) {
                    notes.lengths.insert(path, length.saturating_add(bytes));
                }
                notes.body += &pending;
                notes.body += text;
                pending.clear();
                notes.has_done = true;
            } else if let Some(rest) = text.strip_prefix(STARTS) {
                let (path, length) =
                    start(rest).ok_or_else(|| damaged("it is not a valid length of a file"))?;
                notes.starts.insert(path, length);
            } else if text.starts_with(SUM) {
                let expected = sum_line(crc32fast::hash(&bytes[..at]));
                if text != expected {
                    let (text, expected) = (text.trim_end(), expected.trim_end());
                    return Err(damaged(&format!("`{}`, expected `{expected}`", shown(text))));
                }
                notes.has_sum = true;
            } else {
                other_line = Some(number + 1);
            }
            is_ours |= [APPENDS, STARTS, SUM].iter().any(|start| text.starts_with(start));
            at += line.len();
            if notes.interrupted.is_empty() {
                notes.end = at;
            }
        }
        if is_ours && !notes.has_sum {
            return Err("is damaged: its first checksum is missing".into());
        }
        if let Some(line) = other_line.filter(|_| is_ours) {
            return Err(format!("is damaged in line {line}: it is not a line that a run writes"));
        }
        Ok(notes)
    }

    /// Returns true if the file contains neither a completed task nor a checksum, which indicates that its content was lost.
    pub fn is_empty(&self) -> bool {
        !self.has_done && !self.has_sum
    }

    /// Returns the length that a file must have with the appended output of all completed tasks, if the workflow appends to the file.
    pub fn length(&self, path: &Path) -> Option<u64> {
        self.lengths.get(path).or_else(|| self.starts.get(path)).copied()
    }

    /// Returns the length that a file has if the interrupted task has appended its output completely, if that task appends to the file.
    pub fn end_of_interrupted(&self, path: &Path) -> Option<u64> {
        let of_path = self.interrupted.iter().filter(|append| append.path == path);
        of_path.map(|append| append.length.saturating_add(append.bytes)).max()
    }

    /// Returns the text of this rescue file with additional `STARTS` lines for the files in `more`, which have the given lengths.
    pub fn with_starts(&self, more: &BTreeMap<PathBuf, u64>) -> String {
        let mut text = String::new();
        for (path, length) in self.starts.iter().chain(more) {
            text += &format!("{STARTS}{length} {}\n", path.display());
        }
        text += &sum_line(crc32fast::hash(text.as_bytes()));
        if !self.body.is_empty() {
            text += &self.body;
            text += &sum_line(crc32fast::hash(text.as_bytes()));
        }
        text
    }
}

fn append(rest: &str) -> Option<Append> {
    let (length, rest) = rest.split_once(' ')?;
    let (path, bytes) = start(rest)?;
    Some(Append { length: length.parse().ok()?, bytes, path })
}

fn start(rest: &str) -> Option<(PathBuf, u64)> {
    let (number, path) = rest.strip_suffix('\n')?.split_once(' ')?;
    Some((path.into(), number.parse().ok()?))
}
