//! Tests that the fit recovers known works of stages and speeds of ranks from the times that result from them.

use proptest::prelude::*;

use super::*;

fn took(stage: usize, rank: usize, seconds: f64) -> Measurement {
    Measurement { stage, rank, seconds, weight: 1.0 }
}

fn fitted(measurements: &[Measurement], prior: &Prior) -> Fit {
    fit(measurements, prior, &FitOptions::default()).unwrap()
}

fn speeds(fit: &Fit) -> Vec<f64> {
    fit.speeds.iter().map(|speed| speed.value).collect()
}

fn assert_near(values: &[f64], expected: &[f64]) {
    let near = |(a, b): (&f64, &f64)| (a / b - 1.0).abs() < 0.01;
    assert!(
        values.len() == expected.len() && values.iter().zip(expected).all(near),
        "{values:?}, not {expected:?}"
    );
}

#[test]
fn slow_rank_of_a_shared_stage_is_found() {
    let seen = [took(0, 0, 0.02), took(0, 1, 0.02), took(0, 2, 0.06), took(0, 3, 0.02)];
    let fit = fitted(&seen, &Prior::probed(&[1.0; 4], 1));
    assert_near(&speeds(&fit), &[1.0, 1.0, 1.0 / 3.0, 1.0]);
    assert_near(&[fit.works[0].unwrap().value], &[0.02]);
    assert_eq!(fit.speeds[2].source, Source::Fit);
}

#[test]
fn slower_of_two_ranks_has_lost_speed() {
    let fit = fitted(&[took(0, 0, 0.03), took(0, 1, 0.01)], &Prior::probed(&[1.0, 1.0, 1.0], 1));
    assert_near(&speeds(&fit), &[1.0 / 3.0, 1.0, 1.0]);
}

#[test]
fn idle_rank_keeps_its_relative_speed() {
    // The times of the three measured ranks fit the speeds that were known before; the fourth rank is idle.
    let seen = [took(0, 0, 0.04), took(0, 1, 0.02), took(0, 2, 0.01)];
    let fit = fitted(&seen, &Prior::probed(&[1.0, 2.0, 4.0, 8.0], 1));
    assert_near(&speeds(&fit), &[1.0, 2.0, 4.0, 8.0]);
    assert_near(&[fit.seconds(0, 3).unwrap()], &[0.005]);
    let idle = fit.speeds[3];
    assert_eq!((idle.source, idle.count), (Source::Probe, 0));
}

#[test]
fn rank_without_shared_stages_keeps_the_prior() {
    let fit = fitted(&[took(0, 0, 0.02), took(1, 1, 0.05)], &Prior::probed(&[1.0, 2.0], 2));
    assert_near(&speeds(&fit), &[1.0, 2.0]);
    assert_near(&fit.works.iter().map(|work| work.unwrap().value).collect::<Vec<_>>(), &[0.02, 0.10]);
    assert!(fit.speeds.iter().all(|speed| speed.source == Source::Probe), "{:?}", fit.speeds);
}

#[test]
fn ranks_are_compared_through_a_chain_of_stages() {
    // Ranks 0 and 1 share stage 0, and ranks 1 and 2 share stage 1. The times of stage 1 show that rank 2 has half
    // the speed of the others.
    let seen = [took(0, 0, 0.01), took(0, 1, 0.01), took(1, 1, 0.03), took(1, 2, 0.06), took(2, 2, 0.10)];
    let fit = fitted(&seen, &Prior::probed(&[1.0; 3], 3));
    assert_near(&speeds(&fit), &[1.0, 1.0, 0.5]);
    assert_near(&[fit.seconds(2, 0).unwrap()], &[0.05]);
}

#[test]
fn known_works_distinguish_slow_ranks_from_slow_work() {
    let prior = Prior { speeds: vec![1.0; 3], works: vec![Some(0.01), Some(0.02), Some(0.03)] };
    // Both stages of rank 0 take twice as long as expected before the measurements. No other rank ran these stages,
    // so the rank is slower.
    let slower_rank = fitted(&[took(0, 0, 0.02), took(1, 0, 0.04), took(2, 1, 0.03)], &prior);
    assert_near(&speeds(&slower_rank), &[0.5, 1.0, 1.0]);
    // Stage 2 takes twice as long as expected on every rank, so its work has doubled.
    let slower_work =
        fitted(&[took(2, 0, 0.06), took(2, 1, 0.06), took(2, 2, 0.06), took(0, 0, 0.01)], &prior);
    assert_near(&speeds(&slower_work), &[1.0; 3]);
    assert_near(&[slower_work.works[2].unwrap().value], &[0.06]);
    // If the only measured stage of a rank takes longer than expected, the rank counts as slower, because speeds
    // change more often than works.
    let one = fitted(&[took(0, 0, 0.02), took(2, 1, 0.03)], &prior);
    assert_near(&speeds(&one), &[0.5, 1.0, 1.0]);
}

#[test]
fn core_time_distinguishes_heavier_stages_from_slower_ranks() {
    let prior = Prior { speeds: vec![1.0; 3], works: vec![Some(0.01), Some(0.02), Some(0.03)] };
    let fitted = |seen: &[Measurement]| fit(seen, &prior, &FitOptions::of_core_time()).unwrap();
    // The times count only while the rank had its core. Stage 2, which runs on one rank only, takes twice as long, so
    // its work has doubled.
    let phase = fitted(&[took(0, 0, 0.01), took(1, 1, 0.02), took(2, 2, 0.06)]);
    assert_near(&speeds(&phase), &[1.0; 3]);
    assert_near(&[phase.works[2].unwrap().value], &[0.06]);
    // Both stages of rank 0 take longer, although the rank had its core. So the rank is slower, for example because
    // of a lower clock rate or another program on the same cache.
    let rank = fitted(&[took(0, 0, 0.015), took(1, 0, 0.03), took(2, 1, 0.03)]);
    assert_near(&speeds(&rank), &[1.0 / 1.5, 1.0, 1.0]);
}

#[test]
fn fit_without_measurements_equals_the_prior() {
    let prior = Prior { speeds: vec![3.0], works: vec![Some(2.0), None] };
    let fit = fitted(&[], &prior);
    assert_eq!(fit.speeds, [Estimate::probed(3.0)]);
    assert_eq!(fit.works, [Some(Estimate::declared(2.0)), None]);
    assert_eq!(fit.seconds(1, 0), None);
}

#[test]
fn invalid_measurements_and_priors_are_refused() {
    let prior = Prior::probed(&[1.0], 1);
    let refused = |m: Measurement| fit(&[m], &prior, &FitOptions::default()).unwrap_err().to_string();
    assert!(refused(took(0, 1, 1.0)).contains("1 stages and 1 ranks"));
    assert!(refused(took(0, 0, 0.0)).contains("from 1e-60"));
    let idle = Prior::probed(&[0.0], 1);
    assert!(fit(&[], &idle, &FitOptions::default()).unwrap_err().to_string().contains("speed of rank 0"));
}

proptest! {
    #[test]
    fn consistent_measurements_are_reproduced(
        works in prop::collection::vec(1e-6..10.0_f64, 1..8),
        speeds in prop::collection::vec(0.1..10.0_f64, 1..12),
        probed in prop::collection::vec(0.1..10.0_f64, 12),
        pairs in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1.0..50.0_f64), 1..40),
    ) {
        let seen: Vec<Measurement> = pairs
            .iter()
            .map(|(stage, rank, weight)| {
                let (stage, rank) = (stage.index(works.len()), rank.index(speeds.len()));
                Measurement { stage, rank, seconds: works[stage] / speeds[rank], weight: *weight }
            })
            .collect();
        let fit = fitted(&seen, &Prior::probed(&probed[..speeds.len()], works.len()));
        for m in &seen {
            let again = fit.seconds(m.stage, m.rank).unwrap();
            prop_assert!((again / m.seconds - 1.0).abs() < 0.005, "{again} for {m:?}");
        }
    }

    #[test]
    fn complete_measurements_recover_all_speeds(
        works in prop::collection::vec(1e-4..1.0_f64, 1..6),
        probed in prop::collection::vec(0.2..5.0_f64, 3..10),
        loaded in any::<prop::sample::Index>(),
        share in 0.1..0.95_f64,
    ) {
        let mut speeds_now = probed.clone();
        speeds_now[loaded.index(probed.len())] *= share;
        let mut seen = Vec::new();
        for (s, work) in works.iter().enumerate() {
            seen.extend(speeds_now.iter().enumerate().map(|(r, speed)| took(s, r, work / speed)));
        }
        let fit = fitted(&seen, &Prior::probed(&probed, works.len()));
        for (found, real) in speeds(&fit).iter().zip(&speeds_now) {
            prop_assert!((found / real - 1.0).abs() < 0.01, "{found} for {real}");
        }
    }
}
