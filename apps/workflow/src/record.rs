//! Measurements of tasks' commands: one JSON line per attempt, in one file per rank in the directory `--outputs`.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use armature::workflow::Ended;
use armature_files::regular::{self, Links};
use armature_workflow_files::Description;
use serde::{Deserialize, Serialize};

/// Measurements of one attempt to run a task's command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the task.
    pub task: String,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// True if the command succeeded.
    pub done: bool,
    /// Description of the command's end, such as its exit code.
    pub ended: String,
    /// Time from the start to the end of the command in seconds.
    pub run_time: f64,
    /// CPU time of the command's processes in seconds.
    pub cpu_time: f64,
    /// Peak memory of all processes of the command together, in bytes.
    pub peak_memory: u64,
    /// Host on which the command ran.
    pub machine: String,
    /// Rank that ran the command.
    pub rank: usize,
}

impl Record {
    /// Returns the measurements of a command that has ended.
    pub fn of(task: &str, attempt: u32, ended: &Ended, rank: usize) -> Self {
        Record {
            task: task.into(),
            attempt,
            done: ended.is_success(),
            ended: ended.to_string(),
            run_time: ended.run_time.as_secs_f64(),
            cpu_time: ended.cpu_time.as_secs_f64(),
            peak_memory: ended.peak_memory,
            machine: machine(),
            rank,
        }
    }
}

/// Returns the name of this host.
pub fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the path in `directory` of the file with the measurements of a rank's commands.
pub fn file(directory: &Path, rank: usize) -> PathBuf {
    directory.join(format!("rank-{rank}.jsonl"))
}

/// Writer for the file with the measurements of a rank's commands.
#[derive(Debug)]
pub struct Recorder {
    file: File,
}

impl Recorder {
    /// Opens a rank's file of measurements for appending. A symbolic link is refused, because another user could guess the file name and create the
    /// link.
    ///
    /// # Errors
    /// The file cannot be opened or written.
    pub fn open(path: &Path) -> Result<Self, armature::BoxError> {
        let opened = regular::open_with(path, OpenOptions::new().append(true).create(true), Links::Refused);
        let mut file = opened.map_err(|error| format!("cannot write to {}: {error}", path.display()))?;
        // A line break separates the lines of this attempt of the job from a last line that a crash has cut short.
        if file.metadata()?.len() > 0 {
            file.write_all(b"\n")?;
        }
        Ok(Recorder { file })
    }

    /// Appends the measurements of one attempt to the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, record: &Record) -> Result<(), armature::BoxError> {
        let line = serde_json::to_string(record)? + "\n";
        Ok(self.file.write_all(line.as_bytes())?)
    }
}

/// Returns, by name of the task, the measurements of the last successful attempt in the files of all ranks in `directory`. Lines that a crash has cut
/// short are skipped.
///
/// # Errors
/// The directory or a file in it cannot be read.
pub fn read(directory: &Path) -> Result<BTreeMap<String, Record>, armature::BoxError> {
    let mut records = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_none_or(|ending| ending != "jsonl") {
            continue;
        }
        let text = regular::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let whole = text.lines().filter_map(|line| serde_json::from_str::<Record>(line).ok());
        records.extend(whole.filter(|record| record.done).map(|record| (record.task.clone(), record)));
    }
    Ok(records)
}

/// Adds the measurements `records` of commands to the tasks of a workflow, which is then written as trace.
pub fn merge_into(
    description: &mut Description,
    records: &BTreeMap<String, Record>,
) -> Result<(), armature::BoxError> {
    for task in 0..description.tasks().len() {
        if let Some(record) = records.get(&description.tasks()[task].name) {
            let machine = Some(record.machine.as_str());
            description.measured(task, record.run_time, Some(record.peak_memory), machine)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(task: &str, done: bool, run_time: f64) -> Record {
        let (ended, machine) = ("exit code 0".to_string(), "m".to_string());
        Record {
            task: task.into(),
            attempt: 1,
            done,
            ended,
            run_time,
            cpu_time: 0.0,
            peak_memory: 7,
            machine,
            rank: 0,
        }
    }

    #[test]
    fn records_are_recovered_and_the_last_successful_one_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), 3);
        let mut recorder = Recorder::open(&path).unwrap();
        recorder.add(&record("a", true, 1.0)).unwrap();
        recorder.add(&record("a", true, 2.0)).unwrap();
        recorder.add(&record("b", false, 3.0)).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend(b"{\"task\":\"c\",\"atte");
        std::fs::write(&path, bytes).unwrap();
        Recorder::open(&path).unwrap().add(&record("d", true, 4.0)).unwrap();
        let records = read(dir.path()).unwrap();
        assert_eq!(
            records.values().map(|r| (r.task.as_str(), r.run_time)).collect::<Vec<_>>(),
            [("a", 2.0), ("d", 4.0)]
        );
        let mut description = armature_workflow_files::read("a.dag", b"TASK a x\nTASK b x\n").unwrap();
        merge_into(&mut description, &records).unwrap();
        let a = &description.tasks()[0];
        assert_eq!((a.run_time, a.memory, a.machine.as_deref()), (Some(2.0), Some(7), Some("m")));
        assert_eq!(description.tasks()[1].run_time, None);
    }
}
