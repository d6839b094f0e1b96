//! Experiment on the cost of streaming for a product of matrices: the pipeline `matmul-stream`, which sends blocks of matrices to its stages, against
//! a parallel loop whose rows stay on their ranks, and against OpenBLAS.
//!
//! All programs use single precision, except the loop and a second run of OpenBLAS, which use double precision. OpenBLAS is called through NumPy.

use std::time::Instant;

use matmul_stream::kernel::multiply;
use matmul_stream::matrix::Matrix;

use super::stream_runs::{command, number_before, real};
use crate::pairs::{Contestant, round_robin};
use crate::stats::median_interval;
use crate::verdict::Interval;
use crate::{Experiment, Report, RunResult, Table, Target, TargetedValue};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "matmul-stream",
    about: "a product of matrices as a stream of blocks, against a loop and OpenBLAS on the same cores",
    needs: "mpirun of Open MPI, two cores, NumPy, matmul and matmul-stream beside this binary (ci/bench.sh builds them)",
    run,
};

const KERNEL: &str = "the block kernel alone, one core";
const ONE: &str = "matmul-stream, one rank";
const TWO: &str = "matmul-stream, two ranks";
const LARGE: &str = "matmul-stream, two ranks, blocks of 512";
const LOOP: &str = "matmul, two ranks (f64)";
const BLAS: &str = "OpenBLAS sgemm, two threads";

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let size = if smoke { 96 } else { 3072 };
    let dots = if smoke { 40 } else { 300 };
    let ours = |ranks: usize, size: u64, item: &str| {
        let arguments = format!("--size {size} {item}");
        let arguments: Vec<String> = arguments.split(' ').map(String::from).collect();
        number_before(&real("matmul-stream", ranks, &arguments)?, " Gflop/s")
    };
    let rows = |ranks: usize| {
        let arguments = format!("--size {size}");
        let arguments: Vec<String> = arguments.split(' ').map(String::from).collect();
        number_before(&real("matmul", ranks, &arguments)?, " Gflop/s")
    };
    let contestants = vec![
        Contestant::new(KERNEL, || kernel(size)),
        Contestant::new(ONE, || ours(1, size, "--block 128")),
        Contestant::new(TWO, || ours(2, size, "--block 128")),
        Contestant::new(LARGE, || ours(2, size, "--block 512")),
        Contestant::new("matmul-stream, a row and a column an item", || ours(2, dots, "--item row")),
        Contestant::new(LOOP, || rows(2)),
        Contestant::new(BLAS, || blas(size, "float32", 2)),
        Contestant::new("OpenBLAS sgemm, one thread", || blas(size, "float32", 1)),
        Contestant::new("OpenBLAS dgemm, two threads", || blas(size, "float64", 2)),
    ];
    let rounds = round_robin(report.rounds(7), contestants)?;
    let mut table = Table::new(&["product", "median [Gflop/s]", "low", "high"]);
    for (name, samples) in rounds.iter() {
        let speed = median_interval(samples);
        table.row([name.into(), speed.value.into(), speed.low.into(), speed.high.into()]);
    }
    report.table("", &table)?;
    if let Some(ratio) = rounds.ratio(ONE, KERNEL) {
        report.mark(TargetedValue::new(
            "one rank against its kernel",
            ratio,
            "times as fast",
            Target::AtLeast(0.8),
        ));
    }
    for (ours, other) in [(TWO, ONE), (LARGE, ONE), (LARGE, LOOP), (LARGE, BLAS)] {
        if let Some(Interval { value, low, high }) = rounds.ratio(ours, other) {
            report.note(format!("{ours}: {value:.3} ({low:.3} to {high:.3}) times as fast as {other}"));
        }
    }
    Ok(())
}

/// Returns the Gflop/s of the product of two blocks by the code of `matmul-stream`, without a pipeline.
fn kernel(size: u64) -> RunResult<f64> {
    const SIDE: u64 = 128;
    let side = SIDE.min(size);
    let a = Matrix::generated(size, 1).block(0..side, 0..size)?;
    let b = Matrix::generated(side, 2).block(0..size, 0..side)?;
    let mut c = vec![0.0; (side * side) as usize];
    let times = (size / side).pow(2).max(1);
    let start = Instant::now();
    for _ in 0..times {
        multiply(&a, &b, size as usize, side as usize, std::hint::black_box(&mut c));
    }
    Ok(2e-9 * (times * side * side * size) as f64 / start.elapsed().as_secs_f64())
}

fn blas(size: u64, kind: &str, threads: u32) -> RunResult<f64> {
    let python = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/mpi4py/bin/python");
    let script = format!(
        "import numpy, time\n\
         a, b = (numpy.random.rand({size}, {size}).astype('{kind}') for _ in range(2))\n\
         a @ b\nstart = time.perf_counter()\na @ b\n\
         print(2e-9 * {size} ** 3 / (time.perf_counter() - start), 'Gflop/s')"
    );
    let variable = format!("OPENBLAS_NUM_THREADS={threads}");
    let output =
        command(["env".into(), variable.into(), python.into_os_string(), "-c".into(), script.into()])?;
    number_before(&output, " Gflop/s")
}
