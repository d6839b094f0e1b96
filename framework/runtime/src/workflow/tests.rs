//! Workflows on ranks that are threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::error::{BoxError, ErrorKind, Result};
use crate::session::{Config, Driver, run};

fn config(ranks: usize) -> Config {
    Config::new().ranks(ranks).progress(crate::Progress::Off)
}

fn task(name: impl Into<String>, closure: &str) -> Task {
    Task::new(name, Action::Closure(closure.into()))
}

/// `a` gives to `b` and `c`, and these to `d`.
fn diamond() -> Description {
    let mut builder = Description::builder("diamond");
    for name in ["a", "b", "c", "d"] {
        builder.task(task(name, name));
    }
    builder.edge("a", "b", 0).edge("a", "c", 0).edge("b", "d", 0).edge("c", "d", 0);
    builder.build().unwrap()
}

fn run_diamond(workflow: Workflow<'_>) -> Workflow<'_> {
    workflow
        .closure("a", |_, _| Ok(vec![1.0, 2.0]))
        .closure("b", |inputs, _| Ok(inputs.take::<Vec<f64>>("a")?.iter().sum::<f64>()))
        .closure("c", |inputs, cx| Ok(format!("{} {}", cx.name(), inputs.take::<Vec<f64>>("a")?.len())))
        .closure("d", |inputs, _| {
            assert!(inputs.names().eq(["b", "c"]));
            Ok((inputs.take::<f64>("b")?, inputs.take::<String>("c")?))
        })
}

#[test]
fn values_of_different_types_go_along_the_edges() {
    for ranks in 1..=4 {
        for driver in [Driver::Auto, Driver::Inline, Driver::Threaded] {
            let got = run(&config(ranks).driver(driver), |session| {
                let mut workflow = run_diamond(Workflow::new(diamond())).on_all_ranks();
                let (mut results, summary) = workflow.collect(session)?.expect("on all ranks");
                assert_eq!((summary.tasks, results.names().collect::<Vec<_>>()), (4, vec!["d"]));
                assert!(results.take::<u8>("d").is_err(), "it is of another type");
                assert!(results.take::<u8>("b").unwrap_err().message().contains("not among the final tasks"));
                // Once more.
                let (mut results, _) = workflow.collect(session)?.expect("on all ranks");
                Ok(results.take::<(f64, String)>("d")?)
            });
            assert_eq!(got.unwrap(), (3.0, "c c".replace(" c", " 2")));
        }
    }
}

#[test]
fn small_tasks_in_great_number_run_once_each() {
    let mut builder = Description::builder("many");
    for number in 0..10_000 {
        builder.task(task(number.to_string(), "count"));
    }
    let description = builder.build().unwrap();
    let count = AtomicUsize::new(0);
    let summary = run(&config(2), |session| {
        let mut workflow = Workflow::new(description.clone()).closure("count", |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        Ok(workflow.run(session)?)
    });
    assert_eq!((count.into_inner(), summary.unwrap().unwrap().tasks), (10_000, 10_000));
}

/// What comes of a workflow whose task `b` does this.
fn with_b(ranks: usize, b: impl Fn(&Context) -> Result<f64, BoxError> + Sync) -> Result<Option<Summary>> {
    run(&config(ranks), |session| {
        let mut workflow = run_diamond(Workflow::new(diamond())).closure("b", |_, cx| b(cx));
        Ok(workflow.run(session)?)
    })
}

#[test]
fn a_task_that_fails_is_tried_again_and_then_ends_the_job() {
    for ranks in 1..=3 {
        let summary = with_b(ranks, |cx| if cx.attempt() == 0 { Err("torn".into()) } else { Ok(1.0) });
        assert_eq!(summary.unwrap().unwrap().retried, 1);
        let error = with_b(ranks, |_| Err("torn".into())).unwrap_err();
        assert_eq!((error.kind(), error.item(), error.stage()), (ErrorKind::User, Some(1), Some("diamond")));
        assert_eq!(error.message(), "torn (task \"b\", after 2 tries)");
        let error = with_b(ranks, |_| panic!("burst")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Panic);
        assert!(
            error
                .to_string()
                .ends_with("workflow diamond: task 1: panicked: burst (task \"b\", after 2 tries)")
        );
    }
}

#[test]
fn an_input_of_another_type_or_name_is_the_tasks_error() {
    let with = |b: fn(&mut Inputs<'_>) -> Result<f64, BoxError>| {
        let error = run(&config(2), |session| {
            let mut workflow =
                run_diamond(Workflow::new(diamond())).retries(0).closure("b", |inputs, _| b(inputs));
            Ok(workflow.run(session)?)
        });
        error.unwrap_err().to_string()
    };
    let error = with(|inputs| inputs.take("a"));
    assert!(error.contains("what \"a\" gives: ") && error.contains("f64"), "{error}");
    let error = with(|inputs| inputs.take("c"));
    assert!(error.contains("\"c\" is not among the tasks that it reads from"), "{error}");
    let error = with(|inputs| Ok(inputs.take::<Vec<f64>>("a")?[0] + inputs.take::<f64>("a")?));
    assert!(error.contains("what \"a\" gives has been taken already"), "{error}");
}

#[test]
fn failures_that_may_be_leave_the_rest_to_run() {
    let summary = run(&config(2), |session| {
        let workflow = run_diamond(Workflow::new(diamond())).max_failures(1);
        let mut workflow = workflow.closure("b", |_, _| Err::<f64, _>("torn".into()));
        Ok(workflow.collect(session)?.map(|(results, summary)| (results.names().count(), summary)))
    });
    let (results, summary) = summary.unwrap().unwrap();
    assert_eq!((results, summary.tasks, summary.skipped, summary.failed.len()), (0, 2, 1, 1));
    assert_eq!((summary.failed[0].name(), summary.failed[0].attempts()), ("b", 2));
    assert!(summary.to_string().contains("\n1 task failed, 1 skipped behind them, 1 retried\n"), "{summary}");
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_runs() {
    let refused = |workflow: fn(Description) -> Workflow<'static>| {
        let error = run(&config(2), |session| Ok(workflow(diamond()).run(session)?)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        error.to_string()
    };
    let error = refused(|description| Workflow::new(description).closure("a", |_, _| Ok(())));
    assert!(error.contains("task \"b\" runs the closure \"b\", expected one of [\"a\"]"), "{error}");
    let error = refused(|description| run_diamond(Workflow::new(description)).on_all_ranks());
    assert!(error.contains("on_all_ranks is set"), "{error}");
    let error = refused(|_| {
        let mut builder = Description::builder("large");
        let mut large = task("a", "a");
        large.memory = Some(300);
        builder.task(large);
        run_diamond(Workflow::new(builder.build().unwrap())).memory(200)
    });
    assert!(
        error.contains("workflow large: task \"a\" needs 300 bytes, where a rank may have 200"),
        "{error}"
    );
}

#[test]
fn ranks_that_run_different_workflows_say_so() {
    let told = |other: fn(Workflow<'static>) -> Workflow<'static>| {
        let error = run(&config(3), |session| {
            let workflow = run_diamond(Workflow::new(diamond()));
            let mut workflow = if session.rank() == 2 { other(workflow) } else { workflow };
            Ok(workflow.run(session)?)
        });
        let error = error.unwrap_err();
        assert_eq!((error.kind(), error.rank()), (ErrorKind::Config, Some(2)), "{error}");
        error.to_string()
    };
    let error = told(|workflow| workflow.closure("b", |_, _| Ok(1_u8)));
    assert!(error.contains("with closures a: alloc::vec::Vec<f64>, b: u8"), "{error}");
    let error = told(|workflow| workflow.retries(7));
    assert!(error.contains("with needs of digest "), "{error}");
    let error = told(|workflow| workflow.memory(1 << 30));
    assert!(error.contains("with memory 1073741824, where rank 0 does so with memory any"), "{error}");
}

#[test]
fn a_journal_runs_only_what_is_missing_on_any_number_of_ranks() {
    let dir = tempfile::tempdir().unwrap();
    for (first, then) in [(1, 3), (3, 1), (2, 4)] {
        let path = dir.path().join(format!("{first}-{then}.journal"));
        let runs = AtomicUsize::new(0);
        let go = |ranks, fails: bool, fingerprint: &str| {
            run(&config(ranks), |session| {
                let workflow = run_diamond(Workflow::new(diamond())).retries(0).journal(&path, fingerprint);
                let mut workflow = workflow.closure("c", |inputs, cx| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    let given: Vec<f64> = inputs.take("a")?;
                    if fails { Err("torn".into()) } else { Ok(format!("{} {}", cx.name(), given.len())) }
                });
                let Some((mut results, summary)) = workflow.collect(session)? else { return Ok(None) };
                Ok(Some((results.take::<(f64, String)>("d")?, summary)))
            })
        };
        assert!(go(first, true, "1").unwrap_err().to_string().contains("torn"));
        let (value, summary) = go(then, false, "1").unwrap().unwrap();
        assert_eq!((value, summary.tasks), ((3.0, "c 2".to_string()), 4));
        // Task `b` may or may not have been done before `c` failed.
        assert!((1..=2).contains(&summary.known), "{summary}");
        let (value, summary) = go(first, true, "1").unwrap().unwrap();
        assert_eq!((value, summary.known, summary.ranks[0].tasks), ((3.0, "c 2".to_string()), 4, 0));
        let error = go(first, false, "2").unwrap_err();
        assert!(error.message().contains("belongs to another job"), "{error}");
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    }
}

fn equal(ranks: usize, memory: u64) -> Cluster {
    Cluster::new(vec![Processor::new("rank", 1.0, memory); ranks], f64::INFINITY).unwrap()
}

#[test]
fn a_plan_that_is_given_is_followed() {
    let dag = diamond().to_workflow().unwrap();
    let mut plan = armature_planner::workflow::heftm(
        &dag,
        &equal(3, 1000),
        armature_planner::workflow::Level::Bottom,
        TaskMemory::Additive,
    )
    .unwrap();
    plan.processor_of = vec![2, 1, 0, 2];
    let go = |plan: &Plan, cluster: &Cluster| {
        run(&config(3), |session| {
            let mut workflow =
                run_diamond(Workflow::new(diamond())).follow(plan.clone()).cluster(cluster.clone());
            Ok(workflow.run(session)?)
        })
    };
    let summary = go(&plan, &equal(3, 1000)).unwrap().unwrap();
    let ran_on: Vec<_> = summary.measured.iter().map(|measured| measured.as_ref().unwrap().rank).collect();
    assert_eq!(ran_on, plan.processor_of);
    assert!(summary.to_string().contains("planned by the caller"), "{summary}");
    let error = go(&plan, &equal(2, 1000)).unwrap_err().to_string();
    assert!(error.contains("the cluster has 2 processors, where there are 3 ranks"), "{error}");
    let error = go(&plan, &equal(3, 10)).unwrap_err().to_string();
    assert!(error.contains("where a rank may have 10"), "{error}");
    let error = go(&Plan { processor_of: vec![2, 1, 0, 3], ..plan.clone() }, &equal(3, 1000)).unwrap_err();
    assert!(error.message().contains("a task on processor 3"), "{error}");
    let error = go(&Plan { sequence: vec![0, 1, 2, 2], ..plan.clone() }, &equal(3, 1000)).unwrap_err();
    assert!(error.message().contains("expected each of 4 once"), "{error}");
}

#[test]
fn ranks_hold_what_the_cluster_says_that_they_have() {
    let mut builder = Description::builder("unequal");
    for (name, memory) in [("small", 100), ("large", 5_000)] {
        let mut task = task(name, "rank");
        task.memory = Some(memory);
        builder.task(task);
    }
    let description = builder.build().unwrap();
    let cluster =
        Cluster::new(vec![Processor::new("a", 1.0, 1_000), Processor::new("b", 1.0, 6_000)], 1e9).unwrap();
    for is_planned in [true, false] {
        let ran_on = run(&config(2), |session| {
            let mut workflow = Workflow::new(description.clone()).cluster(cluster.clone());
            if !is_planned {
                workflow = workflow.unplanned();
            }
            let Some((mut results, _)) = workflow.closure("rank", |_, cx| Ok(cx.rank())).collect(session)?
            else {
                return Ok(None);
            };
            Ok(Some(results.take::<usize>("large")?))
        });
        assert_eq!(ran_on.unwrap(), Some(1));
    }
}
