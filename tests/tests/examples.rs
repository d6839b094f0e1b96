//! The programs in `examples`: the test of each against the serial program, on threads, and one of them as a user runs it.

#![allow(dead_code, reason = "nobody calls their `main` here")]

#[path = "../../examples/k_means.rs"]
mod k_means;
#[path = "../../examples/lcs.rs"]
mod lcs;
#[path = "../../examples/life.rs"]
mod life;
#[path = "../../examples/n_body.rs"]
mod n_body;
#[path = "../../examples/pi.rs"]
mod pi;
#[path = "../../examples/plate.rs"]
mod plate;
#[path = "../../examples/stations.rs"]
mod stations;
#[path = "../../examples/tree_search.rs"]
mod tree_search;
#[path = "../../examples/word_count.rs"]
mod word_count;

use std::process::Command;

use armature_tests::mpirun::Job;
use armature_tests::program::succeeds;

const SWEEP: &str = env!("CARGO_BIN_EXE_example-parameter-sweep");

/// What the command of the sweep computes.
fn animals(rate: f64) -> f64 {
    (0..1_000).fold(0.3, |x, _| x * (rate * (1.0 - x)))
}

#[test]
fn the_parameter_sweep_runs_its_program_for_each_value() {
    let serial: String = (0..20)
        .map(|n| format!("{:.2}", 1.0 + 0.1 * f64::from(n)))
        .map(|rate| {
            let animals = animals(rate.parse().unwrap());
            format!("{rate}\t{animals:.6}\n")
        })
        .collect();
    for ranks in ["1", "2", "3"] {
        let place = tempfile::tempdir().unwrap();
        let said = succeeds(Command::new(SWEEP).arg(place.path()).args(["--ranks", ranks]));
        assert_eq!(said.printed, serial, "{ranks} ranks");
    }
    let place = tempfile::tempdir().unwrap();
    let outcome = Job::new(SWEEP, 2).arg(place.path()).succeeds();
    assert_eq!(outcome.stdout, serial, "{outcome}");
}
