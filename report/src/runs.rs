//! Groups the runs of a job for a table. A row of the table is about the runs of the same kind (such as a farm) and name.

use armature::observe::number_format::percent;

use crate::efficiency::efficiencies;
use crate::head::heading;
use crate::run::Run;
use crate::units::time;

/// Runs of a job's attempt with the same skeleton and name.
pub(crate) struct RunGroup {
    pub(crate) heading: String,
    pub(crate) count: usize,
    /// Longest run of the group, as an index into the list of all runs.
    pub(crate) longest: usize,
    /// Sum, shortest, median and longest time, and the efficiency of all runs of the group together.
    pub(crate) cells: Vec<String>,
}

/// Groups the runs of a job, given with the numbers of their attempts. The group with the longest total time is first.
pub(crate) fn groups(all: &[(u32, Run)]) -> Vec<RunGroup> {
    let mut members: Vec<Vec<usize>> = Vec::new();
    for (number, (attempt, run)) in all.iter().enumerate() {
        let is_like = |its: &&mut Vec<usize>| {
            let (other_attempt, other) = &all[its[0]];
            other_attempt == attempt && other.skeleton == run.skeleton && other.name == run.name
        };
        match members.iter_mut().find(is_like) {
            Some(its) => its.push(number),
            None => members.push(vec![number]),
        }
    }
    let total = |its: &[usize]| its.iter().map(|&n| all[n].1.seconds).sum::<f64>();
    members.sort_by(|a, b| total(b).total_cmp(&total(a)));
    members.into_iter().map(|its| group(all, its)).collect()
}

fn group(all: &[(u32, Run)], mut its: Vec<usize>) -> RunGroup {
    its.sort_by(|&a, &b| all[a].1.seconds.total_cmp(&all[b].1.seconds));
    let longest = its[its.len() - 1];
    let seconds = |n: usize| all[its[n]].1.seconds;
    let of_all = its.iter().filter_map(|&n| efficiencies(&all[n].1, "run", (0.0, all[n].1.seconds)));
    let (useful, whole) =
        of_all.fold((0.0, 0.0), |sum, e| (sum.0 + e.useful_time, sum.1 + e.ranks as f64 * e.elapsed_time));
    let cells = vec![
        time(its.iter().map(|&n| all[n].1.seconds).sum()),
        time(seconds(0)),
        time(seconds(its.len() / 2)),
        time(seconds(its.len() - 1)),
        if whole > 0.0 { percent(useful / whole, 0) } else { "–".to_string() },
    ];
    RunGroup { heading: heading(&all[longest].1), count: its.len(), longest, cells }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation::Situation;

    #[test]
    fn runs_of_one_name_are_one_row() {
        let run = |name: &str, seconds: f64| {
            let run = Situation::new(seconds).rank(0.9 * seconds, 0.0).with(|run| run.name = name.into());
            (1, run.run())
        };
        let mut all: Vec<(u32, Run)> = (1..=40).map(|n| run("pull", 0.001 * f64::from(n))).collect();
        all.push(run("push", 5.0));
        let groups = groups(&all);
        assert_eq!((groups[0].heading.as_str(), groups[0].count), ("Farm push", 1));
        assert_eq!((groups[1].count, groups[1].longest), (40, 39));
        assert_eq!(groups[1].cells, ["820 ms", "1 ms", "21 ms", "40 ms", "90 %"]);
    }
}
