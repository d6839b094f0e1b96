//! Tests of the events that a farm writes to the log.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::error::BoxError;
use crate::observe::{Event, read};
use crate::session::{Config, run};

fn events_of(tasks: u64, farm: impl Fn() -> Farm<'static, u64, u64> + Sync) -> Vec<Event> {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::new().ranks(4).progress(crate::Progress::Off).events(Some(dir.path().to_path_buf()));
    let results = run(&config, |session| Ok(farm().collect(session, 0..tasks)?.on_root())).unwrap();
    assert!(results.unwrap().into_iter().eq(0..tasks));
    read(dir.path()).unwrap().records.into_iter().map(|r| r.event).collect()
}

#[test]
fn failed_attempts_are_logged() {
    static TORN: AtomicUsize = AtomicUsize::new(0);
    let work = |x: u64| -> Result<u64, BoxError> {
        if x == 70 && TORN.fetch_add(1, Ordering::Relaxed) == 0 { Err("torn".into()) } else { Ok(x) }
    };
    let events =
        events_of(100, move || Farm::try_new("logged", work).chunking(Chunking::fixed(5)).retries(1));
    let failures = |e: &Event| matches!(e, Event::Failures { failed: 0, retried: 1, again: 0 });
    assert!(events.iter().any(failures), "{events:?}");
}

/// The choice of the chunk size depends on measured times, so the test is repeated: in one of five runs no change of the size pays
/// and none is logged.
#[test]
fn automatic_chunking_choice_is_logged() {
    // The first 150 of 300 tasks take no time, so that their times do not predict those of the others.
    let farm = || {
        Farm::new("uneven", |x: u64| {
            if x >= 150 {
                std::thread::sleep(Duration::from_millis(5));
            }
            x
        })
    };
    let choice = (0..20).find_map(|_| {
        let chosen = |e: &Event| matches!(e, Event::Chunks { .. }).then(|| e.to_string());
        events_of(300, farm).iter().find_map(chosen)
    });
    let choice = choice.expect("another choice pays");
    assert!(choice.starts_with("Chunking is now `"), "{choice}");
}
