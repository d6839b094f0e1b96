//! Tests of announcements (a rank learns which tasks it will run later) and of recalls (a rank returns tasks that it has not begun).

use std::collections::BTreeMap;
use std::sync::Arc;

use armature_planner::workflow::TaskMemory;
use armature_workflow_files::{Action, Description, Task};

use super::{Master, State};
use crate::workflow::graph::Graph;
use crate::workflow::messages::{Content, Orders, Report, TaskDone};
use crate::workflow::recorder::Recorder;
use crate::workflow::worker::{Settings, WorkflowWorker};

/// Returns a workflow with a chain of tasks on rank 0, and a task on rank 1 that reads the first and the last output of the chain.
fn chain() -> (Arc<Graph>, Master) {
    let mut builder = Description::builder("chain");
    for name in ["0", "1", "2", "3", "4", "reads"] {
        builder.task(Task::new(name, Action::Closure("c".into())));
    }
    for (from, to) in [("0", "1"), ("1", "2"), ("2", "3"), ("3", "4"), ("0", "reads"), ("4", "reads")] {
        builder.edge(from, to, 10);
    }
    let graph = Arc::new(Graph::new(&builder.build().unwrap(), 2, TaskMemory::Additive).unwrap());
    let mut master = Master::new(graph.clone(), 2, &[], 0);
    master.plan(&[0, 0, 0, 0, 0, 1], graph.dag.topological_order());
    master.begin();
    (graph, master)
}

fn orders_of(master: &mut Master, rank: usize) -> Orders {
    master.take_orders().filter(|(to, _)| *to == rank).map(|(_, orders)| orders).next().unwrap_or_default()
}

#[test]
fn inputs_are_requested_before_the_last_parent_is_ordered() {
    let (graph, mut master) = chain();
    let orders = orders_of(&mut master, 1);
    assert!(master.tasks[4].state == State::Waiting && master.tasks[5].state == State::Waiting);
    let [order] = &orders.orders[..] else { panic!("{orders:?}") };
    assert!(order.task == 5 && order.is_announced && order.sources == [0, 0], "{order:?}");
    let settings = Settings { budget: u64::MAX, collects: false, journals: false };
    let (mut worker, mut to) = (WorkflowWorker::new(1, graph, settings), Recorder::new(1, 2));
    worker.on_orders(orders, &mut to.out()).unwrap();
    worker.send_request(&mut to.out()).unwrap();
    let messages = to.take();
    let [(_, 0, Content::Want(wanted))] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!(wanted.iter().map(|(task, _)| *task).collect::<Vec<_>>(), [0, 4]);
    assert!(worker.next(&mut to.out()).unwrap().is_none(), "it is not to begin");
    for task in 0..5 {
        let done = TaskDone { task, attempt: 0, bytes: 8, took: 5_000_000, peak_memory: None };
        master.on_report(0, Report { done: vec![done], ..Report::default() }).unwrap();
    }
    let orders = orders_of(&mut master, 1);
    assert!(orders.cancelled.is_empty() && !orders.orders[0].is_announced, "{orders:?}");
    assert_eq!(master.ranks[1].announced, 0);
}

#[test]
fn announcements_are_cancelled_without_a_plan() {
    let (_, mut master) = chain();
    orders_of(&mut master, 1);
    master.take_announcements_back();
    assert_eq!(orders_of(&mut master, 1).cancelled, [5]);
    assert_eq!(master.tasks[5].announced_to, None);
}

const LONG: u64 = 1_000_000_000;

fn done(task: usize, took: u64) -> Report {
    let done = TaskDone { task, attempt: 0, bytes: 8, took, peak_memory: None };
    Report { done: vec![done], ..Report::default() }
}

/// Returns the master of a workflow with one parent task and three children, on three ranks that each run `at_once` tasks at a time.
fn fan(at_once: usize) -> Master {
    let mut builder = Description::builder("fan");
    for name in ["parent", "a", "b", "c"] {
        builder.task(Task::new(name, Action::Closure("c".into())));
    }
    for child in ["a", "b", "c"] {
        builder.edge("parent", child, 10);
    }
    let graph = Arc::new(Graph::new(&builder.build().unwrap(), 1, TaskMemory::Additive).unwrap());
    let mut master = Master::new(graph, 3, &[], 0);
    master.run_several(at_once);
    master.begin();
    master
}

fn all_orders(master: &mut Master) -> BTreeMap<usize, Orders> {
    master.take_orders().collect()
}

fn ordered(orders: &Orders) -> Vec<usize> {
    orders.orders.iter().map(|order| order.task).collect()
}

#[test]
fn long_tasks_of_one_parent_run_on_all_ranks() {
    let mut master = fan(2);
    assert_eq!(ordered(&all_orders(&mut master)[&0]), [0, 1, 2, 3], "ahead, where their input will be");
    master.on_report(0, done(0, LONG)).unwrap();
    let requested = all_orders(&mut master);
    assert_eq!(requested[&0].recalled, [3], "two run there at once");
    master.on_report(0, Report { returned: vec![3], ..Report::default() }).unwrap();
    assert_eq!(ordered(&all_orders(&mut master)[&1]), [3]);
    assert_eq!(master.tasks[3].state, State::Dispatched(1));
}

#[test]
fn unordered_tasks_go_to_the_least_loaded_ranks() {
    let mut master = fan(1);
    assert_eq!(ordered(&all_orders(&mut master)[&0]), [0, 1]);
    master.on_report(0, done(0, LONG)).unwrap();
    let result = all_orders(&mut master);
    assert_eq!((ordered(&result[&1]), ordered(&result[&2])), (vec![2], vec![3]));
    assert!(result.values().all(|orders| orders.recalled.is_empty()), "{result:?}");
}

#[test]
fn task_is_recalled_once_and_may_have_begun() {
    let mut master = fan(2);
    all_orders(&mut master);
    master.on_report(0, done(0, LONG)).unwrap();
    assert_eq!(all_orders(&mut master)[&0].recalled, [3]);
    // Rank 0 has begun task 3, so it does not return the task although it was asked to.
    for task in [1, 3, 2] {
        master.on_report(0, done(task, LONG)).unwrap();
        assert!(all_orders(&mut master).values().all(|orders| orders.recalled.is_empty()));
    }
    assert!(master.is_finished());
}

#[test]
fn short_tasks_are_not_recalled() {
    let mut master = fan(2);
    all_orders(&mut master);
    master.on_report(0, done(0, 1_000)).unwrap();
    assert!(all_orders(&mut master).values().all(|orders| orders.recalled.is_empty()));
}

#[test]
fn stopped_run_recalls_all_orders_and_waits_for_begun_tasks() {
    let mut master = fan(2);
    all_orders(&mut master);
    master.stop();
    assert_eq!(all_orders(&mut master)[&0].recalled, [0, 1, 2, 3]);
    master.on_report(0, Report { returned: vec![1, 2, 3], ..Report::default() }).unwrap();
    assert!(!master.is_finished(), "task 0 has begun");
    master.on_report(0, done(0, LONG)).unwrap();
    assert!(master.is_finished() && master.is_cut());
    assert!(all_orders(&mut master).values().all(|orders| orders.orders.is_empty()));
    assert_eq!(master.progress(), (1, 4));
    master.stop();
    assert!(all_orders(&mut master).is_empty());
}

#[test]
fn stopped_run_is_truncated_only_if_incomplete() {
    let mut master = fan(2);
    master.stop();
    assert!(master.is_finished() && master.is_cut());
    assert!(
        all_orders(&mut master).values().all(|orders| orders.orders.is_empty() && orders.recalled.is_empty())
    );
    let mut master = fan(4);
    all_orders(&mut master);
    for task in 0..4 {
        master.on_report(0, done(task, 1_000)).unwrap();
    }
    master.stop();
    assert!(master.is_finished() && !master.is_cut());
}
