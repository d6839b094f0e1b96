//! Tests of small simulated farms whose times can be computed by hand: a message of any size takes 1 s, a task takes 3 s.

use super::farm::{Dispatch, Farm, InitialState, Run, Tasks};
use crate::farm::{Chunker, Chunking, Knowledge, MessageCosts, Supply};

fn knowledge() -> Knowledge {
    Knowledge { messages: MessageCosts::new(1.0, 0.0), ..Knowledge::default() }
}

fn run(farm: Farm, knowledge: Knowledge, tasks: usize, workers: &[usize]) -> Run {
    let tasks = Tasks::new(&vec![3.0; tasks]);
    let mut chunker = Chunker::new(Chunking::fixed(1));
    Dispatch::new(&mut chunker, &tasks, knowledge).iteration(&farm, workers)
}

fn time(knowledge: Knowledge, tasks: usize, workers: &[usize]) -> f64 {
    run(Farm::new(knowledge), knowledge, tasks, workers).time
}

/// Returns the time of a farm in hundredths of a second, if a message takes 1 and a task 3 of them, and workers request `ahead` chunks ahead.
fn short(ahead: u32, tasks: usize, workers: &[usize]) -> f64 {
    let knowledge = Knowledge { messages: MessageCosts::new(0.01, 0.0), ahead, ..Knowledge::default() };
    let tasks = Tasks::new(&vec![0.03; tasks]);
    let mut chunker = Chunker::new(Chunking::fixed(1));
    let run = Dispatch::new(&mut chunker, &tasks, knowledge).iteration(&Farm::new(knowledge), workers);
    (100.0 * run.time).round()
}

#[test]
fn request_ahead_hides_the_chunk_latency() {
    // Each chunk takes 1 hundredth of a second to arrive, 3 to compute and 1 to return.
    assert_eq!((short(0, 1, &[0]), short(0, 3, &[0])), (5.0, 15.0));
    // With one request ahead, two chunks are sent at the beginning: they arrive at 1 and 2, end at 4 and 7, and return at 5 and 8. The third chunk is
    // requested at 5, arrives at 6, begins at 7 and returns at 11.
    assert_eq!((short(1, 2, &[0]), short(1, 3, &[0])), (8.0, 11.0));
    // A second request ahead gains nothing, because the worker is already busy all the time.
    assert_eq!(short(2, 3, &[0]), 11.0);
}

#[test]
fn requests_ahead_are_served_in_turn() {
    // With one request ahead, chunks arrive at 1, 2, 3 and 4 at workers 0, 1, 0 and 1. Worker 1 computes from 2 to 8, and its last result returns at
    // 9.
    assert_eq!(short(1, 4, &[0, 1]), 9.0);
    // Without requests ahead, the second chunks of the workers arrive at 6 and 7; the last chunk ends at 10 and returns at 11.
    assert_eq!(short(0, 4, &[0, 1]), 11.0);
}

#[test]
fn workers_with_long_chunks_get_no_further_chunk() {
    // A task takes 3 s, so that requests ahead have no effect.
    let ahead = Knowledge { ahead: 1, ..knowledge() };
    assert_eq!(time(ahead, 3, &[0]), time(knowledge(), 3, &[0]));
}

#[test]
fn computing_master_needs_no_messages() {
    let master = Knowledge { master: Some(0), ..knowledge() };
    // A master without workers runs its three tasks one after the other, without messages.
    assert_eq!(time(master, 3, &[0]), 9.0);
    // The master runs the first task until 3 s and the third until 6 s. Worker 1 runs the second task until 4 s, whose result returns at 5 s, and the
    // fourth task, which arrives at 6 s, ends at 9 s and returns at 10 s.
    let run = run(Farm::new(master), master, 4, &[0, 1]);
    assert_eq!((run.time, run.busy, run.chunks), (10.0, 12.0, 4));
    assert_eq!(run.efficiency(2), 0.6);
}

#[test]
fn inline_master_delays_other_workers() {
    let master = Knowledge { master: Some(0), ..knowledge() };
    let inline = Farm::new(master).with_inline_master();
    // The thread that serves requests also computes. Worker 1 is served when the master's first task ends at 3 s: its task arrives at 4 s, ends at 7
    // s and returns at 8 s. The master sends until 4 s, runs the third task until 7 s and the fourth task until 10 s.
    assert_eq!(run(inline, master, 4, &[0, 1]).time, 10.0);
    // Worker 1 is served first, receives a task at 1 s and returns its result at 5 s. The master computes from 1 s to 4 s and from 4 s to 7 s, then
    // sends the fourth task, which arrives at 8 s, ends at 11 s and returns at 12 s.
    assert_eq!(run(inline, master, 4, &[1, 0]).time, 12.0);
}

#[test]
fn initially_busy_resources_delay_the_first_chunk() {
    let start = |knowledge: Knowledge, initial_state: InitialState<'_>| {
        let tasks = Tasks::new(&[3.0]);
        let mut chunker = Chunker::new(Chunking::fixed(1));
        chunker.begin(Supply::Exactly(1), &[0], &knowledge);
        Farm::new(knowledge)
            .run_from(&initial_state, &mut Dispatch::new(&mut chunker, &tasks, knowledge))
            .time
    };
    let busy = InitialState { requests: &[(0.0, 0)], port: 2.0, ..InitialState::default() };
    assert_eq!(start(knowledge(), busy), 7.0);
    let master = Knowledge { master: Some(0), ..knowledge() };
    assert_eq!(start(master, busy), 3.0, "its own needs no port");
    // A worker that is busy until 5 s begins its chunk at 5 s, and the result returns at 9 s.
    assert_eq!(start(knowledge(), InitialState { port: 0.0, free: &[(0, 5.0)], ..busy }), 9.0);
    assert_eq!(start(knowledge(), InitialState::default()), 0.0, "nobody asks");
}

#[test]
fn iterations_repeat_the_same_tasks() {
    let tasks = Tasks::new(&[1.0; 20]);
    let mut chunker = Chunker::new(Chunking::fixed(3));
    let mut dispatch = Dispatch::new(&mut chunker, &tasks, knowledge());
    let farm = Farm::new(knowledge());
    let first = dispatch.iteration(&farm, &[0, 1]);
    assert_eq!((dispatch.iteration(&farm, &[0, 1]), first.chunks), (first, 7));
    assert_eq!(dispatch.stream(&farm, &[0, 1]).busy, 20.0);
}
