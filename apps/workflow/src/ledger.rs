//! What ranks note as tasks end: that they are done, and before that what they are about to append to other files, so that it is appended
//! exactly once.
//!
//! Notes are lines of the rescue file, written while its lock is held. A task that hands files on gets `# APPENDS length bytes path` for each:
//! the length that the file at `path` has, and how many bytes follow. Then they are appended, and then `DONE task` is noted. Lines
//! `# APPENDS` at the end of the file are those of a rank that has died in between: whoever notes something next takes back what was
//! appended, as the task is not done.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use armature::BoxError;
use armature_files::regular::{self, Links};
use rustix::fs::{FlockOperation, flock};

const APPENDS: &str = "# APPENDS ";

/// Bytes at the end of the file that have its last line, unless that has a very long name.
const TAIL: u64 = 4096;

/// What a task that is done hands on: a file that is appended to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// What it has written.
    pub source: PathBuf,
    /// Where that goes.
    pub destination: PathBuf,
}

/// One rank's access to the notes of all.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    /// How far it was read.
    read: u64,
    /// Tasks that are done as of there.
    done: HashSet<String>,
}

impl Ledger {
    /// The notes in a file, which is made when something is noted.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Ledger { path: path.into(), read: 0, done: HashSet::new() }
    }

    /// Appends what a task hands on, and notes that it is done. A task that hands something on and is noted already has been run again: a
    /// rank died between its note and its report. What it wrote then counts.
    ///
    /// # Errors
    /// If a file cannot be read or written; then the task is not noted.
    pub fn note(&mut self, task: &str, handovers: &[Handover]) -> Result<(), BoxError> {
        let path = self.path.display().to_string();
        let wrong = |error: io::Error| format!("cannot write to the rescue file {path}: {error}");
        let mut options = OpenOptions::new().read(true).append(true).create(true).clone();
        let mut file = regular::open_with(&self.path, &mut options, Links::Followed).map_err(wrong)?;
        // Ranks on other hosts append, too: on network file systems only a lock brings the true end of the file.
        flock(&file, FlockOperation::LockExclusive).map_err(|error| wrong(error.into()))?;
        mend(&mut file).map_err(wrong)?;
        if !handovers.is_empty() {
            self.catch_up(&mut file).map_err(wrong)?;
            if self.done.contains(task) {
                return Ok(());
            }
            let mut targets = Targets::default();
            let notes = targets.open(handovers)?;
            file.write_all(notes.as_bytes()).map_err(wrong)?;
            for handover in handovers {
                targets.append(handover).map_err(|error| {
                    let Handover { source, destination } = handover;
                    format!("cannot append {} to {}: {error}", source.display(), destination.display())
                })?;
            }
        }
        Ok(file.write_all(format!("DONE {task}\n").as_bytes()).map_err(wrong)?)
    }

    /// Reads what was noted since the last time.
    fn catch_up(&mut self, file: &mut File) -> io::Result<()> {
        let mut text = String::new();
        file.seek(SeekFrom::Start(self.read))?;
        self.read += file.read_to_string(&mut text)? as u64;
        self.done.extend(text.lines().filter_map(|line| line.strip_prefix("DONE ")).map(String::from));
        Ok(())
    }
}

/// Cuts off what ranks that were killed have left at the end: half a line, which may be the name of another task, and notes of what was to
/// be appended, which is taken back.
fn mend(file: &mut File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    file.read_to_end(&mut tail)?;
    let last = tail.strip_suffix(b"\n").map(|lines| match lines.iter().rposition(|&byte| byte == b'\n') {
        Some(end) => Some(&lines[end + 1..]),
        None => (length <= TAIL).then_some(lines),
    });
    let is_whole = |line: &[u8]| !line.starts_with(APPENDS.as_bytes());
    if length == 0 || last.flatten().is_some_and(is_whole) {
        return Ok(());
    }
    let mut all = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut all)?;
    let mut whole = all.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    while whole > 0 {
        let start = all[..whole - 1].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let Some(note) = all[start..whole - 1].strip_prefix(APPENDS.as_bytes()) else { break };
        take_back(note)?;
        whole = start;
    }
    file.set_len(whole as u64)
}

/// Takes back what was appended after a note: the words behind its first.
fn take_back(note: &[u8]) -> io::Result<()> {
    let damaged = || {
        let note = armature_apps::names::shown(&String::from_utf8_lossy(note));
        io::Error::new(ErrorKind::InvalidData, format!("`{APPENDS}{note}` is no note of what was appended"))
    };
    let note = std::str::from_utf8(note).map_err(|_| damaged())?;
    let mut words = note.splitn(3, ' ');
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).ok_or_else(damaged);
    let (length, bytes) = (number()?, number()?);
    let path = Path::new(words.next().ok_or_else(damaged)?);
    let file = match regular::open_with(path, OpenOptions::new().write(true), Links::Followed) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    flock(&file, FlockOperation::LockExclusive)?;
    let now = file.metadata()?.len();
    if now > length.saturating_add(bytes) {
        let path = path.display();
        let text = format!(
            "{path} has {now} bytes, expected {length} and at most {bytes} that a task which died has appended: somebody \
             else has written to it. Remove what is not to stay, and the last lines {APPENDS}… of the rescue file"
        );
        return Err(io::Error::new(ErrorKind::InvalidData, text));
    }
    if now > length { file.set_len(length) } else { Ok(()) }
}

/// The files that something is appended to, locked.
#[derive(Default)]
struct Targets<'h> {
    /// By path, so that all take locks in the same order.
    files: BTreeMap<&'h Path, File>,
}

impl<'h> Targets<'h> {
    /// Opens and locks them; returns the notes of what is to be appended.
    fn open(&mut self, handovers: &'h [Handover]) -> Result<String, BoxError> {
        let mut lengths: BTreeMap<&Path, u64> =
            handovers.iter().map(|handover| (handover.destination.as_path(), 0)).collect();
        for (&path, length) in &mut lengths {
            let wrong = |error: io::Error| format!("cannot append to {}: {error}", path.display());
            let mut options = OpenOptions::new().append(true).create(true).clone();
            let file = regular::open_with(path, &mut options, Links::Followed).map_err(wrong)?;
            flock(&file, FlockOperation::LockExclusive).map_err(|error| wrong(error.into()))?;
            *length = file.metadata().map_err(wrong)?.len();
            self.files.insert(path, file);
        }
        let mut notes = String::new();
        for Handover { source, destination } in handovers {
            let wrong = |error| format!("cannot hand {} on: {error}", source.display());
            let bytes = fs::metadata(source).map_err(wrong)?.len();
            let path = destination.to_str().filter(|path| !path.contains('\n'));
            let path = path.ok_or_else(|| {
                format!("cannot append to {destination:?}: expected a name in UTF-8, of one line")
            })?;
            if let Some(length) = lengths.get_mut(destination.as_path()) {
                notes += &format!("{APPENDS}{length} {bytes} {path}\n");
                *length += bytes;
            }
        }
        Ok(notes)
    }

    fn append(&mut self, handover: &Handover) -> io::Result<()> {
        let mut from = regular::open(&handover.source)?;
        match self.files.get_mut(handover.destination.as_path()) {
            Some(to) => io::copy(&mut from, to).map(drop),
            None => Err(ErrorKind::NotFound.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.path(name)).unwrap_or_default()
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.path(name), text).unwrap();
        }

        fn handover(&self, source: &str, destination: &str) -> Handover {
            Handover { source: self.path(source), destination: self.path(destination) }
        }
    }

    #[test]
    fn what_tasks_hand_on_is_there_once() {
        let place = Place(tempfile::tempdir().unwrap());
        let mut ledger = Ledger::new(place.path("rescue"));
        place.write("one", "1\n");
        place.write("two", "22\n");
        place.write("all", "0\n");
        ledger.note("a", &[]).unwrap();
        let both = [place.handover("one", "all"), place.handover("two", "all"), place.handover("two", "new")];
        ledger.note("b", &both).unwrap();
        assert_eq!((place.text("all"), place.text("new")), ("0\n1\n22\n".into(), "22\n".into()));
        // Another rank does it again, as if the first had died before it could say so.
        Ledger::new(place.path("rescue")).note("b", &both).unwrap();
        assert_eq!(place.text("all"), "0\n1\n22\n");
        assert!(place.text("rescue").starts_with("DONE a\n# APPENDS 2 2 /"));
        assert!(place.text("rescue").ends_with("DONE b\n"));
        let error = ledger.note("c", &[place.handover("none", "all")]).unwrap_err().to_string();
        assert!(error.starts_with("cannot hand "), "{error}");
        assert!(!place.text("rescue").contains("DONE c"));
    }

    #[test]
    fn what_was_appended_before_a_death_is_taken_back_at_whatever_moment() {
        let place = Place(tempfile::tempdir().unwrap());
        place.write("one", "1\n");
        place.write("two", "22\n");
        let both = [place.handover("one", "all"), place.handover("two", "all")];
        let all = place.path("all").display().to_string();
        let notes = format!("# APPENDS 2 2 {all}\n# APPENDS 4 3 {all}\n");
        let whole = "0\n1\n22\n";
        for (note, appended) in (0..=notes.len()).map(|note| (note, 2)).chain((2..=7).map(|at| (99, at))) {
            place.write("rescue", &format!("DONE a\n{}", &notes[..note.min(notes.len())]));
            place.write("all", &whole[..appended]);
            Ledger::new(place.path("rescue")).note("b", &both).unwrap();
            assert_eq!(place.text("all"), whole, "{note} bytes noted, {appended} bytes there");
            assert_eq!(place.text("rescue"), format!("DONE a\n{notes}DONE b\n"));
        }
        // Half a DONE is none.
        place.write("rescue", &format!("{notes}DONE "));
        Ledger::new(place.path("rescue")).note("c", &[]).unwrap();
        assert_eq!((place.text("rescue"), place.text("all")), ("DONE c\n".into(), "0\n".into()));
    }

    #[test]
    fn what_others_have_appended_is_not_cut_off() {
        let place = Place(tempfile::tempdir().unwrap());
        place.write("all", "0\n1\nsomebody else's\n");
        place.write("rescue", &format!("# APPENDS 2 2 {}\n", place.path("all").display()));
        let error = Ledger::new(place.path("rescue")).note("a", &[]).unwrap_err().to_string();
        assert!(error.contains("has 20 bytes, expected 2 and at most 2"), "{error}");
        assert_eq!(place.text("all"), "0\n1\nsomebody else's\n");
        place.write("rescue", "# APPENDS 2 x y\n");
        let error = Ledger::new(place.path("rescue")).note("a", &[]).unwrap_err().to_string();
        assert!(error.contains("is no note of what was appended"), "{error}");
    }

    #[test]
    fn names_may_be_longer_than_what_is_looked_at_first() {
        let place = Place(tempfile::tempdir().unwrap());
        let name = "n".repeat(2 * TAIL as usize);
        let mut ledger = Ledger::new(place.path("rescue"));
        for task in [name.as_str(), "b"] {
            ledger.note(task, &[]).unwrap();
        }
        assert_eq!(place.text("rescue"), format!("DONE {name}\nDONE b\n"));
    }
}
