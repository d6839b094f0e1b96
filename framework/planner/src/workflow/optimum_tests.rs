//! Tests that compare the plans of small workflows with the best of all plans, which is found by exhaustive search.

use proptest::prelude::*;

use super::best::plan_by_heuristics;
use super::exhaustive::Search;
use super::generate::{RandomCluster, RandomWorkflow, problem};
use super::*;
use crate::random::Random;

/// Returns the shortest makespan of all plans in which each file is sent as soon as it is written. The makespan `known` of some plan is an upper
/// bound.
fn optimum(graph: &Workflow, cluster: &Cluster, task_memory: TaskMemory, known: f64) -> f64 {
    // The search rejects plans whose makespan exceeds a limit. The limit is slightly above `known`, to accept equally good plans.
    let mut search = Search::new(graph, cluster, task_memory, known * (1.0 + 1e-12), usize::MAX);
    search.run();
    search.shortest
}

/// Returns a random workflow of five to seven tasks, most of which have one reader, and two or three processors. About half of the files take up to
/// 16 times as long to send as a task takes, the other files almost no time.
fn joins(seed: u64) -> (Workflow, Cluster) {
    let mut random = Random::new(seed);
    let mut below = |end: usize| (random.uniform() * end as f64) as usize;
    let (tasks, processors) = (5 + below(3), 2 + below(2));
    let mut builder = Workflow::builder();
    for task in 0..tasks {
        builder.task(format!("t{task}"), 1.0 + below(3) as f64, 1);
    }
    for task in 0..tasks - 1 {
        let mut reader = || task + 1 + below(tasks - 1 - task);
        let (first, second) = (reader(), reader());
        let mut size = || if below(2) == 0 { 1 } else { 100 * (1 + below(16) as u64) };
        builder.edge(task, first, size());
        if second != first && task % 3 == 0 {
            builder.edge(task, second, size());
        }
    }
    let processors = vec![Processor::new("p", 1.0, 1 << 20); processors];
    (builder.build().unwrap(), Cluster::new(processors, 100.0).unwrap())
}

#[test]
fn plans_with_expensive_files_are_near_the_optimum() {
    const CASES: u64 = 96;
    let options = PlanOptions { threads: 1, ..PlanOptions::default() };
    let ratios: Vec<f64> = (0..CASES)
        .map(|seed| {
            let (graph, cluster) = joins(seed);
            let makespan = plan_by_heuristics(&graph, &cluster, &options).unwrap().plan.makespan;
            makespan / optimum(&graph, &cluster, TaskMemory::Additive, makespan)
        })
        .collect();
    let off = ratios.iter().filter(|&&ratio| ratio > 1.05).count();
    let worst = ratios.iter().copied().fold(1.0, f64::max);
    assert!(off <= 10 && worst < 1.25, "{off} of {CASES} are more than 5 % off, the worst {worst}");
}

#[test]
fn plan_of_few_tasks_is_optimal() {
    for seed in 0..12 {
        let (graph, cluster) = joins(seed);
        let plan =
            plan(&graph, &cluster, &PlanOptions { threads: 1, ..PlanOptions::default() }).unwrap().plan;
        let optimum = optimum(&graph, &cluster, TaskMemory::Additive, plan.makespan);
        assert!(plan.makespan <= optimum * 1.01 * (1.0 + 1e-9), "seed {seed}: {} {optimum}", plan.makespan);
    }
}

/// State of a run without times: the processors of tasks and files.
#[derive(Clone)]
struct Untimed<'a> {
    graph: &'a Workflow,
    cluster: &'a Cluster,
    task_memory: TaskMemory,
    is_done: Vec<bool>,
    /// Processor of each file that waits for its reader, and true if the file is in the buffer of the processor.
    place: Vec<Option<(usize, bool)>>,
}

impl Untimed<'_> {
    fn can_end(&self) -> bool {
        let graph = self.graph;
        let is_ready =
            |task: &usize| !self.is_done[*task] && graph.inputs(*task).all(|edge| self.is_done[edge.from]);
        self.is_done.iter().all(|&done| done)
            || (0..graph.len())
                .filter(is_ready)
                .any(|task| (0..self.cluster.len()).any(|p| self.can_run(task, p)))
    }

    fn can_run(&self, task: usize, p: usize) -> bool {
        let graph = self.graph;
        let others = |in_buffer: bool| {
            let is_there = move |file: &usize| self.place[*file] == Some((p, in_buffer));
            (0..graph.edges().len()).filter(is_there)
        };
        let size = |file: usize| graph.edges()[file].size;
        let movable: Vec<usize> = others(false).filter(|&file| graph.edges()[file].to != task).collect();
        let held: u64 = movable.iter().map(|&file| size(file)).sum();
        let buffered: u64 = others(true).map(size).sum();
        let needs = graph.requirement(task, self.task_memory);
        let processor = &self.cluster.processors()[p];
        (0..1_u32 << movable.len()).any(|chosen| {
            let evicted = || {
                movable.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1).map(|(_, &file)| file)
            };
            let bytes: u64 = evicted().map(size).sum();
            if held - bytes + needs > processor.memory || bytes > 0 && buffered + bytes > processor.buffer {
                return false;
            }
            let mut next = self.clone();
            next.is_done[task] = true;
            evicted().for_each(|file| next.place[file] = Some((p, true)));
            graph.input_numbers(task).iter().for_each(|&file| next.place[file] = None);
            graph.output_numbers(task).for_each(|file| next.place[file] = Some((p, false)));
            next.can_end()
        })
    }
}

#[test]
fn feasible_small_workflows_are_always_planned() {
    let mut feasible = 0;
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut below = |end: usize| (random.uniform() * end as f64) as usize;
        let tasks = 2 + below(4);
        let size = [5, 50, 200][below(3)];
        let graph =
            RandomWorkflow { tasks, parents: 3, reach: 4, work: 10, memory: 60, size }.build(seed).unwrap();
        let task_memory = [TaskMemory::Additive, TaskMemory::IncludesIo][below(2)];
        let (processors, buffer) = (1 + below(3), [0.0, 0.3, 10.0][below(3)]);
        let largest = 0.9 + 0.6 * random.uniform();
        let cluster = RandomCluster { processors, largest, smallest: 0.5, buffer };
        let cluster = cluster.build(&graph, task_memory, seed).unwrap();
        let (is_done, place) = (vec![false; tasks], vec![None; graph.edges().len()]);
        let untimed = Untimed { graph: &graph, cluster: &cluster, task_memory, is_done, place };
        let memory = MemoryModel { task_memory, ..MemoryModel::default() };
        let options = PlanOptions { memory, threads: 1, evaluations: 0, ..PlanOptions::default() };
        if untimed.can_end() {
            feasible += 1;
            let found = plan(&graph, &cluster, &options);
            assert!(found.is_ok(), "seed {seed}: {:?}", found.err());
        }
    }
    assert!(feasible > 100, "{feasible}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn no_event_plan_beats_the_optimum((graph, cluster, task_memory) in problem(5)) {
        prop_assume!(cluster.len() <= 3);
        let memory = MemoryModel { task_memory, ..MemoryModel::default() };
        let options = PlanOptions { memory, evaluations: 200, threads: 1, ..PlanOptions::default() };
        if let Ok(best) = plan_by_heuristics(&graph, &cluster, &options)
            && best.plan.execution == Execution::Events
        {
            let ratio = best.plan.makespan / optimum(&graph, &cluster, task_memory, best.plan.makespan);
            prop_assert!((1.0 - 1e-9..1.5).contains(&ratio), "{}", ratio);
        }
    }
}
