//! What can happen in a run that somebody may want to know of afterwards.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::figure;
use super::words::{count, seconds, short};

/// Something that happened in a run. Its `Display` is one sentence in plain words.
///
/// Times of an item are seconds per item: of a stage, how long one item keeps it busy; of a mapping, how long after
/// one result the next one comes (its production time). An *epoch* is the time during which one mapping is in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Event {
    /// A run begins.
    Start {
        /// How many ranks take part.
        ranks: usize,
        /// The mapping that it begins with, in its text form.
        mapping: String,
        /// Whether the mapping is changed while the stream runs: `off`, `once` or `live`.
        balance: String,
    },
    /// The ranks and their links to rank 0 were measured.
    Probe {
        /// Speed of each rank, relative to the fastest (1).
        #[serde(with = "figure::list")]
        speeds: Vec<f64>,
        /// Bandwidth of the slowest link to rank 0, in bytes per second; `None` on one rank.
        #[serde(with = "figure::optional")]
        slowest_link: Option<f64>,
        /// Longest time that an empty message takes to or from rank 0, in seconds; `None` on one rank.
        #[serde(with = "figure::optional")]
        longest_delay: Option<f64>,
    },
    /// A stage's service time on a rank was estimated anew.
    Measured {
        /// The stage.
        stage: String,
        /// The rank that runs it.
        rank: usize,
        /// Items that the estimate stands on.
        items: u64,
        /// The estimate, in seconds per item.
        #[serde(with = "figure")]
        seconds_per_item: f64,
        /// Which estimator it comes from.
        by: String,
        /// Whether the estimate no longer moves.
        settled: bool,
    },
    /// A link was seen to be other than it was probed, by the messages that went over it.
    Link {
        /// The rank that sends over it.
        from: usize,
        /// The rank that receives.
        to: usize,
        /// The estimate of its bandwidth, in bytes per second.
        #[serde(with = "figure")]
        bandwidth: f64,
        /// The estimate of what a message takes before its first byte arrives, in seconds.
        #[serde(with = "figure")]
        setup: f64,
        /// Which estimator it comes from.
        by: String,
        /// Whether the estimate no longer moves.
        settled: bool,
    },
    /// It was considered whether another mapping is worth a change.
    Decision {
        /// The mapping in force.
        current: String,
        /// The best other one that was found, if there was one.
        candidate: Option<String>,
        /// What the mapping in force takes, in seconds per item.
        #[serde(with = "figure")]
        current_s: f64,
        /// What the other one is predicted to take, in seconds per item.
        #[serde(with = "figure::optional")]
        candidate_s: Option<f64>,
        /// Which part of the current time the other one would save: 0.2 is a fifth.
        #[serde(with = "figure")]
        gain: f64,
        /// The gain from which on a change is considered.
        #[serde(with = "figure")]
        threshold: f64,
        /// What the change would save in the time ahead, in seconds.
        #[serde(with = "figure")]
        benefit_s: f64,
        /// What the change would cost, in seconds.
        #[serde(with = "figure")]
        cost_s: f64,
        /// Whether the mapping is changed.
        acted: bool,
        /// Why, or why not, as the end of a sentence: `the gain has lasted for three periods`.
        reason: String,
    },
    /// The ranks were told of the next mapping, and to make ready for it.
    Prepare {
        /// The epoch of the next mapping.
        epoch: u32,
        /// The next mapping.
        mapping: String,
    },
    /// A stage was set up on the rank that writes this.
    WarmUp {
        /// The stage.
        stage: String,
        /// How long it took.
        #[serde(with = "figure")]
        seconds: f64,
    },
    /// The rank that writes this (rank 0: every rank) is ready for the next mapping.
    Ready {
        /// The epoch of the next mapping.
        epoch: u32,
    },
    /// The next mapping is in force from now on.
    Switch {
        /// Its epoch.
        epoch: u32,
        /// The mapping.
        mapping: String,
    },
    /// The rank that writes this gave a serial stage to another one.
    HandOver {
        /// The stage.
        stage: String,
        /// The rank that has it now.
        to: usize,
        /// The first batch that the other rank will run.
        next_batch: u64,
        /// Size of the stage's state, in bytes.
        bytes: u64,
    },
    /// The rank that writes this received a serial stage from another one.
    TakeOver {
        /// The stage.
        stage: String,
        /// The rank that had it.
        from: usize,
        /// The first batch that it will run here.
        next_batch: u64,
    },
    /// The rank that writes this passed batches on that came to it by an earlier mapping.
    Forwarded {
        /// The epoch in which it did.
        epoch: u32,
        /// How many batches.
        batches: u64,
    },
    /// What came of a change, after it has been in force for a while.
    Outcome {
        /// The epoch of the mapping that was changed to.
        epoch: u32,
        /// Before the change, in seconds per item.
        #[serde(with = "figure")]
        before_s: f64,
        /// What was predicted, in seconds per item.
        #[serde(with = "figure")]
        predicted_s: f64,
        /// What was measured after the change, in seconds per item.
        #[serde(with = "figure")]
        after_s: f64,
    },
    /// A run ended as it should.
    Finish {
        /// Items that the source gave.
        items: u64,
        /// Time from its start, in seconds.
        #[serde(with = "figure")]
        seconds: f64,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Start { ranks, mapping, balance } => {
                write!(
                    f,
                    "The run starts on {} with the mapping `{mapping}`; ",
                    count(*ranks as u64, "rank")
                )?;
                match balance.as_str() {
                    "off" => f.write_str("it stays to the end."),
                    "once" => f.write_str("it is changed once at most."),
                    _ => f.write_str("it is changed when that pays."),
                }
            }
            Event::Probe { speeds, slowest_link, longest_delay } => {
                let speeds: Vec<String> = speeds.iter().map(|s| format!("{s:.2}")).collect();
                write!(f, "The ranks' speeds, relative to the fastest, are {}", speeds.join(", "))?;
                if let Some(bandwidth) = slowest_link {
                    write!(f, "; the slowest link to rank 0 carries {}B/s", short(*bandwidth))?;
                }
                if let Some(delay) = longest_delay {
                    write!(f, "; the longest delay is {}", seconds(*delay))?;
                }
                f.write_str(".")
            }
            Event::Measured { stage, rank, items, seconds_per_item, by, settled } => write!(
                f,
                "Stage {stage} takes {} an item on rank {rank}, after {} by {by}{}.",
                seconds(*seconds_per_item),
                count(*items, "item"),
                if *settled { "" } else { ", not settled yet" }
            ),
            Event::Link { from, to, bandwidth, setup, by, settled } => write!(
                f,
                "The link from rank {from} to rank {to} carries {}B/s after a delay of {}, by {by}{}.",
                short(*bandwidth),
                seconds(*setup),
                if *settled { "" } else { ", not settled yet" }
            ),
            Event::Decision { .. } => self.decision(f),
            Event::Prepare { epoch, mapping } => {
                write!(f, "The ranks make ready for mapping number {epoch}, `{mapping}`.")
            }
            Event::WarmUp { stage, seconds: s } => write!(f, "Stage {stage} was set up in {}.", seconds(*s)),
            Event::Ready { epoch } => write!(f, "Ready for mapping number {epoch}."),
            Event::Switch { epoch, mapping } => {
                write!(f, "Mapping number {epoch}, `{mapping}`, is in force.")
            }
            Event::HandOver { stage, to, next_batch, bytes } => write!(
                f,
                "Stage {stage} was handed over to rank {to}, which goes on with batch {next_batch}; its state has {}.",
                count(*bytes, "byte")
            ),
            Event::TakeOver { stage, from, next_batch } => {
                write!(
                    f,
                    "Stage {stage} was taken over from rank {from} and goes on with batch {next_batch}."
                )
            }
            Event::Forwarded { epoch, batches } => write!(
                f,
                "{} that came by an earlier mapping went on by mapping number {epoch}.",
                count(*batches, "batch")
            ),
            Event::Outcome { epoch, before_s, predicted_s, after_s } => write!(
                f,
                "Mapping number {epoch} takes {} an item; {} was predicted, and the one before took {}.",
                seconds(*after_s),
                seconds(*predicted_s),
                seconds(*before_s)
            ),
            Event::Finish { items, seconds: s } => {
                write!(f, "The run ends after {} and {}.", count(*items, "item"), seconds(*s))
            }
        }
    }
}

impl Event {
    /// A decision as a sentence.
    fn decision(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event::Decision {
            current,
            candidate,
            current_s,
            candidate_s,
            gain,
            threshold,
            benefit_s,
            cost_s,
            acted,
            reason,
        } = self
        else {
            return Ok(());
        };
        let verb = if *acted { "is changed" } else { "stays" };
        write!(f, "The mapping {verb}, because {reason}: `{current}` takes {} an item", seconds(*current_s))?;
        let Some(candidate) = candidate else { return f.write_str(", and no better one was found.") };
        write!(f, ", `{candidate}` would take ")?;
        match candidate_s {
            Some(s) => write!(f, "{}", seconds(*s))?,
            None => f.write_str("an unknown time")?,
        }
        write!(
            f,
            "; that is a gain of {:.1} % (at least {:.1} % is wanted), which would save {} and cost {}.",
            gain * 100.0,
            threshold * 100.0,
            seconds(*benefit_s),
            seconds(*cost_s)
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One of each.
    pub(in super::super) fn samples() -> Vec<Event> {
        let mapping = || "read@0 | scale@1,2".to_string();
        let stage = || "scale".to_string();
        let decision = Event::Decision {
            current: mapping(),
            candidate: Some("read@0 | scale@1".to_string()),
            current_s: 0.25,
            candidate_s: Some(0.125),
            gain: 0.5,
            threshold: 0.1,
            benefit_s: 12.0,
            cost_s: 1.5,
            acted: true,
            reason: "the gain has lasted for three periods".to_string(),
        };
        let none = Event::Decision {
            current: mapping(),
            candidate: None,
            current_s: 0.25,
            candidate_s: None,
            gain: f64::NEG_INFINITY,
            threshold: 0.1,
            benefit_s: 0.0,
            cost_s: f64::INFINITY,
            acted: false,
            reason: "the time ahead is not known".to_string(),
        };
        vec![
            Event::Start { ranks: 3, mapping: mapping(), balance: "live".to_string() },
            Event::Probe { speeds: vec![1.0, 0.5], slowest_link: Some(1.25e8), longest_delay: Some(4e-5) },
            Event::Probe { speeds: vec![1.0], slowest_link: None, longest_delay: None },
            Event::Measured {
                stage: stage(),
                rank: 1,
                items: 40,
                seconds_per_item: 2e-3,
                by: "trimmed mean".to_string(),
                settled: false,
            },
            Event::Link {
                from: 1,
                to: 2,
                bandwidth: f64::INFINITY,
                setup: 25e-6,
                by: "the envelope".to_string(),
                settled: true,
            },
            decision,
            none,
            Event::Prepare { epoch: 2, mapping: mapping() },
            Event::WarmUp { stage: stage(), seconds: 0.5 },
            Event::Ready { epoch: 2 },
            Event::Switch { epoch: 2, mapping: mapping() },
            Event::HandOver { stage: stage(), to: 2, next_batch: 17, bytes: 1 },
            Event::TakeOver { stage: stage(), from: 1, next_batch: 17 },
            Event::Forwarded { epoch: 2, batches: 1 },
            Event::Outcome { epoch: 2, before_s: 0.25, predicted_s: 0.125, after_s: 0.13 },
            Event::Finish { items: 1000, seconds: 250.0 },
        ]
    }

    #[test]
    fn every_event_is_one_sentence() {
        for event in samples() {
            let text = event.to_string();
            assert!(text.ends_with('.') && !text.contains('\n'), "{text}");
            assert!(text.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit()), "{text}");
        }
    }

    #[test]
    fn every_event_comes_back_from_its_line_as_it_was() {
        for event in samples() {
            let line = serde_json::to_string(&event).unwrap();
            let back: Event = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
            assert_eq!(back, event, "{line}");
        }
    }

    #[test]
    fn a_decision_says_what_it_stands_on() {
        let texts: Vec<String> = samples().iter().map(ToString::to_string).collect();
        assert_eq!(
            texts[5],
            "The mapping is changed, because the gain has lasted for three periods: `read@0 | scale@1,2` takes \
             250.000 ms an item, `read@0 | scale@1` would take 125.000 ms; that is a gain of 50.0 % (at least 10.0 % \
             is wanted), which would save 12.000 s and cost 1.500 s."
        );
        assert!(
            texts[6].starts_with("The mapping stays, because the time ahead is not known: "),
            "{}",
            texts[6]
        );
    }
}
