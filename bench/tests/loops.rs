//! Parallel loops, hand-written and with the framework, on ranks of Open MPI: their results are bitwise identical to
//! those of the serial loop.

use std::path::Path;

use armature_bench::{
    loops::job::{Job, Kernel},
    ranks::STOPPED,
};

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_armature-bench"))
}

#[track_caller]
fn is_right(job: &Job, ranks: usize) {
    let run = Job { verify: true, ..job.clone() }.by_hand_from(binary(), ranks).unwrap();
    assert!(run.seconds > 0.0, "{run:?}");
}

#[test]
fn products_equal_the_serial_loop() {
    for ranks in [1, 2, 3] {
        is_right(&Job { settle: 1, split: 0.3, ..Job::new(Kernel::Matmul, 67, 2) }, ranks);
    }
}

#[test]
fn sweeps_equal_the_serial_loop() {
    let cases = [(1, 7, 0.5), (2, 0, 0.5), (2, 3, 0.1), (2, 10, 0.8), (3, 9, 0.5)];
    for (ranks, columns, split) in cases {
        is_right(&Job { settle: 2, columns, split, ..Job::new(Kernel::Sor, 31, 3) }, ranks);
    }
}

#[test]
fn heat_steps_equal_the_serial_loop() {
    for (ranks, split) in [(1, 0.5), (2, 0.02), (2, 0.6), (3, 0.5)] {
        is_right(&Job { settle: 2, split, ..Job::new(Kernel::Heat, 51, 4) }, ranks);
    }
}

#[test]
fn rank_without_rows_is_an_error() {
    let job = Job { split: 0.0, ..Job::new(Kernel::Heat, 51, 7) };
    let error = job.by_hand_from(binary(), 2).unwrap_err().to_string();
    assert!(error.contains("loop-by-hand") && !error.contains(STOPPED), "{error}");
}

#[test]
fn framework_results_equal_the_serial_loop() {
    for (kernel, ranks) in [(Kernel::Matmul, 2), (Kernel::Sor, 2), (Kernel::Sor, 3), (Kernel::Heat, 2)] {
        let job = Job { settle: 2, split: 0.8, live: true, verify: true, ..Job::new(kernel, 67, 3) };
        let run = job.with_framework_from(binary(), ranks).unwrap();
        assert!(run.seconds > 0.0 && run.blocks > 0.0, "{run:?}");
    }
}
