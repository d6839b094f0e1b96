//! Experiment on the image search Ferret on simulated clusters of 14 unequal hosts (Sect. 5.3 of the HeDPM paper, Table 4).
//!
//! The setup follows the paper: 700 queries to a database of 3500 images. The planners' mappings are compared with an orderly mapping (one stage
//! after the other on hosts 0 to 5). The paper's cluster is not known; here the clusters are drawn from twenty unselected seeds. The costs of the
//! items were recorded in a real run, and are replayed without images; simulated times are exactly reproducible.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use armature::observe::Event;
use armature_planner::Platform;
use armature_planner::pipeline::{Algorithm, Block, Dispatch, Mapping, PlanOptions, plan, production_time};

use super::ferret_costs::{Bound, Costs};
use crate::{
    Experiment, Report, RunResult, Target, TargetedValue,
    platforms::Cluster,
    ranks::{finish, simulation},
    verdict::Interval,
};

mod tables;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ferret-simgrid",
    about: "Ferret on 20 simulated clusters of 14 unequal hosts, against an orderly mapping",
    needs: "SimGrid, Ferret built for it (ci/bench.sh builds it)",
    run,
};

const HOSTS: usize = 14;
pub(super) const SEEDS: std::ops::RangeInclusive<u64> = 1..=20;
pub(super) const PROFILE: &str = "apps/ferret/profiles/paper.csv";
/// Limit on the real (not simulated) time of a simulated run.
const LIMIT: Duration = Duration::from_secs(300);
/// Number of mappings that the method "long search" evaluates; the planner's default is 80 000.
const LONG: usize = 2_000_000;

/// Function that chooses the mapping (assignment of stages to hosts) for a run on a simulated cluster.
type Choice = fn(&Case<'_>) -> RunResult<Mapping>;

pub(super) struct Contestant {
    pub(super) name: &'static str,
    dispatch: Dispatch,
    env: &'static [(&'static str, &'static str)],
    mapping: Choice,
    /// Mapping (assignment of stages to hosts) to which the run is forced to change, and the number of results after which it changes.
    later: Option<(u64, Choice)>,
}

const ORDERLY: &str = "orderly";
const DPM: &str = "DPM";
const HEDPM: &str = "HeDPM";
pub(super) const REFINED: &str = "refined";
pub(super) const LIVE: &str = "live";
/// Method that starts like live balancing. At item 60, when live balancing knows the costs of the stages on most clusters, it changes to the mapping
/// of the refined (default) planner.
const REFINED_LATER: &str = "refined from item 60 on";
const REFINED_AT: u64 = 60;
const LONG_SEARCH: &str = "long search";
const LONG_SEARCH_APART: &str = "long search without overlap";

/// All compared methods. The last three are references: one changes to the mapping of a planner with perfect knowledge, and two evaluate many more
/// mappings.
pub(super) const CONTESTANTS: &[Contestant] = &[
    Contestant { name: ORDERLY, dispatch: Dispatch::RoundRobin, env: &[], mapping: orderly, later: None },
    Contestant {
        name: DPM,
        dispatch: Dispatch::RoundRobin,
        env: &[],
        mapping: |case| case.paper(Algorithm::Dpm),
        later: None,
    },
    Contestant {
        name: HEDPM,
        dispatch: Dispatch::RoundRobin,
        env: &[],
        mapping: |case| case.paper(Algorithm::Hedpm),
        later: None,
    },
    Contestant { name: REFINED, dispatch: Dispatch::OnDemand, env: &[], mapping: refined, later: None },
    Contestant {
        name: LIVE,
        dispatch: Dispatch::OnDemand,
        env: &[("ARMATURE_BALANCE", "live")],
        mapping: orderly,
        later: None,
    },
    Contestant {
        name: REFINED_LATER,
        dispatch: Dispatch::OnDemand,
        env: &[],
        mapping: orderly,
        later: Some((REFINED_AT, refined)),
    },
    Contestant {
        name: LONG_SEARCH,
        dispatch: Dispatch::OnDemand,
        env: &[],
        mapping: |case| case.searched_mapping(&case.platform, Some(LONG)),
        later: None,
    },
    Contestant {
        name: LONG_SEARCH_APART,
        dispatch: Dispatch::OnDemand,
        env: &[],
        mapping: |case| case.searched_mapping(&case.without_overlap(), Some(LONG)),
        later: None,
    },
];

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let costs = Costs::read(Path::new(PROFILE), if smoke { 100 } else { 700 })?;
    report.note(format!(
        "{} items; times are simulated, and links 100 Mbit/s to 1 Gbit/s with latencies of 25 µs",
        costs.items
    ));
    let mut rows: Vec<Row> = Vec::new();
    for seed in SEEDS.take(if smoke { 2 } else { 20 }) {
        if report.selects(&seed.to_string()) {
            rows.push(Case::new("ferret-simgrid", seed, &costs, costs.items)?.run_contestants()?);
        }
    }
    let Some(first) = rows.first() else { return Ok(()) };
    let again = Case::new("ferret-simgrid", first.seed, &costs, costs.items)?.run_contestants()?;
    let same = again.runs == first.runs;
    tables::write_tables(report, &rows)?;
    tables::record_marks(report, &rows);
    let differ = Interval::exact(if same { 0.0 } else { 1.0 });
    report.mark(TargetedValue::new("simulated twice", differ, "platforms that differ", Target::AtMost(0.0)));
    Ok(())
}

/// Simulated cluster, and the items that the pipeline processes on the cluster.
pub(super) struct Case<'a> {
    seed: u64,
    costs: &'a Costs,
    /// Number of items to process; the recorded items repeat if there are fewer.
    items: usize,
    cluster: Cluster,
    platform: Platform,
    folder: PathBuf,
}

/// Result of a run with one method on a simulated cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    mapping: String,
    /// Seconds between two results of the pipeline that the planner's model predicts for the mapping.
    predicted: f64,
    pub(super) seconds: f64,
    pub(super) checksum: String,
    pub(super) arrivals: Vec<f64>,
    /// Times of changes of the mapping, in seconds since the start, and the new mappings.
    pub(super) changes: Vec<(f64, String)>,
}

impl Run {
    /// Returns the seconds per item over the last 80 % of the items, which excludes the effects of the start.
    pub(super) fn settled(&self) -> Option<f64> {
        self.pace(self.arrivals.len() / 5)
    }

    /// Returns the ratio of this run's pace (seconds per item) to that of the run `other`. If one of the runs has no pace, the ratio is infinite,
    /// which misses the target.
    ///
    /// A pace below `least`, the time that all hosts together need for an item, is raised to `least`: items that arrive faster were finished earlier
    /// and waited behind an older item, because results are delivered in order.
    pub(super) fn pace_ratio(&self, other: &Run, pace: fn(&Run) -> Option<f64>, least: f64) -> f64 {
        let held = |run| pace(run).map(|pace| pace.max(least));
        held(self).zip(held(other)).map_or(f64::INFINITY, |(own, other)| own / other)
    }

    /// Returns the seconds per item from item `from` on.
    ///
    /// Items are delivered in order, so a slow host releases a hundred of them at once when it finishes an old one, and the arrival time of a single
    /// item is a poor measure of the rate. The start time is therefore the mean arrival time of the items around `from`, a twentieth of all items on
    /// either side.
    pub(super) fn pace(&self, from: usize) -> Option<f64> {
        let items = self.arrivals.len();
        let around = self.arrivals.get(from.saturating_sub(items / 20)..=from + items / 20)?;
        let first = around.iter().sum::<f64>() / around.len() as f64;
        let last = self.arrivals.last()?;
        (items > from + 1).then(|| (last - first) / (items - 1 - from) as f64)
    }
}

struct Row {
    seed: u64,
    items: f64,
    bound: Bound,
    runs: BTreeMap<&'static str, Run>,
}

impl Row {
    fn seconds(&self, name: &str) -> f64 {
        self.runs.get(name).map_or(f64::NAN, |run| run.seconds)
    }

    fn bound(&self) -> f64 {
        self.items * self.bound.seconds()
    }

    fn best(&self) -> f64 {
        // Runs that change their mapping (assignment of stages to hosts) are left out, because their times are not those of a single mapping.
        let fixed = self.runs.values().filter(|run| run.changes.is_empty());
        fixed.map(|run| run.seconds).fold(f64::INFINITY, f64::min)
    }

    fn speedup(&self, name: &str) -> f64 {
        self.seconds(ORDERLY) / self.seconds(name)
    }

    /// Returns the seconds per item over the last 80 % of the items with the method `name`, divided by those with the refined (default) planner.
    /// Times per item below `least` are raised to `least` first.
    fn settled(&self, name: &str, least: f64) -> f64 {
        let both = self.runs.get(name).zip(self.runs.get(REFINED));
        both.map_or(f64::INFINITY, |(run, refined)| run.pace_ratio(refined, Run::settled, least))
    }
}

fn orderly(case: &Case<'_>) -> RunResult<Mapping> {
    Ok(Mapping::new((0..case.costs.spec.len()).map(|n| Block::new(n..n + 1, vec![n])).collect()))
}

/// Returns the mapping of the refined (default) planner, which in this experiment knows the hosts and the costs of the stages exactly.
fn refined(case: &Case<'_>) -> RunResult<Mapping> {
    case.searched_mapping(&case.platform, None)
}

impl<'a> Case<'a> {
    pub(super) fn new(experiment: &str, seed: u64, costs: &'a Costs, items: usize) -> RunResult<Self> {
        let cluster = Cluster::draw(seed, HOSTS, costs.reference);
        let folder = Path::new("target/bench").join(experiment).join(seed.to_string());
        fs::create_dir_all(&folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
        fs::write(folder.join("cluster.xml"), cluster.xml())?;
        Ok(Case { seed, costs, items, platform: cluster.platform()?, cluster, folder })
    }

    /// Returns the mapping of a planner in the HeDPM paper, in whose model hosts do not compute while they communicate.
    fn paper(&self, algorithm: Algorithm) -> RunResult<Mapping> {
        let platform = self.platform.clone().with_overlap(false);
        Ok(plan(&platform, &self.costs.spec, &PlanOptions::paper(algorithm))?.mapping)
    }

    /// Returns the mapping of the refined (default) planner, which evaluates `budget` mappings (by default 80 000), for the hosts and links
    /// `platform`.
    fn searched_mapping(&self, platform: &Platform, budget: Option<usize>) -> RunResult<Mapping> {
        let standard = PlanOptions::default();
        let options = PlanOptions { budget: budget.unwrap_or(standard.budget), ..standard };
        Ok(plan(platform, &self.costs.spec, &options)?.mapping)
    }

    fn without_overlap(&self) -> Platform {
        self.platform.clone().with_overlap(false)
    }

    fn run_contestants(&self) -> RunResult<Row> {
        let mut runs = BTreeMap::new();
        for contestant in CONTESTANTS {
            runs.insert(contestant.name, self.run(contestant)?);
        }
        let mut checksums = runs.values().map(|run| &run.checksum);
        let first = checksums.next();
        if checksums.any(|other| Some(other) != first) {
            return Err(
                format!("on platform {} not all mappings delivered the same: {runs:?}", self.seed).into()
            );
        }
        Ok(Row { seed: self.seed, items: self.costs.items as f64, bound: self.bound(), runs })
    }

    pub(super) fn bound(&self) -> Bound {
        self.costs.bound(&self.cluster)
    }

    pub(super) fn run(&self, contestant: &Contestant) -> RunResult<Run> {
        let Contestant { name, dispatch, env, mapping, later } = contestant;
        let (spec, mapping) = (&self.costs.spec, mapping(self)?);
        let predicted = production_time(&self.platform, spec, &mapping, *dispatch)?.production_time;
        let mapping = mapping.display(spec).to_string();
        let file =
            |extension: &str| self.folder.join(format!("{}.{extension}", name.replace([' ', ','], "-")));
        let (mapping_file, times) = (file("mapping"), file("times"));
        fs::write(&mapping_file, format!("{mapping}\n"))?;
        let mut command = simulation(HOSTS, LIMIT);
        command.arg("--platform").arg(self.folder.join("cluster.xml")).args(Cluster::NETWORK);
        command.args(["ferret", "replay", PROFILE, "--items", &self.items.to_string()]);
        command.arg("--mapping").arg(&mapping_file).arg("--times").arg(&times);
        command
            .args(["--dispatch", if *dispatch == Dispatch::OnDemand { "on-demand" } else { "round-robin" }]);
        if let Some((items, mapping)) = later {
            let later_file = file("later");
            fs::write(&later_file, format!("{}\n", mapping(self)?.display(spec)))?;
            command.arg("--remap").arg(format!("{items}:{}", later_file.display()));
        }
        let events = file("events");
        command.arg("--events").arg(&events);
        command.envs(env.iter().copied());
        let (seconds, checksum) = outcome(&finish(command, LIMIT)?)?;
        let changes = changes(&events)?;
        let arrivals = fs::read_to_string(&times)?;
        let arrivals = arrivals.lines().filter_map(|line| line.split(' ').nth(1)?.parse().ok()).collect();
        Ok(Run { mapping, predicted, seconds, checksum, arrivals, changes })
    }
}

/// Reads from the event log the times and the new mappings of all changes of the mapping on rank 0.
fn changes(events: &Path) -> RunResult<Vec<(f64, String)>> {
    let records = armature::observe::read(events)?.records.into_iter();
    let switches = records.filter(|record| record.rank == 0).filter_map(|record| match record.event {
        Event::Switch { epoch, mapping } if epoch > 1 => Some((record.at, mapping)),
        _ => None,
    });
    Ok(switches.collect())
}

/// Parses the output line of `ferret replay`, such as `replayed 700 items in 1.5 s, checksum 0123456789abcdef`.
fn outcome(output: &str) -> RunResult<(f64, String)> {
    let line = output.lines().find_map(|line| line.strip_prefix("replayed "));
    let parts = line.and_then(|line| line.split_once(" items in ")?.1.split_once(" s, checksum "));
    let (seconds, checksum) = parts.ok_or_else(|| format!("ferret printed no time: {output}"))?;
    Ok((seconds.parse()?, checksum.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replay_output_is_parsed() {
        let (seconds, checksum) =
            outcome("noise\nreplayed 700 items in 1.382593598 s, checksum 0f0f\n").unwrap();
        assert_eq!((seconds, checksum.as_str()), (1.382593598, "0f0f"));
        assert!(outcome("replayed nothing").is_err());
    }

    #[test]
    fn settled_pace_excludes_the_start_up_phase() {
        let arrivals = vec![9.0, 10.0, 11.0, 13.0, 15.0, 17.0, 19.0, 21.0, 23.0, 25.0];
        let run = Run {
            mapping: String::new(),
            predicted: 1.0,
            seconds: 25.0,
            checksum: String::new(),
            arrivals,
            changes: Vec::new(),
        };
        assert_eq!(run.settled(), Some(2.0));
        // A single late item must not make the following items look fast.
        let mut arrivals: Vec<f64> = (0..100).map(f64::from).collect();
        arrivals[20] = 21.0;
        assert!((Run { arrivals, ..run.clone() }.settled().unwrap() - 1.0).abs() < 0.002);
        assert_eq!(run.pace_ratio(&run, Run::settled, 0.0), 1.0);
        // The items of the run `backlog` arrive faster than the hosts can compute them.
        let backlog = Run { arrivals: run.arrivals.iter().map(|at| 0.25 * at).collect(), ..run.clone() };
        assert_eq!(run.pace_ratio(&backlog, Run::settled, 0.0), 4.0);
        assert_eq!(run.pace_ratio(&backlog, Run::settled, 1.6), 1.25);
        assert_eq!(backlog.pace_ratio(&backlog, Run::settled, 1.6), 1.0);
        let short = Run { arrivals: vec![1.0], ..run.clone() };
        assert_eq!(short.settled(), None);
        assert_eq!(short.pace_ratio(&run, Run::settled, 0.0), f64::INFINITY, "no pace is a miss");
    }
}
