//! Workflows (graphs of tasks): each result must equal that of the serial evaluation, on any ranks, and with any memory limits and failures.

use std::time::Duration;

use armature::workflow::{Action, Description, DescriptionBuilder, Inputs, Summary, Task, Workflow};
use armature::{BoxError, Session};

use crate::Case;
use crate::check::{Work, ensure, noise};

pub(super) const CASES: &[Case] = &[
    Case { name: "workflow-chain", run: chain },
    Case { name: "workflow-wide", run: wide },
    Case { name: "workflow-random", run: random },
    Case { name: "workflow-planned", run: planned },
    Case { name: "workflow-short-of-memory", run: short_of_memory },
    Case { name: "workflow-failing", run: failing },
];

fn task(name: impl ToString) -> Task {
    Task::new(name.to_string(), Action::Closure("mix".into()))
}

fn mix(number: u64, inputs: impl IntoIterator<Item = u64>) -> u64 {
    inputs.into_iter().fold(noise(1, number), |sum, input| sum.rotate_left(7) ^ input)
}

/// Parents of each task, sorted by their names as text. A parent has a smaller number than its task.
type Parents = Vec<Vec<usize>>;

fn describe(parents: &Parents, adjust: impl Fn(usize, &mut Task)) -> Result<Description, BoxError> {
    let mut builder = Description::builder("graph");
    for (number, parents) in parents.iter().enumerate() {
        let mut one = task(number);
        adjust(number, &mut one);
        builder.task(one);
        parents.iter().for_each(|parent| edge(&mut builder, *parent, number, 0));
    }
    Ok(builder.build()?)
}

fn edge(builder: &mut DescriptionBuilder, from: usize, to: usize, size: u64) {
    builder.edge(from.to_string(), to.to_string(), size);
}

fn serial(parents: &Parents) -> Vec<u64> {
    let mut values = Vec::new();
    for (number, parents) in (0..).zip(parents) {
        values.push(mix(number, parents.iter().map(|&parent| values[parent])));
    }
    values
}

fn check(
    session: &mut Session,
    what: &str,
    parents: &Parents,
    workflow: &mut Workflow<'_>,
) -> Result<Option<Summary>, BoxError> {
    let collected = workflow.collect(session)?.into_parts();
    ensure(collected.is_some() == session.is_root(), || format!("{what}: rank 0 alone has results"))?;
    let Some((mut results, summary)) = collected else { return Ok(None) };
    let expected = serial(parents);
    let is_read = |task: &usize| parents.iter().any(|parents| parents.contains(task));
    for task in (0..parents.len()).filter(|task| !is_read(task)) {
        let found: u64 = results.take(&task.to_string())?;
        ensure(found == expected[task], || {
            format!("{what}: task {task} gave {found}, expected {}", expected[task])
        })?;
    }
    ensure(results.names().count() == 0, || format!("{what}: more than the final tasks gave something"))?;
    let done: u64 = summary.ranks.iter().map(|rank| rank.tasks).sum();
    let tasks = parents.len() as u64;
    ensure(summary.tasks == tasks && done == tasks + summary.retried, || {
        format!("{what}: not every task ran once\n{summary}")
    })?;
    Ok(Some(summary))
}

fn mixed(description: Description) -> Workflow<'static> {
    Workflow::from_description(description)
        .closure("mix", |inputs: &mut Inputs<'_>, cx| Ok(mix(cx.number(), inputs.take_all::<u64>()?)))
}

fn chain(session: &mut Session) -> Result<(), BoxError> {
    let parents: Parents =
        (0..1_000_usize).map(|number| number.checked_sub(1).into_iter().collect()).collect();
    check(session, "chain", &parents, &mut mixed(describe(&parents, |_, _| ())?)).map(drop)
}

fn wide(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    let mut parents: Parents = vec![vec![]; 300];
    parents.push((0..300).collect());
    let mut workflow = mixed(describe(&parents, |_, _| ())?);
    workflow = workflow.closure("mix", move |inputs, cx| {
        work.take_uneven(3, cx.number());
        Ok(mix(cx.number(), inputs.take_all::<u64>()?))
    });
    check(session, "wide", &parents, &mut workflow).map(drop)
}

/// Random graph in which each task has up to three parents among the 30 tasks before it.
fn graph(seed: u64, tasks: usize) -> Parents {
    let parent = |number: usize, which: u64| {
        let back = 1 + noise(seed + which, number as u64) as usize % 30;
        number.checked_sub(back)
    };
    let of = |number: usize| {
        let count = noise(seed, number as u64) % 4;
        let mut parents: Vec<usize> = (0..count).filter_map(|which| parent(number, which)).collect();
        parents.sort_unstable();
        parents.dedup();
        parents
    };
    (0..tasks).map(of).collect()
}

fn random(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    for seed in 0..6 {
        let parents = graph(seed, 200);
        let adjust = |number: usize, task: &mut Task| task.priority = noise(9, number as u64) as i64 % 3;
        let mut workflow = mixed(describe(&parents, adjust)?).closure("mix", move |inputs, cx| {
            work.take_uneven(seed, cx.number());
            Ok(mix(cx.number(), inputs.take_all::<u64>()?))
        });
        check(session, &format!("random {seed}"), &parents, &mut workflow)?;
    }
    Ok(())
}

fn planned(session: &mut Session) -> Result<(), BoxError> {
    for seed in 0..3 {
        let parents = graph(seed, 60);
        let adjust = |number: usize, task: &mut Task| {
            task.run_time = Some(1e-4 * (1 + noise(4, number as u64) % 9) as f64);
            task.memory = Some(noise(5, number as u64) % 1000);
        };
        let mut workflow = mixed(describe(&parents, adjust)?).memory(1 << 20);
        let summary = check(session, &format!("planned {seed}"), &parents, &mut workflow)?;
        let is_planned = |summary: Summary| summary.plan.is_some() == (session.size() > 1);
        ensure(summary.is_none_or(is_planned), || "a plan is missing".into())?;
    }
    Ok(())
}

/// Workflow with values of 100 kB on ranks that may hold only a few of them.
fn short_of_memory(session: &mut Session) -> Result<(), BoxError> {
    const WORDS: usize = 12_500;
    const SIZE: u64 = 8 * WORDS as u64 + 100;
    let value = |first: u64| vec![first; WORDS];
    let parents = graph(3, 60);
    let mut builder = Description::builder("graph");
    for (number, inputs) in parents.iter().enumerate() {
        let mut one = task(number);
        // No task reads a final result, and no edge of the graph states its size. The memory of the task states it instead.
        let is_read = parents.iter().any(|parents| parents.contains(&number));
        one.memory = (!is_read).then_some(SIZE);
        builder.task(one);
        inputs.iter().for_each(|parent| edge(&mut builder, *parent, number, SIZE));
    }
    let memory = 450_000;
    let mut workflow = mixed(builder.build()?).memory(memory).closure("mix", move |inputs, cx| {
        let values: Vec<Vec<u64>> = inputs.take_all()?;
        Ok(value(mix(cx.number(), values.iter().map(|values| values[WORDS - 1]))))
    });
    let Some((mut results, summary)) = workflow.collect(session)?.into_parts() else { return Ok(()) };
    let expected = serial(&parents);
    for name in results.names().map(str::to_string).collect::<Vec<_>>() {
        let found: Vec<u64> = results.take(&name)?;
        let task: usize = name.parse()?;
        ensure(found == value(expected[task]), || {
            format!("task {task} gave {}, expected {}", found[0], expected[task])
        })?;
    }
    let most = summary.ranks.iter().map(|rank| rank.most_held).max().unwrap_or(0);
    let spilled: u64 = summary.ranks.iter().map(|rank| rank.spilled).sum();
    ensure(most <= memory + memory / 16 && spilled > 0, || {
        format!("{most} bytes were held and {spilled} written to disk, where {memory} may be held\n{summary}")
    })
}

fn failing(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    let parents = graph(5, 100);
    let workflow = mixed(describe(&parents, |_, _| ())?).retries(1);
    let mut workflow = workflow.closure("mix", move |inputs, cx| {
        work.take(Duration::from_micros(10));
        match noise(6, cx.number()) % 10 {
            0 if cx.attempt() == 0 => Err("torn".into()),
            1 if cx.attempt() == 0 => panic!("burst"),
            _ => Ok(mix(cx.number(), inputs.take_all::<u64>()?)),
        }
    });
    let summary = check(session, "failing", &parents, &mut workflow)?;
    let expected = (0..100).filter(|&number| noise(6, number) % 10 < 2).count() as u64;
    ensure(summary.is_none_or(|summary| summary.retried == expected), || "tries were miscounted".into())
}
