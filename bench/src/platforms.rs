//! Random clusters of unequal machines, for SimGrid and for the planner.
//!
//! Each host has its own full-duplex link to a switch that is never the bottleneck. A message between two hosts takes
//! the latencies of both links and is then transferred at the bandwidth of the slower link; messages that share a link
//! share its bandwidth. [`Cluster::NETWORK`] configures SimGrid to simulate this network. The planner's [`Platform`]
//! describes every pair of hosts in the same way. The planner thus knows the simulated network exactly. Hosts compute
//! while they send and receive.

use std::fmt::Write as _;

use armature_planner::{Link, Platform};
use armature_tests::burner::Wave;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::RunResult;

/// Speeds of the slowest and of the fastest host that can be drawn, relative to a reference machine.
const SPEEDS: (f64, f64) = (0.1, 2.0);
/// Range of the ratio between the speeds of the fastest and the slowest host of a cluster: between half of the largest
/// ratio that [`SPEEDS`] permits and this largest ratio.
const SPREAD: (f64, f64) = (10.0, 20.0);
/// Bandwidths of the slowest and of the fastest link in bytes per second: 100 Mbit/s and 1 Gbit/s Ethernet.
const BANDWIDTHS: (f64, f64) = (12.5e6, 125e6);
/// Latency of each link in seconds; a message passes two links.
const LATENCY: f64 = 25e-6;

/// Hosts with individual speeds and links.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Speed of each host in operations per second.
    pub speeds: Vec<f64>,
    /// Bandwidth in bytes per second of each host's link to the switch, in each direction.
    pub bandwidths: Vec<f64>,
}

/// Competing load on a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostLoad {
    /// Index of the host in the cluster.
    pub host: usize,
    /// Times at which the load is on.
    pub wave: Wave,
    /// Fraction of the host's speed that is left while the load is on.
    pub share: f64,
}

impl Cluster {
    /// Options of `armature simulate` that switch off the corrections that SimGrid adds to the description of the
    /// platform: factors on latency and bandwidth, the TCP window, and data that slows down acknowledgements in the
    /// opposite direction.
    pub const NETWORK: [&str; 12] = [
        "--cfg",
        "network/model:CM02",
        "--cfg",
        "network/latency-factor:1",
        "--cfg",
        "network/bandwidth-factor:1",
        "--cfg",
        "network/weight-S:0",
        "--cfg",
        "network/TCP-gamma:0",
        "--cfg",
        "network/crosstraffic:no",
    ];

    /// Draws a cluster of `hosts` hosts, which is determined by the seed. Speeds (relative to `reference`) and
    /// bandwidths are drawn log-uniformly, and speeds are drawn again until the fastest host is 10 to 20 times as
    /// fast as the slowest.
    ///
    /// # Panics
    /// If there are fewer than two hosts, which cannot differ.
    pub fn draw(seed: u64, hosts: usize, reference: f64) -> Self {
        assert!(hosts > 1, "hosts of one cluster must be able to differ");
        let mut random = StdRng::seed_from_u64(seed);
        let mut between = |(low, high): (f64, f64)| low * (high / low).powf(random.random::<f64>());
        let speeds = loop {
            let speeds: Vec<f64> = (0..hosts).map(|_| between(SPEEDS)).collect();
            let slowest = speeds.iter().copied().fold(f64::INFINITY, f64::min);
            let fastest = speeds.iter().copied().fold(0.0, f64::max);
            if (SPREAD.0..=SPREAD.1).contains(&(fastest / slowest)) {
                break speeds;
            }
        };
        Cluster {
            speeds: speeds.into_iter().map(|s| (s * reference).round()).collect(),
            bandwidths: (0..hosts).map(|_| between(BANDWIDTHS).round()).collect(),
        }
    }

    /// Returns the platform file for SimGrid.
    pub fn xml(&self) -> String {
        let mut xml = begin("Cluster");
        for (i, (speed, bandwidth)) in self.speeds.iter().zip(&self.bandwidths).enumerate() {
            let _ = write!(
                xml,
                "  <host id=\"h{i}\" speed=\"{speed}f\"/>\n  <link id=\"l{i}\" bandwidth=\"{bandwidth}Bps\" \
                 latency=\"{LATENCY}s\" sharing_policy=\"SPLITDUPLEX\"/>\n  <host_link id=\"h{i}\" up=\"l{i}_UP\" \
                 down=\"l{i}_DOWN\"/>\n"
            );
        }
        xml + END
    }

    /// Returns the platform file with hosts that are slower while loads are on.
    ///
    /// # Errors
    /// If a load leaves no speed to its host, or the host does not exist.
    pub fn xml_with_loads(&self, loads: &[HostLoad]) -> RunResult<String> {
        let xml = self.xml();
        let (hosts, end) = xml.rsplit_once("</platform>").ok_or("a platform file without an end")?;
        let mut text = hosts.to_string();
        for HostLoad { host, wave, share } in loads {
            if *host >= self.speeds.len() {
                return Err(format!("a load beside host {host} of {}", self.speeds.len()).into());
            }
            text += &wave.simgrid(&format!("h{host}"), *share)?;
        }
        Ok(text + "</platform>" + end)
    }

    /// Returns the cluster for the planner, with source and sink on host 0.
    ///
    /// # Errors
    /// If a speed or a bandwidth is invalid, which never happens for a cluster from [`draw`](Self::draw).
    pub fn platform(&self) -> RunResult<Platform> {
        let mut platform = Platform::with_speeds(&self.speeds, Link::FREE)?;
        for (p, a) in self.bandwidths.iter().enumerate() {
            for (q, b) in self.bandwidths.iter().enumerate() {
                platform.set_link(p, q, Link { bandwidth: a.min(*b), setup: 2.0 * LATENCY })?;
            }
        }
        Ok(platform.with_ext_on(0)?.with_overlap(true))
    }
}

fn begin(routing: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n\
         <platform version=\"4.1\">\n<zone id=\"cluster\" routing=\"{routing}\">\n"
    )
}

const END: &str = "</zone>\n</platform>\n";

/// Returns the platform file for SimGrid for hosts of the given speeds. Each pair of hosts has its own channel in
/// each direction with the given bandwidth in bytes per second, as the planner of workflows assumes.
pub fn channels(speeds: &[f64], bandwidth: impl Fn(usize, usize) -> f64) -> String {
    /// Bytes per second instead of an infinite bandwidth, which SimGrid does not support: a gigabyte takes a
    /// microsecond.
    const WIDEST: f64 = 1e15;
    let mut xml = begin("Full");
    let mut routes = String::new();
    for (from, speed) in speeds.iter().enumerate() {
        let _ = writeln!(xml, "  <host id=\"h{from}\" speed=\"{speed}f\"/>");
        for to in (0..speeds.len()).filter(|&to| to != from) {
            let bandwidth = bandwidth(from, to).min(WIDEST);
            let _ = writeln!(
                xml,
                "  <link id=\"l{from}-{to}\" bandwidth=\"{bandwidth}Bps\" latency=\"{LATENCY}s\"/>"
            );
            let _ = writeln!(
                routes,
                "  <route src=\"h{from}\" dst=\"h{to}\" symmetrical=\"NO\"><link_ctn id=\"l{from}-{to}\"/></route>"
            );
        }
    }
    xml + &routes + END
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_reproducible_and_their_hosts_heterogeneous() {
        let mut seen = Vec::new();
        for seed in 1..=20 {
            let cluster = Cluster::draw(seed, 14, 1e9);
            assert_eq!(cluster, Cluster::draw(seed, 14, 1e9));
            assert!(!seen.contains(&cluster), "seed {seed} repeats another one");
            let (slowest, fastest) =
                cluster.speeds.iter().fold((f64::MAX, 0.0), |(low, high), &s| (s.min(low), s.max(high)));
            assert!((9.999..20.001).contains(&(fastest / slowest)), "seed {seed}");
            assert!(cluster.bandwidths.iter().all(|b| (12.5e6..=125e6).contains(b)), "seed {seed}");
            seen.push(cluster);
        }
    }

    #[test]
    fn each_pair_of_hosts_has_a_channel_in_each_direction() {
        let xml = channels(
            &[1e9, 2e9, 3e9],
            |from, to| if from == 2 { f64::INFINITY } else { (10 * from + to) as f64 },
        );
        assert_eq!((xml.matches("<link ").count(), xml.matches("<route ").count()), (6, 6));
        for text in [
            "<link id=\"l1-0\" bandwidth=\"10Bps\"",
            "<link id=\"l2-1\" bandwidth=\"1000000000000000Bps\"",
            "<route src=\"h1\" dst=\"h0\" symmetrical=\"NO\"><link_ctn id=\"l1-0\"/>",
        ] {
            assert!(xml.contains(text), "{text} is missing from {xml}");
        }
    }

    #[test]
    fn xml_describes_the_cluster_of_the_planner() {
        let cluster = Cluster { speeds: vec![1e9, 2e9], bandwidths: vec![1e8, 2e7] };
        let xml = cluster.xml();
        for text in
            ["speed=\"2000000000f\"", "bandwidth=\"20000000Bps\"", "latency=\"0.000025s\"", "up=\"l1_UP\""]
        {
            assert!(xml.contains(text), "{text} is missing from {xml}");
        }
        let load = HostLoad { host: 1, wave: Wave::ALWAYS_BUSY, share: 0.5 };
        assert_eq!(cluster.xml_with_loads(&[]).unwrap(), xml);
        let loaded_xml = cluster.xml_with_loads(&[load]).unwrap();
        assert!(
            loaded_xml.contains("0.000000000 0.5\n") && loaded_xml.ends_with("</platform>\n"),
            "{loaded_xml}"
        );
        assert!(cluster.xml_with_loads(&[HostLoad { host: 2, ..load }]).is_err());
        let platform = cluster.platform().unwrap();
        assert_eq!(platform.transfer_time(0, 1, 2e7), 1.00005);
        assert_eq!((platform.ext_on(), platform.speeds()), (Some(0), &[1e9, 2e9][..]));
    }
}
