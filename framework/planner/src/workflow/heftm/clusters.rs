//! Clusters of tasks that stay on one processor, because sending the files between the tasks takes longer than other processors would save.
//!
//! The method is edge zeroing, as in Sarkar, *Partitioning and Scheduling Parallel Programs for Multiprocessors* (1989): edges are visited from the
//! largest file to the smallest, and the clusters at both ends of an edge are merged if a condition ([`Merge`]) permits it. The linear clustering of
//! Kim and Browne (1988) contracts critical paths only, so that the second of two inputs of a task must still be sent. Sarkar evaluates a merger by
//! the makespan of the whole graph, in quadratic time; this module evaluates it by the two clusters alone.

use std::cmp::Reverse;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::workflow::cluster::Cluster;
use crate::workflow::graph::Workflow;
use crate::workflow::situation::{Progress, Situation};
use crate::workflow::timeline::{Moment, Timeline};

/// Condition for merging two clusters of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Merge {
    /// Two clusters of tasks are merged if the smaller one takes no longer than sending the file between them. The tasks of one cluster then wait for
    /// those of the other for at most the time that they would wait for the file.
    CheaperThanSending,
    /// Two clusters of tasks are merged if the result has at most a quarter of the work that each processor would get by an even division.
    UpToAQuarter,
    /// Two clusters of tasks are merged if the result has at most the work that each processor would get by an even division.
    UpToAShare,
}

impl Merge {
    pub(in crate::workflow) const ALL: [Merge; 3] =
        [Merge::CheaperThanSending, Merge::UpToAQuarter, Merge::UpToAShare];
}

impl fmt::Display for Merge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Merge::CheaperThanSending => "along expensive files",
            Merge::UpToAQuarter => "of a quarter of a share",
            Merge::UpToAShare => "of a share",
        })
    }
}

/// Returns for each task the cluster of tasks to which it belongs, identified by the number of one task of the cluster. Returns `None` if each task
/// is alone in its cluster.
pub(in crate::workflow) fn clusters(graph: &Workflow, cluster: &Cluster, merge: Merge) -> Option<Vec<usize>> {
    let count = cluster.len() as f64;
    let speed = cluster.processors().iter().map(|processor| processor.speed).sum::<f64>() / count;
    let all: f64 = (0..graph.len()).map(|task| graph.work(task)).sum();
    let mut edges: Vec<usize> =
        (0..graph.edges().len()).filter(|&edge| graph.edges()[edge].size > 0).collect();
    edges.sort_by_key(|&edge| (Reverse(graph.edges()[edge].size), edge));
    let mut parent: Vec<usize> = (0..graph.len()).collect();
    let mut work: Vec<f64> = (0..graph.len()).map(|task| graph.work(task)).collect();
    for edge in edges.into_iter().map(|edge| graph.edges()[edge]) {
        let (a, b) = (root(&mut parent, edge.from), root(&mut parent, edge.to));
        let is_gain = match merge {
            Merge::CheaperThanSending => {
                work[a].min(work[b]) / speed <= edge.size as f64 / cluster.default_bandwidth()
            }
            Merge::UpToAQuarter => work[a] + work[b] <= all / count / 4.0,
            Merge::UpToAShare => work[a] + work[b] <= all / count,
        };
        if a != b && is_gain {
            parent[b] = a;
            work[a] += work[b];
        }
    }
    let of: Vec<usize> = (0..graph.len()).map(|task| root(&mut parent, task)).collect();
    of.iter().enumerate().any(|(task, &of)| task != of).then_some(of)
}

fn root(parent: &mut [usize], mut task: usize) -> usize {
    while parent[task] != task {
        parent[task] = parent[parent[task]];
        task = parent[task];
    }
    task
}

/// Homes of clusters of tasks: the processors on which the tasks of each cluster should run.
pub(in crate::workflow) struct Homes {
    cluster_of: Vec<usize>,
    /// For each cluster of tasks, the processor on which its first task was placed. The field `rest` is the work of the cluster's tasks that are not
    /// placed.
    home: Vec<Option<usize>>,
    rest: Vec<f64>,
    /// For each processor, the work of the unplaced tasks in all clusters of tasks that have this processor as home.
    promised: Vec<f64>,
}

impl Homes {
    pub(in crate::workflow) fn new(graph: &Workflow, cluster: &Cluster, cluster_of: &[usize]) -> Self {
        let mut rest = vec![0.0; graph.len()];
        for (task, &of) in cluster_of.iter().enumerate() {
            rest[of] += graph.work(task);
        }
        Homes {
            cluster_of: cluster_of.to_vec(),
            home: vec![None; graph.len()],
            rest,
            promised: vec![0.0; cluster.len()],
        }
    }

    /// Returns the homes (preferred processors) of clusters of tasks for a run that has started: the home of a cluster with a started task is the
    /// processor of that task.
    pub(in crate::workflow) fn resume(
        graph: &Workflow,
        cluster: &Cluster,
        cluster_of: &[usize],
        situation: &Situation,
    ) -> Self {
        let mut homes = Homes::new(graph, cluster, cluster_of);
        for task in 0..graph.len() {
            if let Progress::Started { processor, .. } = situation.progress(task)
                && !situation.is_lost(processor)
            {
                homes.placed(task, graph.work(task), processor);
            }
        }
        homes
    }

    /// Returns clusters of tasks with given homes: all tasks that `processor_of` assigns to a processor are one cluster, which has this processor as
    /// home.
    pub(in crate::workflow) fn fixed(graph: &Workflow, cluster: &Cluster, processor_of: &[usize]) -> Self {
        let mut first = vec![None; cluster.len()];
        let cluster_of: Vec<usize> =
            processor_of.iter().enumerate().map(|(task, &p)| *first[p].get_or_insert(task)).collect();
        let mut homes = Homes::new(graph, cluster, &cluster_of);
        for (p, of) in first.into_iter().enumerate() {
            let Some(of) = of else { continue };
            (homes.home[of], homes.promised[p]) = (Some(p), homes.rest[of]);
        }
        homes
    }

    /// Returns the processor for a task: the home (preferred processor) of its cluster. If the cluster has no home yet or the task does not fit
    /// there, returns the processor on which the unplaced tasks of the cluster would end first. The unplaced tasks of other clusters with this home
    /// are assumed to run before them.
    pub(super) fn processor(
        &self,
        timeline: &mut Timeline<'_>,
        cluster: &Cluster,
        task: usize,
        inputs: &[usize],
    ) -> Option<usize> {
        let of = self.cluster_of[task];
        let home = self.home[of];
        if home.is_some_and(|p| timeline.try_on(task, p, inputs, f64::INFINITY).is_some()) {
            return home;
        }
        let mut best: Option<(Moment, usize)> = None;
        for (p, processor) in cluster.processors().iter().enumerate() {
            let alone = timeline.run_time(task, p);
            let after = (self.promised[p] + self.rest[of]) / processor.speed - alone;
            let no_later = best.map_or(f64::INFINITY, |(end, _)| end.0 - after);
            let Some(outcome) = timeline.try_on(task, p, inputs, no_later) else { continue };
            let end = Moment(outcome.finish + after);
            if best.is_none_or(|(other, _)| end < other) {
                best = Some((end, p));
            }
        }
        best.map(|(_, p)| p)
    }

    /// Records that a task was placed on processor `p`, which becomes the home of its cluster if the cluster has none.
    pub(super) fn placed(&mut self, task: usize, work: f64, p: usize) {
        let of = self.cluster_of[task];
        match self.home[of] {
            Some(home) => self.promised[home] -= work,
            None => {
                self.home[of] = Some(p);
                self.promised[p] += self.rest[of] - work;
            }
        }
        self.rest[of] -= work;
    }
}
