//! Orders in which a list scheduler places the tasks of a workflow.

use serde::{Deserialize, Serialize};

use crate::workflow::cluster::Cluster;
use crate::workflow::graph::Workflow;

/// Definition of the level of a task: the time of the task and of the tasks that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Length of the longest path from the start of the task to an end of the workflow, including transfers (BL in the paper of Kulagina et al.).
    Bottom,
    /// Like [`Bottom`](Level::Bottom), plus the transfer of the largest file that each task on the path reads, so that tasks which free large files
    /// come first (BLC in the paper of Kulagina et al.).
    BottomWithInputs,
}

/// Returns the level of each task, in seconds on a processor of mean speed with the default bandwidth.
pub(in crate::workflow) fn levels(graph: &Workflow, cluster: &Cluster, level: Level) -> Vec<f64> {
    let count = cluster.len() as f64;
    let speed = cluster.processors().iter().map(|processor| processor.speed).sum::<f64>() / count;
    let travel = |size: u64| size as f64 / cluster.default_bandwidth();
    let mut levels = vec![0.0; graph.len()];
    for &task in graph.topological_order().iter().rev() {
        let after =
            graph.outputs(task).iter().map(|edge| travel(edge.size) + levels[edge.to]).fold(0.0, f64::max);
        let before = match level {
            Level::Bottom => 0.0,
            Level::BottomWithInputs => graph.inputs(task).map(|edge| travel(edge.size)).fold(0.0, f64::max),
        };
        levels[task] = graph.work(task) / speed + after + before;
    }
    levels
}

/// Returns all tasks by decreasing level. Tasks with equal levels are in topological order, because two tasks with an edge between them can have
/// equal levels if the first one has no work.
pub(in crate::workflow) fn order(graph: &Workflow, cluster: &Cluster, level: Level) -> Vec<usize> {
    let levels = levels(graph, cluster, level);
    let mut place = vec![0; graph.len()];
    for (number, &task) in graph.topological_order().iter().enumerate() {
        place[task] = number;
    }
    let mut order: Vec<usize> = (0..graph.len()).collect();
    order.sort_by(|&a, &b| levels[b].total_cmp(&levels[a]).then(place[a].cmp(&place[b])));
    order
}

/// Returns an order of tasks between two orders, in which the first has the weight `part`, from 0 to 1, and the second the rest. If each task comes
/// after those from which it reads in both orders, this is also true for the result.
pub(in crate::workflow) fn blended(first: &[usize], second: &[usize], part: f64) -> Vec<usize> {
    let mut key = vec![0.0; first.len()];
    for (place, &task) in first.iter().enumerate() {
        key[task] += part * place as f64;
    }
    for (place, &task) in second.iter().enumerate() {
        key[task] += (1.0 - part) * place as f64;
    }
    let mut order = second.to_vec();
    order.sort_by(|&a: &usize, &b| key[a].total_cmp(&key[b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::cluster::Processor;

    /// Returns a workflow of the shape of a diamond: task 0 writes files of sizes 4 and 1 for tasks 1 and 2, each of which writes a file of size 2
    /// for task 3.
    fn diamond() -> Workflow {
        let mut builder = Workflow::builder();
        for (name, work) in [("a", 2.0), ("b", 3.0), ("c", 8.0), ("d", 1.0)] {
            builder.task(name, work, 1);
        }
        for (from, to, size) in [(0, 1, 4), (0, 2, 1), (1, 3, 2), (2, 3, 2)] {
            builder.edge(from, to, size);
        }
        builder.build().unwrap()
    }

    #[test]
    fn levels_match_hand_computed_values() {
        let cluster = Cluster::new(vec![Processor::new("p", 1.0, 10); 2], 2.0).unwrap();
        assert_eq!(levels(&diamond(), &cluster, Level::Bottom), [12.5, 5.0, 10.0, 1.0]);
        // Levels with inputs, at a bandwidth of 2. Task d: work 1 + input 1 = 2. Task b: work 3 + transfer 1 + level of d 2 + input 2 = 8. Task c:
        // work 8 + transfer 1 + level of d 2 + input ½ = 11½. Task a: work 2 + the larger of 2 + 8 and ½ + 11½ (transfer + level of b or c).
        assert_eq!(levels(&diamond(), &cluster, Level::BottomWithInputs), [14.0, 8.0, 11.5, 2.0]);
        assert_eq!(order(&diamond(), &cluster, Level::Bottom), [0, 2, 1, 3]);
    }

    #[test]
    fn blended_order_interpolates_two_orders() {
        let (first, second) = ([0, 1, 2, 3], [3, 2, 1, 0]);
        assert_eq!(blended(&first, &second, 1.0), first);
        assert_eq!(blended(&first, &second, 0.0), second);
        assert_eq!(blended(&first, &second, 0.5), second);
        assert_eq!(blended(&[0, 1, 2, 3], &[1, 0, 2, 3], 0.25), [1, 0, 2, 3]);
    }

    #[test]
    fn tasks_without_work_follow_their_parents() {
        let mut builder = Workflow::builder();
        for name in ["last", "first", "middle"] {
            builder.task(name, 0.0, 0);
        }
        builder.edge(1, 2, 0);
        builder.edge(2, 0, 0);
        let graph = builder.build().unwrap();
        let cluster = Cluster::new(vec![Processor::new("p", 1.0, 10)], 1.0).unwrap();
        assert_eq!(order(&graph, &cluster, Level::Bottom), [1, 2, 0]);
    }
}
