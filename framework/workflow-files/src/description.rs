//! The one model into which every format is read.

use std::collections::BTreeMap;
use std::time::Duration;

use armature_planner::workflow::{Edge, Workflow};

use crate::error::{Error, ErrorKind, Result, shown};

/// A workflow as a file describes it: its tasks, what they run, read and write, and who waits for whom.
///
/// It has been checked: there is a task, names are unique, the edges form no cycle.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    pub(crate) name: String,
    pub(crate) tasks: Vec<Task>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) limits: BTreeMap<String, u64>,
}

/// One task.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its name, unique in its workflow.
    pub name: String,
    /// What kind of task it is; tasks of a kind run the same program.
    pub kind: Option<String>,
    /// What it runs.
    pub action: Action,
    /// Files that it reads.
    pub inputs: Vec<File>,
    /// Files that it writes.
    pub outputs: Vec<File>,
    /// Files that are handed to it by other ways than their name.
    pub forwards: Vec<Forward>,
    /// Cores that it occupies, at least 1.
    pub cores: u32,
    /// Memory that it needs, in bytes, or that was measured, if known.
    pub memory: Option<u64>,
    /// How often it is tried at most, at least 1; `None` leaves it to the run.
    pub tries: Option<u32>,
    /// How long a try may take.
    pub time_limit: Option<Duration>,
    /// Among tasks that could start, larger ones go first.
    pub priority: i64,
    /// What it takes of the workflow's named limits while it runs.
    pub limits: BTreeMap<String, u64>,
    /// Variables that are set for it.
    pub environment: BTreeMap<String, String>,
    /// What it reads from its standard input.
    pub stdin: Option<String>,
    /// How long it runs, in seconds, as measured or expected.
    pub run_time: Option<f64>,
    /// The machine on which it was measured.
    pub machine: Option<String>,
    /// Whether it has been done, so that its outputs are there.
    pub done: bool,
}

/// What a task runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Nothing that the file says: the workflow can be planned, but not run.
    #[default]
    Nothing,
    /// A program with its arguments, started without a shell.
    Command {
        /// The program.
        program: String,
        /// Its arguments, one by one.
        arguments: Vec<String>,
    },
    /// A line for a shell. Commands in WfFormat are such lines: their arguments are fragments, not single arguments.
    Shell(String),
    /// A closure of the program that runs the workflow, by name.
    Closure(String),
}

/// A file that a task reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name. Absolute names occur in traces; none has `..` as a part.
    pub name: String,
    /// Its size in bytes, if known.
    pub size: Option<u64>,
}

/// A way of `.dag` files to hand data to and from a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forward {
    /// What the task writes to the pipe whose number is in a variable is appended to a file (`-f VARIABLE=FILE`).
    Pipe {
        /// The variable.
        variable: String,
        /// The file.
        file: String,
    },
    /// A file that the task wrote is appended to another one (`-F SOURCE=DESTINATION`).
    File {
        /// The file that the task wrote.
        source: String,
        /// The file to which it is appended.
        destination: String,
    },
}

impl Task {
    /// A task that needs one core, of which nothing else is known.
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

impl Description {
    /// The workflow's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its tasks, in the file's order.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Who waits for whom, by producer, then consumer: what the file says, and what follows from the files that one task writes
    /// and another reads. A size is in bytes, 0 where it is not known.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// How much of each named limit there is.
    pub fn limits(&self) -> &BTreeMap<String, u64> {
        &self.limits
    }

    /// Says what was measured of a task: its run time in seconds, its peak memory in bytes, and the machine on which it ran.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] if the run time is not finite or is negative.
    ///
    /// # Panics
    /// If there is no such task.
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

    /// Says whether a task has been done.
    ///
    /// # Panics
    /// If there is no such task.
    pub fn set_done(&mut self, task: usize, done: bool) {
        self.tasks[task].done = done;
    }

    /// The workflow for the planner, with the same numbers of tasks. Work is the run time in seconds (1 where it is not known),
    /// so that a processor of speed 1 is the machine on which it was measured; memory and sizes are in bytes (0 where they are
    /// not known).
    ///
    /// # Errors
    /// [`ErrorKind::Graph`] for what a [`Workflow`] refuses: a cycle, sizes whose sum overflows, a run time above 1e60 s.
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
