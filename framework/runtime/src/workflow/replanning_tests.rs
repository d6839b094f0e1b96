//! Tests of replanning during a run: when a plan is replaced, which measurements are used, and that every task is run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::workflow::{Situation, TaskMemory, plan_rest};
use armature_workflow_files::{Action, Description, Task};

use super::graph::Graph;
use super::machine_tests::{SETTING, Setting, clusters, play};
use super::master::{Change, Master};
use super::messages::{Report, TaskDone};
use crate::tasks::LastActivity;

fn graph(tasks: usize) -> Arc<Graph> {
    let mut builder = Description::builder("equal");
    for number in 0..tasks {
        let mut task = Task::new(number.to_string(), Action::Closure("c".into()));
        task.run_time = Some(1.0);
        builder.task(task);
    }
    Arc::new(Graph::new(&builder.build().unwrap(), 3, TaskMemory::Additive).unwrap())
}

/// Simulated run: a master with a plan, ranks that run one task at a time, and a planner that takes the time `planning`.
struct Run {
    master: Master,
    graph: Arc<Graph>,
    /// By rank: run time of each task, queue of dispatched tasks, and time at which the running task ends.
    takes: Vec<Duration>,
    queues: Vec<VecDeque<usize>>,
    ends: Vec<Option<Duration>>,
    planning: Duration,
    requested: Vec<(Duration, String)>,
    changes: Vec<Change>,
}

const SECOND: Duration = Duration::from_secs(1);

impl Run {
    fn new(tasks: usize, takes: &[Duration], planning: Duration) -> Self {
        Run::without(&[], tasks, takes, planning)
    }

    fn without(lost: &[usize], tasks: usize, takes: &[Duration], planning: Duration) -> Self {
        let graph = graph(tasks);
        let clusters = clusters(takes.len(), 1 << 20);
        let start = Situation::new(&graph.dag, &clusters.in_memory);
        let plan = plan_rest(&graph.dag, &clusters.in_memory, &start, TaskMemory::Additive).unwrap();
        let mut master = Master::new(graph.clone(), takes.len(), lost, 0);
        master.has_planned(plan, clusters, planning, Duration::ZERO);
        master.begin();
        Run {
            master,
            graph,
            takes: takes.to_vec(),
            queues: vec![VecDeque::new(); takes.len()],
            ends: vec![None; takes.len()],
            planning,
            requested: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Simulates the run until all tasks have ended, and returns the time of the end. If `plans` is true, new plans are requested when the master has
    /// a reason to replace the plan.
    fn until_over(mut self, plans: bool, death: Option<(Duration, usize)>) -> (Duration, Self) {
        let mut now = Duration::ZERO;
        let mut death = death;
        while !self.master.is_finished() {
            if let Some((_, rank)) = death.take_if(|(at, _)| *at <= now) {
                self.master.on_lost(rank, LastActivity::Innocent).unwrap();
                (self.queues[rank], self.ends[rank]) = (VecDeque::new(), None);
            }
            if plans && let Some((cause, request)) = self.master.replan_question(now) {
                self.requested.push((now, cause.to_string()));
                let found = request.answer(&self.graph.dag);
                self.changes.push(self.master.on_replanned(found, self.planning, now));
            }
            for (rank, orders) in self.master.take_orders() {
                self.queues[rank].extend(orders.orders.iter().map(|order| order.task));
            }
            for rank in 0..self.takes.len() {
                if self.ends[rank].is_none() && !self.queues[rank].is_empty() {
                    self.ends[rank] = Some(now + self.takes[rank]);
                }
            }
            let ends = self.ends.iter().enumerate().filter_map(|(rank, end)| Some(((*end)?, rank)));
            let (end, rank) = ends.min().expect("somebody has something to do");
            now = end;
            self.ends[rank] = None;
            let task = self.queues[rank].pop_front().expect("it ran");
            let took = self.takes[rank].as_nanos() as u64;
            let done = TaskDone { task, attempt: 0, bytes: 0, took, peak_memory: None };
            self.master.on_report(rank, Report { done: vec![done], ..Default::default() }).unwrap();
        }
        (now, self)
    }
}

#[test]
fn unexpectedly_slow_rank_gets_less_work() {
    let takes = [SECOND, 4 * SECOND];
    let (kept, _) = Run::new(60, &takes, SECOND / 100).until_over(false, None);
    assert_eq!(kept, 30 * takes[1]);
    let (anew, run) = Run::new(60, &takes, SECOND / 100).until_over(true, None);
    // Rank 0 takes 1 s per task and rank 1 takes 4 s, together 1.25 tasks per second. If the planner knew the speeds, 60 tasks would end after 48 s.
    assert!(anew < 60 * SECOND, "{anew:?} {:?}", run.requested);
    assert!(run.changes.iter().any(|change| matches!(change, Change::Fresh(_))), "{:?}", run.changes);
    assert!(run.requested[0].1.ends_with(" times the assumed value"), "{:?}", run.requested);
}

#[test]
fn no_replanning_without_deviation() {
    let (end, run) = Run::new(60, &[SECOND; 3], SECOND / 100).until_over(true, None);
    assert_eq!((end, run.requested, run.changes), (20 * SECOND, vec![], vec![]));
}

#[test]
fn replanning_time_is_limited_to_one_percent() {
    let takes = [SECOND, 4 * SECOND];
    let (_, run) = Run::new(60, &takes, 4 * SECOND / 100).until_over(true, None);
    assert!(
        run.requested.iter().all(|(at, _)| *at >= 4 * SECOND) && !run.requested.is_empty(),
        "{:?}",
        run.requested
    );
    for (earlier, later) in run.requested.iter().zip(&run.requested[1..]) {
        assert!(later.0 >= earlier.0 + 4 * SECOND, "{:?}", run.requested);
    }
    let (end, run) = Run::new(60, &takes, 10 * SECOND).until_over(true, None);
    assert_eq!((end, run.requested), (30 * takes[1], vec![]));
}

#[test]
fn survivors_are_replanned_after_a_rank_loss() {
    let (end, run) = Run::new(60, &[SECOND; 3], SECOND / 100).until_over(true, Some((9 * SECOND, 1)));
    assert_eq!(run.requested[0].1, "rank 1 is lost");
    assert!(matches!(run.changes[0], Change::Fresh(_)), "{:?}", run.changes);
    // The dead rank's completed tasks are not repeated, because no task reads their outputs. After 9 s, 36 tasks remain for two ranks.
    assert!(end <= 28 * SECOND, "{end:?}");
}

#[test]
fn first_plan_with_a_dead_rank_is_replaced() {
    let (end, run) = Run::without(&[1], 60, &[SECOND; 3], SECOND / 100).until_over(true, None);
    assert_eq!((end, run.requested[0].1.as_str()), (30 * SECOND, "rank 1 is lost"));
    let (end, _) = Run::without(&[1], 60, &[SECOND; 3], SECOND / 100).until_over(false, None);
    assert_eq!(end, 30 * SECOND, "without another plan they take what there is");
}

#[test]
fn plan_for_a_meanwhile_lost_rank_is_discarded() {
    let mut run = Run::new(60, &[SECOND; 3], SECOND / 100);
    run.master.on_lost(2, LastActivity::Innocent).unwrap();
    let (_, first) = run.master.replan_question(SECOND).expect("a rank is lost");
    assert!(run.master.replan_question(SECOND).is_none(), "it has been asked");
    let found = first.answer(&run.graph.dag);
    run.master.on_lost(1, LastActivity::Innocent).unwrap();
    assert_eq!(run.master.on_replanned(found, SECOND / 100, SECOND), Change::None);
    let (cause, second) = run.master.replan_question(SECOND).expect("another one is lost");
    let found = second.answer(&run.graph.dag);
    let change = run.master.on_replanned(found, SECOND / 100, SECOND);
    assert!(cause.to_string() == "rank 1 is lost" && matches!(change, Change::Fresh(_)), "{change:?}");
}

#[test]
fn replanning_at_any_time_loses_no_tasks() {
    let mut fresh = 0;
    for seed in 0..16 {
        for ranks in 2..=4 {
            let (is_tight, limit) = (seed % 2 == 1, seed % 3 == 0);
            let deaths = if seed % 4 < 2 { 0 } else { 2 };
            let world = play(Setting { seed, ranks, is_tight, limit, deaths, is_replanned: true, ..SETTING });
            assert!(deaths > 0 || world.runs.iter().all(|&runs| runs == 1), "{:?}", world.runs);
            fresh += world.changes.iter().filter(|change| matches!(change, Change::Fresh(_))).count();
        }
    }
    assert!(fresh > 40, "{fresh} plans");
}
