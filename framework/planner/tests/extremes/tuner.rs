//! Tests of the tuner (which decides whether a running program changes its configuration) with arbitrary measurements and options: no call panics.

use armature_planner::tuner::{Candidate, Situation, Tuner, TunerOptions};
use proptest::prelude::*;

use crate::numbers::{count, in_time, mostly_amount, number, some};

/// Arguments of one call of a tuner. The first number selects the method that is called.
type Inputs = (u8, (f64, f64, f64, f64), (f64, f64, f64), Option<u64>, u8);

fn inputs() -> impl Strategy<Value = Inputs> + Clone {
    let times = (number(), number(), number(), number());
    (0..4_u8, times, (number(), number(), number()), prop::option::of(count()), 0..3_u8)
}

fn options() -> impl Strategy<Value = TunerOptions> {
    let parts = (mostly_amount(), mostly_amount(), prop::option::of(mostly_amount()));
    let pauses = (mostly_amount(), mostly_amount(), mostly_amount(), mostly_amount());
    (parts, pauses, any::<(u32, Option<u32>)>(), 0..5_u32).prop_map(
        |(parts, pauses, (persistence, patience), periods)| {
            let (cool_down, cool_down_costs, return_factor, memory) = pauses;
            TunerOptions {
                enabled: true,
                threshold: parts.0,
                margin: parts.1,
                persistence,
                decisive: parts.2,
                patience,
                cool_down,
                cool_down_costs,
                return_factor,
                memory,
                outcome_periods: periods,
            }
        },
    )
}

proptest! {
    #[test]
    fn tuner_decides_on_any_input(options in options(), inputs in prop::collection::vec(inputs(), 0..40)) {
        in_time(move || {
            let eager = TunerOptions { persistence: 1, outcome_periods: 1, ..TunerOptions::default() };
            for mut tuner in [Tuner::new(options), Tuner::new(eager)].into_iter().flatten() {
                for &(what, (now, period, elapsed, time), (measured, faster, cost), items, arrangement) in &inputs {
                    match what {
                        0 => tuner.acted(now, cost),
                        1 => tuner.abandoned(now),
                        _ => {
                            let situation = Situation {
                                now,
                                period,
                                elapsed,
                                current: 0,
                                current_time: time,
                                measured_time: Some(measured),
                                remaining_items: items,
                                settled: true,
                            };
                            let candidate = Candidate { arrangement, time: faster, cost };
                            let decision = tuner.consider(situation, Some(candidate));
                            assert!(!decision.to_string().is_empty());
                        }
                    }
                    if let Some(outcome) = tuner.outcome() {
                        assert!(!outcome.to_string().is_empty());
                    }
                }
            }
        });
    }

    #[test]
    fn any_tuner_options_are_validated(values in some(number())) {
        for value in values {
            let options = TunerOptions { threshold: value, ..TunerOptions::default() };
            prop_assert_eq!(options.validate().is_ok(), (0.0..1.0).contains(&value));
        }
    }
}
