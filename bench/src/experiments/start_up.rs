//! Experiment on the start of a job: eight ranks on two cores that start, meet and end, with the framework and with MPI by hand.
//!
//! The time is that of the whole `mpirun`. Both programs are this binary, so both load the same code.

use armature::{Config, Progress};
use mpi::traits::*;

use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    pairs::{Contestant, round_robin},
    ranks::Launch,
    stats::median_interval,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "start-up",
    about: "eight ranks that start, meet and end: the framework against MPI by hand",
    needs: "mpirun of Open MPI",
    run,
};

const ROUNDS: usize = 20;
const RANKS: usize = 8;
/// Target: maximum ratio of the time with the framework to the time by hand.
const MARK: f64 = 1.5;
/// Names of the two programs.
const OURS: &str = "start";
const BY_HAND: &str = "start-by-hand";

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let job = Launch::ranks(if smoke { 2 } else { RANKS });
    let contestant = |name: &'static str| {
        let job = job.clone();
        Contestant::timed(name, move || job.output(name, &[]).map(drop))
    };
    let rounds = round_robin(report.rounds(ROUNDS), vec![contestant(OURS), contestant(BY_HAND)])?;
    let mut table = Table::new(&["program", "time [s]", "low", "high"]);
    for (name, samples) in rounds.iter() {
        let time = median_interval(samples);
        table.row([name.into(), time.value.into(), time.low.into(), time.high.into()]);
    }
    report.table("", &table)?;
    if let Some(ratio) = rounds.ratio(OURS, BY_HAND) {
        let what = format!("{} ranks", job.ranks);
        report.mark(TargetedValue::new(&what, ratio, "times the time by hand", Target::AtMost(MARK)));
    }
    Ok(())
}

/// Runs a rank that only opens a session.
///
/// # Errors
/// Errors of the framework.
pub(crate) fn main() -> RunResult {
    let config = Config::from_env()?.progress(Progress::Off);
    Ok(armature::run(&config, |session| Ok(session.barrier()?))?)
}

/// Runs a rank that only initialises MPI.
///
/// # Errors
/// If MPI is initialised already.
pub(crate) fn by_hand() -> RunResult {
    let universe = mpi::initialize().ok_or("MPI is initialised already")?;
    universe.world().barrier();
    Ok(())
}
