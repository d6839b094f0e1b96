//! Speeds, memory and bandwidths of a job's hosts that are known before the job starts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Processors of a job's hosts, as a hostfile or a platform file describes them. `armature run` passes them to the ranks in the variable
/// `ARMATURE_PLATFORM`; the text form is JSON.
///
/// Speeds are the first estimates of the planners, until they have measured the ranks. Memory limits the values of workflows.
///
/// ```
/// use armature::JobPlatform;
///
/// let text = r#"{"processors": [{"host": "node01", "count": 4, "speed": 2.0}, {"host": "node02", "count": 2}]}"#;
/// let platform: JobPlatform = text.parse()?;
/// let config = armature::Config::new().ranks(6).platform(platform);
/// assert!("{}".parse::<JobPlatform>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobPlatform {
    /// Processors of the hosts, at least one. Ranks are placed on them in this order.
    pub processors: Vec<Processors>,
    /// Bandwidth between all processors in bytes per second; `None` if it is not known.
    #[serde(default)]
    pub bandwidth: Option<f64>,
    /// Bandwidths between two entries of `processors` that differ from `bandwidth`: index of the sender, index of the receiver, bytes per second.
    #[serde(default)]
    pub links: Vec<(usize, usize, f64)>,
}

/// Equal processors of a host, each of which runs one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processors {
    /// Name of the host. If a rank is on a host that no entry names, the ranks get the processors in their order.
    pub host: String,
    /// Number of processors, at least 1.
    pub count: usize,
    /// Speed of a processor while all processors of its host compute, relative to the others; `None` if it is not known.
    #[serde(default)]
    pub speed: Option<f64>,
    /// Memory of a processor in bytes; `None` if it is not known.
    #[serde(default)]
    pub memory: Option<u64>,
}

impl JobPlatform {
    fn fault(&self) -> Option<String> {
        let is_usable = |number: f64| (1e-60..=1e60).contains(&number);
        let is_wrong = |p: &Processors| p.count == 0 || !p.speed.is_none_or(is_usable) || p.memory == Some(0);
        if self.processors.is_empty() || self.processors.iter().any(is_wrong) {
            return Some("processors with a count, a speed and a memory above 0".into());
        }
        let entries = 0..self.processors.len();
        let exists = |(from, to, bandwidth): &(usize, usize, f64)| {
            entries.contains(from) && entries.contains(to) && is_usable(*bandwidth)
        };
        let is_right = self.bandwidth.is_none_or(is_usable) && self.links.iter().all(exists);
        (!is_right).then(|| "bandwidths above 0, between processors of the platform".into())
    }

    /// Makes an entry for each rank; `hosts` are the ranks' hosts, as far as they are known. Returns `None` if there are more ranks than processors,
    /// and ranks are on hosts without an entry.
    pub(crate) fn of_ranks(&self, hosts: &[Option<&str>]) -> Option<JobPlatform> {
        let entries = self.by_name(hosts).or_else(|| self.in_order(hosts.len()))?;
        let rank = |(&entry, host): (&usize, &Option<&str>)| {
            let processors = self.processors[entry].clone();
            Processors { host: host.map_or(processors.host, String::from), count: 1, ..processors }
        };
        let ranks_of = |entry: usize| {
            entries.iter().enumerate().filter(move |&(_, &other)| other == entry).map(|(rank, _)| rank)
        };
        let pairs = |&(from, to, bandwidth): &(usize, usize, f64)| {
            ranks_of(from).flat_map(move |from| ranks_of(to).map(move |to| (from, to, bandwidth)))
        };
        Some(JobPlatform {
            processors: entries.iter().zip(hosts).map(rank).collect(),
            bandwidth: self.bandwidth,
            links: self.links.iter().flat_map(pairs).filter(|(from, to, _)| from != to).collect(),
        })
    }

    /// Chooses for each rank the first entry with the name of its host that has a processor left, or else the last with that name.
    fn by_name(&self, hosts: &[Option<&str>]) -> Option<Vec<usize>> {
        let mut used = vec![0; self.processors.len()];
        let entry_of = |host: &Option<&str>| {
            let host = (*host)?;
            let of_host = || (0..used.len()).filter(|&entry| is_same(&self.processors[entry].host, host));
            let entry = of_host()
                .find(|&entry| used[entry] < self.processors[entry].count)
                .or(of_host().next_back())?;
            used[entry] += 1;
            Some(entry)
        };
        hosts.iter().map(entry_of).collect()
    }

    fn in_order(&self, ranks: usize) -> Option<Vec<usize>> {
        let entries = self.processors.iter().enumerate();
        let entries = entries.flat_map(|(entry, processors)| std::iter::repeat_n(entry, processors.count));
        let first: Vec<usize> = entries.take(ranks).collect();
        (first.len() == ranks).then_some(first)
    }

    /// Keeps the entries of `ranks` only; `self` has an entry for each rank of the job.
    pub(crate) fn part(&self, ranks: &[usize]) -> JobPlatform {
        let place = |rank: usize| ranks.iter().position(|&member| member == rank);
        let link = |&(from, to, bandwidth): &(usize, usize, f64)| Some((place(from)?, place(to)?, bandwidth));
        JobPlatform {
            processors: ranks.iter().map(|&rank| self.processors[rank].clone()).collect(),
            bandwidth: self.bandwidth,
            links: self.links.iter().filter_map(link).collect(),
        }
    }

    /// Returns true if all speeds and bandwidths are known, so that they need not be measured.
    pub(crate) fn is_complete(&self) -> bool {
        self.bandwidth.is_some() && self.speeds().is_some()
    }

    /// Returns the relative speeds of the processors; an unknown one is taken as 1. `None` if no speed is known.
    pub(crate) fn speeds(&self) -> Option<Vec<f64>> {
        let is_known = self.processors.iter().any(|processors| processors.speed.is_some());
        let speeds = self.processors.iter().map(|processors| processors.speed.unwrap_or(1.0));
        is_known.then(|| speeds.collect())
    }
}

/// Compares two names of hosts, of which one may lack the domain.
fn is_same(one: &str, other: &str) -> bool {
    let is_short = |long: &str, short: &str| long.split_once('.').is_some_and(|(first, _)| first == short);
    one == other || is_short(one, other) || is_short(other, one)
}

impl FromStr for JobPlatform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let platform: JobPlatform = serde_json::from_str(text).map_err(|error| error.to_string())?;
        platform.fault().map_or(Ok(platform), |expected| Err(format!("expected {expected}")))
    }
}

impl fmt::Display for JobPlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processors(host: &str, count: usize, speed: f64) -> Processors {
        Processors { host: host.into(), count, speed: Some(speed), memory: None }
    }

    fn platform() -> JobPlatform {
        let processors = vec![processors("a.site", 2, 2.0), processors("b", 1, 1.0)];
        JobPlatform { processors, bandwidth: Some(1e9), links: vec![(0, 1, 1e6), (0, 0, 5e9)] }
    }

    #[test]
    fn ranks_get_the_processors_of_their_hosts() {
        let found = platform().of_ranks(&[Some("b"), Some("a"), Some("a"), Some("a")]).unwrap();
        assert_eq!(found.speeds(), Some(vec![1.0, 2.0, 2.0, 2.0]));
        assert_eq!(found.links[..4], [(1, 0, 1e6), (2, 0, 1e6), (3, 0, 1e6), (1, 2, 5e9)]);
        let part = found.part(&[3, 0]);
        assert_eq!((part.speeds(), part.links), (Some(vec![2.0, 1.0]), vec![(0, 1, 1e6)]));
        let two =
            JobPlatform { processors: vec![processors("a", 1, 2.0), processors("a", 1, 1.0)], ..platform() };
        assert_eq!(two.of_ranks(&[Some("a"); 3]).unwrap().speeds(), Some(vec![2.0, 1.0, 1.0]));
    }

    #[test]
    fn ranks_of_unnamed_hosts_get_processors_in_order() {
        let speeds = |hosts: &[Option<&str>]| platform().of_ranks(hosts)?.speeds();
        assert_eq!(speeds(&[Some("x"), Some("x"), Some("b")]), Some(vec![2.0, 2.0, 1.0]));
        assert_eq!(speeds(&[None; 1]), Some(vec![2.0]));
        assert_eq!(speeds(&[None; 4]), None, "there are three processors");
        let mut unknown = platform();
        unknown.processors.iter_mut().for_each(|processors| processors.speed = None);
        assert_eq!(unknown.of_ranks(&[None]).unwrap().speeds(), None);
    }

    #[test]
    fn text_is_checked() {
        assert_eq!(platform().to_string().parse(), Ok(platform()));
        for wrong in [
            "{}",
            r#"{"processors": []}"#,
            r#"{"processors": [{"host": "a", "count": 0}]}"#,
            r#"{"processors": [{"host": "a", "count": 1, "speed": 0}]}"#,
            r#"{"processors": [{"host": "a", "count": 1}], "bandwidth": -1}"#,
            r#"{"processors": [{"host": "a", "count": 1}], "links": [[0, 1, 5]]}"#,
        ] {
            assert!(wrong.parse::<JobPlatform>().is_err(), "{wrong}");
        }
    }
}
