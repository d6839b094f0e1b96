//! Experiment on the cost of items that a pipeline stage creates instead of the source, with four trivial stages on two ranks.
//!
//! If the stage makes ten items of one, it sends the items of a batch in one message. If it makes a million items of one, it sends them in pieces,
//! for each of which it requests buffer space. Items are 8 bytes wide and the stages do next to nothing, so no other work hides the cost.

use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    expanding::{Setting, measure},
    pairs::{Contestant, round_robin},
    stats::median_interval,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pipeline-flat-map",
    about: "items/s through four trivial stages on two ranks, made by a flat_map or by the source",
    needs: "mpirun of Open MPI",
    run,
};

const WITHOUT: &str = "without flat_map";
/// Cases in which a stage (`flat_map`) creates items: name, and number of items created from each input item.
const WITH: [(&str, u64); 3] = [("two of one", 2), ("ten of one", 10), ("a million of one", 1_000_000)];

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let items = if smoke { 2_000_000 } else { 100_000_000 };
    let contestant = |(name, of_each)| Contestant::new(name, move || measure(Setting { items, of_each }));
    let contestants = [(WITHOUT, 0)].into_iter().chain(WITH).map(contestant).collect();
    let rounds = round_robin(report.rounds(20), contestants)?;
    let mut table = Table::new(&["items", "median [items/s]", "low", "high"]);
    for (name, samples) in rounds.iter() {
        let rate = median_interval(samples);
        table.row([name.into(), rate.value.into(), rate.low.into(), rate.high.into()]);
    }
    report.table("", &table)?;
    for (name, _) in WITH {
        if let Some(ratio) = rounds.ratio(name, WITHOUT) {
            let what = format!("{name} against the same items without it");
            report.mark(TargetedValue::new(&what, ratio, "of the items/s", Target::AtLeast(0.9)));
        }
    }
    Ok(())
}
