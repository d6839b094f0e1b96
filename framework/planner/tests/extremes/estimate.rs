//! Tests of estimates from arbitrary measurements: no call panics or returns an invalid number.

use armature_planner::estimate::{
    CoreShare, Fit, FitOptions, LinkTraffic, Measurement, Prior, ServiceTime, fit, load_of_others,
};
use armature_planner::{Link, Platform};
use proptest::prelude::*;

use crate::numbers::{count, in_time, index, mostly_positive, number, positive, some};

fn measurement(
    number: impl Strategy<Value = f64> + Clone,
    index: impl Strategy<Value = usize> + Clone,
) -> impl Strategy<Value = Measurement> + Clone {
    (index.clone(), index, number.clone(), number).prop_map(|(stage, rank, seconds, weight)| Measurement {
        stage,
        rank,
        seconds,
        weight,
    })
}

/// Checks that the fitted works and speeds are numbers that the models accept, and that times are known only for the fitted stages and ranks.
fn check(found: &Fit) {
    for estimate in found.works.iter().flatten().chain(&found.speeds) {
        assert!((1e-60..=1e60).contains(&estimate.value), "{found:?}");
    }
    for stage in [0, 1, 5, usize::MAX] {
        for rank in [0, 1, 5, usize::MAX] {
            let known =
                stage < found.works.len() && rank < found.speeds.len() && found.works[stage].is_some();
            assert_eq!(found.seconds(stage, rank).is_some(), known, "{stage} {rank}");
        }
    }
}

proptest! {
    #[test]
    fn fit_of_any_input_is_usable_or_an_error(
        measurements in some(measurement(mostly_positive(), 0..3_usize)),
        odd in some(measurement(number(), index())),
        speeds in prop::collection::vec(mostly_positive(), 0..4),
        works in prop::collection::vec(prop::option::of(mostly_positive()), 0..4),
        (prior, faster, work) in (mostly_positive(), mostly_positive(), mostly_positive()),
    ) {
        in_time(move || {
            let prior_of = Prior { speeds, works };
            for options in [FitOptions::default(), FitOptions { prior, faster, work }] {
                for seen in [&measurements, &odd] {
                    if let Ok(found) = fit(seen, &prior_of, &options) {
                        check(&found);
                    }
                }
            }
        });
    }

    #[test]
    fn link_estimates_are_always_accepted_by_a_platform(
        (bandwidth, setup) in (number(), number()),
        messages in prop::collection::vec((number(), number()), 0..40),
        back in prop::collection::vec((number(), number()), 0..40),
        carried in some((number(), count(), number())),
        offset in prop::option::of(number()),
    ) {
        in_time(move || {
            let prior = Link { bandwidth, setup };
            let (mut there, mut other) = (LinkTraffic::new(prior), LinkTraffic::declared(prior));
            for (traffic, messages) in [(&mut there, &messages), (&mut other, &back)] {
                for &(bytes, delay) in messages {
                    // Each message is repeated, because the estimate uses a size class only after several messages.
                    (0..30).for_each(|_| traffic.observe(bytes, delay));
                }
                carried.iter().for_each(|&(bytes, messages, seconds)| traffic.carried(bytes, messages, seconds));
            }
            let mut platform = Platform::uniform(2, 1.0, Link::FREE).unwrap();
            let between = there.offset(&other);
            for offset in [offset, None, between] {
                for back in [None, Some(&other)] {
                    platform.set_link(0, 1, there.cautious(offset, back).link()).unwrap();
                }
                platform.set_link(0, 1, there.estimate(offset).link()).unwrap();
            }
        });
    }

    #[test]
    fn shares_and_loads_of_any_input_are_finite(
        times in some((number(), number())),
        shares in some(number()),
        active in some(number()),
        cores in number(),
    ) {
        in_time(move || {
            let mut share = CoreShare::default();
            times.iter().for_each(|&(took, lost)| share.add(took, lost));
            assert!(share.value().is_none_or(|share| share > 0.0 && share <= 1.0), "{share:?}");
            let load = load_of_others(&shares, &active, cores);
            assert!(load >= 0.0 && load.is_finite(), "{load}");
        });
    }

    #[test]
    fn service_time_of_any_input_is_finite_or_none(
        batches in prop::collection::vec((count(), number()), 0..100),
        usual in positive(),
    ) {
        in_time(move || {
            let mut service = ServiceTime::default();
            batches.iter().for_each(|&(items, busy)| service.add(items, busy));
            service.add(1, usual);
            let found = service.estimate();
            assert!(found.is_none_or(|found| found.value > 0.0 && found.value.is_finite()), "{found:?}");
        });
    }
}

/// Regression: the computation of the load of other programs did not end if the number of cores or an activity of a rank was infinite or NaN.
#[test]
fn load_on_an_invalid_core_count_is_zero() {
    for cores in [f64::INFINITY, f64::NAN, 0.0, -1.0, f64::MAX] {
        for active in [f64::NAN, 1.0] {
            let load = in_time(move || load_of_others(&[0.5], &[active], cores));
            assert_eq!(load, 0.0, "{active} {cores}");
        }
    }
    // Only the rank whose values are NaN is ignored; the other rank counts.
    let load = in_time(|| load_of_others(&[0.5, f64::NAN], &[1.0, f64::NAN], 1.0));
    assert!((load - 1.0).abs() < 1e-6, "{load}");
}

#[test]
fn nonexistent_stage_or_rank_has_no_time() {
    let seen = [Measurement { stage: 0, rank: 0, seconds: 2.0, weight: 1.0 }];
    let found = fit(&seen, &Prior::probed(&[1.0, 2.0], 1), &FitOptions::default()).unwrap();
    check(&found);
    assert_eq!((found.seconds(1, 0), found.seconds(0, 2)), (None, None));
}
