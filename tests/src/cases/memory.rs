//! Peak memory: farms and pipelines must respect the limit of bytes in flight, and workflows the memory limit of their ranks. Tasks or results are
//! large, the sink is slow, or the first task delays the delivery of all other results.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use armature::farm::Farm;
use armature::pipeline::{Block, Mapping, MappingChoice, Pipeline};
use armature::workflow::{Action, Description, Task, Workflow};
use armature::{BoxError, Session};

use crate::Case;
use crate::check::{ensure, noise};
use crate::process_memory::status;

/// Test programs that each need a process of their own, because its peak memory is measured.
pub const CASES: &[Case] = &[
    Case { name: "memory-farm-tasks", run: |s| farm(s, Backlog::Tasks) },
    Case { name: "memory-farm-results", run: |s| farm(s, Backlog::Results) },
    Case { name: "memory-farm-late", run: |s| farm(s, Backlog::Late(1)) },
    Case { name: "memory-farm-late-master", run: |s| farm(s, Backlog::Late(0)) },
    Case { name: "memory-pipeline-tasks", run: |s| pipeline(s, Backlog::Tasks) },
    Case { name: "memory-pipeline-results", run: |s| pipeline(s, Backlog::Results) },
    Case { name: "memory-pipeline-late", run: |s| pipeline(s, Backlog::Late(1)) },
    Case { name: "memory-workflow", run: workflow },
];

/// Data of a farm that would accumulate in memory without a limit.
#[derive(Clone, Copy, PartialEq)]
enum Backlog {
    Tasks,
    Results,
    /// The first task on the rank with this number sleeps. The later results of other ranks (10 kB to 2 MB) must wait for its result.
    Late(usize),
}

/// Approximate number of bytes that a farm sends in total: more than any test allows in flight.
const ALL: u64 = 600 << 20;
const MIB: usize = 1 << 20;

impl Backlog {
    fn tasks(self) -> u64 {
        match self {
            Backlog::Tasks | Backlog::Results => ALL / MIB as u64,
            Backlog::Late(_) => ALL / 1_000_000,
        }
    }

    fn task(self, number: u64) -> Vec<u8> {
        let mut task = vec![1; if self == Backlog::Tasks { MIB } else { 1 << 10 }];
        task[..8].copy_from_slice(&number.to_le_bytes());
        task
    }

    fn work(self, rank: usize) -> impl FnMut(Vec<u8>) -> Vec<u8> + Send + Clone + 'static {
        let mut sleeps = self == Backlog::Late(rank);
        move |task| {
            if std::mem::take(&mut sleeps) {
                std::thread::sleep(Duration::from_secs(2));
            }
            self.result(&task)
        }
    }

    fn result(self, task: &[u8]) -> Vec<u8> {
        let number = task.iter().take(8).rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
        let size = match self {
            Backlog::Tasks => 8,
            Backlog::Results => MIB,
            Backlog::Late(_) => 10_000 + noise(5, number) as usize % 1_990_000,
        };
        let mut result = vec![2; size];
        result[..8].copy_from_slice(&task[..8]);
        result
    }

    /// Checks the result of task number `count` in the sink, which sleeps 2 ms except in the case `Late`.
    fn take(self, result: &[u8], count: u64) -> Result<(), BoxError> {
        if !matches!(self, Backlog::Late(_)) {
            std::thread::sleep(Duration::from_millis(2));
        }
        ensure(result[..8] == count.to_le_bytes(), || format!("result {count} is another one"))
    }
}

/// Prints by how many MiB the peak memory of the process has grown during `run`.
fn peak(
    session: &mut Session,
    run: impl FnOnce(&mut Session) -> Result<(), BoxError>,
) -> Result<(), BoxError> {
    let before = status("VmRSS")?;
    run(session)?;
    let peak = status("VmHWM")?.saturating_sub(before) >> 20;
    crate::print_line(&format!("rank {} took {peak} MiB", session.rank()));
    Ok(())
}

fn farm(session: &mut Session, backlog: Backlog) -> Result<(), BoxError> {
    peak(session, |session| {
        let mut count = 0;
        let mut farm = Farm::new("wide", backlog.work(session.rank()));
        let tasks = (0..backlog.tasks()).map(move |number| backlog.task(number));
        farm.for_each(session, tasks, |_, result| {
            count += 1;
            backlog.take(&result, count - 1)
        })?;
        ensure(!session.is_root() || count == backlog.tasks(), || format!("{count} results"))
    })
}

fn pipeline(session: &mut Session, backlog: Backlog) -> Result<(), BoxError> {
    peak(session, |session| {
        let count = AtomicU64::new(0);
        let everywhere = Block::new(0..1, (0..session.size()).collect());
        Pipeline::source("tasks", move || (0..backlog.tasks()).map(move |number| backlog.task(number)))
            .map("wide", backlog.work(session.rank()))
            .mapping(MappingChoice::Given(Mapping::new(vec![everywhere])))
            .for_each(session, "take", |result: Vec<u8>| {
                let number = count.fetch_add(1, Ordering::Relaxed);
                backlog.take(&result, number).expect("items come in order");
            })?;
        let count = count.load(Ordering::Relaxed);
        ensure(!session.is_root() || count == backlog.tasks(), || format!("{count} results"))
    })
}

/// Number of arrays that a rank of the test's workflow may hold.
pub const ARRAYS: usize = 6;
/// Size in bytes of an array that tasks of the test's workflow exchange.
pub const ARRAY: usize = 4 * MIB;

/// Workflow in which half of the tasks create arrays and the other half read two arrays each. A task that reads arrays sleeps. Its rank receives and
/// sends nothing during this time.
fn workflow(session: &mut Session) -> Result<(), BoxError> {
    const SOURCES: usize = 24;
    let run = |session: &mut Session, bytes: usize| -> Result<(), BoxError> {
        let mut builder = Description::builder("arrays");
        for number in 0..2 * SOURCES {
            let mut task = Task::new(number.to_string(), Action::Closure("add".into()));
            // A task that reads two arrays holds them decoded in addition to the received messages.
            task.memory = (number >= SOURCES).then_some(2 * bytes as u64);
            builder.task(task);
        }
        for reader in 0..SOURCES {
            for source in [reader, (7 * reader + 5) % SOURCES] {
                builder.edge(source.to_string(), (SOURCES + reader).to_string(), bytes as u64);
            }
        }
        let mut workflow = Workflow::from_description(builder.build()?).unplanned();
        workflow = workflow.memory((ARRAYS * bytes + bytes / 4) as u64).closure("add", move |inputs, cx| {
            if inputs.is_empty() {
                return Ok(vec![cx.number(); bytes / size_of::<u64>()]);
            }
            let arrays: Vec<Vec<u64>> = inputs.take_all()?;
            std::thread::sleep(Duration::from_millis(10));
            let sum = arrays.iter().map(|array| array[array.len() / 2]).sum::<u64>();
            Ok(vec![sum])
        });
        let Some(mut results) = workflow.collect(session)?.on_root() else { return Ok(()) };
        (0..SOURCES).try_for_each(|reader| {
            let found: Vec<u64> = results.take(&(SOURCES + reader).to_string())?;
            let expected = (reader + (7 * reader + 5) % SOURCES) as u64;
            ensure(found == [expected], || format!("reader {reader} gave {found:?}, expected {expected}"))
        })
    };
    // A first run with small arrays allocates everything that does not depend on their size, so that the measured run does not.
    run(session, ARRAY / 32)?;
    peak(session, |session| run(session, ARRAY))
}
