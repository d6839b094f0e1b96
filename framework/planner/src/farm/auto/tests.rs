//! What is out, the first chunks, and what is chosen.

use super::*;
use crate::farm::{Knowledge, MessageCosts, TaskStatistics};

/// The beginning of an iteration of `tasks` tasks, for four workers.
fn view<'a>(tasks: u64, statistics: &'a TaskStatistics, knowledge: &'a Knowledge) -> View<'a> {
    View { iteration: 1, total: tasks, left: tasks, workers: &[0, 1, 2, 3], statistics, knowledge }
}

#[test]
fn it_keeps_book_of_what_is_out() {
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
    let held = |auto: &Auto| auto.out.iter().map(|out| (out.worker, out.tasks)).collect::<Vec<_>>();
    let mut auto = Auto::default();
    auto.begin(&view);
    // A quarter of 40, and the port busy for 1 s more with each message.
    assert_eq!([auto.next(0, 50, &view), auto.next(1, 50, &view), auto.next(2, 7, &view)], [10, 10, 7]);
    assert_eq!(auto.out.iter().map(|out| out.arrives).collect::<Vec<_>>(), [1.0, 2.0, 0.0]);
    // There were only 5 tasks for worker 2, and then none for worker 0.
    auto.give_back(2);
    assert_eq!(held(&auto), [(0, 10), (1, 10), (2, 5)]);
    assert_eq!((auto.next(0, 50, &view), auto.port), (10, 3.0));
    auto.give_back(10);
    assert_eq!((held(&auto), auto.port), (vec![(0, 10), (1, 10), (2, 5)], 2.0));
    auto.done(&ChunkDone::timed(2, 5, 1.0));
    // Worker 1 dies: its tasks come back, but worker 0 has its own still.
    auto.leave(1);
    auto.give_back(10);
    assert_eq!(held(&auto), [(0, 10)]);
}

#[test]
fn a_quarter_is_out_while_nothing_is_known_in_however_many_chunks() {
    let probed = |ahead: u32| {
        let knowledge = Knowledge { ahead, ..Knowledge::default() };
        let statistics = TaskStatistics::default();
        let view = view(800, &statistics, &knowledge);
        let mut auto = Auto::default();
        auto.begin(&view);
        (0..4 * (1 + ahead)).map(|chunk| auto.next(chunk as usize % 4, 800, &view)).sum::<u64>()
    };
    assert_eq!([0, 1, 4].map(probed), [200; 3]);
}

/// What is chosen for an iteration of 4000 tasks like those of the last one, on four workers.
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
fn even_shares_where_messages_are_dear_and_small_chunks_where_tasks_differ() {
    let choice = chosen(1.0, [1e-2, 1e-2]);
    assert_eq!(choice.policy, Chunking::Static, "{choice}");
    let before = choice.predicted_before.expect("a policy was in force");
    assert!(choice.predicted < before && before < 2.0 * choice.predicted, "{choice}");
    let choice = chosen(1e-6, [1e-3, 19e-3]);
    assert_ne!(choice.policy, Chunking::Static, "{choice}");
    // Four workers at 10 ms a task.
    assert!((10.0..10.2).contains(&choice.predicted), "{choice}");
}
