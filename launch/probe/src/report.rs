//! Reports of the ranks of armature-probe about their hosts, which `armature doctor` checks.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use armature::{BoxError, Session, Topology};
use serde::{Deserialize, Serialize};

use crate::links;

/// First word of the output line with the reports of all ranks, by which `armature doctor` recognises this line.
const LINE: &str = "armature-probe";

/// Time limit for a TCP connection to rank 0. Between hosts of a cluster a connection takes milliseconds.
const CONNECT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Report {
    rank: usize,
    size: usize,
    host: String,
    /// Random number that the kernel chose when the host was started. Two hosts with the same name differ in this number.
    boot: String,
    cores: Vec<usize>,
    memory: u64,
    threads: String,
    start_s: f64,
    clock_s: f64,
    connects: bool,
    shares_directory: bool,
}

pub(crate) fn gather(session: &mut Session, start: Duration) -> Result<Option<String>, BoxError> {
    let topology = Topology::of_this_node();
    let connects = connects(session, &topology.host)?;
    let shares_directory = shares_directory(session)?;
    let clock_s = links::clock_offset(session)?;
    let report = Report {
        rank: session.rank(),
        size: session.size(),
        boot: std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into(),
        cores: topology.processing_units().collect(),
        memory: topology.memory_available,
        threads: format!("{:?}", armature::mpi::environment::threading_support()).to_lowercase(),
        start_s: start.as_secs_f64(),
        host: topology.host,
        clock_s,
        connects,
        shares_directory,
    };
    let Some(reports) = session.gather(serde_json::to_string(&report)?)? else { return Ok(None) };
    Ok(Some(format!("{LINE} [{}]\n", reports.join(","))))
}

fn connects(session: &mut Session, host: &str) -> Result<bool, BoxError> {
    let listener = if session.is_root() { Some(TcpListener::bind(("0.0.0.0", 0))?) } else { None };
    let port = listener.as_ref().map(|listener| listener.local_addr().map(|at| at.port())).transpose()?;
    let (host, port) = session.broadcast(port.map(|port| (host.to_string(), port)))?;
    let connect = || {
        let mut addresses = (host.as_str(), port).to_socket_addrs().ok()?;
        addresses.find_map(|address| TcpStream::connect_timeout(&address, CONNECT).ok())
    };
    // Rank 0 does not call `accept`: the kernel completes a connection to a listening port without it.
    let connects = session.is_root() || connect().is_some();
    // Rank 0 keeps the port open until all ranks have tried to connect.
    session.barrier()?;
    Ok(connects)
}

/// Returns true if this rank sees a file that rank 0 creates in its current directory. If rank 0 cannot create the file,
/// returns true on all ranks.
fn shares_directory(session: &mut Session) -> Result<bool, BoxError> {
    let mine = session.is_root().then(|| format!(".armature-probe-{}", std::process::id()));
    let is_made = match &mine {
        Some(name) => std::fs::write(name, "").is_ok(),
        None => false,
    };
    let (name, is_made) = session.broadcast(mine.clone().map(|name| (name, is_made)))?;
    let is_seen = !is_made || Path::new(&name).exists();
    session.barrier()?;
    if let Some(name) = mine.filter(|_| is_made) {
        match std::fs::remove_file(&name) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                return Err(format!("cannot remove {name}: {e}").into());
            }
            _ => {}
        }
    }
    Ok(is_seen)
}
