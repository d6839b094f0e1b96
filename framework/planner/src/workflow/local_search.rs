//! Local search, which improves a workflow plan by random changes.
//!
//! Each round draws random changes of the best plan so far, evaluates them in parallel, and continues with the best one if it is an improvement.
//! There are three kinds of changes: a task on the critical path moves to another processor, possibly with its neighbours; the order of the tasks is
//! perturbed and all tasks are placed again; or the order is perturbed and all tasks keep their processors.

use super::cluster::Cluster;
use super::graph::Workflow;
use super::heftm::{Homes, place_relaxed};
use super::options::PlanOptions;
use super::parallel;
use super::plan::{Execution, Plan};
use super::replan::{place_as_assigned, rules};
use super::timeline::{Moment, Timeline};
use super::worth::Worth;
use crate::random::Random;

/// Number of random changes in a round, which are evaluated in parallel: enough for the cores of a workstation. The number does not depend on the
/// number of cores, because otherwise the resulting plan would depend on it too.
const ROUND: usize = 16;
#[derive(Clone, Copy)]
enum Change {
    Move(u64),
    Shake(u64),
    Reorder(u64),
}

/// Returns the best of at most [`PlanOptions::evaluations`] changed plans, if it is better than `start`. `shortest` is the shortest makespan that any
/// planner has found.
pub(super) fn improve(
    graph: &Workflow,
    cluster: &Cluster,
    start: &Plan,
    mut shortest: f64,
    options: &PlanOptions,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Option<Plan> {
    let mut improved: Option<Plan> = None;
    let mut left = options.evaluations;
    let mut seed = options.seed;
    while left > 0 && !stopped() {
        let best = improved.as_ref().unwrap_or(start);
        let critical = critical_path(graph, best);
        let changes: Vec<Change> = (0..ROUND.min(left))
            .map(|number| {
                seed = seed.wrapping_add(1);
                match number % 4 {
                    0 => Change::Shake(seed),
                    2 => Change::Reorder(seed),
                    _ => Change::Move(seed),
                }
            })
            .collect();
        left -= changes.len();
        let plans = parallel::answers(&changes, options.threads, |&change| match change {
            Change::Move(seed) => with_moved_task(graph, cluster, best, &critical, seed),
            Change::Shake(seed) => shaken(graph, cluster, best, seed, None),
            Change::Reorder(seed) => {
                let homes = Homes::fixed(graph, cluster, &best.processor_of);
                shaken(graph, cluster, best, seed, Some(homes))
            }
        });
        let plans: Vec<Plan> = plans.into_iter().flatten().collect();
        shortest = plans.iter().map(|plan| plan.makespan).fold(shortest, f64::min);
        let mut worth = Worth::of(graph, best);
        for plan in plans {
            let other = Worth::of(graph, &plan);
            if other.is_better(&worth, shortest) {
                (improved, worth) = (Some(plan), other);
            }
        }
    }
    improved
}

/// Returns the plan in which a task of the critical path moves to another processor. The tasks from which it reads, and those that read from it, move
/// as well with probability one half, if they are on the same old processor.
fn with_moved_task(
    graph: &Workflow,
    cluster: &Cluster,
    best: &Plan,
    critical: &[usize],
    seed: u64,
) -> Option<Plan> {
    let mut random = Random::new(seed);
    let mut below = |count: usize| ((random.uniform() * count as f64) as usize).min(count - 1);
    let task = critical[below(critical.len())];
    let needs = graph.requirement(task, best.task_memory);
    let others: Vec<usize> = (0..cluster.len())
        .filter(|&p| p != best.processor_of[task] && cluster.processors()[p].memory >= needs)
        .collect();
    if others.is_empty() {
        return None;
    }
    let mut processor_of = best.processor_of.clone();
    let other = others[below(others.len())];
    processor_of[task] = other;
    if below(2) == 0 {
        let readers = graph.outputs(task).iter().map(|edge| edge.to);
        for neighbour in graph.inputs(task).map(|edge| edge.from).chain(readers) {
            if best.processor_of[neighbour] == best.processor_of[task] {
                processor_of[neighbour] = other;
            }
        }
    }
    let mut timeline = Timeline::new(graph, cluster, rules(best.task_memory));
    place_as_assigned(&mut timeline, &best.sequence, &processor_of)?;
    Some(timeline.into_plan())
}

/// Places all tasks again in a random order close to that of the plan. If `homes` is given, tasks stay on the processors that it assigns to them.
fn shaken(graph: &Workflow, cluster: &Cluster, best: &Plan, seed: u64, homes: Option<Homes>) -> Option<Plan> {
    let mut random = Random::new(seed);
    // Maximum number of positions by which a task moves in the order. The logarithm of this number is uniformly distributed between those of 1 and of
    // the number of tasks.
    let reach = (graph.len() as f64).powf(random.uniform());
    let mut order: Vec<(Moment, usize)> = best
        .sequence
        .iter()
        .enumerate()
        .map(|(place, &task)| (Moment(place as f64 + reach * random.uniform()), task))
        .collect();
    order.sort();
    let order: Vec<usize> = order.into_iter().map(|(_, task)| task).collect();
    let mut timeline = Timeline::new(graph, cluster, rules(best.task_memory));
    place_relaxed(&mut timeline, graph, cluster, &order, homes).ok()?;
    Some(timeline.into_plan())
}

/// Returns the critical path of a plan in reverse order: the task that ends last, then the task for which it had to wait, and so on. For a plan of
/// blocks, returns all tasks.
fn critical_path(graph: &Workflow, plan: &Plan) -> Vec<usize> {
    if plan.execution != Execution::Events {
        return plan.sequence.clone();
    }
    let mut before = vec![None; graph.len()];
    for order in &plan.orders {
        for pair in order.windows(2) {
            before[pair[1]] = Some(pair[0]);
        }
    }
    let mut arrival = vec![0.0; graph.edges().len()];
    for transfer in &plan.transfers {
        arrival[transfer.edge] = transfer.finish;
    }
    let mut path = Vec::new();
    let mut at = plan.sequence.iter().copied().max_by(|&a, &b| plan.finish[a].total_cmp(&plan.finish[b]));
    while let Some(task) = at {
        path.push(task);
        let last = graph.input_numbers(task).iter().max_by(|&&a, &&b| arrival[a].total_cmp(&arrival[b]));
        let awaited = last.filter(|&&file| arrival[file] >= plan.start[task] && arrival[file] > 0.0);
        at = awaited.map(|&file| graph.edges()[file].from).or(before[task]);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::cluster::Processor;
    use crate::workflow::heftm::heftm_in_order;
    use crate::workflow::memory::TaskMemory;
    use crate::workflow::verifier::verify;

    fn pair_and_one() -> Workflow {
        let mut builder = Workflow::builder();
        for (name, work) in [("a", 1.0), ("b", 2.0), ("c", 5.0)] {
            builder.task(name, work, 1);
        }
        builder.edge(0, 1, 4);
        builder.build().unwrap()
    }

    #[test]
    fn critical_path_includes_files_and_busy_processors() {
        let graph = pair_and_one();
        let processors = vec![Processor::new("p", 1.0, 10), Processor::new("q", 1.0, 10)];
        let cluster = Cluster::new(processors, 1.0).unwrap();
        let plan_of = |processor_of: &[usize], sequence: &[usize]| {
            let mut timeline = Timeline::new(&graph, &cluster, rules(TaskMemory::Additive));
            place_as_assigned(&mut timeline, sequence, processor_of).unwrap();
            timeline.into_plan()
        };
        // Task 1 is on another processor than task 0, and waits for the file of task 0 until 5 s.
        assert_eq!(critical_path(&graph, &plan_of(&[0, 1, 0], &[0, 1, 2])), [1, 0]);
        // Task 1 is on the same processor as task 2, and waits for its end at 6 s.
        assert_eq!(critical_path(&graph, &plan_of(&[0, 0, 0], &[0, 2, 1])), [1, 2, 0]);
    }

    #[test]
    fn bad_order_is_improved_for_any_thread_count() {
        let graph = pair_and_one();
        let processors = vec![Processor::new("p", 1.0, 10), Processor::new("slow", 0.5, 10)];
        let cluster = Cluster::new(processors, 1.0).unwrap();
        // In the start plan the long task comes last: the first processor runs tasks 0 and 1 until 3 s, and task 2 until 8 s.
        let start = heftm_in_order(&graph, &cluster, &[0, 1, 2], TaskMemory::Additive).unwrap();
        assert_eq!(start.makespan, 8.0);
        let improve = |threads, evaluations| {
            let options = PlanOptions { threads, evaluations, ..PlanOptions::default() };
            improve(&graph, &cluster, &start, start.makespan, &options, &|| false)
        };
        let plan = improve(1, 200).expect("there is a better one");
        // In the best plan the first processor runs only task 2 until 5 s, and the slow one runs tasks 0 and 1 until 6 s.
        assert_eq!(plan.makespan, 6.0);
        assert!(verify(&graph, &cluster, &plan).is_valid());
        assert_eq!(improve(3, 200), Some(plan));
        assert_eq!(improve(1, 0), None);
    }
}
