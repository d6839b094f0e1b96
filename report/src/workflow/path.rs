//! Critical path: the chain of tasks that determined the end of the run, traced from the last task back to the beginning.

use armature::observe::WaitedFor;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::run::{Run, TaskRun};
use crate::svg::{BoxStyle, StripBox, StripRow};
use crate::workflow::CAUSES;

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

/// Part of the time of a run on the critical path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Segment {
    pub(crate) begin: f64,
    pub(crate) end: f64,
    /// Attempt that ran, as an index into [`Run::tasks`]; `None` for the time between two attempts.
    pub(crate) task: Option<usize>,
    /// Name of the task, or reason of the waiting time.
    pub(crate) text: String,
}

/// Divides the time of a run into the attempts on its critical path and the waiting times before, between and after them. The segments cover the run
/// without gaps and overlaps.
pub(crate) fn segments(run: &Run, path: &[usize]) -> Vec<Segment> {
    let (mut segments, mut now) = (Vec::new(), 0.0);
    let mut add = |now: &mut f64, end: f64, task: Option<usize>, text: String| {
        let end = end.min(run.seconds);
        if end > *now {
            segments.push(Segment { begin: *now, end, task, text });
            *now = end;
        }
    };
    for &number in path {
        let task = &run.tasks[number];
        // The waits of a task are consecutive and end at its start. Those that lie before the end of the previous task did not lengthen the path.
        let waits = CAUSES
            .iter()
            .filter(|cause| cause.0 != WaitedFor::Input)
            .map(|cause| (task.waited(cause.0), cause.1));
        let waits: Vec<(f64, &str)> = waits.filter(|(waited, _)| *waited > 0.0).collect();
        let mut start = task.begin - waits.iter().map(|(waited, _)| waited).sum::<f64>();
        add(&mut now, start, None, "rank 0 and dispatch".to_string());
        for (waited, cause) in waits {
            start += waited;
            add(&mut now, start.min(task.begin), None, format!("waits for {cause}"));
        }
        add(&mut now, task.begin, None, "rank 0 and dispatch".to_string());
        add(&mut now, task.end.unwrap_or(run.seconds), Some(number), task.task.clone());
    }
    if !path.is_empty() {
        add(&mut now, run.seconds, None, "end of the run".to_string());
    }
    segments
}

/// Returns the critical path as a row of a strip chart.
pub(crate) fn row(run: &Run, path: &[usize]) -> StripRow {
    let boxes = segments(run, path).into_iter().map(|segment| StripBox {
        begin: segment.begin,
        end: segment.end,
        about: segment.task.map_or(String::new(), |number| format!("on rank {}", run.tasks[number].rank)),
        style: if segment.task.is_some() { BoxStyle::Plain } else { BoxStyle::Wait },
        text: segment.text,
    });
    StripRow { name: "critical path".into(), boxes: boxes.collect(), is_plan: false }
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
            let run = Run { seconds: last + 1.0, tasks: tasks.clone(), ..Run::default() };
            let segments = segments(&run, &path);
            prop_assert!(segments.windows(2).all(|pair| pair[0].end == pair[1].begin), "{:?}", segments);
            prop_assert_eq!((segments[0].begin, segments[segments.len() - 1].end), (0.0, run.seconds));
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
