//! A farm on simulated hosts: equal ones around one switch, one rank each. Rank 0 only hands out.

use std::{collections::BTreeMap, fs, path::Path, process::Command, time::Duration};

use armature_planner::farm::{Chunking, IterationModel, MessageCosts, Protocol};

use super::tasks::TaskShape;
use crate::{
    Outcome,
    platforms::Cluster,
    ranks::{finish, one},
};

/// Operations a second of a host.
const SPEED: f64 = 1e9;
/// Bytes of a task, and of its result.
const BYTES: f64 = 8.0;
const SIMULATE: &str = "ci/smpi/run.sh";
const PROGRAM: &str = "armature-bench-simulated";
/// How long a simulated run may take in real time.
const LIMIT: Duration = Duration::from_secs(900);

/// The hosts' network.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Bytes a second of each host's link to the switch, each way.
    pub bandwidth: f64,
    /// Seconds that every message keeps its sender busy: the paper's `mo`.
    pub start_up: f64,
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    /// How its messages travel.
    pub network: Network,
    /// Its tasks, in seconds.
    pub shape: TaskShape,
    /// Decides the tasks' lengths.
    pub seed: u64,
    /// Sets of such tasks, each after the other.
    pub iterations: usize,
    /// Ranks beside rank 0.
    pub workers: usize,
    /// How many of these lead the others instead of doing tasks.
    pub sub_masters: usize,
    /// How tasks are put together to chunks.
    pub chunking: Chunking,
}

/// How it went.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Seconds of the farm.
    pub seconds: f64,
    /// Seconds of all tasks together.
    pub work: f64,
    /// Seconds of the last iteration.
    pub last: f64,
    /// Chunks that were given.
    pub chunks: usize,
}

impl Simulated {
    /// Simulates it; `folder` takes the description of the hosts.
    ///
    /// # Errors
    /// If there is no simulator or no program built for it, or if the simulation fails or takes too long.
    pub fn run(&self, folder: &Path) -> Outcome<Run> {
        let values = self.simulate(folder, 0)?;
        let value = |name: &str| {
            values.get(name).copied().ok_or_else(|| format!("the simulated farm printed no {name}"))
        };
        let (seconds, work) = (value("seconds")?, value("operations")? / SPEED);
        Ok(Run { seconds, work, last: value("last")?, chunks: value("chunks")? as usize })
    }

    /// Simulates it, beginning with `start` of the workers; returns how many take part at the end.
    ///
    /// # Errors
    /// As [`run`](Simulated::run).
    pub fn settle(&self, folder: &Path, start: usize) -> Outcome<usize> {
        let values = self.simulate(folder, start)?;
        Ok(*values.get("workers").ok_or("the simulated farm printed no workers")? as usize)
    }

    /// `start` workers take part at first, or all if it is 0.
    fn simulate(&self, folder: &Path, start: usize) -> Outcome<BTreeMap<String, f64>> {
        let Simulated { network, shape, seed, iterations, workers, sub_masters, chunking } = *self;
        let hosts = workers + 1;
        let cluster = Cluster { speeds: vec![SPEED; hosts], bandwidths: vec![network.bandwidth; hosts] };
        fs::create_dir_all(folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
        let (platform, hostfile) = (folder.join("cluster.xml"), folder.join("cluster.hosts"));
        fs::write(&platform, cluster.xml())?;
        fs::write(&hostfile, cluster.hostfile())?;
        let mut command = Command::new(SIMULATE);
        command.arg(hosts.to_string()).arg("--platform").arg(platform).arg("--hosts").arg(hostfile);
        // The framework sends without waiting, for which SimGrid has a figure of its own.
        command.args(Cluster::NETWORK).args(["--cfg", &format!("smpi/ois:0:{}:0", network.start_up)]);
        command.args([PROGRAM, &format!("tasks={}", shape.tasks), &format!("mean={}", SPEED * shape.mean)]);
        command.args([format!("deviation={}", shape.spread), format!("seed={seed}")]);
        command.args([format!("chunking={chunking}"), format!("iterations={iterations}")]);
        command.args([format!("workers={start}"), format!("sub-masters={sub_masters}")]);
        // The number of workers is the one that is asked for, to the end, unless it is to settle.
        command.env("ARMATURE_BALANCE", if start == 0 { "off" } else { "live" });
        command.env("RUST_LOG", "error").env("ARMATURE_SMPI_TIMEOUT", LIMIT.as_secs().to_string());
        one(&finish(command, LIMIT)?)
    }

    /// The model of an iteration with these tasks, with perfect knowledge.
    ///
    /// # Errors
    /// If the shape of the tasks is none.
    pub fn model(&self) -> Outcome<IterationModel> {
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
    /// Σ task times / (workers × makespan).
    pub fn efficiency(&self, workers: usize) -> f64 {
        self.work / (workers as f64 * self.seconds)
    }
}
