//! Experiment with a permanent competing load next to one of two ranks: loops whose rows the framework moves between the ranks, against fixed splits
//! of the rows.
//!
//! Ranks are pinned to two cores, and the load runs on the second core all the time. The MPI programs written by hand use equal halves, and the best
//! of several fixed splits, which is found in short runs in advance. Each measurement begins after a warm-up. All alternatives are compared in
//! seconds per pass over the rows, so that each can run for the same time. The capacity of both cores bounds the speed of every split. To compute
//! this bound, the experiment measures after each run the share of the loaded core that a thread gets.

use std::{cell::RefCell, time::Duration};

use crate::{
    Bars, Experiment, Report, RunResult, Table, Target, TargetedValue,
    burner::{Load, share, two_cores},
    loops::job::{Job, Kernel, Run},
    pairs::{Contestant, round_robin},
    stats::{median, median_interval, spread},
    table::digits,
};

use super::{best_columns, seconds_per_pass, seconds_per_pass_of_ours};

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "loop-burner",
    about: "a load on the core of one of two ranks: matmul 1000², SOR 8000² and 2000² against fixed splits by hand",
    needs: "mpirun of Open MPI, two cores that nobody else uses, 1 GiB of memory",
    run,
};

/// Number of rounds, in each of which every alternative runs once. With six rounds the 95 % interval of a median reaches from the smallest to the
/// largest sample; with fewer rounds there is no such interval.
const ROUNDS: usize = 6;
const SECONDS: f64 = 32.0;
const WARM_UP_SECONDS: f64 = 4.0;
/// Factor by which the warm-up round, and the runs that search for the best fixed split of the rows, are shorter than
/// a measured run.
const WARM_UP: f64 = 8.0;
/// Time for measuring the share of the loaded core that a thread gets. It covers many time slices of the scheduler.
const MEASURE_SHARE: Duration = Duration::from_millis(500);
/// Fractions of the rows on the rank without load, among which the best fixed split is searched.
const SPLITS: [f64; 4] = [0.55, 0.6, 0.667, 0.72];
/// Cases: name, loop, rows, passes over the rows that calibrate the time of a pass, and the minimum speed relative to the hand-written program with
/// equal halves.
const CASES: [(&str, Kernel, usize, usize, f64); 3] = [
    ("matmul 1000", Kernel::Matmul, 1000, 4, 1.4),
    ("SOR 8000", Kernel::Sor, 8000, 6, 1.25),
    ("SOR 2000", Kernel::Sor, 2000, 100, 1.0),
];

const HALVES: &str = "MPI by hand, halves";
const SPLIT: &str = "MPI by hand, best split";
const OURS: &str = "armature";
const WAYS: [&str; 3] = [HALVES, SPLIT, OURS];

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let cores = two_cores()?;
    let columns = ["loop", "who", "a pass [ms]", "low", "high", "times as fast as halves", "rows on rank 0"];
    let mut table = Table::new(&columns);
    let (mut names, mut bars) = (Vec::new(), vec![Vec::new(); WAYS.len()]);
    for (name, kernel, size, passes, mark) in CASES {
        if !report.selects(name) {
            continue;
        }
        let job = Job { cores: cores.to_vec(), ..Job::new(kernel, size, passes) };
        let mut job = if smoke { Job { size: size / 10, ..job } } else { job };
        if kernel == Kernel::Sor {
            job.columns = best_columns(&job, &[8, 10, 14, 20, 40, 80], 1)?.0;
        }
        let (alone, ours_alone) = (seconds_per_pass(&job)?, seconds_per_pass_of_ours(&job)?);
        let scale = if smoke { 0.01 } else { 1.0 };
        let (thread_shares, parts) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        // Under load, a pass over the rows takes up to twice as long.
        let run_with_load = |job: &Job, seconds: f64, ours: bool| -> RunResult<Run> {
            let alone = if ours { ours_alone } else { alone };
            let slower = if job.split == 0.5 && !ours { 2.0 } else { 1.35 };
            let passes = |seconds: f64| (seconds / (alone * slower)).ceil().max(2.0) as usize;
            let settle = passes(scale * WARM_UP_SECONDS.min(seconds));
            let job = Job { settle, passes: passes(scale * seconds), ..job.clone() };
            let load = Load::on_core(cores[1]).start()?;
            let run = if ours { job.with_framework(2)? } else { job.by_hand(2)? };
            parts.borrow_mut().push(load.part()?);
            thread_shares.borrow_mut().push(share(cores[1], MEASURE_SHARE.mul_f64(scale.max(0.1)))?);
            drop(load);
            Ok(Run { seconds: run.seconds / job.passes as f64, ..run })
        };

        let mut split = (0.5, f64::INFINITY);
        for tried in SPLITS {
            let time = run_with_load(&Job { split: tried, ..job.clone() }, SECONDS / WARM_UP, false)?.seconds;
            report.note(format!(
                "{name}: {tried} of the rows on the undisturbed rank, {:.3} ms a pass",
                1e3 * time
            ));
            if time < split.1 {
                split = (tried, time);
            }
        }
        let ours = Job { live: true, columns: 0, ..job.clone() };
        let jobs = [(job.clone(), false), (Job { split: split.0, ..job.clone() }, false), (ours, true)];
        let runs: Vec<RefCell<Vec<Run>>> = jobs.iter().map(|_| RefCell::default()).collect();
        let contestants = WAYS.iter().zip(&jobs).zip(&runs).map(|((way, (job, ours)), runs)| {
            let run_with_load = &run_with_load;
            Contestant::new(*way, move || {
                let seconds = if runs.borrow().is_empty() { SECONDS / WARM_UP } else { SECONDS };
                let run = run_with_load(job, seconds, *ours)?;
                runs.borrow_mut().push(run);
                Ok(run.seconds)
            })
        });
        let rounds = round_robin(report.rounds(ROUNDS), contestants.collect())?;
        for ((at, runs), (who, samples)) in runs.iter().enumerate().zip(rounds.iter()) {
            let time = median_interval(samples);
            let faster = rounds.ratio(HALVES, who);
            let rows = match at {
                0 => 0.5 * size as f64,
                1 => split.0 * size as f64,
                _ => runs.borrow().last().map_or(f64::NAN, |run| run.held),
            };
            let cells = [time.value, time.low, time.high].map(|time| (1e3 * time).into());
            let rest = [faster.map(|ratio| digits(ratio.value, 3)).into(), digits(rows, 0)];
            table.row([name.into(), who.into()].into_iter().chain(cells).chain(rest));
            bars[at].push(faster);
        }
        names.push(name);
        let movements: Vec<f64> = runs[2].borrow().iter().map(|run| run.movements).collect();
        let thread_shares = median(&thread_shares.into_inner());
        report.note(format!(
            "{name}: {:.3} ms a pass by hand where nothing disturbs, {:.3} with armature; beside the load a thread keeps \
             {thread_shares:.3} of the core, so what computes as fast as by hand can be at most {:.3} times as fast as halves; the load \
             had {} of its core in all runs; movements by run: {movements:?}",
            1e3 * alone,
            1e3 * ours_alone,
            (1.0 + thread_shares) / (2.0 * thread_shares),
            spread(&parts.into_inner())
        ));
        if let Some(ratio) = rounds.ratio(HALVES, OURS) {
            let what = format!("{name}, against halves by hand");
            report.mark(TargetedValue::new(&what, ratio, "times as fast", Target::AtLeast(mark)));
        }
    }
    report.table("", &table)?;
    let mut plot = Bars::new(
        "Beside a load on one of two cores (median, 95 % interval)",
        "times as fast as halves",
        names,
    );
    for (way, values) in WAYS.iter().zip(bars) {
        plot.add(*way, values);
    }
    report.bars("", &plot)
}
