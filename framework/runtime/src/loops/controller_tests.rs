//! Tests of the loop controller of rank 0, with reports of simulated ranks.

use armature_planner::loops::LoopOptions;

use super::*;
use crate::comm::local::{LocalTransport, World};

fn controller(settings: &Settings, held: &[u64]) -> LoopController {
    let endpoint = Endpoint::new(Box::new(LocalTransport::open(World::new(1), 0)), Duration::ZERO);
    let config = Config::new();
    let mut controller =
        LoopController::new("rows", settings, &config, &endpoint, Reach::Neighbours, held).unwrap();
    let options = settings.planner(Reach::Neighbours, settings.balance_of(&config));
    controller.resume(LoopBalancer::new(held.len(), LoopOptions { settling: Some(1), ..options }).unwrap());
    controller
}

fn sample(held: u64, seconds: f64, movements: u64) -> Sample {
    Sample {
        units: held as f64,
        seconds,
        held,
        blocks: 1,
        span: seconds,
        movements,
        moving: 0.01,
        ..Sample::default()
    }
}

#[test]
fn slow_rank_sends_units_and_movement_closes_when_complete() {
    let mut controller = controller(&Settings::new().quantum(Duration::ZERO), &[50, 50]);
    controller.on_report(0, sample(50, 2.0, 0));
    assert!(!controller.is_due(), "rank 1 has not reported");
    controller.on_report(1, sample(50, 1.0, 0));
    assert!(controller.is_due());
    let Instruction { moves, period } = controller.decide(Ahead::Unknown).unwrap();
    assert_eq!(moves, [Move { from: 0, to: 1, units: 17 }]);
    assert!(period >= 0.0 && controller.under_way.is_some() && !controller.is_due());
    // Rank 0 has sent units (rows or indices) to rank 1, as the directive says, but rank 1 has not received them yet.
    controller.on_report(0, sample(33, 1.3, 1));
    controller.on_report(1, sample(50, 1.0, 0));
    assert!(controller.decide(Ahead::Unknown).unwrap().moves.is_empty());
    assert!(controller.under_way.is_some());
    controller.on_report(0, sample(33, 1.3, 1));
    controller.on_report(1, sample(67, 1.3, 1));
    assert!(controller.decide(Ahead::Unknown).unwrap().moves.is_empty());
    assert!(controller.under_way.is_none());
    assert_eq!((controller.interactions(), controller.movements()), (3, 1));
    assert!(
        controller.change().unwrap().starts_with("move 17 units in 1 message"),
        "{:?}",
        controller.change()
    );
}

/// The scheduler's quantum is 20 ms. Within a report of 30 ms, the scheduler may have stopped a rank's process once or not at all, so the decision
/// waits until the reports cover ten quanta.
#[test]
fn decision_waits_until_time_slices_average_out() {
    let mut controller = controller(&Settings::new().quantum(Duration::from_millis(20)), &[50, 50]);
    let on_report = |controller: &mut LoopController, slow: f64| {
        controller.on_report(0, sample(50, 0.03, 0));
        controller.on_report(1, sample(50, slow, 0));
    };
    on_report(&mut controller, 0.09);
    assert!(controller.is_due());
    let missing = controller.postpone().unwrap();
    assert!((missing - 0.17).abs() < 1e-9, "ten turns of 20 ms, of which 30 ms have passed: {missing}");
    assert!(!controller.is_due(), "all are to report again");
    // The first report of a rank measures cold caches and is discarded.
    on_report(&mut controller, 0.05);
    assert!(controller.postpone().is_some());
    on_report(&mut controller, 0.04);
    assert!(controller.is_due() && controller.postpone().is_some(), "rank 0 has reported 60 ms");
    on_report(&mut controller, 0.03);
    assert!(controller.postpone().is_some());
    on_report(&mut controller, 0.04);
    assert_eq!(controller.postpone(), None);
    // The decision about movements uses all reports after the first one of each rank: in these reports, rank 0 has computed 200 units (rows or
    // indices) in 0.12 s, and rank 1 in 0.16 s.
    let Instruction { moves, .. } = controller.decide(Ahead::Unknown).unwrap();
    assert_eq!(moves, [Move { from: 1, to: 0, units: 7 }]);
    // Rank 0 waits for rank 1 most of the time, so the reports of rank 0 cover little computing. The decision is postponed for at most 2 s.
    let waiting = |seconds: f64| Sample { span: 0.3, ..sample(50, seconds, 1) };
    for reports in 1..=7 {
        controller.on_report(0, waiting(0.005));
        controller.on_report(1, waiting(0.29));
        assert_eq!(controller.postpone().is_none(), reports == 7, "2 s have passed: {reports}");
    }
}

/// A short first report is discarded, because it measures cold caches. Here the first reports are long, so
/// the short reports that follow are kept, and their times are added up.
#[test]
fn reports_after_a_long_first_report_always_count() {
    let mut controller = controller(&Settings::new().quantum(Duration::from_millis(20)), &[50, 50]);
    let on_report = |controller: &mut LoopController, seconds: f64| {
        (0..2).for_each(|rank| controller.on_report(rank, sample(50, seconds, 0)));
        controller.postpone()
    };
    assert_eq!(on_report(&mut controller, 0.3), None);
    controller.decide(Ahead::Unknown).unwrap();
    assert!(on_report(&mut controller, 0.06).is_some());
    assert_eq!(on_report(&mut controller, 0.06), None, "both together are 120 ms");
}

/// At the beginning of a pass, rank 0 decides about movements before ranks report. The quantum (time slice)
/// that was estimated from earlier reports stays in use.
#[test]
fn decision_without_reports_keeps_the_quantum() {
    let mut controller = controller(&Settings::new(), &[50, 50]);
    let mut decide = |seconds: f64, quantum: f64| {
        for rank in 0..2 {
            let units = 50.0 * f64::from(u8::from(seconds > 0.0));
            controller.on_report(rank, Sample { units, quantum, ..sample(50, seconds, 0) });
        }
        controller.decide(Ahead::Unknown).unwrap().period
    };
    assert!((decide(0.3, 0.02) - 0.2).abs() < 1e-9);
    assert!((decide(0.0, 0.0) - 0.2).abs() < 1e-9);
}

/// At the end of a pass the ranks report after a few milliseconds each. A single short report must not count as the speed of a rank.
#[test]
fn short_reports_are_aggregated() {
    let settings = Settings::new().quantum(Duration::from_millis(4));
    let mut controller = controller(&settings, &[100, 100]);
    let mut decide = |seconds: [f64; 2]| {
        for (rank, seconds) in seconds.into_iter().enumerate() {
            controller.on_report(rank, Sample { units: 100.0, held: 100, ..sample(100, seconds, 0) });
        }
        let moves = controller.decide(Ahead::Unknown).unwrap().moves;
        controller.under_way = None;
        controller.balancer.abandoned();
        moves.first().map(|m| (m.from, m.units))
    };
    assert_eq!(decide([0.05, 0.05]), None);
    // In three short report intervals in a row, rank 1 was off its core most of the time. Even together, the three reports cover too little time for
    // a decision.
    for _ in 0..3 {
        assert_eq!(decide([0.001, 0.004]), None);
    }
    // In up to eight longer reports, rank 1 takes twice as long as rank 0. The reports cover enough time for a decision, so units (rows or
    // indices) move away from rank 1.
    let moved = (0..8).find_map(|_| decide([0.02, 0.04]));
    assert!(moved.is_some_and(|(from, units)| from == 1 && (5..40).contains(&units)), "{moved:?}");
}

#[test]
fn balance_once_moves_once() {
    let settings = Settings::new().quantum(Duration::ZERO).balance(Balance::Once);
    let mut controller = controller(&settings, &[50, 50]);
    let on_report = |controller: &mut LoopController, slow: usize, held: [u64; 2], movements| {
        for (rank, held) in held.into_iter().enumerate() {
            let seconds = held as f64 * if rank == slow { 0.04 } else { 0.02 };
            controller.on_report(rank, sample(held, seconds, movements));
        }
    };
    on_report(&mut controller, 0, [50, 50], 0);
    assert_eq!(controller.decide(Ahead::Unknown).unwrap().moves.len(), 1);
    on_report(&mut controller, 0, [33, 67], 1);
    controller.decide(Ahead::Unknown).unwrap();
    for _ in 0..20 {
        on_report(&mut controller, 1, [33, 67], 1);
        assert!(controller.decide(Ahead::Unknown).unwrap().moves.is_empty());
    }
    assert_eq!(controller.movements(), 1);
}

#[test]
fn forced_movements_are_random_and_reproducible() {
    let run = |seed| {
        let mut controller = controller(&Settings::new().forced(seed), &[10, 10, 10]);
        // The numbers of units (rows or indices) are signed, because the moves of a decision are applied one after the other: a rank may send
        // units before it receives them in a later move.
        let (mut held, mut movements, mut all) = (vec![10_i64; 3], 0, Vec::new());
        for _ in 0..40 {
            for (rank, &held) in held.iter().enumerate() {
                controller.on_report(rank, sample(held as u64, 1.0, movements));
            }
            // The first decision after a movement of units (rows or indices) moves no units. It only records that the movement is complete.
            let moves = controller.decide(Ahead::Unknown).unwrap().moves;
            for m in &moves {
                held[m.from] -= m.units as i64;
                held[m.to] += m.units as i64;
            }
            assert!(held.iter().sum::<i64>() == 30 && held.iter().all(|&held| held > 0), "{held:?}");
            movements += u64::from(!moves.is_empty());
            all.push(moves);
        }
        assert!(movements >= 15, "{movements}");
        all
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn loop_events_are_logged() {
    let dir = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(Box::new(LocalTransport::open(World::new(1), 0)), Duration::ZERO);
    let config = Config::new().events(Some(dir.path().to_path_buf()));
    let settings = Settings::new().quantum(Duration::ZERO);
    let mut controller =
        LoopController::new("rows", &settings, &config, &endpoint, Reach::Anywhere, &[50, 50]).unwrap();
    controller.on_report(0, sample(50, 2.0, 0));
    controller.on_report(1, sample(50, 1.0, 0));
    controller.decide(Ahead::Unknown).unwrap();
    controller.end(7, Duration::from_millis(1500));
    drop(controller);
    let log = crate::observe::read(dir.path()).unwrap();
    let texts: Vec<String> = log.records.iter().map(|record| record.event.to_string()).collect();
    assert_eq!(
        texts[0],
        "Loop rows starts with 100 units on 2 ranks, by rank 50 50; they move when a move pays off."
    );
    assert!(
        texts[1].starts_with(
            "The distribution of units is changed, because that saves more than it costs: `50 50` takes 2.000 s a pass, `33 \
             67` would take 1.340 s; the gain is 33.0 %"
        ),
        "{}",
        texts[1]
    );
    assert_eq!(texts.last().unwrap(), "The loop ends after 7 passes and 1.500 s.");
    assert!(log.records.last().unwrap().event.is_end());
}
