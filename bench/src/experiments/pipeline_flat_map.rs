//! Cost of items that are created by a stage instead of the source: four trivial stages on two ranks.
//!
//! If ten items are made of one, a batch stays whole. If a million items are made of one, a batch leaves the stage in
//! pieces, for each of which the stage requests buffer space. Items are 8 bytes wide and the stages do next to
//! nothing, so nothing hides the cost.

use crate::{
    Experiment, Mark, Outcome, Report, Table, Target,
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
/// Cases with `flat_map`: name, and number of items that the stage creates from each input item.
const WITH: [(&str, u64); 3] = [("two of one", 2), ("ten of one", 10), ("a million of one", 1_000_000)];

fn run(report: &mut Report, smoke: bool) -> Outcome {
    // With this number of items a run takes about a second.
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
            report.mark(Mark::new(&what, ratio, "of the items/s", Target::AtLeast(0.9)));
        }
    }
    Ok(())
}
