//! Experiment on the cost of yielding the processor whenever no message has arrived, for ranks that share cores, with and without a competing
//! process.
//!
//! Open MPI makes ranks yield if `mpirun` finds more ranks than cores. armature switches yielding off, because its ranks sleep between polls. The
//! experiment runs the same pipeline on four ranks on two cores with both settings, alone and next to a competing process on one core.

use armature_planner::pipeline::{PlanOptions, plan};
use armature_planner::{Link, Platform};

use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    burner::{Load, two_cores},
    pairs::{Contestant, round_robin},
    remap_run::Job,
    stats::median_interval,
    synthetic_work::{UNEVEN, seconds_per_item, spec},
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "idle-yield",
    about: "four ranks on two cores, alone and under a load: sleeping between polls against Open MPI's yielding",
    needs: "mpirun of Open MPI, two cores that nobody else uses",
    run,
};

const RANKS: usize = 4;
const ROUNDS: usize = 10;
/// Time in seconds of a pipeline run without competing load.
const SECONDS: f64 = 4.0;
const SMOKE_SECONDS: f64 = 0.2;
const PARAMETER: &str = "OMPI_MCA_mpi_yield_when_idle";
const WAYS: [(&str, &str, bool); 4] = [
    ("sleeping, alone", "0", false),
    ("yielding, alone", "1", false),
    ("sleeping, beside a load", "0", true),
    ("yielding, beside a load", "1", true),
];

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let cores = two_cores()?;
    let spec = spec(UNEVEN);
    let platform = Platform::uniform(RANKS, 1e9, Link { bandwidth: 1e9, setup: 2e-5 })?.with_ext_on(0)?;
    let mapping = plan(&platform, &spec, &PlanOptions::default())?.mapping.display(&spec).to_string();
    let seconds = if smoke { SMOKE_SECONDS } else { SECONDS };
    let items = ((2.0 * seconds / seconds_per_item(UNEVEN)) as u64).max(60);
    report.note(format!("{items} items, {mapping}, ranks pinned to cores {cores:?}"));
    let contestant = |&(name, value, loaded): &(&'static str, &'static str, bool)| {
        let environment = vec![(PARAMETER, value)];
        let job = Job { cores: cores.to_vec(), environment, ..Job::fixed("uneven", items, &mapping) };
        Contestant::new(name, move || {
            let _load = if loaded { Some(Load::on_core(cores[0]).start()?) } else { None };
            Ok(job.on_mpi(RANKS)?.total)
        })
    };
    let rounds = round_robin(report.rounds(ROUNDS), WAYS.iter().map(contestant).collect())?;
    let mut table = Table::new(&["way", "median [s]", "low", "high"]);
    for (name, samples) in rounds.iter() {
        let time = median_interval(samples);
        table.row([name.into(), time.value.into(), time.low.into(), time.high.into()]);
    }
    report.table("", &table)?;
    let [sleeping, yielding, sleeping_loaded, yielding_loaded] = WAYS.map(|(name, ..)| name);
    let mut mark = |what: &str, of: &str, to: &str, target| {
        let ratio = rounds.ratio(of, to).ok_or("a way was not run")?;
        report.mark(TargetedValue::new(what, ratio, "times the time of yielding", target));
        RunResult::Ok(())
    };
    mark("beside a load", sleeping_loaded, yielding_loaded, Target::AtMost(1.0))?;
    mark("alone", sleeping, yielding, Target::AtMost(1.03))
}
