//! Report of a workflow: its tasks by rank as planned and as they ran, its graph, its critical path, the memory of the ranks, and the waiting
//! times of tasks.

use armature::observe::WaitedFor;
use armature::observe::number_format::{count, seconds};

use crate::page::ROWS;
use crate::run::{Run, Skeleton, TaskRun};
use crate::tables::shown_of;

mod gantt;
mod graph;
mod layers;
mod memory;
mod panel;
mod path;
mod ranks_graph;

pub(crate) use gantt::{Gantt, gantt};
pub(crate) use graph::{Graph, graph};
pub(crate) use memory::{memories, memory};
pub(crate) use path::critical_path;

/// Maximum number of tasks in the table of waiting times; those that waited for longest are listed.
const MAX_LISTED: usize = 20;
/// Causes for which a task waits, in the order of the columns of the tables.
const CAUSES: [(WaitedFor, &str); 4] = [
    (WaitedFor::Input, "inputs"),
    (WaitedFor::Transfer, "transfer"),
    (WaitedFor::Memory, "memory"),
    (WaitedFor::Core, "a free core"),
];

/// Section of the report page about a workflow.
pub(crate) struct Section {
    pub(crate) gantt: Gantt,
    pub(crate) path: String,
    pub(crate) graph: Option<Graph>,
    pub(crate) memory: Vec<(String, String)>,
    pub(crate) memory_of: String,
    pub(crate) causes: Vec<&'static str>,
    pub(crate) ranks: Vec<(String, Vec<String>)>,
    pub(crate) ranks_of: String,
    pub(crate) longest: Vec<(String, Vec<String>)>,
    pub(crate) longest_of: String,
}

/// Returns the section of one of `runs` runs on a page; `None` if the run is no workflow or has no tasks.
pub(crate) fn section(run: &Run, runs: usize) -> Option<Section> {
    if run.skeleton != Skeleton::Workflow {
        return None;
    }
    let path = critical_path(&run.tasks);
    let gantt = gantt(run, &path, runs)?;
    let (memory, memory_of) = memories(run);
    let mut order: Vec<&TaskRun> = run.tasks.iter().filter(|task| total_wait(task) > 0.0).collect();
    order.sort_by(|a, b| total_wait(b).total_cmp(&total_wait(a)));
    let longest_of = shown_of(order.len(), MAX_LISTED, "tasks that waited, those that waited longest");
    Some(Section {
        gantt,
        path: path_text(run, &path),
        graph: graph(run, &path),
        memory: memory.iter().map(|chart| (chart.title.clone(), chart.svg())).collect(),
        memory_of,
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
    let mut run_time = 0.0;
    let mut waited = [0.0; CAUSES.len()];
    let mut before: Option<f64> = None;
    for &number in path {
        let task = &run.tasks[number];
        run_time += task.end.map_or(0.0, |end| (end - task.begin).max(0.0));
        // The waiting time of a task lengthens the critical path only as far as it lies after the end of the previous task of the path.
        let mut gap = before.map_or(0.0, |end| (task.begin - end).max(0.0));
        for (sum, cause) in waited.iter_mut().zip(&CAUSES).filter(|(_, cause)| cause.0 != WaitedFor::Input) {
            let part = task.waited(cause.0).min(gap);
            (*sum, gap) = (*sum + part, gap - part);
        }
        before = task.end;
    }
    let mut text = format!(
        "The critical path has {}, which ran for {} of {}",
        count(path.len() as u64, "task"),
        seconds(run_time),
        seconds(run.seconds)
    );
    for (waited, (_, cause)) in waited.iter().zip(&CAUSES).filter(|(waited, _)| **waited > 0.0) {
        text += &format!("; between them {} passed waiting for {cause}", seconds(*waited));
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
        let cells = std::iter::once(tasks.to_string()).chain(sums.iter().map(|sum| seconds(*sum)));
        (rank.to_string(), cells.collect())
    };
    sums.iter().enumerate().take(most).map(row).collect()
}

fn row(task: &TaskRun) -> (String, Vec<String>) {
    let cells = std::iter::once(task.rank.to_string())
        .chain([seconds(task.begin)])
        .chain(CAUSES.iter().map(|cause| seconds(task.waited(cause.0))));
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
                "The critical path has 2 tasks, which ran for 3.500 s of 4.000 s; between them 500.000 ms passed \
                 waiting for memory."
            ),
            "{}",
            section.path
        );
        assert_eq!(section.ranks[1].1, ["2", "0 s", "0 s", "500.000 ms", "0 s"]);
        assert_eq!((section.longest.len(), section.longest[0].0.as_str()), (1, "c"));
        assert_eq!(section.memory.len(), 1);
        assert!(section.memory[0].1.contains(">limit<") && section.memory[0].1.contains(">most<"));
        let gantt = &section.gantt.svg;
        assert!(gantt.contains("&lt;d&gt;") && !gantt.contains("<d>"), "{gantt}");
        assert_eq!(gantt.matches("class=\"box crit\"").count(), 2);
    }

    #[test]
    fn large_gantt_chart_draws_critical_and_longest_tasks() {
        let mut run = run();
        let many = (0..100_000).map(|n| {
            let at = f64::from(n) * 1e-5;
            task(&format!("t{n}"), n as usize % 2, (at, at + 1e-5), &[], 0.0)
        });
        run.tasks.extend(many);
        let section = section(&run, 1).unwrap();
        let gantt = section.gantt;
        assert!(gantt.svg.len() < 1_000_000, "{}", gantt.svg.len());
        assert!(gantt.shown.starts_with("Showing "), "{}", gantt.shown);
        assert!(gantt.svg.matches("class=\"box crit\"").count() >= 2);
        // If there are too many equally long tasks to draw all, the drawn ones are spread over the run.
        let number = |text: &str| text.split(' ').next().and_then(|number| number.parse::<usize>().ok());
        let drawn = gantt.svg.split("<title>t").filter_map(number);
        assert!(drawn.filter(|number| *number > 50_000).count() > 500);
    }
}
