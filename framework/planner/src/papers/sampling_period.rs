//! How long a sampling period should be.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::range::{self, POSITIVE};

/// How a [`Period`] is looked for. The paper's k, j and ε are lost in the text that we have; the values are ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PeriodOptions {
    /// k: periods in a row without blocking that a length must show.
    pub unblocked: u32,
    /// j: periods in a row that must have had the length asked for.
    pub stable: u32,
    /// ε: a period had the length asked for if it is within this part of it.
    pub deviation: f64,
    /// Bad periods, in multiples of k, after which a length is given up.
    pub patience: u32,
    /// A length is tried that is longer by this part, and by one clock latency at least. 0 is the paper's step.
    pub growth: f64,
    /// Longest length, in clock latencies.
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

/// How far the search for a period is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeriodState {
    /// Another length is being tried.
    Searching,
    /// The widest usable length was found.
    Settled,
    /// No length is both stable and free of blocking: the rate cannot be monitored.
    Unusable,
}

/// Finds the widest sampling period that is stable and in which the server is not blocked.
///
/// Longer periods smooth the system's noise out, shorter ones are more likely to pass without blocking. The search
/// starts at the clock's latency (the least time between two readings) and lengthens the period, by multiples of it,
/// while the last k periods passed without blocking and the last j had the length asked for. A length with too many
/// bad periods ends the search with the last good one. Without one: periods that are only unstable are lengthened
/// further, since the clock's noise weighs less in them; blocking only becomes worse, and makes the server unusable.
///
/// ```
/// use armature_planner::papers::{Period, PeriodOptions, PeriodState};
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
    /// The length being tried, and the widest good one, in latencies.
    length: u64,
    good: Option<u64>,
    state: PeriodState,
    /// Good periods in a row at this length.
    unblocked: u32,
    stable: u32,
    /// Bad periods at this length.
    blocked_ones: u32,
    unstable_ones: u32,
}

impl Period {
    /// A search that begins at `latency`: the least seconds between two readings of the clock.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] if the latency is not from 1e-60 to 1e60 s, or an option is 0 or no number that must not be.
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

    /// T: the seconds for which to sample next.
    pub fn seconds(&self) -> f64 {
        self.length as f64 * self.latency
    }

    /// How far the search is.
    pub fn state(&self) -> PeriodState {
        self.state
    }

    /// A period of [`seconds`](Period::seconds) was asked for, took `realised` seconds, and the server was `blocked`
    /// in it or not. After the search has ended this changes nothing.
    pub fn observe(&mut self, realised: f64, blocked: bool) -> PeriodState {
        if self.state != PeriodState::Searching {
            return self.state;
        }
        let asked = self.seconds();
        // Written so that what is no number is not stable.
        let is_stable = (realised - asked).abs() <= self.options.deviation * asked;
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

    /// Searches with what `period` says of each turn: (realised, blocked).
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
    fn the_widest_length_without_blocking_is_found() {
        let paper = PeriodOptions { growth: 0.0, ..PeriodOptions::default() };
        let period = search(paper, |i, asked| (asked, asked > 49.5 * LATENCY && i % 4 == 0));
        assert_eq!((period.state(), period.length), (PeriodState::Settled, 49));
    }

    #[test]
    fn lengths_below_the_clocks_noise_are_passed_over() {
        // Every other period is 2 µs late: within five per cent only from 40 µs on.
        let period = search(PeriodOptions { longest: 100, ..PeriodOptions::default() }, |i, asked| {
            (asked + if i % 2 == 0 { 2e-6 } else { 0.0 }, false)
        });
        assert_eq!((period.state(), period.length), (PeriodState::Settled, 100));
    }

    #[test]
    fn a_server_that_always_blocks_is_given_up_soon() {
        let mut turns = 0;
        let period = search(PeriodOptions::default(), |_, asked| {
            turns += 1;
            (asked, turns % 2 == 0)
        });
        assert_eq!((period.state(), turns), (PeriodState::Unusable, 60));
    }

    #[test]
    fn a_clock_that_is_never_stable_is_given_up_at_the_longest() {
        let period = search(PeriodOptions { longest: 50, ..PeriodOptions::default() }, |_, asked| {
            (2.0 * asked, false)
        });
        assert_eq!(period.state(), PeriodState::Unusable);
        let period =
            search(PeriodOptions { longest: 2, ..PeriodOptions::default() }, |_, _| (f64::NAN, false));
        assert_eq!(period.state(), PeriodState::Unusable);
    }

    #[test]
    fn what_comes_after_the_end_changes_nothing() {
        let mut period =
            search(PeriodOptions { longest: 4, ..PeriodOptions::default() }, |_, asked| (asked, false));
        let before = period.clone();
        assert_eq!((before.state(), before.seconds()), (PeriodState::Settled, 4.0 * LATENCY));
        for _ in 0..100 {
            assert_eq!(period.observe(1.0, true), PeriodState::Settled);
        }
        assert_eq!(period, before);
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        assert!(Period::new(0.0, PeriodOptions::default()).is_err());
        assert!(Period::new(1.0, PeriodOptions { unblocked: 0, ..PeriodOptions::default() }).is_err());
        assert!(Period::new(1.0, PeriodOptions { growth: f64::NAN, ..PeriodOptions::default() }).is_err());
    }
}
