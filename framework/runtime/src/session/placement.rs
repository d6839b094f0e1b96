//! Placement of ranks on the cores of their nodes.

use std::collections::{BTreeMap, BTreeSet};

use armature_host::CoreLimit;
use armature_planner::SharedCores;
use serde::{Deserialize, Serialize};

use super::config::Bind;
use crate::session::topology::{self, Core, Topology};

/// Placement of a rank on its node: the number of cores for it, and the processing units to which it is bound.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Placement {
    /// Number of cores that the rank may use without taking them from other ranks, 0 if the node or the CPU quota of the rank has fewer cores than
    /// ranks. If nothing is known of a node, it counts as a node with a core for each rank.
    pub(super) cores: usize,
    /// Processing units to which the rank is bound; `None` leaves the rank's binding unchanged.
    pub(super) units: Option<Vec<usize>>,
}

impl Placement {
    pub(super) const UNKNOWN: Placement = Placement { cores: 1, units: None };

    pub(super) fn has_shared_cores(&self) -> bool {
        self.cores == 0
    }
}

/// Groups of ranks that run on the same cores and outnumber these cores, or the cores of their CPU quotas.
pub(crate) type Sharing = Vec<SharedCores>;

pub(super) fn places(topologies: &[&Topology], bind: Bind) -> Vec<Placement> {
    let mut hosts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (rank, topology) in topologies.iter().enumerate() {
        hosts.entry(&topology.host).or_default().push(rank);
    }
    let mut places = vec![Placement::UNKNOWN; topologies.len()];
    for ranks in hosts.values() {
        let of_node = || ranks.iter().map(|&rank| topologies[rank]);
        let masks: Vec<BTreeSet<usize>> = of_node().map(|t| t.processing_units().collect()).collect();
        let bound = topology::launcher_has_bound(&masks);
        let cores: BTreeMap<usize, &Core> =
            of_node().flat_map(|t| &t.cores).map(|c| (c.processing_units[0], c)).collect();
        let cores: Vec<Core> = cores.into_values().cloned().collect();
        for (local, &rank) in ranks.iter().enumerate() {
            places[rank].units =
                topology::cores_of_rank(ranks.len(), local, &cores, bound || bind == Bind::None);
        }
        let mut limited: BTreeMap<&str, usize> = BTreeMap::new();
        for limit in of_node().filter_map(|t| t.core_limit.as_ref()) {
            *limited.entry(&limit.set_by).or_default() += 1;
        }
        let allowed: Vec<Vec<usize>> = ranks.iter().map(|&r| cores_of(topologies[r], &places[r])).collect();
        let mut users: BTreeMap<usize, u32> = BTreeMap::new();
        for &core in allowed.iter().flatten() {
            *users.entry(core).or_default() += 1;
        }
        for (own, &rank) in allowed.iter().zip(ranks) {
            let share: f64 = own.iter().map(|core| 1.0 / f64::from(users[core])).sum();
            let limit = topologies[rank].core_limit.as_ref();
            let quota = limit.map_or(f64::INFINITY, |limit| limit.cores() / limited[&*limit.set_by] as f64);
            let is_shared = ranks.len() > cores.len() || quota < 1.0;
            // A node with fewer cores than ranks has 0 cores for each rank. Otherwise a rank gets at least 1 core, even if it shares all of
            // its cores. The small addend compensates for rounding, for example of the sum of three thirds.
            places[rank].cores = if is_shared { 0 } else { ((share.min(quota) + 1e-6) as usize).max(1) };
        }
    }
    places
}

/// Returns groups of ranks of a node that may run on the same cores and outnumber these cores, or the cores of their CPU quotas. Ranks of the node
/// that are bound to other cores are not members of the group.
pub(super) fn sharing(topologies: &[&Topology], places: &[Placement]) -> Sharing {
    let mut groups: Vec<(&str, BTreeSet<usize>, Vec<usize>)> = Vec::new();
    for (rank, topology) in topologies.iter().enumerate().filter(|&(rank, _)| places[rank].has_shared_cores())
    {
        let host = topology.host.as_str();
        let mut cores: BTreeSet<usize> = cores_of(topology, &places[rank]).into_iter().collect();
        let mut ranks = vec![rank];
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
    let group = |(_, cores, ranks): (&str, BTreeSet<usize>, Vec<usize>)| {
        let limits = ranks.iter().map(|&rank| topologies[rank].core_limit.as_ref());
        SharedCores { cores: total(limits).min(cores.len() as f64), processors: ranks }
    };
    let is_short = |group: &SharedCores| group.processors.len() as f64 > group.cores;
    groups.into_iter().map(group).filter(is_short).collect()
}

/// Returns the sum of the CPU quotas of some ranks, in cores; ranks that share a quota count once. Infinity if a rank has no quota.
fn total<'a>(limits: impl Iterator<Item = Option<&'a CoreLimit>>) -> f64 {
    let limits: Option<BTreeMap<&str, f64>> =
        limits.map(|limit| limit.map(|limit| (&*limit.set_by, limit.cores()))).collect();
    limits.map_or(f64::INFINITY, |limits| limits.into_values().sum())
}

/// Returns the cores that a rank may use, each identified by its first processing unit, so that two hardware threads of a core count once.
fn cores_of(topology: &Topology, place: &Placement) -> Vec<usize> {
    let is_allowed = |unit: &usize| place.units.as_ref().is_none_or(|units| units.contains(unit));
    let cores = topology.cores.iter().filter(|core| core.processing_units.iter().any(is_allowed));
    cores.map(|core| core.processing_units[0]).collect()
}

pub(super) fn table(topologies: &[&Topology], places: &[Placement]) -> String {
    let mut text =
        format!("\n{:>5}  {:<20} {:<16} {:>6}  {:>10}", "rank", "host", "may run on", "cores", "memory");
    for (rank, (t, place)) in topologies.iter().zip(places).enumerate() {
        let units = place.units.clone().unwrap_or_else(|| t.processing_units().collect());
        text += &format!(
            "\n{rank:>5}  {:<20} {:<16} {:>6.*}  {:>6.1} GiB",
            armature_text::shown(&t.host),
            ranges(units).join(","),
            usize::from(t.usable_cores().fract() > 0.0),
            t.usable_cores(),
            t.memory_total as f64 / f64::from(1 << 30)
        );
    }
    if places.iter().any(Placement::has_shared_cores) {
        text += "\n       ranks share cores: idle ones sleep instead of spinning";
    }
    text
}

/// Returns numbers, such as those of processing units or ranks, as ranges: `0-3`, `8`.
pub(crate) fn ranges(mut numbers: Vec<usize>) -> Vec<String> {
    numbers.sort_unstable();
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str) -> Topology {
        Topology { host: host.into(), core_limit: None, ..Topology::of_this_node() }
    }

    fn refs(nodes: &[Topology]) -> Vec<&Topology> {
        nodes.iter().collect()
    }

    #[test]
    fn ranks_share_only_the_cores_of_their_node() {
        let cores = Topology::of_this_node().cores.len();
        let mut nodes: Vec<Topology> = (0..cores).map(|_| node("a")).collect();
        nodes.push(node("b"));
        let places = places(&refs(&nodes), Bind::Core);
        assert!(places.iter().all(|p| !p.has_shared_cores() && p.units.is_some()));
        assert!(places[..cores].iter().all(|p| p.cores == 1));
        nodes.push(node("a"));
        let places = super::places(&refs(&nodes), Bind::Core);
        assert!(places[0].has_shared_cores() && places[0].units.is_none());
        assert_eq!(places[cores].cores, cores, "rank {cores} is alone on its node");
        let text = table(&refs(&nodes), &places);
        assert_eq!(text.trim_start().lines().count(), 1 + nodes.len() + 1, "{text}");
    }

    #[test]
    fn ranks_bound_to_different_cores_do_not_share() {
        let on = |core: usize| {
            let cores = vec![Core { package: 0, processing_units: vec![core] }];
            let mut node = node("a");
            node.cores = cores;
            node
        };
        let place = Placement { cores: 0, units: None };
        let nodes = [on(0), on(1), on(0), on(2), on(1)];
        let groups = sharing(&refs(&nodes), &vec![place; 5]);
        let on_one = |ranks: [usize; 2]| SharedCores { processors: ranks.to_vec(), cores: 1.0 };
        assert_eq!(groups, [on_one([0, 2]), on_one([1, 4])], "no other rank runs on the core of rank 3");
    }

    #[test]
    fn rank_gets_its_share_of_the_allowed_cores() {
        let bound = |cores: &[usize]| {
            let core = |&core| Core { package: 0, processing_units: vec![core, core + 8] };
            let mut node = node("a");
            node.cores = cores.iter().map(core).collect();
            node
        };
        let cores = |nodes: &[Topology], bind| -> Vec<usize> {
            places(&refs(nodes), bind).iter().map(|place| place.cores).collect()
        };
        let all = [0, 1, 2, 3, 4, 5, 6, 7];
        let free = |ranks| vec![bound(&all); ranks];
        assert_eq!(cores(&free(3), Bind::Core), [2, 3, 3], "armature binds them to unequal parts");
        assert_eq!(cores(&free(3), Bind::None), [2, 2, 2], "eight thirds each");
        assert_eq!(cores(&free(8), Bind::None), [1; 8]);
        assert_eq!(cores(&free(9), Bind::Core), [0; 9], "they share cores");
        // The launcher has bound two ranks to each of two packages.
        let packages = [bound(&all[..4]), bound(&all[..4]), bound(&all[4..]), bound(&all[4..])];
        assert_eq!(cores(&packages, Bind::Core), [2; 4]);
        let one_core = [bound(&[0]), bound(&[0]), bound(&all[1..])];
        assert_eq!(cores(&one_core, Bind::Core), [1, 1, 7], "two ranks compute on one core");
    }

    fn with_quota(cores: f64, group: &str) -> Topology {
        let all = (0..8).map(|core| Core { package: 0, processing_units: vec![core] }).collect();
        Topology { cores: all, core_limit: Some(CoreLimit::new(cores, group)), ..node("a") }
    }

    #[test]
    fn ranks_that_outnumber_their_cpu_quota_share_cores() {
        let see = |nodes: &[Topology]| {
            let places = places(&refs(nodes), Bind::None);
            let cores = places.iter().map(|place| place.cores).collect::<Vec<_>>();
            (cores, sharing(&refs(nodes), &places))
        };
        let group = |ranks: &[usize], cores| SharedCores { processors: ranks.to_vec(), cores };
        assert_eq!(see(&vec![with_quota(4.0, "/job"); 2]), (vec![2, 2], vec![]));
        assert_eq!(see(&vec![with_quota(1.5, "/job"); 2]), (vec![0, 0], vec![group(&[0, 1], 1.5)]));
        assert_eq!(see(&[with_quota(0.4, "/job")]), (vec![0], vec![group(&[0], 0.4)]));
        // The two ranks run in different containers, each of which has a CPU quota.
        let apart = [with_quota(1.0, "/one"), with_quota(3.0, "/two")];
        assert_eq!(see(&apart), (vec![1, 3], vec![]));
        let mixed = [with_quota(1.0, "/one"), with_quota(1.0, "/one"), with_quota(3.0, "/two")];
        assert_eq!(see(&mixed), (vec![0, 0, 2], vec![group(&[0, 1], 1.0)]));
        let free = [Topology { core_limit: None, ..with_quota(1.0, "") }, with_quota(9.0, "/job")];
        assert_eq!(see(&free), (vec![4, 4], vec![]));
        let nodes = vec![with_quota(1.5, "/job"); 2];
        let text = table(&refs(&nodes), &places(&refs(&nodes), Bind::None));
        assert!(text.contains("   1.5  ") && text.contains("ranks share cores"), "{text}");
    }

    #[test]
    fn unit_numbers_are_displayed_as_ranges() {
        assert_eq!(ranges(vec![8, 0, 1, 2, 3]).join(","), "0-3,8");
        assert_eq!(ranges(vec![]).join(","), "");
    }
}
