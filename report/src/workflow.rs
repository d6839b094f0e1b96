//! Report of a workflow: its tasks by rank as planned and as they ran, its graph, its critical path, the memory of the ranks, and the waiting
//! times of tasks.

use std::collections::BTreeMap;

use armature::observe::WaitedFor;
use armature::observe::number_format::count;

use crate::page::ROWS;
use crate::run::{Run, Skeleton, TaskRun};
use crate::tables::shown_of;
use crate::units::time;

mod graph;
mod layers;
mod memory;
mod path;
mod ranks_graph;
mod tasks;

pub(crate) use graph::{Graph, graph};
pub(crate) use memory::{memories, memory};
pub(crate) use path::{critical_path, row as critical_row, segments};
pub(crate) use tasks::{Tasks, tasks};

/// Maximum number of tasks in the table of waiting times; those that waited for longest are listed.
const MAX_LISTED: usize = 20;
/// Causes for which a task waits, in the order of the columns of the tables.
const CAUSES: [(WaitedFor, &str); 4] = [
    (WaitedFor::Input, "inputs"),
    (WaitedFor::Transfer, "transfer"),
    (WaitedFor::Memory, "memory"),
    (WaitedFor::Core, "a free core"),
];

/// Waiting times on the critical path below this fraction of the run are not named.
const MIN_WAIT: f64 = 0.001;

/// Section of the report page about a workflow.
pub(crate) struct Section {
    pub(crate) path: String,
    pub(crate) graph: Option<Graph>,
    pub(crate) causes: Vec<&'static str>,
    pub(crate) ranks: Vec<(String, Vec<String>)>,
    pub(crate) ranks_of: String,
    pub(crate) longest: Vec<(String, Vec<String>)>,
    pub(crate) longest_of: String,
}

/// Returns the section of one of `runs` runs on a page; `None` if the run is not a workflow or has no tasks.
pub(crate) fn section(run: &Run, runs: usize) -> Option<Section> {
    if run.skeleton != Skeleton::Workflow {
        return None;
    }
    let path = critical_path(&run.tasks);
    if run.tasks.is_empty() {
        return None;
    }
    let mut order: Vec<&TaskRun> = run.tasks.iter().filter(|task| total_wait(task) > 0.0).collect();
    order.sort_by(|a, b| total_wait(b).total_cmp(&total_wait(a)));
    let longest_of = shown_of(order.len(), MAX_LISTED, "tasks that waited, those that waited longest");
    Some(Section {
        path: path_text(run, &path),
        graph: graph(run, &path),
        causes: CAUSES.iter().map(|cause| cause.1).collect(),
        ranks: by_rank(run, ROWS / runs.max(1)),
        ranks_of: shown_of(run.ranks.len(), ROWS / runs.max(1), "ranks"),
        longest: order.into_iter().take(MAX_LISTED).map(row).collect(),
        longest_of,
    })
}

fn total_wait(task: &TaskRun) -> f64 {
    CAUSES.iter().map(|cause| task.waited(cause.0)).sum()
}

/// Returns a description of the critical path: the time in its tasks, and the causes of waiting between them. `None` if the run has no tasks.
pub fn critical_path_text(run: &Run) -> Option<String> {
    let path = critical_path(&run.tasks);
    (!path.is_empty()).then(|| path_text(run, &path))
}

/// Describes the critical path in two sentences.
fn path_text(run: &Run, path: &[usize]) -> String {
    let (mut in_tasks, mut waits) = (0.0, BTreeMap::<String, f64>::new());
    for segment in path::segments(run, path) {
        let length = segment.end - segment.begin;
        match segment.task {
            Some(_) => in_tasks += length,
            None => *waits.entry(segment.text).or_default() += length,
        }
    }
    let mut text = format!(
        "The critical path has {}, which ran for {} of {}",
        count(path.len() as u64, "task"),
        time(in_tasks),
        time(run.seconds)
    );
    let mut waits: Vec<(String, f64)> = waits.into_iter().collect();
    waits.sort_by(|a, b| b.1.total_cmp(&a.1));
    waits.retain(|(_, waited)| *waited >= MIN_WAIT * run.seconds);
    for (n, (what, waited)) in waits.iter().enumerate() {
        text += if n == 0 { "; the rest: " } else { ", " };
        text += &format!("{what} {}", time(*waited));
    }
    text + ". Each task began when the previous one had ended, because it reads its value, or runs on the same rank."
}

/// Returns for each rank the number of its tasks and their waiting times by cause.
fn by_rank(run: &Run, most: usize) -> Vec<(String, Vec<String>)> {
    let mut sums = vec![(0u64, [0.0; CAUSES.len()]); run.ranks.len()];
    for task in &run.tasks {
        let Some((tasks, sums)) = sums.get_mut(task.rank) else { continue };
        *tasks += 1;
        sums.iter_mut().zip(&CAUSES).for_each(|(sum, cause)| *sum += task.waited(cause.0));
    }
    let row = |(rank, (tasks, sums)): (usize, &(u64, [f64; CAUSES.len()]))| {
        let cells = std::iter::once(tasks.to_string()).chain(sums.iter().map(|sum| time(*sum)));
        (rank.to_string(), cells.collect())
    };
    sums.iter().enumerate().take(most).map(row).collect()
}

fn row(task: &TaskRun) -> (String, Vec<String>) {
    let cells = std::iter::once(task.rank.to_string())
        .chain([time(task.begin)])
        .chain(CAUSES.iter().map(|cause| time(task.waited(cause.0))));
    (task.task.clone(), cells.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{HeldAt, Rank};
    use armature::observe::TaskWait;

    /// Returns a task that ran on the given rank at the given times, reads the values of other tasks, and
    /// waited `memory` seconds for memory.
    fn task(name: &str, rank: usize, (begin, end): (f64, f64), reads: &[&str], memory: f64) -> TaskRun {
        let wait = TaskWait { waited_for: WaitedFor::Memory, of: None, seconds: memory };
        TaskRun {
            task: name.into(),
            rank,
            begin,
            end: Some(end),
            reads: reads.iter().map(|name| (*name).to_string()).collect(),
            waits: if memory > 0.0 { vec![wait] } else { Vec::new() },
            ..TaskRun::default()
        }
    }

    fn run() -> Run {
        let tasks = vec![
            task("a", 0, (0.0, 2.0), &[], 0.0),
            task("b", 1, (0.0, 1.0), &[], 0.0),
            task("c", 1, (2.5, 4.0), &["a", "b"], 0.5),
            task("<d>", 0, (2.0, 3.0), &["a"], 0.0),
        ];
        let held =
            vec![HeldAt { at: 0.0, bytes: 0, most: 0 }, HeldAt { at: 2.0, bytes: 1 << 20, most: 3 << 20 }];
        let rank = Rank { held, budget: Some(4 << 20), ..Rank::default() };
        Run {
            skeleton: Skeleton::Workflow,
            seconds: 4.0,
            tasks,
            ranks: vec![rank, Rank::default()],
            ..Run::default()
        }
    }

    #[test]
    fn workflow_section_shows_critical_path_memory_and_waits() {
        let run = run();
        let section = section(&run, 1).unwrap();
        assert!(
            section.path.starts_with(
                "The critical path has 2 tasks, which ran for 3.5 s of 4 s; the rest: waits for memory 500 ms."
            ),
            "{}",
            section.path
        );
        assert_eq!(section.ranks[1].1, ["2", "0 s", "0 s", "500 ms", "0 s"]);
        assert_eq!((section.longest.len(), section.longest[0].0.as_str()), (1, "c"));
        let svg = memory(&run).unwrap();
        assert!(svg.contains(">limit<") && svg.contains(">most<"));
        let drawn = tasks(&run, &critical_path(&run.tasks), 100).unwrap().strip.svg();
        assert!(drawn.contains("&lt;d&gt;") && !drawn.contains("<d>"), "{drawn}");
        assert_eq!(drawn.matches(" crit\"").count(), 2);
        let path = critical_row(&run, &critical_path(&run.tasks));
        let texts: Vec<&str> = path.boxes.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(texts, ["a", "waits for memory", "c"]);
    }

    #[test]
    fn large_gantt_chart_draws_critical_and_longest_tasks() {
        let mut run = run();
        let many = (0..100_000).map(|n| {
            let at = f64::from(n) * 1e-5;
            task(&format!("t{n}"), n as usize % 2, (at, at + 1e-5), &[], 0.0)
        });
        run.tasks.extend(many);
        let drawn = tasks(&run, &critical_path(&run.tasks), 3000).unwrap();
        assert!(drawn.about.starts_with("Showing 3000 of "), "{}", drawn.about);
        let svg = drawn.strip.svg();
        assert!(svg.len() < 1_000_000, "{}", svg.len());
        assert!(svg.matches(" crit\"").count() >= 2);
        // If there are too many equally long tasks to draw all, the drawn ones are spread over the run.
        let boxes = drawn.strip.rows.iter().flat_map(|row| &row.boxes);
        let numbers = boxes.filter_map(|one| one.text.strip_prefix('t')?.parse::<usize>().ok());
        assert!(numbers.filter(|number| *number > 50_000).count() > 500);
    }
}
