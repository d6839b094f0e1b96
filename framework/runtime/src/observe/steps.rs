//! What a rank did, step by step: jobs of user code, and messages by number. From the steps of all ranks it can be replayed how long a run
//! would have taken if messages took no time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::words::{count, seconds};

/// What a rank did, step by step, in a part of its time. There is a bound to how many steps are written of a long run, so that some parts
/// may be missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// How long the part is whose steps these are, in seconds. It ends when this is written, or, where it is cut, with the last of them.
    pub seconds: f64,
    /// The steps, in order. In a line they are words: `t` with the time from the next steps to the end, `b` for a job that begins, `e` for one
    /// that has ended, `w` for work, all times in tenths of a microsecond; `s2.17` for message 17 to rank 2, `r2.17` for that from rank 2.
    #[serde(with = "words")]
    pub steps: Vec<TimedStep>,
    /// Whether there were more, which are not written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

/// A step, and when it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedStep {
    /// How long before the event that tells of it: to the last look at the clock before it.
    pub before: Duration,
    /// What was done.
    pub step: Step,
}

/// What a rank did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It began with a job of user code. What comes until that has ended does not wait for it, nor it for that.
    Begins,
    /// Of the jobs that had begun the first one has ended, and took this long.
    Ended(Duration),
    /// Jobs with nothing between took this long.
    Worked(Duration),
    /// It sent a message.
    Sent {
        /// The rank that it is for.
        to: usize,
        /// Which of the messages to that rank it is.
        number: u64,
    },
    /// It took a message in.
    Received {
        /// The rank that sent it.
        from: usize,
        /// Which of the messages from that rank it is.
        number: u64,
    },
}

/// Nanoseconds of the unit in which times are written: more figures would only make lines longer.
const TICK: u32 = 100;

fn ticks(time: Duration) -> u128 {
    time.as_nanos() / u128::from(TICK)
}

fn time(ticks: &str) -> Option<Duration> {
    ticks.parse().ok().and_then(|ticks: u64| ticks.checked_mul(TICK.into())).map(Duration::from_nanos)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Begins => f.write_str("b"),
            Step::Ended(took) => write!(f, "e{}", ticks(*took)),
            Step::Worked(took) => write!(f, "w{}", ticks(*took)),
            Step::Sent { to, number } => write!(f, "s{to}.{number}"),
            Step::Received { from, number } => write!(f, "r{from}.{number}"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let message =
            |rest: &str| rest.split_once('.').and_then(|(r, n)| Some((r.parse().ok()?, n.parse().ok()?)));
        let step = match word.split_at_checked(1) {
            Some(("b", "")) => Some(Step::Begins),
            Some(("e", took)) => time(took).map(Step::Ended),
            Some(("w", took)) => time(took).map(Step::Worked),
            Some(("s", rest)) => message(rest).map(|(to, number)| Step::Sent { to, number }),
            Some(("r", rest)) => message(rest).map(|(from, number)| Step::Received { from, number }),
            _ => None,
        };
        step.ok_or_else(|| {
            format!("`{word}` is no step, expected one as in `b`, `e250`, `w250`, `s2.17` or `r2.17`")
        })
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = if self.is_cut { ", of which the last are not kept" } else { "" };
        let steps = count(self.steps.len() as u64, "step");
        write!(f, "In {} the rank took {steps} of jobs and messages{cut}.", seconds(self.seconds))
    }
}

/// Steps as words.
mod words {
    use super::{Deserialize, Deserializer, Duration, Serializer, TimedStep, ticks, time};

    pub(super) fn serialize<S: Serializer>(steps: &[TimedStep], to: S) -> Result<S::Ok, S::Error> {
        let mut text = String::new();
        let mut last = None;
        for TimedStep { before, step } in steps {
            let before = ticks(*before);
            if last != Some(before) {
                last = Some(before);
                text += &format!("t{before} ");
            }
            text += &format!("{step} ");
        }
        to.serialize_str(text.trim_end())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<TimedStep>, D::Error> {
        let text = String::deserialize(from)?;
        let (mut before, mut steps) = (Duration::ZERO, Vec::new());
        for word in text.split_ascii_whitespace() {
            match word.strip_prefix('t') {
                Some(rest) => {
                    let wrong = || {
                        serde::de::Error::custom(format!("`{word}` is no time, expected one as in `t250`"))
                    };
                    before = time(rest).ok_or_else(wrong)?;
                }
                None => {
                    let step = word.parse().map_err(serde::de::Error::custom)?;
                    steps.push(TimedStep { before, step });
                }
            }
        }
        Ok(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_written_as_words_and_read_again() {
        let at = |before, step| TimedStep { before: Duration::from_micros(before), step };
        let took = Duration::from_nanos(1700);
        let steps = vec![
            at(30, Step::Received { from: 2, number: 17 }),
            at(30, Step::Begins),
            at(25, Step::Sent { to: 10, number: 0 }),
            at(0, Step::Ended(took)),
            at(0, Step::Worked(2 * took)),
        ];
        let steps = Steps { seconds: 0.5, steps, is_cut: false };
        let line = serde_json::to_string(&steps).unwrap();
        assert_eq!(line, r#"{"seconds":0.5,"steps":"t300 r2.17 b t250 s10.0 t0 e17 w34"}"#);
        assert_eq!(serde_json::from_str::<Steps>(&line).unwrap(), steps);
        assert_eq!(steps.to_string(), "In 500.000 ms the rank took 5 steps of jobs and messages.");
    }

    #[test]
    fn what_is_no_step_is_named() {
        for (word, expected) in [
            ("x", "`x` is no step, expected"),
            ("r2", "`r2` is no step"),
            ("t1x", "`t1x` is no time"),
            ("é", "`é` is no step"),
        ] {
            let line = format!(r#"{{"seconds":1.0,"steps":"b {word}"}}"#);
            let error = serde_json::from_str::<Steps>(&line).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
