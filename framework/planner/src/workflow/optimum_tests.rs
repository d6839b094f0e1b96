//! No planner is better than the best of all plans, which small workflows let us look at, one by one.

use proptest::prelude::*;

use super::generate::{RandomCluster, RandomWorkflow};
use super::property_tests::problem;
use super::replan::rules;
use super::timeline::Timeline;
use super::*;

/// All plans of events: each order of tasks, each processor of each.
struct Everything<'a> {
    graph: &'a Workflow,
    cluster: &'a Cluster,
    /// Seconds that what follows from each task takes at least, on the fastest processors that have the memory.
    after: Vec<f64>,
    best: f64,
}

impl<'a> Everything<'a> {
    fn new(graph: &'a Workflow, cluster: &'a Cluster, task_memory: TaskMemory) -> Self {
        let mut after = vec![0.0_f64; graph.len()];
        for &task in graph.topological_order().iter().rev() {
            let needs = graph.requirement(task, task_memory);
            let fitting = cluster.processors().iter().filter(|processor| processor.memory >= needs);
            let speed = fitting.map(|processor| processor.speed).fold(0.0, f64::max);
            for edge in graph.inputs(task) {
                after[edge.from] = after[edge.from].max(graph.work(task) / speed + after[task]);
            }
        }
        Everything { graph, cluster, after, best: f64::INFINITY }
    }

    fn look(&mut self, timeline: &Timeline<'_>, placed: &[bool], makespan: f64) {
        if placed.iter().all(|&placed| placed) {
            self.best = self.best.min(makespan);
            return;
        }
        let ready = |task: &usize| !placed[*task] && self.graph.inputs(*task).all(|edge| placed[edge.from]);
        for task in (0..self.graph.len()).filter(ready).collect::<Vec<_>>() {
            let mut with = placed.to_vec();
            with[task] = true;
            for p in 0..self.cluster.len() {
                let mut next = timeline.clone();
                let inputs = next.inputs(task);
                let Some(outcome) = next.place(task, p, &inputs) else { continue };
                if outcome.finish + self.after[task] < self.best {
                    self.look(&next, &with, makespan.max(outcome.finish));
                }
            }
        }
    }
}

/// The makespan of the best plan of events; infinite if there is none.
fn optimum(graph: &Workflow, cluster: &Cluster, task_memory: TaskMemory, known: f64) -> f64 {
    let mut everything = Everything::new(graph, cluster, task_memory);
    // Plans that are as good as the one that is known are found, too.
    everything.best = known * (1.0 + 1e-12);
    let timeline = Timeline::new(graph, cluster, rules(task_memory));
    everything.look(&timeline, &vec![false; graph.len()], 0.0);
    everything.best
}

fn compare(graph: &Workflow, cluster: &Cluster, task_memory: TaskMemory) -> Option<f64> {
    let memory = MemoryModel { task_memory, ..MemoryModel::default() };
    let search = PlanOptions { memory, evaluations: 200, threads: 1, ..PlanOptions::default() };
    let best = plan(graph, cluster, &search).ok()?;
    if best.plan.execution != Execution::Events {
        return None;
    }
    Some(best.plan.makespan / optimum(graph, cluster, task_memory, best.plan.makespan))
}

#[test]
fn eight_tasks_on_three_processors_are_planned_nearly_as_well_as_possible() {
    let graph = RandomWorkflow { tasks: 8, reach: 4, ..RandomWorkflow::default() }.build(3).unwrap();
    let cluster = RandomCluster { processors: 3, largest: 1.2, smallest: 0.5, buffer: 1.0 };
    let cluster = cluster.build(&graph, TaskMemory::Additive, 3).unwrap();
    let ratio = compare(&graph, &cluster, TaskMemory::Additive).unwrap();
    assert!((1.0 - 1e-9..1.1).contains(&ratio), "{ratio}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn no_plan_of_events_is_better_than_the_best_of_all((graph, cluster, task_memory) in problem(5)) {
        prop_assume!(cluster.len() <= 3);
        if let Some(ratio) = compare(&graph, &cluster, task_memory) {
            prop_assert!((1.0 - 1e-9..1.5).contains(&ratio), "{}", ratio);
        }
    }
}
