//! What is out, and the first chunks.

use super::*;
use crate::farm::{Knowledge, MessageCosts, TaskStatistics};

/// The beginning of an iteration of so many tasks, for four workers.
pub(super) fn view<'a>(
    tasks: u64,
    mean: Option<f64>,
    statistics: &'a TaskStatistics,
    knowledge: &'a Knowledge,
) -> View<'a> {
    View { iteration: 1, total: tasks, left: tasks, workers: &[0, 1, 2, 3], statistics, mean, knowledge }
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
        mean: None,
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
        let view = view(800, None, &statistics, &knowledge);
        let mut auto = Auto::default();
        auto.begin(&view);
        (0..4 * (1 + ahead)).map(|chunk| auto.next(chunk as usize % 4, 800, &view)).sum::<u64>()
    };
    assert_eq!([0, 1, 4].map(probed), [200; 3]);
}
