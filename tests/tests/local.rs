//! Runs every test program (case) on ranks that are threads, with many different settings. The tests under `mpirun` vary few settings, because most
//! do not concern messages.

use std::collections::BTreeSet;

use armature::{Balance, Config, Driver};
use armature_tests::{account, all, cases, faults, find, local};

fn set(config: Config, name: &str, value: &str) -> Config {
    config.set(name, value).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs every test program; `name` describes the changed settings in messages.
#[track_caller]
fn all_cases(ranks: usize, name: &str, set: impl Fn(Config) -> Config) {
    for case in all() {
        let what = format!("{} on {ranks} ranks, {name}", case.name);
        let start = std::time::Instant::now();
        let log = tempfile::tempdir().unwrap();
        let config = set(local::config(ranks).events(Some(log.path().into())));
        let result = local::run(&what, &config, case.run);
        println!("{what}: {:?}", start.elapsed());
        result.unwrap_or_else(|e| panic!("{what}: {e}"));
        account::check(log.path(), &what);
    }
}

#[test]
fn all_cases_pass_on_one_rank() {
    all_cases(1, "default settings", |c| c);
}

#[test]
fn all_cases_pass_on_two_ranks() {
    all_cases(2, "default settings", |c| c);
}

#[test]
fn all_cases_pass_on_three_ranks() {
    all_cases(3, "default settings", |c| c);
}

#[test]
fn all_cases_pass_on_eight_ranks() {
    all_cases(8, "default settings", |c| c);
}

#[test]
fn all_cases_pass_with_live_balancing() {
    all_cases(4, "balanced live", |c| c.balance(Balance::Live));
}

#[test]
fn all_cases_pass_with_inline_driver_and_a_tiny_byte_window() {
    all_cases(3, "inline, window of 100 bytes", |c| {
        set(c.driver(Driver::Inline), "ARMATURE_WINDOW_BYTES", "100")
    });
}

#[test]
fn all_cases_pass_with_threaded_driver_and_batches_of_one() {
    all_cases(3, "threaded, batch 1", |c| set(c.driver(Driver::Threaded), "ARMATURE_BATCH", "1"));
}

#[test]
fn all_cases_pass_with_a_window_of_one_batch_and_no_monitoring() {
    let settings = [
        ("ARMATURE_WINDOW", "1"),
        ("ARMATURE_BATCH", "7"),
        ("ARMATURE_MONITOR", "off"),
        ("ARMATURE_REQUEST_AHEAD", "1"),
    ];
    all_cases(4, "window 1, no monitor, one ahead", |c| {
        settings.iter().fold(c, |c, (name, value)| set(c, name, value))
    });
}

#[test]
fn items_in_flight_are_bounded_by_the_window() {
    for ranks in [1, 2, 4] {
        for (window, batch) in [(1, 1), (1, 10), (2, 3), (5, 1), (30, 4)] {
            let what = format!("window of {window} batches of {batch} on {ranks} ranks");
            let config = set(local::config(ranks), "ARMATURE_WINDOW", &window.to_string());
            let config = set(config, "ARMATURE_BATCH", &batch.to_string());
            let bounded = |s: &mut armature::Session| cases::bounded(s, Some(window), Some(batch));
            local::run(&what, &config, bounded).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
    }
}

#[test]
fn planner_moves_a_serial_stage_with_its_state() {
    let config = local::config(2);
    let attempt = |_| armature::run(&config, cases::moves_state).unwrap_or_else(|e| panic!("{e}"));
    let attempts = || (0..5).any(attempt);
    assert!(local::guarded("moving state", local::LIMIT, attempts), "never in five attempts");
}

/// If monitoring is off, the planner must still measure the times of stages.
#[test]
fn planner_measures_stage_times_without_monitoring() {
    let config = set(local::config(2), "ARMATURE_MONITOR", "off");
    let attempt = |_| armature::run(&config, cases::moves_state).unwrap_or_else(|e| panic!("{e}"));
    let attempts = || (0..5).any(attempt);
    assert!(local::guarded("planning unmonitored", local::LIMIT, attempts), "never in five attempts");
}

#[test]
fn case_names_are_unique_and_can_be_looked_up() {
    let faults = faults::all();
    let all = all();
    let names: Vec<&str> =
        all.iter().chain(faults.iter().map(|fault| &fault.case)).map(|case| case.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    assert!(names.iter().all(|name| find(name).is_some()));
    assert!(find("nothing").is_none());
}
