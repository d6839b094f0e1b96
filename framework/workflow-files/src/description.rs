//! Description of a workflow. The readers of all file formats return it.

use std::collections::BTreeMap;
use std::time::Duration;

use armature_planner::workflow::{Edge, Workflow};

use crate::error::{Error, ErrorKind, Result, shown};

/// A workflow as described by a file: tasks, their actions and files, and the dependencies between tasks.
///
/// A description has been checked: names are unique, and the edges form no cycle. All but an [empty](Description::empty) one have at least
/// one task.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    pub(crate) name: String,
    pub(crate) tasks: Vec<Task>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) limits: BTreeMap<String, u64>,
}

/// Task of a workflow description.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Task {
    /// Name of the task, unique in the workflow.
    pub name: String,
    /// Kind of the task. Tasks of a kind run the same program.
    pub kind: Option<String>,
    /// Program, shell line or closure that the task runs.
    pub action: Action,
    /// Files that the task reads.
    pub inputs: Vec<File>,
    /// Files that the task writes.
    pub outputs: Vec<File>,
    /// Outputs of the task that are appended to files after it has run. Several tasks may append to the same file.
    pub forwards: Vec<Forward>,
    /// Number of cores that the task occupies, at least 1.
    pub cores: u32,
    /// Required or measured memory in bytes, if known.
    pub memory: Option<u64>,
    /// Maximum number of tries, at least 1; `None` for the default of the run.
    pub tries: Option<u32>,
    /// Maximum duration of a try of the task.
    pub time_limit: Option<Duration>,
    /// Priority. Of the tasks that are ready, those with a larger number start first.
    pub priority: i64,
    /// Amounts of shared resources, such as licences, that the task uses while it runs. The workflow limits the total amount of each resource.
    pub limits: BTreeMap<String, u64>,
    /// Environment variables that are set for the task.
    pub environment: BTreeMap<String, String>,
    /// Text that the task reads from its standard input.
    pub stdin: Option<String>,
    /// Measured or expected run time in seconds.
    pub run_time: Option<f64>,
    /// Machine on which the run time was measured.
    pub machine: Option<String>,
    /// True if the task has been done and its outputs exist.
    pub done: bool,
}

/// Command, shell line or closure that a task runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// No action: the workflow can be planned, but not run.
    #[default]
    Nothing,
    /// A program with its arguments, started without a shell.
    Command {
        /// Name or path of the program.
        program: String,
        /// Arguments of the program, without its name.
        arguments: Vec<String>,
    },
    /// A line for a shell. Commands in WfFormat are shell lines, because their arguments are fragments of a line.
    Shell(String),
    /// Name of a closure of the program that runs the workflow.
    Closure(String),
}

/// A file that a task reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct File {
    /// Name or path of the file. Absolute paths occur in traces of runs. No part of the path is `..`.
    pub name: String,
    /// Size in bytes, if known.
    pub size: Option<u64>,
}

/// Output of a task that is appended to a file after the task has run (options `-f` and `-F` of a `.dag` file). Several tasks may append to
/// the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forward {
    /// Output that the task writes to a pipe (`-f VARIABLE=FILE`).
    Pipe {
        /// Environment variable that contains the number of the pipe's descriptor.
        variable: String,
        /// File to which the output is appended.
        file: String,
    },
    /// A file that the task writes, and whose content is appended to another file (`-F SOURCE=DESTINATION`).
    File {
        /// File that the task writes.
        source: String,
        /// File to which the content of the source file is appended.
        destination: String,
    },
}

impl Task {
    /// Returns a task that needs one core, with all other fields empty.
    pub fn new(name: impl Into<String>, action: Action) -> Self {
        Task {
            name: name.into(),
            kind: None,
            action,
            inputs: Vec::new(),
            outputs: Vec::new(),
            forwards: Vec::new(),
            cores: 1,
            memory: None,
            tries: None,
            time_limit: None,
            priority: 0,
            limits: BTreeMap::new(),
            environment: BTreeMap::new(),
            stdin: None,
            run_time: None,
            machine: None,
            done: false,
        }
    }
}

impl File {
    /// Returns a file with this name, and its size in bytes if it is known.
    pub fn new(name: impl Into<String>, size: Option<u64>) -> Self {
        File { name: name.into(), size }
    }
}

impl Description {
    /// Returns the name of the workflow.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the tasks, in the order of the file.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Returns the dependencies, sorted by producer and then consumer: those in the file, and those that follow from files that one task
    /// writes and another one reads. A size is in bytes; it is 0 if unknown.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Returns the total amount of each shared resource, such as licences, that concurrent tasks may use together.
    pub fn limits(&self) -> &BTreeMap<String, u64> {
        &self.limits
    }

    /// Records measurements of a task: its run time in seconds, its peak memory in bytes, and the machine on which it ran.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] if the run time is not finite or is negative.
    ///
    /// # Panics
    /// If `task` is not the number of a task.
    pub fn measured(
        &mut self,
        task: usize,
        run_time: f64,
        memory: Option<u64>,
        machine: Option<&str>,
    ) -> Result<()> {
        let name = &self.tasks[task].name;
        if !(run_time.is_finite() && run_time >= 0.0) {
            let message =
                format!("the run time of {} must be 0 or more seconds, but is {run_time}", shown(name));
            return Err(Error::new(ErrorKind::Value, "", message));
        }
        let task = &mut self.tasks[task];
        task.run_time = Some(run_time);
        task.memory = memory.or(task.memory);
        task.machine = machine.map(str::to_string).or(task.machine.take());
        Ok(())
    }

    /// Marks a task as done or not done.
    ///
    /// # Panics
    /// If `task` is not the number of a task.
    pub fn set_done(&mut self, task: usize, done: bool) {
        self.tasks[task].done = done;
    }

    /// Converts the description to a workflow for the planner, with the same task numbers. The work of a task is its run time in seconds,
    /// or 1 if unknown, so that a processor of speed 1 corresponds to the machine of the measurement. Memory and sizes are in bytes, and 0
    /// if unknown.
    ///
    /// # Errors
    /// [`ErrorKind::Graph`] if the planner refuses the [`Workflow`]: a cycle, sizes whose sum overflows, or a run time above 1e60 s.
    pub fn to_workflow(&self) -> Result<Workflow> {
        let mut builder = Workflow::builder();
        for task in &self.tasks {
            builder.task(task.name.as_str(), task.run_time.unwrap_or(1.0), task.memory.unwrap_or(0));
        }
        for edge in &self.edges {
            builder.edge(edge.from, edge.to, edge.size);
        }
        builder.build().map_err(|error| Error::new(ErrorKind::Graph, "", error.message()))
    }
}
