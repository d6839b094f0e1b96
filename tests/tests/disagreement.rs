//! Ranks that run different programs: whatever differs, the job ends soon and not with exit code 0, and the message has
//! both sides.

use std::time::{Duration, Instant};

use armature::ErrorKind;
use armature_tests::local;
use armature_tests::mpirun::Job;
use armature_tests::programs::Program;
use proptest::prelude::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-programs");

/// How long a disagreement may go unnoticed, in a process that tests run beside, on a busy machine.
const SOON: Duration = Duration::from_secs(5);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_difference_goes_unnoticed_on_threads(seed in any::<u64>(), change in any::<u64>(), ranks in 2usize..5) {
        let program = Program::of(seed);
        let other = program.other(change);
        let what = format!("{program:?} and on rank {} {other:?}", ranks - 1);
        let start = Instant::now();
        let result = local::run(&what, &local::config(ranks), move |session| program.run(session, &other));
        let error = result.expect_err(&what);
        prop_assert!(start.elapsed() < SOON, "{what}: {:?}", start.elapsed());
        prop_assert_eq!(error.kind(), ErrorKind::Config, "{}: {}", what, error);
        prop_assert_eq!(error.rank(), Some(ranks - 1));
        prop_assert!(error.message().contains("where rank 0 "), "{what}: {error}");
    }

    #[test]
    fn ranks_that_agree_have_the_serial_results(seed in any::<u64>(), ranks in 1usize..4) {
        let program = Program::of(seed);
        let what = format!("{program:?} on {ranks} ranks");
        let result = local::run(&what, &local::config(ranks), move |session| program.run(session, &program));
        prop_assert!(result.is_ok(), "{what}: {result:?}");
    }
}

#[test]
fn no_difference_goes_unnoticed_under_mpirun() {
    for seed in 0..12 {
        let outcome =
            Job::new(PROGRAM, 2 + seed % 2).arg("differ").arg(seed.to_string()).limit(SOON * 6).run();
        assert!(!outcome.status.success() && !outcome.hung, "{seed}: {outcome}");
        assert!(outcome.left_behind.is_empty(), "{seed}: {outcome}");
        let told = outcome.stderr.lines().filter(|line| line.starts_with("armature: rank "));
        let told: Vec<&str> = told.collect();
        assert!(matches!(told[..], [line] if line.contains(", where rank 0 ")), "{seed}: {outcome}");
    }
}

#[test]
fn ranks_that_agree_have_the_serial_results_under_mpirun() {
    let job = (0..12).fold(Job::new(PROGRAM, 3), |job, seed| job.arg(seed.to_string()));
    let outcome = job.limit(SOON * 6).run();
    assert!(outcome.status.success(), "{outcome}");
}
