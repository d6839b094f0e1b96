//! Experiment on the tasks per second of a farm with trivial tasks on two ranks: the framework, hand-written MPI, and other frameworks.
//!
//! In the program written by hand, rank 0 distributes and collects, and rank 1 runs the tasks, in chunks of 32 with some chunks requested ahead; the
//! program also runs with its best chunk size. The framework runs in the corresponding configuration (a dedicated master) and in its default
//! configuration, in which rank 0 runs tasks, too. The framework chooses its chunk sizes itself.
//!
//! The other frameworks use two processes: renoir distributes tasks to both or runs all tasks in the second one; mpi4py.futures has a master and a
//! worker. Each of them runs with the best of several chunk sizes.

use std::path::Path;

use super::peers;
use crate::{
    Bars, Experiment, Report, RunResult, Table, Target, TargetedValue,
    baseline::chain::{self, Chain, Tasks},
    farm::tiny::{self, Tiny},
    pairs::{Contestant, Rounds, round_robin},
    stats::{median, median_interval},
    table::digits,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "farm-overhead",
    about: "tiny tasks on two ranks, tasks/s: against MPI by hand, renoir and mpi4py",
    needs: "mpirun of Open MPI, two cores, mpi4py (ci/bench.sh installs it); network or a filled cargo cache for renoir",
    run,
};

const DEDICATED: &str = "armature, dedicated master";
const SHARED: &str = "armature";
const BY_HAND: &str = "MPI by hand, chunks of 32";
const BEST: &str = "MPI by hand, best chunk";
const RENOIR: [(&str, &str); 2] =
    [("renoir, both processes", "renoir-farm"), ("renoir, second process", "renoir-farm-far")];
const MPI4PY: &str = "mpi4py.futures, best chunk";

struct Case {
    name: &'static str,
    size: usize,
    tasks: usize,
    chunks: &'static [usize],
    /// Number of tasks with the framework renoir, and the batch sizes (tasks per message) to try.
    renoir: (usize, &'static [usize]),
    /// Number of tasks with mpi4py.futures, and the chunk sizes to try; `None` if it is not measured.
    mpi4py: Option<(usize, &'static [usize])>,
}

const CASES: [Case; 2] = [
    Case {
        name: "8 B",
        size: 8,
        tasks: 60_000_000,
        chunks: &[128, 512, 2048, 8192, 32_768],
        renoir: (20_000_000, &[256, 1024, 4096]),
        mpi4py: Some((500_000, &[300, 1000, 3000, 10_000, 30_000])),
    },
    Case {
        name: "1 KiB",
        size: 1 << 10,
        tasks: 3_000_000,
        chunks: &[64, 128, 256, 512],
        renoir: (500_000, &[64, 256, 1024]),
        mpi4py: None,
    },
];

const MESSAGES_IN_FLIGHT: usize = 8;

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let peers = if smoke {
        report.note("renoir is left out of the smoke form: building it takes minutes");
        None
    } else {
        Some(peers::build(report)?)
    };
    let columns = ["tasks", "who", "chunk", "median [tasks/s]", "low", "high", "of chunks of 32 by hand"];
    let mut table = Table::new(&columns);
    let (mut names, mut all) = (Vec::new(), Vec::new());
    let cases: Vec<&Case> = CASES.iter().filter(|case| report.selects(case.name)).collect();
    for case in cases {
        let field = case.field(smoke, peers.as_deref())?;
        let contestants =
            field.iter().map(|entry| Contestant::new(entry.name, || (entry.run)(entry.chunk))).collect();
        let rounds = round_robin(report.rounds(20), contestants)?;
        for (entry, (name, samples)) in field.iter().zip(rounds.iter()) {
            let rate = median_interval(samples);
            let share = rounds.ratio(name, BY_HAND).map(|ratio| digits(ratio.value, 3));
            table.row([
                case.name.into(),
                name.into(),
                (entry.chunk > 0).then_some(entry.chunk).into(),
                rate.value.into(),
                rate.low.into(),
                rate.high.into(),
                share.into(),
            ]);
        }
        marks(report, case, &rounds);
        names.push(case.name);
        all.push(rounds);
    }
    report.table("", &table)?;
    report.bars("", &plot(&names, &all))
}

/// Program to be measured. `chunk` is its number of tasks per message; 0 if the framework chooses this number.
struct Entry<'a> {
    name: &'static str,
    chunk: usize,
    run: Box<dyn Fn(usize) -> RunResult<f64> + 'a>,
}

impl Case {
    fn field<'a>(&'a self, smoke: bool, peers: Option<&'a Path>) -> RunResult<Vec<Entry<'a>>> {
        let few = move |tasks: usize| if smoke { tasks.div_ceil(100) } else { tasks };
        let (size, tasks) = (self.size, few(self.tasks));
        let ours = move |dedicated| move |_| tiny::measure(Tiny { size, tasks, dedicated });
        let by_hand = move |batch| {
            chain::measure::<Tasks>(Chain { size, batch, window: MESSAGES_IN_FLIGHT, items: tasks })
        };
        let mut field = Vec::new();
        let mut enter = |name, chunk, run: Box<dyn Fn(usize) -> RunResult<f64> + 'a>| {
            field.push(Entry { name, chunk, run });
        };
        enter(DEDICATED, 0, Box::new(ours(true)));
        enter(SHARED, 0, Box::new(ours(false)));
        enter(BY_HAND, 32, Box::new(by_hand));
        enter(BEST, best(self.chunks, smoke, by_hand)?, Box::new(by_hand));
        if let Some(program) = peers {
            let (tasks, batches) = self.renoir;
            for (name, peer) in RENOIR {
                let run = move |batch| peers::measure(program, peer, [size, batch, tasks]);
                enter(name, best(batches, smoke, run)?, Box::new(run));
            }
        }
        if let Some((tasks, chunks)) = self.mpi4py {
            let run = move |chunk| peers::mpi4py(chunk, few(tasks));
            enter(MPI4PY, best(chunks, smoke, run)?, Box::new(run));
        }
        Ok(field)
    }
}

/// Returns the chunk size (tasks per message) with the highest median rate of tasks in three rounds, or the first size if `smoke` is true.
fn best(chunks: &[usize], smoke: bool, run: impl Fn(usize) -> RunResult<f64>) -> RunResult<usize> {
    let tried = if smoke { &chunks[..1] } else { chunks };
    let run = &run;
    let contestants =
        tried.iter().map(|&chunk| Contestant::new(format!("chunks of {chunk}"), move || run(chunk)));
    let rounds = if tried.len() > 1 { 3 } else { 0 };
    let rates = round_robin(rounds, contestants.collect())?;
    let medians = tried.iter().zip(rates.iter()).map(|(&chunk, (_, samples))| (chunk, median(samples)));
    Ok(medians.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(32, |(chunk, _)| chunk))
}

fn marks(report: &mut Report, case: &Case, rounds: &Rounds) {
    let mut mark = |who: &str, against: &str, target| {
        if let Some(ratio) = rounds.ratio(who, against) {
            let what = format!("{}, {who} against {against}", case.name);
            report.mark(TargetedValue::new(&what, ratio, "of its tasks/s", target));
        }
    };
    for who in [DEDICATED, SHARED] {
        mark(who, BY_HAND, Target::AtLeast(0.8));
        if case.size == 8 {
            RENOIR.iter().for_each(|(renoir, _)| mark(who, renoir, Target::AtLeast(1.0)));
            mark(who, MPI4PY, Target::AtLeast(50.0));
        }
    }
}

fn plot(cases: &[&str], all: &[Rounds]) -> Bars {
    let mut bars = Bars::new(
        "Tasks of a farm on two ranks (median, 95 % interval)",
        "throughput [tasks/s]",
        cases.iter().copied(),
    )
    .log_y();
    let names =
        [DEDICATED, SHARED, BY_HAND, BEST].into_iter().chain(RENOIR.map(|(name, _)| name)).chain([MPI4PY]);
    for name in names {
        let rates: Vec<_> = all.iter().map(|rounds| rounds.of(name).map(median_interval)).collect();
        if rates.iter().any(Option::is_some) {
            bars.add(name, rates);
        }
    }
    bars
}
