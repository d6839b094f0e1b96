//! Serialisation and transfer of runs of each skeleton: real ones on threads, and simulated ones whose ideal time is known.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use armature::farm::Farm;
use armature::loops::{OldGrid, ParallelFor, Shape, Stencil, StencilLoop};
use armature::observe::{self, Record};
use armature::pipeline::Pipeline;
use armature::workflow::{Action, Description, Task, Workflow};
use armature::{BoxError, Config, Session};
use armature_report::{Efficiencies, Run, diagnosis, tree};

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
    assert!((0.0..=1.0).contains(&serialisation) && (0.0..=1.001).contains(&transfer), "{whole:?}");
    assert!((serialisation * transfer - whole.communication_efficiency).abs() < 1e-9, "{whole:?}");
    assert!(ideal > 0.0 && ideal <= 1.001 * whole.elapsed_time, "{whole:?}");
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

/// Runs on simulated hosts with a slow network, kept in `logs`, and how long the same runs lasted on the same hosts with a network of no latency and a
/// million GB/s (`ci/smpi/run.sh --platform`): what the replay has to find. Nothing was balanced, so that on both networks the same rank did
/// the same, but for a few tasks of the workflow.
///
/// | log | hosts | network | program |
/// |---|---|---|---|
/// | pipeline | 3 of 1 Gf | 5 ms, 1 MB/s | `armature-cases declared`, 10 Mflop an item |
/// | farm | 4 of 1 Gf | 5 ms, 1 MB/s | `synthetic-farm --chunking static`, 300 tasks of 5 ms, 3 iterations |
/// | doall, grid, workflow | 1, 2 and 0.5 Gf | 1 ms, 10 MB/s | `armature-cases units`, `stencils`, `workflow-random` |
#[test]
fn of_simulated_runs_it_is_how_long_they_last_on_an_ideal_network() {
    // The loop over a grid lasts 3 ms, of which the simulator's price for looks at messages is a good part.
    let truths = [
        ("pipeline", 0.480_017_84, 0.001),
        ("farm", 1.206_774_52, 0.001),
        ("doall", 0.015_201_94, 0.001),
        ("grid", 0.003_120_32, 0.1),
        ("workflow", 0.013_627_72, 0.005),
    ];
    for (name, truth, tolerance) in truths {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs").join(format!("{name}.jsonl"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let records: Vec<Record> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let run = &Run::all(&records)[0];
        let whole = &tree(run, 0).0[0];
        let found = whole.ideal_time.expect("the log has all messages");
        eprintln!(
            "{name}: {found} s, on an ideal network {truth} s, on the slow one {} s",
            whole.elapsed_time
        );
        assert!((found / truth - 1.0).abs() < tolerance, "{name}: {found} s and not {truth} s");
        // Without the replay it would take the time of the slow network for what it is not.
        assert!(whole.elapsed_time > 1.05 * truth, "{name}: the network was not slow");
        if name == "farm" {
            assert!(
                diagnosis(run).contains("if these took no time, the run would take 1.207 s and not 2.472 s")
            );
        }
    }
}
