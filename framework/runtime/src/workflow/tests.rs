//! Tests of workflows on ranks that are threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::error::{BoxError, ErrorKind, Result};
use crate::observe::Event;
use crate::session::{Config, Driver, run};

fn config(ranks: usize) -> Config {
    Config::new().ranks(ranks).progress(crate::Progress::Off)
}

fn task(name: impl Into<String>, closure: &str) -> Task {
    Task::new(name, Action::Closure(closure.into()))
}

/// Returns a workflow of four tasks: `b` and `c` read the output of `a`, and `d` reads the outputs of `b` and `c`.
fn diamond() -> Description {
    diamond_with_priority(0)
}

fn diamond_with_priority(priority: i64) -> Description {
    let mut builder = Description::builder("diamond");
    for name in ["a", "b", "c"] {
        builder.task(task(name, name));
    }
    let mut d = task("d", "d");
    d.priority = priority;
    builder.task(d);
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
fn edges_pass_values_of_different_types() {
    for ranks in 1..=4 {
        for driver in [Driver::Auto, Driver::Inline, Driver::Threaded] {
            let got = run(&config(ranks).driver(driver), |session| {
                let mut workflow = run_diamond(Workflow::from_description(diamond()));
                let mut results = workflow.collect_on_all(session)?;
                assert_eq!(results.names().collect::<Vec<_>>(), ["d"]);
                assert!(results.take::<u8>("d").is_err(), "it is of another type");
                assert!(results.take::<u8>("b").unwrap_err().message().contains("not among the final tasks"));
                // The workflow is run twice more, first with the results on all ranks, then with the results on rank 0 alone.
                let on_all = workflow.collect_on_all(session)?.take::<(f64, String)>("d")?;
                assert_eq!(on_all, (3.0, "c 2".to_string()));
                let collected = workflow.collect(session)?.into_parts();
                assert_eq!(collected.is_some(), session.is_root());
                let Some((mut results, summary)) = collected else { return Ok(None) };
                Ok(Some((results.take::<(f64, String)>("d")?, summary.tasks)))
            });
            assert_eq!(got.unwrap(), Some(((3.0, "c 2".to_string()), 4)));
        }
    }
}

#[test]
fn many_small_tasks_run_once_each() {
    let mut builder = Description::builder("many");
    for number in 0..10_000 {
        builder.task(task(number.to_string(), "count"));
    }
    let description = builder.build().unwrap();
    let count = AtomicUsize::new(0);
    let summary = run(&config(2), |session| {
        let mut workflow = Workflow::from_description(description.clone()).closure("count", |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        Ok(workflow.run(session)?.into_summary())
    });
    assert_eq!((count.into_inner(), summary.unwrap().unwrap().tasks), (10_000, 10_000));
}

fn with_b(ranks: usize, b: impl Fn(&Context) -> Result<f64, BoxError> + Sync) -> Result<Option<Summary>> {
    run(&config(ranks), |session| {
        let workflow = run_diamond(Workflow::from_description(diamond())).retries(1);
        Ok(workflow.closure("b", |_, cx| b(cx)).run(session)?.into_summary())
    })
}

#[test]
fn failing_task_is_retried_and_then_ends_the_job() {
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
fn wrong_input_type_or_name_is_an_error_of_the_task() {
    let with = |b: fn(&mut Inputs<'_>) -> Result<f64, BoxError>| {
        let error = run(&config(2), |session| {
            let workflow = run_diamond(Workflow::from_description(diamond()));
            Ok(workflow.closure("b", |inputs, _| b(inputs)).run(session)?)
        });
        error.unwrap_err().to_string()
    };
    let error = with(|inputs| inputs.take("a"));
    assert!(error.contains("the output of \"a\": ") && error.contains("f64"), "{error}");
    let error = with(|inputs| inputs.take("c"));
    assert!(error.contains("\"c\" is not one of the task's inputs"), "{error}");
    let error = with(|inputs| Ok(inputs.take::<Vec<f64>>("a")?[0] + inputs.take::<f64>("a")?));
    assert!(error.contains("the output of \"a\" has been taken already"), "{error}");
}

#[test]
fn slow_rank_gets_less_work_after_replanning() {
    let mut builder = Description::builder("equal");
    for number in 0..40 {
        let mut wait = task(number.to_string(), "wait");
        wait.run_time = Some(0.02);
        builder.task(wait);
    }
    let description = builder.build().unwrap();
    let mut options = PlanOptions::default();
    options.evaluations = 0;
    let once = || {
        let summary = run(&config(2), |session| {
            let workflow = Workflow::from_description(description.clone()).plan(options.clone());
            let mut workflow = workflow.closure("wait", |_, cx| {
                // Rank 1 takes four times as long as rank 0, which the workflow's description does not state.
                std::thread::sleep(Duration::from_millis(if cx.rank() == 1 { 80 } else { 20 }));
                Ok(())
            });
            Ok(workflow.run(session)?.into_summary())
        });
        summary.unwrap().unwrap()
    };
    // Up to five runs, because on a busy machine planning may take too long for the plan to be replaced.
    let mut runs = std::iter::repeat_with(once).take(5);
    let summary = runs.find(|summary| summary.replanned > 0).expect("it is planned anew");
    let tasks: Vec<u64> = summary.ranks.iter().map(|rank| rank.tasks).collect();
    assert!(tasks[1] < 20 && tasks[0] + tasks[1] == 40, "{tasks:?} {summary}");
    assert!(summary.to_string().contains("\nreplanned "), "{summary}");
}

#[test]
fn closure_beyond_its_time_limit_fails_or_ends_the_job() {
    let with = |driver: Driver, sleep: Duration| {
        let mut builder = Description::builder("slow");
        let mut slow = task("slow", "sleep");
        slow.time_limit = Some(Duration::from_millis(20));
        builder.task(slow);
        let description = builder.build().unwrap();
        let tries = AtomicUsize::new(0);
        let result = run(&config(2).driver(driver), |session| {
            let workflow = Workflow::from_description(description.clone()).retries(1);
            let mut workflow = workflow.closure("sleep", |_, _| {
                tries.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(sleep);
                Ok(())
            });
            Ok(workflow.run(session)?)
        });
        (result, tries.into_inner())
    };
    // With the inline driver, the communicating thread runs the closure and checks its time limit only afterwards.
    let (result, tries) = with(Driver::Inline, Duration::from_millis(30));
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.item(), tries), (ErrorKind::Timeout, Some(0), 2));
    assert!(
        error.message().contains("longer than its limit of 20.000 ms (task \"slow\", after 2 tries)"),
        "{error}"
    );
    let (result, tries) = with(Driver::Auto, Duration::from_secs(1));
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.item(), tries), (ErrorKind::Timeout, Some(0), 1));
    assert!(error.rank().is_some() && error.message().contains("a closure cannot be killed"), "{error}");
}

#[test]
fn log_contains_speeds_plan_and_task_waits() {
    let mut builder = Description::builder("long");
    builder.limit("one", 1);
    for number in 0..6 {
        let mut long = task(number.to_string(), "nothing");
        // With this run time, the run is so long that the speeds of the ranks and the links between them are measured first.
        long.run_time = Some(1e4);
        long.limits.insert("one".to_string(), 1);
        builder.task(long);
    }
    builder.task(task("last", "nothing"));
    builder.edge("5", "last", 0);
    let description = builder.build().unwrap();
    for ranks in 2..=3 {
        let directory = tempfile::tempdir().unwrap();
        let summary = run(&config(ranks).events(Some(directory.path().to_path_buf())), |session| {
            let mut workflow = Workflow::from_description(description.clone()).closure("nothing", |_, _| {
                std::thread::sleep(Duration::from_millis(2));
                Ok(())
            });
            Ok(workflow.run(session)?.into_summary())
        });
        let summary = summary.unwrap().unwrap();
        assert!(summary.tasks == 7 && summary.plan.is_some(), "{summary}");
        let log = crate::observe::read(directory.path()).unwrap();
        let events: Vec<&Event> = log.records.iter().map(|record| &record.event).collect();
        let speeds = events.iter().find_map(|event| match event {
            Event::Probe { speeds, .. } => Some(speeds.len()),
            _ => None,
        });
        assert_eq!(speeds, Some(ranks));
        let count = |is: fn(&Event) -> bool| events.iter().filter(|event| is(event)).count();
        assert!(count(|event| matches!(event, Event::Planned(planned) if planned.by.is_some())) > 0);
        // Each plan is logged with the rank and the time of its tasks, and the first plan also with the memory use of each rank.
        let plans: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::Plan(plan) => Some(plan),
                _ => None,
            })
            .collect();
        let fresh =
            |event: &Event| matches!(event, Event::Planned(planned) if planned.by.is_some() && !planned.kept);
        assert_eq!(plans.len(), events.iter().filter(|event| fresh(event)).count());
        let first = plans[0];
        let of = |name: &str| first.longest.iter().find(|task| task.task == name).unwrap();
        assert_eq!((first.tasks, first.longest.len(), first.held.len()), (7, 7, ranks));
        assert!(of("last").begin_s >= of("5").end_s, "{first:?}");
        assert!(first.longest.iter().all(|task| task.rank < ranks && task.begin_s < task.end_s));
        assert!(plans[1..].iter().all(|plan| plan.tasks < 7 && plan.held.is_empty()), "{plans:?}");
        assert_eq!(count(|event| matches!(event, Event::TaskEnded(_))), 7);
        assert!(count(|event| matches!(event, Event::TaskHeld(_))) > 0, "{events:?}");
        let began = events.iter().filter_map(|event| match event {
            Event::TaskBegan(began) if began.task == "last" => Some(began),
            _ => None,
        });
        let waits: Vec<_> = began.flat_map(|began| &began.waits).map(|wait| wait.of.as_deref()).collect();
        assert!(waits.contains(&Some("5")), "{waits:?}");
        assert_eq!(count(Event::is_end), 1);
    }
}

#[test]
fn tolerated_failures_do_not_stop_other_tasks() {
    let summary = run(&config(2), |session| {
        let workflow = run_diamond(Workflow::from_description(diamond())).retries(1).max_failures(1);
        let mut workflow = workflow.closure("b", |_, _| Err::<f64, _>("torn".into()));
        let collected = workflow.collect(session)?.into_parts();
        Ok(collected.map(|(results, summary)| (results.names().count(), summary)))
    });
    let (results, summary) = summary.unwrap().unwrap();
    assert_eq!((results, summary.tasks, summary.skipped, summary.failed.len()), (0, 2, 1, 1));
    assert_eq!((summary.failed[0].name(), summary.failed[0].tries()), (Some("b"), 2));
    assert!(
        summary.to_string().contains("\n1 task failed (\"b\"), 1 dependent task skipped, 1 retried\n"),
        "{summary}"
    );
}

#[test]
fn invalid_workflows_are_refused_before_any_task_runs() {
    let refused = |workflow: fn(Description) -> Workflow<'static>| {
        let error = run(&config(2), |session| Ok(workflow(diamond()).run(session)?)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        error.to_string()
    };
    let error = refused(|description| Workflow::from_description(description).closure("a", |_, _| Ok(())));
    assert!(error.contains("task \"b\" runs the closure \"b\", expected one of [\"a\"]"), "{error}");
    let error = refused(|_| {
        let mut builder = Description::builder("large");
        let mut large = task("a", "a");
        large.memory = Some(300);
        builder.task(large);
        run_diamond(Workflow::from_description(builder.build().unwrap())).memory(200)
    });
    assert!(
        error.contains("workflow large: task \"a\" needs 300 bytes, more than a rank's limit of 200"),
        "{error}"
    );
}

#[test]
fn differing_workflows_on_ranks_are_refused() {
    let description = |other: fn(Workflow<'static>) -> Workflow<'static>| {
        let error = run(&config(3), |session| {
            let workflow = run_diamond(Workflow::from_description(diamond()));
            let mut workflow = if session.rank() == 2 { other(workflow) } else { workflow };
            Ok(workflow.run(session)?)
        });
        let error = error.unwrap_err();
        assert_eq!((error.kind(), error.rank()), (ErrorKind::Config, Some(2)), "{error}");
        error.to_string()
    };
    let error = description(|workflow| workflow.closure("b", |_, _| Ok(1_u8)));
    assert!(error.contains("with closures a: alloc::vec::Vec<f64>, b: u8"), "{error}");
    let error = description(|workflow| workflow.retries(7));
    assert!(error.contains("with retries 7, but rank 0 with retries 0"), "{error}");
    let error = description(|workflow| workflow.memory(1 << 30));
    assert!(error.contains("with memory 1073741824, but rank 0 with memory unlimited"), "{error}");
    let error = description(|_| run_diamond(Workflow::from_description(diamond_with_priority(3))));
    assert!(error.contains("with another task \"d\" than rank 0"), "{error}");
}

#[test]
fn resumed_workflow_runs_only_missing_tasks() {
    let dir = tempfile::tempdir().unwrap();
    for (first, then) in [(1, 3), (3, 1), (2, 4)] {
        let path = dir.path().join(format!("{first}-{then}.journal"));
        let runs = AtomicUsize::new(0);
        let run_on_ranks = |ranks, fails: bool, identity: &str| {
            run(&config(ranks), |session| {
                let workflow = run_diamond(Workflow::from_description(diamond())).journal(&path, identity);
                let mut workflow = workflow.closure("c", |inputs, cx| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    let result: Vec<f64> = inputs.take("a")?;
                    if fails { Err("torn".into()) } else { Ok(format!("{} {}", cx.name(), result.len())) }
                });
                let Some((mut results, summary)) = workflow.collect(session)?.into_parts() else {
                    return Ok(None);
                };
                Ok(Some((results.take::<(f64, String)>("d")?, summary)))
            })
        };
        assert!(run_on_ranks(first, true, "1").unwrap_err().to_string().contains("torn"));
        let (value, summary) = run_on_ranks(then, false, "1").unwrap().unwrap();
        assert_eq!((value, summary.tasks), ((3.0, "c 2".to_string()), 4));
        // Task `a` has ended, and possibly task `b`, before task `c` failed.
        assert!((1..=2).contains(&summary.known), "{summary}");
        let (value, summary) = run_on_ranks(first, true, "1").unwrap().unwrap();
        assert_eq!((value, summary.known, summary.ranks[0].tasks), ((3.0, "c 2".to_string()), 4, 0));
        let error = run_on_ranks(first, false, "2").unwrap_err();
        assert!(error.message().contains("belongs to another job"), "{error}");
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    }
}

fn equal(ranks: usize, memory: u64) -> Cluster {
    Cluster::new(vec![Processor::new("rank", 1.0, memory); ranks], f64::INFINITY).unwrap()
}

#[test]
fn given_plan_is_followed() {
    let dag = diamond().to_workflow().unwrap();
    let mut plan = armature_planner::workflow::heftm(
        &dag,
        &equal(3, 1000),
        armature_planner::workflow::Level::Bottom,
        TaskMemory::Additive,
    )
    .unwrap();
    plan.processor_of = vec![2, 1, 0, 2];
    let run_on_ranks = |plan: &Plan, cluster: &Cluster| {
        run(&config(3), |session| {
            let mut workflow = run_diamond(Workflow::from_description(diamond()))
                .follow(plan.clone())
                .cluster(cluster.clone());
            Ok(workflow.run(session)?.into_summary())
        })
    };
    let summary = run_on_ranks(&plan, &equal(3, 1000)).unwrap().unwrap();
    let ran_on: Vec<_> = summary.measured.iter().map(|measured| measured.as_ref().unwrap().rank).collect();
    assert_eq!(ran_on, plan.processor_of);
    assert!(summary.to_string().contains("planned by the caller"), "{summary}");
    let error = run_on_ranks(&plan, &equal(2, 1000)).unwrap_err().to_string();
    assert!(error.contains("the cluster has 2 processors, expected one for each of the 3 ranks"), "{error}");
    let error = run_on_ranks(&plan, &equal(3, 10)).unwrap_err().to_string();
    assert!(error.contains("more than a rank's limit of 10"), "{error}");
    let (mut no_processor, mut twice) = (plan.clone(), plan.clone());
    no_processor.processor_of = vec![2, 1, 0, 3];
    twice.sequence = vec![0, 1, 2, 2];
    let error = run_on_ranks(&no_processor, &equal(3, 1000)).unwrap_err();
    assert!(error.message().contains("a task on processor 3"), "{error}");
    let error = run_on_ranks(&twice, &equal(3, 1000)).unwrap_err();
    assert!(error.message().contains("expected each of the 4 tasks once"), "{error}");
}

#[test]
fn task_needing_all_memory_may_have_parents() {
    let mut builder = Description::builder("full");
    let mut full = task("full", "nothing");
    full.memory = Some(200);
    builder.task(task("first", "nothing")).task(task("number", "number")).task(full);
    builder.edge("first", "full", 0).edge("first", "number", 0);
    // The task needs the whole memory of a rank, except for the memory of its input.
    let mut reader = task("reader", "nothing");
    reader.memory = Some(192);
    builder.task(reader).edge("number", "reader", 8);
    let description = builder.build().unwrap();
    for ranks in [1, 2] {
        let summary = run(&config(ranks), |session| {
            let workflow = Workflow::from_description(description.clone()).memory(200);
            let workflow = workflow.closure("nothing", |_, _| Ok(()));
            Ok(workflow.closure("number", |_, _| Ok(7_u64)).run(session)?.into_summary())
        });
        assert_eq!(summary.unwrap().unwrap().tasks, 4);
    }
}

#[test]
fn rank_memory_follows_the_given_cluster() {
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
            let mut workflow = Workflow::from_description(description.clone()).cluster(cluster.clone());
            if !is_planned {
                workflow = workflow.unplanned();
            }
            let mut workflow = workflow.closure("rank", |_, cx| Ok(cx.rank()));
            let Some(mut results) = workflow.collect(session)?.on_root() else { return Ok(None) };
            Ok(Some(results.take::<usize>("large")?))
        });
        assert_eq!(ran_on.unwrap(), Some(1));
    }
}

#[test]
fn journal_belongs_to_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let error = run(&config(2), |session| {
        for _ in 0..2 {
            run_diamond(Workflow::from_description(diamond())).journal(&path, "").run(session)?;
        }
        Ok(())
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("was used by an earlier run of this job"), "{error}");
}

/// Tests that a workflow is refused before its first task runs if it has two tasks of the same name, a handle of another workflow's task, no tasks,
/// or both tasks and a description.
#[test]
fn handles_are_checked_before_the_first_task() {
    let refused = |build: fn(&mut Workflow<'_>)| {
        let error = run(&config(2), |session| {
            let mut flow = Workflow::new("flow");
            build(&mut flow);
            Ok(flow.run(session).map(drop)?)
        });
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        error.to_string()
    };
    let twice = refused(|flow| {
        flow.task("a", || 1);
        flow.task("a", || 2);
    });
    assert!(twice.contains("workflow flow") && twice.contains("\"a\""), "{twice}");
    let foreign = refused(|flow| {
        let other = Workflow::new("other").task("b", || 1);
        flow.after("a", &other, |n| n + 1);
    });
    assert!(foreign.contains("there is no task \"b\""), "{foreign}");
    assert!(refused(|_| ()).contains("workflow flow"));
    let mixed = refused(|flow| {
        *flow = Workflow::from_description(diamond());
        flow.task("e", || 1);
    });
    assert!(mixed.contains("workflow diamond") && mixed.contains("that has a description"), "{mixed}");
}

#[test]
fn tasks_accept_tuples_and_slices_of_parents() {
    for ranks in [1, 3] {
        let all = run(&config(ranks), |session| {
            let mut flow = Workflow::new("flow");
            let one = flow.task("one", || 1_u8);
            let word = flow.try_task("word", || Ok("two".to_string()));
            let half = flow.after("half", &one, |one| f64::from(one) / 2.0);
            let list = flow.after("list", (&one, &word), |(one, word)| vec![word; usize::from(one) + 1]);
            let all = flow.try_after("all", (&one, &word, &half, &list), |(one, word, half, list)| {
                Ok(format!("{one} {word} {half} {}", list.join(" ")))
            });
            let many: Vec<_> = (0..5_u64).map(|n| flow.task(&format!("{n}"), move || n)).collect();
            let sum = flow.after("sum", &many[1..], |all| all.into_iter().sum::<u64>());
            flow.value_size(&list, 100).task_mut(&sum).unwrap().priority = 7;
            let mut values = flow.collect_on_all(session)?;
            Ok((values.take(&all)?, values.take(&sum)?, values.take(&many[0])?))
        });
        assert_eq!(all.unwrap(), ("1 two 0.5 two two".to_string(), 10, 0));
    }
}
