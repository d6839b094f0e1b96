//! The best of all plans, where there are few enough to look at.

use super::cluster::Cluster;
use super::graph::Workflow;
use super::memory::TaskMemory;
use super::plan::Plan;
use super::replan::rules;
use super::timeline::Timeline;

/// The largest problems that are searched.
const MOST_TASKS: usize = 8;
const MOST_PROCESSORS: usize = 3;
/// Tasks that are placed at most, one after the other, in some tens of milliseconds. All plans of five tasks need less; those of
/// eight do where bounds exclude most of them.
const MOST_PLACED: usize = 30_000;

/// The shortest plan of events, of all orders of tasks and all processors for each, if it is shorter than `known`. None, too, if there
/// are too many tasks, processors or plans to look at.
pub(super) fn shortest(
    graph: &Workflow,
    cluster: &Cluster,
    task_memory: TaskMemory,
    known: f64,
) -> Option<Plan> {
    if graph.len() > MOST_TASKS || cluster.len() > MOST_PROCESSORS {
        return None;
    }
    let mut search = Search::new(graph, cluster, task_memory, known, MOST_PLACED);
    search.run();
    search.best.map(Timeline::into_plan)
}

/// Depth first, where a branch ends when nothing that follows can be shorter than the best plan so far.
pub(super) struct Search<'a> {
    graph: &'a Workflow,
    cluster: &'a Cluster,
    task_memory: TaskMemory,
    /// Seconds that what follows from each task takes at least, on the fastest processors that have the memory.
    after: Vec<f64>,
    /// Work units per second of all processors together.
    speed: f64,
    /// How many tasks may still be placed.
    pub(super) left: usize,
    pub(super) shortest: f64,
    best: Option<Timeline<'a>>,
}

/// Tasks placed so far.
struct State<'a> {
    timeline: Timeline<'a>,
    is_placed: [bool; MOST_TASKS],
    makespan: f64,
    /// Work that is not placed.
    work: f64,
    /// When each processor is free.
    free: [f64; MOST_PROCESSORS],
}

impl<'a> Search<'a> {
    pub(super) fn new(
        graph: &'a Workflow,
        cluster: &'a Cluster,
        task_memory: TaskMemory,
        known: f64,
        left: usize,
    ) -> Self {
        let mut after = vec![0.0_f64; graph.len()];
        for &task in graph.topological_order().iter().rev() {
            let needs = graph.requirement(task, task_memory);
            let fitting = cluster.processors().iter().filter(|processor| processor.memory >= needs);
            let speed = fitting.map(|processor| processor.speed).fold(0.0, f64::max);
            let takes = if graph.work(task) > 0.0 { graph.work(task) / speed } else { 0.0 };
            for edge in graph.inputs(task) {
                after[edge.from] = after[edge.from].max(takes + after[task]);
            }
        }
        let speed = cluster.processors().iter().map(|processor| processor.speed).sum();
        Search { graph, cluster, task_memory, after, speed, left, shortest: known, best: None }
    }

    pub(super) fn run(&mut self) {
        let state = State {
            timeline: Timeline::new(self.graph, self.cluster, rules(self.task_memory)),
            is_placed: [false; MOST_TASKS],
            makespan: 0.0,
            work: (0..self.graph.len()).map(|task| self.graph.work(task)).sum(),
            free: [0.0; MOST_PROCESSORS],
        };
        self.go_on(&state);
    }

    fn go_on(&mut self, state: &State<'a>) {
        let graph = self.graph;
        if state.is_placed[..graph.len()].iter().all(|&placed| placed) {
            (self.shortest, self.best) = (state.makespan, Some(state.timeline.clone()));
            return;
        }
        let is_ready =
            |task: usize| !state.is_placed[task] && graph.inputs(task).all(|edge| state.is_placed[edge.from]);
        for task in (0..graph.len()).filter(|&task| is_ready(task)) {
            for p in 0..self.cluster.len() {
                if self.left == 0 {
                    return;
                }
                self.left -= 1;
                let mut timeline = state.timeline.clone();
                let inputs = timeline.inputs(task);
                let Some(outcome) = timeline.place(task, p, &inputs) else { continue };
                let mut next = State { timeline, ..*state };
                next.is_placed[task] = true;
                next.makespan = next.makespan.max(outcome.finish);
                next.work -= graph.work(task);
                next.free[p] = outcome.finish;
                let is_promising = outcome.finish + self.after[task] < self.shortest
                    && next.makespan < self.shortest
                    && self.least(&next) < self.shortest;
                if is_promising {
                    self.go_on(&next);
                }
            }
        }
    }

    /// When all ends at the earliest if the processors share what is left evenly.
    fn least(&self, state: &State<'_>) -> f64 {
        let processors = self.cluster.processors().iter();
        let done: f64 = processors.zip(state.free).map(|(processor, free)| processor.speed * free).sum();
        // A little less, as the sum is rounded.
        (done + state.work) / self.speed * (1.0 - 1e-12)
    }
}
