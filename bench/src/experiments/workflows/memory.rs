//! Experiment on the memory of ranks that run workflows under a tight memory limit: the peak growth of a process, relative to the limit of a rank.
//!
//! The tasks of twenty random graphs return arrays whose total size is several times the memory limit of all ranks. In addition, the graph of
//! dask/distributed#5453 is run: tasks that create arrays of 90 MB and tasks that sum up their numbers, on two workers of 400 MB each. Dask runs the
//! same graph twice: with its limit for the whole memory of a worker process, and with the limit for the memory in addition to Python and its
//! modules. A run of Dask that does not finish is a result, not an error.

use std::{process::Command, time::Duration};

use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    experiments::peers,
    ranks::{finish, one},
    table::Cell,
    verdict::Interval,
    workflows::heavy::{self, Heavy},
};

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "workflow-memory",
    about: "memory that processes use of what a workflow may use, when memory is short",
    needs: "mpirun of Open MPI, Dask (ci/bench.sh installs it), 2 GiB of memory, 3 GiB on the disk for temporary files",
    run,
};

const GRAPHS: u64 = 20;

/// Bytes of an array that a task returns, and memory limit of a rank in bytes.
const ARRAY_AND_LIMIT: (usize, u64) = (8 << 20, 49 << 20);
const SUMS: (usize, u64) = (90_000_000, 400_000_000);

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let mut table =
        Table::new(&["graph", "ranks", "seconds", "peak [MB]", "of what it may hold", "spilled [MB]"]);
    let mut worst: f64 = 0.0;
    let mut measure = |name: String, heavy: Heavy, ranks: usize| -> RunResult {
        let measured = heavy::measure(heavy, ranks)?;
        let share = measured.peak / heavy.memory as f64;
        worst = worst.max(share);
        table.row([
            name.into(),
            ranks.into(),
            measured.took.into(),
            (measured.peak / 1e6).into(),
            share.into(),
            (measured.spilled / 1e6).into(),
        ]);
        Ok(())
    };
    let (bytes, memory) = ARRAY_AND_LIMIT;
    for seed in 1..=if smoke { 1 } else { GRAPHS } {
        for ranks in [2, 4] {
            measure(format!("drawn {seed}"), Heavy { sources: 24, bytes, memory, seed }, ranks)?;
        }
    }
    let (bytes, memory) = SUMS;
    let (sources, bytes, memory) = if smoke { (4, bytes / 10, memory / 10) } else { (16, bytes, memory) };
    let sums = Heavy { sources, bytes, memory, seed: 0 };
    measure("sums".into(), sums, 2)?;
    let limits = [("own", "sums by Dask, with the limit beside its modules"), ("all", "sums by Dask")];
    // A smoke run (short test of the experiment) has a tenth of the memory limit. As a limit for a whole process of Dask, this is too little for
    // Python itself, and Dask would hang. Therefore this case is skipped.
    for (limit, name) in limits.into_iter().take(if smoke { 1 } else { 2 }) {
        table.row(dask(name, limit, sums)?);
    }
    report.table("", &table)?;
    report.mark(TargetedValue::new(
        "largest peak",
        Interval::exact(worst),
        "of what a rank may hold",
        Target::AtMost(1.0),
    ));
    Ok(())
}

/// Time limit of a run of Dask. If workers run out of memory, Dask waits ten seconds before each restart of a worker, and gives a task up after three
/// restarts.
const DASK_LIMIT: Duration = Duration::from_secs(180);

/// Runs the graph that creates and sums up arrays with Dask, and returns its row for the table of results.
fn dask(name: &str, limit: &str, sums: Heavy) -> RunResult<[Cell; 6]> {
    let mut command = Command::new(peers::python(peers::WORKFLOWS, "python", "Dask")?);
    command.arg(peers::folder().join("workflows/sums.py"));
    command.args([sums.sources.to_string(), sums.bytes.to_string(), sums.memory.to_string(), limit.into()]);
    command.stderr(std::process::Stdio::null());
    let values = one(&finish(command, DASK_LIMIT)?)?;
    let has_ended = values["ended"] == 1.0;
    Ok([
        name.into(),
        2.into(),
        if has_ended { values["seconds"].into() } else { "no end".into() },
        (values["peak"] / 1e6).into(),
        (values["peak"] / sums.memory as f64).into(),
        (values["spilled"] / 1e6).into(),
    ])
}
