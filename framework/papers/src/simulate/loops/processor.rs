//! Simulated processor that a rank shares with a competing load.

use armature_planner::range::ROUNDING;

use super::effort::Effort;
use super::system::{Load, Sharing};

/// Simulated processor of a rank. Its methods must be called in the order of simulated time.
#[derive(Clone, Debug)]
pub(super) struct Processor {
    sharing: Sharing,
    load: Option<Load>,
    /// Number of times that the competing load has switched on or off; the load is on after an odd number.
    switches: u64,
    stopped: f64,
    /// Seconds that were left of the rank's turn when the rank last stopped computing.
    turn_left: f64,
    /// Seconds for which the rank had the processor while the competing load was on.
    own_share: f64,
    effort: Effort,
}

impl Processor {
    pub(super) fn new(sharing: Sharing, load: Option<Load>, effort: Effort) -> Self {
        let turn_left = match sharing {
            Sharing::Fluid => 0.0,
            Sharing::Turns(turn) => turn,
        };
        Processor { sharing, load, switches: 0, stopped: 0.0, turn_left, own_share: 0.0, effort }
    }

    /// Simulates a computation of `seconds` processor seconds from time `start`, and returns the simulated time of
    /// its end. `start` must not be before the end of the previous computation.
    pub(super) fn compute(&mut self, start: f64, seconds: f64) -> f64 {
        self.compute_until(start, seconds, f64::INFINITY).0
    }

    /// Returns the processor seconds that the rank has had at time `limit` if it computes from time `start` on.
    /// `start` must not be before the end of the previous computation.
    pub(super) fn done_by(&self, start: f64, limit: f64) -> f64 {
        let most = limit - start;
        if most > 0.0 { most - self.clone().compute_until(start, most, limit).1 } else { 0.0 }
    }

    /// Computes like [`compute`](Processor::compute), but stops at time `limit`. Returns the end time and the
    /// processor seconds that remain to be computed. After too many simulation steps the call returns at once.
    fn compute_until(&mut self, start: f64, seconds: f64, limit: f64) -> (f64, f64) {
        if !self.effort.step() || seconds <= 0.0 {
            return (start, 0.0);
        }
        self.advance(start);
        let mut now = start + self.wait(start);
        let mut left = seconds;
        loop {
            if now >= limit || !self.effort.step() {
                self.stopped = now;
                return (now, left);
            }
            self.advance(now);
            let until = self.next_switch().min(limit);
            let part = match (self.is_on(), self.sharing) {
                (false, _) => ComputationPart { own: left.min(until - now), wall: left.min(until - now) },
                (true, Sharing::Fluid) => {
                    let own = left.min(0.5 * (until - now));
                    ComputationPart { own, wall: 2.0 * own }
                }
                (true, Sharing::Turns(_)) => {
                    let own = left.min(self.turn_left).min(until - now);
                    ComputationPart { own, wall: own }
                }
            };
            left -= part.own;
            if self.is_on() {
                self.own_share += part.own;
                self.turn_left -= part.own;
            }
            // A time that differs from the next switch of the competing load by a rounding error counts as the time
            // of the switch.
            let end = now + part.wall;
            let is_there = until.is_finite() && (until - end).abs() <= ROUNDING * until;
            now = if is_there { until } else { end };
            if left <= ROUNDING * seconds {
                self.stopped = now;
                return (now, 0.0);
            }
            if let (true, Sharing::Turns(turn)) = (self.is_on(), self.sharing)
                && self.turn_left <= ROUNDING * turn
                && now < until
            {
                // A turn of the competing load follows the rank's turn, unless the load stops before.
                now = until.min(now + turn);
                self.turn_left = turn;
            }
        }
    }

    /// Returns the processor seconds that the competing load had until time `end`, which must not be before the end
    /// of the rank's last computation.
    pub(super) fn competing(&mut self, end: f64) -> f64 {
        let Some(Load { off, on, .. }) = self.load else { return 0.0 };
        let periods = (end / (off + on)).floor();
        let whole = periods * on + (end - periods * (off + on) - off).max(0.0);
        (whole - self.own_share).max(0.0)
    }

    /// Returns the seconds from `start`, when the rank wants to compute, until the rank gets the processor.
    fn wait(&mut self, start: f64) -> f64 {
        let (true, Sharing::Turns(turn)) = (self.is_on(), self.sharing) else { return 0.0 };
        let alone_since = self.stopped.max(self.switch(self.switches));
        if start <= alone_since {
            // The competing load has not had the processor alone: the rank never stopped, or rank and load begin at
            // the same time.
            return if self.turn_left > 0.0 { 0.0 } else { self.other(start, turn) };
        }
        let into = (start - alone_since) % turn;
        self.turn_left = turn;
        (turn - into).min(self.next_switch() - start)
    }

    /// Returns the seconds of the competing load's turn on the processor, which ends early if the load stops. The
    /// next turn of the rank has its full length.
    fn other(&mut self, start: f64, turn: f64) -> f64 {
        self.turn_left = turn;
        turn.min(self.next_switch() - start)
    }

    fn is_on(&self) -> bool {
        self.switches % 2 == 1
    }

    /// Returns the time at which the competing load switches on or off for the n-th time.
    fn switch(&self, n: u64) -> f64 {
        let Some(Load { off, on, .. }) = self.load else { return f64::INFINITY };
        let whole = (n / 2) as f64 * (off + on);
        if n % 2 == 1 { whole + off } else { whole }
    }

    fn next_switch(&self) -> f64 {
        self.switch(self.switches + 1)
    }

    fn advance(&mut self, now: f64) {
        while self.next_switch() <= now && self.effort.step() {
            self.switches += 1;
            if let (true, Sharing::Turns(turn)) = (self.is_on(), self.sharing) {
                self.turn_left = turn;
            }
        }
    }
}

/// Part of a simulated computation: `own` seconds for which the rank has the processor, within `wall` elapsed
/// seconds.
struct ComputationPart {
    own: f64,
    wall: f64,
}
