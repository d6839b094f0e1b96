//! Serialisation and transfer of real runs of each skeleton, on threads.

use std::thread::sleep;
use std::time::Duration;

use armature::farm::Farm;
use armature::loops::{OldGrid, ParallelFor, Shape, Stencil, StencilLoop};
use armature::observe::{self, Record};
use armature::pipeline::Pipeline;
use armature::workflow::{Action, Description, Task, Workflow};
use armature::{BoxError, Config, Session};
use armature_report::{Efficiencies, Run, tree};

const RANKS: usize = 3;

fn doze() {
    sleep(Duration::from_millis(2));
}

fn records(body: impl Fn(&Session) -> Result<(), BoxError> + Sync) -> Vec<Record> {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::new().ranks(RANKS).events(Some(dir.path().into()));
    armature::run(&config, body).unwrap();
    observe::read(dir.path()).unwrap().records
}

/// The efficiencies of a run, which is known to the last message.
#[track_caller]
fn efficiencies(body: impl Fn(&Session) -> Result<(), BoxError> + Sync) -> Efficiencies {
    let run = Run::all(&records(body)).remove(0);
    let whole = tree(&run, 0).0.remove(0);
    let (Some(serialisation), Some(transfer), Some(ideal)) =
        (whole.serialisation_efficiency, whole.transfer_efficiency, whole.ideal_time)
    else {
        panic!("not known: {whole:?}")
    };
    assert!((0.0..=1.0).contains(&serialisation) && (0.0..=1.0).contains(&transfer), "{whole:?}");
    assert!((serialisation * transfer - whole.communication_efficiency).abs() < 1e-9, "{whole:?}");
    assert!(ideal > 0.0 && ideal <= whole.elapsed_time, "{whole:?}");
    whole
}

#[test]
fn of_a_farm() {
    efficiencies(|session| {
        Farm::new("doze", |n: u64| {
            doze();
            n
        })
        .collect(session, 0..60)?;
        Ok(())
    });
}

#[test]
fn of_a_pipeline() {
    efficiencies(|session| {
        let stage = |n: u64| {
            doze();
            n
        };
        Pipeline::source("numbers", || 0..40)
            .map("one", stage)
            .map("two", stage)
            .for_each("out", drop)
            .run(session)?;
        Ok(())
    });
}

#[test]
fn of_a_doall_loop() {
    efficiencies(|session| {
        ParallelFor::new("doze", 0..60).collect(session, |n| {
            doze();
            n
        })?;
        Ok(())
    });
}

struct Doze;

impl Stencil for Doze {
    type Value = f64;

    fn row(&mut self, _: u64, values: &mut [f64]) -> Result<(), BoxError> {
        values.fill(0.0);
        Ok(())
    }

    fn step(&mut self, _: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
        doze();
        new.fill(1.0);
        Ok(())
    }
}

#[test]
fn of_a_grid() {
    efficiencies(|session| {
        StencilLoop::new("doze", Shape { rows: 12, columns: 4 }, Doze).run(session, 20)?;
        Ok(())
    });
}

/// Tasks each of which reads what the one before gives: ranks wait for each other, whatever messages take.
#[test]
fn of_a_workflow_that_is_a_chain() {
    const TASKS: usize = 20;
    let mut chain = Description::builder("chain");
    for n in 0..TASKS {
        chain.task(Task::new(format!("{n}"), Action::Closure("doze".into())));
        if n > 0 {
            chain.edge(format!("{}", n - 1), format!("{n}"), 8);
        }
    }
    let chain = chain.build().unwrap();
    let whole = efficiencies(|session| {
        let mut workflow = Workflow::new(chain.clone()).closure("doze", |_, _| {
            doze();
            Ok(0_u64)
        });
        workflow.collect(session)?;
        Ok(())
    });
    // All of the chain, wherever its tasks ran.
    assert!(whole.ideal_time >= Some(0.002 * TASKS as f64), "{whole:?}");
}
