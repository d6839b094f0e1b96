//! Tests of the job's time limit, and of the time and memory limits of commands that are retried.

use armature_planner::workflow::TaskMemory;
use armature_workflow_files::{Action, Description, Task};

use super::super::Master;
use super::*;
use crate::tasks::LastActivity;
use crate::workflow::graph::Graph;
use crate::workflow::messages::{Exceeded, Failure, Order, Reason, Report, TaskDone};

/// Returns a master on two ranks, with independent commands of the given kinds and described run times.
fn master(tasks: &[(&str, Option<f64>)]) -> Master {
    let mut builder = Description::builder("times");
    for (number, &(kind, run_time)) in tasks.iter().enumerate() {
        let mut task = Task::new(number.to_string(), Action::Shell("true".into()));
        (task.kind, task.run_time, task.time_limit) =
            (Some(kind.into()), run_time, Some(Duration::from_secs(5)));
        builder.task(task);
    }
    let graph = Graph::new(&builder.build().unwrap(), 3, TaskMemory::Additive).unwrap();
    Master::new(std::sync::Arc::new(graph), 2, &[], 0)
}

fn ordered(master: &mut Master) -> Vec<(usize, Order)> {
    let orders: Vec<_> = master.take_orders().collect();
    let each = |(rank, orders): (usize, crate::workflow::messages::Orders)| {
        orders.orders.into_iter().map(move |order| (rank, order)).collect::<Vec<_>>()
    };
    let mut orders: Vec<(usize, Order)> = orders.into_iter().flat_map(each).collect();
    orders.sort_by_key(|(_, order)| order.task);
    orders
}

fn done(task: usize, seconds: u64) -> Report {
    let took = seconds * 1_000_000_000;
    Report {
        done: vec![TaskDone { task, attempt: 1, bytes: 0, took, peak_memory: None }],
        ..Report::default()
    }
}

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn tasks_that_cannot_end_in_the_time_left_are_not_ordered() {
    let mut master =
        master(&[("short", Some(1.0)), ("long", Some(50.0)), ("short", Some(1.0)), ("new", None)]);
    master.ends_by(at(20), at(0));
    master.begin();
    let orders: Vec<usize> = ordered(&mut master).into_iter().map(|(_, order)| order.task).collect();
    assert_eq!(orders, [0, 2, 3], "the time of task 3 is not known");
    assert_eq!(master.check_time(at(1)), None, "ranks have orders");
    for task in [0, 2, 3] {
        let rank = (0..2).find(|&rank| master.ranks[rank].outstanding.contains(&task)).unwrap();
        master.on_report(rank, done(task, 2)).unwrap();
    }
    assert!(ordered(&mut master).is_empty() && !master.is_finished());
    let why = master.check_time(at(5)).unwrap();
    assert_eq!(why, "task \"1\" needs about 50.000 s, and 15.000 s are left");
    master.stop();
    assert!(master.is_finished() && master.is_cut());
}

#[test]
fn measured_times_correct_those_of_the_description() {
    // By their described run times (2, 2 and 8 s), all tasks can end before the limit of 20 s, so task 2 is dispatched at the start.
    let mut master = master(&[("kind", Some(2.0)), ("kind", Some(2.0)), ("kind", Some(8.0))]);
    master.ends_by(at(20), at(0));
    master.begin();
    ordered(&mut master);
    let mut began = master.ranks[0].outstanding.clone();
    began.extend(&master.ranks[1].outstanding);
    assert!(began.contains(&2), "it fits at first");
    let mut master = self::master(&[("kind", Some(2.0)), ("kind", None)]);
    master.ends_by(at(20), at(0));
    master.count_time(0, at(6));
    assert_eq!([master.run_time(0), master.run_time(1)], [Some(6.0), Some(6.0)]);
    assert!(!master.is_too_long(1));
    assert_eq!(master.check_time(at(15)), None);
    assert!(master.is_too_long(1));
    let why = master.check_time(at(15)).unwrap();
    assert_eq!(why, "task \"1\" needs about 6.000 s, and 5.000 s are left");
}

#[test]
fn without_a_time_limit_nothing_is_held_back() {
    let mut master = master(&[("long", Some(1e9))]);
    master.begin();
    assert_eq!((ordered(&mut master).len(), master.check_time(at(1))), (1, None));
}

#[test]
fn tries_get_more_of_what_they_exceeded_and_the_same_after_the_loss_of_a_rank() {
    let mut master = master(&[("kind", None)]);
    master.max_failures = 1;
    master.begin();
    let next = |master: &mut Master| ordered(master).pop().unwrap();
    let (rank, order) = next(&mut master);
    assert_eq!((order.attempt, order.exceeded), (0, Exceeded::default()));
    let failed = |reason| Failure { task: 0, attempt: 1, reason, message: "ended".into() };
    master.on_report(rank, Report { failed: vec![failed(Reason::TimeLimit)], ..Report::default() }).unwrap();
    let (rank, order) = next(&mut master);
    assert_eq!((order.attempt, order.exceeded.time(), order.exceeded.memory()), (1, 1, 0));
    assert_eq!(master.graph.time_limit(0, order.exceeded), Some(at(10)));
    if rank > 0 {
        master.on_lost(rank, LastActivity::Behind(None)).unwrap();
        let (_, same) = next(&mut master);
        assert_eq!(same.exceeded, order.exceeded, "the loss of a rank is no reason for more");
    }
}
