//! Tests of the distribution and movement of units (loop iterations), for any rates and units: no unit is lost, no rank sends units that it does not
//! have, and no more units move than necessary.

use proptest::prelude::*;

use super::*;

fn rates() -> impl Strategy<Value = Vec<f64>> {
    let rate = prop_oneof![5 => 0.1..100.0, 1 => Just(0.0), 1 => Just(1.0), 1 => 1e-9..1e9];
    prop::collection::vec(rate, 1..20)
}

fn change() -> impl Strategy<Value = (Vec<u64>, Vec<u64>)> {
    let held = prop::collection::vec(prop_oneof![3 => 0..60_u64, 1 => Just(0), 1 => 0..2000_u64], 1..20);
    (held, rates(), 0..3_u64).prop_map(|(held, mut rates, least)| {
        rates.resize(held.len(), 1.0);
        let target = distribute(held.iter().sum(), &rates, least);
        (held, target)
    })
}

fn after(held: &[u64], round: &[Move]) -> Vec<u64> {
    let mut next = held.to_vec();
    for m in round {
        assert!(m.units > 0, "nothing is sent: {m:?}");
        next[m.from] = next[m.from].checked_sub(m.units).expect("more is sent than was held");
    }
    for m in round {
        next[m.to] += m.units;
    }
    next
}

proptest! {
    #[test]
    fn shares_sum_to_all_units_and_respect_the_minimum(units in 0..100_000_u64, rates in rates(), least in 0..4_u64) {
        let shares = distribute(units, &rates, least);
        prop_assert_eq!(shares.iter().sum::<u64>(), units);
        prop_assert_eq!(&shares, &distribute(units, &rates, least));
        let enough = units >= least * rates.len() as u64;
        prop_assert!(!enough || shares.iter().all(|&share| share >= least), "{:?}", shares);
        for (a, ra) in shares.iter().zip(&rates) {
            for (b, rb) in shares.iter().zip(&rates) {
                prop_assert!(!(ra > rb && a < b), "{:?}", shares);
            }
        }
    }

    #[test]
    fn shares_are_proportional_within_one_unit(units in 0..100_000_u64, rates in rates()) {
        let total: f64 = rates.iter().sum();
        let shares = distribute(units, &rates, 0);
        for (share, rate) in shares.iter().zip(&rates) {
            let real = if total > 0.0 { rate / total } else { 1.0 / rates.len() as f64 } * units as f64;
            prop_assert!((*share as f64 - real).abs() < 1.0 + 1e-6, "{} for {}", share, real);
        }
    }

    #[test]
    fn direct_moves_are_minimal((held, target) in change()) {
        let moves = direct_moves(&held, &target).unwrap();
        prop_assert!(moves.len() < held.len().max(1));
        prop_assert_eq!(&after(&held, &moves), &target);
        let least: u64 = held.iter().zip(&target).map(|(has, wants)| has.saturating_sub(*wants)).sum();
        prop_assert_eq!(moves.iter().map(|m| m.units).sum::<u64>(), least);
        // No rank both sends and receives units (loop iterations), so no move must wait for another one: all moves fit into one round.
        prop_assert!(rounds(&held, &moves).unwrap().len() <= 1);
    }

    #[test]
    fn neighbour_moves_are_minimal((held, target) in change()) {
        let moves = neighbour_moves(&held, &target).unwrap();
        prop_assert!(moves.len() < held.len().max(1));
        prop_assert!(moves.iter().all(|m| m.from.abs_diff(m.to) == 1));
        // Between two neighbouring ranks exactly the surplus of all ranks on one side moves to the other side, in one direction only.
        for border in 0..held.len() - 1 {
            let (has, wants) =
                (held[..=border].iter().sum::<u64>(), target[..=border].iter().sum::<u64>());
            let over = moves.iter().filter(|m| m.from.min(m.to) == border);
            prop_assert_eq!(over.map(|m| m.units).sum::<u64>(), has.abs_diff(wants));
        }
    }

    #[test]
    fn no_rank_sends_more_than_it_holds_in_a_round((held, target) in change()) {
        let moves = neighbour_moves(&held, &target).unwrap();
        let rounds = rounds(&held, &moves).unwrap();
        prop_assert!(rounds.len() <= held.len());
        let end = rounds.iter().fold(held.clone(), |held, round| after(&held, round));
        prop_assert_eq!(end, target);
        for m in &moves {
            let parts = rounds.iter().flatten().filter(|part| (part.from, part.to) == (m.from, m.to));
            prop_assert_eq!(parts.map(|part| part.units).sum::<u64>(), m.units);
        }
    }

    #[test]
    fn block_moves_keep_blocks_contiguous((held, target) in change()) {
        let moves = neighbour_moves(&held, &target).unwrap();
        let blocks = |held: &[u64]| -> Vec<usize> {
            held.iter().enumerate().flat_map(|(rank, &units)| std::iter::repeat_n(rank, units as usize)).collect()
        };
        let mut owner = blocks(&held);
        for round in block_moves(&held, &moves).unwrap() {
            let before = owner.clone();
            for BlockMove { from, to, units } in round {
                for unit in units.start as usize..units.end as usize {
                    prop_assert_eq!(before[unit], from, "rank {} sends unit {} of another", from, unit);
                    owner[unit] = to;
                }
            }
            prop_assert!(owner.is_sorted(), "{:?}", owner);
        }
        prop_assert_eq!(owner, blocks(&target));
    }

    #[test]
    fn best_block_count_has_the_least_time(
        ranks in 2..64_usize, iterations in 1..5000_u64, sequential in 0.001..100.0,
        fixed in 1e-6..1e-2, per_element in 0.0..1e-4,
    ) {
        let sweep = Sweep { ranks, iterations, sequential, shift: ShiftCost { fixed, per_element } };
        let best = sweep.best_blocks();
        let least = sweep.time(best);
        for factor in [0.5, 0.9, 0.999, 1.001, 1.1, 2.0] {
            prop_assert!(sweep.time(factor * best) >= least * (1.0 - 1e-12));
        }
        let grain = sweep.grain();
        prop_assert!(grain.block >= 1 && grain.block <= iterations);
        prop_assert!((grain.blocks - 1) * grain.block < iterations && grain.blocks * grain.block >= iterations);
    }

    #[test]
    fn linear_movement_costs_are_recovered(
        fixed in 0.0..1.0, per_unit in 0.0..0.1, units in prop::collection::vec(1..1000_u64, 2..30),
    ) {
        let line = MovementCosts { fixed, per_unit };
        let mut fit = MovementFit::default();
        // The first movement has another cost, which the fit must ignore.
        fit.add(1, 9.0);
        units.iter().for_each(|&units| fit.add(units, line.time(units)));
        let costs = fit.costs().unwrap();
        for &units in units.iter().rev().take(16) {
            prop_assert!((costs.time(units) - line.time(units)).abs() < 1e-6 * line.time(units).max(1e-3));
        }
    }

    #[test]
    fn smoothed_rates_stay_within_the_measured_range(raw in prop::collection::vec(0.0..100.0, 1..60), h in 0.0..=1.0) {
        let (low, high) = raw.iter().fold((f64::MAX, 0.0_f64), |(l, h), &r| (l.min(r), h.max(r)));
        for smoothing in [Smoothing::Raw, Smoothing::Fixed(h), Smoothing::Trend] {
            let mut filter = RateFilter::default();
            for &r in &raw {
                let smoothed = filter.add(&smoothing, r);
                prop_assert!(smoothed >= low - 1e-9 && smoothed <= high + 1e-9);
                prop_assert!(smoothing != Smoothing::Raw || smoothed == r);
            }
        }
    }
}

#[test]
fn overflowing_unit_counts_are_refused() {
    let many = [u64::MAX, 1];
    let move_all = [Move { from: 0, to: 1, units: u64::MAX }];
    for error in [rounds(&many, &move_all).unwrap_err(), block_moves(&many, &move_all).unwrap_err()] {
        assert!(error.to_string().contains("more units than"), "{error}");
    }
}
