//! One sentence on what a run spent its time on, and why.

use armature::observe::words::{percent, seconds, short};

use crate::account::{Shares, shares};
use crate::run::{Arrangement, Run, Skeleton};

/// From this part of the time on in which ranks computed, nothing is wrong.
const GOOD: f64 = 0.85;
/// A rank or stage that is busy for this part of the time is what the others wait for.
const FULL: f64 = 0.85;
/// Others had a rank's core if they had it for this part of the time in which the rank would have computed.
const LOADED: f64 = 0.1;
/// A rank is slow below this part of the usual speed.
const SLOW: f64 = 0.75;
/// A link is slow below this part of the usual bandwidth.
const SLOW_LINK: f64 = 0.25;
/// Calls of user code are short that take less than this many messages.
const SHORT_CALL: f64 = 10.0;
/// From this part of the time on that ranks spend on messages, these are a cause.
const MUCH: f64 = 0.3;
/// From this part of the time on in which tasks wait for memory, that is the cause.
const MEMORY: f64 = 0.2;
/// A cause is named only where no more than this part of the time is unknown.
const UNKNOWN: f64 = 0.05;
/// From this part of a rank's lost time on in which its CPU quota was used up, the quota is the cause.
const THROTTLED: f64 = 0.5;
/// The busiest rank computes for so much longer than the mean where work is not balanced.
const UNEVEN: f64 = 1.2;

/// What a diagnosis stands on.
#[derive(Debug)]
struct Facts<'r> {
    run: &'r Run,
    /// How long the part of the run is that is looked at, in seconds.
    time: f64,
    /// Whether that is all of it: sums over the run are of no use otherwise.
    is_whole: bool,
    /// Of the ranks that took part.
    ranks: Vec<(usize, Shares)>,
    /// The mean of these.
    mean: Shares,
    /// The one that was in user code for longest.
    busiest: (usize, Shares),
}

/// One sentence, or two, on what the run spent its time on, and why.
pub fn diagnosis(run: &Run) -> String {
    let Some(facts) = Facts::of(run, (0.0, run.seconds)) else {
        let why =
            if run.ranks.is_empty() { "the log has no ranks" } else { "no rank has written what it did" };
        return format!("What the ranks did with their time is not known, because {why}.");
    };
    let unfinished = if run.has_ended {
        ""
    } else {
        " The run did not end as it should, or the log was read before it did."
    };
    format!("{}{unfinished}", facts.sentence())
}

/// The same of a part of the run, as long as it goes on; `None` if no rank tells what it did then.
pub(crate) fn diagnosis_of_part(run: &Run, part: (f64, f64)) -> Option<String> {
    Facts::of(run, part).map(|facts| facts.sentence())
}

impl<'r> Facts<'r> {
    fn of(run: &'r Run, (from, to): (f64, f64)) -> Option<Self> {
        let all = (0..run.ranks.len()).map(|rank| (rank, shares(run, rank, (from, to))));
        let ranks: Vec<(usize, Shares)> =
            all.filter(|(_, s)| s.total() > 0.0 && s.parked < 0.99 * s.total()).collect();
        let busiest = ranks.iter().copied().max_by(|a, b| a.1.work.total_cmp(&b.1.work))?;
        let n = ranks.len() as f64;
        let mean = ranks.iter().fold(Shares::default(), |sum, (_, shares)| sum.plus(*shares)).over(n);
        let (time, is_whole) = (to - from, from <= 0.0 && to >= run.seconds);
        Some(Facts { run, time, is_whole, ranks, mean, busiest })
    }

    fn sentence(&self) -> String {
        let time = self.time;
        let useful = self.mean.useful() / time;
        if useful >= GOOD {
            return format!(
                "Nothing is wrong: the ranks computed for {} of the time, and waited for {}.",
                percent(useful, 0),
                percent(self.mean.idle / time, 0)
            );
        }
        let waited = format!(
            "The ranks computed for {} of the time and waited for {}",
            percent(useful, 0),
            percent((self.mean.idle + self.mean.parked) / time, 0)
        );
        if self.mean.unknown > UNKNOWN * time {
            return format!(
                "{waited}; how they spent another {} is not known, so that no cause is named: a farm's source and sink, decisions and \
                 checkpoints are not measured.",
                percent(self.mean.unknown / time, 0)
            );
        }
        let why = self
            .memory()
            .or_else(|| self.loaded_core())
            .or_else(|| self.short_calls())
            .or_else(|| self.master())
            .or_else(|| self.slow_rank())
            .or_else(|| self.stage_of_one_rank())
            .or_else(|| self.slow_link())
            .or_else(|| self.uneven())
            .or_else(|| self.handling_messages())
            .or_else(|| self.too_many());
        let others =
            [("no core", self.mean.lost), ("set-up", self.mean.set_up), ("messages", self.mean.messages)];
        let others: String = others
            .iter()
            .filter(|(_, share)| *share >= 0.01 * time)
            .map(|(name, share)| format!(", {name}: {}", percent(share / time, 0)))
            .collect();
        match why {
            Some(why) => format!("{waited}, {why}."),
            None => format!("{waited}{others}; no single cause stands out."),
        }
    }

    fn memory(&self) -> Option<String> {
        let waited = self.run.memory_wait_s.filter(|_| self.is_whole)?;
        let share = waited / (self.time * self.ranks.len() as f64);
        (share >= MEMORY).then(|| {
            format!(
                "because tasks that could have begun waited for memory for {} of the time",
                percent(share, 0)
            )
        })
    }

    /// Others had the core of the rank that everybody waits for.
    fn loaded_core(&self) -> Option<String> {
        let by_loss = |a: &&(usize, Shares), b: &&(usize, Shares)| a.1.lost.total_cmp(&b.1.lost);
        let (rank, shares) = self.ranks.iter().max_by(by_loss)?;
        let share = shares.lost / shares.work.max(f64::MIN_POSITIVE);
        if share < LOADED || shares.lost < LOADED * self.time {
            return None;
        }
        let is_stopped = |rank: &usize| {
            let lost: f64 = self.run.ranks[*rank].parts.iter().map(|part| part.activity.lost_s).sum();
            self.run.ranks[*rank].throttled_s >= THROTTLED * lost
        };
        let others = self.mean.lost * self.ranks.len() as f64 - shares.lost;
        let alike = self.ranks.len() > 1 && others / (self.ranks.len() - 1) as f64 > 0.5 * shares.lost;
        Some(if alike {
            let mean = 1.0 - self.mean.lost / self.mean.work;
            match self.ranks.iter().all(|(rank, _)| is_stopped(rank)) {
                true => format!(
                    "because a CPU quota of their control groups stopped the ranks: each had {mean:.2} of a core"
                ),
                false => {
                    format!("because other programs had the ranks' cores: each had {mean:.2} of a core")
                }
            }
        } else {
            let why = match is_stopped(rank) {
                true => "a CPU quota of its control group stopped it",
                false => "other programs ran there",
            };
            format!("mostly for rank {rank}, which had {:.2} of a core, because {why}", 1.0 - share)
        })
    }

    /// Messages cost about as much as what they are about.
    fn short_calls(&self) -> Option<String> {
        let calls = self.run.calls()?;
        let message = self.run.message_s?;
        let share = self.mean.messages / self.time;
        (calls < SHORT_CALL * message && share >= LOADED).then(|| {
            format!(
                "because the pieces of work are too small: a call of user code takes {}, and a message {}",
                seconds(calls),
                seconds(message)
            )
        })
    }

    /// Rank 0 has its hands full with messages.
    fn master(&self) -> Option<String> {
        if self.run.skeleton == Skeleton::Loop || self.ranks.len() < 2 {
            return None;
        }
        let (rank, root) = self.ranks.first()?;
        let share = (root.messages + root.work) / self.time;
        let idle = self.ranks[1..].iter().map(|(_, s)| s.idle).sum::<f64>() / (self.ranks.len() - 1) as f64;
        let is_it =
            *rank == 0 && root.messages >= 0.5 * self.time && share >= FULL && idle >= MUCH * self.time;
        is_it.then(|| {
            format!(
                "because rank 0, which hands the work out, spent {} of its time on messages",
                percent(root.messages / self.time, 0)
            )
        })
    }

    /// The rank that everybody waits for is slower than the others.
    fn slow_rank(&self) -> Option<String> {
        let (rank, shares) = self.busiest;
        if shares.work < FULL * self.time || self.ranks.len() < 2 {
            return None;
        }
        let speeds = self.run.relative_speeds()?;
        let own = *speeds.get(rank)?;
        let mut others: Vec<f64> = self
            .ranks
            .iter()
            .filter(|(r, _)| *r != rank)
            .filter_map(|(r, _)| speeds.get(*r).copied())
            .collect();
        others.sort_by(f64::total_cmp);
        let usual = *others.get(others.len() / 2)?;
        (own < SLOW * usual).then(|| {
            format!("mostly for rank {rank}, which is {:.2} times as fast as the others", own / usual)
        })
    }

    /// A stage keeps the only rank that runs it busy.
    fn stage_of_one_rank(&self) -> Option<String> {
        let mapping = self.run.arrangements.iter().rev().find_map(|(_, arrangement)| match arrangement {
            Arrangement::Mapping(mapping) => Some(mapping),
            _ => None,
        })?;
        let alone = |name: &str| {
            let ranks = mapping.stages.iter().find(|(stage, _)| stage == name).map(|(_, ranks)| ranks);
            ranks.is_some_and(|ranks| !ranks.contains([',', '-']))
        };
        if !self.is_whole {
            let (rank, shares) = self.busiest;
            let of_rank = |ranks: &str| ranks == rank.to_string();
            let mut its = mapping.stages.iter().filter(|(_, ranks)| of_rank(ranks)).map(|(stage, _)| stage);
            let (Some(stage), None) = (its.next(), its.next()) else { return None };
            return (shares.work >= FULL * self.time)
                .then(|| format!("mostly for rank {rank}, which alone runs stage {stage}"));
        }
        let busy = |kind: &&crate::run::Kind| kind.by_rank.values().map(|(_, s)| *s).fold(0.0, f64::max);
        let stage = self
            .run
            .kinds
            .iter()
            .filter(|kind| alone(&kind.name))
            .max_by(|a, b| busy(a).total_cmp(&busy(b)))?;
        let share = busy(&stage) / self.time;
        (share >= FULL).then(|| {
            format!(
                "mostly for stage {}, which one rank runs and which kept that busy for {} of the time",
                armature_text::shown(&stage.name),
                percent(share, 0)
            )
        })
    }

    fn slow_link(&self) -> Option<String> {
        if !self.is_whole {
            return None;
        }
        let mut bandwidths: Vec<f64> = self.run.links.values().map(|link| link.0).collect();
        bandwidths.extend(self.run.slowest_probed);
        bandwidths.sort_by(f64::total_cmp);
        let usual = *bandwidths.get(bandwidths.len() / 2)?;
        let ((from, to), (bandwidth, _)) = self.run.links.iter().min_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
        let bytes = self.run.ranks.get(*from).and_then(|rank| rank.sent.get(to)).map_or(0, |sent| sent.1);
        let busy = bytes as f64 / bandwidth;
        (*bandwidth < SLOW_LINK * usual && (bytes == 0 || busy >= LOADED * self.time)).then(|| {
            format!(
                "mostly for the link from rank {from} to rank {to}, which carries {}B/s where others carry {}B/s",
                short(*bandwidth),
                short(usual)
            )
        })
    }

    fn uneven(&self) -> Option<String> {
        let (rank, shares) = self.busiest;
        let is_it = shares.work >= UNEVEN * self.mean.work && shares.work >= 0.6 * self.time;
        is_it.then(|| {
            format!(
                "because the work is not balanced: rank {rank} computed for {}, and the mean is {}",
                seconds(shares.work),
                seconds(self.mean.work)
            )
        })
    }

    /// Handling messages took much of the ranks' time.
    fn handling_messages(&self) -> Option<String> {
        let share = self.mean.messages / self.time;
        (share >= MUCH)
            .then(|| format!("because the ranks spent {} of the time on messages", percent(share, 0)))
    }

    /// Nobody is busy enough to be waited for.
    fn too_many(&self) -> Option<String> {
        let needed = (self.mean.useful() * self.ranks.len() as f64 / (FULL * self.time)).ceil().max(1.0);
        (needed <= 0.5 * self.ranks.len() as f64).then(|| {
            let ranks = if needed == 1.0 { "one rank".to_string() } else { format!("{needed} ranks") };
            format!("because there are more ranks than the work keeps busy: {ranks} could have done it, and there are {}", self.ranks.len())
        })
    }
}

#[cfg(test)]
#[path = "diagnosis_tests.rs"]
mod tests;
