//! Experiment on the speed-up of the image search Ferret on one, two and six ranks on two cores. Measured times are those of whole processes,
//! start-up included.
//!
//! For comparison, two runs of one rank process half of the queries each at the same time. Their time shows the maximum speed-up on the machine.

use super::ferret_runs::{Files, SERIAL};
use crate::{
    Bars, Experiment, Report, RunResult, Table, Target, TargetedValue,
    pairs::{Contestant, round_robin},
    stats::median_interval,
    table::digits,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ferret-scaling",
    about: "Ferret on one, two and six ranks on two cores, wall-clock time",
    needs: "mpirun of Open MPI, two cores, ferret beside this binary (ci/bench.sh builds it)",
    run,
};

const ONE: &str = "one rank";
const TWO: &str = "two ranks";
const SIX: &str = "six ranks";
const BOUND: &str = "two halves at once";

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let files = Files::make("ferret-scaling", if smoke { 20 } else { 1000 })?;
    let contestants = vec![
        Contestant::new(ONE, || files.query(SERIAL, 1, "serial")),
        Contestant::new(TWO, || files.query("two.tsv", 2, "auto")),
        Contestant::new(SIX, || files.query("six.tsv", 6, "auto")),
        Contestant::new(BOUND, || files.halves()),
    ];
    let rounds = round_robin(report.rounds(20), contestants)?;

    let mut table = Table::new(&["run", "median [s]", "low", "high", "speed-up over one rank"]);
    for (name, samples) in rounds.iter() {
        let time = median_interval(samples);
        let speedup = rounds.ratio(ONE, name).map(|ratio| digits(ratio.value, 3));
        table.row([name.into(), time.value.into(), time.low.into(), time.high.into(), speedup.into()]);
    }
    report.table("", &table)?;
    let mut bars = Bars::new(
        "Ferret on two cores (median, 95 % interval)",
        "time [s]",
        rounds.iter().map(|(name, _)| name),
    );
    bars.add("whole process", rounds.iter().map(|(_, samples)| Some(median_interval(samples))).collect());
    report.bars("", &bars)?;
    let mut mark = |what: &str, a: &str, b: &str, unit: &str, target| {
        if let Some(ratio) = rounds.ratio(a, b) {
            report.mark(TargetedValue::new(what, ratio, unit, target));
        }
    };
    mark("two ranks against one", ONE, TWO, "times as fast", Target::AtLeast(1.8));
    mark("six ranks against two", SIX, TWO, "times the time", Target::AtMost(1.1));
    if let Some(share) = rounds.ratio(BOUND, TWO) {
        report.note(format!("two ranks do {:.3} of what the machine can do ({BOUND})", share.value));
    }
    Ok(())
}
