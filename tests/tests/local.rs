//! Every case on ranks that are threads: 1, 2, 3, 4 and 8 of them, with all sorts of settings.

use armature::{Balance, BatchMode, Config, Driver};
use armature_tests::{all, cases, local};

/// Every case with these settings.
#[track_caller]
fn all_cases(ranks: usize, name: &str, set: impl Fn(Config) -> Config) {
    for case in all() {
        let what = format!("{} on {ranks} ranks, {name}", case.name);
        let start = std::time::Instant::now();
        let result = local::run(&what, &set(local::config(ranks)), case.run);
        println!("{what}: {:?}", start.elapsed());
        result.unwrap_or_else(|e| panic!("{what}: {e}"));
    }
}

#[test]
fn one_rank() {
    all_cases(1, "as it comes", |c| c);
}

#[test]
fn two_ranks() {
    all_cases(2, "as it comes", |c| c);
}

#[test]
fn three_ranks() {
    all_cases(3, "as it comes", |c| c);
}

#[test]
fn four_ranks() {
    all_cases(4, "as it comes", |c| c);
}

#[test]
fn eight_ranks() {
    all_cases(8, "as it comes", |c| c);
}

#[test]
fn live_balancing() {
    for ranks in [2, 4] {
        all_cases(ranks, "balanced live", |c| c.balance(Balance::Live));
    }
}

#[test]
fn the_inline_driver() {
    all_cases(3, "inline", |c| c.driver(Driver::Inline));
}

#[test]
fn the_threaded_driver() {
    all_cases(3, "threaded", |c| c.driver(Driver::Threaded));
}

#[test]
fn batches_of_one() {
    all_cases(3, "batch 1", |c| c.batch(BatchMode::Fixed(1)));
}

#[test]
fn batches_of_a_thousand() {
    all_cases(3, "batch 1000", |c| c.batch(BatchMode::Fixed(1000)));
}

#[test]
fn a_window_of_one_batch() {
    all_cases(4, "window 1", |c| c.window(Some(1)).batch(BatchMode::Fixed(7)));
}

#[test]
fn a_window_of_few_bytes() {
    all_cases(3, "window of 100 bytes", |c| c.window_bytes(100));
}

#[test]
fn nothing_measured_and_nothing_asked_ahead() {
    all_cases(4, "one ahead, no monitor", |c| c.monitor(false).request_ahead(1));
}

#[test]
fn what_is_in_flight_is_bounded_by_the_window() {
    for ranks in [1, 2, 4] {
        for (window, batch) in [(1, 1), (1, 10), (2, 3), (5, 1), (30, 4)] {
            let what = format!("window of {window} batches of {batch} on {ranks} ranks");
            let config = local::config(ranks).window(Some(window)).batch(BatchMode::Fixed(batch));
            let bounded = |s: &armature::Session| cases::bounded(s, Some(window), Some(batch));
            local::run(&what, &config, bounded).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
    }
}

#[test]
fn the_planner_moves_a_serial_stage_with_its_state() {
    let config = local::config(2);
    let moved = |_| armature::run(&config, cases::moves_state).unwrap_or_else(|e| panic!("{e}"));
    let attempts = || (0..5).any(moved);
    assert!(local::guarded("moving state", local::LIMIT, attempts), "never in five attempts");
}

/// Without monitoring the planner still has to know how long stages take.
#[test]
fn the_planner_measures_also_where_nothing_is_monitored() {
    let config = local::config(2).monitor(false);
    let moved = |_| armature::run(&config, cases::moves_state).unwrap_or_else(|e| panic!("{e}"));
    let attempts = || (0..5).any(moved);
    assert!(local::guarded("planning unmonitored", local::LIMIT, attempts), "never in five attempts");
}
