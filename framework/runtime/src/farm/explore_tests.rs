//! Tests of farms in which tasks or the sink create tasks.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::error::{BoxError, ErrorKind};
use crate::session::{Balance, Config, Driver, Session, run};

fn config(ranks: usize) -> Config {
    Config::new().ranks(ranks).progress(crate::Progress::Off)
}

const CHUNKINGS: [Chunking; 4] =
    [Chunking::Auto, Chunking::Static, Chunking::Policy(Published::SelfScheduling), Chunking::fixed(7)];

fn below(&(node, depth): &(u64, u32)) -> impl Iterator<Item = (u64, u32)> {
    let mixed = (node ^ (node >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let count = if depth == 0 { 0 } else { (mixed >> 40) % 5 };
    (0..count).map(move |n| (mixed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)), depth - 1))
}

fn serial(node: (u64, u32), found: &mut Vec<u64>) {
    found.push(node.0);
    below(&node).for_each(|node| serial(node, found));
}

const ROOTS: [(u64, u32); 3] = [(17, 9), (3, 9), (5, 9)];

fn serial_tree() -> Vec<u64> {
    let mut found = Vec::new();
    ROOTS.iter().for_each(|&root| serial(root, &mut found));
    assert!(found.len() > 1_000, "{} nodes", found.len());
    found
}

/// Sleeps for 1 ms at one node in 64, so that a rank runs out of time and returns nodes that it has not run.
fn pause(node: u64) {
    if node.is_multiple_of(64) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

struct SetUp<'c> {
    rank: usize,
    made: &'c [AtomicUsize; 4],
    dropped: &'c AtomicUsize,
}

impl<'c> SetUp<'c> {
    fn new(rank: usize, made: &'c [AtomicUsize; 4], dropped: &'c AtomicUsize) -> Self {
        made[rank].fetch_add(1, Ordering::Relaxed);
        SetUp { rank, made, dropped }
    }

    fn check(&self, rank: usize) {
        assert_eq!((self.rank, self.made[rank].load(Ordering::Relaxed)), (rank, 1));
    }
}

impl Drop for SetUp<'_> {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs a farm on four ranks with each kind of driver (choice of the thread that runs tasks). Checks that every created state was
/// dropped, and returns the number of states that each rank created, by driver.
fn set_up(
    work: impl Fn(&mut Session, &[AtomicUsize; 4], &AtomicUsize) -> crate::Result<()> + Sync,
) -> Vec<[usize; 4]> {
    let count = |driver| {
        let (made, dropped) = (std::array::from_fn(|_| AtomicUsize::new(0)), AtomicUsize::new(0));
        run(&config(4).driver(driver), |session| Ok(work(session, &made, &dropped)?)).unwrap();
        let made = made.map(AtomicUsize::into_inner);
        assert_eq!(dropped.into_inner(), made.iter().sum::<usize>());
        made
    };
    [Driver::Auto, Driver::Inline, Driver::Threaded].map(count).to_vec()
}

#[test]
fn each_rank_runs_set_up_once_in_any_role() {
    // Ranks without work in the first run of the farm have work in its second run, and keep the state that they have set up.
    let woken = set_up(|session, made, dropped| {
        let rank = session.rank();
        let mut farm = Farm::with_setup("woken", || {
            let own = SetUp::new(rank, made, dropped);
            Ok(move |x: u64, cx: &mut Context| {
                own.check(cx.rank());
                Ok(x)
            })
        });
        farm = farm.workers(1).balance(Balance::Off);
        farm.collect(session, 0..50)?;
        farm = farm.workers(4);
        farm.collect(session, 0..50).map(drop)
    });
    assert!(woken.iter().flatten().all(|made| *made <= 1), "{woken:?}");
    let dedicated = set_up(|session, made, dropped| {
        let rank = session.rank();
        let mut farm = Farm::exploring_with_setup("tree", || {
            let own = SetUp::new(rank, made, dropped);
            Ok(move |node: &(u64, u32), more: &mut More<(u64, u32)>| {
                own.check(rank);
                more.extend(below(node));
                Ok(node.0)
            })
        });
        farm = farm.dedicated_master();
        let found = farm.explore_in_order(session, ROOTS)?.on_root();
        assert!(found.is_none_or(|found| found == serial_tree()));
        Ok(())
    });
    assert!(dedicated.iter().all(|made| made[0] == 0 && made.iter().all(|made| *made <= 1)), "{dedicated:?}");
    assert!(dedicated.iter().all(|made| made.iter().sum::<usize>() > 0), "{dedicated:?}");
}

#[test]
fn failing_set_up_ends_the_job() {
    // The set-up fails on every rank: if it failed only on one rank that starts late, the other ranks could finish all tasks before.
    let error = run(&config(3), |session| {
        let has_model = session.size() == 0;
        let make = move || match has_model {
            true => Ok(|x: u64, _: &mut Context| Ok(x)),
            false => Err("no such model".into()),
        };
        Ok(Farm::with_setup("models", make).collect(session, 0..50).map(drop)?)
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains(": farm models: cannot create the worker: no such model"), "{error}");
}

#[test]
fn exploration_results_equal_the_serial_program() {
    let expected = serial_tree();
    for ranks in [1, 2, 3, 5] {
        for chunking in CHUNKINGS {
            for driver in [Driver::Auto, Driver::Inline, Driver::Threaded] {
                let found = run(&config(ranks).driver(driver), |session| {
                    let mut farm = Farm::exploring("tree", |node: &(u64, u32), more| {
                        pause(node.0);
                        more.extend(below(node));
                        node.0
                    });
                    farm = farm.chunking(chunking);
                    Ok(farm.explore_in_order(session, ROOTS)?)
                });
                let (found, summary) = found.unwrap().into_parts().unwrap();
                assert_eq!(found, expected, "{ranks} ranks, {chunking}, {driver:?}");
                assert!(ranks == 1 || summary.tasks > 3, "{summary}");
            }
        }
    }
}

#[test]
fn every_result_arrives_once_under_sub_masters() {
    let mut expected = serial_tree();
    expected.sort_unstable();
    for (ranks, leaders) in [(5, 2), (4, 1)] {
        let mut found = run(&config(ranks), |session| {
            let mut found = Vec::new();
            let mut farm = Farm::exploring("tree", |node: &(u64, u32), more| {
                pause(node.0);
                more.extend(below(node));
                node.0
            });
            farm = farm.sub_masters(leaders).dedicated_master();
            farm.explore(session, ROOTS, |node| found.push(node))?;
            Ok(found)
        })
        .unwrap();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}

#[test]
fn empty_trees_and_long_chains_end() {
    for ranks in [1, 3] {
        let found = run(&config(ranks), |session| {
            let mut farm = Farm::exploring("chain", |&n: &u64, more| {
                if n > 0 {
                    more.push(n - 1);
                }
                n
            });
            let nothing = farm.explore_in_order(session, [])?.on_root();
            let chain = farm.explore_in_order(session, [5_000])?.on_root();
            Ok((nothing, chain))
        });
        let (nothing, chain) = found.unwrap();
        assert_eq!((nothing, chain), (Some(vec![]), Some((0..=5_000).rev().collect())));
    }
}

#[test]
fn failing_tree_tasks_are_retried_and_reported() {
    let (good, bad) = (serial_tree(), |node: u64| node % 50 == 7);
    // The children of a node whose task fails are never created.
    fn pruned(node: (u64, u32), bad: &dyn Fn(u64) -> bool, found: &mut (Vec<u64>, usize)) {
        if bad(node.0) {
            found.1 += 1;
            return;
        }
        found.0.push(node.0);
        below(&node).for_each(|node| pruned(node, bad, found));
    }
    let mut expected = (Vec::new(), 0);
    ROOTS.iter().for_each(|&root| pruned(root, &bad, &mut expected));
    expected.0.sort_unstable();
    assert!(expected.1 > 5 && expected.0.len() < good.len());
    for ranks in [1, 3] {
        let (mut good, failed) = run(&config(ranks), |session| {
            let (mut good, mut failed) = (Vec::new(), 0);
            let farm = Farm::try_exploring("tree", |node: &(u64, u32), more| {
                more.extend(below(node));
                if bad(node.0) && node.1.is_multiple_of(2) {
                    panic!("burst");
                }
                if bad(node.0) { Err("torn".into()) } else { Ok(node.0) }
            });
            farm.retries(1).explore_results(session, ROOTS, |node| match node {
                Ok(node) => good.push(node),
                Err(error) => {
                    assert!(error.tries() == 2 && ["torn", "burst"].contains(&error.message()), "{error}");
                    failed += 1;
                }
            })?;
            Ok((good, failed))
        })
        .unwrap();
        good.sort_unstable();
        assert_eq!((good, failed), expected);
    }
    let error = run(&config(2), |session| {
        let torn = |_: &u64, _: &mut More<u64>| Err::<u64, BoxError>("torn".into());
        Ok(Farm::try_exploring("torn", torn).explore_in_order(session, [1])?)
    });
    assert!(error.unwrap_err().to_string().contains("torn"));
}

#[test]
fn endless_search_is_stopped_by_the_sink() {
    for ranks in [1, 3] {
        let found = run(&config(ranks), |session| {
            let mut found = 0;
            let mut farm = Farm::exploring("endless", |&n: &u64, more| {
                more.extend([2 * n % 1_000_003, 2 * n % 1_000_003 + 1]);
                n
            });
            farm.explore(session, [1], |_| {
                found += 1;
                if found == 10_000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            Ok(found)
        });
        assert_eq!(found.unwrap(), 10_000);
    }
}

#[test]
fn killed_search_resumes_from_its_journal() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = serial_tree();
    expected.sort_unstable();
    for ranks in [1, 3] {
        let path = dir.path().join(format!("{ranks}.journal"));
        let attempt = |stop: usize| {
            let done = AtomicUsize::new(0);
            let (found, summary) = run(&config(ranks), |session| {
                let mut found = Vec::new();
                let mut farm = Farm::exploring("tree", |node: &(u64, u32), more| {
                    done.fetch_add(1, Ordering::Relaxed);
                    pause(node.0);
                    more.extend(below(node));
                    node.0
                });
                farm = farm.journal(&path, "v1");
                let outcome = farm.explore(session, ROOTS, |node| {
                    found.push(node);
                    if found.len() == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                Ok((found, outcome.into_summary()))
            })
            .unwrap();
            (found, summary.unwrap(), done.into_inner())
        };
        let mut before = 0;
        for stop in [expected.len() / 4, expected.len() / 2, usize::MAX] {
            let (mut found, summary, done) = attempt(stop);
            assert!((summary.known > 0) == (before > 0), "{summary}");
            found.sort_unstable();
            if stop < usize::MAX {
                assert_eq!(found.len(), stop);
            } else {
                assert_eq!(found, expected, "{ranks} ranks");
                assert!(done < expected.len(), "{done} of {} were done again", expected.len());
            }
            before = found.len();
        }
        let (mut found, _, done) = attempt(usize::MAX);
        found.sort_unstable();
        assert_eq!((found, done), (expected.clone(), 0), "everything is known");
    }
}

fn steps(n: u64) -> [u64; 2] {
    [2 * n % 1_009, (3 * n + 1) % 1_009]
}

fn breadth_first() -> Vec<u64> {
    let (mut seen, mut order, mut at) = (std::collections::HashSet::from([1]), vec![1], 0);
    while at < order.len() {
        order.extend(steps(order[at]).into_iter().filter(|n| seen.insert(*n)));
        at += 1;
    }
    order
}

#[test]
fn worklist_resumes_from_its_journal() {
    let dir = tempfile::tempdir().unwrap();
    let expected = breadth_first();
    for ranks in [1, 2, 4] {
        for chunking in CHUNKINGS {
            let path = dir.path().join(format!("{ranks} {chunking}"));
            let attempt = |stop: usize| {
                let done = AtomicUsize::new(0);
                let order = run(&config(ranks), |session| {
                    let (mut seen, mut order) = (std::collections::HashSet::from([1]), Vec::new());
                    let mut farm = Farm::new("steps", |n: u64| {
                        done.fetch_add(1, Ordering::Relaxed);
                        (n, steps(n))
                    });
                    farm = farm.chunking(chunking).journal(&path, "");
                    farm.worklist(session, [1], |number, (n, next), more| {
                        assert_eq!(number, order.len() as u64);
                        order.push(n);
                        more.extend(next.into_iter().filter(|n| seen.insert(*n)));
                        if order.len() == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    })?;
                    Ok(order)
                });
                (order.unwrap(), done.into_inner())
            };
            assert_eq!(attempt(200).0, expected[..200]);
            let (order, done) = attempt(usize::MAX);
            assert_eq!(order, expected, "{ranks} ranks, {chunking}");
            assert!(done <= expected.len() - 200, "{done} were done again");
        }
    }
}

#[test]
fn unordered_worklist_refuses_a_journal() {
    let error = run(&config(1), |session| {
        let mut farm = Farm::new("steps", |n: u64| n).unordered().journal("/nowhere/journal", "");
        farm.worklist(session, [1], |_, _, _| ())?;
        Ok(())
    });
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("unordered and journal are both set"), "{error}");
}

#[test]
fn unordered_worklist_finds_every_task() {
    let mut found = run(&config(3), |session| {
        let (mut seen, mut found) = (std::collections::HashSet::from([1]), Vec::new());
        let mut farm = Farm::new("crawl", |n: u64| (n, steps(n))).unordered();
        farm.worklist(session, [1], |_, (n, next), more| {
            found.push(n);
            for next in next.into_iter().filter(|n| seen.insert(*n)) {
                more.push(next);
            }
        })?;
        Ok(found)
    })
    .unwrap();
    let mut expected = breadth_first();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}
