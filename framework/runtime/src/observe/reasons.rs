//! Text of the events that state reasons for a balancing decision of rank 0, such as a new mapping of stages or another chunk policy of a farm.

use std::borrow::Cow;
use std::fmt;

use super::event::Event;
use super::number_format::{NAMED, by_rank, count, percent, seconds};

impl Event {
    pub(super) fn chunks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event::Chunks {
            by,
            before,
            left,
            workers,
            mean_s,
            deviation_s,
            block,
            message_s,
            predicted_s,
            before_s,
            compared,
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "Chunking is now `{by}`, because it is the fastest of {compared} for the {} left on {}: {} are predicted",
            count(*left, "task"),
            count(*workers as u64, "worker"),
            seconds(*predicted_s)
        )?;
        if let Some(before_s) = before_s {
            write!(f, ", and {} with `{before}`", seconds(*before_s))?;
        }
        let alike = match block.round() {
            n if n >= 2.0 => format!("about {n:.0} neighbours take similar times"),
            _ => "neighbours differ as much as other tasks".to_string(),
        };
        write!(
            f,
            "; a task takes {} ± {}, {alike}, and a message takes {}.",
            seconds(*mean_s),
            percent(deviation_s / mean_s, 0),
            seconds(*message_s)
        )
    }

    pub(super) fn decision(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event::Decision {
            of,
            current,
            candidate,
            current_s,
            candidate_s,
            gain,
            threshold,
            benefit_s,
            cost_s,
            works_s,
            speeds,
            inputs,
            acted,
            reason,
        } = self
        else {
            return Ok(());
        };
        let verb = if *acted { "is changed" } else { "stays" };
        write!(
            f,
            "{} {verb}, because {reason}: `{}` takes {} {}",
            of.arrangement(),
            shortened(current),
            seconds(*current_s),
            of.unit()
        )?;
        match candidate {
            None => f.write_str(", and no better one was found")?,
            // If the best candidate is the current mapping or distribution of work, only the reason is given; it says that there is no other
            // candidate.
            Some(candidate) if candidate == current => {}
            Some(candidate) => {
                write!(f, ", `{}` would take ", shortened(candidate))?;
                match candidate_s {
                    Some(s) => write!(f, "{}", seconds(*s))?,
                    None => f.write_str("an unknown time")?,
                }
                let (wanted, cost) = (percent(*threshold, 1), seconds(*cost_s));
                match *gain > 0.0 {
                    true => write!(
                        f,
                        "; the gain is {}{} (threshold {wanted}); the change would save {} and cost {cost}",
                        percent(*gain, 1),
                        of.gained(),
                        seconds(*benefit_s)
                    )?,
                    // A negative gain (predicted saving of time) is not shown: its value does not matter.
                    false => write!(
                        f,
                        "; there is no gain (threshold {wanted}), and the change would cost {cost}"
                    )?,
                }
            }
        }
        if !works_s.is_empty() {
            let names = stages(current);
            let work = |(n, s): (usize, &f64)| match names.get(n) {
                Some(name) => format!("{} in {name}", seconds(*s)),
                None => seconds(*s),
            };
            let works: Vec<String> = works_s.iter().enumerate().map(work).collect();
            let (works, speeds) = (works.join(", "), by_rank(speeds, ", ", |speed| format!("{speed:.2}")));
            write!(f, "; on the fastest rank an item takes {works}, and the ranks' speeds are {speeds}")?;
        }
        for (n, input) in inputs.iter().take(NAMED).enumerate() {
            write!(f, "{} {input}", if n == 0 { "; measured:" } else { "," })?;
        }
        if inputs.len() > NAMED {
            write!(f, ", and {} more", inputs.len() - NAMED)?;
        }
        f.write_str(".")
    }
}

fn stages(mapping: &str) -> Vec<&str> {
    let blocks = mapping.split('|').map(|block| block.split('@').next().unwrap_or(block));
    blocks.flat_map(|block| block.split('+')).map(str::trim).collect()
}

/// Returns the distribution of the units of a loop by its least and greatest number, if there are many ranks. Other arrangements are returned as they
/// are.
fn shortened(arrangement: &str) -> Cow<'_, str> {
    let numbers: Option<Vec<u64>> = arrangement.split_whitespace().map(|word| word.parse().ok()).collect();
    match numbers {
        Some(numbers) if numbers.len() > NAMED => by_rank(&numbers, " ", |number| number.to_string()).into(),
        _ => arrangement.into(),
    }
}
