//! What it costs that a stage makes items, instead of the source: four trivial stages on two ranks.
//!
//! Where ten are made of one, a batch stays a batch; where a million are, it leaves the stage in pieces, for which room is asked
//! for. Items are 8 bytes wide and next to nothing is done with them, so nothing hides the cost.

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
/// Name, and how many are made of one.
const WITH: [(&str, u64); 3] = [("two of one", 2), ("ten of one", 10), ("a million of one", 1_000_000)];

fn run(report: &mut Report, smoke: bool) -> Outcome {
    // Runs of a second or so.
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
