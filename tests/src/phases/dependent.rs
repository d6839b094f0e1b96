//! Searches and workflows, whose tasks depend on one another, with large messages.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use armature::farm::Farm;
use armature::workflow::{Action, Description, Task, Workflow};
use armature::{BoxError, Session};

use super::{DEADLY, LARGE_MESSAGE_WORDS, NUMBERS, Rank};
use crate::check::{check_equal, ensure, noise};

/// Number of tasks of a search or workflow that depend on no other task.
const WIDTH: u64 = 10;

/// Returns `task` and all tasks that depend on it, directly or indirectly.
fn with_all_behind(task: u64, children: impl Fn(u64) -> Vec<u64>) -> BTreeSet<u64> {
    let (mut all, mut open) = (BTreeSet::new(), vec![task]);
    while let Some(next) = open.pop() {
        if all.insert(next) {
            open.extend(children(next));
        }
    }
    all
}

impl Rank {
    /// Computes task `n`. If `is_deadly` is true, task `DEADLY` aborts the process of its rank. Rank 0 must not abort, because the job would end. As
    /// long as no rank has died, the task returns an error on rank 0, and another rank retries it.
    fn task(&self, n: u64, is_deadly: bool) -> Result<Vec<u64>, BoxError> {
        self.work()?;
        if is_deadly && n == DEADLY {
            let mark = self.dir.join("died");
            if self.rank == 0 && !mark.exists() {
                return Err("rank 0 is the first to have the deadly task".into());
            }
            std::fs::write(mark, "")?;
            std::process::abort();
        }
        Ok(vec![noise(3, n); LARGE_MESSAGE_WORDS])
    }

    /// Search (a farm whose tasks generate tasks) in which each task generates at most one other.
    pub(super) fn explore(&self, session: &mut Session, is_deadly: bool) -> Result<(), BoxError> {
        let children = |n: u64| (n + WIDTH..NUMBERS).take(1).collect::<Vec<u64>>();
        let mut farm = Farm::try_exploring("numbers", |task: &Vec<u64>, more| {
            let n = task[0];
            let value = self.task(n, is_deadly)?;
            more.extend(children(n).into_iter().map(|child| vec![child; LARGE_MESSAGE_WORDS]));
            Ok((n, value))
        });
        farm = farm.retries(1);
        let (mut out, mut failed) = (BTreeMap::new(), Vec::new());
        let ran =
            farm.explore_results(session, (0..WIDTH).map(|n| vec![n; LARGE_MESSAGE_WORDS]), |result| {
                match result {
                    Ok((n, x)) => drop(out.insert(n, x)),
                    Err(task) => failed.push(task.tries()),
                }
            })?;
        let Some(summary) = ran.into_summary() else { return Ok(()) };
        let missing = is_deadly.then(|| with_all_behind(DEADLY, children));
        check(session, (0..NUMBERS, out), (failed, summary.lost.len()), missing)
    }

    /// Workflow in which each task depends on up to two tasks with smaller numbers.
    pub(super) fn workflow(&self, session: &mut Session, is_deadly: bool) -> Result<(), BoxError> {
        let children = |n: u64| (n + WIDTH..NUMBERS).take(2).collect::<Vec<u64>>();
        let mut builder = Description::builder("numbers");
        for n in 0..NUMBERS {
            builder.task(Task::new(n.to_string(), Action::Closure("number".into())));
            for to in children(n) {
                builder.edge(n.to_string(), to.to_string(), 0);
            }
        }
        let workflow = Workflow::from_description(builder.build()?).retries(1);
        let mut workflow =
            workflow.max_failures(usize::from(is_deadly)).closure("number", move |inputs, cx| {
                let names: Vec<u64> = inputs.names().map(str::parse).collect::<Result<_, _>>()?;
                for (n, value) in names.into_iter().zip(inputs.take_all::<Vec<u64>>()?) {
                    ensure(value == vec![noise(3, n); LARGE_MESSAGE_WORDS], || {
                        format!("task {n} has given something else")
                    })?;
                }
                self.task(cx.number(), is_deadly)
            });
        let Some((mut results, summary)) = workflow.collect(session)?.into_parts() else { return Ok(()) };
        let mut out = BTreeMap::new();
        for name in results.names().map(str::to_string).collect::<Vec<_>>() {
            out.insert(name.parse()?, results.take::<Vec<u64>>(&name)?);
        }
        let failed = summary.failed.iter().map(|task| task.tries()).collect();
        let missing = is_deadly.then(|| with_all_behind(DEADLY, children));
        check(session, (NUMBERS - WIDTH..NUMBERS, out), (failed, summary.lost.len()), missing)
    }
}

/// Checks the results of a search or workflow. With a deadly task, `missing` has the tasks without results: the deadly task and those that depend on
/// it. The deadly task must have failed after two attempts, each of which may have killed its rank.
fn check(
    session: &Session,
    (numbers, out): (Range<u64>, BTreeMap<u64, Vec<u64>>),
    (failed, lost): (Vec<u32>, usize),
    missing: Option<BTreeSet<u64>>,
) -> Result<(), BoxError> {
    if missing.is_some() {
        check_equal(session, "tries of failed tasks", &failed, &[2])?;
        ensure((1..=2).contains(&lost), || format!("{lost} ranks are lost for two tries"))?;
    }
    let missing = missing.unwrap_or_default();
    let numbers = numbers.filter(|n| !missing.contains(n));
    let expected: Vec<_> = numbers.map(|n| (n, vec![noise(3, n); LARGE_MESSAGE_WORDS])).collect();
    check_equal(session, "results", &out.into_iter().collect::<Vec<_>>(), &expected)
}
