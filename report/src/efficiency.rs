//! Efficiencies as POP and TALP define them, as a tree: parallel efficiency = load balance × communication efficiency, and communication
//! efficiency = serialisation efficiency × transfer efficiency.
//!
//! With U the time that a rank computed (and had its core), N ranks and T the time that passed: parallel efficiency is (ΣU / N) / T, load
//! balance (ΣU / N) / max U, communication efficiency max U / T. With T_ideal, the time that would have passed if messages took no time:
//! serialisation efficiency is max U / T_ideal, transfer efficiency T_ideal / T. T_ideal comes from a [replay](crate::replay).

use serde::Serialize;

use crate::replay::{ideal_time, known_part};
use crate::run::Run;

/// Efficiencies of a run, or of a part of its time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Efficiencies {
    /// What they are of: `run`, or the phase between two changes.
    pub name: String,
    /// The same for programs.
    #[serde(skip)]
    pub extent: Extent,
    /// When that begins, in seconds.
    pub from: f64,
    /// How long it is, in seconds.
    pub elapsed_time: f64,
    /// Ranks that took part.
    pub ranks: usize,
    /// What all of them computed, in seconds.
    pub useful_time: f64,
    /// Mean time of computing over the time that passed.
    pub parallel_efficiency: f64,
    /// Mean time of computing over the longest one.
    pub load_balance: f64,
    /// Longest time of computing over the time that passed.
    pub communication_efficiency: f64,
    /// Longest time of computing over the time that would have passed if messages took no time: less than one where ranks waited for each
    /// other. `None` where the log does not have all jobs and messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serialisation_efficiency: Option<f64>,
    /// The time that would have passed if messages took no time over the time that passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_efficiency: Option<f64>,
    /// The time that would have passed if messages took no time, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ideal_time: Option<f64>,
    /// The same as the load balance for ranks of unequal speed: what they computed by their speeds, over what they would have, had each
    /// computed as long as the busiest. `None` where speeds are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_balance: Option<f64>,
    /// How much longer than the mean the busiest rank computed, in per cent of the mean.
    pub imbalance_percent: f64,
    /// Standard deviation of the ranks' times of computing over their mean.
    pub coefficient_of_variation: f64,
}

/// Which part of a run efficiencies are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    #[default]
    Run,
    /// The longest one of which the log has all jobs and messages, where that is not all.
    Recorded,
    /// Between two changes.
    Phase,
}

/// What a rank did between two times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shares {
    /// In user code, whether it had its core or not.
    pub work: f64,
    /// Of that, ready and without a core.
    pub lost: f64,
    /// Waiting, with nothing to compute.
    pub idle: f64,
    /// Parked.
    pub parked: f64,
    /// On messages, and outside of the run.
    pub other: f64,
}

impl Shares {
    /// All of it.
    pub(crate) fn total(&self) -> f64 {
        self.work + self.idle + self.parked + self.other
    }

    /// In user code, with a core.
    pub(crate) fn useful(&self) -> f64 {
        (self.work - self.lost).max(0.0)
    }
}

/// What a rank did from one time to another.
pub(crate) fn shares(run: &Run, rank: usize, (from, to): (f64, f64)) -> Shares {
    let mut sum = Shares::default();
    let Some(rank) = run.ranks.get(rank) else { return sum };
    let first = rank.parts.partition_point(|part| part.to <= from);
    for part in &rank.parts[first..] {
        if part.from() >= to {
            break;
        }
        let activity = &part.activity;
        let inside = (part.to.min(to) - part.from().max(from)).max(0.0);
        let share = if activity.seconds > 0.0 { inside / activity.seconds } else { 0.0 };
        sum.work += share * activity.work_s;
        sum.lost += share * activity.lost_s.min(activity.work_s);
        sum.idle += share * activity.idle_s;
        sum.parked += share * activity.parked_s;
        sum.other += share * activity.other_s();
    }
    sum
}

/// The efficiencies of a run between two times; `None` if no rank says what it did then.
pub fn efficiencies(run: &Run, name: &str, (from, to): (f64, f64)) -> Option<Efficiencies> {
    let all: Vec<(usize, Shares)> = (0..run.ranks.len())
        .map(|rank| (rank, shares(run, rank, (from, to))))
        // Who was parked took no part.
        .filter(|(_, shares)| shares.total() > 0.0 && shares.parked < PARKED * shares.total())
        .collect();
    let elapsed = to - from;
    if all.is_empty() || elapsed <= 0.0 {
        return None;
    }
    let useful: Vec<f64> = all.iter().map(|(_, shares)| shares.useful()).collect();
    let (sum, most) = (useful.iter().sum::<f64>(), useful.iter().copied().fold(0.0, f64::max));
    let mean = sum / useful.len() as f64;
    let over = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 1.0 };
    let variance = useful.iter().map(|u| (u - mean).powi(2)).sum::<f64>() / useful.len() as f64;
    let speeds: Option<Vec<f64>> = all.iter().map(|(rank, _)| run.speeds.get(*rank).copied()).collect();
    let capacity_balance = speeds.filter(|speeds| speeds.iter().sum::<f64>() > 0.0).map(|speeds| {
        let done: f64 = speeds.iter().zip(&useful).map(|(speed, u)| speed * u).sum();
        over(done, most * speeds.iter().sum::<f64>())
    });
    // Clocks and rounding may put it a little outside of where it must be.
    let ideal_time = ideal_time(run, (from, to)).map(|ideal| ideal.min(elapsed).max(most));
    Some(Efficiencies {
        name: name.to_string(),
        extent: Extent::Run,
        from,
        elapsed_time: elapsed,
        ranks: all.len(),
        useful_time: sum,
        parallel_efficiency: mean / elapsed,
        load_balance: over(mean, most),
        communication_efficiency: most / elapsed,
        serialisation_efficiency: ideal_time.map(|ideal| over(most, ideal)),
        transfer_efficiency: ideal_time.map(|ideal| ideal / elapsed),
        ideal_time,
        capacity_balance,
        imbalance_percent: 100.0 * (over(most, mean) - 1.0),
        coefficient_of_variation: if mean > 0.0 { variance.sqrt() / mean } else { 0.0 },
    })
}

/// A rank that is parked for more of a time than this takes no part in it.
const PARKED: f64 = 0.99;

/// The efficiencies of the run, and of the phases between changes, the longest `most` of these in order of time. Where the log does not have
/// all jobs and messages of the run, those of the longest part of which it has them come second. The second value is how many phases there
/// are.
pub fn tree(run: &Run, most: usize) -> (Vec<Efficiencies>, usize) {
    let mut borders = vec![0.0];
    borders.extend(run.changes.iter().map(|(at, _)| *at).filter(|at| *at > 0.0 && *at < run.seconds));
    borders.push(run.seconds);
    borders.dedup();
    let mut phases: Vec<(f64, f64)> = borders.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let count = phases.len();
    phases.sort_by(|a, b| (b.1 - b.0).total_cmp(&(a.1 - a.0)));
    phases.truncate(if count > 1 { most } else { 0 });
    phases.sort_by(|a, b| a.0.total_cmp(&b.0));
    let whole = efficiencies(run, "run", (0.0, run.seconds));
    let of_part = |what: &str, times: (f64, f64), extent| {
        let name = format!("{what}{:.2} s to {:.2} s", times.0, times.1);
        efficiencies(run, &name, times).map(|of_part| Efficiencies { extent, ..of_part })
    };
    let lacks_steps = whole.as_ref().is_some_and(|whole| whole.ideal_time.is_none());
    let recorded = known_part(run).filter(|_| lacks_steps);
    let recorded = recorded.and_then(|times| of_part("recorded: ", times, Extent::Recorded));
    let phases = phases.into_iter().filter_map(|times| of_part("", times, Extent::Phase));
    (whole.into_iter().chain(recorded).chain(phases).collect(), count)
}

/// Efficiencies as lines of comma-separated values, with a line of names before.
pub fn csv(rows: &[Efficiencies]) -> String {
    let mut text = String::from(
        "name,from,elapsedTime,ranks,usefulTime,parallelEfficiency,loadBalance,communicationEfficiency,capacityBalance,\
         imbalancePercent,coefficientOfVariation,serialisationEfficiency,transferEfficiency,idealTime\n",
    );
    for e in rows {
        let known = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        text += &format!(
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
            e.name,
            e.from,
            e.elapsed_time,
            e.ranks,
            e.useful_time,
            e.parallel_efficiency,
            e.load_balance,
            e.communication_efficiency,
            known(e.capacity_balance),
            e.imbalance_percent,
            e.coefficient_of_variation,
            known(e.serialisation_efficiency),
            known(e.transfer_efficiency),
            known(e.ideal_time)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation::Situation;

    #[test]
    fn the_tree_multiplies_to_its_root() {
        let run = Situation::new(10.0).rank(8.0, 0.0).rank(4.0, 0.0).rank(6.0, 1.0).run();
        let whole = efficiencies(&run, "run", (0.0, 10.0)).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(whole.parallel_efficiency, 17.0 / 30.0), "{whole:?}");
        assert!(near(whole.load_balance * whole.communication_efficiency, whole.parallel_efficiency));
        assert!(
            near(whole.communication_efficiency, 0.8)
                && near(whole.imbalance_percent, 100.0 * (24.0 / 17.0 - 1.0))
        );
    }

    #[test]
    fn phases_lie_between_changes_and_the_longest_are_shown() {
        let mut run = Situation::new(10.0).rank(5.0, 0.0).rank(5.0, 0.0).run();
        run.changes = vec![(1.0, "a".into()), (7.0, "b".into())];
        let (rows, count) = tree(&run, 2);
        assert_eq!(count, 3);
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["run", "1.00 s to 7.00 s", "7.00 s to 10.00 s"]);
        assert!((rows[1].useful_time - 6.0).abs() < 1e-9);
        let csv = csv(&rows);
        assert_eq!(csv.lines().count(), 4);
        assert!(csv.lines().all(|line| line.split(',').count() == 14), "{csv}");
    }

    #[test]
    fn fast_ranks_count_for_more_where_speeds_are_known() {
        let mut run = Situation::new(10.0).rank(8.0, 0.0).rank(4.0, 0.0).run();
        run.speeds = vec![0.5, 1.0];
        let balance = efficiencies(&run, "run", (0.0, 10.0)).unwrap().capacity_balance.unwrap();
        assert!((balance - 8.0 / 12.0).abs() < 1e-9, "{balance}");
    }

    #[test]
    fn who_is_parked_takes_no_part() {
        let run = Situation::new(10.0).rank(8.0, 0.0).parked().run();
        assert_eq!(efficiencies(&run, "run", (0.0, 10.0)).unwrap().ranks, 1);
        assert_eq!(efficiencies(&run, "run", (20.0, 30.0)), None);
    }
}
