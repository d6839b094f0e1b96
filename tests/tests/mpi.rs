//! Runs every test program (case) on MPI processes: on 1 to 4 ranks, and on more ranks than cores. `local.rs` varies the settings that do not concern
//! messages, on threads.
//!
//! `ARMATURE_TEST_MPI` states the expected MPI library (default: the library to which the program
//! is linked), and `ARMATURE_TEST_MPIRUN` the launcher with its arguments. `ci/mpi/with.sh` sets
//! both.

use std::process::Command;
use std::time::Duration;

use armature_launch::Mpi;
use armature_tests::mpirun::Job;
use armature_tests::{all, cases};

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-cases");

/// Runs all test programs (cases); every rank must print a line for each.
#[track_caller]
fn all_cases(ranks: usize, env: &[(&str, &str)]) {
    let job = env.iter().fold(Job::new(PROGRAM, ranks), |job, (name, value)| job.env(name, value));
    let names: Vec<&str> = all().iter().map(|c| c.name).collect();
    let outcome = job.passes(&names);
    println!("{ranks} ranks with {env:?}: {:?}", outcome.took);
}

#[test]
fn all_cases_pass_on_one_rank() {
    all_cases(1, &[]);
}

#[test]
fn all_cases_pass_on_two_ranks() {
    all_cases(2, &[]);
}

#[test]
fn all_cases_pass_with_more_ranks_than_cores() {
    all_cases(6, &[]);
}

/// Rows or indices move between ranks as a seed selects: 200 seeds of loops over indices, with and without barriers, and 100 seeds of each kind of
/// grid.
#[test]
fn loops_pass_while_units_move_for_hundreds_of_seeds() {
    let names: Vec<&str> = cases::SEEDS.iter().map(|c| c.name).collect();
    let job = names.iter().fold(Job::new(PROGRAM, 3), |job, name| job.arg(*name));
    let outcome = job.limit(Duration::from_secs(300)).passes(&names);
    println!("{:?}", outcome.took);
}

#[test]
fn all_cases_pass_on_three_ranks_with_tiny_message_pieces() {
    all_cases(3, &[("ARMATURE_SPLIT_BYTES", "1009"), ("ARMATURE_CASES_BIG_BYTES", "300001")]);
}

#[test]
fn all_cases_pass_with_live_balancing() {
    all_cases(4, &[("ARMATURE_BALANCE", "live")]);
}

/// With these settings of the MPI library, no send completes before its receive has started. `ci/mpi/eager-probe.sh` shows that a program which
/// depends on eager sends hangs with them.
#[test]
#[ignore = "`ci/test.sh no-eager` runs it on both libraries"]
fn all_cases_pass_without_eager_sends() {
    let env: &[(&str, &str)] = match Job::new(PROGRAM, 1).mpi() {
        Mpi::OpenMpi => &[
            ("OMPI_MCA_pml", "ob1"),
            ("OMPI_MCA_btl", "self,tcp"),
            ("OMPI_MCA_btl_tcp_if_include", "lo"),
            ("OMPI_MCA_btl_tcp_eager_limit", "64"),
            ("OMPI_MCA_btl_self_eager_limit", "64"),
        ],
        Mpi::Mpich => &[("UCX_RNDV_THRESH", "0")],
    };
    all_cases(3, env);
    // Without eager sends, every batch of items waits for a handshake, so that only the most demanding cases run with batches of one item.
    let cases = ["overtaking", "window", "serial-stages", "items-big", "many-pipelines"];
    let env = [env, &[("ARMATURE_WINDOW", "2"), ("ARMATURE_BATCH", "1")]].concat();
    let job = env.iter().fold(Job::new(PROGRAM, 2), |job, (name, value)| job.env(name, value));
    cases.iter().fold(job, |job, case| job.arg(*case)).passes(&cases);
}

/// A program that was built with the headers of MPICH and finds the library of Open MPI must report this. In the opposite case the system's loader
/// does not start the program.
#[test]
fn library_of_another_mpi_is_refused() {
    let job = Job::new(PROGRAM, 2).arg("order").limit(Duration::from_secs(30));
    let (own, other) = match job.mpi() {
        Mpi::OpenMpi => ("libmpi.so.40", "libmpich.so.12"),
        Mpi::Mpich => ("libmpich.so.12", "libmpi.so.40"),
    };
    let known = Command::new("/sbin/ldconfig").arg("-p").output().expect("ldconfig starts");
    let known = String::from_utf8(known.stdout).expect("text");
    let line = known.lines().find(|line| line.trim_start().starts_with(other)).expect("both libraries");
    let (_, path) = line.split_once("=> ").expect("a path");
    let dir = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink(path, dir.path().join(own)).expect("a link");
    let says_so = job.mpi() == Mpi::Mpich;
    let outcome = job.env("LD_LIBRARY_PATH", dir.path().to_str().expect("text")).run();
    assert!(!outcome.status.success() && !outcome.hung, "{outcome}");
    let text = "was built with the headers of MPICH, or of an MPI derived from it, but is linked to Open MPI";
    assert!(!says_so || outcome.stderr.contains(text), "{outcome}");
}

/// The launcher of the other MPI library starts two worlds of one rank each, which the program must not take for its job.
#[test]
fn launcher_of_another_mpi_is_refused() {
    let job = Job::new(PROGRAM, 2).arg("body-only").limit(Duration::from_secs(30));
    let other = match job.mpi() {
        Mpi::OpenMpi => Mpi::Mpich,
        Mpi::Mpich => Mpi::OpenMpi,
    };
    let outcome = job.launcher(other).run();
    assert!(!outcome.status.success() && !outcome.hung, "{outcome}");
    for part in ["started as one of 2 ranks by", "sees one rank only", "own launcher"] {
        assert!(outcome.stderr.contains(part), "`{part}` is not printed\n{outcome}");
    }
    assert!(!outcome.stdout.contains(": ok"), "{outcome}");
    assert!(outcome.left_behind.is_empty(), "{outcome}");
}

#[test]
fn unusable_setting_is_refused_by_name() {
    for (name, value, expected) in [
        ("ARMATURE_BATCH", "many", "expected a whole number from 1"),
        ("ARMATURE_DRIVER", "fast", "expected one of auto, inline, threaded"),
        ("ARMATURE_SPLIT_BYTES", "0", "expected a whole number from 1"),
        ("ARMATURE_PEER_SECONDS", "-1", "expected a whole number from 1"),
        ("ARMATURE_TRANSPORT", "tcp", "expected one of auto, local, mpi"),
    ] {
        let outcome =
            Job::new(PROGRAM, 2).arg("body-only").env(name, value).limit(Duration::from_secs(30)).run();
        assert!(!outcome.status.success() && !outcome.hung, "{name}={value}: {outcome}");
        let message = format!("{name}={value}: {expected}");
        assert!(outcome.stderr.contains(&message), "`{message}` is not printed\n{outcome}");
        assert!(outcome.left_behind.is_empty(), "{outcome}");
    }
}

#[test]
fn nonexistent_case_is_refused() {
    let outcome = std::process::Command::new(PROGRAM).arg("no-such-case").output().expect("it starts");
    assert_eq!(outcome.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&outcome.stderr).contains("there is no case no-such-case"));
}
