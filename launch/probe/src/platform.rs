//! Platform file: speeds, memory and connections of the hosts of a job.

use std::collections::BTreeMap;
use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

use armature::{BoxError, Session, Topology};

use crate::links::{self, Link};

/// Duration of one measurement of the speed. It covers several periods of a CPU quota (100 ms each), because a quota stops a process for a part of
/// each period.
const ROUND: Duration = Duration::from_millis(500);

/// Number of speed measurements of a rank. The fastest one is used, because other programs can only slow a measurement down.
const ROUNDS: usize = 2;

/// Number of integer operations between two reads of the clock in a speed measurement: about a tenth of a millisecond.
const BLOCK: u64 = 50_000;

/// Relative difference from the median bandwidth above which a connection has its own entry in the platform file.
const DIFFERS: f64 = 0.1;

/// Host of the job, with the ranks that run on it and what was measured on it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) ranks: usize,
    /// Integer operations per second that one rank does while all ranks of the job compute.
    pub(crate) speed: f64,
    /// Memory in bytes that is available to each rank of the host.
    pub(crate) memory: u64,
}

/// Hosts of a job and the connections between them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Platform {
    pub(crate) hosts: Vec<Host>,
    /// Connections between two hosts, each with the numbers of the hosts. If there is only one host, the connection between two of its ranks.
    pub(crate) links: Vec<(usize, usize, Link)>,
}

/// Measures speeds, memory and connections of all ranks. Returns the platform file's content on rank 0.
pub(crate) fn measure(session: &mut Session) -> Result<Option<Platform>, BoxError> {
    let topology = Topology::of_this_node();
    let mut speed = 0.0_f64;
    for _ in 0..ROUNDS {
        session.barrier()?;
        speed = speed.max(operations_per_second());
    }
    let ranks = session.all_gather((topology.host, speed, topology.memory_available))?;
    // The hosts are numbered in the order of their lowest ranks.
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (rank, (host, ..)) in ranks.iter().enumerate() {
        first.entry(host).or_insert(rank);
    }
    let mut representatives: Vec<usize> = first.values().copied().collect();
    representatives.sort_unstable();
    let pairs =
        if representatives.len() == 1 { (0..ranks.len().min(2)).collect() } else { representatives.clone() };
    let measured = links::measure(session, &pairs)?;
    let Some(measured) = session.gather(measured)? else { return Ok(None) };
    let host = |&first: &usize| {
        let of: Vec<_> = ranks.iter().filter(|(host, ..)| *host == ranks[first].0).collect();
        Host {
            name: ranks[first].0.clone(),
            ranks: of.len(),
            speed: of.iter().map(|(_, speed, _)| speed).sum::<f64>() / of.len() as f64,
            memory: ranks[first].2 / of.len() as u64,
        }
    };
    let number = |rank: usize| representatives.iter().position(|&first| first == rank).unwrap_or(0);
    let links = measured.into_iter().flatten().map(|(low, high, link)| (number(low), number(high), link));
    Ok(Some(Platform { hosts: representatives.iter().map(host).collect(), links: links.collect() }))
}

fn operations_per_second() -> f64 {
    let (begin, mut blocks, mut value) = (Instant::now(), 0_u64, 1_u64);
    while begin.elapsed() < ROUND {
        for _ in 0..BLOCK {
            value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        blocks += 1;
    }
    (blocks * BLOCK) as f64 / begin.elapsed().as_secs_f64()
}

impl Platform {
    /// Returns the median bandwidth. The platform file gives it for all connections that have no entry.
    fn common_bandwidth(&self) -> Option<f64> {
        let mut all: Vec<f64> = self.links.iter().map(|(.., link)| link.bandwidth).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    }

    /// Returns the names that the parser of platform files gives to the processors of a host.
    fn processors(host: &Host) -> Vec<String> {
        match host.ranks {
            1 => vec![host.name.clone()],
            ranks => (0..ranks).map(|number| format!("{}-{number}", host.name)).collect(),
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let ranks: usize = self.hosts.iter().map(|host| host.ranks).sum();
        writeln!(
            f,
            "# Measured by armature probe with {ranks} rank{} on {} host{}.",
            plural(ranks),
            self.hosts.len(),
            plural(self.hosts.len())
        )?;
        writeln!(
            f,
            "# Speed 1 is the fastest host. Memory is what was free, divided by the ranks of the host."
        )?;
        let common = self.common_bandwidth();
        if let Some(common) = common {
            writeln!(f, "bandwidth = {common:.0} # bytes per second")?;
        }
        let fastest = self.hosts.iter().map(|host| host.speed).fold(0.0, f64::max);
        for host in &self.hosts {
            let (name, speed) = (quoted(&host.name), host.speed / fastest);
            write!(f, "\n[[processor]]\nname = {name}\n")?;
            if host.ranks > 1 {
                writeln!(f, "count = {}", host.ranks)?;
            }
            write!(f, "speed = {speed:.3}\nmemory = \"{} MiB\"\n", (host.memory >> 20).max(1))?;
        }
        for &(low, high, link) in &self.links {
            let (Some(from), Some(to)) = (self.hosts.get(low), self.hosts.get(high)) else { continue };
            writeln!(
                f,
                "\n# {} and {}: set-up {:.1} us, {:.1} MB/s",
                comment(&from.name),
                comment(&to.name),
                1e6 * link.setup,
                link.bandwidth / 1e6
            )?;
            let is_common = common.is_some_and(|common| (link.bandwidth / common - 1.0).abs() <= DIFFERS);
            if is_common || low == high {
                continue;
            }
            for (from, to) in [(from, to), (to, from)] {
                for from in Platform::processors(from) {
                    for to in Platform::processors(to) {
                        let (from, to) = (quoted(&from), quoted(&to));
                        write!(f, "[[link]]\nfrom = {from}\nto = {to}\nbandwidth = {:.0}\n", link.bandwidth)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

/// Returns a name as it is written in a comment of the platform file: control characters, such as a line end,
/// are replaced.
fn comment(name: &str) -> String {
    name.replace(|c: char| c.is_control(), "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, ranks: usize, speed: f64) -> Host {
        Host { name: name.into(), ranks, speed, memory: 4 << 30 }
    }

    #[test]
    fn file_is_read_by_the_planners() {
        let link = |bandwidth| Link { setup: 3e-5, bandwidth };
        let hosts = vec![host("h1", 2, 2e9), host("h2", 1, 1e9), host("h \"3\"", 1, 0.5e9)];
        let links = vec![(0, 1, link(1e9)), (0, 2, link(1e7)), (1, 2, link(1.05e9))];
        let text = Platform { hosts, links }.to_string();
        let cluster = armature_workflow_files::platform::read("platform.toml", text.as_bytes()).unwrap();
        assert_eq!((cluster.len(), cluster.largest_memory()), (4, 4 << 30));
        assert_eq!(cluster.bandwidth(0, 2), 1e9);
        assert_eq!((cluster.bandwidth(1, 3), cluster.bandwidth(3, 0)), (1e7, 1e7));
        assert!(text.contains("speed = 0.250") && text.contains("# h1 and h2: set-up 30.0 us, 1000.0 MB/s"));
    }

    #[test]
    fn one_rank_has_no_bandwidth() {
        let text = Platform { hosts: vec![host("h1", 1, 2e9)], links: Vec::new() }.to_string();
        let cluster = armature_workflow_files::platform::read("platform.toml", text.as_bytes()).unwrap();
        assert_eq!(cluster.len(), 1);
    }
}
