//! Start-up: every rank registers with rank 0, which compares the rank's program and settings with its own, and answers with the placement
//! of the rank on its node.

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

/// Time for which an idle rank spins before it sleeps, if it has its own core.
const SPIN: Duration = Duration::from_micros(300);

/// Registration of a rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Register {
    pub(super) version: String,
    pub(super) transport: String,
    /// [`Config::split_bytes`]: both sides of a message must expect the same pieces.
    pub(super) split_bytes: usize,
    /// [`Config::peer_limit`]: the period of heartbeats follows from it.
    pub(super) peer_limit: Duration,
    /// `None` for simulated ranks: all of them run on this machine and not on their simulated hosts. The name of the machine and the start time of
    /// the simulation would also change the length of the message, and with it simulated time.
    pub(super) node: Option<Node>,
}

/// Node and process of a rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Node {
    pub(super) topology: Topology,
    pub(super) process: Process,
    /// `None` if ranks are threads of one process, and on rank 0 after the comparison of programs.
    pub(super) program: Option<Program>,
}

impl Register {
    /// Returns the registration of this rank, one of `size` ranks.
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

/// Placement of a rank on its node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Placement {
    /// Number of cores that the rank may use without taking them from other ranks, 0 if the node has fewer cores than ranks. A node of
    /// which nothing is known counts as one with a core for each rank.
    pub(super) cores: usize,
    /// Processing units to which the rank is bound; `None` leaves the rank's binding unchanged.
    pub(super) units: Option<Vec<usize>>,
}

impl Placement {
    /// Placement of a rank of which nothing is known.
    const UNKNOWN: Placement = Placement { cores: 1, units: None };

    fn has_shared_cores(&self) -> bool {
        self.cores == 0
    }
}

/// Groups of ranks with fewer cores than ranks.
pub(crate) type Sharing = Vec<SharedCores>;

/// Runs the exchange on every rank, binds ranks if configured, and logs the table of ranks on rank 0. `attempt` is the number of the
/// [attempt](crate::observe::newest_attempt) that rank 0 has reserved for the log of events, 0 if events are not logged.
///
/// Returns the directory of the attempt and, on rank 0, the groups of ranks that share cores.
pub(super) fn exchange(
    endpoint: &mut Endpoint,
    config: &Config,
    attempt: u32,
) -> Result<(Sharing, Option<PathBuf>)> {
    let rank = endpoint.rank();
    let mine =
        Register::own(endpoint.transport().describe(), endpoint.size(), endpoint.capabilities(), config);
    let (mut placement, sharing, attempt) = match rank {
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
    // The other ranks of the node may be in other groups.
    placement.cores = config.cores.map_or(placement.cores, |cores| cores.min(placement.cores));
    endpoint.set_spin(if placement.has_shared_cores() { Duration::ZERO } else { SPIN });
    endpoint.set_cores(placement.cores);
    Ok((sharing, events))
}

/// Receives the registrations of all ranks on rank 0, and answers each with its placement.
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
    // Recorded before the other ranks continue, because they may write a failure to the job status.
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
    let places = if known { places(&nodes, config.bind) } else { vec![Placement::UNKNOWN; size] };
    if size > 1 {
        // Ranks that are threads of one process all have the same placement, so the table is of little interest.
        let Capabilities { processes, real_time, .. } = endpoint.capabilities();
        let level = if real_time && !processes { Level::Debug } else { Level::Info };
        let table = if known { table(&nodes, &places) } else { String::new() };
        log::log!(level, "{size} ranks, {transport}{table}");
    }
    let root = if known { nodes[0].process.clone() } else { Process::default() };
    for (to, place) in places.iter().enumerate().skip(1) {
        // Encoded with a fixed length, because simulated time depends on the length of the message.
        endpoint.send(to, Control::Placement, &(place, &root, attempt.to_le_bytes()))?;
    }
    let sharing = sharing(&nodes, &places);
    Ok((places[0].clone(), sharing))
}

/// Returns groups of ranks of a node that may run on the same cores and outnumber these cores. Ranks that are bound to other cores of the node are
/// not members of the group.
fn sharing(nodes: &[Node], places: &[Placement]) -> Sharing {
    let mut groups: Vec<(&str, BTreeSet<usize>, Vec<usize>)> = Vec::new();
    for (rank, node) in nodes.iter().enumerate().filter(|&(rank, _)| places[rank].has_shared_cores()) {
        let host = node.topology.host.as_str();
        let mut cores: BTreeSet<usize> = cores_of(node, &places[rank]).into_iter().collect();
        let mut ranks = vec![rank];
        // Merges all groups with cores that this rank may use.
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

/// Returns the cores that a rank may use. The first processing unit identifies its core, so that two hardware threads of a core count once.
fn cores_of(node: &Node, place: &Placement) -> Vec<usize> {
    let is_allowed = |unit: &usize| place.units.as_ref().is_none_or(|units| units.contains(unit));
    let cores = node.topology.cores.iter().filter(|core| core.processing_units.iter().any(is_allowed));
    cores.map(|core| core.processing_units[0]).collect()
}

/// Registers a rank other than 0 with rank 0. Returns the placement and the number of the attempt.
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

/// Parses the registration of a rank. Another version of armature may use another format.
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

/// Compares the registration of a rank with that of rank 0, and removes the program from the rank's registration. Returns true if the rank runs
/// another build and [`Config::check_build`] is off.
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

/// Returns the placement of each rank: whether its node has fewer cores than ranks, and the cores to which it is bound.
fn places(nodes: &[Node], bind: Bind) -> Vec<Placement> {
    let mut hosts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (rank, node) in nodes.iter().enumerate() {
        hosts.entry(&node.topology.host).or_default().push(rank);
    }
    let mut places = vec![Placement::UNKNOWN; nodes.len()];
    for ranks in hosts.values() {
        let topologies = || ranks.iter().map(|&r| &nodes[r].topology);
        let masks: Vec<BTreeSet<usize>> = topologies().map(|t| t.processing_units().collect()).collect();
        let bound = topology::launcher_has_bound(&masks);
        // All cores that any rank of the node may use, without duplicates.
        let cores: BTreeMap<usize, &Core> =
            topologies().flat_map(|t| &t.cores).map(|c| (c.processing_units[0], c)).collect();
        let cores: Vec<Core> = cores.into_values().cloned().collect();
        for (local, &rank) in ranks.iter().enumerate() {
            places[rank].units =
                topology::cores_of_rank(ranks.len(), local, &cores, bound || bind == Bind::None);
        }
        let is_shared = ranks.len() > cores.len();
        let allowed: Vec<Vec<usize>> = ranks.iter().map(|&r| cores_of(&nodes[r], &places[r])).collect();
        for (own, &rank) in allowed.iter().zip(ranks) {
            let users = |core| allowed.iter().filter(|cores| cores.contains(core)).count();
            let share: f64 = own.iter().map(|core| 1.0 / users(core) as f64).sum();
            // The number is at least 1 for a rank that shares every core. The small addend compensates for rounding, for example of three thirds.
            places[rank].cores = if is_shared { 0 } else { ((share + 1e-6) as usize).max(1) };
        }
    }
    places
}

/// Returns the start-up table, which begins with a newline: host, cores and memory of every rank.
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
    if places.iter().any(Placement::has_shared_cores) {
        text += "\n       ranks share cores: idle ones sleep instead of spinning";
    }
    text
}

/// Formats numbers as ranges: `0-3,8`.
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
        assert!(places.iter().all(|p| !p.has_shared_cores() && p.units.is_some()));
        assert!(places[..cores].iter().all(|p| p.cores == 1));
        nodes.push(node("a"));
        let places = super::places(&nodes, Bind::Core);
        assert!(places[0].has_shared_cores() && places[0].units.is_none());
        assert_eq!(places[cores].cores, cores, "rank {cores} is alone on its node");
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
        let place = Placement { cores: 0, units: None };
        let nodes = [on(0), on(1), on(0), on(2), on(1)];
        let groups = sharing(&nodes, &vec![place; 5]);
        let on_one = |ranks: [usize; 2]| SharedCores { processors: ranks.to_vec(), cores: 1.0 };
        assert_eq!(groups, [on_one([0, 2]), on_one([1, 4])], "rank 3 has a core of its own");
    }

    #[test]
    fn a_rank_has_its_share_of_the_cores_that_it_may_use() {
        let bound = |cores: &[usize]| {
            let core = |&core| Core { package: 0, processing_units: vec![core, core + 8] };
            let mut node = node("a");
            node.topology.cores = cores.iter().map(core).collect();
            node
        };
        let cores = |nodes: &[Node], bind| -> Vec<usize> {
            places(nodes, bind).iter().map(|place| place.cores).collect()
        };
        let all = [0, 1, 2, 3, 4, 5, 6, 7];
        let free = |ranks| vec![bound(&all); ranks];
        assert_eq!(cores(&free(3), Bind::Core), [2, 3, 3], "armature binds them to unequal parts");
        assert_eq!(cores(&free(3), Bind::None), [2, 2, 2], "eight thirds each");
        assert_eq!(cores(&free(8), Bind::None), [1; 8]);
        assert_eq!(cores(&free(9), Bind::Core), [0; 9], "they share cores");
        // The launcher has bound two ranks to each package.
        let packages = [bound(&all[..4]), bound(&all[..4]), bound(&all[4..]), bound(&all[4..])];
        assert_eq!(cores(&packages, Bind::Core), [2; 4]);
        let one_core = [bound(&[0]), bound(&[0]), bound(&all[1..])];
        assert_eq!(cores(&one_core, Bind::Core), [1, 1, 7], "two ranks compute on one core");
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
            let capabilities = Capabilities { processes: real_time, real_time, threads: true, ranks_may_end };
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
