//! Tasks per second of workflows on two ranks whose tasks do nothing. A farm of as many empty tasks, which depend on nobody,
//! stands beside them.

use crate::{
    Experiment, Mark, Outcome, Report, Table, Target,
    farm::tiny::{self, Tiny},
    pairs::{Contestant, round_robin},
    stats::median_interval,
    workflows::empty::{self, Shape},
};

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "workflow-rate",
    about: "empty tasks of a workflow on two ranks, tasks/s, beside a farm of as many",
    needs: "mpirun of Open MPI, two cores",
    run,
};

const TASKS: usize = 10_000;

/// Tasks per second at least.
const MARK: f64 = 100_000.0;

fn run(report: &mut Report, smoke: bool) -> Outcome {
    let tasks = if smoke { TASKS / 10 } else { TASKS };
    let farm = Tiny { size: 8, tasks, dedicated: false };
    let contestants = vec![
        Contestant::new("independent tasks", || empty::measure(Shape::Independent, tasks)),
        Contestant::new("layers of a hundred", || empty::measure(Shape::Layers, tasks)),
        Contestant::new("farm", || tiny::measure(farm)),
    ];
    let rounds = round_robin(report.rounds(20), contestants)?;
    let mut table = Table::new(&["tasks", "median [tasks/s]", "low", "high"]);
    for (name, samples) in rounds.iter() {
        let rate = median_interval(samples);
        table.row([name.into(), rate.value.into(), rate.low.into(), rate.high.into()]);
        if name != "farm" {
            report.mark(Mark::new(name, rate, "tasks/s", Target::AtLeast(MARK)));
        }
    }
    report.table("", &table)
}
