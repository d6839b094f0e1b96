//! A loop on simulated hosts: unequal ones, or some beside loads that come and go.

use std::{collections::BTreeMap, fmt, fs, path::Path, process::Command, time::Duration};

use crate::{
    Outcome,
    platforms::{Cluster, HostLoad},
    ranks::{finish, one},
};

/// Operations a second of a host of speed 1.
pub const SPEED: f64 = 1e9;
const SIMULATE: &str = "ci/smpi/run.sh";
const PROGRAM: &str = "armature-bench-simulated-loop";
/// How long a simulated run may take in real time.
const LIMIT: Duration = Duration::from_secs(600);

/// What units depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing (DOALL).
    All,
    /// The unit before in this pass and the one after in the pass before (DOACROSS).
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

/// What is run.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The loop.
    pub kind: Kind,
    /// Speed of each host; rank r is on host r.
    pub speeds: Vec<f64>,
    /// Loads beside some of them.
    pub loads: Vec<HostLoad>,
    /// Bytes a second of each host's link to the switch, each way.
    pub bandwidth: f64,
    /// Units.
    pub units: usize,
    /// Seconds of one on a host of speed 1.
    pub unit: f64,
    /// Bytes of one.
    pub bytes: usize,
    /// Passes before the clock starts.
    pub settle: usize,
    /// Passes that count.
    pub passes: usize,
    /// Units or columns of a block; with 0 the framework chooses.
    pub block: usize,
    /// Whether units move.
    pub live: bool,
    /// Whether ranks begin with units in proportion to their speeds, and not with equal numbers.
    pub ideal: bool,
    /// The scheduler's quantum that the balancer is told (s); with 0 it knows that there is none.
    pub quantum: f64,
    /// Deviation of each rank's speed, as a part of it.
    pub noise: f64,
    /// Of the noise.
    pub seed: u64,
}

/// How it went, in simulated seconds.
#[derive(Clone, Debug)]
pub struct Run {
    /// Seconds of the passes that count.
    pub seconds: f64,
    /// The same with those before.
    pub total: f64,
    /// Movements in all passes.
    pub movements: f64,
    /// Interactions in the passes that count.
    pub interactions: f64,
    /// Seconds that they took on rank 0.
    pub interacting: f64,
    /// By rank: seconds of computing, and units done.
    pub ranks: Vec<(f64, f64)>,
}

impl Simulated {
    /// Simulates it; `folder` takes the description of the hosts.
    ///
    /// # Errors
    /// If there is no simulator or no program built for it, or if the simulation fails or takes too long.
    pub fn run(&self, folder: &Path) -> Outcome<Run> {
        let hosts = self.speeds.len();
        let speeds = self.speeds.iter().map(|speed| speed * SPEED).collect();
        let cluster = Cluster { speeds, bandwidths: vec![self.bandwidth; hosts] };
        fs::create_dir_all(folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
        let (platform, hostfile) = (folder.join("cluster.xml"), folder.join("cluster.hosts"));
        fs::write(&platform, cluster.xml_beside(&self.loads)?)?;
        fs::write(&hostfile, cluster.hostfile())?;
        let mut command = Command::new(SIMULATE);
        command.arg(hosts.to_string()).arg("--platform").arg(platform).arg("--hosts").arg(hostfile);
        command.args(Cluster::NETWORK).arg(PROGRAM);
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
        command.env("RUST_LOG", "error").env("ARMATURE_SMPI_TIMEOUT", LIMIT.as_secs().to_string());
        Run::read(&one(&finish(command, LIMIT)?)?, hosts)
    }
}

impl Run {
    fn read(values: &BTreeMap<String, f64>, hosts: usize) -> Outcome<Self> {
        let value = |name: &str| {
            values.get(name).copied().ok_or_else(|| format!("the simulated loop printed no {name}"))
        };
        let rank = |rank: usize| -> Outcome<(f64, f64)> {
            Ok((value(&format!("computing-{rank}"))?, value(&format!("units-{rank}"))?))
        };
        Ok(Run {
            seconds: value("seconds")?,
            total: value("total")?,
            movements: value("movements")?,
            interactions: value("interactions")?,
            interacting: value("interacting")?,
            ranks: (0..hosts).map(rank).collect::<Outcome<_>>()?,
        })
    }

    /// (2) of Siegell and Steenkiste (1997) for equal hosts: the time of one host, as a part of what all had left. While a
    /// rank computes beside a load, the load takes the half; while it waits, all. Only for runs that begin with the
    /// passes that count.
    pub fn efficiency(&self, job: &Simulated) -> f64 {
        let competing: f64 = job
            .loads
            .iter()
            .map(|load| {
                let burnt = load.wave.burnt(Duration::from_secs_f64(self.seconds)).as_secs_f64();
                let (computing, units) = self.ranks[load.host];
                // While the load was on the rank computed as long as it did not.
                let beside = (computing - units * job.unit).max(0.0);
                (burnt - beside).max(0.0)
            })
            .sum();
        let sequential = job.units as f64 * job.unit * job.passes as f64;
        sequential / (job.speeds.len() as f64 * self.seconds - competing)
    }
}
