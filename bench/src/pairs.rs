//! Alternatives that are measured in turn.
//!
//! The speed of a machine drifts within minutes, so alternatives run in the order A B C, A B C, …, and ratios are
//! taken within a round.

use std::time::{Duration, Instant};

use crate::{
    RunResult,
    stats::{median_interval, paired_ratios},
    verdict::Interval,
};

const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Alternative to be measured: a name and a function that measures one sample.
#[allow(missing_debug_implementations, reason = "it holds a closure")]
pub struct Contestant<'a> {
    name: String,
    sample: Box<dyn FnMut() -> RunResult<f64> + 'a>,
}

impl<'a> Contestant<'a> {
    /// Creates an alternative; `sample` measures and returns one sample in a unit of its choice (seconds, items per
    /// second, bytes).
    pub fn new(name: impl Into<String>, sample: impl FnMut() -> RunResult<f64> + 'a) -> Self {
        Contestant { name: name.into(), sample: Box::new(sample) }
    }

    /// Creates an alternative whose samples are the seconds that `work` takes.
    pub fn timed(name: impl Into<String>, mut work: impl FnMut() -> RunResult + 'a) -> Self {
        Contestant::new(name, move || {
            let start = Instant::now();
            work()?;
            Ok(start.elapsed().as_secs_f64())
        })
    }
}

/// Samples of all alternatives, by round.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds {
    names: Vec<String>,
    samples: Vec<Vec<f64>>,
}

/// Runs every alternative once in each round, always in the same order. One additional round before the first is a
/// warm-up and does not count. The progress and the results of the last round are printed to standard error every few
/// seconds.
///
/// # Errors
/// The first error of a contestant, with its name.
pub fn round_robin(rounds: usize, mut contestants: Vec<Contestant<'_>>) -> RunResult<Rounds> {
    let mut samples = vec![Vec::with_capacity(rounds); contestants.len()];
    let (start, mut last_progress) = (Instant::now(), Instant::now());
    for round in 0..=rounds {
        for (contestant, samples) in contestants.iter_mut().zip(&mut samples) {
            let sample = (contestant.sample)().map_err(|e| format!("{}: {e}", contestant.name))?;
            if round > 0 {
                samples.push(sample);
            }
        }
        if last_progress.elapsed() >= PROGRESS_INTERVAL && round < rounds {
            last_progress = Instant::now();
            let spent = start.elapsed().as_secs_f64();
            let remaining = spent * (rounds - round) as f64 / (round + 1) as f64;
            let of = |(one, samples): (&Contestant<'_>, &Vec<f64>)| {
                samples.last().map(|sample| format!("{} {sample:.4}", one.name))
            };
            let latest: Vec<String> = contestants.iter().zip(&samples).filter_map(of).collect();
            eprintln!(
                "   round {round} of {rounds}, {spent:.0} s, about {remaining:.0} s left: {}",
                if latest.is_empty() { "warm".into() } else { latest.join(", ") }
            );
        }
    }
    Ok(Rounds { names: contestants.into_iter().map(|contestant| contestant.name).collect(), samples })
}

impl Rounds {
    /// Returns the name and the samples of each alternative, in the order of measurement.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[f64])> {
        self.names.iter().map(String::as_str).zip(self.samples.iter().map(Vec::as_slice))
    }

    /// Returns the samples of the alternative `name`, or `None` if it was not measured.
    pub fn of(&self, name: &str) -> Option<&[f64]> {
        self.iter().find(|(known, _)| *known == name).map(|(_, samples)| samples)
    }

    /// Returns the ratio of the samples of two alternatives: the median over the rounds with its confidence interval,
    /// or `None` if one of the alternatives was not measured.
    pub fn ratio(&self, numerator: &str, denominator: &str) -> Option<Interval> {
        Some(median_interval(&paired_ratios(self.of(numerator)?, self.of(denominator)?)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn contestants_alternate_and_the_warm_up_round_is_excluded() {
        let order = RefCell::new(String::new());
        let contestant = |letter: char, value: f64| {
            let order = &order;
            Contestant::new(letter, move || {
                order.borrow_mut().push(letter);
                Ok(value)
            })
        };
        let rounds = round_robin(7, vec![contestant('a', 3.0), contestant('b', 2.0)]).unwrap();
        assert_eq!(*order.borrow(), "ab".repeat(8));
        assert_eq!(rounds.of("a").unwrap().len(), 7);
        assert_eq!(rounds.ratio("a", "b"), Some(Interval::exact(1.5)));
        assert_eq!(rounds.ratio("a", "c"), None);
    }

    #[test]
    fn error_names_the_contestant() {
        let error = round_robin(3, vec![Contestant::timed("broken", || Err("no".into()))]).unwrap_err();
        assert_eq!(error.to_string(), "broken: no");
    }
}
