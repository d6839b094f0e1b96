//! Tests of second copies: which late chunks of tasks are sent to which idle workers, also in a simulated farm in which a rank becomes slow near the
//! end.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::farm::{ChunkDone, Chunker, Chunking, Knowledge, Published, Supply};

fn held(id: u64, worker: usize, tasks: u64, running_for: Option<f64>) -> HeldChunk {
    HeldChunk { id, worker, tasks, running_for, copyable: true }
}

#[test]
fn the_chunk_that_gains_most_goes_to_the_fastest_idle_worker() {
    let pace = |rank: usize| Some([1.0, 10.0, 10.0, 1.0, 2.0][rank]);
    let chunks = [held(1, 1, 2, Some(0.0)), held(2, 2, 3, Some(0.0))];
    assert_eq!(second_copies(&chunks, &[4, 3], pace, 0.0), [(2, 3), (1, 4)]);
    assert_eq!(second_copies(&chunks, &[3], pace, 0.0), [(2, 3)]);
    assert_eq!(second_copies(&chunks, &[3, 4], pace, 50.0), [], "messages take longer");
    let copied = [HeldChunk { copyable: false, ..chunks[1] }];
    assert_eq!(second_copies(&copied, &[3, 4], pace, 0.0), []);
}

#[test]
fn a_chunk_behind_another_one_waits_for_it() {
    let pace = |_: usize| Some(1.0);
    let chunks = [held(1, 1, 5, Some(1.0)), held(2, 1, 2, None), held(3, 1, 2, None)];
    // At 1 s per task, worker 1 completes its chunks after 4, 6 and 8 more seconds. The idle workers receive copies of the last two chunks.
    assert_eq!(second_copies(&chunks, &[2, 3, 4], pace, 0.5), [(3, 2), (2, 3)]);
    let begun = [HeldChunk { copyable: false, ..chunks[0] }, chunks[1]];
    assert_eq!(second_copies(&begun, &[2], pace, 0.5), [(2, 2)]);
}

#[test]
fn a_late_chunk_is_copied_when_it_is_later_than_a_copy_takes() {
    let pace = |_: usize| Some(1.0);
    let late = |time| second_copies(&[held(1, 1, 1, Some(time))], &[2], pace, 0.1);
    assert_eq!((late(0.0), late(1.0), late(2.0)), (vec![], vec![], vec![]));
    assert_eq!(late(2.2), [(1, 2)]);
}

#[test]
fn ranks_without_results_have_the_mean_pace_and_without_any_result_nothing_is_copied() {
    let chunks = [held(1, 1, 1, Some(9.0))];
    assert_eq!(second_copies(&chunks, &[2], |_| None, 0.0), []);
    assert_eq!(second_copies(&chunks, &[2], |_| Some(f64::NAN), 0.0), []);
    assert_eq!(second_copies(&chunks, &[2], |rank| (rank == 1).then_some(1.0), 0.0), [(1, 2)]);
}

/// Interval in seconds at which a worker sends the results of the tasks that it has completed.
const PART: f64 = 0.1;
/// Interval in seconds at which the master of the simulated farm looks for late chunks.
const LOOK: f64 = 2e-3;
const MESSAGE: f64 = 1e-4;

/// Simulated farm in which worker 0 takes ten times as long for everything that it does after `slow_from`.
struct World {
    times: Vec<f64>,
    workers: usize,
    slow_from: f64,
}

#[derive(Clone, Copy)]
struct Chunk {
    id: u64,
    next: usize,
    end: usize,
    /// Time from which the worker could run the remaining tasks of the chunk.
    since: f64,
    /// Number of the chunk with the same tasks on another worker, if the chunk was copied.
    twin: Option<u64>,
}

impl World {
    fn end(&self, worker: usize, start: f64, work: f64) -> f64 {
        let fast = if worker == 0 { (self.slow_from - start).clamp(0.0, work) } else { work };
        start + fast + 10.0 * (work - fast)
    }

    /// Returns the time of the farm with a dispatcher that knows all times: each task is sent to the worker that would complete it first.
    fn oracle(&self) -> f64 {
        let mut free = vec![0.0; self.workers];
        for &time in &self.times {
            let ends = (0..self.workers).map(|worker| (self.end(worker, free[worker], time), worker));
            let (end, worker) = ends.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            free[worker] = end;
        }
        free.into_iter().fold(0.0, f64::max)
    }

    fn farm(&self, chunking: Chunking, with_copies: bool) -> (f64, usize) {
        let knowledge = Knowledge { ahead: 1, ..Knowledge::default() };
        let all: Vec<usize> = (0..self.workers).collect();
        let mut chunker = Chunker::new(chunking);
        chunker.begin(Supply::Exactly(self.times.len() as u64), &all, &knowledge);
        let mut queues: Vec<VecDeque<Chunk>> = vec![VecDeque::new(); self.workers];
        // Next message with results of each worker: its time, the first task that it does not contain, and the seconds of its tasks.
        let mut reports: BTreeMap<usize, (f64, usize, f64)> = BTreeMap::new();
        let (mut pace, mut done) = (vec![None; self.workers], vec![false; self.times.len()]);
        let (mut now, mut left, mut drawn, mut id, mut copies) = (0.0, self.times.len(), 0, 0, 0);
        while left > 0 {
            for rank in all.iter().copied().cycle().take(2 * self.workers) {
                let knowledge = Knowledge { now, ..knowledge };
                if drawn < self.times.len() && queues[rank].len() < 2 {
                    let size = chunker.next(rank, &knowledge).unwrap() as usize;
                    queues[rank].push_back(Chunk {
                        id,
                        next: drawn,
                        end: drawn + size,
                        since: now,
                        twin: None,
                    });
                    (drawn, id) = (drawn + size, id + 1);
                }
            }
            if with_copies && drawn == self.times.len() {
                let held = queues.iter().enumerate().flat_map(|(worker, queue)| {
                    queue.iter().enumerate().map(move |(place, chunk)| HeldChunk {
                        id: chunk.id,
                        worker,
                        tasks: (chunk.end - chunk.next) as u64,
                        running_for: (place == 0).then_some(now - chunk.since),
                        copyable: chunk.twin.is_none(),
                    })
                });
                let mut held: Vec<HeldChunk> = held.collect();
                held.sort_by_key(|chunk| chunk.id);
                let idle: Vec<usize> = all.iter().copied().filter(|&rank| queues[rank].is_empty()).collect();
                for (of, to) in second_copies(&held, &idle, |rank| pace[rank], 2.0 * MESSAGE) {
                    let original = queues.iter_mut().flatten().find(|chunk| chunk.id == of).unwrap();
                    original.twin = Some(id);
                    let copy = Chunk { id, since: now, twin: Some(of), ..*original };
                    queues[to].push_back(copy);
                    (id, copies) = (id + 1, copies + 1);
                }
            }
            for (rank, queue) in queues.iter_mut().enumerate() {
                if let (Some(chunk), false) = (queue.front_mut(), reports.contains_key(&rank)) {
                    chunk.since = now;
                    let (mut at, mut task) = (now + MESSAGE, chunk.next);
                    while task < chunk.end && at < now + PART {
                        at = self.end(rank, at, self.times[task]);
                        task += 1;
                    }
                    reports.insert(rank, (at + MESSAGE, task, at - now - MESSAGE));
                }
            }
            let Some((&rank, &(time, task, seconds))) = reports.iter().min_by(|a, b| a.1.0.total_cmp(&b.1.0))
            else {
                panic!("no worker has tasks, but {left} are left");
            };
            if time > now + LOOK {
                now += LOOK;
                continue;
            }
            now = time;
            reports.remove(&rank);
            let chunk = queues[rank].front_mut().unwrap();
            let tasks = (task - chunk.next) as u64;
            left -= done[chunk.next..task].iter().filter(|done| !**done).count();
            done[chunk.next..task].fill(true);
            let last = seconds / tasks as f64;
            pace[rank] = Some(pace[rank].map_or(last, |pace: f64| (pace + last) / 2.0));
            chunk.next = task;
            let report = ChunkDone { elapsed: now - chunk.since, ..ChunkDone::timed(rank, tasks, seconds) };
            if task == chunk.end {
                queues[rank].pop_front();
                chunker.done(&report);
            } else {
                chunker.done_in_part(&report);
            }
        }
        (now, copies)
    }
}

/// If a rank falls to a tenth of its speed for the last twentieth of the tasks, the farm takes at most a tenth longer than with a dispatcher that
/// knows all times.
#[test]
fn a_rank_that_becomes_slow_near_the_end_costs_a_tenth_of_the_time_at_most() {
    let mut seed = 1u64;
    let mut without_copies = 0.0_f64;
    for (workers, tasks) in [(2, 400), (4, 400), (4, 2000), (8, 2000), (16, 4000)] {
        for chunking in [Chunking::Auto, Chunking::Policy(Published::Fac2), Chunking::fixed(1)] {
            let times = (0..tasks).map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                0.01 * (0.5 + (seed >> 40) as f64 / (1u64 << 24) as f64)
            });
            let times: Vec<f64> = times.collect();
            let slow_from = 0.95 * times.iter().sum::<f64>() / workers as f64;
            let world = World { times, workers, slow_from };
            let (oracle, (time, copies)) = (world.oracle(), world.farm(chunking, true));
            let ratio = time / oracle;
            assert!(ratio <= 1.1, "{workers} workers, {tasks} tasks, {chunking}: {ratio:.3} of the oracle");
            without_copies = without_copies.max(world.farm(chunking, false).0 / oracle);
            let even = World { slow_from: f64::INFINITY, ..world };
            let (with, without) = (even.farm(chunking, true), even.farm(chunking, false));
            assert!(with.0 <= without.0 && copies <= 4 * workers, "{copies} copies; {with:?}, {without:?}");
        }
    }
    assert!(without_copies > 1.2, "the slow rank would cost nothing: {without_copies:.3}");
}
