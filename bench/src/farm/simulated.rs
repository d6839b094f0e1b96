//! Farm on simulated hosts: equal hosts around one switch, with one rank each. Rank 0 only distributes tasks.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use armature_planner::farm::{Chunking, IterationModel, MessageCosts, Protocol};

use super::tasks::TaskShape;
use crate::{
    RunResult,
    platforms::Cluster,
    ranks::{finish, one, simulation},
};

/// Operations per second of a host.
const SPEED: f64 = 1e9;
/// Size of a task, and size of its result, in bytes.
const BYTES: f64 = 8.0;
const PROGRAM: &str = "armature-bench-simulated";
const LIMIT: Duration = Duration::from_secs(900);

/// Bandwidth and message cost of the simulated network.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Bandwidth in bytes per second of each host's link to the switch, in each direction.
    pub bandwidth: f64,
    /// Seconds for which every message occupies its sender: `mo` in the model of Cesar et al. (2006).
    pub start_up: f64,
}

/// Parameters of a simulated farm.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    /// Bandwidth and message cost of the network between the hosts.
    pub network: Network,
    /// Distribution of the task times in seconds.
    pub shape: TaskShape,
    /// Seed of the task lengths.
    pub seed: u64,
    /// Number of iterations; each runs a new set of tasks after the previous set is done.
    pub iterations: usize,
    /// Number of ranks in addition to rank 0.
    pub workers: usize,
    /// Number of sub-masters: workers that distribute tasks to other workers instead of running tasks.
    pub sub_masters: usize,
    /// Chunking policy of the farm (rule for the number of tasks per message).
    pub chunking: Chunking,
}

/// Results of a simulated farm.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Seconds of the whole run, from its start to the last result.
    pub seconds: f64,
    /// Sum of the seconds of all tasks.
    pub work: f64,
    /// Seconds of the last iteration (set of tasks).
    pub last: f64,
    /// Number of chunks (groups of tasks sent in one message) that the master dispatched.
    pub chunks: usize,
}

impl Simulated {
    /// Simulates the farm; the description of the hosts is written to `folder`.
    ///
    /// # Errors
    /// If the simulator or the program built for it does not exist, or if the simulation fails or takes too long.
    pub fn run(&self, folder: &Path) -> RunResult<Run> {
        let values = self.simulate(folder, 0)?;
        let value = |name: &str| {
            values.get(name).copied().ok_or_else(|| format!("the simulated farm printed no {name}"))
        };
        let (seconds, work) = (value("seconds")?, value("operations")? / SPEED);
        Ok(Run { seconds, work, last: value("last")?, chunks: value("chunks")? as usize })
    }

    /// Simulates the farm with `start` initial workers; returns the number of workers at the end.
    ///
    /// # Errors
    /// Same as [`run`](Simulated::run).
    pub fn final_workers(&self, folder: &Path, start: usize) -> RunResult<usize> {
        let values = self.simulate(folder, start)?;
        Ok(*values.get("workers").ok_or("the simulated farm printed no workers")? as usize)
    }

    fn simulate(&self, folder: &Path, start: usize) -> RunResult<BTreeMap<String, f64>> {
        let Simulated { network, shape, seed, iterations, workers, sub_masters, chunking } = *self;
        let hosts = workers + 1;
        let cluster = Cluster { speeds: vec![SPEED; hosts], bandwidths: vec![network.bandwidth; hosts] };
        fs::create_dir_all(folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
        let platform = folder.join("cluster.xml");
        fs::write(&platform, cluster.xml())?;
        let mut command = simulation(hosts, LIMIT);
        command.arg("--platform").arg(platform);
        // The cost of a message is set as `smpi/ois`, SimGrid's parameter for asynchronous sends, because the framework uses them.
        command.args(Cluster::NETWORK).args(["--cfg", &format!("smpi/ois:0:{}:0", network.start_up)]);
        command.args([PROGRAM, &format!("tasks={}", shape.tasks), &format!("mean={}", SPEED * shape.mean)]);
        command.args([format!("deviation={}", shape.spread), format!("seed={seed}")]);
        command.args([format!("chunking={chunking}"), format!("iterations={iterations}")]);
        command.args([format!("workers={start}"), format!("sub-masters={sub_masters}")]);
        // Balancing, which adapts the number of workers, is on only in runs that measure the number of workers to which the farm converges.
        command.env("ARMATURE_BALANCE", if start == 0 { "off" } else { "live" });
        one(&finish(command, LIMIT)?)
    }

    /// Returns the analytical model of an iteration (one set of tasks), with the exact work and message costs of its
    /// tasks.
    ///
    /// # Errors
    /// If the shape of the tasks is invalid.
    pub fn model(&self) -> RunResult<IterationModel> {
        Ok(IterationModel {
            messages: MessageCosts::new(self.network.start_up, 1.0 / self.network.bandwidth),
            volume: 2.0 * BYTES * self.shape.tasks as f64,
            out: 0.5,
            compute: self.shape.iterations(self.seed)?.next().unwrap_or_default().iter().sum(),
            master: 0.0,
            protocol: Protocol::Asynchronous,
        })
    }
}

impl Run {
    /// Returns the efficiency: Σ task times / (workers × makespan).
    pub fn efficiency(&self, workers: usize) -> f64 {
        self.work / (workers as f64 * self.seconds)
    }
}
