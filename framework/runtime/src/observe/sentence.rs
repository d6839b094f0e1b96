//! Text form of the events of a run: one sentence for each event.

use std::fmt;

use armature_text::{line, shown};

use super::event::Event;
use super::number_format::{self, by_rank, count, seconds, short};
use super::subject::Subject;

/// Writes the sentence on one line, with control characters escaped, because names and messages of user code may contain any characters.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&line(Sentence(self)))
    }
}

struct Sentence<'a>(&'a Event);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Event::Start { ranks, mapping, balance } => {
                write!(
                    f,
                    "The run starts on {} with the mapping `{mapping}`; ",
                    count(*ranks as u64, "rank")
                )?;
                match balance.as_str() {
                    "off" => f.write_str("it stays until the end."),
                    "once" => f.write_str("it changes once at most."),
                    _ => f.write_str("it changes when a change pays off."),
                }
            }
            Event::Probe { speeds, slowest_link, longest_delay, sharing } => {
                let speeds = by_rank(speeds, ", ", |speed| format!("{speed:.2}"));
                write!(f, "The ranks' speeds, relative to the fastest, are {speeds}")?;
                if let Some(bandwidth) = slowest_link {
                    write!(f, "; the slowest link to rank 0 carries {}B/s", short(*bandwidth))?;
                }
                if let Some(delay) = longest_delay {
                    write!(f, "; the longest delay is {}", seconds(*delay))?;
                }
                for (ranks, cores) in sharing {
                    let unit = if *cores == 1.0 { "core" } else { "cores" };
                    write!(f, "; ranks {} share {cores} {unit}", number_format::ranks(ranks))?;
                }
                f.write_str(".")
            }
            Event::Measured { stage, rank, items, seconds_per_item, by, settled } => write!(
                f,
                "Stage {} takes {} an item on rank {rank}, after {} by {by}{}.",
                shown(stage),
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
            Event::FarmStart { farm, ranks, workers, chunking, balance } => {
                let (farm, ranks) = (shown(farm), count(*ranks as u64, "rank"));
                write!(f, "Farm {farm} starts with {workers} of {ranks}, ")?;
                match balance.as_str() {
                    "off" => f.write_str("which stay until the end")?,
                    "once" => f.write_str("a number that changes once at most")?,
                    _ => f.write_str("a number that changes when a change pays off")?,
                }
                write!(f, "; chunking is `{chunking}`.")
            }
            Event::Decision { .. } => self.0.decision(f),
            Event::Chunks { .. } => self.0.chunks(f),
            Event::Lost { rank, tasks, why } => {
                write!(f, "Rank {rank} is lost: {why}; ")?;
                match tasks {
                    0 => f.write_str("it held no tasks."),
                    1 => f.write_str("its task is requeued."),
                    _ => write!(f, "its {tasks} tasks are requeued."),
                }
            }
            Event::Heard { rank } => write!(f, "Rank {rank} sends heartbeats again and receives tasks."),
            Event::Copied { from, to, first, tasks } => write!(
                f,
                "Rank {to} is idle and runs {} from number {first} on as well, which rank {from} has not completed.",
                count(*tasks, "task")
            ),
            Event::Failures { failed, retried, again } => write!(
                f,
                "{} failed at every attempt, {} retried, and {} requeued because a rank was lost.",
                count(*failed, "task"),
                were(*retried, "attempt"),
                were(*again, "task")
            ),
            Event::Parked { ranks } => write!(f, "{} parked.", ranks_phrase(ranks)),
            Event::Split { sub_masters, workers, reason } => write!(
                f,
                "{} now the sub-masters of {}: {reason}.",
                ranks_phrase(sub_masters),
                count(*workers as u64, "worker")
            ),
            Event::Woken { ranks } => write!(f, "{} woken.", ranks_phrase(ranks)),
            Event::LoopStart { name, units, held, balance } => {
                write!(
                    f,
                    "Loop {} starts with {} on {}, by rank {}; ",
                    shown(name),
                    count(*units, "unit"),
                    count(held.len() as u64, "rank"),
                    by_rank(held, " ", |units| units.to_string())
                )?;
                f.write_str(match balance.as_str() {
                    "off" => "they stay until the end.",
                    "once" => "they move once at most.",
                    _ => "they move when a move pays off.",
                })
            }
            Event::LoopEnd { passes, seconds: s } => {
                let word = if *passes == 1 { "pass" } else { "passes" };
                write!(f, "The loop ends after {passes} {word} and {}.", seconds(*s))
            }
            Event::Moved { number, units, messages, seconds: s } => write!(
                f,
                "Movement number {number} is done: at most {} in {}; it took the busiest rank {}.",
                count(*units, "unit"),
                count(*messages, "message"),
                seconds(*s)
            ),
            Event::Grain { block, reason } => {
                write!(f, "The block size is now {block}, because {reason}.")
            }
            Event::Prepare { epoch, mapping } => {
                write!(f, "The ranks prepare mapping number {epoch}, `{mapping}`.")
            }
            Event::WarmUp { stage, seconds: s } => {
                write!(f, "Stage {} was set up in {}.", shown(stage), seconds(*s))
            }
            Event::Ready { epoch } => write!(f, "Ready for mapping number {epoch}."),
            Event::Switch { epoch, mapping } => {
                write!(f, "Mapping number {epoch}, `{mapping}`, is in effect.")
            }
            Event::HandOver { stage, to, next_batch, bytes } => write!(
                f,
                "Stage {} migrated to rank {to}, which continues with batch {next_batch}; its state has {}.",
                shown(stage),
                count(*bytes, "byte")
            ),
            Event::TakeOver { stage, from, next_batch } => {
                write!(
                    f,
                    "Stage {} migrated here from rank {from} and continues with batch {next_batch}.",
                    shown(stage)
                )
            }
            Event::Forwarded { epoch, batches } => write!(
                f,
                "Forwarded {} of an earlier mapping by mapping number {epoch}.",
                count(*batches, "batch")
            ),
            Event::Snapshot { items, bytes, took_s, written_s, next_s } => write!(
                f,
                "A snapshot after {} is complete: it has {}, took {} of the ranks' time, and was written in {}. The next one starts after {}.",
                count(*items, "item"),
                count(*bytes, "byte"),
                seconds(*took_s),
                seconds(*written_s),
                seconds(*next_s)
            ),
            Event::Outcome { of: Subject::Mapping, epoch, before_s, predicted_s, after_s } => write!(
                f,
                "Mapping number {epoch} takes {} an item; {} was predicted, and the one before took {}.",
                seconds(*after_s),
                seconds(*predicted_s),
                seconds(*before_s)
            ),
            Event::Outcome { of, epoch, before_s, predicted_s, after_s } => write!(
                f,
                "After change number {epoch} of the {}, {} takes {}; {} was predicted, and it took {} before.",
                of.arrangement().trim_start_matches("The "),
                of.unit(),
                seconds(*after_s),
                seconds(*predicted_s),
                seconds(*before_s)
            ),
            Event::RankStart(start) => start.fmt(f),
            Event::Activity(activity) => activity.fmt(f),
            Event::Work(work) => work.fmt(f),
            Event::Traffic(traffic) => traffic.fmt(f),
            Event::Progress(reached) => reached.fmt(f),
            Event::RankEnd { seconds: s } => {
                write!(f, "The rank has finished its part after {}.", seconds(*s))
            }
            Event::WorkflowStart(event) => event.fmt(f),
            Event::Planned(event) => event.fmt(f),
            Event::Plan(event) => event.fmt(f),
            Event::TaskHeld(event) => event.fmt(f),
            Event::TaskBegan(event) => event.fmt(f),
            Event::TaskEnded(event) => event.fmt(f),
            Event::ValueCame(event) => event.fmt(f),
            Event::ValueSpilled(event) => event.fmt_sentence(f, true),
            Event::ValueLoaded(event) => event.fmt_sentence(f, false),
            Event::Held(event) => event.fmt(f),
            Event::WorkflowEnd(event) => event.fmt(f),
            Event::Finish { items, seconds: s } => {
                write!(f, "The run ends after {} and {}.", count(*items, "item"), seconds(*s))
            }
            Event::Totals { done, busy_s } => {
                let (done, busy): (f64, f64) = (done.iter().sum(), busy_s.iter().sum());
                write!(
                    f,
                    "According to the summary, the ranks did {} in {} of user code.",
                    short(done),
                    seconds(busy)
                )
            }
        }
    }
}

/// Returns a number with its noun and verb in the past tense: `1 task was`, `2 tasks were`.
fn were(n: u64, what: &str) -> String {
    format!("{} {}", count(n, what), if n == 1 { "was" } else { "were" })
}

fn ranks_phrase(ranks: &[usize]) -> String {
    let list = number_format::ranks(ranks);
    if ranks.len() == 1 { format!("Rank {list} is") } else { format!("Ranks {list} are") }
}
