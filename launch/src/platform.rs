//! Passes the speeds, memory and bandwidths of the hosts, from a hostfile or a platform file, to the ranks of a job.

use std::path::Path;

use armature::{JobPlatform, Processors};
use armature_files::regular;
use armature_planner::workflow::Cluster;
use armature_workflow_files::platform::{self, Kind};

use crate::error::LaunchError;
use crate::hostfile::Hostfile;

/// Environment variable from which the ranks read the speeds, memory and bandwidths of the hosts.
pub(crate) const VARIABLE: &str = "ARMATURE_PLATFORM";

/// Length in bytes of an environment variable with its name at which Linux refuses to start programs.
const LONGEST: usize = 128 << 10;

/// Returns the speeds, memory and bandwidths of the hosts as text for the ranks. The file `platform` takes precedence over the hostfile.
pub(crate) fn for_ranks(
    platform: Option<&Path>,
    hosts: Option<&Hostfile>,
) -> Result<Option<String>, LaunchError> {
    let found = match platform {
        Some(path) => Some(read(path)?),
        None => hosts.and_then(of_hostfile),
    };
    let Some(text) = found.map(|platform| platform.to_string()) else { return Ok(None) };
    if VARIABLE.len() + 1 + text.len() >= LONGEST {
        return Err(LaunchError::Usage(format!(
            "the platform of the job has {} bytes as text; expected at most {LONGEST} bytes: leave out connections with the common bandwidth",
            text.len()
        )));
    }
    Ok(Some(text))
}

/// Reads a platform file in TOML, or otherwise a hostfile.
pub(crate) fn read(path: &Path) -> Result<JobPlatform, LaunchError> {
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml")) {
        let unreadable = |source| LaunchError::Unreadable { what: "platform", file: path.into(), source };
        let bytes = regular::read(path).map_err(unreadable)?;
        let read = platform::read_with_kinds(&path.display().to_string(), &bytes);
        let (cluster, kinds) = read.map_err(LaunchError::Workflow)?;
        return Ok(of_cluster(&cluster, &kinds));
    }
    of_hostfile(&Hostfile::read(path)?).ok_or_else(|| {
        let file = path.display();
        LaunchError::Usage(format!("{file}: no host has speed= or memory=, which --platform needs"))
    })
}

/// Reads the hosts' speeds and memory from a hostfile; `None` if it has neither. The slots of a host share its memory equally.
fn of_hostfile(hosts: &Hostfile) -> Option<JobPlatform> {
    let hosts = hosts.hosts();
    let is_known = hosts.iter().any(|host| host.speed.is_some() || host.memory.is_some());
    let processors = hosts.iter().map(|host| Processors {
        host: host.name.clone(),
        count: host.slots,
        speed: host.speed,
        memory: host.memory.map(|memory| (memory / host.slots as u64).max(1)),
    });
    is_known.then(|| JobPlatform { processors: processors.collect(), ..JobPlatform::default() })
}

/// Converts a platform to the form in which the ranks get it. Equal processors of a host form a group, whose bandwidths are those of its first
/// processor.
fn of_cluster(cluster: &Cluster, kinds: &[Kind]) -> JobPlatform {
    let first = (0..kinds.len()).map(|kind| kinds[..kind].iter().map(|kind| kind.count).sum::<usize>());
    let first: Vec<usize> = first.collect();
    let processors = kinds.iter().zip(&first).map(|(kind, &first)| {
        let processor = &cluster.processors()[first];
        Processors {
            host: kind.name.clone(),
            count: kind.count,
            speed: Some(processor.speed),
            memory: Some(processor.memory.max(1)),
        }
    });
    let common = cluster.default_bandwidth();
    let pairs = (0..kinds.len()).flat_map(|from| (0..kinds.len()).map(move |to| (from, to)));
    let link = |(from, to): (usize, usize)| {
        let receiver = match from == to {
            true if kinds[from].count == 1 => return None,
            true => first[from] + 1,
            false => first[to],
        };
        let bandwidth = cluster.bandwidth(first[from], receiver);
        (bandwidth != common && bandwidth.is_finite()).then_some((from, to, bandwidth))
    };
    JobPlatform {
        processors: processors.collect(),
        bandwidth: Some(common).filter(|bandwidth| bandwidth.is_finite()),
        links: pairs.filter_map(link).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_hostfile_reach_the_ranks() {
        let of = |text: &str| for_ranks(None, Some(&Hostfile::parse("hosts", text).unwrap())).unwrap();
        let platform: JobPlatform = of("a slots=4 speed=2 memory=8GiB\nb\n").unwrap().parse().unwrap();
        let fast = Processors { host: "a".into(), count: 4, speed: Some(2.0), memory: Some(2 << 30) };
        let other = Processors { host: "b".into(), count: 1, speed: None, memory: None };
        assert_eq!(platform.processors, [fast, other]);
        assert_eq!((of("a slots=4\n"), for_ranks(None, None).unwrap()), (None, None));
    }

    #[test]
    fn platform_file_of_the_probe_reaches_the_ranks() {
        let file = "bandwidth = 1e9\n\n[[processor]]\nname = \"n-0\"\ncount = 2\nspeed = 0.5\nmemory = \"2 GiB\"\n\n\
                    [[processor]]\nname = \"n-1\"\nmemory = \"1 GiB\"\n\n\
                    [[link]]\nfrom = \"n-0-0\"\nto = \"n-1\"\nbandwidth = 1e6\n";
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("platform.toml");
        std::fs::write(&path, file).unwrap();
        let hosts = Hostfile::parse("hosts", "a speed=7\n").unwrap();
        let platform: JobPlatform = for_ranks(Some(&path), Some(&hosts)).unwrap().unwrap().parse().unwrap();
        let two = Processors { host: "n-0".into(), count: 2, speed: Some(0.5), memory: Some(2 << 30) };
        let one = Processors { host: "n-1".into(), count: 1, speed: Some(1.0), memory: Some(1 << 30) };
        assert_eq!(platform.processors, [two, one], "the file counts, not the hostfile");
        assert_eq!((platform.bandwidth, platform.links), (Some(1e9), vec![(0, 1, 1e6)]));
        let hosts = directory.path().join("hosts");
        std::fs::write(&hosts, "a slots=2\n").unwrap();
        let error = for_ranks(Some(&hosts), None).unwrap_err().to_string();
        assert!(error.contains("no host has speed= or memory="), "{error}");
    }

    #[test]
    fn platform_that_is_too_long_for_a_variable_is_refused() {
        let hosts: String = (0..2000).map(|host| format!("host-{host:060} speed=1\n")).collect();
        let error = for_ranks(None, Some(&Hostfile::parse("hosts", &hosts).unwrap())).unwrap_err();
        assert!(error.to_string().contains("at most 131072 bytes"), "{error}");
    }
}
