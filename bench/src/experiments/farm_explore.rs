//! Experiment on the search of a tree on two ranks that both compute, bound to two cores: tasks of 0.2 ms that create tasks, with subtrees of very
//! uneven size.
//!
//! The baseline is a plain recursion on one core, whose time two cores can at best halve. The program written by hand gives half of the roots (the
//! tasks that exist at the start) to each rank. mpi4py.futures submits the tasks that a result creates from its master, which runs no tasks itself;
//! the tasks of mpi4py do not compute but keep their core busy for as long as the tasks of the framework take.
//!
//! A branch and bound for the shortest tour through some towns then compares the numbers of nodes that four ranks search with a shared incumbent
//! (best tour so far), and with one incumbent per rank.

use super::peers;
use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    burner::two_cores,
    farm::{
        task_set::steps_in,
        tour::{RANKS, Towns, nodes},
        tree::{Searcher, Tree},
    },
    pairs::{Contestant, round_robin},
    stats::{median, median_interval},
    table::digits,
    verdict::Interval,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "farm-explore",
    about: "a search of an uneven tree on two ranks: efficiency, against a static split and mpi4py",
    needs: "mpirun of Open MPI, two cores that nobody else uses, mpi4py (ci/bench.sh installs it)",
    run,
};

const ROUNDS: usize = 20;
const LENGTH: f64 = 0.2e-3;
/// Number of roots (tasks that exist at the start). The tree has some ten thousand nodes: a quarter of them below the largest root, and two fifths
/// below one half of the roots.
const ROOTS: u64 = 16;
const DEPTH: u32 = 9;

/// Number of towns of a tour, with which a branch and bound has some hundred thousand nodes.
const TOWNS: usize = 12;
/// Seeds of the random positions of the towns, one for each measured tour.
const SEEDS: std::ops::Range<u32> = 1..4;
const FEW_TOWNS: usize = 9;

const FARM: &str = "armature";
const HALVES: &str = "MPI by hand, half of the roots each";
const SERIAL: &str = "one core, serially";
const MPI4PY: &str = "mpi4py.futures";

fn run(report: &mut Report, smoke: bool) -> RunResult {
    two_cores()?;
    let steps = if smoke { 100 } else { steps_in(LENGTH) as u64 };
    let tree = Tree { roots: ROOTS, depth: DEPTH, steps };
    let (nodes, all_steps, _) = tree.expected();
    report.note(format!("{nodes} tasks of {:.0} steps on average", all_steps as f64 / nodes as f64));
    let of = |name, searcher| Contestant::new(name, move || tree.measure(searcher));
    let mut contestants =
        vec![of(SERIAL, Searcher::Serial), of(HALVES, Searcher::Halves), of(FARM, Searcher::Farm)];
    if report.selects("mpi4py") {
        let seconds_per_step = LENGTH / steps_in(LENGTH);
        contestants.push(Contestant::new(MPI4PY, move || {
            peers::mpi4py_tree([ROOTS, DEPTH.into(), steps], seconds_per_step, nodes)
        }));
    }
    let rounds = round_robin(report.rounds(ROUNDS), contestants)?;
    let mut table = Table::new(&["who", "median [s]", "low", "high", "efficiency on two cores"]);
    for (name, samples) in rounds.iter() {
        let time = median_interval(samples);
        let efficiency = rounds.ratio(SERIAL, name).filter(|_| name != SERIAL).map(halved);
        table.row([
            name.into(),
            median(samples).into(),
            time.low.into(),
            time.high.into(),
            efficiency.map(|efficiency| digits(efficiency.value, 3)).into(),
        ]);
    }
    report.table("", &table)?;
    if let Some(ratio) = rounds.ratio(SERIAL, FARM) {
        let what = "efficiency, against one core";
        report.mark(TargetedValue::new(what, halved(ratio), "of two cores", Target::AtLeast(0.95)));
    }
    for (peer, least) in [(HALVES, 1.1), (MPI4PY, 1.5)] {
        if let Some(ratio) = rounds.ratio(peer, FARM) {
            report.mark(TargetedValue::new(
                &format!("against {peer}"),
                ratio,
                "times as fast",
                Target::AtLeast(least),
            ));
        }
    }
    compare_bounds(report, if smoke { FEW_TOWNS } else { TOWNS })
}

/// Counts the nodes that a branch and bound for the shortest tour searches: on one rank, on several ranks with a shared incumbent (best tour so far),
/// and with one incumbent per rank.
fn compare_bounds(report: &mut Report, towns: usize) -> RunResult {
    let ratio = "one bound per rank / shared";
    let mut table = Table::new(&["tour", "serial nodes", "shared incumbent", "one bound per rank", ratio]);
    for seed in SEEDS {
        let serial = Towns::random(towns, seed).serial().1;
        let (shared, apart) = (nodes(towns, seed, true)?, nodes(towns, seed, false)?);
        table.row([
            format!("{towns} towns, seed {seed}, {RANKS} ranks").into(),
            digits(serial as f64, 0),
            digits(shared, 0),
            digits(apart, 0),
            digits(apart / shared, 2),
        ]);
    }
    report.table("bounds", &table)
}

fn halved(ratio: Interval) -> Interval {
    Interval { value: ratio.value / 2.0, low: ratio.low / 2.0, high: ratio.high / 2.0 }
}
