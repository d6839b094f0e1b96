//! Tests of farms that send their last tasks to idle ranks too. The slow rank waits in its tasks until the run no longer needs them. A farm that
//! waits for the slow rank therefore does not end in time.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use super::*;

const TASKS: u64 = 60;
const SLOW_FROM: u64 = 10;
/// Maximum time for which a slow task waits for the condition that ends it.
const LIMIT: Duration = Duration::from_secs(20);

fn wait_until(condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() && begin.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Counters of a run in which each slow task waits until the results of all tasks of its set have arrived.
struct Blocked {
    of: u64,
    begun: AtomicU64,
    sets: AtomicU64,
}

impl Blocked {
    fn sets(of: u64) -> Self {
        Blocked { of, begun: AtomicU64::new(0), sets: AtomicU64::new(0) }
    }

    fn farm<'f>(&'f self) -> Farm<'f, u64, u64> {
        let work = |task: u64, cx: &mut Context| {
            std::thread::sleep(Duration::from_millis(3));
            if cx.rank() == 1 && task >= SLOW_FROM {
                self.begun.fetch_add(1, Ordering::Relaxed);
                let sets = || self.sets.load(Ordering::Relaxed);
                let before = sets();
                wait_until(|| sets() > before.min(self.of - 1));
            }
            Ok(task * task)
        };
        Farm::with_context("slow", work).chunking(Chunking::fixed(2))
    }

    /// Checks that a second copy of a task ended first if any slow task was begun, and that the run did not wait for a slow task until its time
    /// limit.
    fn check(&self, summary: &Summary) {
        assert!(self.begun.load(Ordering::Relaxed) == 0 || summary.ended_in_copies > 0, "{summary}");
        assert!(summary.elapsed < LIMIT, "{summary}");
    }
}

#[test]
fn results_are_those_of_the_serial_program_and_do_not_wait_for_the_slow_rank() {
    type Option = fn(Farm<'_, u64, u64>) -> Farm<'_, u64, u64>;
    let with: [(usize, Option); 5] = [
        (2, |farm| farm),
        (3, |farm| farm),
        (4, |farm| farm.dedicated_master()),
        (4, |farm| farm.unordered()),
        (6, |farm| farm.sub_masters(2)),
    ];
    for (ranks, option) in with {
        let blocked = Blocked::sets(1);
        let (mut results, summary) = run(&config(ranks), |session| {
            let mut farm = option(blocked.farm()).second_copies();
            let mut results = Vec::new();
            let outcome = farm.for_each(session, 0..TASKS, |number, result| {
                results.push((number, result));
                if results.len() as u64 == TASKS {
                    blocked.sets.fetch_add(1, Ordering::Relaxed);
                }
            })?;
            Ok((results, outcome.into_summary()))
        })
        .unwrap();
        let summary = summary.unwrap();
        results.sort_unstable();
        assert!(results.into_iter().eq((0..TASKS).map(|n| (n, n * n))), "{ranks} ranks");
        assert_eq!(summary.tasks, TASKS);
        blocked.check(&summary);
    }
}

#[test]
fn without_the_option_nothing_is_copied() {
    let work = |task: u64, cx: &mut Context| {
        std::thread::sleep(Duration::from_millis(if cx.rank() == 1 { 50 } else { 1 }));
        Ok(task)
    };
    let mut config = config(3);
    config = config.balance(Balance::Off);
    let summary = run(&config, |session| {
        let mut farm = Farm::with_context("slow", work).chunking(Chunking::fixed(2));
        Ok(farm.collect(session, 0..TASKS)?.into_summary())
    });
    assert_eq!(summary.unwrap().unwrap().copies, 0);
}

#[test]
fn iterations_do_not_wait_for_superseded_chunks() {
    let blocked = Blocked::sets(4);
    let (sums, summary) = run(&config(3), |session| {
        let mut sums = Vec::new();
        let mut farm = blocked.farm().second_copies();
        let outcome = farm.iterate(session, 0..TASKS, |squares, iteration| {
            blocked.sets.fetch_add(1, Ordering::Relaxed);
            sums.push(squares.iter().sum::<u64>());
            Ok((iteration < 3).then(|| (0..TASKS + iteration as u64).collect()))
        })?;
        Ok((sums, outcome.into_summary()))
    })
    .unwrap();
    let expected = [TASKS, TASKS, TASKS + 1, TASKS + 2].map(|tasks| (0..tasks).map(|n| n * n).sum::<u64>());
    assert_eq!(sums, expected);
    blocked.check(&summary.unwrap());
}

#[test]
fn the_journal_has_each_result_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let attempt = || {
        let blocked = Blocked::sets(1);
        let (results, summary) = run(&config(3), |session| {
            let mut results = Vec::new();
            let mut farm = blocked.farm().second_copies().journal(&path, "");
            let outcome = farm.for_each(session, 0..TASKS, |_, result| {
                results.push(result);
                if results.len() as u64 == TASKS {
                    blocked.sets.fetch_add(1, Ordering::Relaxed);
                }
            })?;
            Ok((results, outcome.into_summary()))
        })
        .unwrap();
        let summary = summary.unwrap();
        blocked.check(&summary);
        (results, summary.known, std::fs::metadata(&path).unwrap().len())
    };
    let (results, known, bytes) = attempt();
    assert_eq!(known, 0);
    assert_eq!(attempt(), (results, TASKS, bytes));
}

#[derive(Default)]
struct Tried {
    on_slow: Mutex<BTreeSet<u64>>,
    elsewhere: Mutex<BTreeSet<u64>>,
    failed: Mutex<BTreeSet<u64>>,
}

impl Tried {
    /// Runs a task of which two ranks have a copy. One copy fails: that on rank 1 if `slow_fails`, otherwise the other. The copy that succeeds ends
    /// later.
    fn run(&self, task: u64, rank: usize, slow_fails: bool) -> Result<u64, BoxError> {
        let insert = |tasks: &Mutex<BTreeSet<u64>>| tasks.lock().unwrap().insert(task);
        let has = |tasks: &Mutex<BTreeSet<u64>>| tasks.lock().unwrap().contains(&task);
        std::thread::sleep(Duration::from_millis(3));
        if rank == 1 && task >= SLOW_FROM {
            insert(&self.on_slow);
            wait_until(|| has(&self.elsewhere));
            if slow_fails {
                insert(&self.failed);
                return Err("torn".into());
            }
            // One copy of the task ends late, so that the failure of the other copy reaches rank 0 first.
            std::thread::sleep(Duration::from_millis(30));
        } else {
            let is_copy = has(&self.on_slow);
            insert(&self.elsewhere);
            if is_copy && !slow_fails {
                return Err("torn".into());
            }
            if is_copy {
                wait_until(|| has(&self.failed));
                std::thread::sleep(Duration::from_millis(30));
            }
        }
        Ok(task)
    }
}

#[test]
fn a_failure_of_one_copy_does_not_count_if_the_other_succeeds() {
    for slow_fails in [false, true] {
        let tried = Tried::default();
        let (results, summary) = run(&config(3), |session| {
            let work = |task: u64, cx: &mut Context| tried.run(task, cx.rank(), slow_fails);
            let mut farm = Farm::with_context("fails", work).chunking(Chunking::fixed(1)).second_copies();
            Ok(farm.collect_results(session, 0..TASKS)?.into_parts())
        })
        .unwrap()
        .unwrap();
        let failed: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
        assert!(failed.is_empty() && summary.failed + summary.retried == 0, "{failed:?}\n{summary}");
        assert!(results.into_iter().flatten().eq(0..TASKS));
    }
}

#[test]
fn a_task_that_fails_in_both_copies_has_failed_once() {
    let tried = Tried::default();
    let error = run(&config(3), |session| {
        let work = |task: u64, cx: &mut Context| {
            let result = tried.run(task, cx.rank(), true);
            if task == TASKS - 1 { Err("torn".into()) } else { result }
        };
        let mut farm = Farm::with_context("fails", work).chunking(Chunking::fixed(1)).second_copies();
        Ok(farm.collect(session, 0..TASKS)?.on_root())
    });
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::User);
    assert!(error.to_string().ends_with(": torn"), "{error}");
}
