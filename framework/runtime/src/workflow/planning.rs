//! Requests to the planner on rank 0 of a workflow: for a plan before the run, and for new plans during it.

use std::sync::Arc;
use std::time::Duration;

use armature_planner::Result;
use armature_planner::workflow::{
    Cluster, FilePlace, Plan, PlanOptions, Replanned, Situation, Workflow as Dag, plan, plan_rest, replan,
    retrace,
};

use armature_text::shown;

use super::forecast::Weights;
use crate::balance::affordable;
use crate::balance::probe::Probed;

/// Minimum gain for which a new plan replaces the current one, as a fraction of the remaining time of the run. Smaller gains are within the
/// variation of run times.
const WORTH: f64 = 0.01;

/// Maximum factor by which the bandwidths of links may differ from their mean if all links are to count as equal: repeated measurements of one link
/// differ by as much.
const ALIKE: f64 = 1.5;

/// Ranks as the planner models them: once without disks, and once with disks for spilled values. The speed of the disks is not known, so a plan that
/// uses them is computed only if there is no plan without them.
#[derive(Clone, Debug)]
pub(super) struct Clusters {
    /// Ranks without disks: all values have to fit into memory.
    pub(super) in_memory: Cluster,
    /// Ranks with disks of unlimited size, to which values can be moved from memory.
    pub(super) with_disk: Cluster,
}

impl Clusters {
    /// Returns the ranks with their measured speeds and links.
    ///
    /// # Errors
    /// The measurements are invalid.
    pub(super) fn probed(&self, probed: &Probed) -> Result<Self> {
        let speeds = probed.speeds();
        let measured = |cluster: &Cluster| {
            let disk = cluster.disk();
            let cluster = Cluster::new(cluster.processors().to_vec(), bandwidth(probed))?.with_disk(disk)?;
            with_links(cluster.with_speeds(&speeds)?, probed)
        };
        Ok(Clusters { in_memory: measured(&self.in_memory)?, with_disk: measured(&self.with_disk)? })
    }

    fn first<T>(&self, request: impl Fn(&Cluster) -> Result<T>) -> Result<T> {
        request(&self.in_memory).or_else(|_| request(&self.with_disk))
    }
}

/// Returns the bandwidth in bytes per second for links whose own bandwidth is not set: the geometric mean of the measured links to rank 0.
fn bandwidth(probed: &Probed) -> f64 {
    let ranks = probed.platform.processors();
    let logarithms = (1..ranks).map(|rank| probed.platform.link(0, rank).bandwidth.ln());
    (logarithms.sum::<f64>() / (ranks.max(2) - 1) as f64).exp()
}

fn with_links(mut cluster: Cluster, probed: &Probed) -> Result<Cluster> {
    let (ranks, mean) = (cluster.len(), cluster.default_bandwidth());
    let pairs =
        || (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)).filter(|(from, to)| from != to));
    let bandwidth = |(from, to)| probed.platform.link(from, to).bandwidth;
    let is_alike = |pair| (ALIKE.recip()..=ALIKE).contains(&(bandwidth(pair) / mean));
    if pairs().all(is_alike) {
        return Ok(cluster);
    }
    for (from, to) in pairs() {
        cluster = cluster.with_link(from, to, bandwidth((from, to)))?;
    }
    Ok(cluster)
}

/// Number of schedules that are computed to find a new plan during a run: the current plan, three list schedules and three clustered list schedules.
pub(super) const PLANS: u32 = 7;

/// Maximum number of placements (choices of a rank for a task) in planning before a run, unless the program sets the planner's options. No task runs
/// meanwhile, and a placement takes some microseconds, so a run waits a few seconds for its plan at most. A list schedule needs one placement per
/// task.
pub(super) const PLACEMENTS: usize = 300_000;

/// Time of a placement on few ranks in seconds. Measured on 2 and 8 ranks, with 200 to 20,000 tasks: 1.2 to 1.5 µs. If it is too small, planning delays
/// short runs.
const PLACEMENT: f64 = 1.3e-6;

/// Number of ranks with which a placement takes twice [`PLACEMENT`]; the time grows linearly. Measured: 2 µs on 64 ranks, 16 µs on 1,000.
const RANKS_OF_PLACEMENT: f64 = 90.0;

/// Returns the number of plans that local search may evaluate before a run, so that it takes about the share of the run that balancing may take. The
/// length of the run is the work of all tasks, divided by the number of ranks.
pub(super) fn affordable_evaluations(dag: &Dag, ranks: usize) -> usize {
    let work: f64 = (0..dag.len()).map(|task| dag.work(task)).sum();
    let time = Duration::try_from_secs_f64(work / ranks as f64).unwrap_or(Duration::MAX);
    let evaluation = dag.len() as f64 * PLACEMENT * (1.0 + ranks as f64 / RANKS_OF_PLACEMENT);
    (affordable(time).as_secs_f64() / evaluation) as usize
}

/// Number of list schedules whose computation takes as long as that of all planners together, local search excluded.
const LISTS: usize = 20;

/// Name of the planner that is used if there are too many tasks for the other planners.
pub(super) const QUICK: &str = "relaxed HEFTM";

pub(super) type Found = (Plan, String);

#[derive(Debug)]
pub(super) struct Question {
    pub(super) clusters: Clusters,
    pub(super) options: PlanOptions,
    /// Maximum number of placements: choices of a rank for a task.
    pub(super) placements: usize,
}

impl Question {
    /// Makes the planner assume the measured speeds and links. If the planner refuses them, it assumes that all ranks are equally fast.
    pub(super) fn use_probed(&mut self, probed: &Probed, workflow: &str) {
        match self.clusters.probed(probed) {
            Ok(clusters) => self.clusters = clusters,
            Err(error) => {
                log::warn!("workflow {}: all ranks are assumed to be equally fast: {error}", shown(workflow))
            }
        }
    }

    /// Returns the best plan of all planners. Local search then uses the rest of the maximum number of placements. If there are too many tasks for
    /// all planners, only the fast planner runs, which also computes plans during a run.
    ///
    /// # Errors
    /// There is no plan.
    pub(super) fn answer(&self, dag: &Dag) -> Result<Found> {
        let lists = self.placements / dag.len().max(1);
        let Some(evaluations) = lists.checked_sub(LISTS) else {
            let quick = |cluster: &Cluster| {
                plan_rest(dag, cluster, &Situation::new(dag, cluster), self.options.memory.task_memory)
            };
            return self.clusters.first(quick).map(|plan| (plan, QUICK.to_string()));
        };
        let mut options = self.options.clone();
        options.evaluations = options.evaluations.min(evaluations);
        let best = self.clusters.first(|cluster| plan(dag, cluster, &options))?;
        Ok((best.plan, best.planner.to_string()))
    }

    /// Computes one schedule, so that the caller can measure how long planning takes during a run: [`PLANS`] times as long.
    pub(super) fn rehearse(&self, dag: &Dag, found: &Result<Found>) {
        let cluster = &self.clusters.with_disk;
        if let Ok((plan, _)) = found {
            let _ = retrace(dag, cluster, plan, &Situation::new(dag, cluster));
        }
    }
}

/// Progress of a task in the workflow, for a new plan during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskProgress {
    /// The task is neither dispatched nor done, so the plan assigns it to a rank.
    Waiting,
    /// The task is dispatched to this rank, which may have begun it.
    Dispatched(usize),
    /// The task has ended; its value, if there is one, is on this rank.
    Ended(usize),
}

/// Request for a new plan during the run, for the tasks that are neither dispatched nor done.
#[derive(Debug)]
pub(super) struct ReplanQuestion {
    pub(super) clusters: Arc<Clusters>,
    /// By rank: speed, as corrected by measurements.
    pub(super) speeds: Vec<f64>,
    pub(super) lost: Vec<usize>,
    pub(super) weights: Weights,
    pub(super) progress: Vec<TaskProgress>,
    pub(super) plan: Arc<Plan>,
    /// Expected time in seconds until the planner has computed the plan.
    pub(super) takes: f64,
}

impl ReplanQuestion {
    /// Returns a plan for the waiting tasks, with times from now on: a new plan if it ends sufficiently earlier or if the current plan does not fit
    /// into memory any more, and otherwise the current plan.
    ///
    /// # Errors
    /// There is no plan.
    pub(super) fn answer(&self, dag: &Dag) -> Result<Replanned> {
        let Weights { works, memories, sizes } = &self.weights;
        let measured = works.iter().zip(memories).enumerate();
        let measured = measured.map(|(task, (&work, &memory))| (task, work, memory));
        let dag = dag.clone().with_measured(measured)?.with_output_sizes(sizes.iter().copied())?;
        self.clusters.first(|cluster| {
            let cluster = cluster.clone().with_speeds(&self.speeds)?;
            let situation = self.situation(&dag, &cluster);
            let worth = self.takes + WORTH * self.least(&dag);
            replan(&dag, &cluster, &self.plan, &situation, worth)
        })
    }

    /// Returns a lower bound of the remaining time of the run in seconds: the run times of all waiting tasks, shared by all living ranks.
    fn least(&self, dag: &Dag) -> f64 {
        let waits = |task: &usize| self.progress[*task] == TaskProgress::Waiting;
        let work: f64 = (0..dag.len()).filter(waits).map(|task| dag.work(task)).sum();
        let alive = (0..self.speeds.len()).filter(|rank| !self.lost.contains(rank));
        work / alive.map(|rank| self.speeds[rank]).sum::<f64>()
    }

    /// Returns the state of the run for the planner. It assumes that a rank runs the tasks dispatched to it one after the other from now on.
    fn situation(&self, dag: &Dag, cluster: &Cluster) -> Situation {
        let mut situation = Situation::new(dag, cluster);
        self.lost.iter().for_each(|&rank| situation.lose(dag, rank));
        let mut free = vec![0.0_f64; cluster.len()];
        let mut end = vec![0.0_f64; dag.len()];
        for &task in dag.topological_order() {
            match self.progress[task] {
                TaskProgress::Waiting => {}
                TaskProgress::Ended(rank) => situation.started(dag, task, rank, 0.0, 0.0),
                TaskProgress::Dispatched(rank) => {
                    let start = dag.inputs(task).map(|edge| end[edge.from]).fold(free[rank], f64::max);
                    end[task] = start + dag.work(task) / cluster.processors()[rank].speed;
                    free[rank] = end[task];
                    situation.started(dag, task, rank, start, end[task]);
                }
            }
        }
        spill(dag, cluster, &mut situation);
        situation
    }
}

/// Moves, in the planner's model, the largest files of each rank to its disk until the others fit into its memory. The files may not fit because a
/// plan counts a value once for each task that reads it, while a rank has one copy for all these tasks.
fn spill(dag: &Dag, cluster: &Cluster, situation: &mut Situation) {
    let mut held = vec![Vec::new(); cluster.len()];
    for (number, edge) in dag.edges().iter().enumerate() {
        if let FilePlace::Memory(rank) = situation.file(number) {
            held[rank].push((edge.size, number));
        }
    }
    for (rank, mut files) in held.into_iter().enumerate() {
        files.sort_unstable();
        let mut bytes: u64 = files.iter().map(|&(size, _)| size).sum();
        while bytes > cluster.processors()[rank].memory
            && let Some((size, number)) = files.pop()
        {
            bytes -= size;
            situation.set_place(number, FilePlace::Buffer(rank));
        }
    }
}

#[cfg(test)]
mod tests {
    use armature_planner::workflow::Processor;
    use armature_planner::{Link, Platform};

    use super::*;

    #[test]
    fn very_many_tasks_are_planned_by_a_quick_planner() {
        let cluster =
            |disk| Cluster::new(vec![Processor::new("rank", 1.0, 100).with_buffer(disk); 3], 1.0).unwrap();
        let mut dag = Dag::builder();
        let tasks: Vec<usize> = (0..50).map(|task| dag.task(task.to_string(), 1.0, 1)).collect();
        tasks.windows(9).for_each(|some| dag.edge(some[0], some[8], 1));
        let dag = dag.build().unwrap();
        let planned = |placements| {
            let clusters = Clusters { in_memory: cluster(0), with_disk: cluster(7) };
            Question { clusters, options: PlanOptions::default(), placements }.answer(&dag).unwrap()
        };
        let (quick, planner) = planned(50 * LISTS - 1);
        assert_eq!(planner, QUICK);
        let (best, planner) = planned(usize::MAX);
        assert_ne!(planner, QUICK);
        assert!(best.makespan <= quick.makespan);
        // With this number of tasks, all planners together would need more than [`PLACEMENTS`] placements, so the quick planner is used.
        let mut dag = Dag::builder();
        let tasks: Vec<usize> =
            (0..PLACEMENTS / LISTS + 1).map(|task| dag.task(task.to_string(), 1.0, 1)).collect();
        tasks.windows(9).for_each(|some| dag.edge(some[0], some[8], 1));
        let clusters = Clusters { in_memory: cluster(0), with_disk: cluster(7) };
        let question = Question { clusters, options: PlanOptions::default(), placements: PLACEMENTS };
        assert_eq!(question.answer(&dag.build().unwrap()).unwrap().1, QUICK);
    }

    #[test]
    fn local_search_is_limited_in_short_runs() {
        let evaluations = |run_time, tasks, ranks| {
            let mut dag = Dag::builder();
            for task in 0..tasks {
                dag.task(format!("{task}"), run_time, 1);
            }
            affordable_evaluations(&dag.build().unwrap(), ranks)
        };
        assert_eq!(evaluations(1e-4, 400, 2), 0);
        // One per cent of 10 s is 0.1 s. A plan of 200 tasks takes 0.27 ms on two ranks and 0.52 ms on 90.
        assert_eq!(evaluations(0.1, 200, 2), 376);
        assert_eq!(evaluations(4.5, 200, 90), 192);
        assert!(evaluations(1e50, 1, 1) > 1_000_000);
    }

    #[test]
    fn planner_uses_probed_speeds_and_links() {
        let cluster = |disk| {
            let processor = Processor::new("rank", 1.0, 100).with_buffer(disk);
            Cluster::new(vec![processor; 3], 1.0).unwrap()
        };
        let clusters = Clusters { in_memory: cluster(0), with_disk: cluster(7) };
        let probed = |bandwidth: f64| {
            let mut platform =
                Platform::with_speeds(&[4.0, 2.0, 4.0], Link { bandwidth: 1e8, setup: 0.0 }).unwrap();
            for (from, to) in [(0, 2), (2, 0), (1, 2), (2, 1)] {
                platform.set_link(from, to, Link { bandwidth, setup: 0.0 }).unwrap();
            }
            clusters.probed(&Probed { platform, shares: vec![1.0, 1.0, 0.5] }).unwrap()
        };
        let Clusters { in_memory, with_disk } = probed(1.2e8);
        let speeds: Vec<f64> = in_memory.processors().iter().map(|processor| processor.speed).collect();
        assert_eq!(speeds, [1.0, 0.5, 0.5]);
        assert_eq!([&in_memory, &with_disk].map(|cluster| cluster.processors()[1].buffer), [0, 7]);
        // The measured links differ by less than the factor up to which links count as equal, so all ranks have the same bandwidth.
        assert_eq!(in_memory.bandwidth(0, 2), in_memory.bandwidth(1, 0));
        let unequal = probed(1e6).with_disk;
        let [near, far] = [(0, 1), (1, 2)].map(|(from, to)| unequal.bandwidth(from, to));
        assert!((near - 1e8).abs() < 1.0 && (far - 1e6).abs() < 1.0, "{near} {far}");
        assert!((unequal.default_bandwidth() - 1e7).abs() < 1.0, "{}", unequal.default_bandwidth());
    }
}
