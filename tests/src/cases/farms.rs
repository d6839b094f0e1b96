//! Farms: every result must arrive once, in order or unordered, with any chunk sizes, with failing tasks and over iterations.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use armature::farm::{Chunking, Context, Farm, Published, Worker};
use armature::{BoxError, Session};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::Case;
use crate::check::{Work, check_equal, ensure, noise};

pub(super) const CASES: &[Case] = &[
    Case { name: "farm-order", run: in_order },
    Case { name: "farm-tiny-tasks", run: tiny_tasks },
    Case { name: "farm-unordered", run: unordered },
    Case { name: "farm-endless", run: endless },
    Case { name: "farm-kinds-of-tasks", run: kinds },
    Case { name: "farm-failing-tasks", run: failing },
    Case { name: "farm-iterations", run: iterations },
    Case { name: "farm-fewer-workers", run: fewer_workers },
    Case { name: "farm-sub-masters", run: sub_masters },
    Case { name: "farm-second-copies", run: second_copies },
    Case { name: "farm-explore", run: explore },
    Case { name: "farm-worklist", run: worklist },
];

/// Farms with slow user code. A call takes longer than a rank may be silent (two seconds here), or longer than the other ranks may continue after a
/// failure.
pub(super) const SLOW: &[Case] = &[
    Case { name: "farm-slow-ends", run: slow_ends },
    Case { name: "farm-slow-tasks", run: slow_tasks },
    Case { name: "farm-fail-beside-slow", run: fails_during_slow_task },
];

const CHUNKINGS: [Chunking; 7] = [
    Chunking::Auto,
    Chunking::Static,
    Chunking::Policy(Published::SelfScheduling),
    Chunking::fixed(9),
    Chunking::Policy(Published::Fac2),
    Chunking::Policy(Published::Daf),
    Chunking::Policy(Published::AwfB),
];

fn in_order(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    for chunking in CHUNKINGS {
        for tasks in [0, 1, session.size() as u64 - 1, 150] {
            let mut out = Vec::new();
            let mut farm = Farm::new("uneven", |x: u64| {
                work.take_uneven(3, x);
                x * x
            });
            farm = farm.chunking(chunking);
            let outcome = farm.for_each(session, 0..tasks, |number, x| out.push((number, x)))?;
            let what = format!("{tasks} tasks, {chunking}");
            let expected: Vec<(u64, u64)> =
                if session.is_root() { (0..tasks).map(|x| (x, x * x)).collect() } else { vec![] };
            check_equal(session, &what, &out, &expected)?;
            if let Some(summary) = outcome.into_summary() {
                let done: u64 = summary.ranks.iter().map(|r| r.tasks).sum();
                ensure(summary.tasks == tasks && done == tasks && summary.lost.is_empty(), || {
                    format!("{what}: not every task was done once\n{summary}")
                })?;
            }
        }
    }
    Ok(())
}

fn tiny_tasks(session: &mut Session) -> Result<(), BoxError> {
    // Some tests limit the data in flight to 100 bytes (`ARMATURE_WINDOW_BYTES`), so that a chunk holds only about a dozen tasks.
    let tasks = if session.is_simulated() { 3_000 } else { 30_000 };
    let mut farm = Farm::new("square", |x: u64| x.wrapping_mul(x));
    // The farm runs twice: the second run reuses the user code and the measured task times of the first.
    for _ in 0..2 {
        let squares = farm.collect(session, 0..tasks)?.on_root().unwrap_or_default();
        check_equal(session, "squares", &squares, &(0..tasks).map(|x| x * x).collect::<Vec<_>>())?;
    }
    Ok(())
}

fn unordered(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    for dedicated in [false, true] {
        let mut out = Vec::new();
        let mut farm = Farm::new("uneven", |x: u64| {
            work.take_uneven(5, x);
            noise(1, x)
        });
        farm = farm.unordered();
        if dedicated {
            farm = farm.dedicated_master();
        }
        let outcome = farm.for_each(session, 0..200, |number, x| out.push((number, x)))?;
        out.sort_unstable();
        check_equal(session, "noise", &out, &(0..200).map(|x| (x, noise(1, x))).collect::<Vec<_>>())?;
        if let Some(summary) = outcome.into_summary().filter(|_| dedicated && session.size() > 1) {
            ensure(summary.ranks[0].tasks == 0, || format!("the dedicated master has computed\n{summary}"))?;
        }
    }
    Ok(())
}

/// Rank 1 takes long for its last tasks, which idle ranks therefore run as well. Each result must arrive once, in order.
fn second_copies(session: &mut Session) -> Result<(), BoxError> {
    const TASKS: u64 = 60;
    let work = Work::on(session);
    for sub_masters in [0, session.size() / 3] {
        let mut out = Vec::new();
        let mut farm = Farm::with_context("slow", |x: u64, cx: &mut Context| {
            let is_slow = cx.rank() == 1 && x >= 20;
            work.take(Duration::from_millis(if is_slow { 250 } else { 2 }));
            Ok(noise(7, x))
        });
        farm = farm.chunking(Chunking::fixed(3)).sub_masters(sub_masters).second_copies();
        let outcome = farm.for_each(session, 0..TASKS, |number, x| out.push((number, x)))?;
        let expected = (0..TASKS).map(|x| (x, noise(7, x))).filter(|_| session.is_root());
        check_equal(session, "noise", &out, &expected.collect::<Vec<_>>())?;
        if let Some(summary) = outcome.into_summary() {
            ensure(summary.tasks == TASKS, || format!("not every task was done once\n{summary}"))?;
        }
    }
    Ok(())
}

fn endless(session: &mut Session) -> Result<(), BoxError> {
    let mut first = None;
    let mut farm = Farm::new("divisible", |x: u64| x.is_multiple_of(497).then_some(x));
    farm.for_each(session, 1.., |_, x| match x {
        Some(x) if x > 1_000 => {
            first = Some(x);
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })?;
    let expected = session.is_root().then_some(1_491);
    ensure(first == expected, || format!("found {first:?}, expected {expected:?}"))
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Point,
    Named { name: String, sides: Vec<f64> },
}

fn kinds(session: &mut Session) -> Result<(), BoxError> {
    let shape = |n: u64| match n % 3 {
        0 => Shape::Point,
        sides => Shape::Named { name: format!("shape {n}"), sides: vec![n as f64; sides as usize] },
    };
    let mut farm = Farm::new("reversed", |mut s: Shape| {
        if let Shape::Named { name, sides } = &mut s {
            *name = name.chars().rev().collect();
            sides.push(0.5);
        }
        s
    });
    let mut turned = farm.collect(session, (0..100).map(shape))?.on_root().unwrap_or_default();
    for s in &mut turned {
        if let Shape::Named { name, sides } = s {
            *name = name.chars().rev().collect();
            sides.pop();
        }
    }
    check_equal(session, "shapes", &turned, &(0..100).map(shape).collect::<Vec<_>>())?;

    // The tasks have 0 bytes to 300 kB, which is more than some tests allow in one message.
    let sizes = [0usize, 1, 100, 3_000, 40_000, 300_000];
    let bytes = |n: usize| (0..sizes[n % 6]).map(|i| (i * 7 + n) as u8).collect::<Bytes>();
    let mut farm = Farm::new("same", |b: Bytes| b).chunking(Chunking::fixed(4));
    let same_bytes = farm.collect(session, (0..24).map(bytes))?.on_root().unwrap_or_default();
    check_equal(session, "bytes", &same_bytes, &(0..24).map(bytes).collect::<Vec<_>>())?;
    let numbers = |n: usize| vec![n as f64; sizes[n % 6] / 8];
    let mut farm = Farm::new("twice", |v: Vec<f64>| v.iter().map(|x| 2.0 * x).collect::<Vec<f64>>());
    let twice = farm.collect(session, (0..24).map(numbers))?.on_root().unwrap_or_default();
    let expected: Vec<Vec<f64>> = (0..24).map(|n| vec![2.0 * n as f64; sizes[n % 6] / 8]).collect();
    check_equal(session, "numbers", &twice, &expected)?;
    let mut farm = Farm::new("sum", |[x, y, z]: [f64; 3]| [x + y + z]).plain();
    let sums = farm.collect(session, (0..9_000).map(|n| [f64::from(n); 3]))?.on_root().unwrap_or_default();
    check_equal(session, "sums", &sums, &(0..9_000).map(|n| [3.0 * f64::from(n)]).collect::<Vec<_>>())
}

/// Worker that fails in its first attempt at some tasks, and in all attempts at others.
struct FailsSometimes;

impl Worker for FailsSometimes {
    type In = u64;
    type Out = u64;

    fn work(&mut self, task: u64, cx: &mut Context) -> Result<u64, BoxError> {
        match task % 20 {
            3 if cx.attempt() == 0 => Err("stumbled".into()),
            4 => Err(format!("fell over {task}").into()),
            _ => Ok(task + cx.number()),
        }
    }
}

fn failing(session: &mut Session) -> Result<(), BoxError> {
    for chunking in CHUNKINGS {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        let mut farm = Farm::worker("stumbles", || Ok(FailsSometimes)).chunking(chunking).retries(1);
        let outcome = farm.for_each_result(session, 0..120, |number, result| match result {
            Ok(x) => good.push((number, x)),
            Err(failed) => bad.push((failed.task(), failed.tries(), failed.message().to_string())),
        })?;
        let failed = |n: &u64| n % 20 == 4;
        let expected: Vec<(u64, u64)> = (0..120).filter(|n| !failed(n)).map(|n| (n, 2 * n)).collect();
        check_equal(session, &format!("{chunking}, good"), &good, &expected)?;
        let expected: Vec<_> = (0..120).filter(failed).map(|n| (n, 2, format!("fell over {n}"))).collect();
        check_equal(session, &format!("{chunking}, bad"), &bad, &expected)?;
        if let Some(summary) = outcome.into_summary() {
            ensure((summary.failed, summary.retried) == (6, 12), || format!("{chunking}: {summary}"))?;
        }
    }
    Ok(())
}

fn iterations(session: &mut Session) -> Result<(), BoxError> {
    let step = |v: &[f64]| -> Vec<(f64, f64, f64)> {
        let n = v.len();
        (0..n).map(|i| (v[(i + n - 1) % n], v[i], v[(i + 1) % n])).collect()
    };
    let mean = |(a, b, c): (f64, f64, f64)| (a + b + c) / 3.0;
    let start: Vec<f64> = (0..40).map(|n| noise(2, n) as f64).collect();
    let mut last = Vec::new();
    let mut farm = Farm::new("mean", mean);
    let outcome = farm.iterate(session, step(&start), |values, iteration| {
        last.clone_from(&values);
        Ok((iteration < 11).then(|| step(&values)))
    })?;
    let serial = (0..12).fold(start, |values, _| step(&values).into_iter().map(mean).collect());
    check_equal(session, "relaxed", &last, &serial)?;
    let is_right = outcome.summary().is_none_or(|s| s.iterations == 12 && s.tasks == 480);
    ensure(is_right, || "tasks were miscounted".into())
}

/// The farm starts with fewer workers than ranks; the framework adds workers as long as they pay.
fn fewer_workers(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    let size = session.size();
    for workers in [1, size.div_ceil(2), size + 1] {
        let mut last = Vec::new();
        let mut farm = Farm::new("next", |x: u64| {
            work.take_uneven(2, x);
            noise(7, x)
        });
        farm = farm.workers(workers);
        let outcome = farm.iterate(session, 0..40, |values, iteration| {
            last.clone_from(&values);
            Ok((iteration < 14).then_some(values))
        })?;
        let serial: Vec<u64> = (0..40).map(|x| (0..15).fold(x, |x, _| noise(7, x))).collect();
        check_equal(session, &format!("{workers} workers"), &last, &serial)?;
        ensure(
            outcome.summary().is_none_or(|s| s.started_with == workers.min(size) && s.lost.is_empty()),
            || format!("{workers} workers were asked for"),
        )?;
    }
    Ok(())
}

/// Farms with one and with the maximum number of sub-masters (ranks that distribute tasks to a group of workers).
fn sub_masters(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    let size = session.size();
    for leaders in [1, size] {
        for chunking in CHUNKINGS {
            let mut out = Vec::new();
            let mut farm = Farm::new("uneven", |x: u64| {
                work.take_uneven(3, x);
                noise(4, x)
            });
            farm = farm.chunking(chunking).sub_masters(leaders);
            let outcome = farm.for_each(session, 0..200, |number, x| out.push((number, x)))?;
            let what = format!("{leaders} sub-masters, {chunking}");
            check_equal(session, &what, &out, &(0..200).map(|x| (x, noise(4, x))).collect::<Vec<_>>())?;
            let expected = leaders.min((size - 1) / 2);
            ensure(
                outcome.summary().is_none_or(|s| s.sub_masters.len() == expected && s.lost.is_empty()),
                || format!("{what}: {expected} were expected"),
            )?;
        }
    }
    Ok(())
}

pub(super) fn tree_children(&(node, depth): &(u64, u32)) -> Vec<(u64, u32)> {
    let count = if depth == 0 { 0 } else { noise(9, node) % 5 };
    (0..count).map(|n| (noise(node, n), depth - 1)).collect()
}

/// Returns the nodes of a tree in the order of the serial program.
pub(super) fn serial_tree(roots: &[(u64, u32)]) -> Vec<u64> {
    let mut open: Vec<(u64, u32)> = roots.iter().rev().copied().collect();
    let mut found = Vec::new();
    while let Some(node) = open.pop() {
        found.push(node.0);
        open.extend(tree_children(&node).into_iter().rev());
    }
    found
}

fn explore(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    let roots: Vec<(u64, u32)> = (0..6).map(|root| (noise(8, root), 6)).collect();
    let mut serial = serial_tree(&roots);
    for chunking in CHUNKINGS {
        let mut farm = Farm::exploring("tree", |node: &(u64, u32), more| {
            work.take_uneven(5, node.0);
            more.extend(tree_children(node));
            node.0
        });
        farm = farm.chunking(chunking);
        let found = farm.explore_in_order(session, roots.clone())?.on_root().unwrap_or_default();
        check_equal(session, &format!("{chunking}, in order"), &found, &serial)?;
    }
    serial.sort_unstable();
    for leaders in [0, session.size()] {
        let mut found = Vec::new();
        let mut farm = Farm::exploring("tree", |node: &(u64, u32), more| {
            work.take_uneven(5, node.0);
            more.extend(tree_children(node));
            node.0
        });
        farm = farm.sub_masters(leaders);
        farm.explore(session, roots.clone(), |node| found.push(node))?;
        found.sort_unstable();
        check_equal(session, &format!("{leaders} sub-masters"), &found, &serial)?;
    }
    Ok(())
}

/// Breadth-first search in which the farm's sink (the consumer of results on rank 0) creates the tasks.
fn worklist(session: &mut Session) -> Result<(), BoxError> {
    let next = |n: u64| [2 * n % 307, (3 * n + 1) % 307];
    let (mut seen, mut serial, mut at) = (BTreeSet::from([1]), vec![1], 0);
    while at < serial.len() {
        serial.extend(next(serial[at]).into_iter().filter(|n| seen.insert(*n)));
        at += 1;
    }
    let work = Work::on(session);
    for chunking in CHUNKINGS {
        let (mut seen, mut found) = (BTreeSet::from([1]), Vec::new());
        let mut farm = Farm::new("steps", |n: u64| {
            work.take_uneven(6, n);
            (n, next(n))
        });
        farm = farm.chunking(chunking);
        farm.worklist(session, [1], |_, (n, next), more| {
            found.push(n);
            more.extend(next.into_iter().filter(|n| seen.insert(*n)));
        })?;
        check_equal(session, &format!("{chunking}"), &found, &serial)?;
    }
    Ok(())
}

fn nap(millis: u64) {
    std::thread::sleep(std::time::Duration::from_millis(millis));
}

/// Farm with slow construction of workers, a slow task for each rank, and slow user code that creates tasks from results. With at least three ranks,
/// a sub-master distributes the tasks.
fn slow_tasks(session: &mut Session) -> Result<(), BoxError> {
    const SLOW: u64 = 2_500;
    struct Slow(u64);
    impl Worker for Slow {
        type In = u64;
        type Out = u64;
        fn work(&mut self, x: u64, _: &mut Context) -> Result<u64, BoxError> {
            nap(if x < self.0 { SLOW } else { 0 });
            Ok(x + self.0)
        }
    }
    let size = session.size() as u64;
    let make = move || {
        nap(SLOW);
        Ok(Slow(size))
    };
    let mut last = Vec::new();
    let mut farm =
        Farm::worker("slow tasks", make).chunking(Chunking::fixed(1)).sub_masters((session.size() - 1) / 2);
    let outcome = farm.iterate(session, 0..4 * size, |results, iteration| {
        nap(if iteration == 0 { SLOW } else { 0 });
        last.clone_from(&results);
        Ok((iteration == 0).then_some(results))
    })?;
    let expected: Vec<u64> = if session.is_root() { (2 * size..6 * size).collect() } else { vec![] };
    check_equal(session, "slow tasks", &last, &expected)?;
    ensure(outcome.summary().is_none_or(|s| s.lost.is_empty()), || "a rank counts as lost".into())
}

/// The last rank fails while the other ranks run tasks that take far longer than a job may continue after a failure.
fn fails_during_slow_task(session: &mut Session) -> Result<(), BoxError> {
    let (is_last, tasks) = (session.rank() + 1 == session.size(), 3 * session.size() as u64);
    let torn = |_: u64| -> Result<u64, BoxError> {
        nap(if is_last { 1_000 } else { 90_000 });
        Err("torn".into())
    };
    let mut farm = Farm::try_new("beside", torn).chunking(Chunking::fixed(1));
    farm.collect(session, 0..tasks)?;
    Ok(())
}

/// One call of the farm's sink, or of its source, takes 3.5 s, longer than a rank may be silent. The other calls take 50 ms, and those for one chunk
/// of tasks together also exceed the limit.
fn slow_ends(session: &mut Session) -> Result<(), BoxError> {
    let pause = |number: u64| nap(if number == 3 { 3_500 } else { 50 });
    for slow_sink in [true, false] {
        let mut out = Vec::new();
        let mut farm =
            Farm::new("slow ends", |x: u64| x * x).chunking(Chunking::fixed(60)).dedicated_master();
        let tasks = (0..60).inspect(|&x| {
            if !slow_sink {
                pause(x);
            }
        });
        farm.for_each(session, tasks, |number, x| {
            if slow_sink {
                pause(number);
            }
            out.push((number, x));
        })?;
        let expected: Vec<(u64, u64)> =
            if session.is_root() { (0..60).map(|x| (x, x * x)).collect() } else { vec![] };
        check_equal(session, if slow_sink { "a slow sink" } else { "a slow source" }, &out, &expected)?;
    }
    Ok(())
}
