//! Parallel efficiencies as defined by POP and TALP: parallel efficiency = load balance × communication efficiency.
//!
//! Let U be the time that a rank computed on a core, N the number of ranks and T the elapsed time. The parallel efficiency is (ΣU / N) / T, the
//! load balance (ΣU / N) / max U, and the communication efficiency max U / T.

use serde::Serialize;

use crate::account::{Shares, shares};
use crate::run::Run;

/// Efficiencies of a run, or of a part of its time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Efficiencies {
    /// Name of the described part of the run: `run`, or the start and end of a phase between two changes of the distribution of work.
    pub name: String,
    /// Kind of the described part of the run.
    #[serde(skip)]
    pub extent: Extent,
    /// Start of the described part of the run, in seconds.
    pub from: f64,
    /// Length of the described part of the run, in seconds.
    pub elapsed_time: f64,
    /// Number of ranks, without those that were parked (had no work until they were woken) nearly
    /// all the time.
    pub ranks: usize,
    /// Sum of the computing times of all ranks, in seconds.
    pub useful_time: f64,
    /// Mean computing time of the ranks divided by the elapsed time.
    pub parallel_efficiency: f64,
    /// Mean computing time of the ranks divided by the longest computing time of a rank.
    pub load_balance: f64,
    /// Longest computing time of a rank divided by the elapsed time.
    pub communication_efficiency: f64,
    /// Load balance weighted by the ranks' speeds: Σ(speed × computing time) / (Σ speed × longest computing time of a rank). `None` if the speeds are
    /// not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_balance: Option<f64>,
    /// Excess of the longest computing time of a rank over the mean of all ranks, in per cent of the mean.
    pub imbalance_percent: f64,
    /// Standard deviation of the ranks' computing times divided by their mean.
    pub coefficient_of_variation: f64,
}

/// Kind of a part of a run: the whole or a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// The whole run of a pipeline, farm, loop or workflow.
    #[default]
    Run,
    /// A phase between two changes of the distribution of work.
    Phase,
}

/// Returns the efficiencies of the run between two times, or `None` if no rank recorded its activity in this time.
pub fn efficiencies(run: &Run, name: &str, (from, to): (f64, f64)) -> Option<Efficiencies> {
    let all: Vec<(usize, Shares)> = (0..run.ranks.len())
        .map(|rank| (rank, shares(run, rank, (from, to))))
        // A rank that was parked (without work until woken) nearly all the time would make the load
        // look unbalanced, so it is left out.
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
        capacity_balance,
        imbalance_percent: 100.0 * (over(most, mean) - 1.0),
        coefficient_of_variation: if mean > 0.0 { variance.sqrt() / mean } else { 0.0 },
    })
}

/// A rank that was parked (without work until woken) for more than this fraction of the time is left out of the
/// efficiencies.
const PARKED: f64 = 0.99;

/// Returns the efficiencies of the run, followed by those of its phases between changes of the distribution of work, in order of time. Of more than
/// `most` phases, the longest ones are returned. Also returns the number of all phases.
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
    let of_phase = |times: (f64, f64)| {
        let name = format!("{:.2} s to {:.2} s", times.0, times.1);
        efficiencies(run, &name, times).map(|of_phase| Efficiencies { extent: Extent::Phase, ..of_phase })
    };
    (whole.into_iter().chain(phases.into_iter().filter_map(of_phase)).collect(), count)
}

/// Returns the efficiencies as comma-separated values with a header line.
pub fn csv(rows: &[Efficiencies]) -> String {
    let mut text = String::from(
        "name,from,elapsedTime,ranks,usefulTime,parallelEfficiency,loadBalance,communicationEfficiency,capacityBalance,\
         imbalancePercent,coefficientOfVariation\n",
    );
    for e in rows {
        let known = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        text += &format!(
            "{},{},{},{},{},{},{},{},{},{},{}\n",
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
            e.coefficient_of_variation
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation::Situation;

    #[test]
    fn child_efficiencies_multiply_to_parallel_efficiency() {
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
    fn longest_phases_between_mapping_changes_are_shown() {
        let mut run = Situation::new(10.0).rank(5.0, 0.0).rank(5.0, 0.0).run();
        run.changes = vec![(1.0, "a".into()), (7.0, "b".into())];
        let (rows, count) = tree(&run, 2);
        assert_eq!(count, 3);
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["run", "1.00 s to 7.00 s", "7.00 s to 10.00 s"]);
        assert!((rows[1].useful_time - 6.0).abs() < 1e-9);
        let csv = csv(&rows);
        assert_eq!(csv.lines().count(), 4);
        assert!(csv.lines().all(|line| line.split(',').count() == 11), "{csv}");
    }

    #[test]
    fn efficiency_weights_ranks_by_known_speed() {
        let mut run = Situation::new(10.0).rank(8.0, 0.0).rank(4.0, 0.0).run();
        run.speeds = vec![0.5, 1.0];
        let balance = efficiencies(&run, "run", (0.0, 10.0)).unwrap().capacity_balance.unwrap();
        assert!((balance - 8.0 / 12.0).abs() < 1e-9, "{balance}");
    }

    #[test]
    fn parked_ranks_are_excluded_from_efficiency() {
        let run = Situation::new(10.0).rank(8.0, 0.0).parked().run();
        assert_eq!(efficiencies(&run, "run", (0.0, 10.0)).unwrap().ranks, 1);
        assert_eq!(efficiencies(&run, "run", (20.0, 30.0)), None);
    }
}
