//! Workflow on simulated hosts that correspond to the processors of the cluster for which the workflow was planned.

use std::{fs, path::Path, time::Duration};

use armature_bench_simulated::workflows::Job;
use armature_planner::workflow::{Cluster, Plan, Workflow};

use crate::{
    RunResult, platforms,
    ranks::{finish, one, simulation},
};

/// Operations in the simulator for one unit of a task's work in the plan.
const OPERATIONS: f64 = 1e9;
const PROGRAM: &str = "armature-bench-simulated-workflow";
const LIMIT: Duration = Duration::from_secs(600);

/// Scale of the simulated run relative to the plan.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Simulated seconds per second of the plan.
    pub seconds: f64,
    /// Simulated bytes per unit of file size in the plan.
    pub bytes: f64,
}

/// Parameters of a simulated workflow.
#[derive(Clone, Copy, Debug)]
pub struct Simulated<'a> {
    /// Tasks and files of the workflow; work and sizes are in the units of the plan.
    pub workflow: &'a Workflow,
    /// Processors for which the workflow was planned; speeds and bandwidths are in the units of the plan. Each pair
    /// of hosts has its own channel in each direction.
    pub cluster: &'a Cluster,
    /// Plan that the ranks follow.
    pub plan: &'a Plan,
    /// Scale from the units of the plan to those of the simulation.
    pub scale: Scale,
}

/// Results of a run, in the units of the plan.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Duration of the simulated run, converted to the plan's time scale.
    pub seconds: f64,
    /// Size of the data that ranks sent to each other, in the plan's unit of file sizes.
    pub sent: f64,
    /// Size of the data that ranks wrote to disk, in the plan's unit of file sizes.
    pub spilled: f64,
}

impl Simulated<'_> {
    /// Simulates the workflow; the descriptions of the hosts and of the workflow are written to `folder`.
    ///
    /// # Errors
    /// If the simulator or the program built for it does not exist, the simulation fails or takes too long, or a task
    /// ran elsewhere than planned.
    pub fn run(&self, folder: &Path) -> RunResult<Run> {
        let Simulated { cluster, scale, .. } = *self;
        fs::create_dir_all(folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
        let file = |name: &str| folder.join(name);
        let speeds: Vec<f64> =
            cluster.processors().iter().map(|p| p.speed * OPERATIONS / scale.seconds).collect();
        let bandwidth = |from, to| cluster.bandwidth(from, to) * scale.bytes / scale.seconds;
        fs::write(file("cluster.xml"), platforms::channels(&speeds, bandwidth))?;
        fs::write(file("job.json"), serde_json::to_vec(&self.job())?)?;
        let mut command = simulation(speeds.len(), LIMIT);
        command.arg("--platform").arg(file("cluster.xml")).args(platforms::Cluster::NETWORK);
        command.args([PROGRAM, &format!("job={}", file("job.json").display())]);
        let values = one(&finish(command, LIMIT)?)?;
        let value = |name: &str| {
            values.get(name).copied().ok_or_else(|| format!("the simulated workflow printed no {name}"))
        };
        if value("misplaced")? > 0.0 {
            return Err(format!("{} tasks ran elsewhere than planned", value("misplaced")?).into());
        }
        Ok(Run {
            seconds: value("seconds")? / scale.seconds,
            sent: value("sent")? / scale.bytes,
            spilled: value("spilled")? / scale.bytes,
        })
    }

    fn job(&self) -> Job {
        let Simulated { workflow, cluster, plan, scale } = *self;
        let bytes = |size: u64| (size as f64 * scale.bytes) as u64;
        let tasks = 0..workflow.len();
        Job {
            work: tasks.clone().map(|task| workflow.work(task) * OPERATIONS).collect(),
            memory: tasks.map(|task| bytes(workflow.memory(task))).collect(),
            edges: workflow.edges().iter().map(|edge| (edge.from, edge.to, bytes(edge.size))).collect(),
            task_memory: plan.task_memory,
            ranks: cluster.processors().iter().map(|processor| bytes(processor.memory)).collect(),
            plan: plan.clone(),
        }
    }
}
