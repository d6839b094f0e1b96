//! How a workflow is written down: its description, the closures that its tasks run, and how ranks run them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use armature_commands::Ended;
use armature_planner::workflow::{Cluster, Plan, PlanOptions, TaskMemory};
use armature_workflow_files::{Action, Description, Task};

use super::closure::{AfterCommand, Closure, Erased, Inputs};
use super::graph::Graph;
use super::results::Results;
use super::summary::Summary;
use crate::context::Context;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::session::{Announcement, Session};
use crate::wire::{Codec, Item};

/// How a workflow is run.
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
    /// What ranks are, if the caller knows.
    pub(super) cluster: Option<Cluster>,
    /// The plan, if the caller has one.
    pub(super) given: Option<Plan>,
    pub(super) on_all_ranks: bool,
    pub(super) journal: Option<(PathBuf, Vec<u8>)>,
    pub(super) directory: Option<PathBuf>,
    pub(super) sends_files: bool,
    pub(super) enforces_memory: bool,
}

/// Tasks that depend on one another, each run by whichever rank it is planned for.
///
/// Every rank builds the same workflow and calls the same method to run it. See the [module's page](super) for a complete
/// program.
#[must_use = "a workflow does nothing until it is run"]
pub struct Workflow<'w> {
    pub(super) description: Description,
    pub(super) closures: BTreeMap<String, usize>,
    pub(super) code: Vec<Box<dyn Erased + 'w>>,
    /// By closure: the type of what it gives.
    pub(super) gives: Vec<&'static str>,
    pub(super) after_command: Option<AfterCommand<'w>>,
    pub(super) options: Options,
}

impl<'w> Workflow<'w> {
    /// The workflow of a description, which was read from a file or [built](Description::builder).
    pub fn new(description: Description) -> Self {
        Workflow {
            description,
            closures: BTreeMap::new(),
            code: Vec::new(),
            gives: Vec::new(),
            after_command: None,
            options: Options {
                memory: None,
                task_memory: None,
                spill: None,
                retries: 1,
                max_failures: 0,
                wall_time: None,
                plan: None,
                is_planned: true,
                cluster: None,
                given: None,
                on_all_ranks: false,
                journal: None,
                directory: None,
                sends_files: false,
                enforces_memory: false,
            },
        }
    }

    /// What tasks run whose action is the closure of this `name`: it gets what the task's parents give, and what it returns goes
    /// to the task's children.
    ///
    /// A rank runs one closure at a time. What one gives must depend on its inputs and the task alone: which rank runs a
    /// task, and how often, is not known. A second closure of the same name replaces the first.
    pub fn closure<O, F>(mut self, name: &str, call: F) -> Self
    where
        O: Item,
        F: FnMut(&mut Inputs<'_>, &Context) -> Result<O, BoxError> + Send + 'w,
    {
        self.closures.insert(name.to_string(), self.code.len());
        self.code.push(Box::new(Closure { call, codec: Codec::of_type() }));
        self.gives.push(std::any::type_name::<O>());
        self
    }

    /// Calls this for each try of a command that has ended, on the rank that ran it, before the task counts as done: to look at
    /// the files that it has written, say, or to note what it used. An error makes the try one that has failed.
    ///
    /// The [`Context`] is that of the task, as closures have it.
    pub fn after_command<F>(mut self, call: F) -> Self
    where
        F: FnMut(&Ended, &Context) -> Result<(), BoxError> + Send + 'w,
    {
        self.after_command = Some(Box::new(call));
        self
    }

    /// Bytes that values and running tasks may take on a rank; without it, as many as they need.
    ///
    /// A task begins only where what its description says it needs fits beside all values that are held. Values that wait are
    /// written to disk when their room is needed ([`spill`](Workflow::spill)). A task that does not fit even then is an error,
    /// before anything runs where that can be known. Small values that come from other ranks may be beyond it for a moment, by
    /// one sixteenth at most; so may what a task gives if the description does not know its size. A value that is being sent counts
    /// until it has left. Meanwhile the process gives freed memory back to the system at once, which costs time where values are large.
    ///
    /// What a task reads is counted once, as bytes. What its code makes of these is its own memory, and the description says how
    /// much that is: [`Task::memory`](super::Task::memory). Beside the limit there are what the process held before, what
    /// [`collect`](Workflow::collect) returns, and what was being sent to a rank that has died.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.options.memory = Some(bytes);
        self
    }

    /// The directory in which ranks keep values for which there is no room; the system's for temporary files unless it is
    /// set. Only the user can read what ranks write there. It goes when the run ends or, if that is killed, when the next rank of
    /// this host writes there.
    pub fn spill(mut self, directory: impl Into<PathBuf>) -> Self {
        self.options.spill = Some(directory.into());
        self
    }

    /// The directory in which commands run; that in which the ranks were started unless it is set. Ranks on several machines must
    /// share it: the files that one task writes and another reads are there. Where they share none, [`send_files`](Workflow::send_files).
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.options.directory = Some(directory.into());
        self
    }

    /// Ends commands that hold more memory than their description says, with all their processes. They are tried again with twice as
    /// much, as often as others that fail.
    pub fn enforce_memory(mut self) -> Self {
        self.options.enforces_memory = true;
        self
    }

    /// How often a task that failed is tried again, on another rank where there is one, if its description does not say; 1 unless
    /// it is set.
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// How many tasks may fail at every try before the job ends; none unless it is set. Tasks that depend on one that has failed
    /// are not run, all others are.
    pub fn max_failures(mut self, tasks: usize) -> Self {
        self.options.max_failures = tasks;
        self
    }

    /// How long the run may take, from its beginning, planning included; as long as it likes unless it is set. When the time is over, the
    /// job ends with [`ErrorKind::Timeout`], which says what runs and how much is left: soon enough before a batch job's own limit, the
    /// journal is complete. Commands that run are ended; a closure that runs on rank 0's own thread
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
    ///     let workflow = Workflow::new(endless.clone()).wall_time(Duration::from_millis(200));
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

    /// Keeps what every task gives in a file on rank 0's host. A job that is started again with the same file, on any number of ranks,
    /// takes it from there and runs only the tasks that are missing.
    ///
    /// `fingerprint` is whatever the results depend on beside the tasks and who reads from whom: parameters, seeds, the input or a
    /// checksum of it. A file that was written with another one, or by another workflow, is refused.
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
    ///         let workflow = Workflow::new(numbers.clone()).closure("number", |_, _| Ok(1));
    ///         Ok(workflow.journal(&path, "version 1").run(session)?)
    ///     })?;
    ///     assert_eq!(summary.unwrap().known, known);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn journal(mut self, path: impl Into<PathBuf>, fingerprint: impl Into<Vec<u8>>) -> Self {
        self.options.journal = Some((path.into(), fingerprint.into()));
        self
    }

    /// What the memory of a task holds, by the description: [`TaskMemory::Additive`] without this, or what [`plan`](Workflow::plan)
    /// says. It counts for plans, and for what begins on a rank.
    pub fn task_memory(mut self, task_memory: TaskMemory) -> Self {
        self.options.task_memory = Some(task_memory);
        self
    }

    /// What is asked of the planner. Without it, a plan is made as by default if the description knows run times, memory or
    /// sizes of anything, and none if it does not. That takes a few seconds at most: the more tasks there are, the fewer plans are tried. With
    /// this, planners do all that is asked, however long the run waits for its plan.
    pub fn plan(mut self, options: PlanOptions) -> Self {
        (self.options.plan, self.options.is_planned) = (Some(options), true);
        self
    }

    /// What the ranks are, each the processor of its number: their speeds, the bandwidths between them, in bytes a second, and
    /// their memory. A rank holds no more than its processor has, nor more than [`memory`](Workflow::memory).
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
    ///     let workflow = Workflow::new(two.clone()).closure("rank", |_, cx| Ok(cx.rank()));
    ///     let Some((mut results, _)) = workflow.cluster(cluster.clone()).collect(session)? else { return Ok(None) };
    ///     Ok(Some((results.take::<usize>("short")?, results.take::<usize>("long")?)))
    /// })?;
    /// assert_eq!(ran_on, Some((0, 1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cluster(mut self, cluster: Cluster) -> Self {
        self.options.cluster = Some(cluster);
        self
    }

    /// Runs tasks where this plan says and in its sequence, instead of having a plan made. When a rank dies it counts no longer.
    ///
    /// Processors are ranks, tasks are numbered as in the description. What the plan says of memory is not relied on: ranks count what
    /// they hold.
    pub fn follow(mut self, plan: Plan) -> Self {
        self.options.given = Some(plan);
        self
    }

    /// Makes no plan: tasks go to ranks that are free, near their inputs.
    pub fn unplanned(mut self) -> Self {
        self.options.is_planned = false;
        self
    }

    /// What [`collect`](Workflow::collect) returns is given to every rank, not to rank 0 alone. With [`run`](Workflow::run) it
    /// is an error.
    pub fn on_all_ranks(mut self) -> Self {
        self.options.on_all_ranks = true;
        self
    }

    /// Runs all tasks. What final tasks give, those from which nobody reads, is dropped.
    ///
    /// Returns a [`Summary`] on rank 0 and `None` on the others, when all ranks are done.
    ///
    /// # Errors
    /// A description that cannot be run; more tasks fail than [may](Workflow::max_failures), with rank, task and tries; a rank
    /// without which the job does not go on has died, or is silent for longer than
    /// [`Config::peer_limit`](crate::Config::peer_limit). On MPI a failure ends the job instead of returning.
    pub fn run(&mut self, session: &Session) -> Result<Option<Summary>> {
        if self.options.on_all_ranks {
            let text = "the option on_all_ranks is set, but run gives results to nobody; collect can give them to all";
            return self.refuse(session, text);
        }
        Ok(self.go(session, false)?.map(|(_, summary)| summary))
    }

    /// Runs all tasks. Returns what final tasks give, those from which nobody reads, with a [`Summary`], on rank 0, or on every
    /// rank with [`on_all_ranks`](Workflow::on_all_ranks); `None` on the others.
    ///
    /// # Errors
    /// As [`run`](Workflow::run).
    pub fn collect(&mut self, session: &Session) -> Result<Option<(Results, Summary)>> {
        let collected = self.go(session, true)?;
        if self.options.on_all_ranks { self.share(session, collected).map(Some) } else { Ok(collected) }
    }

    fn refuse<T>(&self, session: &Session, text: &str) -> Result<T> {
        let error = Error::new(ErrorKind::Config, text).in_workflow(self.description.name());
        let error = error.at_rank(session.rank());
        session.endpoint()?.report(&error);
        Err(error)
    }

    /// The closure of each task; any number for one that is a command.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if there is none of that name, or the task is to run nothing.
    pub(super) fn closure_of(&self) -> Result<Vec<usize>> {
        let of = |task: &armature_workflow_files::Task| {
            let name = match &task.action {
                Action::Closure(name) => name,
                Action::Command { .. } | Action::Shell(_) => return Ok(0),
                Action::Nothing => {
                    return Err(format!(
                        "task {:?} runs nothing, expected a closure or a command",
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

    /// What all ranks must run in the same way. `cores` are those of a rank for commands.
    pub(super) fn announcement(
        &self,
        graph: &Graph,
        closure_of: &[usize],
        (collects, cores): (bool, u32),
    ) -> Announcement {
        let Options { memory, cluster, given, on_all_ranks, sends_files, enforces_memory, .. } =
            &self.options;
        let closures = self.closures.iter().map(|(name, &number)| format!("{name}: {}", self.gives[number]));
        let mut what = Announcement::new(format!("runs the workflow {:?}", graph.name))
            .without_the_dead()
            .with("method", if collects { "collect" } else { "run" })
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
            .with("on_all_ranks", on_all_ranks)
            .with_checksum("cluster", cluster.as_ref())
            .with_checksum("plan", given.as_ref());
        if (0..graph.len()).any(|task| graph.needs(task).is_command) {
            what = what.with("Commands::cores", cores);
            // Ranks that are sent files run their commands in directories of their own.
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

/// Number of groups of consecutive tasks at most that an announcement has a checksum of, so that a message can name the tasks that
/// differ.
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
