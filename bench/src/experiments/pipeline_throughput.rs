//! Experiment on the items per second of a pipeline of four trivial stages on two ranks: the framework, hand-written MPI, and other frameworks.
//!
//! The stages do next to nothing, so the experiment measures the overhead of a pipeline, not its benefit. Every compared program creates items of
//! equal size in one process, runs stages 1 and 2 there and stages 3 and 4 in the other process, and folds the results in order in the first process;
//! the checksum shows that no item was lost, duplicated or reordered.
//!
//! The hand-written program reuses its buffers; frameworks pass owned items to user code, and thus allocate memory for each item. The other
//! frameworks communicate by TCP on the local host, as they do between nodes.

use std::path::PathBuf;

use super::peers;
use crate::{
    Bars, Experiment, Report, RunResult, Table, Target, TargetedValue,
    baseline::chain::{self, Chain, Stages},
    pairs::{Contestant, Rounds, round_robin},
    stats::median_interval,
    table::digits,
    tested_program,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pipeline-throughput",
    about: "items/s through four trivial stages on two ranks, against MPI by hand, renoir and timely",
    needs: "mpirun of Open MPI; network or a filled cargo cache for the peers",
    run,
};

const ARMATURE: &str = "armature";
const BY_HAND: &str = "MPI by hand";
const SINGLE: &str = "MPI by hand, one message per item";
const PEERS: [&str; 2] = ["renoir", "timely"];

struct Case {
    name: &'static str,
    chain: Chain,
    /// Number of items, and number of items in flight, for the hand-written MPI program that sends one message per item.
    single: (usize, usize),
    /// Number of items for the programs that use other frameworks, and the batch size of each program.
    peers: (usize, [usize; 2]),
}

/// Cases. The numbers of items give runs of about a second. The batch sizes are the best of a few that were tried with the hand-written MPI program
/// and 8 or 16 batches in flight. The framework gets these batch sizes, too.
const CASES: [Case; 3] = [
    Case {
        name: "8 B",
        chain: Chain { size: 8, batch: 65_536, window: 8, items: 300_000_000 },
        single: (1_000_000, 64),
        peers: (20_000_000, [1024, 8192]),
    },
    Case {
        name: "1 KiB",
        chain: Chain { size: 1 << 10, batch: 256, window: 8, items: 3_000_000 },
        single: (500_000, 64),
        peers: (500_000, [1024, 256]),
    },
    Case {
        name: "1 MiB",
        chain: Chain { size: 1 << 20, batch: 1, window: 8, items: 4_000 },
        single: (5_000, 8),
        peers: (1_000, [1, 1]),
    },
];

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let peers = if smoke {
        report.note("the peers (renoir, timely) are left out of the smoke form: building them takes minutes");
        None
    } else {
        Some(peers::build(report)?)
    };
    let mut table = Table::new(&["items", "who", "median [items/s]", "low", "high", "of MPI by hand"]);
    let mut all = Vec::new();
    for case in &CASES {
        let rounds = round_robin(report.rounds(20), contestants(case, smoke, peers.as_ref()))?;
        for (name, samples) in rounds.iter() {
            let rate = median_interval(samples);
            let share = rounds.ratio(name, BY_HAND).map(|ratio| digits(ratio.value, 3));
            table.row([
                case.name.into(),
                name.into(),
                rate.value.into(),
                rate.low.into(),
                rate.high.into(),
                share.into(),
            ]);
        }
        marks(report, case, &rounds);
        all.push(rounds);
    }
    report.table("", &table)?;
    report.bars("", &plot(&all))
}

fn contestants<'a>(case: &'a Case, smoke: bool, peers: Option<&'a PathBuf>) -> Vec<Contestant<'a>> {
    let few = move |items: usize| if smoke { items.div_ceil(100) } else { items };
    let chain = Chain { items: few(case.chain.items), ..case.chain };
    let (items, window) = case.single;
    let single = Chain { batch: 1, window, items: few(items), ..case.chain };
    let mut contestants = vec![
        Contestant::new(ARMATURE, move || tested_program::measure(chain)),
        Contestant::new(BY_HAND, move || chain::measure::<Stages>(chain)),
    ];
    // If batches have one item, the program that sends batches also sends one message per item.
    if case.chain.batch > 1 {
        contestants.push(Contestant::new(SINGLE, move || chain::measure::<Stages>(single)));
    }
    if let Some(program) = peers {
        let (items, batches) = case.peers;
        for (peer, batch) in PEERS.into_iter().zip(batches) {
            let numbers = [case.chain.size, batch, items];
            contestants.push(Contestant::new(peer, move || peers::measure(program, peer, numbers)));
        }
    }
    contestants
}

fn marks(report: &mut Report, case: &Case, rounds: &Rounds) {
    let mut mark = |against: &str, target| {
        if let Some(ratio) = rounds.ratio(ARMATURE, against) {
            report.mark(TargetedValue::new(
                &format!("{} against {against}", case.name),
                ratio,
                "of its items/s",
                target,
            ));
        }
    };
    mark(BY_HAND, Target::AtLeast(0.9));
    if case.chain.size == 8 {
        mark(SINGLE, Target::AtLeast(3.0));
    }
    PEERS.into_iter().for_each(|peer| mark(peer, Target::AtLeast(1.0)));
}

fn plot(all: &[Rounds]) -> Bars {
    let mut bars = Bars::new(
        "Items through four trivial stages on two ranks (median, 95 % interval)",
        "throughput [items/s]",
        CASES.iter().map(|case| case.name),
    )
    .log_y();
    for name in [ARMATURE, BY_HAND, SINGLE].into_iter().chain(PEERS) {
        let rates: Vec<_> = all.iter().map(|rounds| rounds.of(name).map(median_interval)).collect();
        if rates.iter().any(Option::is_some) {
            bars.add(name, rates);
        }
    }
    bars
}
