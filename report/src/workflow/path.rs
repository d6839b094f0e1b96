//! Critical path: the chain of tasks that determined the end of the run, traced from the last task back to the beginning.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::run::TaskRun;

/// Difference in seconds up to which two times of events on one rank count as equal.
const TIME_TOLERANCE: f64 = 1e-6;

/// Returns the attempts on the critical path in order of time, as indices into `tasks`. The predecessor of an attempt is the one that ended last
/// among the tasks whose values it reads and the attempts that its rank had run before.
pub(crate) fn critical_path(tasks: &[TaskRun]) -> Vec<usize> {
    let ended = || tasks.iter().enumerate().filter_map(|(number, task)| Some((number, task, task.end?)));
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    let mut by_rank: BTreeMap<usize, Vec<(f64, usize)>> = BTreeMap::new();
    for (number, task, end) in ended() {
        by_rank.entry(task.rank).or_default().push((end, number));
        if task.failure.is_none() {
            by_name.insert(&task.task, number);
        }
    }
    by_rank.values_mut().for_each(|ends| ends.sort_by(|a, b| a.0.total_cmp(&b.0)));
    let end = |number: usize| tasks[number].end.unwrap_or(f64::NEG_INFINITY);
    let Some((last, _, _)) = ended().max_by(|a, b| a.2.total_cmp(&b.2)) else { return Vec::new() };
    let (mut path, mut seen, mut number) = (vec![last], HashSet::from([last]), last);
    loop {
        let task = &tasks[number];
        let reads = task.reads.iter().filter_map(|name| by_name.get(name.as_str()).copied());
        let ends = by_rank.get(&task.rank).map_or(&[][..], Vec::as_slice);
        let before = ends.partition_point(|(end, _)| *end <= task.begin + TIME_TOLERANCE);
        let on_rank =
            ends[..before].iter().rev().map(|(_, number)| *number).find(|number| !seen.contains(number));
        let next = reads
            .chain(on_rank)
            .filter(|number| !seen.contains(number))
            .max_by(|&a, &b| end(a).total_cmp(&end(b)));
        let Some(next) = next else { break };
        seen.insert(next);
        path.push(next);
        number = next;
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any log, even a contradictory one, gives a path that visits no attempt twice and ends with the last task. If no task begins before the end
        /// of the tasks that it reads from, the times on the path do not overlap.
        #[test]
        fn critical_path_has_no_repeats_and_ends_with_the_last_task(spec in proptest::collection::vec((0..4usize, 0..100u32, 0..20u32, 0..40usize), 1..40), sane: bool) {
            let mut tasks: Vec<TaskRun> = Vec::new();
            let mut free = [0.0f64; 4];
            for (n, (rank, at, took, reads)) in spec.into_iter().enumerate() {
                let parent = (reads < n).then_some(reads);
                let mut begin = f64::from(at);
                if sane {
                    begin = begin.max(free[rank]).max(parent.and_then(|p| tasks[p].end).unwrap_or(0.0));
                }
                let end = begin + f64::from(took);
                free[rank] = end;
                let reads = parent.map(|p| p.to_string()).into_iter().collect();
                tasks.push(TaskRun { task: n.to_string(), rank, begin, end: Some(end), reads, ..TaskRun::default() });
            }
            let path = critical_path(&tasks);
            let last = tasks.iter().filter_map(|task| task.end).fold(0.0, f64::max);
            prop_assert_eq!(tasks[*path.last().unwrap()].end, Some(last));
            let mut once = path.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), path.len());
            if sane {
                prop_assert!(path.windows(2).all(|pair| tasks[pair[0]].end.unwrap() <= tasks[pair[1]].begin + TIME_TOLERANCE));
            }
        }
    }

    #[test]
    fn critical_path_of_one_rank_has_all_its_tasks() {
        let task = |n: usize| TaskRun {
            task: n.to_string(),
            begin: n as f64,
            end: Some((n + 1) as f64),
            reads: if n % 3 == 2 { vec![(n / 2).to_string()] } else { Vec::new() },
            ..TaskRun::default()
        };
        let tasks: Vec<TaskRun> = (0..20).map(task).collect();
        assert_eq!(critical_path(&tasks), (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn unfinished_tasks_are_not_on_the_critical_path() {
        assert_eq!(critical_path(&[TaskRun::default()]), Vec::<usize>::new());
        assert_eq!(critical_path(&[]), Vec::<usize>::new());
    }
}
