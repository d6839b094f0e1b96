//! Experiment on the overhead of the framework's loops on two ranks without competing load, against hand-written MPI programs with the same kernels
//! and a fixed distribution.
//!
//! A sweep is computed in strips of columns. In the hand-written sweep, the strips have the best of several widths. The framework chooses its own
//! width in the warm-up passes, which both programs run. It also balances the load during the run (the default). Serial loops are the reference for
//! the efficiency: the plain loop proceeds row by row, the blocked loop strip by strip.

use crate::{
    Bars, Experiment, Report, RunResult, Table, Target, TargetedValue,
    burner::two_cores,
    loops::job::{Job, Kernel},
    pairs::{Contestant, round_robin},
    stats::median_interval,
    table::digits,
};

use super::best_columns;

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "loop-overhead",
    about: "matmul 1000², SOR 2000² and heat 2000² on two undisturbed ranks: the framework against static MPI by hand",
    needs: "mpirun of Open MPI, two cores that nobody else uses",
    run,
};

const ROUNDS: usize = 30;
/// Cases: name, loop, rows, warm-up passes, and measured passes.
const CASES: [(&str, Kernel, usize, usize, usize); 3] = [
    ("matmul 1000", Kernel::Matmul, 1000, 2, 6),
    ("SOR 2000", Kernel::Sor, 2000, 150, 300),
    ("heat 2000", Kernel::Heat, 2000, 40, 200),
];
const COLUMNS: [usize; 6] = [6, 8, 10, 14, 20, 40];

const BY_HAND: &str = "MPI by hand";
const OURS: &str = "armature";
const PLAIN: &str = "serial, plain";
const BLOCKED: &str = "serial, in strips";

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let cores = two_cores()?;
    let columns = ["loop", "who", "time [s]", "low", "high", "efficiency against plain", "against strips"];
    let mut table = Table::new(&columns);
    let (mut names, mut bars) = (Vec::new(), Vec::new());
    for (name, kernel, size, settle, passes) in CASES {
        if !report.selects(name) {
            continue;
        }
        let job = Job { settle, cores: cores.to_vec(), ..Job::new(kernel, size, passes) };
        let job = if smoke { Job { size: size / 10, settle: 2, passes: 3, ..job } } else { job };
        let mut tuned = job.clone();
        if kernel == Kernel::Sor {
            let (best, times) = best_columns(&job, &COLUMNS, if smoke { 1 } else { 3 })?;
            let times: Vec<String> =
                times.iter().map(|(columns, time)| format!("{columns}: {time:.4} s")).collect();
            report.note(format!("{name} by hand with strips of {}: {best} it is", times.join(", ")));
            tuned.columns = best;
        }
        let live = Job { live: true, ..job.clone() };
        let mut contestants = vec![
            Contestant::new(BY_HAND, || Ok(tuned.by_hand(2)?.seconds)),
            Contestant::new(OURS, || Ok(live.with_framework(2)?.seconds)),
            Contestant::new(PLAIN, || serial(&job)),
        ];
        if kernel == Kernel::Sor {
            contestants.push(Contestant::new(BLOCKED, || serial(&tuned)));
        }
        let rounds = round_robin(report.rounds(ROUNDS), contestants)?;
        for (who, samples) in rounds.iter() {
            let time = median_interval(samples);
            let ranks = if who == PLAIN || who == BLOCKED { 1.0 } else { 2.0 };
            let against =
                |serial: &str| rounds.ratio(serial, who).map(|ratio| digits(ratio.value / ranks, 3));
            let cells = [time.value, time.low, time.high].map(Into::into);
            let efficiencies = [against(PLAIN).into(), against(BLOCKED).into()];
            table.row([name.into(), who.into()].into_iter().chain(cells).chain(efficiencies));
        }
        if let Some(ratio) = rounds.ratio(OURS, BY_HAND) {
            report.mark(TargetedValue::new(
                name,
                ratio,
                "times the time of MPI by hand",
                Target::AtMost(1.02),
            ));
            names.push(name);
            bars.push(Some(ratio));
        }
    }
    report.table("", &table)?;
    let title = "Time on two undisturbed ranks against MPI by hand (median, 95 % interval)";
    let mut plot = Bars::new(title, "time / time by hand", names);
    plot.add(OURS, bars);
    report.bars("", &plot)
}

fn serial(job: &Job) -> RunResult<f64> {
    let passes = job.passes.div_ceil(10);
    let run = Job { settle: 1, passes, ..job.clone() }.by_hand(1)?;
    Ok(run.seconds * job.passes as f64 / passes as f64)
}
