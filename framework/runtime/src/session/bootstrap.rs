//! Start-up: every rank registers with rank 0, which compares the rank's program and settings with its own, and answers with the placement
//! of the rank on its node.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use log::Level;
use serde::{Deserialize, Serialize};

use super::agreement::Announcement;
use super::config::Config;
use super::placement::{Placement, Sharing, places, sharing, table};
use super::platform::JobPlatform;
use super::program::Program;
use crate::comm::Capabilities;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Control, Message};
use crate::comm::process::Process;
use crate::error::{Error, ErrorKind, Result};
use crate::job_status::{attempt_directory, join_attempt};
use crate::session::topology::{self, Topology};

/// Time for which an idle rank polls for messages in a loop before it sleeps, if it has its own core.
const SPIN: Duration = Duration::from_micros(300);

/// First message of a rank to rank 0: the rank's settings, node and program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Register {
    pub(super) version: String,
    pub(super) transport: String,
    /// [`Config::split_bytes`]: sender and receiver of a message must split it into the same pieces.
    pub(super) split_bytes: usize,
    /// [`Config::peer_limit`]: the period of a rank's heartbeats follows from this limit.
    pub(super) peer_limit: Duration,
    /// Node of the rank. `None` for simulated ranks: all of them run on this machine and not on their simulated hosts. The name of the machine
    /// and the start time of the simulation would also change the length of the message, and with it simulated time.
    pub(super) node: Option<Node>,
}

/// Part of a rank's registration: the node on which it runs, its process, and its program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Node {
    pub(super) topology: Topology,
    pub(super) process: Process,
    /// Program of the rank. `None` if ranks are threads of one process, and on rank 0 after the comparison of programs.
    pub(super) program: Option<Program>,
}

impl Register {
    fn own(transport: String, size: usize, capabilities: Capabilities, config: &Config) -> Self {
        let is_compared = capabilities.processes && size > 1;
        let node = || Node {
            topology: Topology::of_this_node(),
            process: Process::own(),
            program: is_compared.then(Program::own),
        };
        Register {
            version: env!("CARGO_PKG_VERSION").to_string(),
            transport,
            split_bytes: config.split_bytes,
            peer_limit: config.peer_limit,
            node: capabilities.real_time.then(node),
        }
    }

    fn settings(&self) -> Announcement {
        Announcement::new("runs")
            .with("ARMATURE_SPLIT_BYTES", self.split_bytes)
            .with("ARMATURE_PEER_SECONDS", self.peer_limit.as_secs_f64())
    }
}

/// Runs the start-up on every rank: registers the ranks with rank 0, binds them to cores if configured, and logs the table of ranks on rank 0.
/// `attempt` is the number of the [attempt](crate::observe::newest_attempt) that rank 0 has reserved for the log of events, 0 if events are not
/// logged.
///
/// Returns the directory of the attempt, the platform with one processor for each rank, and, on rank 0, the groups of ranks that share cores.
pub(super) fn exchange(
    endpoint: &mut Endpoint,
    config: &Config,
    attempt: u32,
) -> Result<(Sharing, Option<PathBuf>, Option<JobPlatform>)> {
    let rank = endpoint.rank();
    let mine =
        Register::own(endpoint.transport().describe(), endpoint.size(), endpoint.capabilities(), config);
    let (mut placement, sharing, attempt, platform) = match rank {
        0 => {
            let (placement, sharing, platform) = place_ranks(endpoint, config, mine, attempt)?;
            (placement, sharing, attempt, platform)
        }
        _ => {
            let (placement, attempt, platform) = register_with_root(endpoint, config, &mine)?;
            (placement, Sharing::default(), attempt, platform)
        }
    };
    let events = match config.events.as_deref().filter(|_| attempt > 0) {
        Some(directory) if rank == 0 => Some(attempt_directory(directory, attempt)),
        Some(directory) => Some(join_attempt(directory, attempt, rank).map_err(|e| e.at_rank(rank))?),
        None => None,
    };
    if let Some(units) = &placement.units {
        topology::bind_current_thread(units).map_err(|e| e.at_rank(endpoint.rank()))?;
    }
    // In a group of ranks, the settings limit the cores of each rank, because ranks outside of the group may use cores of the node.
    placement.cores = config.cores.map_or(placement.cores, |cores| cores.min(placement.cores));
    endpoint.set_spin(if placement.has_shared_cores() { Duration::ZERO } else { SPIN });
    endpoint.set_cores(placement.cores);
    Ok((sharing, events, platform))
}

fn place_ranks(
    endpoint: &mut Endpoint,
    config: &Config,
    mine: Register,
    attempt: u32,
) -> Result<(Placement, Sharing, Option<JobPlatform>)> {
    let size = endpoint.size();
    let mut registered: Vec<Option<Register>> = vec![None; size];
    registered[0] = Some(mine.clone());
    let registered = RefCell::new(registered);
    let mut others = BTreeSet::new();
    endpoint.wait_until(
        config.peer_limit,
        |endpoint, message| {
            let mut registered = registered.borrow_mut();
            if let Some(message) = message.filter(|l| l.is(Control::Register)) {
                let from = message.from;
                let mut register = read(message)?;
                if check(&mut register, &mine, config).map_err(|error| error.at_rank(from))? {
                    others.insert(from);
                }
                if let Some(node) = &register.node {
                    endpoint.know(from, node.process.clone());
                }
                registered[from] = Some(register);
            }
            Ok(registered.iter().all(Option::is_some).then_some(()))
        },
        || {
            let registered = registered.borrow();
            let silent: Vec<usize> = (0..size).filter(|&r| registered[r].is_none()).collect();
            format!("for rank(s) {silent:?} to start")
        },
    )?;
    // Other ranks may write a failure to the job status, so rank 0 records the start of the job there before it answers them.
    endpoint.started()?;
    if !others.is_empty() {
        log::warn!(
            "rank(s) {others:?} run another build than rank 0, which ARMATURE_CHECK_BUILD=off allows: results are right only if both builds \
             have the same types in messages"
        );
    }
    let registered: Vec<Register> = registered.into_inner().into_iter().flatten().collect();
    let transport = registered[0].transport.clone();
    let nodes: Vec<Node> = registered.into_iter().filter_map(|register| register.node).collect();
    let known = nodes.len() == size;
    let topologies: Vec<&Topology> = nodes.iter().map(|node| &node.topology).collect();
    let places = if known { places(&topologies, config.bind) } else { vec![Placement::UNKNOWN; size] };
    if size > 1 {
        // Ranks that are threads of one process all have the same placement, so the table of ranks is logged only at level `debug`.
        let Capabilities { processes, real_time, .. } = endpoint.capabilities();
        let level = if real_time && !processes { Level::Debug } else { Level::Info };
        let table = if known { table(&topologies, &places) } else { String::new() };
        log::log!(level, "{size} ranks, {transport}{table}");
    }
    let hosts = || (0..size).map(|rank| Some(topologies.get(rank)?.host.as_str())).collect::<Vec<_>>();
    let platform = config.platform.as_ref().and_then(|platform| platform.of_ranks(&hosts()));
    if platform.is_none() && config.platform.is_some() {
        log::warn!(
            "speeds and memory of the hosts are ignored: the platform has neither all hosts of the {size} ranks nor as many processors"
        );
    }
    // Ranks other than 0 use the platform only to plan in groups of ranks. A bandwidth for each pair of ranks would be a long message, so
    // bandwidths that differ are not sent but measured by the ranks of the group.
    let for_others = platform.clone().map(|platform| JobPlatform {
        bandwidth: platform.bandwidth.filter(|_| platform.links.is_empty()),
        links: Vec::new(),
        ..platform
    });
    let root = if known { nodes[0].process.clone() } else { Process::default() };
    for (to, place) in places.iter().enumerate().skip(1) {
        // The number of the attempt (start of the job) is encoded with a fixed length, because simulated time depends on the length of the
        // message.
        endpoint.send(to, Control::Placement, &(place, &root, attempt.to_le_bytes(), &for_others))?;
    }
    let sharing = sharing(&topologies, &places);
    Ok((places[0].clone(), sharing, platform))
}

fn register_with_root(
    endpoint: &mut Endpoint,
    config: &Config,
    mine: &Register,
) -> Result<(Placement, u32, Option<JobPlatform>)> {
    endpoint.send(0, Control::Register, mine)?;
    type Answer = (Placement, Process, [u8; 4], Option<JobPlatform>);
    let (placement, root, attempt, platform): Answer = endpoint.wait_until(
        config.peer_limit,
        |_, message| match message.filter(|l| l.is(Control::Placement)) {
            Some(message) => message.expect(Control::Placement)?.value().map(Some),
            None => Ok(None),
        },
        || "for rank 0 to report that all ranks have started".to_string(),
    )?;
    endpoint.know(0, root);
    Ok((placement, u32::from_le_bytes(attempt), platform))
}

/// Parses the first message of a rank. Another version of armature may use another format.
fn read(message: Message) -> Result<Register> {
    let from = message.from;
    message.expect(Control::Register)?.value().map_err(|error| {
        let text = format!(
            "sent an invalid registration; rank 0 runs armature {} ({}): start the same program on every rank",
            env!("CARGO_PKG_VERSION"),
            error.message()
        );
        Error::new(ErrorKind::Config, text).at_rank(from)
    })
}

/// Compares the registration of a rank with that of rank 0, and then removes the description of the program from the rank's registration.
/// Returns true if the rank runs another build and [`Config::check_build`] is off.
///
/// # Errors
/// [`ErrorKind::Config`] if rank 0 could misinterpret messages of the rank.
fn check(register: &mut Register, mine: &Register, config: &Config) -> Result<bool> {
    let version = env!("CARGO_PKG_VERSION");
    let refuse = |text: String| Err(Error::new(ErrorKind::Config, text));
    if register.version != version {
        let theirs = &register.version;
        return refuse(format!(
            "runs armature {theirs}, rank 0 runs {version}: start the same program on every rank"
        ));
    }
    let mut is_other_build = false;
    if let (Some(node), Some(own)) = (&mut register.node, &mine.node)
        && let (Some(program), Some(root)) = (node.program.take(), &own.program)
    {
        if config.check_build {
            program.check_build(&node.topology.host, (root, &own.topology.host))?;
        }
        if config.check_arguments {
            program.check_arguments(root)?;
        }
        is_other_build = program.is_other_build(root);
    }
    match register.settings().differs_from(&mine.settings()) {
        Some(difference) => refuse(format!("{difference}: set the same value on every rank")),
        None => Ok(is_other_build),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    fn node(host: &str) -> Node {
        let topology = Topology { host: host.into(), ..Topology::of_this_node() };
        Node { topology, process: Process::own(), program: None }
    }

    fn register(node: Option<Node>) -> Register {
        let (version, transport) = (env!("CARGO_PKG_VERSION").into(), "mpi".into());
        let Config { split_bytes, peer_limit, .. } = Config::new();
        Register { version, transport, split_bytes, peer_limit, node }
    }

    #[test]
    fn different_version_is_refused() {
        let mut other = Register { version: "0.0.0".into(), ..register(None) };
        let error = check(&mut other, &register(None), &Config::new()).unwrap_err();
        assert!(error.to_string().starts_with("runs armature 0.0.0, rank 0 runs"), "{error}");
        let body = b"something else"[..].into();
        let error =
            read(Message { from: 3, code: Control::Register as u8, body, parts: Vec::new() }).unwrap_err();
        assert_eq!((error.kind(), error.rank()), (ErrorKind::Config, Some(3)));
    }

    #[test]
    fn differing_settings_are_named_with_both_values() {
        let differs = |other: Register| {
            check(&mut other.clone(), &register(None), &Config::new()).unwrap_err().to_string()
        };
        let text = differs(Register { split_bytes: 17, ..register(None) });
        assert_eq!(
            text,
            "runs with ARMATURE_SPLIT_BYTES 17, but rank 0 with ARMATURE_SPLIT_BYTES 67108864: set the same value on \
             every rank"
        );
        let text = differs(Register { peer_limit: Duration::from_millis(1_500), ..register(None) });
        assert!(
            text.starts_with(
                "runs with ARMATURE_PEER_SECONDS 1.5, but rank 0 with ARMATURE_PEER_SECONDS 120:"
            ),
            "{text}"
        );
    }

    #[test]
    fn different_program_is_refused_unless_allowed() {
        let of = |build: &str, arguments: &str| {
            let file = format!("/bin/{build}");
            let checksum = crc32fast::hash(arguments.as_bytes());
            let program = Program { file, build: Some(build.into()), arguments: arguments.into(), checksum };
            register(Some(Node { program: Some(program), ..node("a") }))
        };
        let mine = of("v1", "\"8\"");
        let compare = |other: Register, config: Config| check(&mut other.clone(), &mine, &config);
        assert!(!compare(mine.clone(), Config::new()).unwrap());
        assert!(!compare(of("v1", "\"9\""), Config::new().check_arguments(false)).unwrap());
        assert!(compare(of("v2", "\"8\""), Config::new().check_build(false)).unwrap(), "rank 0 warns");
        let error = compare(of("v1", "\"9\""), Config::new().check_build(false)).unwrap_err();
        assert!(error.message().contains("with \"9\" as argument 1, but rank 0 with \"8\""), "{error}");
        let error = compare(of("v2", "\"8\""), Config::new().check_arguments(false)).unwrap_err();
        assert!(error.message().contains("ARMATURE_CHECK_BUILD=off"), "{error}");
    }

    #[test]
    fn registration_of_simulated_ranks_is_machine_independent() {
        let own = |real_time| {
            let ranks_may_end = false;
            let capabilities = Capabilities { processes: real_time, real_time, threads: true, ranks_may_end };
            Register::own("mpi".into(), 2, capabilities, &Config::new())
        };
        let same = wire::to_bytes(&register(None)).unwrap();
        assert_eq!(wire::to_bytes(&own(false)).unwrap(), same);
        assert!(own(true).node.is_some_and(|node| node.program.is_some()), "others do");
    }
}
