//! Experiment on the time of a farm on four ranks, one of which slows down to a tenth of its speed for the last twentieth of the tasks: with second
//! copies of unfinished tasks on idle ranks, without them, and with a distribution that knows the speeds in advance.

use std::time::Duration;

use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    farm::slow_end::{Dispatch, Tasks},
    pairs::{Contestant, round_robin},
    stats::{median, median_interval},
    table::digits,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "farm-second-copies",
    about: "a rank at a tenth of its speed near the end: with second copies, without, and against known speeds",
    needs: "mpirun of Open MPI",
    run,
};

const ROUNDS: usize = 20;
const TASKS: Tasks = Tasks { count: 1_600, mean: Duration::from_millis(5) };
const FEW_TASKS: Tasks = Tasks { count: 100, mean: Duration::from_millis(2) };

const WITH: &str = "with second copies";
const WITHOUT: &str = "without";
const ORACLE: &str = "known speeds";

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let tasks = if smoke { FEW_TASKS } else { TASKS };
    let of = |name, dispatch| Contestant::new(name, move || tasks.measure(dispatch));
    let contestants = vec![
        of(WITH, Dispatch::WithCopies),
        of(WITHOUT, Dispatch::WithoutCopies),
        of(ORACLE, Dispatch::Oracle),
    ];
    let rounds = round_robin(report.rounds(ROUNDS), contestants)?;
    let mut table = Table::new(&["farm", "median [s]", "low", "high", "times that with known speeds"]);
    for (name, samples) in rounds.iter() {
        let time = median_interval(samples);
        let ratio = rounds
            .ratio(name, ORACLE)
            .map(|ratio| format!("{:.3} ({:.3} to {:.3})", ratio.value, ratio.low, ratio.high));
        table.row([
            name.into(),
            median(samples).into(),
            digits(time.low, 3),
            digits(time.high, 3),
            ratio.unwrap_or_default().into(),
        ]);
    }
    report.table("", &table)?;
    if let Some(ratio) = rounds.ratio(WITH, ORACLE) {
        report.mark(TargetedValue::new("against known speeds", ratio, "times the time", Target::AtMost(1.1)));
    }
    Ok(())
}
