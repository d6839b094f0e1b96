//! Tests of the functions that distribute and move the units of a loop (rows or indices) among ranks, with arbitrary numbers: no call panics, and
//! the total number of units does not change.

use armature_planner::loops::{
    Ahead, Interaction, LoopBalancer, LoopOptions, Move, MovementCosts, MovementFit, PeriodChooser,
    PeriodLimits, PeriodOptions, RankTime, RateAccumulator, RateFilter, Reach, Report, ShiftCost, Smoothing,
    Stability, Sweep, Trend, TrendTable, block_moves, busiest, direct_moves, distribute, efficiency,
    has_averaged_out, neighbour_moves, pass_time, phases_between, reduction, rounds,
};
use proptest::prelude::*;

use crate::numbers::{count, in_time, index, mostly_amount, mostly_positive, number, some};

fn moves() -> impl Strategy<Value = Vec<Move>> + Clone {
    let rank = prop_oneof![9 => 0..4_usize, 1 => index()];
    some((rank.clone(), rank, count()).prop_map(|(from, to, units)| Move { from, to, units }))
}

fn smoothing() -> impl Strategy<Value = Smoothing> + Clone {
    let state = (0..3_usize, index(), mostly_amount());
    let state = state.prop_map(|(rise, fall, history)| Trend { name: "state".into(), rise, fall, history });
    prop_oneof![
        Just(Smoothing::Raw),
        Just(Smoothing::Trend),
        number().prop_map(Smoothing::Fixed),
        some(state).prop_map(|states| Smoothing::Table(TrendTable { states })),
    ]
}

fn period() -> impl Strategy<Value = PeriodOptions> + Clone {
    (mostly_positive(), mostly_amount(), mostly_amount()).prop_map(
        |(interaction_share, quantum, quantum_scale)| PeriodOptions {
            interaction_share,
            quantum,
            quantum_scale,
        },
    )
}

fn options() -> impl Strategy<Value = LoopOptions> {
    let numbers = (mostly_amount(), prop::option::of(mostly_positive()));
    let costs =
        (mostly_amount(), mostly_amount()).prop_map(|(fixed, per_unit)| MovementCosts { fixed, per_unit });
    let settling = prop::option::of(any::<u32>());
    (numbers, costs, smoothing(), period(), settling, count(), any::<(bool, bool)>()).prop_map(
        |((threshold, margin), costs, smoothing, period, settling, least, (realised_gain, far))| {
            LoopOptions {
                enabled: true,
                reach: if far { Reach::Anywhere } else { Reach::Neighbours },
                smoothing,
                settling,
                threshold,
                margin,
                realised_gain,
                least,
                costs,
                period,
            }
        },
    )
}

/// Arguments of one call of a loop balancer: seconds since the previous call, reports of three ranks, and the other arguments.
type Evaluation = (f64, Vec<(f64, f64, u64)>, (f64, f64, u8));

fn evaluate() -> impl Strategy<Value = Evaluation> + Clone {
    let report = (mostly_amount(), mostly_amount(), count().prop_map(|units| units / 3));
    let others = (mostly_amount(), mostly_amount(), 0..3_u8);
    (mostly_amount(), prop::collection::vec(report, 3), others)
}

fn after(current: &[u64], moves: impl Iterator<Item = Move>) -> Vec<u64> {
    let mut held = current.to_vec();
    for m in moves {
        held[m.from] = held[m.from].checked_sub(m.units).expect("more is sent than is there");
        held[m.to] = held[m.to].checked_add(m.units).expect("more than there is");
    }
    held
}

proptest! {
    #[test]
    fn shares_for_any_rates_sum_to_all_units(units in count(), rates in some(number()), least in count()) {
        in_time(move || {
            let shares = distribute(units, &rates, least);
            assert_eq!(shares.len(), rates.len());
            let total: u128 = shares.iter().map(|&share| u128::from(share)).sum();
            assert_eq!(total, if rates.is_empty() { 0 } else { units.into() }, "{shares:?}");
            let even = distribute(units, &vec![1.0; rates.len()], 0);
            let _ = (pass_time(&shares, &rates), reduction(&even, &shares, &rates));
        });
    }

    #[test]
    fn any_moves_keep_all_units_or_are_refused(
        current in some(count()),
        target in some(count()),
        rates in some(number()),
        moves in moves(),
    ) {
        in_time(move || {
            let least = busiest(&moves);
            assert!(moves.iter().all(|m| m.units <= least));
            if let Ok(rounds) = rounds(&current, &moves) {
                assert!(rounds.len() <= current.len() + moves.len(), "{} rounds", rounds.len());
                after(&current, rounds.into_iter().flatten());
            }
            let _ = block_moves(&current, &moves);
            let _ = (direct_moves(&current, &target), neighbour_moves(&current, &target));
            // Moves between valid distributions are checked as well: from `current` to the distribution in proportion to the rates.
            let Some(units) = current.iter().try_fold(0_u64, |sum, &units| sum.checked_add(units)) else { return };
            let mut rates = rates;
            rates.resize(current.len(), 1.0);
            let target = distribute(units, &rates, 1);
            if current.is_empty() {
                return;
            }
            for reach in [Reach::Anywhere, Reach::Neighbours] {
                let moves = reach.moves(&current, &target).unwrap();
                let rounds = rounds(&current, &moves).unwrap();
                assert!(rounds.len() <= current.len());
                assert_eq!(after(&current, rounds.into_iter().flatten()), target);
            }
            block_moves(&current, &neighbour_moves(&current, &target).unwrap()).unwrap();
        });
    }

    #[test]
    fn balancer_decides_or_refuses_on_any_input(
        options in options(),
        evaluations in prop::collection::vec(evaluate(), 0..20),
        (now, seconds, quantum) in (number(), number(), number()),
        imposed in moves(),
        ranks in index(),
    ) {
        in_time(move || {
            if !(1000..=1 << 20).contains(&ranks) {
                let balancer = LoopBalancer::new(ranks, LoopOptions::default());
                assert_eq!(balancer.is_ok(), (1..1000).contains(&ranks));
            }
            for mut balancer in [LoopBalancer::new(3, options), LoopBalancer::new(3, LoopOptions::default())].into_iter().flatten() {
                let mut clock = 0.0;
                for (i, (step, reports, (phase, cost, ahead))) in evaluations.iter().enumerate() {
                    clock += step;
                    let reports: Vec<Report> =
                        reports.iter().map(|&(units, seconds, held)| Report { units, seconds, held }).collect();
                    let ahead = match ahead {
                        0 => Ahead::Unknown,
                        1 => Ahead::Passes(*phase),
                        _ => Ahead::RestOfPass,
                    };
                    let interaction = Interaction { now: clock, reports: &reports, phase: *phase, cost: *cost, ahead };
                    let Ok(decision) = balancer.interact(&interaction) else { continue };
                    assert!(decision.phases >= 1 && decision.period >= 0.0, "{decision:?}");
                    assert!(!decision.to_string().is_empty());
                    assert_eq!(decision.target.iter().sum::<u64>(), decision.held.iter().sum::<u64>());
                    if decision.is_act() {
                        let rounds = rounds(&decision.held, &decision.moves).unwrap();
                        assert_eq!(after(&decision.held, rounds.into_iter().flatten()), decision.target);
                        if i % 3 == 0 { balancer.abandoned() } else { balancer.moved(clock, *cost) }
                    }
                }
                balancer.impose(&imposed);
                balancer.moved(now, seconds);
                balancer.set_quantum(quantum);
                assert!(balancer.shortest_period() >= 0.0);
            }
        });
    }

    #[test]
    fn rates_and_periods_of_any_input_are_finite(
        smoothing in smoothing(),
        raw in some(number()),
        options in period(),
        movements in some((number(), number(), number())),
        added in some((number(), number(), number())),
        shifts in some((number(), prop::option::of(prop::collection::vec(any::<i64>(), 3)))),
        (held, shortest) in (count(), number()),
    ) {
        in_time(move || {
            let mut filter = RateFilter::default();
            let is_valid = smoothing.validate().is_ok();
            for raw in raw {
                let rate = filter.add(&smoothing, raw);
                assert!(rate >= 0.0 && rate.is_finite() || !is_valid, "{rate}");
            }
            for mut period in PeriodChooser::new(options).into_iter().chain(PeriodChooser::new(PeriodOptions::default())) {
                for &(now, seconds, interaction) in &movements {
                    period.moved(now, seconds);
                    let _ = period.update(now, interaction);
                    assert!(phases_between(period.target(), seconds) >= 1);
                }
            }
            let limits = PeriodLimits::new(shortest, shortest, shortest, &options);
            let _ = (limits.target(), has_averaged_out(shortest, shortest, shortest));
            let (mut accumulator, mut stability) = (RateAccumulator::default(), Stability::default());
            for (units, seconds, span) in added {
                accumulator.add(units, seconds, span);
            }
            let report = accumulator.report(held, shortest);
            assert!(report.units.is_finite() && report.seconds.is_finite() && report.held == held, "{report:?}");
            for (now, shift) in &shifts {
                stability.observe(*now, shift.as_deref());
                stability.moved();
                let _ = stability.expected(*now);
            }
            let mut fit = MovementFit::default();
            movements.iter().for_each(|&(seconds, other, _)| {
                fit.add(held, seconds);
                fit.add(held / 2, other);
            });
            let costs = fit.costs();
            assert!(costs.is_none_or(|costs| costs.time(held) >= 0.0 && costs.fixed.is_finite()), "{costs:?}");
        });
    }

    #[test]
    fn formulas_accept_any_numbers(
        (ranks, iterations, sequential, fixed) in (index(), count(), number(), number()),
        (per_element, blocks, unit) in (number(), number(), number()),
        competing in some((number(), number())),
    ) {
        in_time(move || {
            let shift = ShiftCost { fixed, per_element };
            for sweep in [
                Sweep { ranks, iterations, sequential, shift },
                Sweep::of_iteration(ranks, iterations, unit, ShiftCost::measured(fixed, iterations, per_element)),
            ] {
                let grain = sweep.grain();
                assert!(grain.block >= 1 && grain.block <= iterations.max(1), "{grain:?}");
                assert_eq!(u128::from(grain.blocks), u128::from(iterations).div_ceil(grain.block.into()));
                let of_all = sweep.in_blocks_of(iterations);
                assert!(of_all.blocks <= 1);
                let _ = (sweep.time(blocks), sweep.best_blocks(), sweep.efficiency(blocks), sweep.efficiency_bound(blocks));
                if sweep.validate().is_ok() {
                    assert!(grain.time >= 0.0, "{grain:?}");
                }
            }
            let ranks: Vec<RankTime> =
                competing.into_iter().map(|(speed, competing)| RankTime { speed, competing }).collect();
            let _ = efficiency(sequential, unit, &ranks);
        });
    }
}

/// Regression: for two ranks that send one unit (row or index) to each other millions of times, millions of communication rounds were planned.
#[test]
fn circular_moves_are_refused() {
    let to_and_fro = |units| [Move { from: 0, to: 1, units }, Move { from: 1, to: 0, units }];
    let error = in_time(move || rounds(&[1, 0], &to_and_fro(1 << 22))).unwrap_err();
    assert!(error.message().contains("circles"), "{error}");
    // If each of two ranks holds the units that it sends to the other, one communication round is enough; otherwise a few additional rounds are
    // accepted.
    assert_eq!(rounds(&[3, 3], &to_and_fro(3)).unwrap().len(), 1);
    let more = [Move { from: 0, to: 1, units: 5 }, Move { from: 1, to: 0, units: 2 }];
    assert_eq!(rounds(&[3, 0], &more).unwrap().len(), 3);
}

#[test]
fn rank_numbers_may_be_arbitrary_in_busiest() {
    let far = [Move { from: usize::MAX, to: 0, units: u64::MAX }, Move { from: usize::MAX, to: 1, units: 1 }];
    assert_eq!(busiest(&far), u64::MAX);
    assert!(rounds(&[1, 1], &far).unwrap_err().message().contains("numbered from 0"));
}
