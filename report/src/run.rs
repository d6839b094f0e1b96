//! One run, put together from the events of its ranks.

use std::collections::BTreeMap;

use armature::observe::activity::{Activity, Longest, RankStart, Traffic, Work};
use armature::observe::{Event, Record, Subject};

use crate::mapping::Mapping;

/// Which skeleton ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Skeleton {
    /// A pipeline.
    Pipeline,
    /// A farm.
    Farm,
    /// A parallel loop.
    Loop,
    /// A workflow.
    Workflow,
    /// The log does not say.
    #[default]
    Unknown,
}

/// One run of a skeleton. Times are seconds since rank 0 began with it.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Which of the job's runs it is, from 0.
    pub number: u32,
    /// Which skeleton ran.
    pub skeleton: Skeleton,
    /// The name that the program gave it, where it has one.
    pub name: String,
    /// The program, as far as that is known.
    pub program: String,
    /// When it began: seconds since 1970; `None` where no rank says so.
    pub began: Option<f64>,
    /// Whether it ended as it should.
    pub has_ended: bool,
    /// From its begin to the last that is known of it, in seconds.
    pub seconds: f64,
    /// Items, tasks or passes, where the log tells.
    pub done: Option<u64>,
    /// Whether it was balanced while it ran: `off`, `once` or `live`; empty where the log does not tell.
    pub balance: String,
    /// The ranks.
    pub ranks: Vec<Rank>,
    /// What user code does, by kind.
    pub kinds: Vec<Kind>,
    /// Mappings (pipelines) or units by rank (loops), from when on they were in force.
    pub arrangements: Vec<(f64, Arrangement)>,
    /// Decisions, whether something was changed or not.
    pub decisions: Vec<Decision>,
    /// Changes that were made: when, and in a word or two.
    pub changes: Vec<(f64, String)>,
    /// What came of changes: when, before, predicted, after, in seconds per item.
    pub outcomes: Vec<Outcome>,
    /// Speeds of the ranks as measured or assumed at the latest, relative to the fastest.
    pub speeds: Vec<f64>,
    /// Rates that a decision stood on, which are filtered: when, rank, units per second.
    pub filtered: Vec<(f64, usize, f64)>,
    /// Links as estimated last: from, to, bytes per second, seconds of set-up.
    pub links: BTreeMap<(usize, usize), (f64, f64)>,
    /// Bandwidth of the slowest link to rank 0 as it was probed, in bytes per second.
    pub slowest_probed: Option<f64>,
    /// What a message with one task takes, in seconds, as a farm's master has it.
    pub message_s: Option<f64>,
    /// For how long tasks that could have begun waited for memory, all ranks together, in seconds, where the log tells.
    pub memory_wait_s: Option<f64>,
    /// Ranks that were lost.
    pub lost: Vec<usize>,
    /// All events but those on ranks' time, as they are told.
    pub lines: Vec<Line>,
}

/// What runs where.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrangement {
    /// Of stages.
    Mapping(Mapping),
    /// Of a loop's units.
    Units(Vec<u64>),
    /// Of a farm: how many ranks work.
    Workers(usize),
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// When it was known.
    pub at: f64,
    /// Seconds per item before the change.
    pub before_s: f64,
    /// What was predicted.
    pub predicted_s: f64,
    /// What was measured.
    pub after_s: f64,
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When.
    pub at: f64,
    /// Whether something was changed.
    pub acted: bool,
    /// In a sentence.
    pub text: String,
}

/// An event as it is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// When.
    pub at: f64,
    /// Which rank tells it.
    pub rank: usize,
    /// In a sentence.
    pub text: String,
}

/// One rank.
#[derive(Clone, Debug, Default)]
pub struct Rank {
    /// The host that it ran on.
    pub host: String,
    /// What it did, one part after the other.
    pub parts: Vec<Part>,
    /// Messages and bytes that it sent, by receiver.
    pub sent: BTreeMap<usize, (u64, u64)>,
    /// The most memory that its process had, in bytes.
    pub memory_peak: Option<u64>,
    /// What that may have.
    pub memory_limit: Option<u64>,
    /// When it had done its part, if it says so.
    pub end: Option<f64>,
}

/// A part of a rank's time.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// When it ends.
    pub to: f64,
    /// What was done in it.
    pub activity: Activity,
}

impl Part {
    /// When it begins.
    pub fn from(&self) -> f64 {
        self.to - self.activity.seconds
    }
}

/// What user code does of one kind: a stage, say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// Items, tasks or units that were done.
    pub done: u64,
    /// What they took together, in seconds.
    pub seconds: f64,
    /// How many took how long, by [step](Work::step_s).
    pub steps: BTreeMap<u32, u64>,
    /// The longest call.
    pub longest: Option<Longest>,
    /// By rank: what it took there, in seconds.
    pub by_rank: BTreeMap<usize, (u64, f64)>,
}

impl Run {
    /// The runs of a log, in order.
    pub fn all(records: &[Record]) -> Vec<Run> {
        records.chunk_by(|a, b| a.run == b.run).map(Run::of).collect()
    }

    fn of(records: &[Record]) -> Run {
        let mut run = Run { number: records[0].run, ..Run::default() };
        for record in records {
            run.take(record);
        }
        let last_part = run.ranks.iter().filter_map(|rank| rank.parts.last()).map(|part| part.to);
        let last = last_part.chain(run.lines.iter().map(|line| line.at)).fold(0.0, f64::max);
        run.seconds = if run.has_ended && run.seconds > 0.0 { run.seconds } else { last };
        run
    }

    fn take(&mut self, record: &Record) {
        let Record { at, rank, event, .. } = record;
        let (at, rank) = (*at, *rank);
        match event {
            Event::RankStart(start) => return self.rank_starts(rank, start),
            Event::Activity(activity) => return self.rank_did(at, rank, activity),
            Event::Work(work) => return self.rank_worked(rank, work),
            Event::Traffic(traffic) => return self.rank_sent(rank, traffic),
            Event::RankEnd { .. } => {
                self.rank(rank).end = Some(at);
                return;
            }
            event => self.decided(at, event),
        }
        self.lines.push(Line { at, rank, text: event.to_string() });
    }

    fn rank(&mut self, rank: usize) -> &mut Rank {
        if rank >= self.ranks.len() {
            self.ranks.resize_with(rank + 1, Rank::default);
        }
        &mut self.ranks[rank]
    }

    fn kind(&mut self, of: usize) -> &mut Kind {
        if of >= self.kinds.len() {
            self.kinds.resize_with(of + 1, Kind::default);
        }
        &mut self.kinds[of]
    }

    fn rank_starts(&mut self, rank: usize, start: &RankStart) {
        self.see_ranks(start.ranks);
        let its = self.rank(rank);
        (its.host, its.memory_limit) = (start.host.clone(), start.memory_limit);
        if rank == 0 {
            // A simulator's clock begins with the simulation.
            self.began = (start.clock_s > YEAR_2000).then_some(start.clock_s);
        }
        self.program.clone_from(&start.program);
        for (of, name) in start.kinds.iter().enumerate() {
            self.kind(of).name.clone_from(name);
        }
    }

    fn rank_did(&mut self, at: f64, rank: usize, activity: &Activity) {
        if let Some(longest) = &activity.longest {
            let kind = self.kind(longest.of);
            if kind.longest.as_ref().is_none_or(|known| longest.seconds > known.seconds) {
                kind.longest = Some(longest.clone());
            }
        }
        self.rank(rank).parts.push(Part { to: at, activity: activity.clone() });
    }

    fn rank_worked(&mut self, rank: usize, work: &Work) {
        let kind = self.kind(work.of);
        kind.done += work.done;
        kind.seconds += work.seconds;
        let on_rank = kind.by_rank.entry(rank).or_default();
        *on_rank = (on_rank.0 + work.done, on_rank.1 + work.seconds);
        for &(step, count) in &work.steps {
            *kind.steps.entry(step).or_default() += count;
        }
    }

    fn rank_sent(&mut self, rank: usize, traffic: &Traffic) {
        let its = self.rank(rank);
        its.memory_peak = its.memory_peak.max(traffic.memory_peak);
        for &(to, messages, bytes) in &traffic.to {
            let sent = its.sent.entry(to).or_default();
            *sent = (sent.0 + messages, sent.1 + bytes);
        }
    }

    /// There are at least so many.
    fn see_ranks(&mut self, ranks: usize) {
        // A log that is damaged may speak of any number.
        let last = ranks.clamp(1, MOST_RANKS) - 1;
        self.rank(last);
    }

    /// An event that is told in a line, too.
    fn decided(&mut self, at: f64, event: &Event) {
        match event {
            Event::Start { ranks, mapping, balance } => {
                self.skeleton = Skeleton::Pipeline;
                self.see_ranks(*ranks);
                self.balance.clone_from(balance);
                self.arrange(at, Arrangement::Mapping(Mapping::parse(mapping)));
            }
            Event::FarmStart { farm, ranks, workers, balance, .. } => {
                self.skeleton = Skeleton::Farm;
                self.see_ranks(*ranks);
                self.name.clone_from(farm);
                self.balance.clone_from(balance);
                self.arrange(at, Arrangement::Workers(*workers));
            }
            Event::LoopStart { name, held, balance, .. } => {
                self.skeleton = Skeleton::Loop;
                self.see_ranks(held.len());
                self.name.clone_from(name);
                self.balance.clone_from(balance);
                self.arrange(at, Arrangement::Units(held.clone()));
            }
            Event::Probe { speeds, slowest_link, .. } => {
                self.speeds.clone_from(speeds);
                self.slowest_probed = *slowest_link;
            }
            Event::Link { from, to, bandwidth, setup, .. } => {
                self.links.insert((*from, *to), (*bandwidth, *setup));
            }
            Event::Chunks { message_s, .. } => self.message_s = Some(*message_s),
            Event::Lost { rank, .. } => {
                self.lost.push(*rank);
                self.changes.push((at, format!("rank {rank} lost")));
            }
            Event::Switch { epoch, mapping } => {
                // The first one is that of the start.
                if *epoch > 1 {
                    self.changes.push((at, format!("mapping {epoch}")));
                }
                self.arrange(at, Arrangement::Mapping(Mapping::parse(mapping)));
            }
            Event::Moved { number, .. } => self.changes.push((at, format!("movement {number}"))),
            Event::Parked { ranks } => self.changes.push((at, format!("{} parked", ranks.len()))),
            Event::Woken { ranks } => self.changes.push((at, format!("{} woken", ranks.len()))),
            Event::Outcome { before_s, predicted_s, after_s, .. } => {
                let (before_s, predicted_s, after_s) = (*before_s, *predicted_s, *after_s);
                self.outcomes.push(Outcome { at, before_s, predicted_s, after_s });
            }
            Event::Decision { .. } => self.decides(at, event),
            Event::Finish { items, seconds } => {
                (self.has_ended, self.seconds, self.done) = (true, *seconds, Some(*items));
            }
            Event::LoopEnd { passes, seconds } => {
                (self.has_ended, self.seconds, self.done) = (true, *seconds, Some(*passes));
            }
            _ => {}
        }
    }

    fn decides(&mut self, at: f64, event: &Event) {
        let Event::Decision { of, candidate, speeds, inputs, acted, .. } = event else { return };
        self.decisions.push(Decision { at, acted: *acted, text: event.to_string() });
        if !speeds.is_empty() {
            self.speeds.clone_from(speeds);
        }
        for input in inputs.iter().filter(|input| input.unit == "units/s") {
            let rank = input.name.strip_prefix("rank ").and_then(|rest| rest.split(' ').next());
            if let Some(rank) = rank.and_then(|rank| rank.parse().ok()) {
                self.filtered.push((at, rank, input.value));
            }
        }
        if let (true, Some(candidate)) = (*acted, candidate) {
            match of {
                Subject::Units => {
                    let held: Option<Vec<u64>> =
                        candidate.split_whitespace().map(|n| n.parse().ok()).collect();
                    if let Some(held) = held {
                        self.arrange(at, Arrangement::Units(held));
                    }
                }
                Subject::Workers => {
                    if let Ok(workers) = candidate.parse() {
                        self.arrange(at, Arrangement::Workers(workers));
                    }
                }
                // A switch follows.
                _ => {}
            }
        }
    }

    fn arrange(&mut self, at: f64, arrangement: Arrangement) {
        if self.arrangements.last().is_none_or(|(_, last)| *last != arrangement) {
            self.arrangements.push((at, arrangement));
        }
    }

    /// Whether any rank tells what it did with its time.
    pub fn has_activity(&self) -> bool {
        self.ranks.iter().any(|rank| !rank.parts.is_empty())
    }

    /// What an item is called, in the plural.
    pub fn things(&self) -> &'static str {
        match self.skeleton {
            Skeleton::Pipeline => "items",
            Skeleton::Loop => "units",
            Skeleton::Farm | Skeleton::Workflow | Skeleton::Unknown => "tasks",
        }
    }

    /// What an item, task or unit takes in the mean, in seconds.
    pub fn calls(&self) -> Option<f64> {
        let (done, seconds) =
            self.kinds.iter().fold((0, 0.0), |sum, kind| (sum.0 + kind.done, sum.1 + kind.seconds));
        (done > 0).then(|| seconds / done as f64)
    }

    /// Speeds of the ranks: as they were measured, or by what they did of the same kind in the same time.
    pub fn relative_speeds(&self) -> Option<Vec<f64>> {
        if self.speeds.len() == self.ranks.len() && !self.speeds.is_empty() {
            return Some(self.speeds.clone());
        }
        let [kind] = self.kinds.as_slice() else { return None };
        let rate = |rank: usize| kind.by_rank.get(&rank).filter(|w| w.1 > 0.0).map(|w| w.0 as f64 / w.1);
        let rates: Vec<f64> = (0..self.ranks.len()).map(rate).collect::<Option<_>>()?;
        let most = rates.iter().copied().fold(0.0, f64::max);
        (most > 0.0).then(|| rates.iter().map(|rate| rate / most).collect())
    }

    /// The filtered rates of a rank.
    pub fn filtered_of(&self, rank: usize) -> Vec<(f64, f64)> {
        self.filtered.iter().filter(|f| f.1 == rank).map(|f| (f.0, f.2)).collect()
    }
}

/// Seconds from 1970 to 2000: no clock of a real run shows less, and no simulated one more.
const YEAR_2000: f64 = 946_684_800.0;
/// A job of more ranks is not shown.
const MOST_RANKS: usize = 1 << 20;

/// The longest that a rank did.
pub(crate) fn told(longest: &Longest, kinds: &[Kind]) -> String {
    let name = kinds.get(longest.of).map_or("user code", |kind| kind.name.as_str());
    let number = match (longest.first, longest.count) {
        (None, 1) => String::new(),
        (None, count) => format!(", {count} at once"),
        (Some(first), 0 | 1) => format!(" {first}"),
        (Some(first), count) => format!(" {first} to {}", first + count - 1),
    };
    format!("{name}{number}")
}
