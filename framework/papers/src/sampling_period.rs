//! Search for the best length of the sampling period in which a monitor counts the items that pass a queue.

use armature_planner::range::{self, POSITIVE};
use armature_planner::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// Parameters of the search for a sampling [`Period`]. The available text of the paper of Beard and
/// Chamberlain does not give the values of k, j and ε; the default values are ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PeriodOptions {
    /// Number of consecutive sampling periods without blocking of the server after which the period is lengthened (k
    /// in the paper of Beard and Chamberlain).
    pub unblocked: u32,
    /// Number of consecutive sampling periods that must have had the requested length before the period is lengthened
    /// (j in the paper of Beard and Chamberlain).
    pub stable: u32,
    /// Maximum relative difference between the actual and the requested length of a sampling period (ε in the paper
    /// of Beard and Chamberlain).
    pub deviation: f64,
    /// Number of bad periods (blocked or not of the requested length), as a multiple of k, after which a length is
    /// rejected; k is [`unblocked`](PeriodOptions::unblocked).
    pub patience: u32,
    /// Relative increase of the sampling period from one tried length to the next. The period always grows by at
    /// least one clock latency; with 0 it grows as in the paper of Beard and Chamberlain.
    pub growth: f64,
    /// Maximum length of a sampling period, in multiples of the clock latency.
    pub longest: u64,
}

impl Default for PeriodOptions {
    fn default() -> Self {
        PeriodOptions {
            unblocked: 10,
            stable: 10,
            deviation: 0.05,
            patience: 3,
            growth: 0.25,
            longest: 1 << 20,
        }
    }
}

/// State of the search for a sampling period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeriodState {
    /// The search tries another length of the sampling period.
    Searching,
    /// The search has found the longest usable sampling period.
    Settled,
    /// No length of the sampling period is both stable and free of blocking, so the rate cannot be monitored.
    Unusable,
}

/// Finds the longest sampling period that is stable (its actual length is close to the requested one) and in which the server is not blocked.
///
/// Longer periods reduce the noise of the system; shorter ones are more likely to pass without blocking. The search starts with the latency of the
/// clock (the shortest time between two readings). It lengthens the period by multiples of the latency while the last k periods passed without
/// blocking and the last j had the requested length. A length with too many bad periods ends the search with the last good length. If no length was
/// good and periods are unstable but not blocked, longer periods are tried, because the noise of the clock has less weight in them. If the server is
/// blocked too often, it cannot be monitored, because it would be blocked even more often in longer periods.
///
/// ```
/// use armature_papers::{Period, PeriodOptions, PeriodState};
///
/// let mut period = Period::new(1e-6, PeriodOptions::default())?;
/// // This server blocks in every fifth period that is longer than 100 µs.
/// let mut turn = 0;
/// while period.state() == PeriodState::Searching {
///     turn += 1;
///     period.observe(period.seconds(), period.seconds() > 100e-6 && turn % 5 == 0);
/// }
/// assert_eq!(period.state(), PeriodState::Settled);
/// assert!(period.seconds() > 75e-6 && period.seconds() <= 100e-6, "{period:?}");
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Period {
    options: PeriodOptions,
    latency: f64,
    /// Tried length of the period in clock latencies. The field `good` is the longest length so far that was stable
    /// and free of blocking.
    length: u64,
    good: Option<u64>,
    state: PeriodState,
    /// Number of consecutive periods of the tried length without blocking. The field `stable` counts consecutive periods whose actual length was the
    /// requested one.
    unblocked: u32,
    stable: u32,
    blocked_ones: u32,
    unstable_ones: u32,
}

impl Period {
    /// Creates a search that begins at `latency`, the shortest time between two readings of the clock, in seconds.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] if the latency is not from 1e-60 to 1e60 s, or an option is 0 or NaN and must not be.
    pub fn new(latency: f64, options: PeriodOptions) -> Result<Self> {
        let PeriodOptions { unblocked, stable, deviation, patience, growth, longest } = options;
        let counts = unblocked > 0 && stable > 0 && patience > 0 && longest > 0;
        let numbers =
            range::is_positive(latency) && range::is_positive(deviation) && range::is_amount(growth);
        if !counts || !numbers {
            let message = format!(
                "a period cannot be looked for with a clock latency of {latency} s and {options:?}: numbers \
                 must be {POSITIVE}, and only the growth may be 0"
            );
            return Err(Error::new(ErrorKind::Options, message));
        }
        Ok(Period {
            options,
            latency,
            length: 1,
            good: None,
            state: PeriodState::Searching,
            unblocked: 0,
            stable: 0,
            blocked_ones: 0,
            unstable_ones: 0,
        })
    }

    /// Returns the length of the next sampling period in seconds (T in the paper of Beard and Chamberlain).
    pub fn seconds(&self) -> f64 {
        self.length as f64 * self.latency
    }

    /// Returns the state of the search for a sampling period.
    pub fn state(&self) -> PeriodState {
        self.state
    }

    /// Records a period for which [`seconds`](Period::seconds) were requested, which took `realised` seconds, and in which the server was `blocked`
    /// or not. After the end of the search a call has no effect.
    pub fn observe(&mut self, realised: f64, blocked: bool) -> PeriodState {
        if self.state != PeriodState::Searching {
            return self.state;
        }
        let requested = self.seconds();
        // Comparisons with NaN are false, so a period whose actual length is NaN counts as unstable.
        let is_stable = (realised - requested).abs() <= self.options.deviation * requested;
        self.unblocked = if blocked { 0 } else { self.unblocked.saturating_add(1) };
        self.stable = if is_stable { self.stable.saturating_add(1) } else { 0 };
        self.blocked_ones += u32::from(blocked);
        self.unstable_ones += u32::from(!is_stable);

        let too_many = self.options.patience.saturating_mul(self.options.unblocked);
        if self.unblocked >= self.options.unblocked && self.stable >= self.options.stable {
            self.good = Some(self.length);
            self.lengthen();
        } else if self.blocked_ones >= too_many {
            self.end();
        } else if self.unstable_ones >= too_many {
            match self.good {
                Some(_) => self.end(),
                None => self.lengthen(),
            }
        }
        self.state
    }

    fn lengthen(&mut self) {
        if self.length >= self.options.longest {
            return self.end();
        }
        let longer = (self.length as f64 * (1.0 + self.options.growth)) as u64;
        self.length = longer.max(self.length + 1).min(self.options.longest);
        (self.unblocked, self.stable, self.blocked_ones, self.unstable_ones) = (0, 0, 0, 0);
    }

    fn end(&mut self) {
        self.state = match self.good {
            Some(length) => {
                self.length = length;
                PeriodState::Settled
            }
            None => PeriodState::Unusable,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: f64 = 1e-6;

    /// Runs the search for a sampling period to its end. `turn` simulates a period: it maps the period's number and
    /// requested length to the actual length, and to true if the server was blocked.
    fn search(options: PeriodOptions, mut turn: impl FnMut(u32, f64) -> (f64, bool)) -> Period {
        let mut period = Period::new(LATENCY, options).unwrap();
        for i in 0..1_000_000 {
            let (realised, blocked) = turn(i, period.seconds());
            if period.observe(realised, blocked) != PeriodState::Searching {
                return period;
            }
        }
        panic!("the search did not end: {period:?}");
    }

    #[test]
    fn longest_period_without_blocking_is_found() {
        let paper = PeriodOptions { growth: 0.0, ..PeriodOptions::default() };
        let period = search(paper, |i, requested| (requested, requested > 49.5 * LATENCY && i % 4 == 0));
        assert_eq!((period.state(), period.length), (PeriodState::Settled, 49));
    }

    #[test]
    fn periods_below_the_clock_noise_are_skipped() {
        // Every other period is 2 µs longer than requested, which is within the tolerance of five per cent only for
        // periods of at least 40 µs.
        let period = search(PeriodOptions { longest: 100, ..PeriodOptions::default() }, |i, requested| {
            (requested + if i % 2 == 0 { 2e-6 } else { 0.0 }, false)
        });
        assert_eq!((period.state(), period.length), (PeriodState::Settled, 100));
    }

    #[test]
    fn search_stops_early_if_the_server_always_blocks() {
        let mut turns = 0;
        let period = search(PeriodOptions::default(), |_, requested| {
            turns += 1;
            (requested, turns % 2 == 0)
        });
        assert_eq!((period.state(), turns), (PeriodState::Unusable, 60));
    }

    #[test]
    fn unstable_clock_is_unusable_at_the_longest_period() {
        let period = search(PeriodOptions { longest: 50, ..PeriodOptions::default() }, |_, requested| {
            (2.0 * requested, false)
        });
        assert_eq!(period.state(), PeriodState::Unusable);
        let period =
            search(PeriodOptions { longest: 2, ..PeriodOptions::default() }, |_, _| (f64::NAN, false));
        assert_eq!(period.state(), PeriodState::Unusable);
    }

    #[test]
    fn observations_after_the_search_are_ignored() {
        let mut period = search(PeriodOptions { longest: 4, ..PeriodOptions::default() }, |_, requested| {
            (requested, false)
        });
        let before = period.clone();
        assert_eq!((before.state(), before.seconds()), (PeriodState::Settled, 4.0 * LATENCY));
        for _ in 0..100 {
            assert_eq!(period.observe(1.0, true), PeriodState::Settled);
        }
        assert_eq!(period, before);
    }

    #[test]
    fn invalid_options_are_refused() {
        assert!(Period::new(0.0, PeriodOptions::default()).is_err());
        assert!(Period::new(1.0, PeriodOptions { unblocked: 0, ..PeriodOptions::default() }).is_err());
        assert!(Period::new(1.0, PeriodOptions { growth: f64::NAN, ..PeriodOptions::default() }).is_err());
    }
}
