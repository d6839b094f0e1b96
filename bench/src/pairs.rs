//! Alternatives that take turns.
//!
//! A machine's speed drifts within minutes, so what is compared is run A B C, A B C, …, and ratios are taken
//! within a round.

use std::time::{Duration, Instant};

use crate::{
    Outcome,
    stats::{median_interval, paired_ratios},
    verdict::Interval,
};

/// Between two lines of progress at least.
const TELL: Duration = Duration::from_secs(5);

/// One of the alternatives: a name and what gives one sample of it.
#[allow(missing_debug_implementations, reason = "it holds a closure")]
pub struct Contestant<'a> {
    name: String,
    sample: Box<dyn FnMut() -> Outcome<f64> + 'a>,
}

impl<'a> Contestant<'a> {
    /// An alternative whose samples `sample` returns: seconds, items per second, bytes.
    pub fn new(name: impl Into<String>, sample: impl FnMut() -> Outcome<f64> + 'a) -> Self {
        Contestant { name: name.into(), sample: Box::new(sample) }
    }

    /// An alternative whose samples are the seconds that `work` takes.
    pub fn timed(name: impl Into<String>, mut work: impl FnMut() -> Outcome + 'a) -> Self {
        Contestant::new(name, move || {
            let start = Instant::now();
            work()?;
            Ok(start.elapsed().as_secs_f64())
        })
    }
}

/// The samples of all alternatives, round by round.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds {
    names: Vec<String>,
    samples: Vec<Vec<f64>>,
}

/// Runs every contestant once in each round, always in the same order. One round before the first warms up
/// and does not count. How far it has come, and what came of the round, is told on standard error every few seconds.
///
/// # Errors
/// The first error of a contestant, with its name.
pub fn round_robin(rounds: usize, mut contestants: Vec<Contestant<'_>>) -> Outcome<Rounds> {
    let mut samples = vec![Vec::with_capacity(rounds); contestants.len()];
    let (start, mut told) = (Instant::now(), Instant::now());
    for round in 0..=rounds {
        for (contestant, samples) in contestants.iter_mut().zip(&mut samples) {
            let sample = (contestant.sample)().map_err(|e| format!("{}: {e}", contestant.name))?;
            if round > 0 {
                samples.push(sample);
            }
        }
        if told.elapsed() >= TELL && round < rounds {
            told = Instant::now();
            let spent = start.elapsed().as_secs_f64();
            let left = spent * (rounds - round) as f64 / (round + 1) as f64;
            let of = |(one, samples): (&Contestant<'_>, &Vec<f64>)| {
                samples.last().map(|sample| format!("{} {sample:.4}", one.name))
            };
            let news: Vec<String> = contestants.iter().zip(&samples).filter_map(of).collect();
            eprintln!(
                "   round {round} of {rounds}, {spent:.0} s, about {left:.0} s left: {}",
                if news.is_empty() { "warm".into() } else { news.join(", ") }
            );
        }
    }
    Ok(Rounds { names: contestants.into_iter().map(|contestant| contestant.name).collect(), samples })
}

impl Rounds {
    /// Names and samples, in the order in which they ran.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[f64])> {
        self.names.iter().map(String::as_str).zip(self.samples.iter().map(Vec::as_slice))
    }

    /// The samples of one contestant; none if it did not take part.
    pub fn of(&self, name: &str) -> Option<&[f64]> {
        self.iter().find(|(known, _)| *known == name).map(|(_, samples)| samples)
    }

    /// The median ratio of two contestants over the rounds, with its interval. `None` if one did not take part.
    pub fn ratio(&self, numerator: &str, denominator: &str) -> Option<Interval> {
        Some(median_interval(&paired_ratios(self.of(numerator)?, self.of(denominator)?)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn contestants_take_turns_and_the_first_round_does_not_count() {
        let order = RefCell::new(String::new());
        let say = |letter: char, value: f64| {
            let order = &order;
            Contestant::new(letter, move || {
                order.borrow_mut().push(letter);
                Ok(value)
            })
        };
        let rounds = round_robin(7, vec![say('a', 3.0), say('b', 2.0)]).unwrap();
        assert_eq!(*order.borrow(), "ab".repeat(8));
        assert_eq!(rounds.of("a").unwrap().len(), 7);
        assert_eq!(rounds.ratio("a", "b"), Some(Interval::exact(1.5)));
        assert_eq!(rounds.ratio("a", "c"), None);
    }

    #[test]
    fn an_error_names_the_contestant() {
        let error = round_robin(3, vec![Contestant::timed("broken", || Err("no".into()))]).unwrap_err();
        assert_eq!(error.to_string(), "broken: no");
    }
}
