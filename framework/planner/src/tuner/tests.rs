//! Tests of each rule of the tuner, which decides whether a running stream changes its arrangement (such as its mapping).

use super::{Action, Candidate, Decision, Reason, Situation, Tuner, TunerOptions};

/// Returns the situation of a stream in arrangement 0 at time `now`: an item takes 10 ms, and 100 s remain. The last period was one second long.
pub(super) fn situation_at(now: f64) -> Situation<u32> {
    Situation {
        now,
        period: 1.0,
        elapsed: now,
        current: 0,
        current_time: 0.010,
        measured_time: Some(0.010),
        remaining_items: Some(10_000),
        settled: true,
    }
}

pub(super) fn to(arrangement: u32, time: f64, cost: f64) -> Option<Candidate<u32>> {
    Some(Candidate { arrangement, time, cost })
}

pub(super) fn tuner(options: TunerOptions) -> Tuner<u32> {
    Tuner::new(options).unwrap()
}

fn at_once() -> TunerOptions {
    TunerOptions { persistence: 1, ..TunerOptions::default() }
}

fn kept(reason: Reason) -> Action {
    Action::Keep(reason)
}

#[test]
fn persistent_profitable_gain_is_taken_at_third_observation() {
    let mut tuner = tuner(TunerOptions::default());
    let actions: Vec<_> =
        (1..=3).map(|t| tuner.consider(situation_at(f64::from(t)), to(1, 0.008, 1.0)).action).collect();
    let waits = |seen| kept(Reason::NotPersistent { seen, needed: 3 });
    assert_eq!(actions, [waits(1), waits(2), Action::Act]);
    assert_eq!(tuner.consider(situation_at(4.0), to(1, 0.008, 1.0)).action, kept(Reason::UnderWay));
}

#[test]
fn decisive_first_gain_is_taken_at_second_observation() {
    let options = TunerOptions { decisive: Some(0.5), ..TunerOptions::default() };
    let waits = |seen| (kept(Reason::NotPersistent { seen, needed: 3 }), seen);
    let actions = |tuner: &mut Tuner<u32>, time: f64| {
        (5..=7).map(|t| tuner.consider(situation_at(f64::from(t)), to(1, time, 1.0))).collect::<Vec<_>>()
    };
    let summarize = |decisions: &[Decision<u32>]| {
        decisions.iter().map(|d| (d.action, d.confirmations)).collect::<Vec<_>>()
    };
    let large = actions(&mut tuner(options), 0.005);
    assert_eq!(summarize(&large[..2]), [waits(1), (Action::Act, 2)]);
    // A gain just below the option `decisive` must last for three looks (comparisons of a candidate with the current arrangement).
    let smaller = actions(&mut tuner(options), 0.0051);
    assert_eq!(summarize(&smaller), [waits(1), waits(2), (Action::Act, 3)]);
    // A change with a decisive gain is rejected if it costs more than it saves.
    let mut dear = tuner(options);
    let dear = [1.0, 2.0].map(|now| dear.consider(situation_at(now), to(1, 0.005, 40.0)).action);
    assert_eq!(dear, [kept(Reason::NotWorthCost); 2]);
    // After the first change, a gain above the option `decisive` must be found in three comparisons in a row as well, because the current arrangement
    // was then chosen by measurements.
    let mut later = tuner(options);
    later.acted(1.0, 0.1);
    assert_eq!(summarize(&actions(&mut later, 0.001)), [waits(1), waits(2), (Action::Act, 3)]);
    for gain in [-0.1, 1.0, f64::NAN] {
        let error = TunerOptions { decisive: Some(gain), ..options }.validate().unwrap_err();
        assert!(error.to_string().contains("the decisive gain must be"), "{error}");
    }
}

#[test]
fn threshold_and_cost_are_checked_separately() {
    let mut tuner = tuner(at_once());
    let small = tuner.consider(situation_at(1.0), to(1, 0.0091, 0.0));
    assert_eq!(small.action, kept(Reason::GainTooSmall));
    assert!((small.gain - 0.09).abs() < 1e-12 && (small.benefit - 9.0).abs() < 1e-9, "{small:?}");
    // A gain of 20 % of the remaining 100 s saves 20 s. With a margin of 1.5 this justifies a cost of 13.3 s, but not of 13.4 s.
    let dear = tuner.consider(situation_at(2.0), to(1, 0.008, 13.4));
    assert_eq!(dear.action, kept(Reason::NotWorthCost));
    assert_eq!(tuner.consider(situation_at(3.0), to(1, 0.008, 13.3)).action, Action::Act);
}

#[test]
fn patience_accepts_a_lasting_gain_of_half_the_threshold() {
    let patient = || tuner(TunerOptions { patience: Some(4), ..TunerOptions::default() });
    let waits = |seen, needed| kept(Reason::NotPersistent { seen, needed });
    let actions = |times: &[f64]| {
        let mut tuner = patient();
        let situation_at = |(t, &time)| tuner.consider(situation_at(1.0 + t as f64), to(1, time, 0.1)).action;
        times.iter().enumerate().map(situation_at).collect::<Vec<_>>()
    };
    let (small, tiny, large) = (0.0094, 0.0096, 0.008);
    let in_a_row = actions(&[small; 4]);
    assert_eq!(in_a_row, [waits(1, 4), waits(2, 4), waits(3, 4), Action::Act]);
    let broken = actions(&[small, small, tiny, small]);
    assert_eq!(broken[2..], [kept(Reason::GainTooSmall), waits(1, 4)]);
    // A comparison that finds a large gain counts for both options, `persistence` and `patience`; one that finds a small gain counts only for
    // `patience`.
    assert_eq!(actions(&[small, large, large, small])[1..], [waits(1, 3), waits(2, 3), Action::Act]);
    assert_eq!(actions(&[large, small, large])[1..], [waits(2, 4), waits(1, 3)]);
}

#[test]
fn small_gain_counts_during_cooldown_but_never_reverts() {
    let mut tuner = tuner(TunerOptions { patience: Some(3), persistence: 1, ..TunerOptions::default() });
    assert!(tuner.consider(situation_at(1.0), to(1, 0.008, 0.0)).is_act());
    tuner.acted(1.0, 0.0);
    let at =
        |now| Situation { current: 1, current_time: 0.009, measured_time: Some(0.009), ..situation_at(now) };
    for now in [2.0, 3.0] {
        let decision = tuner.consider(at(now), to(2, 0.0085, 0.0));
        assert_eq!(decision.action, kept(Reason::CoolingDown { until: 4.0 }));
    }
    let back = tuner.clone().consider(at(4.0), to(0, 0.0085, 0.0));
    assert_eq!(back.action, kept(Reason::ReturnTooSoon));
    assert_eq!(tuner.consider(at(4.0), to(2, 0.0085, 0.0)).action, Action::Act);
}

#[test]
fn no_change_for_the_last_items() {
    let mut tuner = tuner(at_once());
    let end = Situation { remaining_items: Some(10), ..situation_at(50.0) };
    assert_eq!(tuner.consider(end, to(1, 0.005, 0.1)).action, kept(Reason::NotWorthCost));
}

#[test]
fn horizon_of_an_endless_stream_is_its_elapsed_time() {
    let mut tuner = tuner(at_once());
    let at = |now| Situation { remaining_items: None, ..situation_at(now) };
    let young = tuner.consider(at(2.0), to(1, 0.005, 1.0));
    assert_eq!((young.horizon, young.action), (2.0, kept(Reason::NotWorthCost)));
    let old = tuner.consider(at(4.0), to(1, 0.005, 1.0));
    assert_eq!((old.horizon, old.action), (4.0, Action::Act));
}

#[test]
fn observation_without_gain_resets_the_persistence_count() {
    let mut tuner = tuner(TunerOptions { persistence: 2, ..TunerOptions::default() });
    let waits = kept(Reason::NotPersistent { seen: 1, needed: 2 });
    assert_eq!(tuner.consider(situation_at(1.0), to(1, 0.008, 0.1)).action, waits);
    assert_eq!(tuner.consider(situation_at(2.0), None).action, kept(Reason::Same));
    assert_eq!(tuner.consider(situation_at(3.0), to(1, 0.008, 0.1)).action, waits);
    let nothing = Situation { settled: false, ..situation_at(4.0) };
    assert_eq!(tuner.consider(nothing, None).action, kept(Reason::NotSettled));
    // The candidate may change from one comparison to the next; only the gain must last.
    let decision = tuner.consider(situation_at(5.0), to(2, 0.007, 0.1));
    assert_eq!((decision.action, decision.candidate.map(|c| c.arrangement)), (Action::Act, Some(2)));
}

#[test]
fn disabled_tuner_still_reports_the_gain() {
    let mut tuner = tuner(TunerOptions::off());
    for t in 1..20 {
        let decision = tuner.consider(situation_at(f64::from(t)), to(1, 0.005, 0.0));
        assert_eq!((decision.action, decision.gain), (kept(Reason::Off), 0.5));
    }
}

#[test]
fn cooldown_is_proportional_to_the_cost_of_a_change() {
    let mut tuner = tuner(at_once());
    assert!(tuner.consider(situation_at(1.0), to(1, 0.005, 0.7)).is_act());
    tuner.acted(1.5, 0.7);
    let at = |now| Situation { current: 1, current_time: 0.005, ..situation_at(now) };
    // The last measuring period began before the change was complete, so its measurements do not count.
    assert_eq!(tuner.consider(at(2.0), to(2, 0.001, 0.0)).action, kept(Reason::NotSettled));
    assert_eq!(tuner.consider(at(3.0), to(2, 0.001, 0.0)).action, kept(Reason::CoolingDown { until: 8.5 }));
    assert_eq!(tuner.consider(at(8.5), to(2, 0.001, 0.0)).action, Action::Act);
}

#[test]
fn returning_to_an_arrangement_requires_a_larger_gain() {
    let mut tuner = tuner(at_once());
    assert!(tuner.consider(situation_at(1.0), to(1, 0.0088, 0.0)).is_act());
    tuner.acted(1.0, 0.0);
    let at = |now, time| Situation { current: 1, current_time: time, ..situation_at(now) };
    // A return to arrangement 0 for a gain of 15 % is rejected while the tuner remembers that the stream changed away from it.
    let back = tuner.consider(at(10.0, 0.0105), to(0, 0.0089, 0.0));
    assert_eq!((back.action, back.threshold), (kept(Reason::ReturnTooSoon), 0.2));
    // A return to arrangement 0 is accepted if it has become much faster since the stream changed away from it.
    assert!(tuner.clone().consider(at(11.0, 0.0090), to(0, 0.0078, 0.0)).is_act());
    // A return to arrangement 0 is accepted if the gain is more than twice the threshold.
    assert!(tuner.clone().consider(at(11.0, 0.0125), to(0, 0.0095, 0.0)).is_act());
    // A return to arrangement 0 is accepted if the stream changed away from it long ago.
    assert!(tuner.consider(at(611.0, 0.0105), to(0, 0.0089, 0.0)).is_act());
}

#[test]
fn outcome_compares_prediction_and_measurement() {
    let mut tuner = tuner(at_once());
    assert!(tuner.consider(situation_at(1.0), to(1, 0.006, 0.2)).is_act());
    tuner.acted(1.2, 0.3);
    let after = |now, seen| Situation {
        current: 1,
        current_time: 0.006,
        measured_time: Some(seen),
        ..situation_at(now)
    };
    for (now, seen) in [(2.0, 0.009), (3.0, 0.0065), (4.0, 0.0061)] {
        tuner.consider(after(now, seen), None);
        assert_eq!(tuner.outcome(), None);
    }
    tuner.consider(after(5.0, 0.0070), None);
    let outcome = tuner.outcome().unwrap();
    assert_eq!((outcome.decided, outcome.effective_from, outcome.judged), (1.0, 1.2, 5.0));
    assert_eq!((outcome.expected_cost, outcome.cost), (0.2, 0.3));
    // The measurement of the period in which the change took place is ignored.
    assert_eq!((outcome.measured_before, outcome.measured_after), (Some(0.010), 0.0065));
    assert!(outcome.is_kept());
    assert_eq!(
        outcome.to_string(),
        "the change cost 300 ms (200 ms expected); predicted 10.0 ms → 6.00 ms an item (gain 40.0 %), \
         measured 10.0 ms → 6.50 ms (gain 35.0 %)"
    );
    assert_eq!(tuner.outcome(), None);
}

#[test]
fn ineffective_changes_become_rarer() {
    // The model predicts that every other arrangement of the stream saves 30 % of the time per item, but no change has an effect.
    let mut tuner = tuner(at_once());
    let (mut current, mut changes) = (0, Vec::new());
    for t in 1..=400 {
        let now = f64::from(t);
        let decision =
            tuner.consider(Situation { current, ..situation_at(now) }, to(current + 1, 0.007, 0.0));
        if decision.is_act() {
            current += 1;
            changes.push(now);
            tuner.acted(now, 0.0);
        }
    }
    let gaps: Vec<f64> = changes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0]), "{gaps:?}");
    assert_eq!(gaps.last(), Some(&48.0), "three seconds, doubled four times: {gaps:?}");
}

#[test]
fn abandoned_change_is_retried_only_after_cooldown() {
    let mut tuner = tuner(at_once());
    assert!(tuner.consider(situation_at(1.0), to(1, 0.006, 1.0)).is_act());
    tuner.abandoned(2.0);
    assert_eq!(
        tuner.consider(situation_at(3.0), to(1, 0.006, 1.0)).action,
        kept(Reason::CoolingDown { until: 22.0 })
    );
    assert!(tuner.consider(situation_at(22.0), to(1, 0.006, 1.0)).is_act());
}

#[test]
fn non_finite_numbers_never_cause_a_change() {
    for bad in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
        let mut tuner = tuner(at_once());
        assert!(!tuner.consider(situation_at(1.0), to(1, bad, 0.0)).is_act());
        assert!(
            !tuner.consider(Situation { current_time: bad, ..situation_at(2.0) }, to(1, 0.005, 0.0)).is_act()
        );
    }
    for cost in [f64::NAN, f64::INFINITY, -1.0] {
        assert!(!tuner(at_once()).consider(situation_at(1.0), to(1, 0.005, cost)).is_act());
    }
}

#[test]
fn decisions_are_displayed_as_sentences() {
    let read =
        |situation, candidate| tuner(TunerOptions::default()).consider(situation, candidate).to_string();
    assert_eq!(read(situation_at(1.0), None), "keep: no candidate is faster than 10.0 ms an item");
    assert_eq!(
        read(situation_at(1.0), to(1, 0.0096, 2.0)),
        "keep: the gain is below the threshold of 10.0 %; 10.0 ms an item becomes 9.60 ms (gain 4.0 %), which \
         saves 4.00 s of the remaining 100 s for a cost of 2.00 s"
    );
    assert!(read(situation_at(1.0), to(1, 0.005, 40.0)).starts_with("keep: the saving must exceed 60.0 s; "));
    assert!(
        read(situation_at(1.0), to(1, 0.005, 1.0))
            .starts_with("keep: the gain was seen in 1 of 3 consecutive checks; ")
    );
    assert_eq!(
        read(Situation { settled: false, ..situation_at(1.0) }, None),
        "keep: there are not enough measurements yet"
    );
}
