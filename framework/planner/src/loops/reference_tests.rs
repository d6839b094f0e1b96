//! Tests of the formulas of loop balancing against values that were computed independently.

use super::*;
use crate::reference::Case;
use crate::tuner::{Action, Reason};

const DATA: &str = include_str!("../../tests/data/loops.txt");

fn moves(tokens: &str) -> Vec<Move> {
    let tokens = tokens.split([' ', ',']).filter(|&word| word != "none");
    tokens
        .map(|word| {
            let (from, rest) = word.split_once('>').unwrap();
            let (to, units) = rest.split_once(':').unwrap();
            Move { from: from.parse().unwrap(), to: to.parse().unwrap(), units: units.parse().unwrap() }
        })
        .collect()
}

impl Case {
    fn whole(&self, name: &str) -> u64 {
        self.inputs[name].parse().unwrap()
    }

    fn units(&self, name: &str) -> Vec<u64> {
        self.inputs[name].split(',').map(|word| word.parse().unwrap()).collect()
    }

    fn sweep(&self) -> Sweep {
        let sweep = Sweep {
            ranks: self.whole("P") as usize,
            iterations: self.whole("m"),
            sequential: self.get("t_seq"),
            shift: ShiftCost { fixed: self.get("t_fixed"), per_element: self.get("t_incr") },
        };
        sweep.validate().unwrap();
        sweep
    }

    fn is(&self, found: impl std::fmt::Debug + PartialEq, expected: impl std::fmt::Debug) {
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{} {:?}", self.name, self.inputs);
    }
}

fn as_numbers(units: &[u64]) -> Vec<f64> {
    units.iter().map(|&units| units as f64).collect()
}

fn check(case: &Case) {
    match case.name {
        "m_opt" => case.holds(&[case.sweep().best_blocks()]),
        "choose_block" => {
            let (sweep, grain) = (case.sweep(), case.sweep().grain());
            case.holds(&[sweep.best_blocks(), grain.block as f64, grain.blocks as f64, grain.time]);
        }
        "t_total" => case.holds(&[case.sweep().time(case.get("M"))]),
        "eff_pipeline" => case.holds(&[case.sweep().efficiency(case.get("M"))]),
        "eff_bound" => {
            let shift = ShiftCost { fixed: 0.0, per_element: 0.0 };
            let sweep = Sweep::of_iteration(case.whole("P") as usize, 1, 1.0, shift);
            case.holds(&[sweep.efficiency_bound(case.get("M"))]);
        }
        "efficiency" => {
            let ranks: Vec<RankTime> =
                case.list("compete").into_iter().map(RankTime::with_competing).collect();
            assert_eq!(ranks.len() as u64, case.whole("P"));
            case.holds(&[efficiency(case.get("t_seq"), case.get("t_elapsed"), &ranks)]);
        }
        "period_target" => {
            let options = PeriodOptions {
                interaction_share: case.get("f"),
                quantum: case.get("t_quantum"),
                quantum_scale: case.get("quantumscale"),
            };
            let (movement, workscale) = (case.get("t_movement"), case.get("workscale"));
            let limits = PeriodLimits::new(case.get("t_interact"), movement, workscale, &options);
            case.holds(&[limits.target()]);
        }
        "nexthook" => case.holds(&[phases_between(case.get("target"), case.get("compute")) as f64]),
        "filter_table" => filter_table(case),
        "filter_fixed" => {
            let (smoothing, mut filter) = (Smoothing::Fixed(case.get("h")), RateFilter::default());
            let smoothed: Vec<f64> =
                case.list("raw").into_iter().map(|raw| filter.add(&smoothing, raw)).collect();
            case.holds(&smoothed);
        }
        "distribute" => {
            let shares = distribute(case.whole("W"), &case.list("rates"), case.whole("lo"));
            case.holds(&as_numbers(&shares));
        }
        "rfract" => {
            let (held, rates) = (case.units("w"), case.list("rates"));
            let units: u64 = held.iter().sum();
            let target = distribute(units, &rates, 0);
            let real = 1.0 - units as f64 / rates.iter().sum::<f64>() / pass_time(&held, &rates);
            let whole = reduction(&held, &target, &rates);
            case.holds(&[vec![real], as_numbers(&target), vec![whole]].concat());
        }
        "moves_unrestricted" => {
            let found = direct_moves(&case.units("w"), &case.units("target")).unwrap();
            case.is(found, moves(case.expected));
        }
        "moves_adjacent" => {
            let found = neighbour_moves(&case.units("w"), &case.units("target")).unwrap();
            case.is(found, moves(case.expected));
        }
        "rounds_adjacent" => {
            let found = rounds(&case.units("w"), &moves(case.inputs["moves"])).unwrap();
            let expected = case.expected.split(" | ").map(moves).filter(|round| !round.is_empty());
            case.is(found, expected.collect::<Vec<_>>());
        }
        "profitable" => {
            let decision = LoopDecision {
                cost: case.get("cost"),
                gain: case.get("rf"),
                horizon: Some(case.get("t_stable")),
                margin: Some(case.get("margin")),
                ..nothing()
            };
            case.is(decision.is_worth_cost(), case.expected == "true");
        }
        other => panic!("nothing is known of {other}"),
    }
}

fn nothing() -> LoopDecision {
    LoopDecision {
        now: 0.0,
        held: Vec::new(),
        rates: Vec::new(),
        target: Vec::new(),
        current_time: None,
        target_time: None,
        gain: 0.0,
        threshold: 0.0,
        horizon: None,
        kept: 1.0,
        cost: 0.0,
        margin: None,
        action: Action::Keep(Reason::Same),
        moves: Vec::new(),
        period: 1.0,
        phases: 1,
    }
}

fn filter_table(case: &Case) {
    let table = TrendTable::default();
    for smoothing in [Smoothing::Trend, Smoothing::Table(table.clone())] {
        smoothing.validate().unwrap();
        let mut filter = RateFilter::default();
        for (i, (raw, expected)) in case.list("raw").into_iter().zip(case.expected.split(' ')).enumerate() {
            let [rate, name, h] = expected.split(':').collect::<Vec<_>>()[..] else { panic!("{expected}") };
            let found = filter.add(&smoothing, raw);
            let state = &table.states[filter.state().unwrap()];
            assert!(
                (found - rate.parse::<f64>().unwrap()).abs() <= 1e-9 * found,
                "{i}: {found} instead of {rate}"
            );
            assert_eq!(state.name, name, "{i}");
            // The weight of the previous rates is not compared for the first rate, which is not smoothed.
            assert!(i == 0 || Ok(state.history) == h.parse(), "{i}");
        }
    }
}

#[test]
fn loop_formulas_match_reference_values() {
    let cases = Case::all(DATA);
    cases.iter().for_each(check);
    assert_eq!(cases.len(), 61);
}
