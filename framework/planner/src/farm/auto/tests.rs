//! Tests of the automatic chunk policy: the record of outstanding chunks, the first chunks, and the selected policy.

use super::*;
use crate::farm::{Chunker, Knowledge, MessageCosts, Supply, TaskStatistics};

fn view<'a>(tasks: u64, statistics: &'a TaskStatistics, knowledge: &'a Knowledge) -> View<'a> {
    View { iteration: 1, total: tasks, left: tasks, workers: &[0, 1, 2, 3], statistics, knowledge }
}

#[test]
fn outstanding_chunks_are_tracked() {
    let knowledge =
        Knowledge { messages: MessageCosts::new(1.0, 0.0), master: Some(2), ..Knowledge::default() };
    let statistics = TaskStatistics::default();
    let view = View {
        iteration: 1,
        total: 120,
        left: 120,
        workers: &[0, 1, 2],
        statistics: &statistics,
        knowledge: &knowledge,
    };
    let held = |auto: &Auto| auto.out.iter().map(|(worker, out)| (worker, out.tasks)).collect::<Vec<_>>();
    let mut auto = Auto::default();
    auto.begin(&view);
    // The workers have the even share of 40 tasks each, and a first chunk has a quarter of it. Each message occupies
    // the master's port for a second.
    assert_eq!([auto.next(0, 50, &view), auto.next(1, 50, &view), auto.next(2, 7, &view)], [10, 10, 7]);
    assert_eq!(auto.out.iter().map(|(_, out)| out.arrives).collect::<Vec<_>>(), [1.0, 2.0, 0.0]);
    // The caller returns two tasks of the chunk of worker 2, and the whole second chunk of worker 0, as if the source
    // had no more tasks.
    auto.return_tasks(2);
    assert_eq!(held(&auto), [(0, 10), (1, 10), (2, 5)]);
    assert_eq!((auto.next(0, 50, &view), auto.port), (10, 3.0));
    auto.return_tasks(10);
    assert_eq!((held(&auto), auto.port), (vec![(0, 10), (1, 10), (2, 5)], 2.0));
    auto.done(&ChunkDone::timed(2, 5, 1.0));
    // Worker 1 dies and its tasks are returned; the chunk of worker 0 must not change.
    auto.leave(1);
    auto.return_tasks(10);
    assert_eq!(held(&auto), [(0, 10)]);
}

/// Returns the number of tasks in the first chunks of all workers together, in a farm of 800 tasks, if the start-up
/// time of a message is `start_up` seconds.
fn first_round(start_up: f64, ahead: u32) -> u64 {
    let knowledge = Knowledge { ahead, messages: MessageCosts::new(start_up, 0.0), ..Knowledge::default() };
    let statistics = TaskStatistics::default();
    let view = view(800, &statistics, &knowledge);
    let mut auto = Auto::default();
    auto.begin(&view);
    (0..4 * (1 + ahead)).map(|chunk| auto.next(chunk as usize % 4, 800, &view)).sum()
}

#[test]
fn first_chunks_are_single_tasks_unless_messages_are_expensive() {
    assert_eq!([0, 1, 4].map(|ahead| first_round(1e-6, ahead)), [4, 8, 20]);
    assert_eq!([0, 1, 4].map(|ahead| first_round(1.0, ahead)), [200; 3], "a quarter, in however many chunks");
}

/// Returns the size of a worker's second chunk in a farm of 100,000 tasks, after its first chunk, a single task, took
/// `seconds`.
fn second_probe(seconds: f64) -> u64 {
    let knowledge = Knowledge::default();
    let mut chunker = Chunker::new(Chunking::Auto);
    chunker.begin(Supply::Exactly(100_000), &[0, 1, 2, 3], &knowledge);
    assert_eq!(chunker.next(0, &knowledge), Some(1));
    assert_eq!(chunker.next(1, &knowledge), Some(1), "nothing has come back yet");
    chunker.done(&ChunkDone::timed(0, 1, seconds));
    chunker.next(0, &knowledge).expect("most tasks are left")
}

#[test]
fn probe_chunks_are_bounded_by_time_and_share() {
    assert_eq!([1e-3, 1e-4].map(second_probe), [10, 100]);
    assert_eq!([1e-9, 0.0].map(second_probe), [6250; 2]);
}

#[test]
fn endless_stream_starts_small_and_grows_for_tiny_tasks() {
    let knowledge = Knowledge { ahead: 1, ..Knowledge::default() };
    let given_until = |seconds: f64, chunks: u64| {
        let mut chunker = Chunker::new(Chunking::Auto);
        chunker.begin(Supply::AtLeast(0), &[0, 1], &knowledge);
        let mut sizes = vec![];
        for chunk in 0..chunks {
            let worker = (chunk % 2) as usize;
            let size = chunker.next_up_to(worker, 12_288, &knowledge).expect("it is endless");
            chunker.done(&ChunkDone::timed(worker, size, seconds * size as f64));
            sizes.push(size);
        }
        sizes
    };
    assert_eq!(given_until(1.0, 2), [1, 1]);
    assert!(given_until(1e-8, 60).iter().sum::<u64>() > 10_000);
}

#[test]
fn partial_chunk_results_keep_the_rest_outstanding() {
    let knowledge = Knowledge { messages: MessageCosts::new(1.0, 0.0), ..Knowledge::default() };
    let statistics = TaskStatistics::default();
    let view = view(160, &statistics, &knowledge);
    let mut auto = Auto::default();
    auto.begin(&view);
    assert_eq!((auto.next(0, 160, &view), auto.next(1, 160, &view)), (10, 10));
    auto.done_in_part(&ChunkDone { elapsed: 5.0, ..ChunkDone::timed(0, 4, 2.0) });
    let held: Vec<_> = auto.out.iter().map(|(worker, out)| (worker, out.tasks, out.arrives)).collect();
    assert_eq!(held, [(0, 6, 5.0), (1, 10, 2.0)]);
    auto.done(&ChunkDone::timed(0, 6, 3.0));
    assert_eq!(auto.out.iter().count(), 1);
}

/// Returns the chunk policy selected for an iteration of 4,000 tasks on four workers, after an iteration in which
/// half of each chunk's tasks took `times[0]` seconds and half `times[1]`.
fn chosen(start_up: f64, times: [f64; 2]) -> Choice {
    let knowledge = Knowledge { messages: MessageCosts::new(start_up, 0.0), ..Knowledge::default() };
    let mut statistics = TaskStatistics::default();
    for chunk in 0..400 {
        let [a, b] = times.map(|time| 5.0 * time);
        let squares = (a * a + b * b) / 5.0;
        statistics.add(&ChunkDone { worker: chunk % 4, tasks: 10, sum: a + b, squares, elapsed: a + b });
    }
    let view = View { iteration: 2, ..view(4000, &statistics, &knowledge) };
    let mut auto = Auto::default();
    auto.begin(&view);
    assert!(auto.simulated() > 0);
    auto.take_choice().expect("something is better than the first policy")
}

#[test]
fn choice_depends_on_message_cost_and_task_variance() {
    let choice = chosen(1.0, [1e-2, 1e-2]);
    assert_eq!(choice.policy, Chunking::Static, "{choice}");
    let before = choice.predicted_before;
    assert!(choice.predicted < before && before < 2.0 * choice.predicted, "{choice}");
    let choice = chosen(1e-6, [1e-3, 19e-3]);
    assert_ne!(choice.policy, Chunking::Static, "{choice}");
    // Four workers need at least 10 s for 4,000 tasks of 10 ms.
    assert!((10.0..10.2).contains(&choice.predicted), "{choice}");
}

/// Returns the choice on 1,000 workers, after each has run a chunk of ten tasks, if `left` tasks of 10 ms are left.
fn chosen_for_thousand(left: u64) -> Option<Choice> {
    let workers: Vec<usize> = (0..1000).collect();
    let knowledge = Knowledge { messages: MessageCosts::new(1e-6, 0.0), ..Knowledge::default() };
    let mut statistics = TaskStatistics::default();
    for worker in 0..1000 {
        let (sum, squares) = (0.1, 10.0 * 0.01_f64.powi(2) * 1.25);
        statistics.add(&ChunkDone { worker, tasks: 10, sum, squares, elapsed: sum });
    }
    let farm = View {
        iteration: 2,
        total: left + 10_000,
        left,
        workers: &workers,
        statistics: &statistics,
        knowledge: &knowledge,
    };
    let mut auto = Auto::default();
    auto.begin(&farm);
    auto.take_choice()
}

#[test]
fn policy_for_many_workers_stays_if_it_cannot_be_simulated_to_the_end() {
    assert_eq!(chosen_for_thousand(190_000), None);
    // Fewer tasks need fewer chunks. 1,000 workers need at least 0.3 s.
    let choice = chosen_for_thousand(30_000).expect("another policy is better");
    assert!(choice.predicted < choice.predicted_before, "{choice}");
    // In a long run the simulation may take more chunks. 1,000 workers need at least 19.9 s.
    let choice = chosen_for_thousand(1_990_000);
    assert!(choice.is_none_or(|choice| choice.predicted < 20.5), "{choice:?}");
}
