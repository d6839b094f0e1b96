//! Tests of master and workers in a simulation without ranks: messages and tasks end in any order, tasks fail and ranks die.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use armature_planner::random::Random;
use armature_planner::workflow::{Cluster, Processor, Situation, TaskMemory, plan_rest};
use armature_workflow_files::{Action, Description, Task};

use super::graph::Graph;
use super::master::{Change, Master};
use super::messages::{Content, Order, Orders, Reason, Report, TaskDone};
use super::planning::{Clusters, ReplanQuestion};
use super::recorder::Recorder;
use super::user_code::Job;
use super::value::Value;
use super::worker::{Settings, WorkflowWorker};
use crate::error::{ErrorKind, Result};
use crate::observe::Event;
use crate::rank::protocol::Outgoing;
use crate::tasks::{Attempts, LastActivity, Suspicion};
use crate::wire::Codec;

#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) seed: u64,
    pub(super) tasks: usize,
    pub(super) ranks: usize,
    /// True if each rank has only as much memory as the task with the highest need.
    pub(super) is_tight: bool,
    pub(super) journals: bool,
    /// One in this many tries of tasks fails; `None` if no try fails.
    pub(super) failing: Option<usize>,
    pub(super) max_failures: usize,
    pub(super) deaths: usize,
    /// Number of a task that kills every rank on which it runs, except rank 0.
    pub(super) deadly: Option<usize>,
    /// True if a dead rank leaves a file that names the task in which it died (its flight record).
    pub(super) flight_records: bool,
    pub(super) is_planned: bool,
    pub(super) is_replanned: bool,
    pub(super) limit: bool,
    /// True if every second task is a command.
    pub(super) commands: bool,
}

pub(super) const SETTING: Setting = Setting {
    seed: 0,
    tasks: 40,
    ranks: 3,
    is_tight: false,
    journals: false,
    failing: None,
    max_failures: 0,
    deaths: 0,
    deadly: None,
    flight_records: false,
    is_planned: false,
    is_replanned: false,
    limit: false,
    commands: false,
};

fn below(random: &mut Random, end: usize) -> usize {
    random.below(end)
}

fn graph(setting: &Setting, random: &mut Random) -> Arc<Graph> {
    let mut builder = Description::builder("random");
    builder.limit("few", 2);
    let mut edges = Vec::new();
    let mut tasks = Vec::new();
    for number in 0..setting.tasks {
        let is_command = setting.commands && number % 2 == 1;
        let action = if is_command { Action::Shell("true".into()) } else { Action::Closure("c".into()) };
        let mut task = Task::new(number.to_string(), action);
        task.priority = below(random, 3) as i64;
        if setting.limit && below(random, 3) == 0 {
            task.limits.insert("few".into(), 1 + below(random, 2) as u64);
        }
        tasks.push(task);
        edges.extend((0..number).filter(|_| below(random, setting.tasks) < 3).map(|parent| (parent, number)));
    }
    for (number, mut task) in tasks.into_iter().enumerate() {
        if !edges.iter().any(|&(parent, _)| parent == number) {
            // No task reads this output, so no edge of the graph states its size. The size is part of the task's own memory instead.
            task.memory = Some(size(number) as u64 + 100);
        }
        builder.task(task);
    }
    for (parent, number) in edges {
        builder.edge(parent.to_string(), number.to_string(), size(parent) as u64 + 100);
    }
    let tries = if setting.failing.is_some() || setting.deaths > 0 { 30 } else { 1 };
    let tries = if setting.max_failures > 0 { 2 } else { tries };
    Arc::new(Graph::new(&builder.build().unwrap(), tries, TaskMemory::Additive).unwrap())
}

/// Returns the size of a task's output in bytes: 8, 20,000 or 90,000. If memory is limited, outputs of 90,000 bytes are sent only after the receiver
/// has reserved memory.
fn size(task: usize) -> usize {
    [8, 20_000, 90_000][task % 3]
}

fn give(graph: &Graph, task: usize, inputs: Vec<Value>) -> Value {
    if graph.needs(task).is_command {
        return Value::nothing().unwrap();
    }
    let mut sum = task as u64;
    let result = graph.parents(task).zip(inputs).filter(|(parent, _)| !graph.needs(*parent).is_command);
    for (_, input) in result {
        let bytes: Vec<u8> = input.decode().unwrap();
        sum = sum.wrapping_mul(31).wrapping_add(u64::from_le_bytes(*bytes.first_chunk().unwrap()));
    }
    let mut bytes = sum.to_le_bytes().to_vec();
    bytes.resize(size(task), 7);
    Value::encode(bytes, &Codec::of_type()).unwrap()
}

fn serial(graph: &Graph) -> Vec<Value> {
    let mut values: Vec<Option<Value>> = vec![None; graph.len()];
    for &task in graph.dag.topological_order() {
        let inputs = graph.parents(task).map(|parent| values[parent].clone().unwrap()).collect();
        values[task] = Some(give(graph, task, inputs));
    }
    values.into_iter().flatten().collect()
}

pub(super) struct World {
    setting: Setting,
    budget: u64,
    random: Random,
    graph: Arc<Graph>,
    master: Master,
    workers: Vec<WorkflowWorker>,
    endpoints: Vec<Recorder>,
    wires: Vec<Vec<VecDeque<Content>>>,
    /// By rank: task values that the rank is sending, each with the number of the message and its receiver.
    leaving: Vec<Vec<(u64, usize, Value)>>,
    most: Vec<u64>,
    jobs: Vec<Option<Job>>,
    disks: Vec<BTreeMap<usize, Value>>,
    kept: BTreeMap<usize, Value>,
    pub(super) runs: Vec<u32>,
    limit_used: Vec<(usize, u64)>,
    now: Duration,
    /// Request for a new plan to which the simulated planner has not replied yet.
    requested: Option<Box<ReplanQuestion>>,
    pub(super) changes: Vec<Change>,
}

impl World {
    fn new(setting: Setting) -> Self {
        let mut random = Random::new(setting.seed);
        let graph = graph(&setting, &mut random);
        let needs = (0..setting.tasks).map(|task| graph.dag.requirement(task, TaskMemory::Additive));
        let budget = if setting.is_tight { needs.max().unwrap() } else { u64::MAX };
        World::of(setting, graph, budget, random)
    }

    fn of(setting: Setting, graph: Arc<Graph>, budget: u64, mut random: Random) -> Self {
        let ranks = setting.ranks;
        let settings = Settings { budget, collects: true, journals: setting.journals };
        let mut master = Master::new(graph.clone(), ranks, &[], setting.max_failures);
        master.has_memory(&vec![budget; ranks]);
        if setting.is_planned {
            let places: Vec<usize> = (0..setting.tasks).map(|_| below(&mut random, ranks)).collect();
            master.plan(&places, graph.dag.topological_order());
        }
        if setting.is_replanned {
            let clusters = clusters(ranks, budget);
            let start = Situation::new(&graph.dag, &clusters.with_disk);
            let plan = plan_rest(&graph.dag, &clusters.with_disk, &start, TaskMemory::Additive).unwrap();
            master.has_planned(plan, clusters, Duration::from_micros(1), Duration::ZERO);
        }
        World {
            workers: (0..ranks).map(|rank| WorkflowWorker::new(rank, graph.clone(), settings)).collect(),
            endpoints: (0..ranks).map(|rank| Recorder::new(rank, ranks)).collect(),
            wires: (0..ranks).map(|_| (0..ranks).map(|_| VecDeque::new()).collect()).collect(),
            leaving: vec![Vec::new(); ranks],
            most: vec![0; ranks],
            jobs: (0..ranks).map(|_| None).collect(),
            disks: vec![BTreeMap::new(); ranks],
            kept: BTreeMap::new(),
            runs: vec![0; setting.tasks],
            limit_used: Vec::new(),
            now: Duration::ZERO,
            requested: None,
            changes: Vec::new(),
            setting,
            budget,
            random,
            graph,
            master,
        }
    }

    fn act<R>(
        &mut self,
        rank: usize,
        event: impl FnOnce(&mut WorkflowWorker, &mut Outgoing<'_>) -> Result<R>,
    ) -> Result<R> {
        let result = event(&mut self.workers[rank], &mut self.endpoints[rank].out());
        for (number, to, content) in self.endpoints[rank].take() {
            if let Content::Value(_, value) = &content {
                self.leaving[rank].push((number, to, value.clone()));
            }
            if !self.master.is_lost(to) {
                self.wires[rank][to].push_back(content);
            }
        }
        result
    }

    /// Completes the handling of an event on a rank: sends its requests, reports and orders. Rank 0's orders for itself are delivered at once.
    fn flush(&mut self, rank: usize, with_report: bool) -> Result<()> {
        loop {
            self.act(rank, WorkflowWorker::send_request)?;
            for task in self.workers[rank].take_forgotten() {
                assert!(self.disks[rank].remove(&task).is_some(), "it was on disk");
            }
            if with_report && let Some(report) = self.workers[rank].take_report() {
                match rank {
                    0 => self.master.on_report(0, report)?,
                    _ => self.wires[rank][0].push_back(Content::Report(report)),
                }
            }
            let mut again = false;
            let orders: Vec<(usize, Orders)> = self.master.take_orders().collect();
            for (to, orders) in orders {
                match to {
                    0 => {
                        self.act(0, |worker, out| worker.on_orders(orders, out))?;
                        again |= rank == 0;
                    }
                    _ => self.wires[0][to].push_back(Content::Orders(orders)),
                }
            }
            if !again {
                return Ok(());
            }
        }
    }

    /// Informs the worker of a rank which of its messages have been sent, so that it releases the memory of their values. Then updates the peak of
    /// memory in use.
    fn release_sent(&mut self, rank: usize) -> Result<()> {
        let arrived = |to: usize, value: &Value| {
            let is_it =
                |content: &Content| matches!(content, Content::Value(_, other) if other.is_same(value));
            !self.wires[rank][to].iter().any(is_it)
        };
        let random = &mut self.random;
        self.leaving[rank].retain(|(_, to, value)| !arrived(*to, value) || below(random, 3) == 0);
        let still: Vec<u64> = self.leaving[rank].iter().map(|(number, ..)| *number).collect();
        self.endpoints[rank].are_leaving(still);
        self.act(rank, WorkflowWorker::release_sent)?;
        // A message to a dead rank may never be sent, so the value in it is not counted as memory in use on the sender.
        let living = self.leaving[rank].iter().filter(|(_, to, _)| !self.master.is_lost(*to));
        // A value in transit already occupies memory on its receiver. Values that rank 0 gets for the caller or the journal are not counted, because
        // its worker does not hold them.
        let is_kept = |task: usize| rank == 0 && (self.setting.journals || self.graph.is_final(task));
        let arriving = self.alive().into_iter().flat_map(|from| &self.wires[from][rank]);
        let arriving = arriving.filter_map(|content| match content {
            Content::Value(task, value) if !is_kept(*task) => Some(value),
            _ => None,
        });
        let held = self.workers[rank].values_in_memory();
        let mut here: Vec<&Value> = Vec::new();
        for value in held.chain(living.map(|(_, _, value)| value)).chain(arriving) {
            if !here.iter().any(|other| other.is_same(value)) {
                here.push(value);
            }
        }
        let bytes = here.into_iter().map(Value::bytes).sum();
        self.most[rank] = self.most[rank].max(bytes);
        Ok(())
    }

    fn keep(&mut self, task: usize, value: &Value) {
        if self.setting.journals {
            self.master.has_journalled(task);
        }
        if self.setting.journals || self.graph.is_final(task) {
            self.kept.insert(task, value.clone());
        }
    }

    fn alive(&self) -> Vec<usize> {
        (0..self.setting.ranks).filter(|&rank| !self.master.is_lost(rank)).collect()
    }

    fn start_job(&mut self, rank: usize) -> Result<bool> {
        let job = self.act(rank, |worker, out| match worker.next_command(out)? {
            None => worker.next(out),
            job => Ok(job),
        })?;
        self.flush(rank, job.is_none())?;
        if let Some(Job::Run { task, .. }) = &job {
            let was_kept = self.setting.journals && self.kept.contains_key(task);
            assert!(!was_kept, "task {task} is in the journal and runs again");
            self.limit_used.extend(self.graph.needs(*task).limits.iter().map(|&(_, n)| (*task, n)));
            assert!(self.limit_used.iter().map(|(_, n)| n).sum::<u64>() <= 2, "more than the limit runs");
        }
        self.jobs[rank] = job;
        Ok(self.jobs[rank].is_some())
    }

    fn finish_job(&mut self, rank: usize) -> Result<()> {
        if let Some(Job::Run { task, .. }) = &self.jobs[rank]
            && self.setting.deadly == Some(*task)
        {
            assert!(
                rank > 0 || self.alive().len() == self.setting.ranks,
                "rank 0 runs what has killed a rank"
            );
            if rank > 0 {
                let last = match self.setting.flight_records {
                    true => LastActivity::Chunk { id: *task as u64, task: None },
                    false => LastActivity::Behind(None),
                };
                // Messages that the rank has sent before are delivered to rank 0 first, so that rank 0 knows which task the rank has begun.
                while !self.wires[rank][0].is_empty() {
                    self.deliver(rank, 0)?;
                }
                return self.kill_rank(rank, last);
            }
        }
        match self.jobs[rank].take().expect("it has one") {
            Job::Run { task, inputs, .. } => {
                self.limit_used.retain(|(other, _)| *other != task);
                assert_eq!(inputs.len(), self.graph.parents(task).len(), "all inputs are there");
                let fails = self.setting.failing.is_some_and(|one_in| below(&mut self.random, one_in) == 0);
                if fails {
                    let failure = (Reason::Error, "no".into());
                    self.act(rank, |worker, out| worker.on_failed(task, failure, Duration::ZERO, out))?;
                } else {
                    self.runs[task] += 1;
                    let took = Duration::from_millis((1 + task as u64 % 3) * (1 + rank as u64));
                    let value = give(&self.graph, task, inputs);
                    if rank == 0 {
                        self.keep(task, &value);
                    }
                    self.act(rank, |worker, out| worker.on_done((task, value), took, None, out))?;
                }
            }
            Job::Spill(task, value) => {
                self.disks[rank].insert(task, value);
                self.workers[rank].on_spilled(task);
            }
            Job::Load(task) => {
                let value = self.disks[rank][&task].clone();
                self.workers[rank].on_loaded(task, value);
            }
            job => panic!("the machine itself has no {job:?}"),
        }
        let with_report = below(&mut self.random, 2) == 0;
        self.flush(rank, with_report)
    }

    fn deliver(&mut self, from: usize, to: usize) -> Result<()> {
        let content = self.wires[from][to].pop_front().expect("there is one");
        match content {
            Content::Orders(orders) => self.act(to, |worker, out| worker.on_orders(orders, out))?,
            Content::Want(values) => self.act(to, |worker, out| worker.on_want(from, values, out))?,
            Content::Offer(values) => self.act(to, |worker, out| worker.on_offer(from, values, out))?,
            Content::Value(..) if to == 0 && self.master.is_lost(from) => {}
            Content::Value(task, value) => {
                if to == 0 {
                    self.keep(task, &value);
                }
                self.workers[to].on_value(from, task, value);
            }
            Content::Started(task) => self.master.on_started(from, task),
            Content::Lost(rank) => self.learn_of(rank, to)?,
            Content::Dropped(task) => self.workers[to].on_dropped(from, task),
            Content::Report(report) => {
                self.master.on_report(from, report)?;
                self.flush(0, false)?;
            }
            _ => unreachable!("machines do not send it"),
        }
        self.flush(to, false)
    }

    fn learn_of(&mut self, dead: usize, at: usize) -> Result<()> {
        self.endpoints[at].endpoint.learn_of(&[dead]);
        self.act(at, |worker, out| worker.on_lost(dead, out))
    }

    fn kill(&mut self) -> Result<()> {
        let alive = self.alive();
        if alive.len() < 2 {
            return Ok(());
        }
        let dead = alive[1 + below(&mut self.random, alive.len() - 1)];
        self.kill_rank(dead, LastActivity::Innocent)
    }

    fn kill_rank(&mut self, dead: usize, last: LastActivity) -> Result<()> {
        if let Some(Job::Run { task, .. }) = self.jobs[dead].take() {
            self.limit_used.retain(|(other, _)| *other != task);
        }
        // In half of the cases, messages that the dead rank has sent are lost; otherwise they arrive later.
        let is_lost = below(&mut self.random, 2) == 0;
        for rank in 0..self.setting.ranks {
            if is_lost {
                self.wires[dead][rank].clear();
            }
            self.wires[rank][dead].clear();
        }
        self.master.on_lost(dead, last)?;
        self.learn_of(dead, 0)?;
        for rank in self.alive().into_iter().skip(1) {
            self.wires[0][rank].push_back(Content::Lost(dead));
        }
        self.flush(0, false)
    }

    fn restore(&mut self) -> Result<()> {
        for task in self.master.take_to_restore() {
            if self.graph.needs(task).is_command {
                self.act(0, |worker, out| worker.on_owned(task, Value::nothing()?, out))?;
                continue;
            }
            let value = self.kept[&task].clone();
            self.act(0, |worker, out| worker.on_restored(task, value.bytes(), out))?;
            self.disks[0].insert(task, value);
        }
        self.flush(0, false)
    }

    /// Requests a new plan from the simulated planner if the master has a reason to replace the plan, or delivers the planner's reply after a random
    /// time.
    fn replan(&mut self) -> Result<()> {
        self.now += Duration::from_millis(1);
        match self.requested.take() {
            None => self.requested = self.master.replan_question(self.now).map(|(_, request)| request),
            Some(request) if below(&mut self.random, 10) > 0 => self.requested = Some(request),
            Some(request) => {
                let found = request.answer(&self.graph.dag);
                self.changes.push(self.master.on_replanned(found, Duration::from_micros(1), self.now));
            }
        }
        self.flush(0, false)
    }

    fn play(&mut self) -> Result<()> {
        self.master.begin();
        self.flush(0, false)?;
        let mut deaths: Vec<usize> = (0..self.setting.deaths).map(|_| below(&mut self.random, 400)).collect();
        let mut turn = 0;
        while !self.master.is_finished() {
            turn += 1;
            assert!(turn < 200_000, "it does not end: {} {:?}", self.master.waits_for(), self.workers);
            if let Some(at) = deaths.iter().position(|&death| death <= turn) {
                deaths.remove(at);
                self.kill()?;
            }
            self.replan()?;
            let alive = self.alive();
            let mut steps = Vec::new();
            for from in 0..self.setting.ranks {
                steps.extend(
                    alive.iter().filter(|&&to| !self.wires[from][to].is_empty()).map(|&to| (from, Some(to))),
                );
            }
            steps.extend(alive.iter().map(|&rank| (rank, None)));
            if below(&mut self.random, 20) == 0 {
                self.restore()?;
            }
            let (rank, to) = steps[below(&mut self.random, steps.len())];
            self.release_sent(rank)?;
            match (to, self.jobs[rank].is_some()) {
                (Some(to), _) => self.deliver(rank, to)?,
                (None, true) => self.finish_job(rank)?,
                (None, false) => {
                    self.start_job(rank)?;
                }
            }
        }
        Ok(())
    }

    fn check(&self) {
        let serial = serial(&self.graph);
        for (task, value) in serial.iter().enumerate() {
            if self.graph.is_final(task) {
                assert_eq!(self.kept.get(&task), Some(value), "task {task}");
            }
        }
        for (rank, worker) in self.workers.iter().enumerate() {
            let most = self.budget.saturating_add(self.budget / 16);
            assert!(
                worker.totals().most_held <= most,
                "rank {rank} held {} of {most} {:?}",
                worker.totals().most_held,
                self.setting
            );
            assert!(self.most[rank] <= most, "rank {rank} really held {} of {most}", self.most[rank]);
        }
    }
}

pub(super) fn clusters(ranks: usize, budget: u64) -> Clusters {
    let memory = budget.min(i64::MAX as u64);
    let cluster = |disk| {
        let processor = Processor::new("rank", 1.0, memory).with_buffer(disk);
        Cluster::new(vec![processor; ranks], 1e9).unwrap()
    };
    Clusters { in_memory: cluster(0), with_disk: cluster(i64::MAX as u64) }
}

pub(super) fn play(setting: Setting) -> World {
    let mut world = World::new(setting);
    world.play().unwrap_or_else(|error| panic!("{setting:?}: {error}"));
    world.check();
    world
}

#[test]
fn all_tasks_run_once_for_any_event_order() {
    for seed in 0..30 {
        for ranks in 1..=4 {
            let setting = Setting { seed, ranks, is_planned: seed % 2 == 1, limit: seed % 3 == 0, ..SETTING };
            let world = play(setting);
            assert!(world.runs.iter().all(|&runs| runs == 1), "{:?}", world.runs);
        }
    }
}

#[test]
fn values_are_spilled_if_memory_is_short() {
    let mut spilled = 0;
    for seed in 0..30 {
        for ranks in 1..=4 {
            let setting = Setting { seed, ranks, is_tight: true, is_planned: seed % 2 == 1, ..SETTING };
            let world = play(setting);
            assert!(world.runs.iter().all(|&runs| runs == 1), "{:?}", world.runs);
            spilled += world.workers.iter().map(|worker| worker.totals().spilled).sum::<u64>();
            let disks: usize = world.disks.iter().map(BTreeMap::len).sum();
            assert!(disks < setting.tasks, "what nobody needs is removed");
        }
    }
    assert!(spilled > 10_000_000, "{spilled} bytes: the limit does not bind");
}

#[test]
fn failed_tasks_are_retried() {
    for seed in 0..60 {
        let is_tight = seed % 2 == 1;
        let world = play(Setting { seed, failing: Some(3), is_tight, limit: seed % 3 == 0, ..SETTING });
        assert!(world.master.retried > 0);
        assert!(world.runs.iter().all(|&runs| runs == 1), "{:?}", world.runs);
    }
}

#[test]
fn only_descendants_of_failed_tasks_are_skipped() {
    let mut skipped = 0;
    for seed in 0..60 {
        let setting =
            Setting { seed, failing: Some(3), max_failures: usize::MAX, limit: seed % 3 == 0, ..SETTING };
        let mut world = World::new(setting);
        world.play().unwrap();
        let failed: Vec<u64> = world.master.failed().iter().map(super::FailedTask::task).collect();
        let mut is_lost = vec![false; setting.tasks];
        for &task in world.graph.dag.topological_order() {
            is_lost[task] =
                failed.contains(&(task as u64)) || world.graph.parents(task).any(|parent| is_lost[parent]);
            assert_eq!(world.runs[task] == 0, is_lost[task], "task {task}");
        }
        skipped += world.master.skipped;
    }
    assert!(skipped > 100);
}

#[test]
fn failure_beyond_the_limit_ends_the_run() {
    let mut world = World::new(Setting { failing: Some(1), ..SETTING });
    let error = world.play().unwrap_err();
    assert!(
        error.message().starts_with("no (task \"") && error.message().ends_with("after 30 tries)"),
        "{error}"
    );
    assert!(error.rank().is_some() && error.item().is_some());
}

#[test]
fn tasks_of_dead_ranks_are_repeated() {
    let mut again = 0;
    for seed in 0..40 {
        for ranks in 2..=4 {
            let is_tight = seed % 2 == 1;
            let setting = Setting { seed, ranks, deaths: 2, is_tight, is_planned: seed % 3 == 0, ..SETTING };
            let setting = Setting { limit: seed % 5 == 0, failing: (seed % 7 == 0).then_some(5), ..setting };
            let setting = Setting { commands: seed % 4 < 2, ..setting };
            again += play(setting).master.again;
        }
    }
    assert!(again > 100);
}

#[test]
fn deadly_task_fails_and_never_runs_on_rank_0() {
    let mut runs = [0, 0];
    for seed in 0..80 {
        let (deadly, flight_records) = (seed as usize % SETTING.tasks, seed % 2 == 0);
        let setting = Setting {
            seed,
            ranks: 4,
            deadly: Some(deadly),
            flight_records,
            max_failures: usize::MAX,
            ..SETTING
        };
        let mut world = World::new(Setting { is_planned: seed % 3 == 0, ..setting });
        world.play().unwrap();
        let dead = setting.ranks - world.alive().len();
        if dead == 0 {
            // With this seed, rank 0 ran the deadly task before any other rank did, so no rank died, and there is nothing to check.
            continue;
        }
        runs[usize::from(flight_records)] += 1;
        let failed = world.master.failed();
        assert_eq!(failed.iter().map(super::FailedTask::task).collect::<Vec<_>>(), [deadly as u64]);
        assert_eq!((failed[0].tries(), dead), (2, 2), "a death is a try");
        let mut is_lost = vec![false; setting.tasks];
        for &task in world.graph.dag.topological_order() {
            is_lost[task] = task == deadly || world.graph.parents(task).any(|parent| is_lost[parent]);
            assert_eq!(world.runs[task] == 0, is_lost[task], "task {task}");
        }
    }
    assert!(runs.iter().all(|&runs| runs > 15), "{runs:?}");
}

/// Tests the two errors about a task in which every rank except rank 0 dies: with two ranks, no rank is left to retry the task; with four ranks, the
/// task has used both of its tries.
#[test]
fn deadly_task_fails_if_only_rank_0_is_left() {
    let of_ranks = |ranks| {
        let mut builder = Description::builder("deadly");
        builder.task(Task::new("deadly", Action::Closure("c".into())));
        let graph = Arc::new(Graph::new(&builder.build().unwrap(), 2, TaskMemory::Additive).unwrap());
        let mut master = Master::new(graph, ranks, &[], 0);
        master.plan(&[1], &[0]);
        master.begin();
        let mut lose = || {
            let (rank, _) = master.take_orders().next().expect("somebody has the task");
            assert_ne!(rank, 0);
            master.on_lost(rank, LastActivity::Chunk { id: 0, task: None })
        };
        loop {
            if let Err(error) = lose() {
                return (error.kind(), error.message().to_string());
            }
        }
    };
    let (kind, message) = of_ranks(2);
    assert_eq!(kind, ErrorKind::Timeout);
    assert!(message.contains("rank 1 has died in it, and no rank is left to retry it"), "{message}");
    let (kind, message) = of_ranks(4);
    assert_eq!(kind, ErrorKind::User);
    assert!(message.contains("has died in it (task \"deadly\", after 2 tries)"), "{message}");
}

/// Tests that tries noted in the journal of an earlier run count in this run, unless the task has used all its tries: then it begins with none.
#[test]
fn deaths_in_an_earlier_run_count_as_attempts() {
    let mut builder = Description::builder("deadly");
    builder.task(Task::new("deadly", Action::Closure("c".into())));
    let graph = Arc::new(Graph::new(&builder.build().unwrap(), 3, TaskMemory::Additive).unwrap());
    let started_again = |ranks, restored| {
        let mut master = Master::new(graph.clone(), ranks, &[], 0);
        master.restore_attempts(&BTreeMap::from([(0, restored)])).map(|()| {
            master.begin();
            let orders: Vec<usize> = master.take_orders().map(|(rank, _)| rank).collect();
            (orders, master.attempts()[0].failed)
        })
    };
    let died = |certain| {
        let suspicion = Suspicion { certain, most: 1, ..Suspicion::default() };
        Attempts { failed: certain, suspicion }
    };
    assert_eq!(started_again(3, died(2)).unwrap(), (vec![1], 2));
    assert_eq!(started_again(1, died(3)).unwrap(), (vec![0], 0));
    let error = started_again(2, died(2)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let expected = "a process has died in it (in an earlier run of the job), and no rank is left to retry it";
    assert!(error.message().contains(expected), "{error}");
}

/// Tests that ranks run tasks early that free memory: each task reads two values, and all values together need ten times the memory of a rank.
#[test]
fn unplanned_tasks_consume_values_before_memory_is_full() {
    const PAIRS: usize = 40;
    let mut builder = Description::builder("pairs");
    (0..=3 * PAIRS).for_each(|number| {
        let mut task = Task::new(number.to_string(), Action::Closure("c".into()));
        task.memory = Some(size(number) as u64);
        builder.task(task);
    });
    for sum in (0..PAIRS).map(|pair| 3 * pair) {
        for value in [sum + 1, sum + 2] {
            builder.edge(value.to_string(), sum.to_string(), size(value) as u64 + 100);
        }
        builder.edge(sum.to_string(), (3 * PAIRS).to_string(), size(sum) as u64 + 100);
    }
    let graph = Arc::new(Graph::new(&builder.build().unwrap(), 1, TaskMemory::Additive).unwrap());
    for (seed, ranks) in (0..20).flat_map(|seed| [(seed, 1), (seed, 2), (seed, 3)]) {
        let setting = Setting { seed, ranks, tasks: graph.len(), ..SETTING };
        let mut world = World::of(setting, graph.clone(), 900_000, Random::new(seed));
        world.play().unwrap();
        world.check();
        let spilled: Vec<u64> = world.workers.iter().map(|worker| worker.totals().spilled).collect();
        assert_eq!(spilled, vec![0; ranks], "seed {seed}");
    }
}

#[test]
fn journalled_tasks_are_not_repeated() {
    for seed in 0..100 {
        let is_tight = seed % 2 == 1;
        let setting = Setting { seed, ranks: 2 + seed as usize % 3, deaths: 2, journals: true, ..SETTING };
        play(Setting { is_tight, commands: seed % 4 < 2, is_planned: seed % 3 == 0, ..setting });
    }
}

#[test]
fn completed_commands_are_not_repeated() {
    // The commands "reads" and "last" read the output of the command "made". Rank 1 dies while it runs "reads", and "last" waits.
    let mut builder = Description::builder("commands");
    for name in ["made", "reads", "last"] {
        builder.task(Task::new(name, Action::Shell("true".into())));
    }
    for (from, to) in [("made", "reads"), ("made", "last"), ("reads", "last")] {
        builder.edge(from, to, 0);
    }
    let graph = Graph::new(&builder.build().unwrap(), 2, TaskMemory::Additive).unwrap();
    let mut master = Master::new(Arc::new(graph), 2, &[], 0);
    master.plan(&[1, 1, 1], &[0, 1, 2]);
    master.begin();
    assert_eq!(master.take_orders().map(|(rank, _)| rank).collect::<Vec<_>>(), [1]);
    let done = |task| TaskDone { task, attempt: 0, bytes: 0, took: 1_000, peak_memory: None };
    master.on_report(1, Report { done: vec![done(0)], ..Report::default() }).unwrap();
    assert_eq!(master.on_lost(1, LastActivity::Innocent).unwrap(), 2, "\"reads\" and \"last\"");
    assert_eq!(master.take_to_restore(), [0]);
    for task in [1, 2] {
        master.on_report(0, Report { done: vec![done(task)], ..Report::default() }).unwrap();
    }
    assert!(master.is_finished());
}

/// Tests that a task which may have begun keeps its share of a limited resource when one of its inputs is lost. Rank 1 dies; rank 2 has a copy of
/// rank 1's output, and may have begun the task that reads it.
#[test]
fn limits_are_held_until_an_order_is_returned() {
    let mut builder = Description::builder("limits");
    builder.limit("few", 1);
    builder.task(Task::new("made", Action::Closure("c".into())));
    let mut reads = Task::new("reads", Action::Closure("c".into()));
    reads.limits.insert("few".into(), 1);
    builder.task(reads);
    builder.edge("made", "reads", 0);
    let graph = Arc::new(Graph::new(&builder.build().unwrap(), 2, TaskMemory::Additive).unwrap());
    let done = |task| TaskDone { task, attempt: 0, bytes: 0, took: 1_000, peak_memory: None };
    for has_started in [false, true] {
        let mut master = Master::new(graph.clone(), 3, &[], 0);
        master.plan(&[1, 2], &[0, 1]);
        master.begin();
        master.on_report(1, Report { done: vec![done(0)], ..Report::default() }).unwrap();
        let is_ordered = |(rank, orders): &(usize, Orders)| *rank == 2 && !orders.orders.is_empty();
        assert_eq!(master.take_orders().filter(is_ordered).count(), 1);
        assert_eq!(master.on_lost(1, LastActivity::Innocent).unwrap(), 1, "what was made is made again");
        let orders: BTreeMap<usize, _> = master.take_orders().collect();
        assert_eq!(orders[&2].recalled, [1]);
        let makes = *orders.iter().find(|(_, orders)| !orders.orders.is_empty()).unwrap().0;
        let answer = match has_started {
            true => Report { done: vec![done(1)], ..Report::default() },
            false => Report { returned: vec![1], ..Report::default() },
        };
        master.on_report(2, answer).unwrap();
        assert_eq!(master.take_orders().flat_map(|(_, orders)| orders.orders).count(), 0);
        master.on_report(makes, Report { done: vec![done(0)], ..Report::default() }).unwrap();
        let again: Vec<_> =
            master.take_orders().flat_map(|(rank, orders)| vec![rank; orders.orders.len()]).collect();
        assert_eq!((again.len(), master.is_finished()), (usize::from(!has_started), has_started));
    }
}

#[test]
fn task_too_large_for_every_rank_fails_with_its_need() {
    let mut world = World::new(SETTING);
    let settings = Settings { budget: 100_000, collects: true, journals: false };
    world.workers.iter_mut().enumerate().for_each(|(rank, worker)| {
        *worker = WorkflowWorker::new(rank, world.graph.clone(), settings);
    });
    let error = world.play().unwrap_err();
    assert!(error.message().contains("more than a rank's limit of 100000"), "{error}");
}

#[test]
fn task_is_forwarded_to_a_rank_with_enough_memory() {
    for seed in 0..30 {
        let mut world = World::new(Setting { seed, is_tight: true, is_planned: seed % 2 == 1, ..SETTING });
        let memory = [world.budget / 3, world.budget / 2, world.budget];
        for (rank, &budget) in memory.iter().enumerate() {
            let settings = Settings { budget, collects: true, journals: false };
            world.workers[rank] = WorkflowWorker::new(rank, world.graph.clone(), settings);
        }
        world.master.has_memory(&memory);
        world.play().unwrap();
        world.check();
        assert!(world.runs.iter().all(|&runs| runs == 1), "{:?}", world.runs);
        for (worker, memory) in world.workers.iter().zip(memory) {
            assert!(
                worker.totals().most_held <= memory + memory / 16,
                "{worker:?} held {}",
                worker.totals().most_held
            );
        }
    }
}

fn order(task: usize, sources: Vec<usize>) -> Order {
    let (is_announced, is_suspect) = (false, false);
    Order { task, attempt: 0, exceeded: Default::default(), place: None, is_announced, is_suspect, sources }
}

#[test]
fn inputs_are_prefetched_if_memory_allows() {
    let mut builder = Description::builder("three");
    for name in ["0", "1", "2"] {
        builder.task(Task::new(name, Action::Closure("c".into())));
    }
    builder.edge("0", "2", size(2) as u64);
    let graph = Arc::new(Graph::new(&builder.build().unwrap(), 1, TaskMemory::Additive).unwrap());
    let large = give(&graph, 2, vec![]);
    for (budget, is_room) in [(200_000, true), (95_000, false)] {
        let settings = Settings { budget, collects: false, journals: false };
        let (mut worker, mut to) = (WorkflowWorker::new(1, graph.clone(), settings), Recorder::new(1, 2));
        let orders = vec![order(1, vec![]), order(2, vec![0])];
        worker.on_orders(Orders { orders, ..Orders::default() }, &mut to.out()).unwrap();
        assert!(matches!(worker.next(&mut to.out()), Ok(Some(Job::Run { task: 1, .. }))));
        let requested = wanted(&mut worker, &mut to);
        assert_eq!(requested, [(0, budget / 16)], "it is to be offered if it is larger");
        let offered = vec![(0, if is_room { large.bytes() } else { 96_000 })];
        worker.on_offer(0, offered, &mut to.out()).unwrap();
        let expected: &[(usize, u64)] = if is_room { &[(0, large.bytes())] } else { &[] };
        assert_eq!(wanted(&mut worker, &mut to), expected, "task 1 still runs");
    }
}

/// Returns the values that the worker requests from rank 0, each with the maximum size up to which rank 0 may send it without a further request.
fn wanted(worker: &mut WorkflowWorker, to: &mut Recorder) -> Vec<(usize, u64)> {
    worker.send_request(&mut to.out()).unwrap();
    let wants = to.take().into_iter().map(|(_, to, content)| match content {
        Content::Want(values) if to == 0 => values,
        other => panic!("it sends {other:?}"),
    });
    wants.flatten().collect()
}

#[test]
fn critical_path_uses_the_measured_speed() {
    let mut world = World::new(SETTING);
    assert_eq!(world.master.critical_path(), None, "nothing has been measured");
    world.play().unwrap();
    assert_eq!(world.master.critical_path(), Some(0.0), "all tasks have ended");
    // In a chain of two tasks, task "a" took a microsecond. Task "b" is expected to take as long, so the remaining critical path is a microsecond.
    let mut builder = Description::builder("chain");
    for name in ["a", "b"] {
        builder.task(Task::new(name, Action::Closure("c".into())));
    }
    builder.edge("a", "b", 0);
    let graph = Arc::new(Graph::new(&builder.build().unwrap(), 1, TaskMemory::Additive).unwrap());
    let mut master = Master::new(graph, 1, &[], 0);
    master.begin();
    let done = super::messages::TaskDone { task: 0, attempt: 0, bytes: 0, took: 1_000, peak_memory: None };
    master.on_report(0, super::messages::Report { done: vec![done], ..Default::default() }).unwrap();
    assert_eq!(master.critical_path(), Some(1e-6));
}

#[test]
fn dropped_values_are_logged_as_held_until_sent() {
    let mut builder = Description::builder("two");
    for name in ["made", "reads"] {
        builder.task(Task::new(name, Action::Closure("c".into())));
    }
    builder.edge("made", "reads", 90_000);
    let graph = Arc::new(Graph::new(&builder.build().unwrap(), 1, TaskMemory::Additive).unwrap());
    let settings = Settings { budget: 200_000, collects: false, journals: false };
    let (mut worker, mut to) = (WorkflowWorker::new(0, graph, settings), Recorder::new(0, 2));
    let mut seconds = 0;
    // Advances the clock by one second and returns the latest number of bytes in memory that the worker reports to the event log.
    let mut held = |worker: &mut WorkflowWorker| {
        seconds += 1;
        worker.trace.set_time(Duration::from_secs(seconds));
        worker.take_events().into_iter().rev().find_map(|(_, event)| match event {
            Event::Held(held) => Some(held.bytes),
            _ => None,
        })
    };
    assert_eq!(held(&mut worker), Some(0));
    worker.on_orders(Orders { orders: vec![order(0, vec![])], ..Orders::default() }, &mut to.out()).unwrap();
    worker.on_want(1, vec![(0, u64::MAX)], &mut to.out()).unwrap();
    assert!(matches!(worker.next(&mut to.out()), Ok(Some(Job::Run { task: 0, .. }))));
    let value = Value::encode(vec![7_u8; 90_000], &Codec::of_type()).unwrap();
    let bytes = value.bytes();
    worker.on_done((0, value), Duration::from_micros(1), None, &mut to.out()).unwrap();
    let sent = to.take().into_iter().map(|(number, ..)| number).collect();
    to.are_leaving(sent);
    worker.on_orders(Orders { dropped: vec![0], ..Orders::default() }, &mut to.out()).unwrap();
    worker.release_sent(&mut to.out()).unwrap();
    assert_eq!(held(&mut worker), Some(bytes));
    to.are_leaving(Vec::new());
    worker.release_sent(&mut to.out()).unwrap();
    assert_eq!(held(&mut worker), Some(0));
}
