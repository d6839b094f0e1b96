//! Tests of the controller of the number of workers, on simulated farms whose times follow the controller's own model.

use super::*;

fn model() -> IterationModel {
    IterationModel {
        messages: MessageCosts::new(1e-3, 1e-6),
        volume: 40_960.0,
        out: 0.5,
        compute: 1.6,
        master: 2e-3,
        protocol: Protocol::Asynchronous,
    }
}

/// Simulates ten iterations of a farm and checks the number of workers after each one. Returns the number of workers after each iteration, and all
/// events.
fn iterations(balance: Balance, mut workers: usize, most: usize) -> (Vec<usize>, Vec<Event>) {
    let model = model();
    let mut now = Duration::ZERO;
    let mut controller = WorkerController::new(balance, now).unwrap();
    let (mut counts, mut events) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        let bytes = model.volume / 2.0 / workers as f64;
        for _ in 0..workers {
            controller.sent(bytes as usize, Duration::from_secs_f64(1e-3));
            controller.received(1, bytes as usize, model.compute / workers as f64, Duration::ZERO);
        }
        controller.iteration(Duration::from_secs_f64(model.master));
        now += Duration::from_secs_f64(model.time(workers));
        for bytes in controller.round_trips(now) {
            let took = |bytes: usize| Duration::from_secs_f64(2e-3 + 1e-6 * bytes as f64);
            controller.echo(bytes, [took(0), took(bytes)]);
        }
        assert!(controller.is_due(now, false, 0) || balance == Balance::Once);
        if let Some(look) = controller.replan(
            Situation { now, workers, most, computes: false, stream: false, may_split: false },
            || now,
        ) {
            workers = look.target.unwrap_or(workers);
            events.extend(look.events);
        }
        counts.push(workers);
    }
    (counts, events)
}

#[test]
fn worker_count_settles_at_the_optimum_of_the_model() {
    let best = model().best(1..=60);
    for first in [4, 60] {
        let (counts, events) = iterations(Balance::Live, first, 60);
        assert_eq!(counts[0], first, "one look is not enough");
        let last = counts[9] as f64;
        assert!((last - best as f64).abs() <= 0.15 * best as f64, "{counts:?}, best {best}");
        assert!(events.len() >= 9, "an event a look");
        let changes = events.iter().filter(|e| matches!(e, Event::Decision { acted: true, .. })).count();
        let outcomes = events.iter().filter(|e| matches!(e, Event::Outcome { .. })).count();
        assert!(changes >= 1 && outcomes >= 1, "{changes} changes, {outcomes} outcomes");
    }
}

#[test]
fn predictions_equal_those_of_the_model() {
    let (_, events) = iterations(Balance::Live, 60, 60);
    let acted = events.iter().find(|e| matches!(e, Event::Decision { acted: true, .. })).unwrap();
    let Event::Decision { current, candidate, current_s, candidate_s, inputs, .. } = acted else {
        unreachable!()
    };
    let wanted: usize = candidate.as_ref().unwrap().parse().unwrap();
    assert_eq!(current, "60");
    assert!((current_s / model().time(60) - 1.0).abs() < 0.05, "{acted}");
    assert!((candidate_s.unwrap() / model().time(wanted) - 1.0).abs() < 0.05, "{acted}");
    let value = |name: &str| inputs.iter().find(|i| i.name == name).unwrap().value;
    assert!((value("start-up of a message") - 1e-3).abs() < 1e-5);
    assert!((value("transfer") - 1e-6).abs() < 1e-8);
    assert!((value("share to workers") - 0.5).abs() < 1e-9);
    assert!((value("time in tasks") - 1.6).abs() < 1e-6);
}

#[test]
fn balance_once_changes_once_and_off_never() {
    let (counts, _) = iterations(Balance::Once, 60, 60);
    let mut numbers = counts.clone();
    numbers.dedup();
    assert_eq!(numbers.len(), 2, "{counts:?}");
    let mut controller = WorkerController::new(Balance::Off, Duration::ZERO).unwrap();
    assert!(!controller.is_on() && controller.round_trips(Duration::from_secs(9)).is_empty());
    let now = Duration::from_secs(9);
    let situation = Situation { now, workers: 9, most: 9, computes: false, stream: false, may_split: false };
    assert!(controller.replan(situation, || now).is_none());
}

/// Simulates a stream of tasks on `workers` ranks. A task takes a worker 20 ms and the master `serving`. The number of workers is checked twelve
/// times, at intervals of `period` seconds, which depends on the current number. Returns the number of workers after each check.
fn stream(
    (mut workers, computes): (usize, bool),
    serving: Duration,
    period: impl Fn(usize) -> f64,
) -> (Vec<usize>, WorkerController) {
    let mut controller = WorkerController::new(Balance::Live, Duration::ZERO).unwrap();
    let (most, mut now, mut counts) = (workers, Duration::ZERO, Vec::new());
    for _ in 0..12 {
        for _ in 0..1_000 {
            controller.sent(100, serving / 2);
            controller.received(1, 100, 20e-3, serving / 2);
            if computes {
                controller.own(1, 20e-3);
            }
        }
        now += Duration::from_secs_f64(period(workers));
        assert!(controller.is_due(now, true, 0));
        let look = controller
            .replan(Situation { now, workers, most, computes, stream: true, may_split: false }, || now)
            .unwrap();
        workers = look.target.unwrap_or(workers);
        counts.push(workers);
    }
    (counts, controller)
}

#[test]
fn stream_with_a_busy_master_gets_fewer_workers() {
    // A task takes a worker 20 ms and the master 2 ms, so ten workers keep the master busy.
    let (counts, controller) = stream((40, false), Duration::from_millis(2), |_| 2.0);
    assert_eq!((counts[1], counts[11]), (40, 13), "{counts:?}");
    assert!(
        controller.why().unwrap().contains("with 13 instead of 2.000 ms with 40"),
        "{:?}",
        controller.why()
    );
}

#[test]
fn change_that_slows_a_stream_is_reverted() {
    let (counts, controller) =
        stream((40, false), Duration::from_millis(2), |workers| if workers < 40 { 3.0 } else { 2.0 });
    assert!(counts.contains(&13) && counts[11] == 40, "{counts:?}");
    assert!(
        controller.why().unwrap().contains("the number of workers is 40 again"),
        "{:?}",
        controller.why()
    );
}

#[test]
fn two_computing_ranks_are_not_reduced() {
    // The master needs 50 ms to serve a task to a worker, and only 20 ms to run the task itself.
    let (counts, _) = stream((2, true), Duration::from_millis(50), |_| 2.0);
    assert_eq!(counts, [2; 12]);
    let (counts, _) = stream((8, true), Duration::from_millis(50), |_| 2.0);
    assert_eq!(counts[11], 2);
    let situation = Situation {
        now: Duration::ZERO,
        workers: 2,
        most: 2,
        computes: true,
        stream: false,
        may_split: false,
    };
    let alone =
        |start_up: f64| IterationModel { messages: MessageCosts::new(start_up, 0.0), volume: 8.0, ..model() };
    assert_eq!((least(situation, &alone(0.2)), least(situation, &alone(2.0))), (2, 1));
}

#[test]
fn farm_with_too_many_workers_for_rank_0_is_split() {
    for (workers, split) in [(1000, true), (20, false)] {
        let mut controller = WorkerController::new(Balance::Live, Duration::ZERO).unwrap();
        let (mut now, mut found) = (Duration::ZERO, None);
        for _ in 0..4 {
            // Each message keeps the master busy for 50 µs and its worker for 10 ms, so the master can serve 200 workers.
            for _ in 0..1_000 {
                controller.sent(100, Duration::from_micros(50));
                controller.received(1, 100, 10e-3, Duration::ZERO);
            }
            now += Duration::from_millis(100);
            let situation =
                Situation { now, workers, most: workers, computes: false, stream: true, may_split: true };
            if controller.is_due(now, true, workers) {
                found = found.or(controller.replan(situation, || now).and_then(|look| look.split));
            }
        }
        assert_eq!(found.is_some(), split);
        if let Some((count, why)) = found {
            assert!((4..=6).contains(&count) && why.contains("of 1000 workers"), "{count}: {why}");
        }
    }
}
