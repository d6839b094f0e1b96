//! Diagnosis of a run: a sentence on how the ranks spent their time, and the cause of waiting.

use std::collections::BTreeSet;

use armature::observe::number_format::{count, percent, short};

use crate::account::{Shares, shares};
use crate::run::{Arrangement, Run, Skeleton};
use crate::units::time;
use crate::workflow;

/// Minimum fraction of the ranks' time that is spent on computing in a run that is considered good.
const GOOD_COMPUTING_SHARE: f64 = 0.85;
/// Minimum fraction of the time in which a rank or stage must be busy to be considered the bottleneck.
const BOTTLENECK_SHARE: f64 = 0.85;
/// Minimum time without a core that is considered the cause of waiting, as a fraction of a rank's computing time and also of the elapsed time.
const LOADED_SHARE: f64 = 0.1;
/// A rank is considered slow if its speed is below this fraction of the median speed of the other ranks.
const SLOW_SPEED: f64 = 0.75;
/// A link is considered slow if its bandwidth is below this fraction of the median bandwidth.
const SLOW_LINK: f64 = 0.25;
/// Mean time of a call of user code, as a multiple of the time of a message, below which the calls are considered too short.
const SHORT_CALL: f64 = 10.0;
/// Minimum fraction of the ranks' time for messages that is considered a cause of waiting.
const MESSAGES_SHARE: f64 = 0.3;
/// Minimum time for which tasks wait for memory, as a fraction of the ranks' time, that is considered the cause of waiting.
const MEMORY_SHARE: f64 = 0.2;
/// Maximum fraction of the ranks' time that may be unknown if a cause of waiting is to be named.
const MAX_UNKNOWN_SHARE: f64 = 0.05;
/// Minimum fraction of a rank's time without a core that must be due to an exhausted CPU quota for the quota to be considered the reason.
const THROTTLED: f64 = 0.5;
/// Minimum ratio of the longest to the mean computing time of the ranks that is considered unbalanced.
const UNEVEN: f64 = 1.2;

/// Data about a part of a run, on which its diagnosis is based.
#[derive(Debug)]
struct Facts<'r> {
    run: &'r Run,
    /// Length of the examined part of the run, in seconds.
    time: f64,
    /// True if the examined part is the whole run. Sums over the run, such as the time of a stage, are only used then.
    is_whole: bool,
    /// Ranks that had work for some time, each with the account of its time. Ranks that were parked
    /// (without work until woken) nearly all the time are left out.
    ranks: Vec<(usize, Shares)>,
    /// Mean of the accounts of time in the field `ranks`.
    mean: Shares,
    /// Rank with the longest computing time, and the account of its time.
    busiest: (usize, Shares),
}

/// Cause of lost time.
struct Cause {
    /// Continuation of a sentence about waiting, such as "because …" or "mostly for rank 3, …".
    why: String,
    advice: &'static str,
}

/// Returns one or two sentences on how the ranks spent their time, and on the cause of waiting.
pub fn diagnosis(run: &Run) -> String {
    if run.skeleton == Skeleton::Workflow && run.total == Some(0) {
        return "All tasks were completed before this run, so that it had nothing to do.".to_string();
    }
    let Some(facts) = Facts::of(run, (0.0, run.seconds)) else {
        let why =
            if run.ranks.is_empty() { "the log has no ranks" } else { "no rank has recorded its activity" };
        return format!("The activity of the ranks is unknown, because {why}.");
    };
    let unfinished =
        if run.has_ended { "" } else { " The run did not end normally, or the log was read before its end." };
    format!("{}{unfinished}", facts.sentence())
}

/// Returns what a user can try against the main cause of lost time, or `None` if no cause is known.
pub(crate) fn advice(run: &Run) -> Option<String> {
    if run.total == Some(0) {
        return None;
    }
    let facts = Facts::of(run, (0.0, run.seconds))?;
    facts.cause().map(|cause| cause.advice.to_string())
}

/// Returns the diagnosis of a part of the run, or `None` if no rank recorded its activity in this part.
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
        let mean = ranks.iter().fold(Shares::default(), |sum, (_, shares)| sum.plus(*shares)).divided_by(n);
        let (time, is_whole) = (to - from, from <= 0.0 && to >= run.seconds);
        Some(Facts { run, time, is_whole, ranks, mean, busiest })
    }

    /// Returns the main cause of waiting; `None` if little time was lost, too much time is unknown, or no cause stands out.
    fn cause(&self) -> Option<Cause> {
        if self.mean.useful() >= GOOD_COMPUTING_SHARE * self.time
            || self.mean.unknown > MAX_UNKNOWN_SHARE * self.time
        {
            return None;
        }
        self.memory()
            .or_else(|| self.loaded_core())
            .or_else(|| self.critical_path())
            .or_else(|| self.short_calls())
            .or_else(|| self.master())
            .or_else(|| self.slow_rank())
            .or_else(|| self.stage_of_one_rank())
            .or_else(|| self.slow_link())
            .or_else(|| self.uneven_work())
            .or_else(|| self.handling_messages())
            .or_else(|| self.too_many())
    }

    fn sentence(&self) -> String {
        let time = self.time;
        let useful = self.mean.useful() / time;
        if useful >= GOOD_COMPUTING_SHARE {
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
        if self.mean.unknown > MAX_UNKNOWN_SHARE * time {
            let unmeasured = match self.run.skeleton {
                Skeleton::Farm => "a farm's source and sink, decisions and checkpoints",
                _ => "decisions, checkpoints and the framework itself",
            };
            return format!(
                "{waited}; another {} of the time was not measured, so no cause is named: {unmeasured} are not measured.",
                percent(self.mean.unknown / time, 0)
            );
        }
        let others =
            [("no core", self.mean.lost), ("set-up", self.mean.set_up), ("messages", self.mean.messages)];
        let others: String = others
            .iter()
            .filter(|(_, share)| *share >= 0.01 * time)
            .map(|(name, share)| format!(", {name}: {}", percent(share / time, 0)))
            .collect();
        match self.cause() {
            Some(Cause { why, .. }) => format!("{waited}, {why}."),
            None => format!("{waited}{others}; no single cause stands out."),
        }
    }

    fn memory(&self) -> Option<Cause> {
        let waited = self.run.memory_wait_s.filter(|_| self.is_whole)?;
        let share = waited / (self.time * self.ranks.len() as f64);
        (share >= MEMORY_SHARE).then(|| Cause {
            advice: "Give the ranks more memory, use more hosts, or let values spill to a directory.",
            why: format!("because ready tasks waited for memory for {} of the time", percent(share, 0)),
        })
    }

    /// Tests whether the rank that had no core for longest lacked it because of other programs or a CPU quota.
    fn loaded_core(&self) -> Option<Cause> {
        let by_loss = |a: &&(usize, Shares), b: &&(usize, Shares)| a.1.lost.total_cmp(&b.1.lost);
        let (rank, shares) = self.ranks.iter().max_by(by_loss)?;
        let share = shares.lost / shares.work.max(f64::MIN_POSITIVE);
        if share < LOADED_SHARE || shares.lost < LOADED_SHARE * self.time {
            return None;
        }
        let is_stopped = |rank: &usize| {
            let lost: f64 = self.run.ranks[*rank].parts.iter().map(|part| part.activity.lost_s).sum();
            self.run.ranks[*rank].throttled_s >= THROTTLED * lost
        };
        let others = self.mean.lost * self.ranks.len() as f64 - shares.lost;
        let alike = self.ranks.len() > 1 && others / (self.ranks.len() - 1) as f64 > 0.5 * shares.lost;
        if let Some((ranks, threads, host)) = self.crowded_host(*rank).filter(|_| !is_stopped(rank)) {
            let mean = 1.0 - self.mean.lost / self.mean.work;
            return Some(Cause {
                why: format!(
                    "because {ranks} ranks share the {threads} cores of {host}: a computing rank had {mean:.2} of a core"
                ),
                advice: "Start at most as many ranks as the hosts have cores (-n, or slots= in the hostfile).",
            });
        }
        let advice = match is_stopped(rank) {
            true => "Raise the CPU quota of the job, or start only as many ranks as the quota has cores.",
            false => "End the other programs, or start fewer ranks on that host (slots= in the hostfile).",
        };
        let why = if alike {
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
        };
        Some(Cause { why, advice })
    }

    /// Returns the number of ranks on the host of a rank, the number of hardware threads that they may use, and the name of the host, if there are
    /// more ranks than threads.
    fn crowded_host(&self, rank: usize) -> Option<(usize, usize, &str)> {
        let host = self.run.ranks[rank].host.as_str();
        let on_host = || self.run.ranks.iter().filter(|rank| rank.host == host);
        let threads: BTreeSet<usize> = on_host().flat_map(|rank| rank.threads.iter().copied()).collect();
        let (ranks, threads) = (on_host().count(), threads.len());
        (threads > 0 && ranks > threads).then_some((ranks, threads, host))
    }

    /// Tests whether the tasks on the critical path of a workflow, one after another, took most of the time.
    fn critical_path(&self) -> Option<Cause> {
        if !self.is_whole || self.run.skeleton != Skeleton::Workflow {
            return None;
        }
        let path = workflow::critical_path(&self.run.tasks);
        let segments = workflow::segments(self.run, &path);
        let tasks = || segments.iter().filter(|segment| segment.task.is_some());
        let share = tasks().map(|segment| segment.end - segment.begin).sum::<f64>() / self.time;
        let longest = tasks().max_by(|a, b| (a.end - a.begin).total_cmp(&(b.end - b.begin)))?;
        (share >= BOTTLENECK_SHARE).then(|| Cause {
            why: format!(
                "because the {} of the critical path, one after another, took {} of the time; the longest is {} with {}",
                count(path.len() as u64, "task"),
                percent(share, 0),
                armature_text::shown(&longest.text),
                time(longest.end - longest.begin)
            ),
            advice: "Divide the longest tasks of the critical path, or start fewer ranks.",
        })
    }

    /// Tests whether a call of user code takes so little time that messages cost too much in comparison.
    fn short_calls(&self) -> Option<Cause> {
        let calls = self.run.calls()?;
        let message = self.run.message_s?;
        let share = self.mean.messages / self.time;
        (calls < SHORT_CALL * message && share >= LOADED_SHARE).then(|| Cause {
            advice: "Let each piece of work be larger, or leave the number of pieces per message to the framework.",
            why: format!(
                "because the pieces of work are too small: a call of user code takes {}, and a message {}",
                time(calls),
                time(message)
            ),
        })
    }

    /// Tests whether rank 0 is busy with messages all the time, while the other ranks are idle.
    fn master(&self) -> Option<Cause> {
        if self.run.skeleton == Skeleton::Loop || self.ranks.len() < 2 {
            return None;
        }
        let (rank, root) = self.ranks.first()?;
        let share = (root.messages + root.work) / self.time;
        let idle = self.ranks[1..].iter().map(|(_, s)| s.idle).sum::<f64>() / (self.ranks.len() - 1) as f64;
        let is_it = *rank == 0
            && root.messages >= 0.5 * self.time
            && share >= BOTTLENECK_SHARE
            && idle >= MESSAGES_SHARE * self.time;
        is_it.then(|| Cause {
            advice: "Use larger tasks, or sub-masters that dispatch tasks on behalf of rank 0.",
            why: format!(
                "because rank 0, which dispatches the work, spent {} of its time on messages",
                percent(root.messages / self.time, 0)
            ),
        })
    }

    /// Tests whether the rank with the longest computing time is slower than the others.
    fn slow_rank(&self) -> Option<Cause> {
        let (rank, shares) = self.busiest;
        if shares.work < BOTTLENECK_SHARE * self.time || self.ranks.len() < 2 {
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
        (own < SLOW_SPEED * usual).then(|| Cause {
            advice: match self.run.balance.as_str() {
                "live" => {
                    "Leave the slow rank's host out, or give the ranks smaller pieces of work to balance."
                }
                _ => "Let balancing move work during the run (balance: live), or leave the host out.",
            },
            why: format!("mostly for rank {rank}, which is {:.2} times as fast as the others", own / usual),
        })
    }

    /// Tests whether a stage that runs on a single rank keeps this rank busy.
    fn stage_of_one_rank(&self) -> Option<Cause> {
        let mapping = self.run.arrangements.iter().rev().find_map(|(_, arrangement)| match arrangement {
            Arrangement::Mapping(mapping) => Some(mapping),
            _ => None,
        })?;
        let advice = "Do not declare the stage serial, if several ranks may run it; otherwise split it.";
        let alone = |name: &str| {
            let ranks = mapping.stages.iter().find(|(stage, _)| stage == name).map(|(_, ranks)| ranks);
            ranks.is_some_and(|ranks| !ranks.contains([',', '-']))
        };
        if !self.is_whole {
            let (rank, shares) = self.busiest;
            let of_rank = |ranks: &str| ranks == rank.to_string();
            let mut its = mapping.stages.iter().filter(|(_, ranks)| of_rank(ranks)).map(|(stage, _)| stage);
            let (Some(stage), None) = (its.next(), its.next()) else { return None };
            let why = format!("mostly for rank {rank}, which alone runs stage {stage}");
            return (shares.work >= BOTTLENECK_SHARE * self.time).then_some(Cause { why, advice });
        }
        let busy = |kind: &&crate::run::Kind| kind.by_rank.values().map(|(_, s)| *s).fold(0.0, f64::max);
        let stage = self
            .run
            .kinds
            .iter()
            .filter(|kind| alone(&kind.name))
            .max_by(|a, b| busy(a).total_cmp(&busy(b)))?;
        let share = busy(&stage) / self.time;
        (share >= BOTTLENECK_SHARE).then(|| Cause {
            advice,
            why: format!(
                "mostly for stage {}, which kept its only rank busy for {} of the time",
                armature_text::shown(&stage.name),
                percent(share, 0)
            ),
        })
    }

    fn slow_link(&self) -> Option<Cause> {
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
        let is_busy = bytes == 0 || busy >= LOADED_SHARE * self.time;
        (*bandwidth < SLOW_LINK * usual && is_busy).then(|| Cause {
            advice: "Place ranks that exchange much data on one host, or measure the links with armature probe.",
            why: format!(
                "mostly for the link from rank {from} to rank {to}, which carries {}B/s where others carry {}B/s",
                short(*bandwidth),
                short(usual)
            ),
        })
    }

    fn uneven_work(&self) -> Option<Cause> {
        let (rank, shares) = self.busiest;
        let is_it = shares.work >= UNEVEN * self.mean.work && shares.work >= 0.6 * self.time;
        is_it.then(|| Cause {
            advice: match self.run.balance.as_str() {
                "live" => "Divide the work into smaller pieces, so that balancing can distribute it evenly.",
                _ => "Let balancing move work during the run (balance: live), or divide it into smaller pieces.",
            },
            why: format!(
                "because the work is not balanced: rank {rank} computed for {}, and the mean is {}",
                time(shares.work),
                time(self.mean.work)
            ),
        })
    }

    /// Tests whether the ranks spent a large part of their time on messages.
    fn handling_messages(&self) -> Option<Cause> {
        let share = self.mean.messages / self.time;
        (share >= MESSAGES_SHARE).then(|| Cause {
            advice: "Send fewer and larger messages: more items per message, or more work for each item.",
            why: format!("because the ranks spent {} of the time on messages", percent(share, 0)),
        })
    }

    /// Tests whether half of the ranks could have done the work in the same time.
    fn too_many(&self) -> Option<Cause> {
        let needed =
            (self.mean.useful() * self.ranks.len() as f64 / (BOTTLENECK_SHARE * self.time)).ceil().max(1.0);
        (needed <= 0.5 * self.ranks.len() as f64).then(|| {
            let ranks = if needed == 1.0 { "one rank".to_string() } else { format!("{needed} ranks") };
            let of = self.ranks.len();
            Cause {
                advice: "Start fewer ranks (-n), or give them more work.",
                why: format!("because there are more ranks than the work keeps busy: {ranks} could have done it, and there are {of}"),
            }
        })
    }
}

#[cfg(test)]
#[path = "diagnosis_tests.rs"]
mod tests;
