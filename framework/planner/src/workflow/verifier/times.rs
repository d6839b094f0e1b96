//! Whether tasks and transfers of a plan of events can happen when it says.

use super::{Rule, Verdict, near};
use crate::workflow::cluster::Cluster;
use crate::workflow::graph::Workflow;
use crate::workflow::plan::Plan;

pub(super) fn check(graph: &Workflow, cluster: &Cluster, plan: &Plan, verdict: &mut Verdict) {
    verdict.makespan = plan.finish.iter().copied().fold(0.0, f64::max);
    check_tasks(graph, cluster, plan, verdict);
    check_transfers(graph, cluster, plan, verdict);
    check_channels(graph, plan, verdict);
}

/// Each task takes its time, after the one before it on its processor.
fn check_tasks(graph: &Workflow, cluster: &Cluster, plan: &Plan, verdict: &mut Verdict) {
    for (p, order) in plan.orders.iter().enumerate() {
        let mut free = 0.0;
        for &task in order {
            let (start, finish) = (plan.start[task], plan.finish[task]);
            let name = graph.name(task);
            let takes = graph.work(task) / cluster.processors()[p].speed;
            if !near(finish - start, takes, verdict.makespan) {
                let message =
                    format!("task {name:?} takes {takes} s, but is to run from {start} to {finish}");
                verdict.add(Rule::Time, message);
            }
            if start < free {
                let message =
                    format!("task {name:?} starts at {start}, but processor {p} is busy until {free}");
                verdict.add(Rule::Time, message);
            }
            free = finish;
        }
    }
}

/// Each file that changes processors is sent once, between the end of its writer and the start of its reader.
fn check_transfers(graph: &Workflow, cluster: &Cluster, plan: &Plan, verdict: &mut Verdict) {
    let mut sent = vec![None; graph.edges().len()];
    for transfer in &plan.transfers {
        if sent[transfer.edge].replace(transfer).is_some() {
            verdict.add(Rule::Transfer, format!("{} is sent more than once", file(graph, transfer.edge)));
        }
    }
    for (number, edge) in graph.edges().iter().enumerate() {
        let (from, to) = (plan.processor_of[edge.from], plan.processor_of[edge.to]);
        let (written, read) = (plan.finish[edge.from], plan.start[edge.to]);
        let name = || file(graph, number);
        let fault = match sent[number] {
            None if from != to => format!("{} is not sent from processor {from} to {to}", name()),
            Some(_) if from == to => format!("{} is sent, but stays on processor {from}", name()),
            None if read < written => {
                verdict.add(Rule::Order, format!("{} is read at {read}, but written at {written}", name()));
                continue;
            }
            None => continue,
            Some(transfer) => {
                let takes = cluster.transfer_time(from, to, edge.size);
                let (start, finish) = (transfer.start, transfer.finish);
                if start < written {
                    format!("{} is sent at {start}, but written at {written}", name())
                } else if read < finish {
                    format!("{} is read at {read}, but arrives at {finish}", name())
                } else if !near(finish - start, takes, verdict.makespan) {
                    format!("{} travels for {takes} s, but is sent from {start} to {finish}", name())
                } else {
                    continue;
                }
            }
        };
        verdict.add(Rule::Transfer, fault);
    }
}

/// A channel carries one file after the other.
fn check_channels(graph: &Workflow, plan: &Plan, verdict: &mut Verdict) {
    let channel = |edge: usize| {
        let edge = &graph.edges()[edge];
        (plan.processor_of[edge.from], plan.processor_of[edge.to])
    };
    let mut transfers: Vec<_> = plan.transfers.iter().collect();
    transfers.sort_by(|a, b| {
        let times = a.start.total_cmp(&b.start).then(a.finish.total_cmp(&b.finish));
        channel(a.edge).cmp(&channel(b.edge)).then(times)
    });
    for pair in transfers.windows(2) {
        if channel(pair[0].edge) == channel(pair[1].edge) && pair[1].start < pair[0].finish {
            let (from, to) = channel(pair[0].edge);
            let message = format!(
                "{} is sent from processor {from} to {to} at {}, but the channel is busy until {}",
                file(graph, pair[1].edge),
                pair[1].start,
                pair[0].finish
            );
            verdict.add(Rule::Transfer, message);
        }
    }
}

/// What messages call a file.
pub(super) fn file(graph: &Workflow, edge: usize) -> String {
    let edge = &graph.edges()[edge];
    format!("the file from {:?} to {:?}", graph.name(edge.from), graph.name(edge.to))
}
