//! Tests of the number of ranks that take part in a farm.

use super::*;
use crate::observe::{Event, Subject};
use crate::session::Balance;

pub(super) fn counted(
    config: &Config,
    farm: impl Fn() -> Farm<'static, u64, u64> + Sync,
    iterations: usize,
) -> Summary {
    let (last, summary) = run(config, |session| {
        let mut last = Vec::new();
        let outcome = farm().iterate(session, 0..64, |results, iteration| {
            last.clone_from(&results);
            Ok((iteration + 1 < iterations).then_some(results))
        })?;
        Ok((last, outcome.into_summary()))
    })
    .unwrap();
    assert!(last.into_iter().eq(0..64));
    summary.unwrap()
}

#[test]
fn only_the_requested_number_of_workers_run_tasks() {
    for (ranks, workers) in [(4, 1), (4, 3), (2, 9), (1, 1)] {
        let farm = || Farm::new("same", |x: u64| x).workers(workers);
        let summary = counted(&config(ranks).balance(Balance::Off), farm, 5);
        let working = workers.min(ranks);
        assert_eq!(
            (summary.started_with, summary.ended_with, summary.change.clone()),
            (working, working, None)
        );
        assert!(summary.workers() <= working, "{summary}");
        let dedicated = || Farm::new("same", |x: u64| x).workers(1).dedicated_master();
        let summary = counted(&config(ranks).balance(Balance::Off), dedicated, 5);
        assert_eq!((summary.workers(), summary.ended_with), (1, 1), "{summary}");
    }
}

#[test]
fn unprofitable_workers_are_parked_and_logged() {
    let dir = tempfile::tempdir().unwrap();
    // A task takes far less time than the message with it, so fewer workers are faster.
    let work = |x: u64| {
        std::hint::black_box(x);
        x
    };
    let farm =
        || Farm::new("tiny", work).dedicated_master().chunking(Chunking::Policy(Published::SelfScheduling));
    let config = config(4).events(Some(dir.path().to_path_buf()));
    let summary = counted(&config, farm, 400);
    let mut records = crate::observe::read(dir.path()).unwrap().records;
    records.retain(|record| !record.event.is_of_activity());
    let acted = |e: &Event| matches!(e, Event::Decision { acted: true, of: Subject::Workers, .. });
    let decisions = records.iter().filter(|r| matches!(r.event, Event::Decision { .. })).count();
    assert!(decisions > 0, "every look is an event");
    if summary.change.is_some() {
        assert!(records.iter().any(|r| acted(&r.event)));
        assert!(records.iter().any(|r| matches!(r.event, Event::Parked { .. })));
    }
    assert!(matches!(records.first().map(|r| &r.event), Some(Event::FarmStart { workers: 3, .. })));
    let last = records.iter().rev().find(|record| matches!(record.event, Event::Finish { .. }));
    assert!(matches!(last.map(|record| &record.event), Some(Event::Finish { items: 25_600, .. })));
}
