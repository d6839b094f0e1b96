//! Smoothing of the measured rates of ranks.

use serde::{Deserialize, Serialize};

use super::interaction::SHORTEST;
use crate::error::Result;
use crate::loops::invalid;
use crate::range;

/// Largest accepted rate: the largest number of units (loop iterations) in the shortest time from which a rate is computed.
const MOST_RATE: f64 = range::LARGEST / SHORTEST;

/// Smoothing of the measured rates r of a rank: the smoothed rate is `r' = (1 − h) r + h r'_before`, with the weight h of the history (the previous
/// smoothed rate; equation 16 of Siegell and Steenkiste 1997). The first rate is not smoothed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Smoothing {
    /// No smoothing: each measured rate is used as it is.
    Raw,
    /// A fixed weight of the history (the previous smoothed rate), from 0 to 1; the *simple filter* of the paper of Siegell and Steenkiste has 0.8.
    Fixed(f64),
    /// A weight of the previous smoothed rate that depends on how long rates have risen or fallen, by the default [`TrendTable`].
    #[default]
    Trend,
    /// A weight of the previous smoothed rate that depends on how long rates have risen or fallen, by the given table.
    Table(TrendTable),
}

/// State of a [`TrendTable`]: a weight of the history, and the next states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trend {
    /// Name of the state, such as `U1`.
    pub name: String,
    /// Number of the next state after a rate that is not lower than the previous smoothed rate.
    pub rise: usize,
    /// Number of the next state after a rate that is lower than the previous smoothed rate.
    pub fall: usize,
    /// Weight of the previous smoothed rate in this state (h in the paper of Siegell and Steenkiste), from 0 to 1.
    pub history: f64,
}

/// State machine that determines the weight h of the history for a new rate (Table 1 of the paper of Siegell and Steenkiste). A rate that is not
/// lower than the previous smoothed rate is a rise, any other rate a fall. The rise or fall leads to the next state, whose h applies to this rate.
/// State 0 is that of the first rate.
///
/// A fall has an effect sooner than a rise, because a rank with too many units (loop iterations) delays all others, and a rank with too few units
/// only itself.
///
/// Table 1 of the paper was not available. The [default](TrendTable::default) is a reconstruction with the features that the text of the paper
/// describes: the state is the length of the current trend, and a single low rate has no effect. In a lasting fall, the smoothed rate has fallen by
/// half of the difference at the second rate and by 90 % at the third. In a lasting rise that follows a fall, it has risen by 20 % at the third rate
/// and by 60 % at the fourth.
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
    /// States of the trend table, numbered from 0.
    pub states: Vec<Trend>,
}

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
    /// Checks that every weight and every state number is valid.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`](crate::ErrorKind::Loop) if a weight of the history is not from 0 to 1, or a table has no states or leads to a state that
    /// does not exist.
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

    /// Returns the next state after a rise or a fall of a rate, and the weight of the previous smoothed rate in this state. If a custom table has no
    /// state `state`, the next state is the first one.
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

/// Smoothed rate of one rank.
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
    seen: Option<(usize, f64)>,
}

impl RateFilter {
    pub(in crate::loops) fn begin(rate: f64) -> Self {
        RateFilter { seen: Some((0, rate)) }
    }

    /// Returns the smoothed rate; `None` before the first rate.
    pub fn rate(&self) -> Option<f64> {
        self.seen.map(|(_, rate)| rate)
    }

    /// Returns the number of the current state of the trend table, or 0 if smoothing uses no table; `None` before the first rate.
    pub fn state(&self) -> Option<usize> {
        self.seen.map(|(state, _)| state)
    }

    /// Adds a measured rate and returns the smoothed one. Rates that are negative, above 1e69 or NaN are ignored; the result is then 0 if there was
    /// no earlier rate.
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
