//! Choice of the processor on which a task of a workflow ends first.

use std::cmp::Reverse;

use crate::error::{Error, ErrorKind, Result};
use crate::workflow::cluster::Cluster;
use crate::workflow::graph::Workflow;
use crate::workflow::timeline::{Moment, PlacementResult, Timeline};

/// Places tasks one after the other, each on the processor where it ends first. Among processors with equal ends the one with more memory left is
/// preferred, and then the one with the smaller number.
pub(super) fn place_all(
    timeline: &mut Timeline<'_>,
    graph: &Workflow,
    cluster: &Cluster,
    order: &[usize],
) -> Result<()> {
    for &task in order {
        let inputs = timeline.inputs(task);
        let best = best_processor(timeline, cluster, task, &inputs);
        if best.and_then(|p| timeline.place(task, p, &inputs)).is_none() {
            return Err(fits_nowhere(graph, cluster, task));
        }
    }
    Ok(())
}

pub(super) fn best_processor(
    timeline: &mut Timeline<'_>,
    cluster: &Cluster,
    task: usize,
    inputs: &[usize],
) -> Option<usize> {
    let mut best: Option<(usize, PlacementResult)> = None;
    for p in 0..cluster.len() {
        let no_later = best.map_or(f64::INFINITY, |(_, result)| result.finish);
        if let Some(result) = timeline.try_on(task, p, inputs, no_later) {
            let key = |result: PlacementResult| (Moment(result.finish), Reverse(result.memory_left));
            if best.is_none_or(|(_, other)| key(result) < key(other)) {
                best = Some((p, result));
            }
        }
    }
    best.map(|(p, _)| p)
}

pub(super) fn fits_nowhere(graph: &Workflow, cluster: &Cluster, task: usize) -> Error {
    let message = format!(
        "task {:?} fits no processor at its turn: it has {}; the largest of {} processors has {}, part of which may be taken \
         by files that wait",
        graph.name(task),
        graph.needs(task),
        cluster.len(),
        cluster.largest_memory(),
    );
    Error::new(ErrorKind::Infeasible, message)
}
