//! What was measured of each command, one line of JSON a try, in a file for each rank beside that of the output.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use armature::workflow::Ended;
use armature_files::regular::{self, Links};
use armature_workflow_files::Description;
use serde::{Deserialize, Serialize};

/// A try of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The task's name.
    pub task: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Whether it was done.
    pub done: bool,
    /// How it ended, in words.
    pub ended: String,
    /// Seconds from its start to its end.
    pub run_time: f64,
    /// Seconds that its processes computed.
    pub cpu_time: f64,
    /// Most bytes that its processes held together.
    pub peak_memory: u64,
    /// The host on which it ran.
    pub machine: String,
    /// The rank that ran it.
    pub rank: usize,
}

impl Record {
    /// Of a command that has ended.
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

/// The name of this host.
pub fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Where a rank's records are in the directory of outputs, beside what its commands wrote.
pub fn file(directory: &Path, rank: usize) -> PathBuf {
    directory.join(format!("rank-{rank}.jsonl"))
}

/// Appends to a rank's records.
#[derive(Debug)]
pub struct Recorder {
    file: File,
}

impl Recorder {
    /// Goes on where the file ends. A symbolic link is refused, as the name can be guessed.
    ///
    /// # Errors
    /// If it cannot be written to.
    pub fn open(path: &Path) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let opened = regular::open_with(path, OpenOptions::new().append(true).create(true), Links::Refused);
        let mut file = opened.map_err(|error| format!("cannot write to {}: {error}", path.display()))?;
        // A line that was cut short ends here.
        if file.metadata()?.len() > 0 {
            file.write_all(b"\n")?;
        }
        Ok(Recorder { file })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, record: &Record) -> Result<(), Box<dyn Error + Send + Sync>> {
        let line = serde_json::to_string(record)? + "\n";
        Ok(self.file.write_all(line.as_bytes())?)
    }
}

/// The records of all ranks that are in a directory; of each task the last one that was done counts.
///
/// # Errors
/// If the directory cannot be read. Lines that were cut short are left out.
pub fn read(directory: &Path) -> Result<BTreeMap<String, Record>, Box<dyn Error>> {
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

/// Puts what was measured into the description, for a trace.
///
/// # Errors
/// None that a record of ours has.
pub fn put_into(
    description: &mut Description,
    records: &BTreeMap<String, Record>,
) -> Result<(), Box<dyn Error>> {
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
    fn records_survive_and_the_last_that_was_done_counts() {
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
        put_into(&mut description, &records).unwrap();
        let a = &description.tasks()[0];
        assert_eq!((a.run_time, a.memory, a.machine.as_deref()), (Some(2.0), Some(7), Some("m")));
        assert_eq!(description.tasks()[1].run_time, None);
    }
}
