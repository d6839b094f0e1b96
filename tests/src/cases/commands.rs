//! Workflows (graphs of tasks) whose tasks are commands, which run in the directory `ARMATURE_TEST_DIRECTORY`.

use std::path::PathBuf;
use std::time::Duration;

use armature::workflow::{Action, Cluster, Description, Processor, Task, Workflow};
use armature::{BoxError, Session};

use crate::Case;
use crate::check::{ensure, noise, setting};

/// Workflows of commands that run only in tests that name them. Most need ranks that can start commands or be killed.
pub const CASES: &[Case] = &[
    Case { name: "workflow-commands", run: commands },
    Case { name: "workflow-deaths", run: deaths },
    Case { name: "workflow-deadly", run: deadly },
    Case { name: "workflow-slow-rank", run: slow_rank },
];

fn directory() -> Result<PathBuf, BoxError> {
    Ok(std::env::var_os("ARMATURE_TEST_DIRECTORY").ok_or("ARMATURE_TEST_DIRECTORY is not set")?.into())
}

fn shell(name: &str, line: &str) -> Task {
    Task::new(name, Action::Shell(line.into()))
}

/// Workflow of commands and closures that read each other's files. Some commands fail once or always, or reach their limit of time or memory.
fn commands(session: &mut Session) -> Result<(), BoxError> {
    let directory = directory()?;
    let mut builder = Description::builder("commands");
    let mut make = shell("make", "cat > numbers; echo made");
    make.stdin = Some("3 4\n5 6\n".into());
    builder.task(make);
    let mut sum = shell("sum", "awk \"{ s += \\$1 $SIGN \\$2 } END { print s }\" numbers > sum");
    sum.environment.insert("SIGN".into(), "+".into());
    builder.task(sum);
    let arguments = ["numbers".to_string(), "copy".to_string()];
    builder.task(Task::new("copy", Action::Command { program: "cp".into(), arguments: arguments.into() }));
    builder.task(Task::new("read", Action::Closure("read".into())));
    builder.task(shell("stumble", "test -e stumbled || { touch stumbled; exit 3; }"));
    builder.task(shell("fall", "exit 4"));
    builder.task(shell("behind", "touch never"));
    let mut long = shell("long", "sleep 60");
    long.time_limit = Some(Duration::from_millis(200));
    builder.task(long);
    let mut large = shell("large", "python3 -c 'import time; x = b\"x\" * (60 << 20); time.sleep(0.3)'");
    large.memory = Some(20 << 20);
    large.tries = Some(4);
    builder.task(large);
    for (from, to) in
        [("make", "sum"), ("make", "copy"), ("sum", "read"), ("copy", "read"), ("fall", "behind")]
    {
        builder.edge(from, to, 0);
    }
    let in_it = directory.clone();
    let read = move |inputs: &mut armature::workflow::Inputs<'_>, _: &armature::workflow::Context| {
        inputs.take_all::<()>()?;
        let read = |name: &str| std::fs::read_to_string(in_it.join(name));
        Ok((read("sum")?, read("copy")?))
    };
    let mut workflow = Workflow::from_description(builder.build()?).closure("read", read);
    workflow = workflow.directory(&directory).enforce_memory().retries(1).max_failures(2).unplanned();
    let Some((mut results, summary)) = workflow.collect(session)?.into_parts() else { return Ok(()) };
    let found: (String, String) = results.take("read")?;
    ensure(found == ("18\n".into(), "3 4\n5 6\n".into()), || format!("the files say {found:?}"))?;
    let mut failed: Vec<String> = summary.failed.iter().map(ToString::to_string).collect();
    failed.sort_by_key(|failed| failed.contains("limit"));
    let has_texts = |at: usize, texts: [&str; 3]| texts.iter().all(|text| failed[at].contains(text));
    ensure(
        failed.len() == 2
            && has_texts(0, ["task \"fall\" failed on rank ", " after 2 tries: ", "exit code 4"])
            && has_texts(1, ["task \"long\" failed on rank ", " after 2 tries: ", "ended at its time limit"]),
        || format!("{failed:?}\n{summary}"),
    )?;
    let large = summary.measured[8].and_then(|large| large.peak_memory);
    ensure(large.is_some_and(|peak| peak > 60 << 20), || format!("the peak of `large` is {large:?}"))?;
    ensure((summary.tasks, summary.skipped) == (6, 1) && !directory.join("never").exists(), || {
        summary.to_string()
    })
}

/// Runs `ARMATURE_TEST_TASKS` short tasks with values of `ARMATURE_TEST_VALUE_BYTES` bytes while the test kills ranks. The results of the final tasks
/// must be right. Rank 0 prints a line when the workflow is running. `ARMATURE_TEST_JOURNAL` is a file in which values are kept.
fn deaths(session: &mut Session) -> Result<(), BoxError> {
    let tasks = setting("ARMATURE_TEST_TASKS", 2_000)?;
    let mut builder = Description::builder("mortal");
    let parents = |number: usize| {
        let back = |which: u64| number.checked_sub(1 + noise(which, number as u64) as usize % 20);
        let mut parents: Vec<usize> = (0..2).filter_map(back).collect();
        parents.dedup();
        parents
    };
    for number in 0..tasks {
        builder.task(Task::new(number.to_string(), Action::Closure("mix".into())));
        for parent in parents(number) {
            builder.edge(parent.to_string(), number.to_string(), 0);
        }
    }
    let words = (setting("ARMATURE_TEST_VALUE_BYTES", 8)? / 8).max(1);
    let mix = |number: usize, inputs: Vec<u64>| {
        inputs.into_iter().fold(noise(1, number as u64), |a, b| a.rotate_left(3) ^ b)
    };
    let workflow = Workflow::from_description(builder.build()?).retries(3);
    let mut workflow = workflow.closure("mix", |inputs, cx| {
        if cx.rank() == 0 && cx.number() >= tasks as u64 / 100 {
            static PRINT_ONCE: std::sync::Once = std::sync::Once::new();
            PRINT_ONCE.call_once(|| crate::print_line("workflow under way"));
        }
        std::thread::sleep(Duration::from_micros(200 + noise(7, cx.number()) % 1_000));
        let inputs: Vec<Vec<u64>> = inputs.take_all()?;
        Ok(vec![mix(cx.number() as usize, inputs.iter().map(|input| input[words - 1]).collect()); words])
    });
    if let Some(path) = std::env::var_os("ARMATURE_TEST_JOURNAL") {
        workflow = workflow.journal(path, &tasks);
    }
    let Some((mut results, summary)) = workflow.collect(session)?.into_parts() else { return Ok(()) };
    let mut expected: Vec<u64> = Vec::new();
    let mut is_read = vec![false; tasks];
    for number in 0..tasks {
        let parents = parents(number);
        parents.iter().for_each(|&parent| is_read[parent] = true);
        // A task of the workflow receives its inputs in the order of the numbers of the tasks that computed them.
        let mut parents = parents;
        parents.sort_unstable();
        expected.push(mix(number, parents.into_iter().map(|parent| expected[parent]).collect()));
    }
    for number in (0..tasks).filter(|&number| !is_read[number]) {
        let found: Vec<u64> = results.take(&number.to_string())?;
        ensure(found == vec![expected[number]; words], || {
            format!("task {number} gave {}, expected {}\n{summary}", found[0], expected[number])
        })?;
    }
    ensure(results.names().count() == 0, || "more than the final tasks gave something".into())?;
    ensure(summary.tasks == tasks as u64, || format!("not every task is done\n{summary}"))?;
    crate::print_line(&format!("workflow complete, lost {:?}, known {}", summary.lost, summary.known));
    Ok(())
}

/// One task aborts each rank that runs it, at most twice. Rank 0 is declared slow, so that the plan assigns the task to another rank.
/// `ARMATURE_TEST_JOURNAL` is the file in which values are kept.
fn deadly(session: &mut Session) -> Result<(), BoxError> {
    let mut builder = Description::builder("deadly");
    let mut task = Task::new("deadly", Action::Closure("abort".into()));
    task.run_time = Some(1.0);
    builder.task(task);
    let speed = |rank: usize| if rank == 0 { 1e-3 } else { 1.0 };
    let ranks = (0..session.size()).map(|rank| Processor::new(format!("rank {rank}"), speed(rank), 1 << 30));
    Workflow::from_description(builder.build()?)
        .retries(1)
        .cluster(Cluster::new(ranks.collect(), 1e9)?)
        .journal(std::env::var_os("ARMATURE_TEST_JOURNAL").ok_or("ARMATURE_TEST_JOURNAL is not set")?, "")
        .closure("abort", |_, _| -> Result<(), BoxError> { std::process::abort() })
        .run(session)?;
    Ok(())
}

/// The last rank is four times as slow as the workflow's description declares. Rank 0 must plan the workflow again, and give this rank fewer tasks.
fn slow_rank(session: &mut Session) -> Result<(), BoxError> {
    const TASKS: usize = 60;
    let slow = session.size() - 1;
    let mut builder = Description::builder("slow rank");
    for number in 0..TASKS {
        let mut task = Task::new(number.to_string(), Action::Closure("wait".into()));
        task.run_time = Some(0.02);
        builder.task(task);
        builder.edge(number.to_string(), "all", 8);
    }
    builder.task(Task::new("all", Action::Closure("sum".into())));
    let description = builder.build()?;
    // On a busy machine, the measured cost of a new plan may be too high, so that the workflow runs up to five times.
    for _ in 0..5 {
        let mut workflow = Workflow::from_description(description.clone())
            .closure("wait", move |_, cx| {
                std::thread::sleep(Duration::from_millis(if cx.rank() == slow { 80 } else { 20 }));
                Ok(cx.number())
            })
            .closure("sum", |inputs, _| Ok(inputs.take_all::<u64>()?.into_iter().sum::<u64>()));
        let mut replanned = None;
        if let Some((mut results, summary)) = workflow.collect(session)?.into_parts() {
            let (sum, expected) = (results.take::<u64>("all")?, (0..TASKS as u64).sum::<u64>());
            ensure(sum == expected, || format!("the sum is {sum}, expected {expected}\n{summary}"))?;
            replanned = Some(summary.replanned);
            let (tasks, fair) = (summary.ranks[slow].tasks, TASKS as u64 / session.size() as u64);
            ensure(summary.replanned == 0 || tasks < fair, || {
                format!("the slow rank has done {tasks} tasks\n{summary}")
            })?;
        }
        if session.broadcast(replanned)? > 0 {
            return Ok(());
        }
    }
    Err("a rank is four times as slow as planned, and no other plan was taken".into())
}
