//! Simulated hosts, and their description for SimGrid.

use std::fmt::Write as _;
use std::path::Path;

use armature::JobPlatform;

use crate::error::LaunchError;

/// Operations per second of a simulated host of speed 1. Programs that declare work in seconds of a host of speed 1 use the same number.
pub(super) const SPEED: f64 = 1e9;
/// Bandwidth in bytes per second of a host's link to the switch, if the platform has none: Ethernet of 1 Gbit/s.
const BANDWIDTH: f64 = 125e6;
/// Latency of each link in seconds. A message passes two links. Typical of Ethernet; platforms in TOML have no latencies.
const LATENCY: f64 = 25e-6;
/// Maximum number of hosts with individual bandwidths between pairs. SimGrid then gets a link for each pair.
const MOST_PAIRED: usize = 256;

/// Description of simulated hosts in the format of SimGrid.
#[derive(Debug, PartialEq)]
pub(super) struct Hosts {
    pub(super) xml: String,
    /// Names of the hosts in the order of the ranks.
    pub(super) names: Vec<String>,
}

impl Hosts {
    /// Returns equal hosts around a switch, with the given relative speeds: the first one for rank 0, the others in turn for the other ranks.
    pub(super) fn with_speeds(ranks: usize, speeds: &[f64]) -> Self {
        let speed = |rank: usize| match (rank, speeds.len()) {
            (_, 0) => 1.0,
            (0, _) | (_, 1) => speeds[0],
            (rank, several) => speeds[1 + (rank - 1) % (several - 1)],
        };
        Hosts::around_switch(&(0..ranks).map(speed).collect::<Vec<_>>(), BANDWIDTH)
    }

    /// Returns one simulated host for each processor of a platform.
    pub(super) fn of_platform(platform: &JobPlatform) -> Result<Self, LaunchError> {
        let processors = &platform.processors;
        let speeds: Vec<f64> =
            processors.iter().flat_map(|group| vec![group.speed.unwrap_or(1.0); group.count]).collect();
        let bandwidth = platform.bandwidth.unwrap_or(BANDWIDTH);
        if platform.links.is_empty() {
            return Ok(Hosts::around_switch(&speeds, bandwidth));
        }
        if speeds.len() > MOST_PAIRED {
            let count = speeds.len();
            return Err(LaunchError::Usage(format!(
                "the platform has {count} processors and bandwidths of single connections: expected at most {MOST_PAIRED} processors, or the same bandwidth for all connections"
            )));
        }
        let groups: Vec<usize> =
            processors.iter().enumerate().flat_map(|(i, group)| vec![i; group.count]).collect();
        let link = |from: usize, to: usize| {
            let (from, to) = (groups[from], groups[to]);
            platform.links.iter().find(|link| (link.0, link.1) == (from, to)).map_or(bandwidth, |link| link.2)
        };
        Ok(Hosts::in_pairs(&speeds, link))
    }

    /// Reads a description of SimGrid. Its hosts are used in the order of the file.
    pub(super) fn of_xml(file: &Path, xml: String) -> Result<Self, LaunchError> {
        let names: Vec<String> = xml
            .split("<host ")
            .skip(1)
            .filter_map(|host| {
                Some(host.split('>').next()?.split_once("id=\"")?.1.split_once('"')?.0.to_string())
            })
            .collect();
        if names.is_empty() {
            let file = file.display();
            return Err(LaunchError::Usage(format!(
                "{file}: no <host id=\"…\"> was found: expected one for each rank"
            )));
        }
        Ok(Hosts { xml, names })
    }

    fn around_switch(speeds: &[f64], bandwidth: f64) -> Self {
        let host = |i: usize| {
            format!(
                "  <link id=\"l{i}\" bandwidth=\"{bandwidth}Bps\" latency=\"{LATENCY}s\" sharing_policy=\"SPLITDUPLEX\"/>\n  \
                 <host_link id=\"h{i}\" up=\"l{i}_UP\" down=\"l{i}_DOWN\"/>\n"
            )
        };
        Hosts::zone("Cluster", speeds, &(0..speeds.len()).map(host).collect::<String>())
    }

    fn in_pairs(speeds: &[f64], bandwidth: impl Fn(usize, usize) -> f64) -> Self {
        let (mut links, mut routes) = (String::new(), String::new());
        for from in 0..speeds.len() {
            for to in (0..speeds.len()).filter(|&to| to != from) {
                let (link, bandwidth) = (format!("l{from}-{to}"), bandwidth(from, to));
                let _ = writeln!(
                    links,
                    "  <link id=\"{link}\" bandwidth=\"{bandwidth}Bps\" latency=\"{}s\"/>",
                    2.0 * LATENCY
                );
                let _ = writeln!(
                    routes,
                    "  <route src=\"h{from}\" dst=\"h{to}\" symmetrical=\"NO\"><link_ctn id=\"{link}\"/></route>"
                );
            }
        }
        Hosts::zone("Full", speeds, &(links + &routes))
    }

    fn zone(routing: &str, speeds: &[f64], network: &str) -> Self {
        let mut xml = format!(
            "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n\
             <platform version=\"4.1\">\n<zone id=\"cluster\" routing=\"{routing}\">\n"
        );
        for (i, speed) in speeds.iter().enumerate() {
            let _ = writeln!(xml, "  <host id=\"h{i}\" speed=\"{}f\"/>", speed * SPEED);
        }
        xml += network;
        xml += "</zone>\n</platform>\n";
        Hosts { xml, names: (0..speeds.len()).map(|i| format!("h{i}")).collect() }
    }
}

#[cfg(test)]
mod tests {
    use armature::Processors;

    use super::*;

    #[test]
    fn first_speed_is_that_of_rank_0_and_the_others_follow_in_turn() {
        let hosts = Hosts::with_speeds(4, &[1.0, 0.5, 2.0]);
        assert_eq!(hosts.names, ["h0", "h1", "h2", "h3"]);
        let speed = |host: usize| {
            let after = hosts.xml.split_once(&format!("<host id=\"h{host}\" speed=\"")).unwrap().1;
            after.split_once('"').unwrap().0.to_string()
        };
        assert_eq!([0, 1, 2, 3].map(speed), ["1000000000f", "500000000f", "2000000000f", "500000000f"]);
        assert_eq!(hosts.xml.matches("<host_link ").count(), 4);
    }

    #[test]
    fn each_processor_of_a_platform_becomes_a_host() {
        let group = |count, speed| Processors { host: "n".into(), count, speed, memory: None };
        let mut platform =
            JobPlatform { processors: vec![group(2, Some(0.5)), group(1, None)], ..JobPlatform::default() };
        let hosts = Hosts::of_platform(&platform).unwrap();
        assert_eq!(hosts.names.len(), 3);
        assert_eq!(hosts.xml.matches("speed=\"500000000f\"").count(), 2);
        platform.links.push((0, 1, 5e6));
        platform.bandwidth = Some(1e8);
        let hosts = Hosts::of_platform(&platform).unwrap();
        assert!(hosts.xml.contains("<link id=\"l1-2\" bandwidth=\"5000000Bps\""), "{}", hosts.xml);
        assert!(hosts.xml.contains("<link id=\"l2-1\" bandwidth=\"100000000Bps\""), "{}", hosts.xml);
        platform.processors[0].count = 300;
        let error = Hosts::of_platform(&platform).unwrap_err().to_string();
        assert!(error.contains("301 processors") && error.contains("at most 256"), "{error}");
    }

    #[test]
    fn hosts_of_a_description_of_simgrid_are_found_in_its_order() {
        let made = Hosts::with_speeds(3, &[]);
        assert_eq!(Hosts::of_xml(Path::new("a.xml"), made.xml.clone()).unwrap(), made);
        let error = Hosts::of_xml(Path::new("a.xml"), "<platform/>".into()).unwrap_err().to_string();
        assert!(error.starts_with("a.xml: no <host"), "{error}");
    }
}
