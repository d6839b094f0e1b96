//! Tests of the measured savings of movements against values computed by hand, and of their use in a loop balancer.

use super::realised_gain::{RealisedGain, Trial};
use crate::loops::*;

const BEFORE: [u64; 2] = [100, 100];
const AFTER: [u64; 2] = [67, 133];
const LOADED: [f64; 2] = [50.0, 100.0];
const FREE: [f64; 2] = [100.0, 100.0];

fn kept(realised_gain: &RealisedGain, saved: f64, promised: f64) {
    let kept = realised_gain.kept().unwrap();
    assert!((kept - saved / promised).abs() < 1e-9, "{kept} instead of {saved} / {promised}");
}

/// Returns the seconds per second that the distribution `AFTER` saves compared with `BEFORE`, while the ranks have the units (loop iterations)
/// `held`.
fn saved(held: &[u64], rates: &[f64]) -> f64 {
    (pass_time(&BEFORE, rates) - pass_time(&AFTER, rates)) / pass_time(held, rates)
}

#[test]
fn gain_is_measured_until_the_next_movement() {
    let mut realised_gain = RealisedGain::default();
    realised_gain.begin(Trial::new(&BEFORE, &AFTER, 0.33, Some(10.0), true));
    // Between the decision and the movement, the units (loop iterations) are still distributed as before. This second does not count as measured.
    realised_gain.follow(1.0, &BEFORE, &LOADED);
    realised_gain.moved();
    realised_gain.follow(4.0, &AFTER, &LOADED);
    realised_gain.compare(&AFTER, &LOADED, 0.1);
    assert_eq!(realised_gain.kept(), None, "nothing has ended");
    realised_gain.follow(1.0, &AFTER, &FREE);
    realised_gain.compare(&BEFORE, &FREE, 0.1);
    // The saving of a movement can be computed before the units (loop iterations) move back.
    kept(&realised_gain, 4.0 * saved(&AFTER, &LOADED) + saved(&AFTER, &FREE), 3.3);
    realised_gain.follow(1.0, &AFTER, &FREE);
    kept(&realised_gain, 4.0 * saved(&AFTER, &LOADED) + 2.0 * saved(&AFTER, &FREE), 3.3);
    realised_gain.follow(9.0, &AFTER, &FREE);
    kept(&realised_gain, 4.0 * saved(&AFTER, &LOADED) + 2.0 * saved(&AFTER, &FREE), 3.3);
}

#[test]
fn gain_of_a_suppressed_movement_is_measured() {
    let mut realised_gain = RealisedGain::default();
    let held_back = || Trial::new(&BEFORE, &AFTER, 0.33, Some(10.0), false);
    realised_gain.begin(held_back());
    // The saving of a movement that is only considered is measured from the time at which the movement would have been carried out, one second later.
    realised_gain.follow(1.0, &BEFORE, &LOADED);
    realised_gain.begin(held_back());
    realised_gain.follow(3.0, &BEFORE, &LOADED);
    realised_gain.compare(&BEFORE, &FREE, 0.1);
    realised_gain.follow(1.0, &BEFORE, &FREE);
    let first = 3.0 * saved(&BEFORE, &LOADED) + saved(&BEFORE, &FREE);
    kept(&realised_gain, first, 3.3);
    // The measurement of a second movement begins. Its seconds count although it has not ended.
    realised_gain.begin(held_back());
    realised_gain.follow(1.0, &BEFORE, &LOADED);
    realised_gain.follow(8.0, &BEFORE, &LOADED);
    kept(&realised_gain, first + 8.0 * saved(&BEFORE, &LOADED), 3.3 + 8.0 * 0.33);
    // If the units (loop iterations) are distributed neither as before nor as after the measured movement, its measurement is discarded.
    realised_gain.follow(1.0, &[50, 150], &LOADED);
    kept(&realised_gain, first, 3.3);
}

#[test]
fn stalled_ranks_are_excluded_from_the_gain() {
    let mut realised_gain = RealisedGain::default();
    realised_gain.begin(Trial::new(&BEFORE, &AFTER, 0.5, Some(2.0), true));
    realised_gain.moved();
    realised_gain.follow(1.0, &AFTER, &[0.0, 100.0]);
    realised_gain.follow(2.0, &AFTER, &LOADED);
    realised_gain.begin(Trial::new(&AFTER, &BEFORE, 0.2, Some(2.0), true));
    realised_gain.moved();
    kept(&realised_gain, 2.0 * saved(&AFTER, &LOADED), 1.0);
    realised_gain.abandoned();
    kept(&realised_gain, 2.0 * saved(&AFTER, &LOADED), 1.0);
}

/// Simulates two ranks with a balancer that decides once a second and whose moves are carried out a second later. Returns the decisions and the
/// number of movements, each of which takes 0.1 s.
fn looks(realised_gain: bool, loads: impl IntoIterator<Item = bool>) -> (Vec<LoopDecision>, usize) {
    let options = LoopOptions { realised_gain, smoothing: Smoothing::Raw, ..LoopOptions::default() };
    let mut balancer = LoopBalancer::new(2, options).unwrap();
    let (mut held, mut now, mut pending) = (vec![1000, 1000], 0.0, None);
    let (mut looks, mut moves) = (Vec::new(), 0);
    for is_loaded in loads {
        now += 1.0;
        let speeds = if is_loaded { LOADED } else { FREE };
        let report =
            |(&held, speed): (&u64, f64)| Report { units: held as f64, seconds: held as f64 / speed, held };
        let reports: Vec<Report> = held.iter().zip(speeds).map(report).collect();
        let look = Interaction { now, reports: &reports, phase: 0.5, cost: 0.005, ahead: Ahead::Unknown };
        let decision = balancer.interact(&look).unwrap();
        if let Some(target) = pending.take() {
            held = target;
            now += 0.1;
            moves += 1;
            balancer.moved(now, 0.1);
        } else if decision.is_act() {
            pending = Some(decision.target.clone());
        }
        looks.push(decision);
    }
    (looks, moves)
}

#[test]
fn fast_loads_are_followed_only_briefly() {
    // A load is on for 3 s and off for 3 s. The movement of units (loop iterations) away from it is carried out so late that it saves time for only
    // one second.
    let fast = || (0..120).map(|i| i / 3 % 2 == 0);
    assert!(looks(false, fast()).1 >= 30, "{}", looks(false, fast()).1);
    let (decisions, moves) = looks(true, fast());
    assert!(moves <= 4, "{moves}");
    assert!(decisions.iter().any(|d| d.to_string().contains("earlier moves achieved")), "it says why");
}

#[test]
fn lasting_loads_are_followed_after_fast_ones() {
    let fast = (0..120).map(|i| i / 3 % 2 == 0);
    let (decisions, _) = looks(true, fast.clone().chain([true; 60]));
    let after = &decisions[120..];
    let found = after.iter().position(|d| d.held == [667, 1333]);
    // A third of each second is lost until the units (loop iterations) move, because the load slows one rank. The time of the movement itself is much
    // shorter.
    let lost: f64 = after.iter().map(|d| d.gain).sum();
    assert!(found.is_some() && lost < 3.5, "{lost} s lost until {found:?}");
    // If the load changes only every 40 s, units (loop iterations) move at each change, with and without the option `realised_gain`.
    let slow = || (0..400).map(|i| i / 40 % 2 == 0);
    assert_eq!(looks(true, slow()).1, looks(false, slow()).1);
}

#[test]
fn known_loop_end_does_not_increase_the_margin() {
    let options = LoopOptions { smoothing: Smoothing::Raw, ..LoopOptions::default() };
    let mut balancer = LoopBalancer::new(2, options).unwrap();
    let mut look = |now: f64, held: [u64; 2], speeds: [f64; 2], passes: f64| {
        let report =
            |(held, speed): (u64, f64)| Report { units: held as f64, seconds: held as f64 / speed, held };
        let reports = [(held[0], speeds[0]), (held[1], speeds[1])].map(report);
        let ahead = Ahead::Passes(passes);
        let decision = balancer
            .interact(&Interaction { now, reports: &reports, phase: 0.5, cost: 0.005, ahead })
            .unwrap();
        if decision.is_act() {
            balancer.moved(now, 2.0);
        }
        decision
    };
    // A load starts when 1,000 passes over all units are left, and ends 20 s later. Moving units because of the load has paid.
    let came = look(1.0, [1000, 1000], LOADED, 1000.0);
    assert!(came.is_act() && came.horizon.is_some_and(|horizon| horizon > 10_000.0), "{came}");
    look(11.0, [667, 1333], LOADED, 990.0);
    look(21.0, [667, 1333], LOADED, 980.0);
    let went = look(22.0, [667, 1333], FREE, 979.0);
    assert!(went.margin == Some(1.0) && went.kept > 0.8 && went.is_act(), "{went}");
}
