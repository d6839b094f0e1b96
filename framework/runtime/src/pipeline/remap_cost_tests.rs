//! Tests of the measured cost of changes of a pipeline's mapping, in streams with synthetic arrival times at the sink.

use super::*;

const WINDOW: u64 = 10;

/// Simulated stream of batches of one item, with a constant number of batches in flight.
struct SimulatedStream {
    metrics: RemapCostMeter,
    ms: f64,
    items: u64,
    update: Vec<CostUpdate>,
}

impl SimulatedStream {
    fn new() -> Self {
        SimulatedStream { metrics: RemapCostMeter::new(), ms: 0.0, items: 0, update: Vec::new() }
    }

    fn progress(&self) -> Progress {
        let now = Duration::from_secs_f64(self.ms * 1e-3);
        let drawn = self.items + WINDOW;
        Progress { now, elapsed: now, items: self.items, drawn, left: None, batches: (self.items, drawn) }
    }

    fn flow(&mut self, items: u64, ms: f64) -> &mut Self {
        for _ in 0..items {
            self.ms += ms;
            self.items += 1;
            if self.items >= self.metrics.next(WINDOW) {
                self.update.extend(self.metrics.see(self.progress()));
            }
        }
        self
    }

    fn stall(&mut self, ms: f64) -> &mut Self {
        self.ms += ms;
        self
    }

    fn order(&mut self) -> &mut Self {
        self.update.extend(self.metrics.ordered(self.progress()));
        self
    }

    fn switch(&mut self) -> &mut Self {
        self.metrics.activated(self.progress());
        self
    }

    fn end(&mut self) -> &mut Self {
        self.update.extend(self.metrics.end(self.progress()));
        self
    }

    /// Returns the measured costs of the changes of the mapping, in milliseconds and as a multiple of the time that the items in flight take.
    fn costs(&self) -> Vec<(f64, f64)> {
        let cost = |update: &CostUpdate| match update {
            CostUpdate::Settled(cost) => Some((1e3 * cost.seconds, cost.windows.unwrap())),
            CostUpdate::Drained { .. } => None,
        };
        self.update.iter().filter_map(cost).collect()
    }

    /// Returns, for each change of the mapping, the milliseconds that the stream lost until the last batch drawn before the change reached the sink.
    fn losses(&self) -> Vec<f64> {
        let loss = |update: &CostUpdate| match update {
            CostUpdate::Drained { loss } => Some(1e3 * loss),
            CostUpdate::Settled(_) => None,
        };
        self.update.iter().filter_map(loss).collect()
    }
}

#[track_caller]
fn assert_costs(stream: &SimulatedStream, expected: &[(f64, f64)]) {
    let costs = stream.costs();
    let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
    let all = costs.iter().zip(expected).all(|(a, b)| near(a.0, b.0) && near(a.1, b.1));
    assert!(costs.len() == expected.len() && all, "{costs:?}, not {expected:?}");
}

#[test]
fn undisturbed_remap_costs_nothing_for_any_pace() {
    for after in [1.0, 2.0] {
        let mut stream = SimulatedStream::new();
        stream.flow(200, 2.0).order().flow(5, 2.0).switch().flow(WINDOW, after).flow(60, after);
        assert_costs(&stream, &[(0.0, 0.0)]);
        let gained = (WINDOW as f64) * (2.0 - after);
        assert!((stream.losses()[0] + gained).abs() < 1e-6, "{:?}", stream.update);
    }
}

#[test]
fn stall_costs_its_duration_despite_a_faster_pace() {
    let mut stream = SimulatedStream::new();
    stream.flow(200, 2.0).order().flow(5, 2.0).stall(3.0).flow(2, 2.0).switch();
    stream.flow(4, 1.0).stall(7.0).flow(6, 1.0).flow(60, 1.0);
    assert_costs(&stream, &[(10.0, 1.0)]);
    assert!(stream.losses()[0].abs() < 1e-6, "against going on as before nothing is lost");
}

#[test]
fn cost_includes_the_gain_missed_before_landing() {
    let mut stream = SimulatedStream::new();
    stream.flow(200, 3.0).order().flow(50, 3.0).switch().flow(WINDOW, 3.0).flow(60, 1.0);
    // While the ranks prepare the change of the mapping, 50 items reach the sink at the usual pace; this time is not part of the cost.
    assert_costs(&stream, &[(20.0, 2.0)]);
}

#[test]
fn slowdown_counts_until_the_landing() {
    let mut stream = SimulatedStream::new();
    stream.flow(200, 1.0).order().switch().flow(WINDOW, 1.5).flow(60, 1.5);
    assert_costs(&stream, &[(5.0, 0.5)]);
}

#[test]
fn early_items_give_a_negative_cost() {
    let mut stream = SimulatedStream::new();
    stream.flow(200, 1.0).order().switch().flow(WINDOW, 0.9).flow(60, 1.0);
    assert_costs(&stream, &[(-1.0, -0.1)]);
}

#[test]
fn previous_pace_covers_only_the_last_items() {
    let mut stream = SimulatedStream::new();
    stream.flow(1000, 9.0).flow(2 * span(WINDOW), 1.0).order().switch().flow(WINDOW, 2.0).flow(60, 1.0);
    assert_costs(&stream, &[(10.0, 1.0)]);
}

#[test]
fn cost_of_overlapping_remaps_is_unknown() {
    let mut stream = SimulatedStream::new();
    // Rank 0 orders the second change of the mapping while batches drawn before the first change are in flight.
    stream.flow(200, 1.0).order().switch().flow(3, 1.0).order().flow(2, 1.0).switch().flow(80, 1.0);
    assert_costs(&stream, &[]);
    assert_eq!(stream.losses(), [0.0], "one draining, of the second");
    // The third change of the mapping does not overlap with the first two, so its cost is known.
    stream.order().switch().stall(4.0).flow(80, 1.0);
    assert_costs(&stream, &[(4.0, 0.4)]);
}

#[test]
fn next_remap_or_end_settles_the_cost_early() {
    let mut stream = SimulatedStream::new();
    stream.flow(200, 1.0).order().switch().stall(5.0).flow(WINDOW, 1.0).flow(12, 1.0);
    assert_costs(&stream, &[]);
    stream.order();
    assert_costs(&stream, &[(5.0, 0.5)]);
    stream.switch().stall(2.0).flow(WINDOW, 1.0).flow(12, 1.0).end();
    assert_costs(&stream, &[(5.0, 0.5), (2.0, 0.2)]);
    stream.end();
    assert_eq!(stream.costs().len(), 2, "reported once");
}

#[test]
fn cost_is_unknown_for_remaps_at_the_stream_boundaries() {
    for after in [4, WINDOW, WINDOW + 4] {
        let mut stream = SimulatedStream::new();
        stream.flow(200, 1.0).order().switch().flow(after, 1.0).end();
        assert_costs(&stream, &[]);
    }
    let mut stream = SimulatedStream::new();
    stream.flow(200, 1.0).order().flow(3, 1.0).end();
    assert_costs(&stream, &[]);
    let mut early = SimulatedStream::new();
    early.flow(3, 1.0).order().switch().flow(80, 1.0).end();
    assert_costs(&early, &[]);
    assert_eq!(early.losses(), [0.0]);
}

#[test]
fn remap_lands_immediately_if_nothing_is_in_flight() {
    let mut metrics = RemapCostMeter::new();
    let at = |ms: u64, items: u64| {
        let now = Duration::from_millis(ms);
        Progress { now, elapsed: now, items, drawn: items, left: None, batches: (items, items) }
    };
    (1..100).for_each(|n| assert_eq!(metrics.see(at(n, n)), None));
    assert_eq!(metrics.ordered(at(99, 99)), None);
    metrics.activated(at(109, 99));
    assert_eq!(metrics.next(0), 0);
    let Some(CostUpdate::Drained { loss }) = metrics.see(at(109, 99)) else { panic!("it has drained") };
    assert!((loss - 0.010).abs() < 1e-9, "{loss}");
    let Some(CostUpdate::Settled(cost)) = metrics.see(at(149, 139)) else { panic!("it is known") };
    assert!((cost.seconds - 0.010).abs() < 1e-9 && cost.windows.is_none(), "{cost:?}");
}
