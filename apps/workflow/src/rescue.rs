//! Rescue file: the names of the completed tasks, written as they end, so that a restarted run skips them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use armature_apps::terminal::eprint_line;
use armature_files::lock::{LockFile, TRIES};
use armature_files::output;
use armature_files::regular::{self, Links};
use armature_workflow_files::{Description, rescue};
use rustix::fs::{FlockOperation, flock};

use crate::completion_log::repair;
use crate::notes::Notes;

/// Rescue file of a workflow, which names the completed tasks. Every rank appends to it with its [completion log](crate::completion_log).
#[derive(Clone, Debug)]
pub struct Rescue {
    path: PathBuf,
    links: Links,
    is_skipped: bool,
}

impl Rescue {
    /// Returns the rescue file at `path`. `links` determines whether a symbolic link at `path` is followed, which is safe only for a name that the
    /// user has chosen.
    pub fn new(path: impl Into<PathBuf>, links: Links) -> Self {
        Rescue { path: path.into(), links, is_skipped: false }
    }

    /// Sets whether an earlier rescue file is ignored: if `is_skipped` is true, a new run renames the rescue file of an earlier run to `FILE.old`
    /// when it begins, and runs all tasks again.
    pub fn skip(self, is_skipped: bool) -> Self {
        Rescue { is_skipped, ..self }
    }

    /// Opens the rescue file.
    ///
    /// # Errors
    /// The errors of [`regular::open_with`].
    pub fn open(&self, options: &mut OpenOptions) -> io::Result<File> {
        regular::open_with(&self.path, options, self.links)
    }

    /// Begins a run: locks the file against other runs, checks it, removes the outputs that interrupted tasks appended to other files, and marks the
    /// tasks in the rescue file as done. `targets` are the files to which tasks append outputs; their initial lengths are recorded.
    ///
    /// # Errors
    /// Another run uses the file; the file cannot be read or written, is damaged, or names an unknown task; or a target has another length than the
    /// rescue file records.
    pub fn begin(
        &self,
        description: &mut Description,
        targets: &BTreeSet<PathBuf>,
    ) -> Result<LockFile, armature::BoxError> {
        self.begin_within(TRIES, description, targets)
    }

    fn begin_within(
        &self,
        tries: u32,
        description: &mut Description,
        targets: &BTreeSet<PathBuf>,
    ) -> Result<LockFile, armature::BoxError> {
        let path = self.path.display();
        let mut lock = self.path.clone().into_os_string();
        lock.push(".lock");
        let waiting = |holder: &str| {
            eprint_line(format_args!("waits for another run of this workflow: {holder} uses {path}"))
        };
        let lock = LockFile::acquire(Path::new(&lock), tries, waiting).map_err(|error| {
            format!(
                "cannot lock the rescue file {path}: {error}. Concurrent runs need different rescue files (--rescue)"
            )
        })?;
        if self.is_skipped {
            self.set_aside().map_err(|error| format!("cannot rename the rescue file {path}: {error}"))?;
        }
        self.prepare(description, targets).map_err(|error| format!("the rescue file {path} {error}"))?;
        Ok(lock.temporary())
    }

    fn set_aside(&self) -> io::Result<()> {
        match self.open(OpenOptions::new().read(true)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            opened => {
                opened?;
                let mut old = self.path.clone().into_os_string();
                old.push(".old");
                fs::rename(&self.path, &old)?;
                let old = Path::new(&old).display();
                eprint_line(format_args!("all tasks run again: the earlier rescue file is now {old}"));
                Ok(())
            }
        }
    }

    fn prepare(
        &self,
        description: &mut Description,
        targets: &BTreeSet<PathBuf>,
    ) -> Result<(), armature::BoxError> {
        let unreadable = |error: io::Error| format!("cannot be read: {error}");
        let mut bytes = Vec::new();
        let mut file = match self.open(OpenOptions::new().read(true).append(true)) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            opened => Some(opened.map_err(unreadable)?),
        };
        if let Some(file) = &mut file {
            // The lock keeps out ranks of an earlier run that is being killed, which may still write to the file.
            flock(&*file, FlockOperation::LockExclusive).map_err(|error| unreadable(error.into()))?;
            file.read_to_end(&mut bytes).map_err(unreadable)?;
        }
        let notes = Notes::parse(&bytes).map_err(|text| format!("{text}. {RESTORE}"))?;
        if file.is_some() && notes.is_empty() && !targets.is_empty() {
            return Err(format!("is damaged: it names no task and has no checksum. {RESTORE}").into());
        }
        rescue::read(&self.path.display().to_string(), &bytes[..notes.end], description)
            .map_err(|error| format!("is invalid: {error}"))?;
        let mut missing = BTreeMap::new();
        for target in targets {
            let length = match fs::metadata(target) {
                Err(error) if error.kind() == ErrorKind::NotFound => 0,
                found => found.map_err(|error| format!("needs {}: {error}", target.display()))?.len(),
            };
            match notes.length(target) {
                None if target.to_str().is_some_and(|name| !name.contains('\n')) => {
                    missing.insert(target.clone(), length);
                }
                None => {
                    let text = format!("cannot name {target:?}: expected a name in UTF-8, of one line");
                    return Err(text.into());
                }
                Some(known)
                    if (known..=notes.end_of_interrupted(target).unwrap_or(known)).contains(&length) => {}
                Some(known) => return Err(unaccounted(target, known, length).into()),
            }
        }
        if let Some(mut file) = file {
            repair(&mut file).map_err(|error| format!("does not match the files of tasks: {error}"))?;
        }
        if !missing.is_empty() {
            let text = notes.with_starts(&missing);
            let write = if self.links == Links::Followed { output::write } else { output::replace };
            write(&self.path, text.as_bytes()).map_err(|error| format!("cannot be written: {error}"))?;
        }
        Ok(())
    }

    /// Returns the path of the rescue file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn unaccounted(target: &Path, known: u64, length: u64) -> String {
    let name = target.display();
    let remedy = match known < length {
        true => format!("`truncate -s {known} {name}` removes the parts of tasks that will run again"),
        false => RESTORE.to_string(),
    };
    format!("accounts for {known} bytes of {name}, but there are {length}. {remedy}")
}

const RESTORE: &str = "Restore it, or remove it and the parts that tasks have appended to files (-f, -F), to run all tasks again";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completion_log::{AppendedPart, CompletionLog};

    struct TestWorkflow {
        dir: tempfile::TempDir,
        description: Description,
    }

    const TASKS: [&str; 3] = ["a", "b", "long name"];

    impl TestWorkflow {
        fn new() -> Self {
            let dag = b"TASK a x\nTASK b x\nTASK 'long name' x\n";
            let description = armature_workflow_files::read("a.dag", dag).unwrap();
            TestWorkflow { dir: tempfile::tempdir().unwrap(), description }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn rescue(&self) -> Rescue {
            Rescue::new(self.path("a.rescue"), Links::Refused)
        }

        fn targets(&self) -> BTreeSet<PathBuf> {
            ["all", "log"].map(|name| self.path(name)).into()
        }

        fn begin(&self, targets: &BTreeSet<PathBuf>) -> Result<Vec<bool>, String> {
            let mut description = self.description.clone();
            self.rescue().begin_within(1, &mut description, targets).map_err(|error| error.to_string())?;
            Ok(description.tasks().iter().map(|task| task.done).collect())
        }

        fn run(&self, task: &str) {
            let part = |name: &str| {
                fs::write(self.path("part"), format!("{task}\n")).unwrap();
                let (source, destination) = (self.path("part"), self.path(name));
                AppendedPart { source, destination, is_optional: false }
            };
            CompletionLog::new(&self.rescue()).record(task, &["all", "log"].map(part)).unwrap();
        }

        fn parts(&self, name: &str) -> Vec<String> {
            let text = fs::read_to_string(self.path(name)).unwrap_or_default();
            let mut lines: Vec<String> = text.lines().map(String::from).collect();
            lines.sort();
            lines
        }
    }

    /// After each damage to the rescue file (truncation at each byte, zeros at the end, one changed byte), the next run is refused, or appends the
    /// output of each task exactly once.
    #[test]
    fn damaged_rescue_file_never_duplicates_or_loses_parts() {
        let workflow = TestWorkflow::new();
        fs::write(workflow.path("all"), "before\n").unwrap();
        assert_eq!(workflow.begin(&workflow.targets()), Ok(vec![false; 3]));
        TASKS.iter().for_each(|task| workflow.run(task));
        let whole = fs::read(workflow.path("a.rescue")).unwrap();
        let contents = ["all", "log"].map(|name| fs::read(workflow.path(name)).unwrap());
        let mut damaged: Vec<Vec<u8>> = (0..=whole.len()).map(|length| whole[..length].to_vec()).collect();
        damaged.push(vec![0; whole.len()]);
        let zeroed = |from: usize| [&whole[..from], &vec![0; whole.len() - from]].concat();
        damaged.extend((0..whole.len()).step_by(7).map(zeroed));
        for at in 0..whole.len() {
            for byte in [[b'\n', b'#', b'a', b'b', b'0'][at % 5], whole[at] ^ 1] {
                let mut changed = whole.clone();
                changed[at] = byte;
                damaged.push(changed);
            }
        }
        let (mut refused, mut accepted) = (0, 0);
        for bytes in damaged {
            fs::write(workflow.path("a.rescue"), &bytes).unwrap();
            for (name, content) in ["all", "log"].iter().zip(&contents) {
                fs::write(workflow.path(name), content).unwrap();
            }
            let text = String::from_utf8_lossy(&bytes);
            match workflow.begin(&workflow.targets()) {
                Err(error) => {
                    assert!(error.starts_with("the rescue file "), "{error}");
                    refused += 1;
                }
                Ok(done) => {
                    let left = TASKS.iter().zip(done).filter(|(_, done)| !done);
                    left.for_each(|(task, _)| workflow.run(task));
                    assert_eq!(workflow.parts("all"), ["a", "b", "before", "long name"], "{text}");
                    assert_eq!(workflow.parts("log"), ["a", "b", "long name"], "{text}");
                    accepted += 1;
                }
            }
        }
        assert!(accepted > 10 && refused > 1000, "{accepted} accepted, {refused} refused");
    }

    #[test]
    fn foreign_rescue_files_are_read_and_unexplained_output_is_refused() {
        let workflow = TestWorkflow::new();
        let none = BTreeSet::new();
        assert_eq!(workflow.begin(&none), Ok(vec![false; 3]));
        assert!(!workflow.path("a.rescue").exists(), "it is made with the first note");
        // A rescue file without checksums, as pegasus-mpi-cluster or a user writes it, is accepted. The last line without line end may be cut short,
        // so task `a` does not count as done.
        fs::write(workflow.path("a.rescue"), "# so far\n\nDONE b\nDONE a").unwrap();
        assert_eq!(workflow.begin(&workflow.targets()), Ok(vec![false, true, false]));
        workflow.run("a");
        assert_eq!(workflow.begin(&workflow.targets()), Ok(vec![true, true, false]));
        let more = fs::read_to_string(workflow.path("a.rescue")).unwrap() + "DONE long name\n";
        fs::write(workflow.path("a.rescue"), more).unwrap();
        assert_eq!(workflow.begin(&workflow.targets()), Ok(vec![true; 3]));
        fs::write(workflow.path("all"), "a\nanother program's\n").unwrap();
        let error = workflow.begin(&workflow.targets()).unwrap_err();
        assert!(error.contains("accounts for 2 bytes of") && error.contains("but there are 20"), "{error}");
        fs::remove_file(workflow.path("all")).unwrap();
        let error = workflow.begin(&workflow.targets()).unwrap_err();
        assert!(error.contains("but there are 0. Restore it"), "{error}");
        fs::write(workflow.path("a.rescue"), "DONE nobody\n").unwrap();
        assert!(workflow.begin(&none).unwrap_err().contains("there is no task \"nobody\""));
    }

    #[test]
    fn rescue_file_is_locked_by_one_run() {
        let workflow = TestWorkflow::new();
        let mut description = workflow.description.clone();
        let first = workflow.rescue().begin_within(1, &mut description, &BTreeSet::new()).unwrap();
        let error = workflow.begin(&BTreeSet::new()).unwrap_err();
        assert!(error.contains("cannot lock the rescue file") && error.contains("uses it"), "{error}");
        drop(first);
        workflow.begin(&BTreeSet::new()).unwrap();
        assert_eq!(fs::read_dir(workflow.dir.path()).unwrap().count(), 0, "the lock leaves nothing behind");
    }

    #[test]
    fn rescue_file_link_is_followed_only_if_the_user_named_it() {
        let workflow = TestWorkflow::new();
        std::os::unix::fs::symlink("elsewhere", workflow.path("a.rescue")).unwrap();
        let error = CompletionLog::new(&workflow.rescue()).record("a", &[]).unwrap_err().to_string();
        assert!(error.contains("is a symbolic link"), "{error}");
        CompletionLog::new(&Rescue::new(workflow.path("a.rescue"), Links::Followed))
            .record("a", &[])
            .unwrap();
        assert!(fs::read_to_string(workflow.path("elsewhere")).unwrap().starts_with("DONE a\n"));
    }
}
