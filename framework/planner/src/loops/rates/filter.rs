//! Rates without their short fluctuations.

use serde::{Deserialize, Serialize};

use super::interaction::SHORTEST;
use crate::error::Result;
use crate::loops::invalid;
use crate::range;

/// Largest rate: the largest number of units in the shortest time that tells a rate.
const MOST_RATE: f64 = range::LARGEST / SHORTEST;

/// How the measured rates of a rank are smoothed: `r' = (1 − h) r + h r'_before`, (16). The first is taken as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Smoothing {
    /// Not at all.
    Raw,
    /// With a fixed part h of history, from 0 to 1; the paper's *simple filter* has 0.8.
    Fixed(f64),
    /// With a part that depends on how long rates have risen or fallen.
    #[default]
    Trend,
    /// The same by a table of one's own.
    Table(TrendTable),
}

/// A state of a [`TrendTable`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trend {
    /// What to call it.
    pub name: String,
    /// The state after a rate that is not lower than the smoothed one before.
    pub rise: usize,
    /// The state after a lower one.
    pub fall: usize,
    /// The part h of history in this state, from 0 to 1.
    pub history: f64,
}

/// A machine whose state says how much a new rate counts (Table 1 of the paper). A rate that is not lower than the
/// smoothed one before is a rise, any other a fall; it leads to the next state, whose h holds for this rate. State 0 is
/// that of the first rate.
///
/// A falling rate is trusted sooner: a rank that has too much lets all others wait, one that has too little only
/// itself.
///
/// The paper's Table 1 could not be had. The [default](TrendTable::default) is a reconstruction with the features that
/// its text describes: the state is the length of the present trend, single odd rates change nothing, a fall is
/// followed by half at the second rate and by 90 % at the third, a rise by 20 % at the third and 60 % at the fourth.
///
/// | state | after a rise | after a fall | h |
/// |---|---|---|---|
/// | `U1` (first) | `U2` | `D1` | 1.0 |
/// | `U2` | `U3` | `D1` | 1.0 |
/// | `U3` | `U4` | `D1` | 0.8 |
/// | `U4` | `U4` | `D1` | 0.5 |
/// | `D1` | `U1` | `D2` | 1.0 |
/// | `D2` | `U1` | `D3` | 0.5 |
/// | `D3` | `U1` | `D3` | 0.2 |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrendTable {
    /// The states, numbered from 0.
    pub states: Vec<Trend>,
}

/// The default table: name, state after a rise, state after a fall, h.
const DEFAULT: [(&str, usize, usize, f64); 7] = [
    ("U1", 1, 4, 1.0),
    ("U2", 2, 4, 1.0),
    ("U3", 3, 4, 0.8),
    ("U4", 3, 4, 0.5),
    ("D1", 0, 5, 1.0),
    ("D2", 0, 6, 0.5),
    ("D3", 0, 6, 0.2),
];

impl Default for TrendTable {
    fn default() -> Self {
        let state = |&(name, rise, fall, history): &(&str, usize, usize, f64)| Trend {
            name: name.to_owned(),
            rise,
            fall,
            history,
        };
        TrendTable { states: DEFAULT.iter().map(state).collect() }
    }
}

impl Smoothing {
    /// Checks that every number can be used.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`](crate::ErrorKind::Loop) if a part of history is not from 0 to 1, a table has no states, or
    /// leads to one that it does not have.
    pub fn validate(&self) -> Result<()> {
        let is_part = |h: f64| (0.0..=1.0).contains(&h);
        match self {
            Smoothing::Raw | Smoothing::Trend => Ok(()),
            Smoothing::Fixed(h) if is_part(*h) => Ok(()),
            Smoothing::Fixed(h) => invalid(format!("the part of history must be from 0 to 1, but is {h}")),
            Smoothing::Table(table) if table.states.is_empty() => {
                invalid("a table for smoothing needs at least one state".into())
            }
            Smoothing::Table(table) => {
                for Trend { name, rise, fall, history } in &table.states {
                    let states = table.states.len();
                    if *rise.max(fall) >= states {
                        return invalid(format!(
                            "state {name} leads to state {}, but there are {states}, numbered from 0",
                            rise.max(fall)
                        ));
                    }
                    if !is_part(*history) {
                        return invalid(format!(
                            "the part of history of state {name} must be from 0 to 1, but is {history}"
                        ));
                    }
                }
                Ok(())
            }
        }
    }

    /// Next state and h for a rate that is, or is not, lower than the one before. A state that the table does not
    /// have counts as its first.
    fn step(&self, state: usize, is_rise: bool) -> (usize, f64) {
        match self {
            Smoothing::Raw => (0, 0.0),
            Smoothing::Fixed(h) => (0, *h),
            Smoothing::Trend => {
                let (_, rise, fall, _) = DEFAULT[state % DEFAULT.len()];
                let next = if is_rise { rise } else { fall };
                (next, DEFAULT[next].3)
            }
            Smoothing::Table(TrendTable { states }) => {
                let next = states.get(state).map_or(0, |s| if is_rise { s.rise } else { s.fall });
                (next, states.get(next).map_or(0.0, |s| s.history))
            }
        }
    }
}

/// The smoothed rate of one rank.
///
/// ```
/// use armature_planner::loops::{RateFilter, Smoothing};
///
/// let mut filter = RateFilter::default();
/// let smoothed: Vec<f64> =
///     [100.0, 50.0, 100.0, 50.0, 50.0, 50.0].map(|raw| filter.add(&Smoothing::Trend, raw)).to_vec();
/// // One odd rate changes nothing; after three low ones most of the fall is believed.
/// assert_eq!(smoothed, [100.0, 100.0, 100.0, 100.0, 75.0, 55.0]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateFilter {
    /// State of the table, and the smoothed rate.
    seen: Option<(usize, f64)>,
}

impl RateFilter {
    /// Begins with a rate that is a mean of several, as with the first.
    pub(in crate::loops) fn begin(rate: f64) -> Self {
        RateFilter { seen: Some((0, rate)) }
    }

    /// The smoothed rate, if there was any.
    pub fn rate(&self) -> Option<f64> {
        self.seen.map(|(_, rate)| rate)
    }

    /// The state of the table, if there was any rate; always 0 without a table.
    pub fn state(&self) -> Option<usize> {
        self.seen.map(|(state, _)| state)
    }

    /// One more measured rate; returns the smoothed one. What is negative, above 1e69 or no number is passed over; a rate that
    /// is not known is 0 then.
    pub fn add(&mut self, smoothing: &Smoothing, raw: f64) -> f64 {
        if !(0.0..=MOST_RATE).contains(&raw) {
            return self.rate().unwrap_or(0.0);
        }
        let (state, rate) = match self.seen {
            None => (0, raw),
            Some((state, before)) => {
                let (next, h) = smoothing.step(state, raw >= before);
                (next, (1.0 - h) * raw + h * before)
            }
        };
        self.seen = Some((state, rate));
        rate
    }
}
