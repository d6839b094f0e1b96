//! Event that records the plan of a workflow. The size of the event is bounded for any number of tasks.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::number_format::{count, seconds};

/// Maximum number of a plan's tasks that are logged. A task takes about 80 bytes in the log, and a chart cannot show more tasks distinctly.
const TOLD: usize = 1000;
/// Maximum number of changes of the planned memory use that are logged, over all ranks. At least [`LEAST_STEPS`] changes of each rank are logged.
const STEPS: usize = 4000;
const LEAST_STEPS: usize = 8;

/// Plan of a workflow that takes effect: the rank and the time of each task. Times are in seconds from now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanInForce {
    /// Number of tasks of the plan.
    pub tasks: u64,
    /// Longest tasks of the plan, at most 1000, in order of their start.
    pub longest: Vec<PlannedTask>,
    /// Planned memory use of each rank, as pairs of a time and a number of bytes; each pair holds until the next one. If there are too many changes,
    /// successive changes are merged into their maximum. Empty for a plan that was computed during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Vec<(f64, u64)>>,
}

/// Task of a workflow, with its rank and times in a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedTask {
    /// Name of the planned task.
    pub task: String,
    /// Rank that is to run the task.
    pub rank: usize,
    /// Planned start of the task, in seconds after this event.
    pub begin_s: f64,
    /// Planned end of the task, in seconds after this event.
    pub end_s: f64,
}

impl PlanInForce {
    /// Creates the event from the rank, start and end of each task in the plan, and the planned memory of each rank. Only the longest tasks are kept.
    pub(crate) fn new<'t>(
        mut tasks: Vec<(usize, (usize, f64, f64))>,
        name: impl Fn(usize) -> &'t str,
        held: Vec<Vec<(f64, u64)>>,
    ) -> Self {
        let all = tasks.len() as u64;
        // Tasks are sorted by duration in classes that differ by about a tenth. Within a class they are sorted by bit-reversed number, so that
        // the kept tasks are spread over the workflow.
        let length = |task: &(usize, (usize, f64, f64))| (8.0 * (task.1.2 - task.1.1).log2()).floor();
        let order = |task: &(usize, (usize, f64, f64))| task.0.reverse_bits();
        tasks.sort_by(|a, b| length(b).total_cmp(&length(a)).then(order(a).cmp(&order(b))));
        tasks.truncate(TOLD);
        tasks.sort_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let planned_task = |(task, (rank, begin_s, end_s))| PlannedTask {
            task: name(task).to_string(),
            rank,
            begin_s,
            end_s,
        };
        let longest = tasks.into_iter().map(planned_task).collect();
        let most = (STEPS / held.len().max(1)).max(LEAST_STEPS);
        PlanInForce { tasks: all, longest, held: held.iter().map(|steps| fewer(steps, most)).collect() }
    }
}

/// Reduces `steps`, a function of time, to at most `most` steps. Each new step has the maximum of the steps that it replaces.
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
            "The plan in effect has {tasks} on {ranks}; the longest tasks end within {}.",
            seconds(ends)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_of_many_tasks_are_listed_in_order() {
        let tasks = (0..5000).map(|task| {
            let begin = (task * 7 % 5000) as f64;
            (task, (task % 4, begin, begin + task as f64))
        });
        let names: Vec<String> = (0..5000).map(|task| task.to_string()).collect();
        let plan = PlanInForce::new(tasks.collect(), |task| &names[task], Vec::new());
        assert_eq!((plan.tasks, plan.longest.len()), (5000, TOLD));
        assert!(plan.longest.iter().all(|task| task.end_s - task.begin_s >= 3600.0));
        assert!(plan.longest.windows(2).all(|two| two[0].begin_s <= two[1].begin_s));
        assert!(plan.to_string().starts_with("The plan in effect has 5000 tasks on 4 ranks"), "{plan}");
    }

    #[test]
    fn equal_tasks_are_sampled_from_the_whole_plan() {
        // The tasks have equal durations except for rounding errors, so the kept tasks must be spread over the whole workflow.
        let tasks = (0..5000).map(|task| (task, (task % 4, 0.1 * task as f64, 0.1 * task as f64 + 0.3)));
        let plan = PlanInForce::new(tasks.collect(), |_| "alike", Vec::new());
        for part in 0..10 {
            let (from, to) = (50.0 * f64::from(part), 50.0 * f64::from(part + 1));
            let number = plan.longest.iter().filter(|task| (from..to).contains(&task.begin_s)).count();
            assert!((50..200).contains(&number), "{number} of those from {from} s to {to} s");
        }
    }

    #[test]
    fn thinned_memory_steps_keep_their_peaks() {
        let mut steps: Vec<(f64, u64)> = (0..100_000).map(|n| (f64::from(n), 5)).collect();
        steps[54_321].1 = 9;
        let plan = PlanInForce::new(Vec::new(), |_| "", vec![steps.clone(), steps[..3].to_vec()]);
        assert!(plan.held[0].len() <= STEPS / 2, "{}", plan.held[0].len());
        assert!(plan.held[0].iter().any(|step| step.1 == 9) && plan.held[0][0] == (0.0, 5));
        assert_eq!(plan.held[1], steps[..3]);
        assert_eq!(fewer(&[], LEAST_STEPS), []);
    }
}
