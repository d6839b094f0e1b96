//! One sentence on what a run spent its time on, and why.

use armature::observe::words::{percent, seconds, short};

use crate::efficiency::{Shares, shares};
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
/// The busiest rank computes for so much longer than the mean where work is not balanced.
const UNEVEN: f64 = 1.2;

/// What a diagnosis stands on.
#[derive(Debug)]
struct Facts<'r> {
    run: &'r Run,
    /// Of the ranks that took part.
    ranks: Vec<(usize, Shares)>,
    /// The mean of these.
    mean: Shares,
    /// The one that was in user code for longest.
    busiest: (usize, Shares),
}

/// One sentence, or two, on what the run spent its time on, and why.
pub fn diagnosis(run: &Run) -> String {
    let Some(facts) = Facts::of(run) else {
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

impl<'r> Facts<'r> {
    fn of(run: &'r Run) -> Option<Self> {
        let all = (0..run.ranks.len()).map(|rank| (rank, shares(run, rank, (0.0, run.seconds))));
        let ranks: Vec<(usize, Shares)> =
            all.filter(|(_, s)| s.total() > 0.0 && s.parked < 0.99 * s.total()).collect();
        let busiest = ranks.iter().copied().max_by(|a, b| a.1.work.total_cmp(&b.1.work))?;
        let n = ranks.len() as f64;
        let mean = |part: fn(&Shares) -> f64| ranks.iter().map(|(_, s)| part(s)).sum::<f64>() / n;
        let mean = Shares {
            work: mean(|s| s.work),
            lost: mean(|s| s.lost),
            idle: mean(|s| s.idle),
            parked: mean(|s| s.parked),
            other: mean(|s| s.other),
        };
        Some(Facts { run, ranks, mean, busiest })
    }

    fn sentence(&self) -> String {
        let time = self.run.seconds;
        let useful = self.mean.useful() / time;
        if useful >= GOOD {
            return format!(
                "Nothing is wrong: the ranks computed for {} of the time, and waited for {}.",
                percent(useful, 0),
                percent(self.mean.idle / time, 0)
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
            .or_else(|| self.too_many());
        let waited = format!(
            "The ranks computed for {} of the time and waited for {}",
            percent(useful, 0),
            percent((self.mean.idle + self.mean.parked) / time, 0)
        );
        match why {
            Some(why) => format!("{waited}, {why}."),
            None => format!(
                "{waited}; {} went to messages and to what the program does outside of the run, and no single cause stands out.",
                percent(self.mean.other / time, 0)
            ),
        }
    }

    fn memory(&self) -> Option<String> {
        let waited = self.run.memory_wait_s?;
        let share = waited / (self.run.seconds * self.ranks.len() as f64);
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
        if share < LOADED || shares.lost < LOADED * self.run.seconds {
            return None;
        }
        let others = self.mean.lost * self.ranks.len() as f64 - shares.lost;
        let alike = self.ranks.len() > 1 && others / (self.ranks.len() - 1) as f64 > 0.5 * shares.lost;
        Some(if alike {
            let mean = self.mean.lost / self.mean.work;
            format!("because other programs had the ranks' cores: each had {:.2} of a core", 1.0 - mean)
        } else {
            format!(
                "mostly for rank {rank}, which had {:.2} of a core, because other programs ran there",
                1.0 - share
            )
        })
    }

    /// Messages cost about as much as what they are about.
    fn short_calls(&self) -> Option<String> {
        let calls = self.run.calls()?;
        let message = self.run.message_s?;
        let share = self.mean.other / self.run.seconds;
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
        let share = (root.other + root.work) / self.run.seconds;
        let idle = self.ranks[1..].iter().map(|(_, s)| s.idle).sum::<f64>() / (self.ranks.len() - 1) as f64;
        let is_it = *rank == 0
            && root.other >= 0.5 * self.run.seconds
            && share >= FULL
            && idle >= MUCH * self.run.seconds;
        is_it.then(|| {
            format!(
                "because rank 0, which hands the work out, spent {} of its time on messages",
                percent(root.other / self.run.seconds, 0)
            )
        })
    }

    /// The rank that everybody waits for is slower than the others.
    fn slow_rank(&self) -> Option<String> {
        let (rank, shares) = self.busiest;
        if shares.work < FULL * self.run.seconds || self.ranks.len() < 2 {
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
        let busy = |kind: &&crate::run::Kind| kind.by_rank.values().map(|(_, s)| *s).fold(0.0, f64::max);
        let stage = self
            .run
            .kinds
            .iter()
            .filter(|kind| alone(&kind.name))
            .max_by(|a, b| busy(a).total_cmp(&busy(b)))?;
        let share = busy(&stage) / self.run.seconds;
        (share >= FULL).then(|| {
            format!(
                "mostly for stage {}, which one rank runs and which kept that busy for {} of the time",
                stage.name,
                percent(share, 0)
            )
        })
    }

    fn slow_link(&self) -> Option<String> {
        let mut bandwidths: Vec<f64> = self.run.links.values().map(|link| link.0).collect();
        bandwidths.extend(self.run.slowest_probed);
        bandwidths.sort_by(f64::total_cmp);
        let usual = *bandwidths.get(bandwidths.len() / 2)?;
        let ((from, to), (bandwidth, _)) = self.run.links.iter().min_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
        let bytes = self.run.ranks.get(*from).and_then(|rank| rank.sent.get(to)).map_or(0, |sent| sent.1);
        let busy = bytes as f64 / bandwidth;
        (*bandwidth < SLOW_LINK * usual && (bytes == 0 || busy >= LOADED * self.run.seconds)).then(|| {
            format!(
                "mostly for the link from rank {from} to rank {to}, which carries {}B/s where others carry {}B/s",
                short(*bandwidth),
                short(usual)
            )
        })
    }

    fn uneven(&self) -> Option<String> {
        let (rank, shares) = self.busiest;
        let is_it = shares.work >= UNEVEN * self.mean.work && shares.work >= 0.6 * self.run.seconds;
        is_it.then(|| {
            format!(
                "because the work is not balanced: rank {rank} computed for {}, and the mean is {}",
                seconds(shares.work),
                seconds(self.mean.work)
            )
        })
    }

    /// Nobody is busy enough to be waited for.
    fn too_many(&self) -> Option<String> {
        let needed =
            (self.mean.useful() * self.ranks.len() as f64 / (FULL * self.run.seconds)).ceil().max(1.0);
        (needed <= 0.5 * self.ranks.len() as f64).then(|| {
            let ranks = if needed == 1.0 { "one rank".to_string() } else { format!("{needed} ranks") };
            format!("because there are more ranks than the work keeps busy: {ranks} could have done it, and there are {}", self.ranks.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Mapping;
    use crate::run::Kind;
    use crate::situation::Situation;

    #[track_caller]
    fn says(run: &Run, expected: &str) {
        let said = diagnosis(run);
        assert!(said.contains(expected), "expected `{expected}` in: {said}");
    }

    /// A kind by what each rank did of it: how many, and in how many seconds.
    fn kind(name: &str, by_rank: &[(u64, f64)]) -> Kind {
        let seconds = by_rank.iter().map(|(_, seconds)| seconds).sum();
        let by_rank = by_rank.iter().copied().enumerate().filter(|(_, (_, s))| *s > 0.0);
        Kind { name: name.into(), done: 100, seconds, by_rank: by_rank.collect(), ..Kind::default() }
    }

    #[test]
    fn one_slow_rank() {
        let run = Situation::new(10.0).rank(5.0, 0.0).rank(5.2, 0.0).rank(9.6, 0.0).rank(5.1, 0.0);
        let run = run.with(|run| {
            run.kinds = vec![kind("task", &[(100, 5.0), (104, 5.2), (96, 9.6), (102, 5.1)])];
        });
        says(&run.run(), "mostly for rank 2, which is 0.50 times as fast as the others");
    }

    #[test]
    fn a_loaded_core() {
        let run = Situation::new(10.0).rank(5.0, 0.1).rank(5.2, 0.0).rank(9.6, 4.6).rank(5.1, 0.0).run();
        says(&run, "mostly for rank 2, which had 0.52 of a core");
        let everywhere = Situation::new(10.0).rank(9.0, 4.5).rank(9.2, 4.6).run();
        says(&everywhere, "each had 0.50 of a core");
    }

    #[test]
    fn a_slow_link() {
        let run = Situation::new(10.0).of(Skeleton::Pipeline).rank(4.0, 0.0).rank(4.0, 0.0).rank(4.0, 0.0);
        let run = run.with(|run| {
            run.links.insert((1, 2), (1e6, 1e-4));
            run.slowest_probed = Some(1e8);
            run.ranks[1].sent.insert(2, (100, 9_000_000));
        });
        says(&run.run(), "mostly for the link from rank 1 to rank 2, which carries 1000.0 kB/s");
    }

    #[test]
    fn a_serial_stage() {
        let run = Situation::new(10.0).of(Skeleton::Pipeline).rank(2.0, 0.0).rank(9.5, 0.0).rank(3.0, 0.0);
        let run = run.with(|run| {
            let mapping = Mapping::parse("read@0 | sort@1 | write@2");
            run.arrangements.push((0.0, Arrangement::Mapping(mapping)));
            run.kinds = vec![
                kind("read", &[(100, 2.0)]),
                kind("sort", &[(0, 0.0), (100, 9.5)]),
                kind("write", &[(0, 0.0), (0, 0.0), (100, 3.0)]),
            ];
        });
        says(
            &run.run(),
            "mostly for stage sort, which one rank runs and which kept that busy for 95 % of the time",
        );
    }

    #[test]
    fn too_small_chunks() {
        let run = Situation::new(10.0).busy(2.0, 0.0, 2.0).busy(3.0, 0.0, 4.0).busy(3.0, 0.0, 4.0);
        let run = run.with(|run| {
            run.kinds = vec![kind("task", &[(1_000_000, 2.0), (1_500_000, 3.0), (1_500_000, 3.0)])];
            run.kinds[0].done = 4_000_000;
            run.message_s = Some(1e-6);
        });
        says(
            &run.run(),
            "the pieces of work are too small: a call of user code takes 2.000 us, and a message 1.000 us",
        );
    }

    #[test]
    fn a_master_that_is_the_bottleneck() {
        let mut run = Situation::new(10.0).busy(0.5, 0.0, 0.5);
        for _ in 0..7 {
            run = run.rank(4.0, 0.0);
        }
        says(&run.run(), "because rank 0, which hands the work out, spent 90 % of its time on messages");
    }

    #[test]
    fn a_workflow_that_is_short_of_memory() {
        let run = Situation::new(10.0).of(Skeleton::Workflow).rank(5.0, 0.0).rank(5.0, 0.0);
        let run = run.with(|run| run.memory_wait_s = Some(8.0)).run();
        says(&run, "because tasks that could have begun waited for memory for 40 % of the time");
    }

    #[test]
    fn work_that_is_not_balanced() {
        let run = Situation::new(10.0).of(Skeleton::Loop).rank(9.5, 0.0).rank(4.0, 0.0).rank(4.5, 0.0);
        let run = run.with(|run| run.kinds = vec![kind("unit", &[(190, 9.5), (80, 4.0), (90, 4.5)])]);
        says(
            &run.run(),
            "because the work is not balanced: rank 0 computed for 9.500 s, and the mean is 6.000 s",
        );
    }

    #[test]
    fn too_many_ranks() {
        let mut run = Situation::new(10.0);
        for _ in 0..8 {
            run = run.rank(2.0, 0.0);
        }
        says(&run.run(), "2 ranks could have done it, and there are 8");
    }

    #[test]
    fn nothing_wrong() {
        let run = Situation::new(10.0).rank(9.5, 0.1).rank(9.4, 0.0).rank(9.6, 0.2).run();
        says(&run, "Nothing is wrong: the ranks computed for 94 % of the time");
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        assert!(diagnosis(&Run::default()).contains("not known, because the log has no ranks"));
        let quiet = Situation::new(10.0).rank(6.9, 0.0).rank(7.1, 0.0).run();
        says(&quiet, "no single cause stands out");
        let killed = Situation::new(10.0).rank(9.5, 0.0).with(|run| run.has_ended = false).run();
        says(&killed, "The run did not end as it should");
    }
}
