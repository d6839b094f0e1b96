//! On threads and under mpirun, farms and pipelines must stay within their limit of bytes in flight, and ranks of a workflow within their memory
//! limit.

use std::process::Command;

use armature_tests::cases::{ARRAY, ARRAYS};
use armature_tests::mpirun::Job;

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-cases");
/// Limit of the data in flight in a farm or pipeline, in MiB.
const WINDOW: u64 = 16;
/// MiB that a rank may use besides the data in flight: one message in transfer, and the memory of the allocator and of the message layer.
const OVERHEAD: u64 = 64;

fn variables() -> [(&'static str, String); 2] {
    [("ARMATURE_WINDOW_BYTES", (WINDOW << 20).to_string()), ("ARMATURE_RANKS", "2".to_string())]
}

#[track_caller]
fn peak_mib(what: &str, stdout: &str) -> Vec<u64> {
    let peaks = stdout.lines().filter_map(|line| line.split_once(" took ")?.1.strip_suffix(" MiB"));
    let peaks: Vec<u64> = peaks.map(|mib| mib.parse().expect("a number")).collect();
    println!("{what}: {peaks:?} MiB");
    assert_eq!(peaks.len(), 2, "{what}: {stdout}");
    peaks
}

#[track_caller]
fn check(what: &str, stdout: &str) {
    let peaks = peak_mib(what, stdout);
    assert!(
        peaks.iter().all(|&mib| mib < WINDOW + OVERHEAD),
        "{what}: a window of {WINDOW} MiB, and {peaks:?}"
    );
}

#[track_caller]
fn on_threads(case: &str) {
    // The program runs in a process of its own, so that the memory of other tests does not count.
    let output = Command::new(PROGRAM).arg(case).envs(variables()).output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check(&format!("{case} on threads"), &String::from_utf8_lossy(&output.stdout));
}

#[track_caller]
fn on_ranks(case: &str) {
    let job =
        variables().iter().fold(Job::new(PROGRAM, 2).arg(case), |job, (name, value)| job.env(name, value));
    let outcome = job.passes(&[case]);
    check(&format!("{case} under mpirun"), &outcome.stdout);
}

#[test]
fn memory_is_bounded_in_farm_with_wide_tasks_and_slow_sink() {
    on_threads("memory-farm-tasks");
    on_ranks("memory-farm-tasks");
}

#[test]
fn memory_is_bounded_in_farm_with_results_larger_than_tasks() {
    on_threads("memory-farm-results");
    on_ranks("memory-farm-results");
}

#[test]
fn memory_is_bounded_in_farm_with_a_slow_first_task() {
    for case in ["memory-farm-late", "memory-farm-late-master"] {
        on_threads(case);
        on_ranks(case);
    }
}

#[test]
fn memory_is_bounded_in_pipeline_with_wide_items_and_slow_sink() {
    on_threads("memory-pipeline-tasks");
    on_ranks("memory-pipeline-tasks");
}

#[test]
fn memory_is_bounded_in_pipeline_with_results_larger_than_items() {
    on_threads("memory-pipeline-results");
    on_ranks("memory-pipeline-results");
}

#[test]
fn memory_is_bounded_in_pipeline_with_a_slow_first_item() {
    on_threads("memory-pipeline-late");
    on_ranks("memory-pipeline-late");
}

/// While user code runs on the thread that calls MPI (driver `inline`), no transfer progresses. An array in transfer therefore stays in memory until
/// the task that reads it ends, and counts against the rank's limit.
#[test]
fn memory_is_bounded_in_workflow_with_arrays_in_transfer() {
    let may = (ARRAYS * ARRAY + ARRAY / 4) as u64 >> 20;
    for driver in ["inline", "threaded"] {
        let job = Job::new(PROGRAM, 2).arg("memory-workflow").env("ARMATURE_DRIVER", driver);
        let outcome = job.passes(&["memory-workflow"]);
        let peaks = peak_mib(driver, &outcome.stdout);
        assert!(
            peaks.iter().all(|&mib| mib <= may),
            "{driver}: ranks may hold {may} MiB, and took {peaks:?}"
        );
    }
}
