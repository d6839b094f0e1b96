//! Tests of the decisions of a loop balancer after the first reports of the ranks.

use super::*;

fn four() -> LoopOptions {
    LoopOptions { settling: Some(4), ..LoopOptions::default() }
}

#[test]
fn moderate_gain_requires_four_averaged_reports() {
    // Speeds of two ranks: while rank 0 has cold caches, later, and with a rank that is several times as slow. With the speeds `cold`, a
    // redistribution of the units (loop iterations) would save a seventh of the time.
    let (cold, warm, slow) = ([80.0, 107.0], [107.0, 107.0], [50.0, 200.0]);
    let mut bench = Bench::new(&[1000; 2], four());
    let first = bench.look(&cold);
    assert_eq!((first.action, first.horizon), (KEEP(Reason::Unsure), None));
    let actions: Vec<Action> = (0..3).map(|_| bench.look(&warm).action).collect();
    let last = bench.look(&warm);
    assert_eq!((&actions[2], last.action), (&KEEP(Reason::Same), KEEP(Reason::Same)));
    assert!((last.rates[0] - 107.0).abs() < 1e-9 && last.rates[1] == 107.0, "{:?}", last.rates);
    // Units move after four reports that show the same moderate gain. If a rank is several times as slow as the other, they move after two reports.
    let acted = |rates: &[f64]| {
        let mut bench = Bench::new(&[1000; 2], four());
        [(); 4].map(|()| bench.look(rates).is_act())
    };
    assert_eq!(acted(&cold), [false, false, false, true]);
    assert_eq!(acted(&slow)[..2], [false, true]);
    for rates in [cold, slow] {
        assert!(Bench::new(&[1000; 2], LoopOptions::default()).look(&rates).is_act(), "the paper's");
    }
    let shown = Bench::new(&[1000; 2], four()).look(&cold).to_string();
    assert!(shown.starts_with("keep: there are too few reports to trust a gain of this size; "), "{shown}");
}

/// Regression: on a grid of 4,000 rows, the first pass (sweep) of a rank over its rows took three times as long as later ones. Its neighbour, which
/// shared its core with a load, then received most of the rows.
#[test]
fn first_report_moves_nothing_and_is_discarded() {
    let mut bench = Bench::new(&[2000; 2], four());
    let first = bench.look(&[4_000.0, 16_000.0]);
    assert!(first.action == KEEP(Reason::Unsure) && first.gain > 0.5, "{first}");
    assert_eq!(first.rates, [4_000.0, 16_000.0]);
    let decisions: Vec<_> = (0..3).map(|_| bench.look(&[36_000.0, 18_000.0])).collect();
    assert_eq!(decisions[0].rates, [36_000.0, 18_000.0]);
    let target = decisions.iter().map(|decision| (decision.is_act(), decision.target[0]));
    assert_eq!(target.collect::<Vec<_>>(), [(false, 2667), (false, 2667), (true, 2667)]);
}

#[test]
fn forgotten_rates_are_measured_again() {
    let mut bench = Bench::new(&[1000; 2], four());
    for _ in 0..6 {
        bench.look(&[100.0, 100.0]);
    }
    bench.balancer.forget_rates();
    let decision = bench.look(&[400.0, 320.0]);
    assert_eq!((decision.rates, decision.action), (vec![400.0, 320.0], KEEP(Reason::Unsure)));
}
