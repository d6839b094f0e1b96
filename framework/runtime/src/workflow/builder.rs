//! Construction of a workflow: its description, the closures of its tasks, and its options.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use armature_commands::Ended;
use armature_planner::workflow::{Cluster, Plan, PlanOptions, TaskMemory};
use armature_workflow_files::{Action, Description, Task};
use serde::Serialize;

use super::closure::{AfterCommand, Closure, Erased, Inputs};
use super::graph::Graph;
use super::handle::Draft;
use super::results::Results;
use super::summary::Summary;
use crate::context::Context;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::outcome::Outcome;
use crate::persist::identity::RunIdentity;
use crate::session::{Announcement, Session};
use crate::wire::{Codec, Item};

#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) memory: Option<u64>,
    pub(super) task_memory: Option<TaskMemory>,
    pub(super) spill: Option<PathBuf>,
    pub(super) retries: u32,
    pub(super) max_failures: usize,
    pub(super) wall_time: Option<Duration>,
    pub(super) plan: Option<PlanOptions>,
    pub(super) is_planned: bool,
    /// Speeds, memory and links of the ranks, if the program has described them with [`cluster`](Workflow::cluster).
    pub(super) cluster: Option<Cluster>,
    /// Plan that the program has set, to be used instead of a plan by the planner.
    pub(super) fixed_plan: Option<Plan>,
    pub(super) journal: Option<(PathBuf, RunIdentity)>,
    /// File in which the program itself records completed tasks.
    pub(super) records: Option<PathBuf>,
    pub(super) directory: Option<PathBuf>,
    pub(super) sends_files: bool,
    pub(super) enforces_memory: bool,
}

/// Tasks that depend on each other, each of which runs on one rank.
///
/// Every rank builds the same workflow and calls the same method to run it. See the [module documentation](super) for a complete program.
#[must_use = "a workflow does nothing until it is run"]
pub struct Workflow<'w> {
    pub(super) description: Arc<Description>,
    /// Tasks that the program has added one by one. When the workflow runs, its description is made from them.
    pub(super) draft: Option<Draft>,
    pub(super) closures: BTreeMap<String, usize>,
    pub(super) code: Vec<Box<dyn Erased + 'w>>,
    /// Type name of the value of each closure, by the number of the closure. Ranks compare these names before the run.
    pub(super) value_types: Vec<&'static str>,
    pub(super) after_command: Option<AfterCommand<'w>>,
    pub(super) options: Options,
}

impl<'w> Workflow<'w> {
    /// Creates a workflow from a description, which was read from a file or [built](Description::builder). A program that keeps the description, or
    /// runs it several times, can pass an `Arc`, so that there is only one copy in memory.
    pub fn from_description(description: impl Into<Arc<Description>>) -> Self {
        Workflow {
            description: description.into(),
            draft: None,
            closures: BTreeMap::new(),
            code: Vec::new(),
            value_types: Vec::new(),
            after_command: None,
            options: Options {
                memory: None,
                task_memory: None,
                spill: None,
                retries: 0,
                max_failures: 0,
                wall_time: None,
                plan: None,
                is_planned: true,
                cluster: None,
                fixed_plan: None,
                journal: None,
                records: None,
                directory: None,
                sends_files: false,
                enforces_memory: false,
            },
        }
    }

    /// Sets the closure for tasks whose action has this `name`. It gets the values of the parents of a task, and its result goes to the
    /// children of the task.
    ///
    /// A rank runs one closure at a time. The result may depend on the inputs and the task only: the rank and the number of tries are not
    /// known in advance. A second closure of the same name replaces the first.
    pub fn closure<O, F>(mut self, name: &str, call: F) -> Self
    where
        O: Item,
        F: FnMut(&mut Inputs<'_>, &Context) -> Result<O, BoxError> + Send + 'w,
    {
        self.add_closure(name, call);
        self
    }

    pub(super) fn add_closure<O, F>(&mut self, name: &str, call: F)
    where
        O: Item,
        F: FnMut(&mut Inputs<'_>, &Context) -> Result<O, BoxError> + Send + 'w,
    {
        self.closures.insert(name.to_string(), self.code.len());
        self.code.push(Box::new(Closure { call, codec: Codec::of_type() }));
        self.value_types.push(std::any::type_name::<O>());
    }

    /// Calls `f` after each try of a command, on the rank that ran it and before the task counts as done: to check the files that the
    /// command has written, or to record its resource use. An error makes the try fail.
    ///
    /// The [`Context`] is that of the task, as for closures.
    pub fn after_command<F>(mut self, call: F) -> Self
    where
        F: FnMut(&Ended, &Context) -> Result<(), BoxError> + Send + 'w,
    {
        self.after_command = Some(Box::new(call));
        self
    }

    /// Sets the maximum number of bytes that values and running tasks occupy on a rank. By default it is not limited.
    ///
    /// A task starts only if the memory that its description states is free on the rank. Values that wait for tasks which read them are
    /// [spilled](Workflow::spill) to disk when their memory is needed. A task that needs more memory than the limit is an error, before the run if
    /// the description shows it. The limit may be exceeded for a moment by at most one sixteenth, by small values from other ranks, and by the value
    /// of a task whose description has no size. A value occupies memory until it has been sent. While a limit is set, the process returns freed
    /// memory to the system at once, which takes time if values are large.
    ///
    /// The inputs of a task count once, as encoded bytes. The memory that a task's code uses in addition is part of the description:
    /// [`Task::memory`](super::Task::memory). The limit does not cover the memory of the process before the run, the results of
    /// [`collect`](Workflow::collect), or messages to a rank that has died.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.options.memory = Some(bytes);
        self
    }

    /// Sets the directory for spilled values. The default is the system's directory for temporary files. Only the user can read the files
    /// of a rank. They are removed at the end of the run, or if the process was killed, by the next rank on the host that spills a value to
    /// the directory.
    pub fn spill(mut self, directory: impl Into<PathBuf>) -> Self {
        self.options.spill = Some(directory.into());
        self
    }

    /// Sets the working directory of commands. The default is the directory in which the ranks were started. Ranks on several hosts must
    /// share it, because it contains the files that one task writes and another reads; [`send_files`](Workflow::send_files) is for hosts
    /// that share none.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.options.directory = Some(directory.into());
        self
    }

    /// Ends commands that use more memory than their description states, with all their processes. They are retried with twice the memory, as often
    /// as other failed tasks.
    pub fn enforce_memory(mut self) -> Self {
        self.options.enforces_memory = true;
        self
    }

    /// Sets how many times a failed task is retried, on another rank if there is one. The default is 0. If the description of a task states a number
    /// of tries, that number is used for the task.
    ///
    /// The death of a process in a task counts as a try, if the launcher lets the other ranks continue.
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// Sets how many tasks may fail at every try before the job ends. The default is 0. Tasks that depend on a failed task are not run; all other
    /// tasks are run.
    pub fn max_failures(mut self, tasks: usize) -> Self {
        self.options.max_failures = tasks;
        self
    }

    /// Sets the maximum time of the run, planning included. By default it is not limited. At the limit the job ends with
    /// [`ErrorKind::Timeout`]; the message names the running tasks and the number of remaining tasks. With a limit below that of a batch
    /// job, the journal is complete when the job ends. Running commands are ended; a closure on the thread of rank 0 that communicates
    /// ([`Driver::Inline`](crate::Driver::Inline)) returns first.
    ///
    /// ```
    /// use armature::workflow::{Action, Description, Task, Workflow};
    /// use std::time::Duration;
    ///
    /// let mut endless = Description::builder("endless");
    /// for number in 0..1_000 {
    ///     endless.task(Task::new(format!("{number}"), Action::Closure("sleep".into())));
    /// }
    /// let endless = endless.build()?;
    /// let error = armature::run(&armature::Config::new(), |session| {
    ///     let workflow = Workflow::from_description(endless.clone()).wall_time(Duration::from_millis(200));
    ///     let sleep = Duration::from_millis(50);
    ///     Ok(workflow.closure("sleep", |_, _| Ok(std::thread::sleep(sleep))).run(session)?)
    /// })
    /// .unwrap_err();
    /// assert_eq!(error.kind(), armature::ErrorKind::Timeout);
    /// assert!(error.message().contains("of 1000 tasks have ended"), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wall_time(mut self, limit: Duration) -> Self {
        self.options.wall_time = Some(limit);
        self
    }

    /// Keeps the value of every task in a file on the host of rank 0. A job that is started again with the same file, on any number of
    /// ranks, reads the values and runs only the missing tasks.
    ///
    /// `identity` names everything else on which the results depend, in addition to the tasks and their dependencies: parameters, seeds, the input or
    /// its checksum. A file with another identity, or of another workflow, is refused.
    ///
    /// ```
    /// use armature::workflow::{Action, Description, Task, Workflow};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("numbers.journal");
    ///
    /// let mut numbers = Description::builder("numbers");
    /// numbers.task(Task::new("one", Action::Closure("number".into())));
    /// let numbers = numbers.build()?;
    /// for known in [0, 1] {
    ///     let summary = armature::run(&armature::Config::new(), |session| {
    ///         let workflow = Workflow::from_description(numbers.clone()).closure("number", |_, _| Ok(1));
    ///         Ok(workflow.journal(&path, "version 1").run(session)?.into_summary())
    ///     })?;
    ///     assert_eq!(summary.unwrap().known, known);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn journal(mut self, path: impl Into<PathBuf>, identity: &(impl Serialize + ?Sized)) -> Self {
        self.options.journal = Some((path.into(), RunIdentity::of(identity)));
        self
    }

    /// Names the file in which the program itself records completed tasks, for example in [`after_command`](Workflow::after_command), so that a job
    /// that is started again runs only the missing tasks. The message of a job that was [asked to stop](crate::Session::stop_requested) names the
    /// file, as it names a [journal](Workflow::journal).
    pub fn recorded_in(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.records = Some(path.into());
        self
    }

    /// Sets whether the memory that the description states for a task includes the task's input and output files, which decides how much memory a
    /// task needs when the run is planned and when the task is started. The default is the setting in [`plan`](Workflow::plan), or
    /// [`TaskMemory::Additive`].
    pub fn task_memory(mut self, task_memory: TaskMemory) -> Self {
        self.options.task_memory = Some(task_memory);
        self
    }

    /// Sets the options of the planner. By default a plan is computed if the description contains run times, memory or sizes, and planning takes at
    /// most a few seconds: for many tasks, fewer plans are compared. With this method the planner does all the work that `options` request, without a
    /// time limit.
    pub fn plan(mut self, options: PlanOptions) -> Self {
        (self.options.plan, self.options.is_planned) = (Some(options), true);
        self
    }

    /// Describes the ranks as processors in the order of their numbers: their speeds, the bandwidths between them in bytes per second, and
    /// their memory. A rank holds at most the memory of its processor, and at most [`memory`](Workflow::memory).
    ///
    /// ```
    /// use armature::workflow::{Action, Cluster, Description, Processor, Task, Workflow};
    ///
    /// let mut two = Description::builder("two");
    /// for name in ["short", "long"] {
    ///     let mut task = Task::new(name, Action::Closure("rank".into()));
    ///     task.run_time = Some(if name == "long" { 8.0 } else { 1.0 });
    ///     two.task(task);
    /// }
    /// let two = two.build()?;
    /// let slow_and_fast = vec![Processor::new("slow", 1.0, 1 << 30), Processor::new("fast", 4.0, 1 << 30)];
    /// let cluster = Cluster::new(slow_and_fast, 1e9)?;
    /// let ran_on = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let workflow = Workflow::from_description(two.clone()).closure("rank", |_, cx| Ok(cx.rank()));
    ///     let Some(mut results) = workflow.cluster(cluster.clone()).collect(session)?.on_root() else { return Ok(None) };
    ///     Ok(Some((results.take::<usize>("short")?, results.take::<usize>("long")?)))
    /// })?;
    /// assert_eq!(ran_on, Some((0, 1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cluster(mut self, cluster: Cluster) -> Self {
        self.options.cluster = Some(cluster);
        self
    }

    /// Runs tasks according to this plan, on its processors and in its sequence, instead of a plan that the planner computes. The plan is
    /// discarded when a rank dies.
    ///
    /// Processors are ranks; tasks are numbered as in the description. The plan's figures for memory are ignored: each rank counts the memory of the
    /// values that it has.
    pub fn follow(mut self, plan: Plan) -> Self {
        self.options.fixed_plan = Some(plan);
        self
    }

    /// Runs without a plan: tasks go to free ranks, near their inputs.
    pub fn unplanned(mut self) -> Self {
        self.options.is_planned = false;
        self
    }

    /// Runs all tasks and drops the values of final tasks, which no task reads. Returns when all ranks have finished.
    ///
    /// # Errors
    /// A description that cannot be run; more failed tasks than [allowed](Workflow::max_failures) (the message names the rank, the task and the
    /// number of tries); the death of a rank that the job needs, or its silence for longer than [`Config::peer_limit`](crate::Config::peer_limit).
    pub fn run(&mut self, session: &mut Session) -> Result<Outcome<(), Summary>> {
        Ok(Outcome::of(self.run_on_ranks(session, None)?.map(|(_, summary)| summary)))
    }

    /// Runs all tasks and returns the values of final tasks, which no task reads, on rank 0.
    ///
    /// # Errors
    /// The errors of [`run`](Workflow::run).
    pub fn collect(&mut self, session: &mut Session) -> Result<Outcome<Results, Summary>> {
        self.run_on_ranks(session, Some("collect")).map(Outcome::new)
    }

    /// Runs all tasks like [`collect`](Workflow::collect), but returns the values on every rank.
    ///
    /// # Errors
    /// The errors of [`run`](Workflow::run).
    pub fn collect_on_all(&mut self, session: &mut Session) -> Result<Results> {
        let collected = self.run_on_ranks(session, Some("collect_on_all"))?;
        self.share(session, collected.map(|(results, _)| results))
    }

    /// Returns for each task the number of the closure that it calls; 0 for a task that runs a command.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if a closure is missing, or a task has no action.
    pub(super) fn closure_of(&self) -> Result<Vec<usize>> {
        let of = |task: &armature_workflow_files::Task| {
            let name = match &task.action {
                Action::Closure(name) => name,
                Action::Command { .. } | Action::Shell(_) => return Ok(0),
                _ => {
                    return Err(format!(
                        "task {:?} has no action, expected a closure or a command",
                        task.name
                    ));
                }
            };
            let missing = || {
                let known: Vec<&String> = self.closures.keys().collect();
                format!("task {:?} runs the closure {name:?}, expected one of {known:?}", task.name)
            };
            self.closures.get(name).copied().ok_or_else(missing)
        };
        let found: Result<Vec<usize>, String> = self.description.tasks().iter().map(of).collect();
        found.map_err(|text| Error::new(ErrorKind::Config, text).in_workflow(self.description.name()))
    }

    /// Returns the settings of the workflow that must be equal on all ranks, for a comparison before the run. `collect` is the name of the method
    /// that collects the values of final tasks, if the program calls one; `cores` is the number of cores that each rank uses for commands.
    pub(super) fn announcement(
        &self,
        graph: &Graph,
        closure_of: &[usize],
        (collect, cores): (Option<&str>, u32),
    ) -> Announcement {
        let Options { memory, cluster, fixed_plan, sends_files, enforces_memory, .. } = &self.options;
        let closures =
            self.closures.iter().map(|(name, &number)| format!("{name}: {}", self.value_types[number]));
        let mut what = Announcement::new(format!("runs the workflow {:?}", graph.name))
            .without_the_dead()
            .with("method", collect.unwrap_or("run"))
            .with("tasks", graph.len())
            .with("edges", graph.dag.edges().len())
            .with("closures", closures.collect::<Vec<_>>().join(", "))
            .with("after_command", if self.after_command.is_some() { "set" } else { "unset" })
            .with("journal", if self.options.journal.is_some() { "set" } else { "unset" })
            .with("retries", self.options.retries)
            .with("memory", memory.map_or("unlimited".to_string(), |bytes| bytes.to_string()))
            .with("task_memory", format_args!("{:?}", graph.task_memory))
            .with("enforce_memory", enforces_memory)
            .with("send_files", sends_files)
            .with_checksum("cluster", cluster.as_ref())
            .with_checksum("plan", fixed_plan.as_ref());
        if (0..graph.len()).any(|task| graph.needs(task).is_command) {
            what = what.with("Commands::cores", cores);
            // If files are sent between ranks, each rank runs its commands in a separate directory. Otherwise all ranks must use one shared
            // directory.
            if !sends_files {
                let directory = self.options.directory.as_deref().unwrap_or(Path::new("."));
                let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_path_buf());
                what = what.with("directory", format_args!("{directory:?}"));
            }
        }
        let tasks: Vec<usize> = (0..graph.len()).collect();
        for group in tasks.chunks(graph.len().div_ceil(TASK_GROUPS).max(1)) {
            let [first, last] = [group[0], group[group.len() - 1]].map(|task| graph.dag.name(task));
            let name = match group {
                [_] => format!("task {first:?}"),
                _ => format!("set of tasks from {first:?} to {last:?}"),
            };
            let parts = |&task: &usize| {
                let Task { name, action, inputs, outputs, memory, .. } = &self.description.tasks()[task];
                let parents: Vec<usize> = graph.parents(task).collect();
                (name, action, closure_of[task], graph.needs(task), parents, memory, inputs, outputs)
            };
            what = what.with_checksum(&name, Some(&group.iter().map(parts).collect::<Vec<_>>()));
        }
        what
    }
}

/// Maximum number of sets into which the tasks are divided for the comparison of settings between ranks. Each set has a separate checksum, so that
/// the error message can name the set in which two ranks differ.
const TASK_GROUPS: usize = 32;

impl fmt::Debug for Workflow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workflow")
            .field("name", &self.description.name())
            .field("tasks", &self.description.tasks().len())
            .field("closures", &self.closures.keys())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
