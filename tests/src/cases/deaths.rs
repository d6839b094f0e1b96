//! Farms whose workers die, for tests that kill ranks. (Ranks that are threads cannot be killed.)

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use armature::farm::{Chunking, Context, Farm, Worker};
use armature::{BoxError, Session};
use rustix::process::{Signal, getpid, kill_process};

use super::farms::{serial_tree, tree_children};
use crate::Case;
use crate::check::{Work, check_equal, ensure, noise, setting};

/// Farms that run only in tests that name them, because ranks that are threads cannot be killed.
pub const CASES: &[Case] = &[
    Case { name: "farm-deaths", run: deaths },
    Case { name: "farm-journal-stream", run: journal_of_a_stream },
    Case { name: "farm-journal-iterations", run: journal_of_iterations },
    Case { name: "farm-hung", run: hung },
    Case { name: "farm-deadly", run: deadly },
    Case { name: "farm-deaths-in-a-tree", run: deaths_in_a_tree },
];

/// Runs tasks of one to three milliseconds while the test kills ranks. Every result must arrive exactly once, and
/// rank 0 prints the lost ranks. `ARMATURE_TEST_TASKS` is the number of tasks, `ARMATURE_TEST_SILENCE` the time in
/// milliseconds for which a worker may be silent, `ARMATURE_TEST_CHUNKING` the chunking policy,
/// `ARMATURE_TEST_JOURNAL` a file in which results are kept, `ARMATURE_TEST_WORKERS` the initial number of ranks
/// that run tasks, and `ARMATURE_TEST_SUB_MASTERS` the number of sub-masters. With `ARMATURE_TEST_SLOW`, ranks 1 and
/// 2 take that number of milliseconds for each task of the second half, and idle ranks run their last tasks as well.
fn deaths(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    let tasks = setting("ARMATURE_TEST_TASKS", 1_000)? as u64;
    let silence = Duration::from_millis(setting("ARMATURE_TEST_SILENCE", 2_000)? as u64);
    let chunking = match std::env::var("ARMATURE_TEST_CHUNKING") {
        Ok(text) => text.parse()?,
        Err(_) => Chunking::Auto,
    };
    let slow = Duration::from_millis(setting("ARMATURE_TEST_SLOW", 0)? as u64);
    let mut farm = Farm::with_context("mortal", |x: u64, cx: &mut Context| {
        work.take(Duration::from_micros(1_000 + noise(7, x) % 2_000));
        if [1, 2].contains(&cx.rank()) && x >= tasks / 2 {
            work.take(slow);
        }
        Ok(noise(3, x))
    });
    // Each killed rank may have held the same task. Three retries keep the farm from taking the task for the cause of the deaths.
    if !slow.is_zero() {
        farm = farm.second_copies();
    }
    farm = farm.chunking(chunking).silence_limit(silence).retries(3);
    if let Some(path) = std::env::var_os("ARMATURE_TEST_JOURNAL") {
        farm = farm.journal(path, &tasks);
    }
    let workers = setting("ARMATURE_TEST_WORKERS", 0)?;
    if workers > 0 {
        farm = farm.workers(workers);
    }
    farm = farm.sub_masters(setting("ARMATURE_TEST_SUB_MASTERS", 0)?);
    let mut out = Vec::new();
    let outcome = farm.for_each(session, 0..tasks, |number, x| {
        if number == 10 {
            crate::print_line("farm under way");
        }
        out.push((number, x));
    })?;
    let Some(summary) = outcome.into_summary() else { return Ok(()) };
    check_equal(session, "results", &out, &(0..tasks).map(|x| (x, noise(3, x))).collect::<Vec<_>>())?;
    ensure(summary.tasks == tasks && summary.failed == 0, || {
        format!("not every task ended once\n{summary}")
    })?;
    let done: u64 = summary.ranks.iter().map(|r| r.tasks).sum();
    let is_done_once = done + summary.known == tasks || summary.copies > 0;
    ensure(is_done_once, || format!("what is known was done again\n{summary}"))?;
    if summary.copies > 0 {
        crate::print_line(&format!("{} second copies", summary.copies));
    }
    let (seconds, known) = (summary.elapsed.as_secs_f64(), summary.known);
    crate::print_line(&format!("farm complete, lost {:?}, {seconds:.3} s, {known} known", summary.lost));
    Ok(())
}

/// Tasks of one to three milliseconds generate tasks while the test kills ranks. Every result must arrive exactly once, and rank 0 prints the lost
/// ranks. `ARMATURE_TEST_JOURNAL` is a file in which results are kept.
fn deaths_in_a_tree(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    let roots: Vec<(u64, u32)> = (0..16).map(|root| (noise(8, root), 7)).collect();
    let mut farm = Farm::exploring("tree", |node: &(u64, u32), more| {
        work.take(Duration::from_micros(1_000 + noise(7, node.0) % 2_000));
        more.extend(tree_children(node));
        node.0
    });
    // Each killed rank may have held the same task. Three retries keep the farm from taking the task for the cause of the deaths.
    farm = farm.silence_limit(Duration::from_secs(2)).retries(3);
    if let Some(path) = std::env::var_os("ARMATURE_TEST_JOURNAL") {
        farm = farm.journal(path, "");
    }
    let mut found = Vec::new();
    let outcome = farm.explore(session, roots.clone(), |node| {
        if found.len() == 100 {
            crate::print_line("farm under way");
        }
        found.push(node);
    })?;
    let Some(summary) = outcome.into_summary() else { return Ok(()) };
    let mut serial = serial_tree(&roots);
    found.sort_unstable();
    serial.sort_unstable();
    check_equal(session, "nodes", &found, &serial)?;
    crate::print_line(&format!("farm complete, lost {:?}, {} known", summary.lost, summary.known));
    Ok(())
}

/// A farm that can be killed and restarted. The directory `ARMATURE_TEST_DIR` has the file of its results (journal), and a file `computed` with a
/// line for each computed task. A task is an iteration and a number.
fn journalled_farm(session: &Session) -> Result<Farm<'static, (u64, u64), u64>, BoxError> {
    let work = Work::on(session);
    let dir = PathBuf::from(std::env::var("ARMATURE_TEST_DIR")?);
    let log = dir.join("computed");
    let square = move |(iteration, x): (u64, u64)| {
        work.take(Duration::from_micros(500 + noise(x, iteration) % 1_000));
        let mut log = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
        // The line is one write, because several ranks append to the file at the same time.
        log.write_all(format!("{iteration} {x}\n").as_bytes())?;
        Ok(noise(iteration, x))
    };
    Ok(Farm::try_new("kept", square).chunking(Chunking::fixed(2)).journal(dir.join("journal"), "1"))
}

fn journal_of_a_stream(session: &mut Session) -> Result<(), BoxError> {
    let tasks = setting("ARMATURE_TEST_TASKS", 1_000)? as u64;
    let mut out = Vec::new();
    let outcome = journalled_farm(session)?.for_each(session, (0..tasks).map(|x| (0, x)), |number, x| {
        crate::print_line(&format!("farm has {number}"));
        out.push(x);
    })?;
    let Some(summary) = outcome.into_summary() else { return Ok(()) };
    check_equal(session, "results", &out, &(0..tasks).map(|x| noise(0, x)).collect::<Vec<_>>())?;
    crate::print_line(&format!("farm complete, {} known", summary.known));
    Ok(())
}

fn journal_of_iterations(session: &mut Session) -> Result<(), BoxError> {
    let tasks = setting("ARMATURE_TEST_TASKS", 1_000)? as u64 / 10;
    let set = |iteration: u64, from: u64| -> Vec<(u64, u64)> {
        (0..tasks).map(|n| (iteration, from.wrapping_add(n))).collect()
    };
    let last = |results: &[u64]| results.iter().fold(0, |sum, &x| noise(sum, x));
    let mut end = 0;
    let outcome = journalled_farm(session)?.iterate(session, set(0, 0), |results, iteration| {
        crate::print_line(&format!("farm has {iteration}"));
        end = last(&results);
        Ok((iteration < 9).then(|| set(iteration as u64 + 1, end)))
    })?;
    let Some(summary) = outcome.into_summary() else { return Ok(()) };
    let serial = (0..10).fold(0, |from, iteration| {
        last(&set(iteration, from).iter().map(|&(iteration, x)| noise(iteration, x)).collect::<Vec<_>>())
    });
    ensure(end == serial, || {
        format!("the last results are not those of the serial program: {end}, {serial}")
    })?;
    crate::print_line(&format!("farm complete, {} known", summary.known));
    Ok(())
}

struct HangingWorker;

impl Worker for HangingWorker {
    type In = u64;
    type Out = u64;

    fn work(&mut self, task: u64, cx: &mut Context) -> Result<u64, BoxError> {
        while task == 17 && cx.attempt() == 0 {
            std::thread::sleep(Duration::from_secs(1));
        }
        Ok(noise(3, task))
    }
}

/// The rank whose task hangs is excluded from the farm, and another rank runs the task again.
fn hung(session: &mut Session) -> Result<(), BoxError> {
    let mut farm = Farm::worker("hung", || Ok(HangingWorker)).task_limit(Duration::from_secs(1)).retries(1);
    let Some((out, summary)) = farm.collect(session, 0..100)?.into_parts() else { return Ok(()) };
    check_equal(session, "results", &out, &(0..100).map(|x| noise(3, x)).collect::<Vec<_>>())?;
    ensure(summary.lost.len() == 1 && summary.retried == 1, || format!("nobody hung\n{summary}"))?;
    crate::print_line(&format!("farm complete, lost {:?}", summary.lost));
    // The job must survive the next second. If the process of the excluded rank had ended, most launchers would end the whole job.
    std::thread::sleep(Duration::from_secs(1));
    crate::print_line("rank 0 goes on behind the farm");
    Ok(())
}

/// Number of the task that ends the process of its worker.
const DEADLY: u64 = 40;

/// Worker whose process ends in task [`DEADLY`]; `how` is the way, such as an abort or a segmentation fault.
struct DyingWorker {
    how: String,
    time: Duration,
    has_started: bool,
}

impl Worker for DyingWorker {
    type In = u64;
    type Out = u64;

    fn work(&mut self, task: u64, cx: &mut Context) -> Result<u64, BoxError> {
        if cx.rank() == 0 && !std::mem::replace(&mut self.has_started, true) {
            // Rank 0 waits, so that another rank gets the deadly task first: the job ends if rank 0 dies.
            std::thread::sleep(Duration::from_secs(2));
        }
        if task == DEADLY {
            match self.how.as_str() {
                "abort" => std::process::abort(),
                "exit" => std::process::exit(3),
                // Rust's own handler catches the first SIGSEGV and then restores the default action, so that the signal is sent again.
                "segfault" => loop {
                    kill_process(getpid(), Signal::SEGV)?;
                },
                other => return Err(format!("nobody dies by {other}").into()),
            }
        }
        std::thread::sleep(self.time);
        Ok(noise(3, task))
    }
}

/// One task ends the process of the rank that runs it, in the way of `ARMATURE_TEST_KILL`; all other tasks must have results.
/// `ARMATURE_TEST_MICROSECONDS` is the duration of a task, `ARMATURE_TEST_RETRIES` the number of retries, `ARMATURE_TEST_DEDICATED` keeps rank 0 from
/// running tasks, and with `ARMATURE_TEST_FAIL_FAST` the failed task ends the job. The other variables are those of `farm-deaths`.
fn deadly(session: &mut Session) -> Result<(), BoxError> {
    let how = std::env::var("ARMATURE_TEST_KILL")?;
    let tasks = setting("ARMATURE_TEST_TASKS", 300)? as u64;
    let time = Duration::from_micros(setting("ARMATURE_TEST_MICROSECONDS", 2_000)? as u64);
    let make = || Ok(DyingWorker { how: how.clone(), time, has_started: false });
    let mut farm = Farm::worker("deadly", make).retries(setting("ARMATURE_TEST_RETRIES", 2)? as u32);
    if let Ok(text) = std::env::var("ARMATURE_TEST_CHUNKING") {
        farm = farm.chunking(text.parse()?);
    }
    if let Some(path) = std::env::var_os("ARMATURE_TEST_JOURNAL") {
        farm = farm.journal(path, &tasks);
    }
    if setting("ARMATURE_TEST_DEDICATED", 0)? > 0 {
        farm = farm.dedicated_master();
    }
    farm = farm.sub_masters(setting("ARMATURE_TEST_SUB_MASTERS", 0)?);
    let (mut out, mut failed) = (Vec::new(), Vec::new());
    let outcome = if setting("ARMATURE_TEST_FAIL_FAST", 0)? > 0 {
        farm.for_each(session, 0..tasks, |number, x| out.push((number, x)))?
    } else {
        farm.for_each_result(session, 0..tasks, |number, x| match x {
            Ok(x) => out.push((number, x)),
            Err(task) => failed.push(task),
        })?
    };
    let Some(summary) = outcome.into_summary() else { return Ok(()) };
    let right: Vec<_> = (0..tasks).filter(|&x| x != DEADLY).map(|x| (x, noise(3, x))).collect();
    check_equal(session, "results", &out, &right)?;
    let failed_numbers: Vec<u64> = failed.iter().map(|f| f.task()).collect();
    ensure(failed_numbers == [DEADLY], || format!("tasks {failed_numbers:?} have failed\n{summary}"))?;
    ensure(failed[0].message().contains(" died in it"), || format!("it says: {}", failed[0]))?;
    crate::print_line(&format!("farm complete, lost {}; {}", summary.lost.len(), failed[0]));
    Ok(())
}
