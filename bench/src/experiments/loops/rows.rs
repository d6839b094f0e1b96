//! Experiment on the cost of a row of a sweep for a rank that holds more rows. The load balancer assumes that twice as many rows take twice as long.
//!
//! Two ranks without competing load run without moving rows: with equal halves, and with two thirds of the rows on the second rank, which should take
//! 4/3 times as long. A rank sends its last row to the next rank strip by strip (a strip is a block of columns). In the hand-written sweep, the
//! strips have the width that is the best of several for equal halves; the framework chooses its own width in each run, during the warm-up.

use crate::{
    Bars, Experiment, Report, RunResult, Table, Target, TargetedValue,
    burner::two_cores,
    loops::job::{Job, Kernel},
    pairs::{Contestant, round_robin},
    stats::median_interval,
};

use super::best_columns;

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "loop-rows",
    about: "SOR on two undisturbed ranks, in halves and in unequal shares: cost of a row on a rank that holds more rows",
    needs: "mpirun of Open MPI, two cores that nobody else uses",
    run,
};

const ROUNDS: usize = 16;
/// Cases: name, rows, warm-up passes, and measured passes.
const CASES: [(&str, usize, usize, usize); 2] = [("SOR 4000", 4000, 60, 60), ("SOR 2000", 2000, 150, 200)];
const COLUMNS: [usize; 5] = [10, 20, 32, 45, 80];
const FIRST_RANK_SHARE: f64 = 1.0 / 3.0;
const IDEAL: f64 = 4.0 / 3.0;

const HAND_HALVES: &str = "by hand, halves";
const HAND_THIRDS: &str = "by hand, a third and two";
const HALVES: &str = "armature, halves";
const THIRDS: &str = "armature, a third and two";

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let cores = two_cores()?;
    let mut table = Table::new(&["loop", "who", "time [s]", "low", "high"]);
    let (mut names, mut by_hand, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    for (name, size, settle, passes) in CASES {
        if !report.selects(name) {
            continue;
        }
        let job = Job { settle, cores: cores.to_vec(), ..Job::new(Kernel::Sor, size, passes) };
        let job = if smoke { Job { size: size / 10, settle: 2, passes: 3, ..job } } else { job };
        let (columns, _) = best_columns(&job, &COLUMNS, if smoke { 1 } else { 3 })?;
        report.note(format!("{name} by hand in strips of {columns} columns"));
        let hand = Job { columns, ..job.clone() };
        let (hand_thirds, thirds) =
            (Job { split: FIRST_RANK_SHARE, ..hand.clone() }, Job { split: FIRST_RANK_SHARE, ..job.clone() });
        let contestants = vec![
            Contestant::new(HAND_HALVES, || Ok(hand.by_hand(2)?.seconds)),
            Contestant::new(HALVES, || Ok(job.with_framework(2)?.seconds)),
            Contestant::new(HAND_THIRDS, || Ok(hand_thirds.by_hand(2)?.seconds)),
            Contestant::new(THIRDS, || Ok(thirds.with_framework(2)?.seconds)),
        ];
        let rounds = round_robin(report.rounds(ROUNDS), contestants)?;
        for (who, samples) in rounds.iter() {
            let time = median_interval(samples);
            table.row([name.into(), who.into(), time.value.into(), time.low.into(), time.high.into()]);
        }
        by_hand.push(rounds.ratio(HAND_THIRDS, HAND_HALVES));
        ours.push(rounds.ratio(THIRDS, HALVES));
        names.push(name);
        if let Some(ratio) = rounds.ratio(THIRDS, HALVES) {
            let target = Target::AtMost(1.05 * IDEAL);
            report.mark(TargetedValue::new(
                name,
                ratio,
                "times the time of halves, of which 4/3 are work",
                target,
            ));
        }
        if let Some(ratio) = rounds.ratio(THIRDS, HAND_THIRDS) {
            let name = format!("{name}, a third and two");
            report.mark(TargetedValue::new(
                &name,
                ratio,
                "times the time of MPI by hand",
                Target::AtMost(1.0),
            ));
        }
    }
    report.table("", &table)?;
    let title = "One rank with two thirds of the rows, ideally 1.33 (median, 95 % interval)";
    let mut plot = Bars::new(title, "time / time of halves", names);
    plot.add("by hand", by_hand);
    plot.add("armature", ours);
    report.bars("", &plot)
}
