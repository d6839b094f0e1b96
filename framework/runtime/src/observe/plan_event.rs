//! A plan of a workflow as the log of events has it: bounded, however many tasks there are.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::words::{count, seconds};

/// Tasks of a plan that are told. One takes some 80 bytes, and more can hardly be told apart in a picture.
const TOLD: usize = 1000;
/// Steps of memory that are told, of all ranks together, and those that a rank has at least.
const STEPS: usize = 4000;
const LEAST_STEPS: usize = 8;

/// Which rank is to run which task, and when, by the plan that is in force from now on. Times are seconds from now on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanInForce {
    /// How many tasks the plan has.
    pub tasks: u64,
    /// The longest of them, 1000 at most, in the order in which they begin.
    pub longest: Vec<PlannedTask>,
    /// By rank: from when on it is to hold how much for tasks, in bytes. Where there are many changes, several in a row are one, which
    /// tells the most of them. Empty for a plan that was made anew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Vec<(f64, u64)>>,
}

/// A task of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedTask {
    /// The task.
    pub task: String,
    /// The rank that is to run it.
    pub rank: usize,
    /// When it is to begin, in seconds.
    pub begin_s: f64,
    /// When it is to end, in seconds.
    pub end_s: f64,
}

impl PlanInForce {
    /// Of all tasks those that take longest, each as [rank, begin and end](PlannedTask), and what ranks are to hold.
    pub(crate) fn new<'t>(
        mut tasks: Vec<(usize, (usize, f64, f64))>,
        name: impl Fn(usize) -> &'t str,
        held: Vec<Vec<(f64, u64)>>,
    ) -> Self {
        let all = tasks.len() as u64;
        // Lengths that differ by less than a tenth are alike, and of tasks that are alike some from everywhere are told, and not the first.
        let length = |task: &(usize, (usize, f64, f64))| (8.0 * (task.1.2 - task.1.1).log2()).floor();
        let order = |task: &(usize, (usize, f64, f64))| task.0.reverse_bits();
        tasks.sort_by(|a, b| length(b).total_cmp(&length(a)).then(order(a).cmp(&order(b))));
        tasks.truncate(TOLD);
        tasks.sort_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let told = |(task, (rank, begin_s, end_s))| PlannedTask {
            task: name(task).to_string(),
            rank,
            begin_s,
            end_s,
        };
        let longest = tasks.into_iter().map(told).collect();
        let most = (STEPS / held.len().max(1)).max(LEAST_STEPS);
        PlanInForce { tasks: all, longest, held: held.iter().map(|steps| fewer(steps, most)).collect() }
    }
}

/// At most `most` steps: of several in a row the most.
fn fewer(steps: &[(f64, u64)], most: usize) -> Vec<(f64, u64)> {
    let groups = steps.chunks(steps.len().div_ceil(most).max(1));
    groups.filter_map(|group| Some((group.first()?.0, group.iter().map(|step| step.1).max()?))).collect()
}

impl fmt::Display for PlanInForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = self.longest.iter().map(|task| task.end_s).fold(0.0, f64::max);
        let mut ranks: Vec<usize> = self.longest.iter().map(|task| task.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let (tasks, ranks) = (count(self.tasks, "task"), count(ranks.len() as u64, "rank"));
        write!(
            f,
            "The plan in force has {tasks} on {ranks}, the longest of which end within {}.",
            seconds(ends)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_tasks_the_longest_are_told_in_order() {
        let tasks = (0..5000).map(|task| {
            let begin = (task * 7 % 5000) as f64;
            (task, (task % 4, begin, begin + task as f64))
        });
        let names: Vec<String> = (0..5000).map(|task| task.to_string()).collect();
        let plan = PlanInForce::new(tasks.collect(), |task| &names[task], Vec::new());
        assert_eq!((plan.tasks, plan.longest.len()), (5000, TOLD));
        assert!(plan.longest.iter().all(|task| task.end_s - task.begin_s >= 3600.0));
        assert!(plan.longest.windows(2).all(|two| two[0].begin_s <= two[1].begin_s));
        assert!(plan.to_string().starts_with("The plan in force has 5000 tasks on 4 ranks"), "{plan}");
    }

    #[test]
    fn of_tasks_that_are_alike_some_from_everywhere_are_told() {
        // Their lengths differ by rounding alone.
        let tasks = (0..5000).map(|task| (task, (task % 4, 0.1 * task as f64, 0.1 * task as f64 + 0.3)));
        let plan = PlanInForce::new(tasks.collect(), |_| "alike", Vec::new());
        for part in 0..10 {
            let (from, to) = (50.0 * f64::from(part), 50.0 * f64::from(part + 1));
            let told = plan.longest.iter().filter(|task| (from..to).contains(&task.begin_s)).count();
            assert!((50..200).contains(&told), "{told} of those from {from} s to {to} s");
        }
    }

    #[test]
    fn of_many_steps_none_that_is_high_is_lost() {
        let mut steps: Vec<(f64, u64)> = (0..100_000).map(|n| (f64::from(n), 5)).collect();
        steps[54_321].1 = 9;
        let plan = PlanInForce::new(Vec::new(), |_| "", vec![steps.clone(), steps[..3].to_vec()]);
        assert!(plan.held[0].len() <= STEPS / 2, "{}", plan.held[0].len());
        assert!(plan.held[0].iter().any(|step| step.1 == 9) && plan.held[0][0] == (0.0, 5));
        assert_eq!(plan.held[1], steps[..3]);
        assert_eq!(fewer(&[], LEAST_STEPS), []);
    }
}
