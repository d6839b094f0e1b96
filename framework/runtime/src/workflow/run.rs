//! A run of a workflow on this rank, from its beginning to its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::workflow::{Cluster, PlanOptions, Processor};

use super::builder::Workflow;
use super::commands::Commands;
use super::graph::Graph;
use super::master::Master;
use super::planning::{Clusters, PLACEMENTS, Question, affordable_evaluations};
use super::results::Results;
use super::root::Root;
use super::running::Running;
use super::spill::SpillFolder;
use super::summary::Summary;
use super::task_journal::TaskJournal;
use super::user_code::{ClosureFlightRecorder, TaskCode};
use super::value::Value;
use super::worker::{Settings, WorkflowWorker};
use crate::balance::is_affordable;
use crate::balance::probe::{Probe, Probed};
use crate::comm::endpoint::Endpoint;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::Event;
use crate::rank::driver::RankDriver;
use crate::rank::executor::Executor;
use crate::rank::protocol::Outgoing;
use crate::session::{Config, JobPlatform, Parts, RankCommands, Session};
use crate::tasks::FlightRecords;

const NAME: &str = "the workflow";

impl Workflow<'_> {
    /// Runs all tasks. On rank 0, returns the summary and, if the program called a method that collects them (named `collect`), the values of final
    /// tasks.
    pub(super) fn run_on_ranks(
        &mut self,
        session: &mut Session,
        collect: Option<&str>,
    ) -> Result<Option<(Results, Summary)>> {
        let Parts { endpoint, config, commands, .. } = session.parts();
        let rank = endpoint.rank();
        let result = self.describe().and_then(|()| self.run_on(endpoint, config, commands, collect));
        result
            .map_err(|error| if error.kind() == ErrorKind::Peer { error } else { self.placed(error, rank) })
            .inspect_err(|error| endpoint.report(error))
    }

    fn describe(&mut self) -> Result<()> {
        if let Some(draft) = &self.draft {
            self.description = Arc::new(draft.describe(self.description.name())?);
        }
        Ok(())
    }

    fn placed(&self, error: Error, rank: usize) -> Error {
        error.in_workflow(self.description.name()).at_rank(rank)
    }

    fn run_on(
        &mut self,
        endpoint: &mut Endpoint,
        config: &Config,
        rank_commands: &mut Option<RankCommands>,
        collect: Option<&str>,
    ) -> Result<Option<(Results, Summary)>> {
        let collects = collect.is_some();
        let (rank, ranks, clock) = (endpoint.rank(), endpoint.size(), endpoint.clock());
        let closure_of = self.closure_of()?;
        let mut plan_options = self.options.plan.clone().unwrap_or_default();
        let task_memory = self.options.task_memory.unwrap_or(plan_options.memory.task_memory);
        plan_options.memory.task_memory = task_memory;
        let mut graph = Graph::new(&self.description, self.options.retries.saturating_add(1), task_memory)?;
        let given = config.platform.as_ref().filter(|_| self.options.cluster.is_none());
        let memory = self.memory_of_ranks(ranks, given)?;
        graph.has_memory(memory.iter().copied().max().unwrap_or(u64::MAX))?;
        let graph = Arc::new(graph);
        let settings = Settings { budget: memory[rank], collects, journals: self.options.journal.is_some() };
        self.check_plan(&graph, ranks)?;
        let mut files = self.files(rank, ranks)?;
        let cores = rank_commands.as_ref().map_or(0, |commands| commands.cores);
        let what = self.announcement(&graph, &closure_of, (collect, cores));
        let run = endpoint.begin_work(&what, config.join_limit)?;
        let begin = clock.now();
        let directory = files.as_ref().map(|files| files.folder.path()).or(self.options.directory.as_deref());
        let mut commands = Commands::new((rank_commands, rank), &self.description, directory)?;
        if let Some(output) = files.as_ref().and_then(|files| files.folder.output()) {
            commands.write_output_to(output)?;
        }
        let mut worker = WorkflowWorker::new(rank, graph.clone(), settings);
        let parent = self.options.spill.clone().unwrap_or_else(std::env::temp_dir);
        let mut spill = SpillFolder::new(&parent);
        let root = match rank {
            0 => {
                let question = self.question(&graph, &memory, plan_options);
                let mut root = self.root(&graph, question, given, (run, begin), endpoint)?;
                root.collects = collects;
                root.master.run_several(commands.cores());
                root.master.has_memory(&memory);
                self.take_known(&mut root, &mut worker, &mut spill, endpoint)?;
                Some(root)
            }
            _ => None,
        };
        // A rank records its running closure in memory that survives it (its flight record), from which rank 0 learns what killed the rank. Rank 0
        // records nothing, because its own death ends the job.
        let flight_recorder = (rank > 0 && endpoint.is_process()).then(ClosureFlightRecorder::new).flatten();
        let flight_record = flight_recorder.as_ref().map(ClosureFlightRecorder::place);
        let has_after_command = self.after_command.is_some();
        let code = TaskCode {
            graph: graph.clone(),
            closures: &mut self.code,
            closure_of: closure_of.into(),
            after_command: self.after_command.as_mut(),
            context: Context::new(endpoint.place(), &graph.name),
            spill,
            flight_recorder,
            clock,
        };
        let waker = endpoint.transport().waker();
        let is_bounded = settings.budget < u64::MAX;
        if is_bounded {
            // With a memory limit, the allocator returns freed memory to the system at once, because the limit applies to all memory in use.
            endpoint.transport().keep_freed_memory(false);
        }
        let running = std::thread::scope(|scope| {
            let executor = Executor::at_first_job(Some(scope), rank, config.driver, waker, clock, code, None);
            let driver = RankDriver::new(endpoint, executor, config, NAME);
            let mut running = Running::new(
                (graph.clone(), worker),
                root,
                (commands, files.take()),
                (self.options.enforces_memory, has_after_command),
            );
            running.flight_recorder = flight_record;
            running.log_events(config.events.as_deref(), endpoint);
            // A failure is reported to the other ranks before the scope of threads ends, because the end of the scope waits for the compute thread,
            // which may be in user code for a long time.
            let result = driver.run(endpoint, &mut running);
            let placed = |error: Error| error.in_workflow(&graph.name);
            result.map_err(placed).inspect_err(|error| endpoint.report(error)).map(|_| running)
        })?;
        if is_bounded {
            endpoint.transport().keep_freed_memory(true);
        }
        let Running { root: Some(mut root), mut events, .. } = running else {
            return endpoint.check_run_stopped().map(|()| None);
        };
        root.journal.take().map_or(Ok(()), TaskJournal::close)?;
        endpoint.check_run_stopped()?;
        let (results, summary) = summed_up(root, &graph, endpoint.lost(), begin);
        events.record(endpoint.clock().now(), || Event::totals_of(&summary));
        Ok(Some((results, summary)))
    }

    /// Creates the state of rank 0. The other ranks have none, because it grows with the tasks and the ranks.
    fn root(
        &self,
        graph: &Arc<Graph>,
        mut question: Option<Box<Question>>,
        given: Option<&JobPlatform>,
        (run, begin): (u32, Duration),
        endpoint: &Endpoint,
    ) -> Result<Root> {
        let ranks = endpoint.size();
        let is_probed = question.is_some()
            && self.options.cluster.is_none()
            && !given.is_some_and(JobPlatform::is_complete)
            && endpoint.lost().is_empty()
            && self.is_worth_probing(ranks);
        if let (Some(question), Some(given), false) = (&mut question, given, is_probed) {
            question.use_probed(&Probed::given(given, BANDWIDTH)?, &graph.name);
        }
        let mut master = Master::new(graph.clone(), ranks, endpoint.lost(), self.options.max_failures);
        if let Some(end_by) = endpoint.tasks_end_by() {
            master.ends_by(end_by, begin);
        }
        if let Some(plan) = &self.options.fixed_plan {
            master.plan(&plan.processor_of, &plan.sequence);
        }
        Ok(Root {
            known: 0,
            master,
            journal: None,
            plan: question,
            planned: self.options.fixed_plan.as_ref().map(|plan| ("the caller".to_string(), plan.makespan)),
            probe: is_probed.then(|| Probe::new(run, ranks)),
            given: given.cloned(),
            replan_question: None,
            cause: None,
            replanned: 0,
            collects: false,
            results: BTreeMap::new(),
            finals: vec![None; ranks],
            begin,
            ended: None,
            wall_time: self.options.wall_time,
            records: self.options.records.clone(),
            graph: graph.clone(),
            flight_records: FlightRecords::default(),
        })
    }

    /// Gives `root` the tasks that are done already: those that the description marks as done, and those in the journal.
    fn take_known(
        &self,
        root: &mut Root,
        worker: &mut WorkflowWorker,
        spill: &mut SpillFolder,
        endpoint: &mut Endpoint,
    ) -> Result<()> {
        self.take_done(&root.graph, &mut root.master, worker, endpoint)?;
        if let Some((path, identity)) = &self.options.journal {
            endpoint.claim(path)?;
            let (journal, known) =
                TaskJournal::open(path, identity.bytes()?, &root.graph, &mut root.master, spill)?;
            root.journal = Some(journal);
            for (task, bytes) in known.restored {
                worker.on_restored(task, bytes, &mut Outgoing::new(endpoint))?;
            }
            if root.collects {
                root.results.extend(known.finals);
            }
        }
        root.known = root.master.progress().0;
        Ok(())
    }

    fn take_done(
        &self,
        graph: &Graph,
        master: &mut Master,
        worker: &mut WorkflowWorker,
        endpoint: &mut Endpoint,
    ) -> Result<()> {
        let tasks = self.description.tasks();
        let done = graph.dag.topological_order().iter().copied().filter(|&task| tasks[task].done);
        let done: Vec<usize> = done.collect();
        for &task in &done {
            let is_read = graph.children(task).any(|child| !tasks[child].done);
            if is_read && !graph.needs(task).is_command {
                let text = format!(
                    "task {:?} is marked as done, but its output is needed, and only output files of commands are \
                     kept between runs",
                    tasks[task].name
                );
                return Err(Error::new(ErrorKind::Config, text));
            }
            master.known(task);
        }
        for task in done.into_iter().filter(|&task| master.is_needed(task)) {
            worker.on_owned(task, Value::nothing()?, &mut Outgoing::new(endpoint))?;
        }
        Ok(())
    }

    /// Returns true if the run is so long that it pays to measure the speeds of the ranks and the links between them before the run.
    fn is_worth_probing(&self, ranks: usize) -> bool {
        let work: f64 = self.description.tasks().iter().filter_map(|task| task.run_time).sum();
        let time = Duration::try_from_secs_f64(work / ranks as f64).unwrap_or(Duration::MAX);
        is_affordable(PROBING + PROBING_A_LINK.saturating_mul(ranks as u32), time)
    }

    /// Returns the request for a plan before the run. `None` if no plan is computed: with one rank, with a plan that the program has set, if
    /// planning is switched off, or if the description has no run times, memory or sizes.
    fn question(&self, graph: &Graph, memory: &[u64], mut options: PlanOptions) -> Option<Box<Question>> {
        let knows = |task: &armature_workflow_files::Task| task.run_time.is_some() || task.memory.is_some();
        let is_known = self.options.plan.is_some()
            || self.description.tasks().iter().any(knows)
            || graph.dag.edges().iter().any(|edge| edge.size > 0);
        if memory.len() == 1 || !self.options.is_planned || !is_known || self.options.fixed_plan.is_some() {
            return None;
        }
        // Memory in bytes, in the planner's model, of a rank without a limit.
        const ENOUGH: u64 = i64::MAX as u64;
        let cluster = |disk| match &self.options.cluster {
            Some(cluster) => Some(cluster.clone().with_room(|rank| (memory[rank].min(ENOUGH), disk))),
            None => {
                let processor = |(rank, &memory): (usize, &u64)| {
                    Processor::new(format!("rank {rank}"), 1.0, memory.min(ENOUGH)).with_buffer(disk)
                };
                let cluster = Cluster::new(memory.iter().enumerate().map(processor).collect(), BANDWIDTH);
                cluster.and_then(|cluster| cluster.with_disk(Cluster::DISK)).ok()
            }
        };
        let clusters = Clusters { in_memory: cluster(0)?, with_disk: cluster(ENOUGH)? };
        let mut placements = usize::MAX;
        if self.options.plan.is_none() {
            placements = PLACEMENTS;
            options.evaluations = options.evaluations.min(affordable_evaluations(&graph.dag, memory.len()));
        }
        Some(Box::new(Question { clusters, options, placements }))
    }

    /// Returns for each rank the maximum number of bytes that it may hold. `given` is the platform of the job, if the program has not set a
    /// [`Cluster`].
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the number of processors in the program's [`Cluster`] differs from the number of ranks.
    fn memory_of_ranks(&self, ranks: usize, given: Option<&JobPlatform>) -> Result<Vec<u64>> {
        let budget = self.options.memory.unwrap_or(u64::MAX);
        let Some(cluster) = &self.options.cluster else {
            let of_rank = |rank: usize| given.and_then(|given| given.processors[rank].memory);
            return Ok((0..ranks).map(|rank| budget.min(of_rank(rank).unwrap_or(u64::MAX))).collect());
        };
        if cluster.len() != ranks {
            let text = format!(
                "the cluster has {} processors, expected one for each of the {ranks} ranks",
                cluster.len()
            );
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(cluster.processors().iter().map(|processor| processor.memory.min(budget)).collect())
    }

    /// Checks that the plan that the program has set, if there is one, has the tasks and ranks of this run.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the plan has other tasks, or a processor that is no rank.
    fn check_plan(&self, graph: &Graph, ranks: usize) -> Result<()> {
        let Some(plan) = &self.options.fixed_plan else { return Ok(()) };
        let mut tasks = plan.sequence.clone();
        tasks.sort_unstable();
        let text = if plan.processor_of.len() != graph.len() || !tasks.into_iter().eq(0..graph.len()) {
            format!("the plan is for other tasks: expected each of the {} tasks once", graph.len())
        } else if let Some(processor) = plan.processor_of.iter().find(|&&processor| processor >= ranks) {
            format!("the plan has a task on processor {processor}, expected a rank below {ranks}")
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Config, text))
    }
}

/// Upper estimate of the time to measure ranks and links; [`PROBING_A_LINK`] is added for each rank. The speeds of all ranks are measured at once, in
/// some tens of milliseconds. Over each link, eight messages are sent there and back, three of them of 256 KiB; the estimate is for 1 Gbit/s.
const PROBING: Duration = Duration::from_millis(50);
const PROBING_A_LINK: Duration = Duration::from_millis(10);

/// Bandwidth in bytes per second that the planner assumes for links that are not measured: about 10 Gbit/s. With a much smaller value, plans would
/// keep tasks on one rank that should run on different ranks; with a much larger one they would send values that should not be sent.
const BANDWIDTH: f64 = 1e9;

fn summed_up(root: Root, graph: &Graph, lost: &[usize], begin: Duration) -> (Results, Summary) {
    let Root { master, planned, replanned, results, finals, ended, .. } = root;
    let failed = master.failed().to_vec();
    let summary = Summary {
        name: graph.name.clone(),
        tasks: (graph.len() - failed.len()) as u64 - master.skipped,
        known: (0..graph.len())
            .filter(|&task| master.is_done(task) && master.measured[task].is_none())
            .count() as u64,
        skipped: master.skipped,
        retried: master.retried,
        again: master.again,
        lost: lost.to_vec(),
        plan: planned,
        replanned,
        elapsed: ended.unwrap_or(begin).saturating_sub(begin),
        ranks: finals.into_iter().map(Option::unwrap_or_default).collect(),
        done: (0..graph.len()).map(|task| master.is_done(task)).collect(),
        measured: master.measured,
        failed,
    };
    let values = results.into_iter().map(|(task, value)| (graph.dag.name(task).to_string(), value));
    (Results { workflow: graph.name.clone(), values: values.collect() }, summary)
}
