//! Graph of a workflow, equal on every rank: the tasks with their needs, and their dependencies.

use std::collections::BTreeMap;
use std::time::Duration;

use armature_planner::workflow::{TaskMemory, Workflow as Dag};
use armature_workflow_files::{Action, Description, Task};

use super::commands::is_command;
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of times that the memory limit of a task is doubled after failed tries; more doublings would exceed any memory.
const MOST_DOUBLINGS: u32 = 40;

/// Tasks of a workflow with their needs and dependencies.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) name: String,
    pub(super) dag: Dag,
    pub(super) task_memory: TaskMemory,
    tasks: Vec<Needs>,
    /// Names of the kinds of tasks. `kind_of` holds the number of the kind of each task.
    pub(super) kinds: Vec<String>,
    pub(super) kind_of: Vec<usize>,
    /// Total amount of each named limit, which concurrent tasks share.
    pub(super) limits: Vec<u64>,
    pub(super) limit_names: Vec<String>,
}

/// Needs of a task in addition to its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) priority: i64,
    pub(super) tries: u32,
    /// Named limits that the task uses: number of the limit, and the amount of it that the task holds while it runs.
    pub(super) limits: Vec<(usize, u64)>,
    /// Expected size of the task's value in bytes; 0 for a command, whose files are not in memory.
    output: u64,
    pub(super) is_command: bool,
    pub(super) time_limit: Option<Duration>,
}

impl Graph {
    /// Creates the graph of a description. A task whose description has no number of tries is tried at most `tries` times.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the description cannot be run.
    pub(super) fn new(description: &Description, tries: u32, task_memory: TaskMemory) -> Result<Self> {
        let refuse = |text: String| Error::new(ErrorKind::Config, text).in_workflow(description.name());
        let mut dag = description.to_workflow().map_err(|error| refuse(error.to_string()))?;
        if !description.tasks().iter().any(is_command) {
            dag = dag.with_one_value_a_task().map_err(|error| refuse(error.to_string()))?;
        }
        let names: BTreeMap<&str, usize> = description.limits().keys().map(String::as_str).zip(0..).collect();
        let needs = |(number, task): (usize, &Task)| {
            let limits = task.limits.iter().map(|(name, &amount)| (names[name.as_str()], amount));
            Needs {
                priority: task.priority,
                tries: task.tries.unwrap_or(tries).max(1),
                limits: limits.collect(),
                output: match is_command(task) {
                    true => 0,
                    false => dag.outputs(number).iter().map(|edge| edge.size).max().unwrap_or(0),
                },
                is_command: is_command(task),
                time_limit: task.time_limit,
            }
        };
        let (kinds, kind_of) = kinds(description.tasks());
        Ok(Graph {
            kinds,
            kind_of,
            name: description.name().to_string(),
            task_memory,
            tasks: description.tasks().iter().enumerate().map(needs).collect(),
            limits: description.limits().values().copied().collect(),
            limit_names: description.limits().keys().cloned().collect(),
            dag,
        })
    }

    /// Checks that every task fits into `budget` bytes, according to the description.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if a task does not fit.
    pub(super) fn check_memory(&self, budget: u64) -> Result<()> {
        let need = |task: usize| {
            // Files that commands write are not counted as inputs, because they are not in memory.
            let inputs = self.dag.inputs(task).filter(|edge| !self.tasks[edge.from].is_command);
            let inputs = inputs.map(|edge| edge.size).sum();
            self.memory(task, inputs, 0).saturating_add(inputs)
        };
        match (0..self.len()).find(|&task| need(task) > budget) {
            None => Ok(()),
            Some(task) => {
                let (name, need) = (self.dag.name(task), need(task));
                let text = format!("task {name:?} needs {need} bytes, more than a rank's limit of {budget}");
                Err(Error::new(ErrorKind::Config, text).in_workflow(&self.name))
            }
        }
    }

    /// Returns a checksum of the names and parents of all tasks.
    pub(super) fn structure(&self) -> u32 {
        let mut digest = crc32fast::Hasher::new();
        for task in 0..self.len() {
            digest.update(self.dag.name(task).as_bytes());
            // A zero byte ends each name: no name contains one, so two different lists of names never give the same bytes.
            digest.update(&[0]);
            self.parents(task).for_each(|parent| digest.update(&(parent as u64).to_le_bytes()));
            digest.update(&u64::MAX.to_le_bytes());
        }
        digest.finalize()
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn needs(&self, task: usize) -> &Needs {
        &self.tasks[task]
    }

    pub(super) fn output(&self, task: usize) -> u64 {
        self.tasks[task].output
    }

    pub(super) fn parents(&self, task: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.dag.inputs(task).map(|edge| edge.from)
    }

    pub(super) fn children(&self, task: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.dag.outputs(task).iter().map(|edge| edge.to)
    }

    /// Returns true if no task reads the value of the task.
    pub(super) fn is_final(&self, task: usize) -> bool {
        self.dag.outputs(task).is_empty()
    }

    /// Returns the memory limit in bytes of the processes of a task, doubled for each of the `exceeded` tries that exceeded it; `None` if the
    /// description has no memory for the task.
    pub(super) fn memory_limit(&self, task: usize, exceeded: u32) -> Option<u64> {
        let memory = self.dag.memory(task);
        (memory > 0).then(|| memory.saturating_mul(1 << exceeded.min(MOST_DOUBLINGS)))
    }

    /// Returns the memory in bytes that a task needs in addition to its inputs of `inputs` bytes, after `exceeded` tries that exceeded their memory
    /// limit.
    pub(super) fn memory(&self, task: usize, inputs: u64, exceeded: u32) -> u64 {
        let memory = self.memory_limit(task, exceeded).unwrap_or(0);
        let requirement = self.task_memory.requirement(memory, inputs, self.tasks[task].output);
        requirement.saturating_sub(inputs)
    }
}

/// Returns the kinds of tasks, and the number of the kind of each task. The kind is that in the description, or the closure or program that
/// the task runs.
fn kinds(tasks: &[Task]) -> (Vec<String>, Vec<usize>) {
    let (mut kinds, mut numbers) = (Vec::new(), BTreeMap::new());
    let of = |task: &Task| {
        let runs = match &task.action {
            Action::Closure(name) => name.as_str(),
            Action::Command { program, .. } => program.as_str(),
            Action::Shell(line) => line.split_whitespace().next().unwrap_or(""),
            _ => "",
        };
        let kind = task.kind.as_deref().unwrap_or(runs).to_string();
        *numbers.entry(kind).or_insert_with_key(|kind| {
            kinds.push(kind.clone());
            kinds.len() - 1
        })
    };
    let kind_of = tasks.iter().map(of).collect();
    (kinds, kind_of)
}
