use std::time::Duration;

use super::*;
use crate::comm::endpoint::Endpoint;
use crate::comm::local::{LocalTransport, World};
use crate::loops::Settings;
use crate::loops::controller::LoopController;
use crate::session::Config;
use armature_planner::loops::Reach;

fn coordinator(held: &[u64], passes: u64) -> DoAllCoordinator {
    coordinator_on(&endpoint(), held, passes)
}

fn endpoint() -> Endpoint {
    Endpoint::new(Box::new(LocalTransport::open(World::new(1), 0)), Duration::ZERO)
}

fn coordinator_on(endpoint: &Endpoint, held: &[u64], passes: u64) -> DoAllCoordinator {
    coordinator_of(endpoint, held, (passes, 1))
}

fn coordinator_of(endpoint: &Endpoint, held: &[u64], passes: (u64, u64)) -> DoAllCoordinator {
    let settings = Settings::new().quantum(Duration::ZERO);
    let controller =
        LoopController::new("rows", &settings, &Config::new(), endpoint, Reach::Anywhere, held).unwrap();
    DoAllCoordinator::new(
        LoopCoordinator::new("rows", controller, None, held.to_vec(), Duration::ZERO),
        passes,
        false,
    )
}

/// Returns a rank's report: `done` units (rows or indices) computed in this pass and `undone` left. Since the previous report, the
/// rank has computed `units` units in `seconds`.
fn report(round: u64, done: u64, undone: u64, units: f64, seconds: f64, movements: u64) -> Report {
    let sample =
        Sample { units, seconds, held: undone, blocks: 1, span: seconds, movements, ..Sample::default() };
    let total = (undone == 0).then(RankReport::default);
    Report { at: 0.0, round, done, held: done + undone, sample, total }
}

const NOW: Duration = Duration::from_secs(1);

/// Rank 1's report is 0.1 s older than rank 0's. Extrapolated to the same time, both ranks have computed equally much, so no unit (row or
/// index) moves.
#[test]
fn progress_since_the_last_report_is_extrapolated() {
    let mut coordinator = coordinator(&[500, 500], 9);
    let mut on_message = |rank: usize, at: f64, received_at: f64, report: Report| {
        coordinator.on_report(rank, &Report { at, ..report }, Duration::from_secs_f64(received_at));
        coordinator.step(Duration::from_secs_f64(received_at)).unwrap()
    };
    // In this test, the clock of rank 1 started two seconds before the clock of rank 0.
    assert_eq!(on_message(1, 2.1, 0.1, report(0, 100, 400, 100.0, 0.1, 0)), None);
    assert_eq!(on_message(1, 2.2, 0.3, report(0, 200, 300, 100.0, 0.1, 0)), None);
    let directive = on_message(0, 0.3, 0.3, report(0, 300, 200, 300.0, 0.3, 0)).unwrap();
    assert_eq!((directive.what, directive.moves), (Command::Continue, vec![]));
    // At the extrapolated rate, rank 1 has computed all its units (rows or indices) by now, but it counts as busy until its report says so.
    assert_eq!(on_message(0, 0.45, 2.0, report(1, 450, 50, 150.0, 0.15, 0)), None);
    assert!(coordinator.waits_for().contains("rank 1 (200 units left)"), "{}", coordinator.waits_for());
}

#[test]
fn idle_rank_triggers_reports_and_gets_units() {
    let mut coordinator = coordinator(&[50, 50], 1);
    coordinator.on_report(0, &report(0, 50, 0, 50.0, 1.0, 0), NOW);
    // Rank 0 has no units (rows or indices) left to compute, and rank 1 has not reported for some time, so rank 1 is asked to report after its
    // present block.
    let directive = coordinator.step(NOW).unwrap().unwrap();
    assert_eq!((directive.round, directive.what), (0, Command::ReportSoon));
    assert_eq!(coordinator.step(NOW).unwrap(), None, "once is enough");
    assert!(coordinator.waits_for().contains("rank 1 (50 units left), in pass 1 of 1"));
    coordinator.on_report(1, &report(0, 10, 40, 10.0, 1.0, 0), NOW);
    let directive = coordinator.step(NOW).unwrap().unwrap();
    assert_eq!((directive.round, directive.what), (1, Command::Continue));
    let Transfer { from, to, units, of } = directive.moves[0];
    assert!((from, to, of, directive.moves.len()) == (1, 0, 40, 1) && units > 20, "{directive:?}");
    // The movement of units (rows or indices) ends only when both ranks have reported, although rank 0 had no units left when the movement was
    // ordered.
    coordinator.on_report(1, &report(1, 12, 38 - units, 2.0, 0.2, 1), NOW);
    assert_eq!(coordinator.step(NOW).unwrap(), None);
    coordinator.on_report(0, &report(1, 50 + units, 0, units as f64, 0.5, 1), NOW);
    // Rank 0 has run out of units (rows or indices) once more, so the units that rank 1 has left are divided between the two ranks again.
    let directive = coordinator.step(NOW).unwrap().unwrap();
    assert_eq!((directive.round, directive.what, directive.moves.len()), (2, Command::Continue, 1));
    let units = units + directive.moves[0].units;
    coordinator.on_report(1, &report(2, 50 - units, 0, 1.0, 0.1, 2), NOW);
    assert_eq!(coordinator.step(NOW).unwrap(), None);
    coordinator.on_report(0, &report(2, 50 + units, 0, 3.0, 0.1, 2), NOW);
    assert_eq!(coordinator.step(NOW).unwrap().unwrap().what, Command::End);
    assert_eq!((coordinator.step(NOW).unwrap(), coordinator.of_run.ended), (None, Some(NOW)));
    assert_eq!(
        (coordinator.of_run.controller.movements(), coordinator.held()),
        (2, vec![50 + units, 50 - units])
    );
}

#[test]
fn pass_ends_when_all_units_are_done() {
    let endpoint = endpoint();
    let mut coordinator = coordinator_on(&endpoint, &[50, 50], 2);
    coordinator.on_report(0, &report(0, 50, 0, 50.0, 1.0, 0), NOW);
    coordinator.step(NOW).unwrap();
    coordinator.on_report(1, &report(0, 50, 0, 50.0, 4.0, 0), NOW);
    let directive = coordinator.step(NOW).unwrap().unwrap();
    assert_eq!((directive.round, directive.what), (1, Command::BeginPass));
    assert_eq!(directive.moves, [Transfer { from: 1, to: 0, units: 30, of: 50 }]);
    coordinator.on_report(0, &report(1, 80, 0, 80.0, 1.6, 1), NOW);
    assert_eq!(coordinator.step(NOW).unwrap().map(|directive| directive.what), Some(Command::ReportSoon));
    coordinator.on_report(1, &report(1, 20, 0, 20.0, 1.6, 1), NOW);
    assert_eq!(coordinator.step(NOW).unwrap().unwrap().what, Command::End);
    // The next run begins with the rates that this run has measured. It can move units (rows or indices) at once, although units also moved in
    // this run.
    let mut again = coordinator_on(&endpoint, &[50, 50], 1);
    let directive = again.open(coordinator.finish(1, 1).1.balancer).unwrap().unwrap();
    assert_eq!(directive.moves, [Transfer { from: 1, to: 0, units: 30, of: 50 }]);
}

/// The forty passes have no barriers between them. Rank 1 has half of the units (rows or indices) and is three times as slow as rank 0.
#[test]
fn remaining_nowait_passes_are_redistributed() {
    let mut coordinator = coordinator_of(&endpoint(), &[50, 50], (1, 40));
    assert!(
        coordinator.waits_for().ends_with("rank 1 (2000 units left), in passes 1 to 40"),
        "{}",
        coordinator.waits_for()
    );
    let mut on_message = |rank: usize, at: Duration, report: Report| {
        coordinator.on_report(rank, &Report { at: at.as_secs_f64(), ..report }, at);
        coordinator.step(at).unwrap()
    };
    assert_eq!(on_message(0, NOW, report(0, 600, 1_400, 600.0, 1.0, 0)), None);
    let directive = on_message(1, NOW, report(0, 200, 1_800, 200.0, 1.0, 0)).unwrap();
    // In total, 3,200 computations of units (rows or indices) remain. Rank 1 has a quarter of the total speed and should keep 800 of its 1,800
    // computations. The other 1,000 correspond to about 31 units with 32 remaining passes each.
    assert_eq!(directive.moves, [Transfer { from: 1, to: 0, units: 31 * 32, of: 1_800 }]);
    assert_eq!(on_message(1, NOW, report(1, 202, 800, 2.0, 0.01, 1)), None);
    let directive = on_message(0, NOW, report(1, 606, 2_392, 6.0, 0.01, 1)).unwrap();
    assert_eq!((directive.what, directive.moves), (Command::Continue, vec![]));
    // At the end of the run the remaining computations of units (rows or indices) are counted exactly, and even the last unit moves away from
    // the slow rank.
    let late = 2 * NOW;
    assert_eq!(on_message(1, late, report(2, 1_001, 1, 2.0, 0.5, 1)), None);
    let directive = on_message(0, late, report(2, 2_998, 0, 6.0, 0.1, 1)).unwrap();
    assert_eq!(directive.moves, [Transfer { from: 1, to: 0, units: 1, of: 1 }]);
    assert_eq!(on_message(1, late, report(3, 1_001, 0, 1.0, 0.1, 2)), None);
    assert_eq!(on_message(0, late, report(3, 2_999, 0, 1.0, 0.1, 2)).unwrap().what, Command::End);
}

#[test]
fn ranks_near_their_end_are_not_interrupted() {
    let mut coordinator = coordinator(&[50, 50, 50], 1);
    for rank in 0..3 {
        coordinator.on_report(rank, &report(0, 40, 10, 40.0, 0.04, 0), NOW);
    }
    assert!(coordinator.step(NOW).unwrap().unwrap().moves.is_empty());
    coordinator.on_report(0, &report(1, 50, 0, 10.0, 0.01, 0), NOW);
    let soon = NOW + Duration::from_micros(8_500);
    assert_eq!(coordinator.step(soon).unwrap(), None, "the others have 1.5 ms left");
    assert_eq!(coordinator.step(NOW).unwrap().unwrap().what, Command::ReportSoon);
}

#[test]
fn loop_without_units_waits_for_all_ranks() {
    let mut coordinator = coordinator(&[0, 0], 1);
    assert_eq!(coordinator.step(NOW).unwrap(), None);
    coordinator.on_report(0, &report(0, 0, 0, 0.0, 0.0, 0), NOW);
    assert_eq!(coordinator.step(NOW).unwrap(), None);
    coordinator.on_report(1, &report(0, 0, 0, 0.0, 0.0, 0), NOW);
    assert_eq!(coordinator.step(NOW).unwrap().unwrap().what, Command::End);
}

#[test]
fn run_stops_after_the_current_pass() {
    for asked_in in 1..=3 {
        let mut coordinator = coordinator(&[10], 3);
        for pass in 1..=asked_in {
            coordinator.of_run.stop_requested = pass == asked_in;
            let round = coordinator.round;
            coordinator.on_report(0, &report(round, 10, 0, 10.0, 0.1, 0), NOW);
            let directive = coordinator.step(NOW).unwrap().unwrap();
            let expected = if pass < asked_in { Command::BeginPass } else { Command::End };
            assert_eq!(directive.what, expected, "in pass {pass}, asked in {asked_in}");
        }
        assert_eq!(coordinator.stopped_after(), (asked_in < 3).then_some(asked_in));
    }
}
