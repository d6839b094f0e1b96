//! Start-up: every rank registers with rank 0, which compares its program and settings with its own, and answers with the rank's
//! placement on its node.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use armature_planner::SharedCores;
use log::Level;
use serde::{Deserialize, Serialize};

use super::agreement::Announcement;
use super::config::{Bind, Config};
use super::program::Program;
use crate::comm::Capabilities;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::Control;
use crate::comm::process::Process;
use crate::error::{Error, ErrorKind, Result};
use crate::job_status::{attempt_directory, join_attempt};
use crate::session::topology::{self, Core, Topology};
use crate::wire;

/// How long an idle rank spins before it sleeps, where its core is its own.
const SPIN: Duration = Duration::from_micros(300);

/// What a rank tells of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Register {
    pub(super) version: String,
    pub(super) transport: String,
    /// [`Config::split_bytes`]: both sides of a message must expect the same pieces.
    pub(super) split_bytes: usize,
    /// [`Config::peer_limit`]: the period of heartbeats follows from it.
    pub(super) peer_limit: Duration,
    /// None of simulated ranks: they are all on this machine, which says nothing about theirs. And what it is called, or
    /// when the simulation was started, would make the message longer or shorter, and with it simulated time.
    pub(super) node: Option<Node>,
}

/// Where a rank is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Node {
    pub(super) topology: Topology,
    pub(super) process: Process,
    /// `None` where ranks are threads of one process, and on rank 0 once the program was compared.
    pub(super) program: Option<Program>,
}

impl Register {
    /// What a rank of `size` ranks registers.
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

    /// Settings that must be equal on all ranks.
    fn settings(&self) -> Announcement {
        Announcement::new("runs")
            .with("ARMATURE_SPLIT_BYTES", self.split_bytes)
            .with("ARMATURE_PEER_SECONDS", self.peer_limit.as_secs_f64())
    }
}

/// What a rank learns about its node, and where it is bound.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Placement {
    /// True when the node has fewer cores for its ranks than ranks.
    pub(super) shared_cores: bool,
    /// Processing units to bind this rank to; `None` leaves it as it is.
    pub(super) units: Option<Vec<usize>>,
}

/// Groups of ranks that have fewer cores together than they are.
pub(crate) type Sharing = Vec<SharedCores>;

/// Runs the exchange on every rank, binds ranks where asked to, and logs the table of ranks on rank 0. `attempt` is the number of the
/// [attempt](crate::observe::newest_attempt) that rank 0 has taken for the log of events, 0 if events are not logged.
///
/// Returns, on rank 0, which ranks share cores; and the directory of the attempt.
pub(super) fn exchange(
    endpoint: &mut Endpoint,
    config: &Config,
    attempt: u32,
) -> Result<(Sharing, Option<PathBuf>)> {
    let rank = endpoint.rank();
    let mine =
        Register::own(endpoint.transport().describe(), endpoint.size(), endpoint.capabilities(), config);
    let (placement, sharing, attempt) = match rank {
        0 => {
            let (placement, sharing) = place_ranks(endpoint, config, mine, attempt)?;
            (placement, sharing, attempt)
        }
        _ => {
            let (placement, attempt) = register_with_root(endpoint, config, &mine)?;
            (placement, Sharing::default(), attempt)
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
    endpoint.set_spin(if placement.shared_cores { Duration::ZERO } else { SPIN });
    Ok((sharing, events))
}

/// The part of rank 0.
fn place_ranks(
    endpoint: &mut Endpoint,
    config: &Config,
    mine: Register,
    attempt: u32,
) -> Result<(Placement, Sharing)> {
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
                let mut register = read(from, &message.body)?;
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
    // Before the others go on, and may have something to say themselves.
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
    let places = if known { places(&nodes, config.bind) } else { vec![Placement::default(); size] };
    if size > 1 {
        // Ranks that are threads of one process are all in the same place, which nobody needs to be told.
        let level = if endpoint.capabilities().returns_errors { Level::Debug } else { Level::Info };
        let table = if known { table(&nodes, &places) } else { String::new() };
        log::log!(level, "{size} ranks, {transport}{table}");
    }
    let root = if known { nodes[0].process.clone() } else { Process::default() };
    for (to, place) in places.iter().enumerate().skip(1) {
        // Of the same length whatever the number is: simulated time depends on it.
        endpoint.send(to, Control::Placement, &(place, &root, attempt.to_le_bytes()))?;
    }
    let sharing = sharing(&nodes, &places);
    Ok((places[0].clone(), sharing))
}

/// Groups of ranks of a node that may run on the same cores, where they are more than these cores. Ranks that are bound
/// to other cores of the node are no concern of theirs.
fn sharing(nodes: &[Node], places: &[Placement]) -> Sharing {
    let mut groups: Vec<(&str, BTreeSet<usize>, Vec<usize>)> = Vec::new();
    for (rank, node) in nodes.iter().enumerate().filter(|&(rank, _)| places[rank].shared_cores) {
        let host = node.topology.host.as_str();
        // One processing unit stands for its core: two threads of a core are one core.
        let allowed =
            places[rank].units.clone().unwrap_or_else(|| node.topology.processing_units().collect());
        let core_of = |c: &Core| c.processing_units.iter().any(|u| allowed.contains(u));
        let mut cores: BTreeSet<usize> =
            node.topology.cores.iter().filter(|c| core_of(c)).map(|c| c.processing_units[0]).collect();
        let mut ranks = vec![rank];
        // All groups that this rank touches become one.
        groups.retain(|(of, theirs, members)| {
            let apart = *of != host || theirs.is_disjoint(&cores);
            if !apart {
                cores.extend(theirs);
                ranks.extend(members);
            }
            apart
        });
        ranks.sort_unstable();
        groups.push((host, cores, ranks));
    }
    groups.retain(|(_, cores, ranks)| ranks.len() > cores.len());
    let group = |(_, cores, ranks): (&str, BTreeSet<usize>, Vec<usize>)| SharedCores {
        processors: ranks,
        cores: cores.len() as f64,
    };
    groups.into_iter().map(group).collect()
}

/// The part of every other rank. Returns also the number of the attempt.
fn register_with_root(endpoint: &mut Endpoint, config: &Config, mine: &Register) -> Result<(Placement, u32)> {
    endpoint.send(0, Control::Register, mine)?;
    let (placement, root, attempt): (Placement, Process, [u8; 4]) = endpoint.wait_until(
        config.peer_limit,
        |_, message| match message.filter(|l| l.is(Control::Placement)) {
            Some(message) => wire::from_bytes(&message.body).map(Some),
            None => Ok(None),
        },
        || "for rank 0 to say that all ranks have started".to_string(),
    )?;
    endpoint.know(0, root);
    Ok((placement, u32::from_le_bytes(attempt)))
}

/// Reads what a rank has registered. Another version of armature may write it in another form.
fn read(from: usize, body: &[u8]) -> Result<Register> {
    wire::from_bytes(body).map_err(|error| {
        let text = format!(
            "does not register as armature {} does, which rank 0 runs ({}): start the same program on every rank",
            env!("CARGO_PKG_VERSION"),
            error.message()
        );
        Error::new(ErrorKind::Config, text).at_rank(from)
    })
}

/// Compares what a rank has registered with what rank 0 would, and drops its program. Returns true if the rank runs another build,
/// which is allowed.
///
/// # Errors
/// [`ErrorKind::Config`] if messages of the rank may mean something else to rank 0.
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

/// Who shares a node with whom, and which cores each rank gets.
fn places(nodes: &[Node], bind: Bind) -> Vec<Placement> {
    let mut hosts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (rank, node) in nodes.iter().enumerate() {
        hosts.entry(&node.topology.host).or_default().push(rank);
    }
    let mut places = vec![Placement::default(); nodes.len()];
    for ranks in hosts.values() {
        let topologies = || ranks.iter().map(|&r| &nodes[r].topology);
        let masks: Vec<BTreeSet<usize>> = topologies().map(|t| t.processing_units().collect()).collect();
        let bound = topology::launcher_has_bound(&masks);
        // All cores that any rank of the node may use, each once.
        let cores: BTreeMap<usize, &Core> =
            topologies().flat_map(|t| &t.cores).map(|c| (c.processing_units[0], c)).collect();
        let cores: Vec<Core> = cores.into_values().cloned().collect();
        for (local, &rank) in ranks.iter().enumerate() {
            let units = topology::cores_of_rank(ranks.len(), local, &cores, bound || bind == Bind::None);
            places[rank] = Placement { shared_cores: ranks.len() > cores.len(), units };
        }
    }
    places
}

/// The start-up table, from a new line on: host, cores and memory of every rank.
fn table(nodes: &[Node], places: &[Placement]) -> String {
    let mut text =
        format!("\n{:>5}  {:<20} {:<16} {:>6}  {:>10}", "rank", "host", "may run on", "cores", "memory");
    for (rank, (node, place)) in nodes.iter().zip(places).enumerate() {
        let t = &node.topology;
        let units = place.units.clone().unwrap_or_else(|| t.processing_units().collect());
        text += &format!(
            "\n{rank:>5}  {:<20} {:<16} {:>6}  {:>6.1} GiB",
            armature_text::shown(&t.host),
            ranges(units),
            t.cores.len(),
            t.memory_total as f64 / f64::from(1 << 30)
        );
    }
    if places.iter().any(|p| p.shared_cores) {
        text += "\n       ranks share cores: idle ones sleep instead of spinning";
    }
    text
}

/// Numbers as people write them: `0-3,8`.
fn ranges(mut units: Vec<usize>) -> String {
    units.sort_unstable();
    let runs = units.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str) -> Node {
        let topology = Topology { host: host.into(), ..Topology::of_this_node() };
        Node { topology, process: Process::own(), program: None }
    }

    #[test]
    fn ranks_of_a_node_share_its_cores_and_others_do_not_count() {
        let cores = Topology::of_this_node().cores.len();
        let mut nodes: Vec<Node> = (0..cores).map(|_| node("a")).collect();
        nodes.push(node("b"));
        let places = places(&nodes, Bind::Core);
        assert!(places.iter().all(|p| !p.shared_cores && p.units.is_some()));
        nodes.push(node("a"));
        let places = super::places(&nodes, Bind::Core);
        assert!(places[0].shared_cores && places[0].units.is_none());
        assert!(!places[cores].shared_cores);
        let text = table(&nodes, &places);
        assert_eq!(text.trim_start().lines().count(), 1 + nodes.len() + 1, "{text}");
    }

    #[test]
    fn ranks_bound_to_other_cores_of_a_node_do_not_share() {
        let on = |core: usize| {
            let cores = vec![Core { package: 0, processing_units: vec![core] }];
            let mut node = node("a");
            node.topology.cores = cores;
            node
        };
        let place = Placement { shared_cores: true, units: None };
        let nodes = [on(0), on(1), on(0), on(2), on(1)];
        let groups = sharing(&nodes, &vec![place; 5]);
        let on_one = |ranks: [usize; 2]| SharedCores { processors: ranks.to_vec(), cores: 1.0 };
        assert_eq!(groups, [on_one([0, 2]), on_one([1, 4])], "rank 3 has a core of its own");
    }

    fn register(node: Option<Node>) -> Register {
        let (version, transport) = (env!("CARGO_PKG_VERSION").into(), "mpi".into());
        let Config { split_bytes, peer_limit, .. } = Config::new();
        Register { version, transport, split_bytes, peer_limit, node }
    }

    #[test]
    fn another_version_is_refused() {
        let mut other = Register { version: "0.0.0".into(), ..register(None) };
        let error = check(&mut other, &register(None), &Config::new()).unwrap_err();
        assert!(error.to_string().starts_with("runs armature 0.0.0, rank 0 runs"), "{error}");
        let error = read(3, b"something else").unwrap_err();
        assert_eq!((error.kind(), error.rank()), (ErrorKind::Config, Some(3)));
    }

    #[test]
    fn settings_that_differ_are_named_with_both_values() {
        let differs = |other: Register| {
            check(&mut other.clone(), &register(None), &Config::new()).unwrap_err().to_string()
        };
        let text = differs(Register { split_bytes: 17, ..register(None) });
        assert_eq!(
            text,
            "runs with ARMATURE_SPLIT_BYTES 17, where rank 0 does so with ARMATURE_SPLIT_BYTES 67108864: set the same value on every rank"
        );
        let text = differs(Register { peer_limit: Duration::from_millis(1_500), ..register(None) });
        assert!(
            text.starts_with(
                "runs with ARMATURE_PEER_SECONDS 1.5, where rank 0 does so with ARMATURE_PEER_SECONDS 120:"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_program_that_differs_is_refused_unless_it_may() {
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
        assert!(
            error.message().contains("with \"9\" as argument 1, where rank 0 was started with \"8\""),
            "{error}"
        );
        let error = compare(of("v2", "\"8\""), Config::new().check_arguments(false)).unwrap_err();
        assert!(error.message().contains("ARMATURE_CHECK_BUILD=off"), "{error}");
    }

    #[test]
    fn simulated_ranks_register_nothing_that_depends_on_this_machine_or_the_day() {
        let own = |real_time| {
            let ranks_may_end = false;
            let capabilities = Capabilities {
                processes: real_time,
                returns_errors: false,
                real_time,
                threads: true,
                ranks_may_end,
            };
            Register::own("mpi".into(), 2, capabilities, &Config::new())
        };
        let same = wire::to_bytes(&register(None)).unwrap();
        assert_eq!(wire::to_bytes(&own(false)).unwrap(), same);
        assert!(own(true).node.is_some_and(|node| node.program.is_some()), "others do");
    }

    #[test]
    fn unit_numbers_are_shown_as_ranges() {
        assert_eq!(ranges(vec![8, 0, 1, 2, 3]), "0-3,8");
        assert_eq!(ranges(vec![]), "");
    }
}
