//! Runs every test program (case) while other processes take and release the cores, so that ranks lose their cores at any moment.
//!
//! The times of these loads depend on seeds, so that a failure can be repeated as far as a real machine allows. `ci/smpi/test.sh` runs the cases on
//! simulated hosts whose speeds drop and recover.

use std::path::Path;
use std::time::Duration;

use armature_tests::burner::{Burner, Load, Wave, two_cores};
use armature_tests::mpirun::Job;
use armature_tests::{all, local};

/// Starts a load on each of two cores; the seeds of the loads differ.
#[track_caller]
fn loads(period: Duration, seed: u64) -> [Burner; 2] {
    let wave = Wave::new(period, 0.5).unwrap();
    let cores = two_cores().unwrap();
    [(cores[0], 2 * seed), (cores[1], 2 * seed + 1)].map(|(core, seed)| {
        let load = Load::on_core(core).wave(wave.seeded(seed));
        load.start_from(Path::new(env!("CARGO_BIN_EXE_armature-burner"))).unwrap()
    })
}

#[test]
fn cases_pass_on_mpi_under_intermittent_load() {
    let names: Vec<&str> = all().iter().map(|case| case.name).collect();
    let _loads = loads(Duration::from_millis(150), 2);
    let outcome =
        Job::new(env!("CARGO_BIN_EXE_armature-cases"), 3).env("ARMATURE_BALANCE", "live").passes(&names);
    println!("{:?}", outcome.took);
}

#[test]
fn cases_pass_on_threads_under_intermittent_load() {
    let _loads = loads(Duration::from_millis(60), 3);
    for case in all() {
        local::run(case.name, &local::config(3), case.run).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    }
}
