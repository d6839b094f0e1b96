//! Workflow whose ranks are killed: every other task is a command, and each task records on disk that it was started
//! and writes one file (its effect).
//!
//! In the folder of the run ([`RunFolder`]) each attempt appends its task to `begun`. The effect of a task is a file
//! with the name of the task in `effects`, which appears there only when complete and is never replaced. A task whose
//! rank died after the effect but before the completion record runs again, and must then produce the same effect. The
//! effect contains a number that is computed from the numbers of the tasks on which the task depends. A last task
//! adds up the numbers of all others, from their values or from the files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write;
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use armature::workflow::{Action, Description, Inputs, Task, Workflow};
use armature::{BoxError, Commands, Config, Context, Progress, Session};
use armature_planner::random::Random;

use crate::{RunResult, deaths::RunFolder};

const JOURNAL: &str = "journal";
const EFFECTS_FOLDER: &str = "effects";
const STARTS_FILE: &str = "begun";
/// File in which a run lists the tasks whose results it found in the journal of an earlier run.
const REPLAYED_FILE: &str = "known";
/// Exclusive upper bound of the number that a task computes.
const MODULUS: u64 = 1_000_003;
/// Maximum difference between the numbers of a task and of a task on which it depends. It keeps the graph deep, and
/// only wide enough for a few ranks.
const MAX_PARENT_DISTANCE: usize = 20;
const TOTAL: &str = "total";

/// Parameters of a workflow whose ranks are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillRun {
    /// Number of tasks, without the last task, which adds up the numbers of all others.
    pub tasks: usize,
    /// Seed of the dependences and of the times of the tasks.
    pub seed: u64,
}

/// Files of a run whose ranks are killed.
#[derive(Clone, Debug)]
pub struct RunFiles {
    /// Folder of the run's files, in which ranks also register their process ids.
    pub run_folder: RunFolder,
}

impl KillRun {
    /// Returns the arguments of the rank program.
    pub fn arguments(self, run_files: &RunFiles) -> Vec<String> {
        let numbers = [self.tasks as u64, self.seed].map(|number| number.to_string());
        std::iter::once(run_files.run_folder.folder().display().to_string()).chain(numbers).collect()
    }

    pub(super) fn parents(self) -> Vec<Vec<usize>> {
        let mut random = Random::new(self.seed);
        let parents = |task: usize| {
            let count = random.below(3).min(task);
            let mut parents: Vec<usize> =
                (0..count).map(|_| task - 1 - random.below(task.min(MAX_PARENT_DISTANCE))).collect();
            parents.sort_unstable();
            parents.dedup();
            parents
        };
        (0..self.tasks).map(parents).collect()
    }

    /// Returns for each task a waiting time, which makes the run long enough that its ranks can be killed in the
    /// middle.
    fn times(self) -> Vec<Duration> {
        let mut random = Random::new(!self.seed);
        (0..self.tasks).map(|_| Duration::from_millis(2 + random.below(8) as u64)).collect()
    }

    fn describe(self) -> RunResult<Description> {
        let mut builder = Description::builder("kill-run");
        for (task, (parents, time)) in self.parents().iter().zip(self.times()).enumerate() {
            let action = if is_command(task) {
                Action::Shell(script(task, parents, time))
            } else {
                Action::Closure("number".into())
            };
            builder.task(Task::new(task.to_string(), action));
            for parent in parents {
                builder.edge(parent.to_string(), task.to_string(), 0);
            }
            builder.edge(task.to_string(), TOTAL, 0);
        }
        builder.task(Task::new(TOTAL, Action::Closure(TOTAL.into())));
        Ok(builder.build()?)
    }
}

fn is_command(task: usize) -> bool {
    task % 2 == 1
}

fn number(task: usize, parents: impl Iterator<Item = u64>) -> u64 {
    (31 * task as u64 + 7 * parents.sum::<u64>() + 1) % MODULUS
}

fn numbers(parents: &[Vec<usize>]) -> Vec<u64> {
    let mut numbers: Vec<u64> = Vec::with_capacity(parents.len());
    for (task, parents) in parents.iter().enumerate() {
        numbers.push(number(task, parents.iter().map(|&parent| numbers[parent])));
    }
    numbers
}

fn script(task: usize, parents: &[usize], time: Duration) -> String {
    let mut sum = String::from("0");
    for parent in parents {
        let _ = write!(sum, " + $(cat {EFFECTS_FOLDER}/{parent})");
    }
    let (seconds, new) = (time.as_secs_f64(), format!("new-{task}.$$"));
    format!(
        "echo {task} >> {STARTS_FILE}; sleep {seconds}; n=$(( (31 * {task} + 7 * ({sum}) + 1) % {MODULUS} )); \
         echo $n > {new} && {{ ln {new} {EFFECTS_FOLDER}/{task} 2>/dev/null || cmp {new} {EFFECTS_FOLDER}/{task}; }} && rm {new}"
    )
}

impl RunFiles {
    /// Removes all files of earlier runs from the folder, and creates an empty folder for the effects (files that
    /// tasks create).
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn clear(&self) -> RunResult {
        self.run_folder.clear()?;
        Ok(fs::create_dir(self.run_folder.path(EFFECTS_FOLDER))?)
    }

    /// Removes the files of a run, except for the effects (files that tasks create) and the journal (file of finished
    /// results).
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove_run_files(&self) -> RunResult {
        self.run_folder.remove_files_except(&[JOURNAL, EFFECTS_FOLDER])
    }

    /// Returns the tasks with complete records in the run's journal (file of finished results), decoded by the format
    /// that the runtime's documentation gives.
    pub fn journalled(&self) -> BTreeSet<usize> {
        let bytes = fs::read(self.run_folder.path(JOURNAL)).unwrap_or_default();
        let word = |at: usize| {
            let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
            word.map(|word| u32::from_le_bytes(word) as usize)
        };
        let mut tasks = BTreeSet::new();
        let Some(mut at) = word(12).map(|identity| 16 + identity + 4) else { return tasks };
        while let (Some(length), Some(task)) = (word(at), word(at + 8))
            && at + 16 + length <= bytes.len()
        {
            tasks.insert(task);
            at += 16 + length;
        }
        tasks
    }

    /// Returns the number of starts of each task in this run.
    ///
    /// # Errors
    /// If the file contains anything other than task numbers.
    pub fn started_tasks(&self) -> RunResult<BTreeMap<usize, usize>> {
        let text = fs::read_to_string(self.run_folder.path(STARTS_FILE)).unwrap_or_default();
        let mut starts = BTreeMap::new();
        for line in text.lines() {
            *starts.entry(line.parse()?).or_default() += 1;
        }
        Ok(starts)
    }

    /// Returns the tasks whose results the run found in the journal of an earlier run, from the file in which the run
    /// lists them.
    ///
    /// # Errors
    /// If the run has not written the file.
    pub fn replayed_tasks(&self) -> RunResult<BTreeSet<usize>> {
        let text = fs::read_to_string(self.run_folder.path(REPLAYED_FILE))?;
        Ok(text.lines().map(str::parse).collect::<Result<_, _>>()?)
    }

    /// Returns the number of tasks whose effect (a file with the task's number) exists.
    ///
    /// # Errors
    /// If the folder of the effects cannot be read.
    pub fn effects(&self) -> RunResult<usize> {
        Ok(fs::read_dir(self.run_folder.path(EFFECTS_FOLDER))?.count())
    }

    /// Returns true if a rank has run the closure of any task.
    pub fn has_joined(&self, rank: usize) -> bool {
        self.run_folder.path(&format!("come-{rank}")).is_file()
    }

    /// Checks that the folder of the effects contains the right effect (file) of each task, and no other files.
    ///
    /// # Errors
    /// If an effect is missing or wrong, with the first such task, or if there are additional
    /// effects.
    pub fn check(&self, kill_run: KillRun) -> RunResult {
        for (task, expected) in numbers(&kill_run.parents()).into_iter().enumerate() {
            let found = self.effect(task).map_err(|error| format!("the effect of task {task}: {error}"))?;
            if found != expected {
                return Err(format!("task {task} has left {found}, expected {expected}").into());
            }
        }
        match self.effects()? {
            effects if effects == kill_run.tasks => Ok(()),
            effects => Err(format!("there are {effects} effects of {} tasks", kill_run.tasks).into()),
        }
    }

    fn effect(&self, task: usize) -> RunResult<u64> {
        let text = fs::read_to_string(self.run_folder.path(&format!("{EFFECTS_FOLDER}/{task}")))?;
        Ok(text.trim().parse()?)
    }

    fn record_start(&self, task: usize) -> RunResult {
        let mut starts = File::options().create(true).append(true).open(self.run_folder.path(STARTS_FILE))?;
        // One write call per line, because other processes append to the same file.
        Ok(starts.write_all(format!("{task}\n").as_bytes())?)
    }

    fn write_effect(&self, task: usize, number: u64) -> RunResult {
        let new = self.run_folder.path(&format!("new-{task}.{}", std::process::id()));
        fs::write(&new, format!("{number}\n"))?;
        if let Err(error) = fs::hard_link(&new, self.run_folder.path(&format!("{EFFECTS_FOLDER}/{task}")))
            && self.effect(task)? != number
        {
            return Err(format!("cannot leave {number} as the effect of task {task}: {error}").into());
        }
        Ok(fs::remove_file(&new)?)
    }
}

/// Runs the rank program. Rank 0 prints `result seconds S again N lost N known N`: the time, the number of tasks that
/// ran again because their rank died, the number of dead ranks, and the number of tasks whose results were in the
/// journal (file of finished results).
///
/// # Errors
/// If the arguments are wrong, or the last task has not computed the sum of all numbers.
pub fn main(arguments: &[String]) -> RunResult {
    let [folder, tasks, seed] = arguments else {
        return Err(format!("expected FOLDER TASKS SEED, got {arguments:?}").into());
    };
    let run_files = RunFiles { run_folder: RunFolder::at(folder) };
    let kill_run = KillRun { tasks: tasks.parse()?, seed: seed.parse()? };
    let config = Config::from_env()?.progress(Progress::Off).commands(Commands::new());
    Ok(armature::run(&config, |session| run_files.rank(session, kill_run))?)
}

impl RunFiles {
    fn rank(&self, session: &mut Session, kill_run: KillRun) -> Result<(), BoxError> {
        self.run_folder.register_process(session.rank())?;
        let (parents, times) = (kill_run.parents(), kill_run.times());
        let expected: u64 = numbers(&parents).iter().sum();
        let joined_file = self.run_folder.path(&format!("come-{}", session.rank()));
        let has_joined = Once::new();
        let number = |inputs: &mut Inputs<'_>, cx: &Context| {
            let task = cx.number() as usize;
            self.record_start(task)?;
            has_joined.call_once(|| {
                // A failed write is harmless: the file only reports that this rank takes part, and a rank without a
                // file is not killed.
                let _ = fs::write(&joined_file, "");
            });
            thread::sleep(times[task]);
            let read = self.read(inputs)?;
            let number = number(task, read.into_iter());
            self.write_effect(task, number)?;
            Ok(number)
        };
        let total = |inputs: &mut Inputs<'_>, _: &Context| Ok(self.read(inputs)?.into_iter().sum::<u64>());
        let description = kill_run.describe()?;
        // A task must be retried once, because a task may be running on a rank when the rank is killed.
        let workflow = Workflow::from_description(description).retries(1);
        let workflow = workflow.closure("number", number).closure(TOTAL, total);
        let workflow = workflow.directory(self.run_folder.folder());
        let mut workflow = workflow.journal(self.run_folder.path(JOURNAL), &(kill_run.tasks, kill_run.seed));
        if session.is_root() {
            self.run_folder.record_start()?;
        }
        let start = Instant::now();
        let collected = workflow.collect(session)?;
        let seconds = start.elapsed().as_secs_f64();
        let Some((mut results, summary)) = collected.into_parts() else { return Ok(()) };
        let found: u64 = results.take(TOTAL)?;
        if found != expected {
            return Err(format!("the numbers of all tasks add up to {found}, expected {expected}").into());
        }
        let is_known = |&task: &usize| summary.done[task] && summary.measured[task].is_none();
        let known = (0..summary.done.len()).filter(is_known).map(|task| format!("{task}\n"));
        fs::write(self.run_folder.path(REPLAYED_FILE), known.collect::<String>())?;
        let (again, lost, known) = (summary.again, summary.lost.len(), summary.known);
        println!("result seconds {seconds} again {again} lost {lost} known {known}");
        Ok(())
    }

    /// Returns the numbers of the tasks on which a task depends, and checks that the numbers in the files of tasks
    /// with closures equal the values that the closures returned.
    fn read(&self, inputs: &mut Inputs<'_>) -> RunResult<Vec<u64>> {
        let names: Vec<String> = inputs.names().map(String::from).collect();
        let number = |name: &String| {
            let parent: usize = name.parse()?;
            let number = self.effect(parent)?;
            if !is_command(parent) && inputs.take::<u64>(name)? != number {
                return Err(format!("task {parent} has given another number than it has left").into());
            }
            Ok(number)
        };
        names.iter().map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn commands_and_closures_have_the_same_effects() {
        let folder = tempfile::tempdir().unwrap();
        let run_files = RunFiles { run_folder: RunFolder::at(folder.path().join("run")) };
        run_files.clear().unwrap();
        let kill_run = KillRun { tasks: 12, seed: 3 };
        let (parents, numbers) = (kill_run.parents(), numbers(&kill_run.parents()));
        for (task, parents) in parents.iter().enumerate() {
            if is_command(task) {
                let line = script(task, parents, Duration::from_millis(1));
                for _ in 0..2 {
                    let mut shell = Command::new("/bin/sh");
                    shell.arg("-c").arg(&line).current_dir(run_files.run_folder.folder()).process_group(0);
                    assert!(shell.status().unwrap().success(), "{line}");
                }
            } else {
                run_files.record_start(task).unwrap();
                run_files.write_effect(task, numbers[task]).unwrap();
                run_files.write_effect(task, numbers[task]).unwrap();
                assert!(run_files.write_effect(task, 0).is_err());
            }
        }
        run_files.check(kill_run).unwrap();
        assert_eq!(run_files.started_tasks().unwrap(), (0..12).map(|task| (task, 1 + task % 2)).collect());
        fs::write(run_files.run_folder.path("effects/3"), "1").unwrap();
        assert!(run_files.check(kill_run).unwrap_err().to_string().starts_with("task 3 has left 1"));
        fs::remove_file(run_files.run_folder.path("effects/3")).unwrap();
        assert!(run_files.check(kill_run).is_err());
    }

    #[test]
    fn growing_journal_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let run_files = RunFiles { run_folder: RunFolder::at(folder.path()) };
        assert!(run_files.journalled().is_empty());
        let identity = armature::journal::Identity::new("kill-run", "1", b"a fingerprint".to_vec());
        let path = run_files.run_folder.path(JOURNAL);
        let (mut journal, _) = armature::journal::Journal::open(&path, &identity, |_, _| Ok(())).unwrap();
        for task in [7, 2] {
            journal.append(Duration::ZERO, task, &[1, 2, 3]).unwrap();
        }
        journal.close().unwrap();
        assert_eq!(run_files.journalled(), [2, 7].into());
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(run_files.journalled(), [7].into());
    }
}
