//! Parallel loop on simulated hosts, which have unequal speeds or alternating loads.

use std::{collections::BTreeMap, fmt, fs, path::Path, time::Duration};

use crate::{
    RunResult,
    platforms::{Cluster, HostLoad},
    ranks::{finish, one, simulation},
};

/// Operations per second of a host of speed 1.
pub const SPEED: f64 = 1e9;
const PROGRAM: &str = "armature-bench-simulated-loop";
const LIMIT: Duration = Duration::from_secs(600);

/// Dependences between the units (rows or indices) of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No dependences (DOALL).
    All,
    /// DOACROSS: a row depends on the previous row in the same pass, and on the next row in the previous pass.
    Sweep,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::All => "all",
            Kind::Sweep => "sweep",
        })
    }
}

/// Parameters of a simulated loop.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Dependences between the units (rows or indices) of the loop.
    pub kind: Kind,
    /// Speed of each host; rank r is on host r.
    pub speeds: Vec<f64>,
    /// Competing loads on some of the hosts.
    pub loads: Vec<HostLoad>,
    /// Bandwidth in bytes per second of each host's link to the switch, in each direction.
    pub bandwidth: f64,
    /// Number of units (rows or indices) of the loop.
    pub units: usize,
    /// Seconds of one row or index of the loop on a host of speed 1.
    pub unit: f64,
    /// Bytes of data per row or index of the loop.
    pub bytes: usize,
    /// Number of warm-up passes before the measurement.
    pub settle: usize,
    /// Number of measured passes.
    pub passes: usize,
    /// Number of rows, columns or indices that a rank computes between two polls for messages; with 0 the framework
    /// chooses.
    pub block: usize,
    /// True if the framework moves rows or indices between ranks during the run.
    pub live: bool,
    /// True if ranks start with rows or indices in proportion to their speeds, instead of equal numbers.
    pub ideal: bool,
    /// Time slice of the scheduler in seconds, as configured in the balancer; 0 if there is none.
    pub quantum: f64,
    /// Relative deviation of each rank's speed from the speed of its host.
    pub noise: f64,
    /// Seed of the random deviations of the speeds.
    pub seed: u64,
}

/// Results of a run, in simulated seconds.
#[derive(Clone, Debug)]
pub struct Run {
    /// Total simulated seconds of the measured passes, without the warm-up passes.
    pub seconds: f64,
    /// Total simulated seconds of the warm-up passes and the measured passes.
    pub total: f64,
    /// Number of decisions by which rows or indices moved between ranks, in all passes.
    pub movements: f64,
    /// Number of decisions of rank 0 about moving rows or indices, each after reports of all ranks, in the measured
    /// passes.
    pub interactions: f64,
    /// Seconds that the reports and decisions of balancing took on rank 0.
    pub interacting: f64,
    /// Seconds of computing, and number of computed rows or indices, by rank.
    pub ranks: Vec<(f64, f64)>,
}

impl Simulated {
    /// Simulates the loop; the description of the hosts is written to `folder`.
    ///
    /// # Errors
    /// If the simulator or the program built for it does not exist, or if the simulation fails or takes too long.
    pub fn run(&self, folder: &Path) -> RunResult<Run> {
        let hosts = self.speeds.len();
        let speeds = self.speeds.iter().map(|speed| speed * SPEED).collect();
        let cluster = Cluster { speeds, bandwidths: vec![self.bandwidth; hosts] };
        fs::create_dir_all(folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
        let platform = folder.join("cluster.xml");
        fs::write(&platform, cluster.xml_with_loads(&self.loads)?)?;
        let mut command = simulation(hosts, LIMIT);
        command.arg("--platform").arg(platform).args(Cluster::NETWORK).arg(PROGRAM);
        let Simulated { kind, units, bytes, settle, passes, block, live, quantum, noise, seed, .. } = self;
        let unit = self.unit * SPEED;
        command.args([format!("kind={kind}"), format!("units={units}"), format!("unit={unit}")]);
        command.args([format!("bytes={bytes}"), format!("settle={settle}"), format!("passes={passes}")]);
        command.args([format!("block={block}"), format!("live={live}"), format!("quantum={quantum}")]);
        command.args([format!("noise={noise}"), format!("seed={seed}")]);
        if self.ideal {
            let shares: Vec<String> = self.speeds.iter().map(f64::to_string).collect();
            command.arg(format!("shares={}", shares.join(",")));
        }
        Run::read(&one(&finish(command, LIMIT)?)?, hosts)
    }
}

impl Run {
    fn read(values: &BTreeMap<String, f64>, hosts: usize) -> RunResult<Self> {
        let value = |name: &str| {
            values.get(name).copied().ok_or_else(|| format!("the simulated loop printed no {name}"))
        };
        let rank = |rank: usize| -> RunResult<(f64, f64)> {
            Ok((value(&format!("computing-{rank}"))?, value(&format!("units-{rank}"))?))
        };
        Ok(Run {
            seconds: value("seconds")?,
            total: value("total")?,
            movements: value("movements")?,
            interactions: value("interactions")?,
            interacting: value("interacting")?,
            ranks: (0..hosts).map(rank).collect::<RunResult<_>>()?,
        })
    }

    /// Returns the efficiency of the loop by equation (2) of Siegell and Steenkiste (1997) for equal hosts: the time
    /// on one host, divided by the total time available on all hosts. A load takes half of its host while the rank
    /// computes, and all of the host while the rank waits. The value is valid only for runs without warm-up passes.
    pub fn efficiency(&self, job: &Simulated) -> f64 {
        let competing: f64 = job
            .loads
            .iter()
            .map(|load| {
                let burnt = load.wave.burnt(Duration::from_secs_f64(self.seconds)).as_secs_f64();
                let (computing, units) = self.ranks[load.host];
                // The competing load takes half of its host while the rank computes. Therefore it then has as many
                // seconds of the processor as the rank.
                let other_seconds = (computing - units * job.unit).max(0.0);
                (burnt - other_seconds).max(0.0)
            })
            .sum();
        let sequential = job.units as f64 * job.unit * job.passes as f64;
        sequential / (job.speeds.len() as f64 * self.seconds - competing)
    }
}
