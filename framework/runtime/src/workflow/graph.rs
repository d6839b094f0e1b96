//! Graph of a workflow, equal on every rank: the tasks, the memory and other resources that each task needs, and the dependencies between tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use armature_planner::workflow::{TaskMemory, Workflow as Dag};
use armature_workflow_files::{Action, Description, Task};

use super::commands::is_command;
use super::messages::Exceeded;
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of times that the memory limit of a task is doubled after failed tries. More doublings would exceed any memory.
const MOST_DOUBLINGS: u32 = 40;

/// Maximum number of times that the time limit of a task is doubled after failed tries: a factor of a billion.
const MOST_TIME_DOUBLINGS: u32 = 30;

#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) name: String,
    pub(super) dag: Dag,
    pub(super) task_memory: TaskMemory,
    tasks: Vec<Needs>,
    most_memory: u64,
    /// By task: run time in seconds that the workflow's description states.
    run_times: Vec<Option<f64>>,
    /// Names of the kinds of tasks. `kind_of` contains, for each task, the index of its kind in this list.
    pub(super) kinds: Vec<String>,
    pub(super) kind_of: Vec<usize>,
    /// For each shared resource, such as licences, the total amount that concurrent tasks may use.
    pub(super) limits: Vec<u64>,
    pub(super) limit_names: Vec<String>,
}

/// Resources that a task needs besides memory for its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) priority: i64,
    pub(super) tries: u32,
    /// Shared resources (such as licences) that the task occupies while it runs: index of the resource in the list of limits, and amount.
    pub(super) limits: Vec<(usize, u64)>,
    /// Expected size of the task's value in bytes; 0 for a command, whose files are not in memory.
    output: u64,
    pub(super) is_command: bool,
    pub(super) time_limit: Option<Duration>,
}

impl Graph {
    /// Creates the graph of the tasks in a workflow's description. A task whose description has no number of tries is tried at most `tries`
    /// times.
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
            most_memory: u64::MAX,
            run_times: description.tasks().iter().map(|task| task.run_time).collect(),
            limits: description.limits().values().copied().collect(),
            limit_names: description.limits().keys().cloned().collect(),
            dag,
        })
    }

    /// Checks that every task fits into `budget`, the memory in bytes of the rank that has the most memory, and records `budget`.
    pub(super) fn has_memory(&mut self, budget: u64) -> Result<()> {
        self.most_memory = budget;
        let need = |task: usize| {
            // The inputs of commands are files, which are not in memory.
            let inputs = self.dag.inputs(task).filter(|edge| !self.tasks[edge.from].is_command);
            let inputs = inputs.map(|edge| edge.size).sum();
            self.memory(task, inputs, Exceeded::default()).saturating_add(inputs)
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
            // Names contain no zero byte. Because a zero byte follows each name, different lists of names never give the same input of the checksum.
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

    pub(super) fn run_time(&self, task: usize) -> Option<f64> {
        self.run_times[task]
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

    pub(super) fn is_final(&self, task: usize) -> bool {
        self.dag.outputs(task).is_empty()
    }

    /// Returns the memory limit of a task's processes, doubled for each earlier try that exceeded its memory limit (counted in `exceeded`), up to the
    /// memory of the rank that has the most; `None` if the description has no memory for the task.
    pub(super) fn memory_limit(&self, task: usize, exceeded: Exceeded) -> Option<u64> {
        let memory = self.dag.memory(task);
        let doubled = memory.saturating_mul(1 << exceeded.memory().min(MOST_DOUBLINGS));
        (memory > 0).then(|| doubled.min(self.most_memory.max(memory)))
    }

    /// Returns the time limit of a command, doubled for each earlier try that exceeded its time limit (counted in `exceeded`).
    pub(super) fn time_limit(&self, task: usize, exceeded: Exceeded) -> Option<Duration> {
        Some(self.tasks[task].time_limit?.saturating_mul(1 << exceeded.time().min(MOST_TIME_DOUBLINGS)))
    }

    /// Returns the memory that a task needs in addition to its inputs of `inputs` bytes, after the earlier tries that exceeded their memory limit
    /// (counted in `exceeded`).
    pub(super) fn memory(&self, task: usize, inputs: u64, exceeded: Exceeded) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::messages::Reason;

    #[test]
    fn limits_double_with_each_try_that_exceeded_them_up_to_the_memory_of_the_largest_rank() {
        let mut task = Task::new("task", Action::Shell("true".into()));
        (task.memory, task.time_limit) = (Some(100), Some(Duration::from_secs(1)));
        let mut builder = Description::builder("limits");
        builder.task(task);
        let mut graph = Graph::new(&builder.build().unwrap(), 9, TaskMemory::Additive).unwrap();
        assert!(graph.has_memory(99).is_err());
        graph.has_memory(350).unwrap();
        let after = |reasons: &[Reason]| {
            let mut exceeded = Exceeded::default();
            reasons.iter().for_each(|&reason| exceeded.count(reason));
            let limits = (graph.memory_limit(0, exceeded), graph.time_limit(0, exceeded));
            (limits.0.unwrap(), limits.1.unwrap().as_secs(), graph.memory(0, 0, exceeded))
        };
        use Reason::{Error, MemoryLimit, TimeLimit};
        assert_eq!(after(&[Error, Error]), (100, 1, 100));
        assert_eq!(after(&[MemoryLimit]), (200, 1, 200));
        assert_eq!(after(&[MemoryLimit, TimeLimit, MemoryLimit]), (350, 2, 350));
        assert_eq!(after(&[TimeLimit, Error, TimeLimit, MemoryLimit]), (200, 4, 200));
        assert_eq!(after(&[MemoryLimit; 100_000]).0, 350);
        assert_eq!(after(&[TimeLimit; 100_000]), (100, 1 << MOST_TIME_DOUBLINGS, 100));
    }
}
