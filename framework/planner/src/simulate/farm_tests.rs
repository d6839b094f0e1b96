//! Small farms whose times can be had by hand: 1 s a message whatever its size, 3 s a task.

use super::farm::{Dispatch, Farm, Run, Standing, Tasks};
use crate::farm::{Chunker, Chunking, Knowledge, MessageCosts, Supply};

fn knowledge() -> Knowledge {
    Knowledge { messages: MessageCosts::new(1.0, 0.0), ..Knowledge::default() }
}

/// Tasks of 3 s, one at a time.
fn run(farm: Farm, knowledge: Knowledge, tasks: usize, workers: &[usize]) -> Run {
    let tasks = Tasks::new(&vec![3.0; tasks]);
    let mut chunker = Chunker::new(Chunking::Fixed(1));
    Dispatch::new(&mut chunker, &tasks, knowledge).iteration(&farm, workers)
}

fn time(knowledge: Knowledge, tasks: usize, workers: &[usize]) -> f64 {
    run(Farm::new(knowledge), knowledge, tasks, workers).time
}

#[test]
fn a_worker_waits_for_each_chunk_unless_it_has_asked_ahead() {
    // Each chunk takes 1 + 3 + 1 s.
    assert_eq!((time(knowledge(), 1, &[0]), time(knowledge(), 3, &[0])), (5.0, 15.0));
    // Two are under way from the beginning: there at 1 and 2, done at 4 and 7, back at 5 and 8. The third is asked for
    // at 5, there at 6, begun at 7, back at 11.
    let ahead = Knowledge { ahead: 1, ..knowledge() };
    assert_eq!((time(ahead, 2, &[0]), time(ahead, 3, &[0])), (8.0, 11.0));
    // More than one ahead gains nothing here.
    assert_eq!(time(Knowledge { ahead: 2, ..knowledge() }, 3, &[0]), 11.0);
}

#[test]
fn workers_that_ask_ahead_are_served_in_turn() {
    // Sent at 1, 2, 3, 4 to workers 0, 1, 0, 1: worker 1 computes from 2 to 8.
    assert_eq!(time(Knowledge { ahead: 1, ..knowledge() }, 4, &[0, 1]), 9.0);
    // Without, worker 0 has its second chunk at 6 and worker 1 at 7: done at 10, back at 11.
    assert_eq!(time(knowledge(), 4, &[0, 1]), 11.0);
}

#[test]
fn a_master_that_computes_needs_no_messages() {
    let master = Knowledge { master: Some(0), ..knowledge() };
    // Alone, three tasks one after the other.
    assert_eq!(time(master, 3, &[0]), 9.0);
    // It does the first task until 3 and the third until 6; worker 1 the second until 4, back at 5, and the fourth,
    // which is there at 6, done at 9, back at 10.
    let run = run(Farm::new(master), master, 4, &[0, 1]);
    assert_eq!((run.time, run.busy, run.chunks), (10.0, 12.0, 4));
    assert_eq!(run.efficiency(2), 0.6);
}

#[test]
fn a_master_that_computes_inline_lets_others_wait() {
    let master = Knowledge { master: Some(0), ..knowledge() };
    let inline = Farm::new(master).with_inline_master();
    // Worker 1 is served when the master's task ends at 3: there at 4, done at 7, back at 8. The master sends until 4,
    // does the third task until 7 and the fourth until 10.
    assert_eq!(run(inline, master, 4, &[0, 1]).time, 10.0);
    // Served first, worker 1 has a task at 1 and is back at 5; the master works from 1 to 4 and from 4 to 7, and sends
    // the fourth then: there at 8, done at 11, back at 12.
    assert_eq!(run(inline, master, 4, &[1, 0]).time, 12.0);
}

#[test]
fn what_is_busy_at_first_delays_the_first_chunk() {
    let start = |knowledge: Knowledge, standing: Standing<'_>| {
        let tasks = Tasks::new(&[3.0]);
        let mut chunker = Chunker::new(Chunking::Fixed(1));
        chunker.begin(Supply::Exactly(1), &[0], &knowledge);
        Farm::new(knowledge).run_from(&standing, &mut Dispatch::new(&mut chunker, &tasks, knowledge)).time
    };
    let busy = Standing { asks: &[(0.0, 0)], port: 2.0, ..Standing::default() };
    assert_eq!(start(knowledge(), busy), 7.0);
    let master = Knowledge { master: Some(0), ..knowledge() };
    assert_eq!(start(master, busy), 3.0, "its own needs no port");
    // A worker that computes until 5 begins then, and is back at 9.
    assert_eq!(start(knowledge(), Standing { port: 0.0, free: &[(0, 5.0)], ..busy }), 9.0);
    assert_eq!(start(knowledge(), Standing::default()), 0.0, "nobody asks");
}

#[test]
fn the_same_tasks_may_be_done_again() {
    let tasks = Tasks::new(&[1.0; 20]);
    let mut chunker = Chunker::new(Chunking::Fixed(3));
    let mut dispatch = Dispatch::new(&mut chunker, &tasks, knowledge());
    let farm = Farm::new(knowledge());
    let first = dispatch.iteration(&farm, &[0, 1]);
    assert_eq!((dispatch.iteration(&farm, &[0, 1]), first.chunks), (first, 7));
    assert_eq!(dispatch.stream(&farm, &[0, 1]).busy, 20.0);
}
