//! Experiment in which one rank is killed in each phase of a job under `armature run`, with and without recovery. It checks that the job ends with
//! the right exit code, and that the results of finished jobs are right.
//!
//! 50 jobs of three ranks run a farm, a tree search, a workflow, a pipeline or a loop, twice in each job. The kills cycle through the values of
//! [`Moment`], from before the start of MPI to after the end of the session. The expected behaviour is specified in `docs/deaths.md`: a job survives
//! only the death of a worker of a running farm or workflow, and only with recovery.

use armature_tests::mpirun::linked;
use armature_tests::phases::kills::{Kill, Moment, TestedProgram, histogram};

use crate::{Report, RunResult, Table, Target, TargetedValue, stats::median, verdict::Interval};

const SEED: u64 = 20;

pub(super) fn run(report: &mut Report, smoke: bool) -> RunResult {
    let this = std::env::current_exe().map_err(|e| format!("cannot find this binary: {e}"))?;
    let armature = this.with_file_name("armature");
    if !armature.is_file() {
        return Err(format!("{} is missing; ci/bench.sh builds it", armature.display()).into());
    }
    let mpi = linked(&this);
    let tested_program =
        TestedProgram { armature, program: this, leading_arguments: vec!["rank".into(), "phases".into()] };
    let kills: Vec<Kill> = (0..if smoke { 4 } else { 50 }).map(|n| Kill::from_seed(SEED, n, mpi)).collect();
    let mut times: Vec<(Moment, f64)> = Vec::new();
    let mut wrong = 0;
    for kill in &kills {
        match kill.run(&tested_program) {
            Ok(outcome) => times.push((kill.moment, outcome.took.as_secs_f64())),
            Err(error) => {
                report.note(error);
                wrong += 1;
            }
        }
    }
    let mut table = Table::new(&["killed when", "runs", "as it must be", "median [s]", "longest [s]"]);
    for moment in Moment::ALL {
        let runs = kills.iter().filter(|kill| kill.moment == moment).count();
        let of: Vec<f64> = times.iter().filter(|(m, _)| *m == moment).map(|(_, time)| *time).collect();
        if !of.is_empty() {
            let longest = of.iter().copied().fold(0.0, f64::max);
            table.row([
                format!("{moment:?}").into(),
                runs.into(),
                of.len().into(),
                median(&of).into(),
                longest.into(),
            ]);
        }
    }
    report.table("phases", &table)?;
    histogram(&kills).lines().for_each(|line| report.note(line));
    let what = "killed in any phase, hung or with a wrong exit code or result";
    report.mark(TargetedValue::new(what, Interval::exact(f64::from(wrong)), "runs", Target::AtMost(0.0)));
    Ok(())
}
