//! Experiment on METG(50 %) of Task Bench (Slaughter et al., SC 2020): the smallest mean task length at which a program is still half efficient.
//!
//! *Two ranks*: a farm, a stencil loop and a workflow of closures, against programs by hand with MPI. The efficiency is the length of all tasks divided
//! by the ranks' time; the kernel is calibrated in the same process. The mark of the trivial pattern compares the farm with a farm by
//! hand, because the program with static columns sends no messages; the ratio to that program is in the table.
//!
//! *Simulated*: stencil loops and programs by hand with one or four columns for each rank, and a farm. Tasks declare their length. A small message
//! takes 0.1 ms: 25 µs for each of two links, twice that in SMPI's default model of the network. With one column for each rank, nothing is computed
//! while messages travel, so no program has a METG below 0.1 ms.

use armature_bench_simulated::task_bench::{
    Pattern,
    job::{Job, System},
};

use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    burner::two_cores,
    pairs::{Contestant, round_robin},
    stats::median_interval,
    table::digits,
    task_bench::{measure, simulate},
    verdict::Interval,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "task-bench",
    about: "METG(50 %) of Task Bench: farm, stencil and workflow against MPI by hand, and on up to 1,000 simulated ranks",
    needs: "mpirun of Open MPI, two cores that nobody else uses; SimGrid, armature-bench-simulated-task-bench built for it \
            (ci/bench.sh builds it)",
    run,
};

const ROUNDS: usize = 15;
/// Time steps of a grid, as in Task Bench.
const STEPS: usize = 1_000;
/// Time steps of the workflow, each of whose tasks is a closure with a name.
const WORKFLOW_STEPS: usize = 50;
/// Maximum number of runs with the same task length.
const TRIES: usize = 5;
/// First task length of a search in seconds: on real ranks, of a simulated farm, and of a simulated grid with messages.
const STARTS: (f64, f64, f64) = (2e-9, 1e-6, 4e-6);
/// Targets: maximum ratio to the program by hand, and METG in µs on [`MARKED_RANKS`] simulated ranks.
const MARKS: (f64, f64) = (1.5, 100.0);
const SIMULATED_RANKS: [usize; 3] = [16, 256, 1_000];
const MARKED_RANKS: usize = 256;
/// Grids with messages on simulated ranks, with the number of their columns for each rank. The stencil loop and a program by hand run them.
const SIMULATED: [(Pattern, usize); 4] =
    [(Pattern::Stencil, 1), (Pattern::Stencil, 4), (Pattern::Nearest, 4), (Pattern::Imbalanced, 4)];
/// Time steps of these grids.
const SIMULATED_STEPS: usize = 200;
/// Ranks for each sub-master of a simulated farm.
const RANKS_OF_SUBMASTER: usize = 100;

/// Grid on two ranks, and the programs that run it: the framework's, the one by hand with which the mark compares it, and others.
struct Case {
    part: &'static str,
    pattern: Pattern,
    width: usize,
    steps: usize,
    systems: &'static [System],
}

const fn case(part: &'static str, pattern: Pattern, width: usize) -> Case {
    Case { part, pattern, width, steps: STEPS, systems: &[System::Stencil, System::ByHand] }
}

const CASES: [Case; 8] = [
    Case {
        systems: &[System::Farm, System::FarmByHand, System::ByHand],
        ..case("trivial", Pattern::Trivial, 16)
    },
    case("stencil_1d", Pattern::Stencil, 2),
    case("stencil_1d", Pattern::Stencil, 16),
    case("nearest", Pattern::Nearest, 4),
    case("nearest", Pattern::Nearest, 16),
    case("imbalanced", Pattern::Imbalanced, 2),
    case("imbalanced", Pattern::Imbalanced, 16),
    Case {
        steps: WORKFLOW_STEPS,
        systems: &[System::Workflow, System::ByHand, System::PlannedWorkflow],
        ..case("workflow", Pattern::Stencil, 4)
    },
];

fn run(report: &mut Report, smoke: bool) -> RunResult {
    on_two_ranks(report, smoke)?;
    let parts = ["16", "256", "1000"].map(|ranks| report.selects(&format!("simulated-{ranks}")));
    let ranks: Vec<usize> = match smoke {
        true if parts.contains(&true) => vec![4],
        true => Vec::new(),
        false => SIMULATED_RANKS.into_iter().zip(parts).filter_map(|(n, runs)| runs.then_some(n)).collect(),
    };
    if ranks.is_empty() { Ok(()) } else { on_simulated_ranks(report, &ranks, smoke) }
}

fn on_two_ranks(report: &mut Report, smoke: bool) -> RunResult {
    let columns =
        ["pattern", "columns", "who", "METG [µs]", "low", "high", "of MPI by hand", "of static MPI"];
    let mut table = Table::new(&columns);
    // The smoke form leaves out the wide grids.
    let cases: Vec<&Case> = CASES
        .iter()
        .filter(|case| report.selects(case.part) && !(smoke && case.part != "trivial" && case.width == 16))
        .collect();
    for case in &cases {
        let job = |system| -> RunResult<Job> {
            Ok(Job {
                system,
                pattern: case.pattern,
                width: case.width,
                steps: if smoke { 10 } else { case.steps },
                start: STARTS.0,
                tries: if smoke { 1 } else { TRIES },
                sub_masters: 0,
                cores: two_cores()?.to_vec(),
            })
        };
        let contestant = |system: System| -> RunResult<Contestant<'_>> {
            let job = job(system)?;
            Ok(Contestant::new(system.to_string(), move || measure(&job)))
        };
        let contestants: Vec<_> = case.systems.iter().copied().map(contestant).collect::<RunResult<_>>()?;
        let rounds = round_robin(report.rounds(ROUNDS), contestants)?;
        let [ours, by_hand, ..] = case.systems else { continue };
        let (by_hand, by_hand_static) = (by_hand.to_string(), System::ByHand.to_string());
        for (name, samples) in rounds.iter() {
            let metg = median_interval(samples);
            let ratio = |other: &str| rounds.ratio(name, other).map(|ratio| digits(ratio.value, 2));
            table.row([
                case.pattern.to_string().into(),
                case.width.into(),
                name.into(),
                metg.value.into(),
                metg.low.into(),
                metg.high.into(),
                ratio(&by_hand).into(),
                ratio(&by_hand_static).into(),
            ]);
        }
        if let Some(ratio) = rounds.ratio(&ours.to_string(), &by_hand) {
            let what = format!("{}, {} columns, {ours} against {by_hand}", case.pattern, case.width);
            report.mark(TargetedValue::new(&what, ratio, "of its METG", Target::AtMost(MARKS.0)));
        }
    }
    if cases.is_empty() { Ok(()) } else { report.table("", &table) }
}

fn on_simulated_ranks(report: &mut Report, ranks: &[usize], smoke: bool) -> RunResult {
    let mut table = Table::new(&["ranks", "pattern", "columns per rank", "who", "sub-masters", "METG [µs]"]);
    for &ranks in ranks {
        let loops = SIMULATED.into_iter().flat_map(|(pattern, columns)| {
            let (steps, start) = (SIMULATED_STEPS, STARTS.2);
            [System::Stencil, System::ByHand].map(|system| Job {
                system,
                pattern,
                width: columns * ranks,
                steps,
                start,
                tries: 1,
                sub_masters: 0,
                cores: Vec::new(),
            })
        });
        // A single sub-master would be a second master.
        let sub_masters = Some(ranks.div_ceil(RANKS_OF_SUBMASTER)).filter(|count| *count > 1);
        let farms = [Some(0), sub_masters].into_iter().flatten().map(|sub_masters| Job {
            system: System::Farm,
            pattern: Pattern::Trivial,
            width: ranks,
            steps: STEPS,
            start: STARTS.1,
            tries: 1,
            sub_masters,
            cores: Vec::new(),
        });
        for mut job in loops.chain(farms) {
            if smoke {
                job.steps = 10;
            }
            let Job { system, pattern, sub_masters, width, .. } = job;
            let metg = simulate(&job, ranks)?;
            println!(
                "   {pattern}, {width} columns, {system}, {sub_masters} sub-masters, {ranks} ranks: {metg:.2} µs"
            );
            table.row([
                ranks.into(),
                pattern.to_string().into(),
                (width / ranks).into(),
                system.to_string().into(),
                sub_masters.into(),
                metg.into(),
            ]);
            if ranks == MARKED_RANKS && system != System::ByHand {
                let what = format!(
                    "{pattern}, {width} columns, {system}, {sub_masters} sub-masters, {ranks} simulated ranks"
                );
                report.mark(TargetedValue::new(&what, Interval::exact(metg), "µs", Target::AtMost(MARKS.1)));
            }
        }
    }
    report.table("simulated", &table)
}
