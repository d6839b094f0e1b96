//! Reads a workflow, and the platform (processors, memory and network) for which it is planned.

use std::path::Path;

use armature_files::regular;
use armature_planner::workflow::{Cluster, Processor};
use armature_workflow_files::{Description, Format, platform, read_as};

use crate::error::LaunchError;
use crate::hostfile::Hostfile;

pub(crate) fn workflow(path: &Path) -> Result<(Description, Format), LaunchError> {
    let bytes = bytes("workflow", path)?;
    let name = path.display().to_string();
    let format = Format::of(&name, &bytes).map_err(LaunchError::Workflow)?;
    Ok((read_as(format, &name, &bytes).map_err(LaunchError::Workflow)?, format))
}

fn bytes(what: &'static str, path: &Path) -> Result<Vec<u8>, LaunchError> {
    regular::read(path).map_err(|source| LaunchError::Unreadable { what, file: path.into(), source })
}

pub(super) fn platform(path: &Path) -> Result<Cluster, LaunchError> {
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml")) {
        let bytes = bytes("platform", path)?;
        return platform::read(&path.display().to_string(), &bytes).map_err(LaunchError::Workflow);
    }
    cluster(&Hostfile::read(path)?, path)
}

/// Makes each slot in a hostfile a processor with an equal share of its host's memory. Hostfiles have no bandwidths, so that transfers take no time.
fn cluster(hosts: &Hostfile, path: &Path) -> Result<Cluster, LaunchError> {
    let mut processors = Vec::new();
    for host in hosts.hosts() {
        let Some(memory) = host.memory else {
            return Err(LaunchError::NoMemory { host: host.name.clone(), file: path.into() });
        };
        let part = memory / host.slots as u64;
        for slot in 0..host.slots {
            let name = if host.slots == 1 { host.name.clone() } else { format!("{}:{slot}", host.name) };
            processors.push(Processor::new(name, host.speed.unwrap_or(1.0), part));
        }
    }
    let cluster =
        Cluster::new(processors, f64::INFINITY).and_then(|cluster| cluster.with_disk(Cluster::DISK));
    cluster.map_err(LaunchError::Plan)
}
