//! Workflow plan from blocks of tasks on processors.

use armature_planner::workflow::{Cluster, Execution, MemoryModel, Plan, Traversal, Workflow};

/// Block of tasks on a processor, in the order in which the processor runs them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placed {
    pub(super) processor: usize,
    pub(super) traversal: Traversal,
}

/// Returns the plan for blocks of tasks on different processors. The dependencies of the blocks must be acyclic.
pub(super) fn plan(graph: &Workflow, cluster: &Cluster, model: MemoryModel, blocks: &[Placed]) -> Plan {
    let execution = Execution::Blocks { crossing: model.crossing };
    let mut plan = Plan::empty(execution, model.task_memory, graph.len(), cluster.len());
    for Placed { processor, traversal } in blocks {
        for &task in &traversal.order {
            plan.processor_of[task] = *processor;
        }
        plan.orders[*processor].clone_from(&traversal.order);
        plan.peak[*processor] = traversal.peak;
    }
    time(graph, cluster, &mut plan);
    plan
}

/// Computes the start and the end of all tasks. A block of tasks begins when the files from all other blocks have
/// arrived.
fn time(graph: &Workflow, cluster: &Cluster, plan: &mut Plan) {
    let other = |plan: &Plan, edge: &armature_planner::workflow::Edge| {
        let (from, to) = (plan.processor_of[edge.from], plan.processor_of[edge.to]);
        (from != to).then_some(to)
    };
    let mut missing = vec![0; cluster.len()];
    for to in graph.edges().iter().filter_map(|edge| other(plan, edge)) {
        missing[to] += 1;
    }
    let mut begin = vec![0.0_f64; cluster.len()];
    let mut ready: Vec<usize> = (0..cluster.len()).filter(|&p| missing[p] == 0).collect();
    while let Some(p) = ready.pop() {
        plan.sequence.extend_from_slice(&plan.orders[p]);
        let mut now = begin[p];
        let mut sent = std::collections::BTreeMap::<usize, (usize, u64)>::new();
        for &task in &plan.orders[p] {
            plan.start[task] = now;
            now += graph.work(task) / cluster.processors()[p].speed;
            plan.finish[task] = now;
            for edge in graph.outputs(task) {
                if let Some(to) = other(plan, edge) {
                    let (files, size) = sent.entry(to).or_default();
                    (*files, *size) = (*files + 1, *size + edge.size);
                }
            }
        }
        plan.makespan = plan.makespan.max(now);
        for (to, (files, size)) in sent {
            begin[to] = begin[to].max(now + cluster.transfer_time(p, to, size));
            missing[to] -= files;
            if missing[to] == 0 {
                ready.push(to);
            }
        }
    }
}
