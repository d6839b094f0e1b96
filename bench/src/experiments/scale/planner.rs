//! Farms with up to 100,000 workers in the planner's simulator, whose decisions are those of a running farm.
//!
//! SMPI cannot simulate so many ranks. Here a message occupies rank 0 for 1 µs and 8 ns for each byte, and arrives 0.1 ms later. The real time of
//! the simulation, divided by its chunks, is an upper bound of the time of a decision.

use std::time::Instant;

use armature_planner::{
    farm::{Chunker, Chunking, Knowledge, MessageCosts},
    simulate::farm::{Dispatch, Farm, Tasks},
};

use crate::{Report, RunResult, Table, farm::tasks::TaskShape, table::digits};

const WORKERS: [usize; 3] = [1_000, 10_000, 100_000];
/// Tasks for each worker, their mean times in seconds, and their deviation relative to the mean.
const TASKS: usize = 200;
const MEANS: [f64; 2] = [0.01, 0.1];
const DEVIATION: f64 = 0.5;

/// Runs the part.
///
/// # Errors
/// If the table cannot be written.
pub(super) fn run(report: &mut Report, smoke: bool) -> RunResult {
    let columns = [
        "mean length [ms]",
        "workers",
        "time [s]",
        "efficiency",
        "chunks per worker",
        "real time of a chunk [µs]",
    ];
    let mut table = Table::new(&columns);
    for (mean, workers) in MEANS.into_iter().flat_map(|mean| WORKERS.map(|workers| (mean, workers))) {
        let workers = if smoke { workers / 100 } else { workers };
        let shape = TaskShape { tasks: TASKS * workers, mean, spread: DEVIATION, block: 1 };
        let tasks = Tasks::new(&shape.iterations(1)?.next().unwrap_or_default());
        let knowledge = Knowledge {
            messages: MessageCosts::new(1e-6, 8e-9),
            latency: 1e-4,
            task_bytes: 16.0,
            result_bytes: 16.0,
            ahead: 1,
            ..Knowledge::default()
        };
        let ranks: Vec<usize> = (1..=workers).collect();
        let mut chunker = Chunker::new(Chunking::Auto);
        let start = Instant::now();
        let run = Dispatch::new(&mut chunker, &tasks, knowledge).iteration(&Farm::new(knowledge), &ranks);
        let real = start.elapsed().as_secs_f64();
        table.row([
            (1e3 * mean).into(),
            workers.into(),
            run.time.into(),
            digits(run.efficiency(workers), 3),
            digits(run.chunks as f64 / workers as f64, 1),
            digits(1e6 * real / run.chunks as f64, 2),
        ]);
    }
    report.table("planner", &table)
}
