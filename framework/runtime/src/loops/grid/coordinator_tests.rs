//! Tests of the coordinator of a grid loop, with reports of simulated ranks.

use armature_planner::loops::{LoopBalancer, LoopOptions, Reach};

use super::*;
use crate::comm::endpoint::Endpoint;
use crate::comm::local::{LocalTransport, World};
use crate::loops::Settings;
use crate::loops::controller::LoopController;
use crate::loops::metrics::Sample;
use crate::session::{Balance, Config};

const HELD: u64 = 50;

/// Returns a coordinator with two simulated ranks that decides about movements of rows after a single report of each rank. Sweeps take 0.1 s, and
/// ranks report after every second sweep.
fn coordinator() -> GridCoordinator {
    let endpoint = Endpoint::new(Box::new(LocalTransport::open(World::new(1), 0)), Duration::ZERO);
    let settings = Settings::new().quantum(Duration::from_millis(20));
    let held = [HELD; 2];
    let mut controller =
        LoopController::new("rows", &settings, &Config::new(), &endpoint, Reach::Neighbours, &held).unwrap();
    let options = settings.planner(Reach::Neighbours, Balance::Live);
    controller.resume(LoopBalancer::new(2, LoopOptions { settling: Some(1), ..options }).unwrap());
    let of_run = LoopCoordinator::new("rows", controller, None, held.to_vec(), Duration::ZERO);
    GridCoordinator::new(of_run, 1_000, false, Duration::ZERO)
}

fn begin(coordinator: &mut GridCoordinator, sweep: u64, grain: u64) {
    coordinator.begin_sweep(sweep, Duration::from_millis(100 * sweep));
    coordinator.use_grain(sweep, grain);
}

/// Adds a report of each rank, in which computing its rows twice took `seconds`, and begins sweep `sweep`. Returns true if the coordinator orders
/// rows to move.
fn moves(coordinator: &mut GridCoordinator, sweep: u64, grain: u64, seconds: [f64; 2]) -> bool {
    for (rank, seconds) in seconds.into_iter().enumerate() {
        let units = 2.0 * HELD as f64;
        let sample = Sample { units, seconds, held: HELD, blocks: 1, span: seconds, ..Sample::default() };
        coordinator.on_message(rank, ToCoordinator::Sample(sample), Duration::ZERO).unwrap();
    }
    begin(coordinator, sweep, grain);
    let directive = coordinator.decide(sweep, 1).unwrap().unwrap();
    let moves = directive.movement.is_some();
    assert!(moves || directive.report_after == sweep + 1, "ranks report after every second sweep");
    moves
}

#[test]
fn reports_across_a_block_size_change_are_discarded() {
    for (at, is_left_out) in [(1, false), (2, true)] {
        let mut coordinator = coordinator();
        begin(&mut coordinator, 0, 16);
        assert!(!moves(&mut coordinator, 1, if at == 1 { 32 } else { 16 }, [0.2, 0.2]));
        begin(&mut coordinator, 2, 32);
        assert_eq!(
            moves(&mut coordinator, 3, 32, [0.2, 0.4]),
            !is_left_out,
            "another size from sweep {at} on"
        );
        if is_left_out {
            begin(&mut coordinator, 4, 32);
            assert!(moves(&mut coordinator, 5, 32, [0.2, 0.4]), "these are of one size");
        }
    }
}

#[test]
fn rates_are_discarded_after_a_block_size_change() {
    let mut coordinator = coordinator();
    begin(&mut coordinator, 0, 16);
    let seconds = [[0.4, 0.4], [0.39, 0.43], [0.1, 0.1], [0.1, 0.1]];
    for (round, seconds) in (0..).zip(seconds) {
        // From sweep 3 on, strips have 64 columns instead of 16, and both ranks take a quarter of the time. The earlier, slightly different times
        // must not count any more.
        let (sweep, grain) = (2 * round + 1, if round < 1 { 16 } else { 64 });
        assert!(
            !moves(&mut coordinator, sweep, grain, seconds),
            "sweep {sweep}: ranks are about as fast as each other"
        );
        begin(&mut coordinator, sweep + 1, grain);
    }
}

#[test]
fn long_sweep_reports_progress_while_it_runs() {
    let mut chain = coordinator().after("panels", 1_000);
    // The job was started before and had filled 1,000 panels (of columns of a table). Rank 1 now reports that it has filled 7¼ panels in this run.
    chain.on_message(1, ToCoordinator::Done(7.25), Duration::ZERO).unwrap();
    let progress = chain.progress((4, 0.5), false);
    assert_eq!(
        (progress.before, progress.done, progress.part, progress.total),
        (1_000, 1_004, 0.5, Some(2_000))
    );
    assert_eq!((progress.what, &progress.rest[..]), ("panels", ""));
    let until = chain.progress((4, 0.5), true);
    assert_eq!((until.total, &until.rest[..]), (None, "at most 2000"));
    let ahead = chain.progress((1_000, 0.0), false);
    assert_eq!((ahead.done, ahead.part, &ahead.rest[..]), (1_007, 0.25, "waits for rank 1"));
    chain.on_message(1, ToCoordinator::Total(RankReport::default()), Duration::ZERO).unwrap();
    let through = chain.progress((1_000, 0.0), false);
    assert_eq!((through.done, &through.rest[..]), (2_000, ""));
}

#[test]
fn run_stops_after_the_current_sweep() {
    for sweep in [0, 5, 998] {
        let mut coordinator = coordinator();
        coordinator.of_run.stop_requested = true;
        begin(&mut coordinator, sweep, 1);
        assert_eq!(coordinator.decide(sweep, 1).unwrap(), Some(Directive::stop(sweep, sweep + 1)));
        assert_eq!(coordinator.decide(sweep + 1, 1).unwrap(), None, "it is asked once");
        let text = format!("{} of 1,000 sweeps were done, and nothing is kept", sweep + 1);
        coordinator.stop(sweep + 1);
        assert_eq!(coordinator.kept(), text);
    }
    let mut coordinator = coordinator();
    coordinator.of_run.stop_requested = true;
    begin(&mut coordinator, 999, 1);
    assert_eq!(coordinator.decide(999, 1).unwrap(), None, "the run ends first");
}
