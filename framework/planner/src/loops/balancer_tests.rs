//! Tests of single decisions of a loop balancer, which moves units (loop iterations) between ranks.

use proptest::prelude::*;

use super::*;
use crate::tuner::{Action, Reason};

/// Simulation of ranks that compute their units (loop iterations) at given speeds, with a loop balancer that decides once a second.
struct Bench {
    balancer: LoopBalancer,
    held: Vec<u64>,
    now: f64,
}

impl Bench {
    fn new(held: &[u64], options: LoopOptions) -> Self {
        let balancer = LoopBalancer::new(held.len(), options).unwrap();
        Bench { balancer, held: held.to_vec(), now: 0.0 }
    }

    fn decide_with(&mut self, reports: &[Report], ahead: Ahead) -> LoopDecision {
        self.now += 1.0;
        let look = Interaction { now: self.now, reports, phase: 0.5, cost: 0.005, ahead };
        self.balancer.interact(&look).unwrap()
    }

    fn reports(&self, speeds: &[f64]) -> Vec<Report> {
        let report = |(&held, &speed): (&u64, &f64)| match speed {
            0.0 => Report { units: 0.0, seconds: 1.0, held },
            speed => Report { units: held as f64, seconds: held as f64 / speed, held },
        };
        self.held.iter().zip(speeds).map(report).collect()
    }

    fn look(&mut self, speeds: &[f64]) -> LoopDecision {
        self.decide_with(&self.reports(speeds), Ahead::Unknown)
    }

    fn carry_out(&mut self, decision: &LoopDecision, seconds: f64) {
        assert!(decision.is_act(), "{decision}");
        for m in rounds(&self.held, &decision.moves).unwrap().into_iter().flatten() {
            self.held[m.from] -= m.units;
            self.held[m.to] += m.units;
        }
        assert_eq!(self.held, decision.target);
        self.now += seconds;
        self.balancer.moved(self.now, seconds);
    }
}

fn raw() -> LoopOptions {
    LoopOptions { smoothing: Smoothing::Raw, realised_gain: false, ..LoopOptions::default() }
}

const KEEP: fn(Reason) -> Action = Action::Keep;

#[test]
fn end_of_a_load_is_followed_only_by_few_ranks() {
    for ranks in [4_usize, 5, 6, 8] {
        let mut bench = Bench::new(&vec![1000; ranks], raw());
        let (mut loaded, free) = (vec![100.0; ranks], vec![100.0; ranks]);
        loaded[0] = 50.0;
        let p = ranks as f64;
        let came = bench.look(&loaded);
        assert!((came.gain - (1.0 - p / (p - 0.5) / 2.0)).abs() < 2e-3, "{ranks}: {came}");
        bench.carry_out(&came, 0.1);
        let went = bench.look(&free);
        assert!((went.gain - 0.5 / p).abs() < 2e-3, "{ranks}: {went}");
        match ranks {
            4 => assert_eq!(went.action, Action::Act),
            // With five ranks the gain equals the threshold except for rounding to whole units, so either decision is possible.
            5 => assert!((went.gain - went.threshold).abs() < 2e-3),
            _ => assert_eq!(went.action, KEEP(Reason::GainTooSmall)),
        }
    }
}

#[test]
fn moves_are_rejected_only_if_far_too_expensive() {
    // Returns the second decision of the balancer: a load slows rank 0, and stops 10 s later. Each movement of units (loop iterations) takes
    // `seconds`.
    let second_move = |seconds: f64, margin: Option<f64>| {
        let mut bench = Bench::new(&[1000; 4], LoopOptions { margin, ..raw() });
        let first = bench.look(&[50.0, 100.0, 100.0, 100.0]);
        assert_eq!((first.horizon, first.cost), (None, 0.0), "nothing is known yet");
        bench.carry_out(&first, seconds);
        bench.now += 8.0;
        bench.look(&[100.0; 4])
    };
    let cheap = second_move(1.0, Some(2.0));
    // Rates stayed unchanged for 10 s and are expected to stay for another 10 s; moving the units (loop iterations) saves 12.5 % of this time.
    assert_eq!(cheap.horizon, Some(10.0));
    assert!((cheap.benefit() - 1.25).abs() < 0.01 && (cheap.cost - 1.0).abs() < 0.01, "{cheap}");
    assert!(cheap.is_act());
    let dear = second_move(2.4, Some(2.0));
    assert!(dear.cost > dear.benefit() && dear.is_act(), "not greatly: {dear}");
    let very_dear = second_move(4.0, Some(2.0));
    assert_eq!(very_dear.action, KEEP(Reason::NotWorthCost), "{very_dear}");
    assert!(very_dear.moves.is_empty() && very_dear.cost > 2.0 * very_dear.benefit());
    assert!(second_move(4.0, Some(4.0)).is_act());
    assert!(second_move(4.0, None).is_act());
}

#[test]
fn persistent_imbalance_counts_as_one_change() {
    let mut bench = Bench::new(&[1000; 4], raw());
    let (loaded, free) = ([50.0, 100.0, 100.0, 100.0], [100.0; 4]);
    let first = bench.look(&loaded);
    bench.carry_out(&first, 10.0);
    bench.now += 8.0;
    // The load has stopped. To move the units (loop iterations) back would cost 10 s. The balancer does not move them at first, because that would
    // save only 12.5 % of the 19 s for which the rates are expected to stay.
    let looks: Vec<LoopDecision> = (0..150).map(|_| bench.look(&free)).collect();
    assert_eq!(looks[0].horizon, Some(19.0));
    assert_eq!(looks[1].horizon, Some(19.0), "no new change");
    assert_eq!(looks[0].action, KEEP(Reason::NotWorthCost));
    // The longer the rates do not change, the longer they are expected to stay, until moving the units (loop iterations) back pays.
    let turned = looks.iter().position(LoopDecision::is_act).unwrap();
    let horizon = looks[turned].horizon.unwrap();
    assert!((horizon - turned as f64).abs() < 1e-9, "{}", looks[turned]);
    assert!(2.0 * looks[turned].gain * horizon >= looks[turned].cost);
    assert!(2.0 * looks[turned].gain * (horizon - 1.0) < looks[turned].cost);
}

#[test]
fn no_decision_while_units_move() {
    let mut bench = Bench::new(&[1000; 4], raw());
    let loaded = [50.0, 100.0, 100.0, 100.0];
    let first = bench.look(&loaded);
    assert!(first.is_act());
    let meanwhile = bench.look(&loaded);
    assert_eq!(meanwhile.action, KEEP(Reason::UnderWay));
    assert_eq!(meanwhile.to_string(), "keep: earlier moves are still in progress");
    assert!(meanwhile.moves.is_empty() && meanwhile.phases == 2);
    bench.carry_out(&first, 0.2);
    assert_eq!(bench.look(&loaded).action, KEEP(Reason::Same));
    // Rates of a rank are also smoothed while units (loop iterations) move: after two reports of 50 units/s, the rate is 75 units/s.
    let mut smoothed = Bench::new(&[500, 1500, 1000, 1000], LoopOptions::default());
    assert!(smoothed.look(&[100.0; 4]).is_act());
    smoothed.look(&[100.0, 100.0, 100.0, 50.0]);
    smoothed.look(&[100.0, 100.0, 100.0, 50.0]);
    smoothed.balancer.abandoned();
    assert_eq!(smoothed.look(&[100.0, 100.0, 100.0, 55.0]).rates[3], 0.8 * 55.0 + 0.2 * 75.0);
}

#[test]
fn abandoned_moves_are_decided_again() {
    let mut bench = Bench::new(&[1000; 4], raw());
    let first = bench.look(&[50.0, 100.0, 100.0, 100.0]);
    bench.balancer.abandoned();
    let again = bench.look(&[50.0, 100.0, 100.0, 100.0]);
    assert_eq!((again.is_act(), &again.moves), (true, &first.moves));
    assert_eq!(again.horizon, None, "it is still the same change");
}

#[test]
fn units_are_distributed_by_rank_speed_and_stay() {
    let speeds = [10.0, 20.0, 30.0, 80.0];
    for reach in [Reach::Anywhere, Reach::Neighbours] {
        let mut bench = Bench::new(&[350; 4], LoopOptions { reach, ..LoopOptions::default() });
        let first = bench.look(&speeds);
        assert_eq!(first.target, [100, 200, 300, 800]);
        bench.carry_out(&first, 0.5);
        for _ in 0..20 {
            assert_eq!(bench.look(&speeds).action, KEEP(Reason::Same));
        }
    }
}

#[test]
fn rest_of_a_pass_moves_only_if_it_pays_off() {
    let costs = MovementCosts { fixed: 0.4, per_unit: 0.0 };
    let mut bench = Bench::new(&[600, 400], LoopOptions { costs, ..raw() });
    let mut rest = |left: u64, ahead: Ahead| {
        let reports = [left, 0].map(|held| Report { units: 100.0, seconds: 1.0, held });
        let decision = bench.decide_with(&reports, ahead);
        // The decided moves are abandoned each time, so that the units (loop iterations) stay and decisions are independent of each other.
        bench.balancer.abandoned();
        decision
    };
    // A rank has 60 units left in the pass (all units of the loop once), of which half would move. The pass would end 0.3 s sooner, but the movement
    // takes 0.4 s.
    let short = rest(60, Ahead::RestOfPass);
    assert_eq!((short.action, short.target.as_slice()), (KEEP(Reason::NotWorthCost), &[30, 30][..]));
    assert!((short.benefit() - 0.3).abs() < 1e-9 && short.cost == 0.4, "{short}");
    let long = rest(400, Ahead::RestOfPass);
    assert!(long.is_act() && (long.benefit() - 2.0).abs() < 1e-9, "{long}");
    // A movement of half of 60 units pays if the units stay on their new rank for 100 passes (a pass is all units once).
    assert!(rest(60, Ahead::Passes(100.0)).is_act());
}

#[test]
fn no_moves_at_the_end_or_without_balancing() {
    let mut bench = Bench::new(&[1000; 4], raw());
    let loaded = bench.reports(&[50.0, 100.0, 100.0, 100.0]);
    let last = bench.decide_with(&loaded, Ahead::Passes(0.0));
    assert_eq!(last.action, KEEP(Reason::NotWorthCost));
    let before = bench.decide_with(&loaded, Ahead::Passes(10.0));
    assert_eq!((before.horizon, before.is_act()), (Some(200.0), true), "20 s each");
    let mut off = Bench::new(&[1000; 4], LoopOptions { enabled: false, ..raw() });
    let judged = off.look(&[50.0, 100.0, 100.0, 100.0]);
    assert_eq!(judged.action, KEEP(Reason::Off));
    assert!(judged.gain > 0.4 && judged.moves.is_empty(), "judged all the same");
}

#[test]
fn stalled_rank_keeps_one_unit_until_it_recovers() {
    let mut bench = Bench::new(&[100; 4], raw());
    let stalled = [0.0, 100.0, 100.0, 100.0];
    let decision = bench.look(&stalled);
    assert_eq!((decision.gain, &decision.target[..]), (1.0, &[1, 133, 133, 133][..]));
    assert_eq!(decision.current_time, None);
    bench.carry_out(&decision, 0.1);
    assert_eq!(bench.look(&stalled).action, KEEP(Reason::Same));
    let back = bench.look(&[100.0; 4]);
    assert_eq!((back.is_act(), &back.target[..]), (true, &[100; 4][..]));
}

#[test]
fn loops_with_fewer_units_than_ranks_are_balanced() {
    assert_eq!(Bench::new(&[0; 3], raw()).look(&[1.0; 3]).action, KEEP(Reason::NotSettled));
    let alone = Bench::new(&[7], raw()).look(&[5.0]);
    assert_eq!((alone.action, &alone.target[..]), (KEEP(Reason::Same), &[7][..]));
    // Two units (loop iterations) are on one of three ranks. The ranks without units count with the mean rate of the others.
    let mut bench = Bench::new(&[2, 0, 0], raw());
    let mut reports = bench.reports(&[1.0; 3]);
    reports[1] = Report::default();
    reports[2] = Report::default();
    let decision = bench.decide_with(&reports, Ahead::Unknown);
    assert_eq!((&decision.target[..], decision.gain), (&[1, 1, 0][..], 0.5));
    bench.carry_out(&decision, 0.0);
    let mut reports = bench.reports(&[1.0; 3]);
    reports[1].seconds = 0.0;
    reports[2] = Report::default();
    assert_eq!(bench.decide_with(&reports, Ahead::Unknown).action, KEEP(Reason::NotSettled));
}

#[test]
fn invalid_reports_are_refused_without_side_effects() {
    let mut bench = Bench::new(&[10; 2], raw());
    let good = bench.reports(&[1.0, 2.0]);
    let before = bench.balancer.clone();
    let bad = [
        Report { units: f64::NAN, ..good[0] },
        Report { units: -1.0, ..good[0] },
        Report { seconds: f64::INFINITY, ..good[0] },
    ];
    let look = Interaction { now: 1.0, reports: &good, phase: 0.5, cost: 0.0, ahead: Ahead::Unknown };
    for report in bad {
        let error =
            bench.balancer.interact(&Interaction { reports: &[good[0], report], ..look }).unwrap_err();
        assert!(error.message().contains("rank 1"), "{error}");
    }
    let error = bench.balancer.interact(&Interaction { reports: &good[..1], ..look }).unwrap_err();
    assert_eq!(error.to_string(), "loop: 1 reports came from 2 ranks: there must be one of each");
    assert!(bench.balancer.interact(&Interaction { phase: -1.0, ..look }).is_err());
    assert!(bench.balancer.interact(&Interaction { ahead: Ahead::Passes(f64::NAN), ..look }).is_err());
    assert_eq!(bench.balancer, before);
    bench.balancer.interact(&look).unwrap();
    assert!(bench.balancer.interact(&Interaction { now: 0.5, ..look }).is_err(), "time went back");
    assert!(LoopBalancer::new(0, raw()).is_err());
    assert!(LoopBalancer::new(2, LoopOptions { threshold: 1.0, ..raw() }).is_err());
    assert!(LoopBalancer::new(2, LoopOptions { margin: Some(0.0), ..raw() }).is_err());
    let period = PeriodOptions { interaction_share: 0.0, ..PeriodOptions::default() };
    assert!(LoopBalancer::new(2, LoopOptions { period, ..raw() }).is_err());
    let mut table = TrendTable::default();
    table.states[3].fall = 7;
    let smoothing = Smoothing::Table(table);
    let error = LoopBalancer::new(2, LoopOptions { smoothing, ..raw() }).unwrap_err();
    assert_eq!(error.to_string(), "loop: state U4 leads to state 7, but there are 7, numbered from 0");
}

#[test]
fn decisions_are_displayed_as_sentences() {
    let mut bench = Bench::new(&[1000; 4], raw());
    let first = bench.look(&[50.0, 100.0, 100.0, 100.0]);
    bench.carry_out(&first, 4.0);
    bench.now += 5.0;
    assert_eq!(
        bench.look(&[100.0; 4]).to_string(),
        "keep: the moves cost too much; 11.4 s a pass becomes 10.0 s (gain 12.5 %), \
         which saves 1.25 s of the remaining 10.0 s for a cost of 4.00 s"
    );
    assert_eq!(
        bench.look(&[80.0, 100.0, 100.0, 100.0]).to_string(),
        "keep: the gain is below the threshold of 10.0 %; 11.4 s a pass becomes 10.5 s (gain 7.9 %), \
         which saves 787 ms of the remaining 10.0 s for a cost of 2.53 s"
    );
}

proptest! {
    #[test]
    fn any_reports_keep_all_units(
        held in prop::collection::vec(0..500_u64, 1..10),
        speeds in prop::collection::vec(prop::collection::vec(prop_oneof![9 => 1.0..100.0, 1 => Just(0.0)], 10), 1..40),
        is_far in any::<bool>(),
        threshold in 0.0..0.3,
        cost in 0.0..3.0,
    ) {
        let reach = if is_far { Reach::Anywhere } else { Reach::Neighbours };
        let options = LoopOptions { reach, threshold, ..LoopOptions::default() };
        let (units, ranks) = (held.iter().sum::<u64>(), held.len());
        let mut bench = Bench::new(&held, options.clone());
        let mut twin = LoopBalancer::new(ranks, options).unwrap();
        for speeds in speeds {
            let reports = bench.reports(&speeds[..ranks]);
            let decision = bench.decide_with(&reports, Ahead::Unknown);
            let look = Interaction { now: bench.now, reports: &reports, phase: 0.5, cost: 0.005, ahead: Ahead::Unknown };
            prop_assert_eq!(&decision, &twin.interact(&look).unwrap(), "the same looks, the same decisions");
            prop_assert!(decision.moves.len() < ranks && (decision.is_act() || decision.moves.is_empty()));
            prop_assert!(!decision.gain.is_nan() && decision.gain <= 1.0 && decision.phases >= 1);
            if decision.is_act() {
                prop_assert!(decision.gain >= threshold && decision.gain > 0.0);
                bench.carry_out(&decision, cost);
                twin.moved(bench.now, cost);
                prop_assert_eq!(bench.held.iter().sum::<u64>(), units);
                prop_assert!(units < ranks as u64 || bench.held.iter().all(|&held| held > 0));
            }
        }
    }
}

#[path = "starting_tests.rs"]
mod starting;
