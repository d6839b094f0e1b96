//! Exhaustive search for the shortest plan of a small workflow.

use super::cluster::Cluster;
use super::graph::Workflow;
use super::memory::TaskMemory;
use super::plan::Plan;
use super::replan::rules;
use super::timeline::Timeline;

/// Maximum number of tasks of a workflow for which the exhaustive search runs.
const MOST_TASKS: usize = 8;
const MOST_PROCESSORS: usize = 3;
/// Maximum number of placements of tasks that are tried, which takes some tens of milliseconds. Five tasks on three processors have 40,695
/// placements; for larger problems the search ends in time only if lower bounds prune it.
const MOST_TRIED: usize = 50_000;

/// Returns the shortest plan that sends each file as soon as it is written, over all orders of tasks and all processors. Returns `None` if its
/// makespan is not shorter than `known`, or if there are too many tasks, processors or placements.
pub(super) fn shortest(
    graph: &Workflow,
    cluster: &Cluster,
    task_memory: TaskMemory,
    known: f64,
) -> Option<Plan> {
    if graph.len() > MOST_TASKS || cluster.len() > MOST_PROCESSORS {
        return None;
    }
    let mut search = Search::new(graph, cluster, task_memory, known, MOST_TRIED);
    search.run();
    search.best.map(Timeline::into_plan)
}

/// Depth-first search over the placements of tasks. A branch is pruned if none of its complete plans can be shorter than the best plan so far.
pub(super) struct Search<'a> {
    graph: &'a Workflow,
    cluster: &'a Cluster,
    task_memory: TaskMemory,
    /// For each task, a lower bound of the seconds from its end to the end of the run, if the following tasks run on the fastest processors with
    /// enough memory.
    after: Vec<f64>,
    speed: f64,
    /// Number of placements of tasks that the search may still try.
    pub(super) left: usize,
    pub(super) shortest: f64,
    best: Option<Timeline<'a>>,
}

#[derive(Clone)]
struct State<'a> {
    timeline: Timeline<'a>,
    is_placed: [bool; MOST_TASKS],
    /// Lower bound of the makespan of any completion of the partial plan.
    makespan: f64,
    work: f64,
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
        self.search_from(state);
    }

    fn search_from(&mut self, mut state: State<'a>) {
        let graph = self.graph;
        if state.is_placed[..graph.len()].iter().all(|&placed| placed) {
            (self.shortest, self.best) = (state.makespan, Some(state.timeline));
            return;
        }
        let is_ready =
            |task: usize| !state.is_placed[task] && graph.inputs(task).all(|edge| state.is_placed[edge.from]);
        let ready: Vec<usize> = (0..graph.len()).filter(|&task| is_ready(task)).collect();
        for task in ready {
            let inputs = state.timeline.inputs(task);
            for p in 0..self.cluster.len() {
                if self.is_as_another(&state, p) {
                    continue;
                }
                if self.left == 0 {
                    return;
                }
                self.left -= 1;
                let Some(outcome) = state.timeline.try_on(task, p, &inputs, f64::INFINITY) else { continue };
                let makespan = state.makespan.max(outcome.finish + self.after[task]);
                if makespan >= self.shortest || self.least(&state, task, p, outcome.finish) >= self.shortest {
                    continue;
                }
                let mut next = state.clone();
                next.timeline.place(task, p, &inputs);
                next.is_placed[task] = true;
                next.makespan = makespan;
                next.work -= graph.work(task);
                next.free[p] = outcome.finish;
                self.search_from(next);
            }
        }
    }

    /// Returns a lower bound of the makespan if `task` ends on processor `p` at time `finish`. For the bound, the remaining work is divided evenly
    /// over all processors.
    fn least(&self, state: &State<'_>, task: usize, p: usize, finish: f64) -> f64 {
        let mut free = state.free;
        free[p] = finish;
        let processors = self.cluster.processors().iter();
        let done: f64 = processors.zip(free).map(|(processor, free)| processor.speed * free).sum();
        // The lower bound is reduced slightly, because the sum of the times has rounding errors.
        (done + state.work - self.graph.work(task)) / self.speed * (1.0 - 1e-12)
    }

    /// Returns true if placing a task on processor `p` need not be tried, because an equal processor with a smaller number is idle as well.
    fn is_as_another(&self, state: &State<'_>, p: usize) -> bool {
        let processors = self.cluster.processors();
        let hardware = |p: usize| (processors[p].speed, processors[p].memory, processors[p].buffer);
        let is_idle = |p: usize| state.timeline.is_idle(p);
        self.cluster.has_equal_links()
            && is_idle(p)
            && (0..p).any(|other| is_idle(other) && hardware(other) == hardware(p))
    }
}
