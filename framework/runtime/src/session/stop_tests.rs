//! Tests of jobs that are asked to stop by a file: each skeleton ends in order, and the same call in a new job continues its work.

mod at_checkpoint;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use super::*;
use crate::farm::{Farm, More};
use crate::job_status::{JobStatus, STOPPED, State};
use crate::loops::{Checkpoint, DoAcross, DoAcrossLoop, DoAll, DoAllLoop, Grid, Rows, Shape};
use crate::pipeline::Pipeline;
use crate::workflow::{Action, Description, Task, Workflow};

/// Run directory of a job that is stopped and continued, with the numbers of the tasks, items or rows that the job has computed.
struct Run {
    dir: tempfile::TempDir,
    done: Mutex<Vec<u64>>,
    stops_after: usize,
    request: &'static str,
}

impl Run {
    fn new(stops_after: usize) -> Self {
        Run { dir: tempfile::tempdir().unwrap(), done: Mutex::default(), stops_after, request: "" }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn config(&self, ranks: usize) -> Config {
        Config::new()
            .ranks(ranks)
            .run_directory(Some(self.dir.path().into()))
            .job_status(Some(self.path("status")))
    }

    fn work(&self, unit: u64, millis: u64) {
        std::thread::sleep(Duration::from_millis(millis));
        let mut done = self.done.lock().unwrap();
        done.push(unit);
        if done.len() == self.stops_after {
            std::fs::write(self.path("stop"), self.request).unwrap();
        }
    }

    #[track_caller]
    fn is_stopped<R>(&self, result: Result<R>, kept: &str) {
        let error = result.err().expect("the job stops");
        let text = error.to_string();
        assert_eq!((error.kind(), error.exit_code()), (ErrorKind::Stopped, 85), "{text}");
        assert!(text.starts_with("stopped by the file ") && text.contains(kept), "{text}");
        let status = JobStatus::read(&self.path("status")).unwrap().unwrap();
        assert_eq!((status.state, status.code, status.kept), (State::Stopped, STOPPED, text));
        assert!(!self.path("stop").exists());
    }

    #[track_caller]
    fn did_each_once(&self, units: u64) {
        let done = self.done.lock().unwrap();
        assert_eq!(done.iter().copied().collect::<BTreeSet<_>>(), (0..units).collect());
        assert_eq!(done.len() as u64, units, "a unit of work was done twice");
    }
}

#[test]
fn stopped_farm_continues_from_its_journal() {
    const TASKS: u64 = 1_000;
    for ranks in [1, 3] {
        let run_directory = Run::new(100);
        let start = || {
            run(&run_directory.config(ranks), |session| {
                let mut farm = Farm::new("squares", |n: u64| {
                    run_directory.work(n, 5);
                    n * n
                })
                .journal(run_directory.path("journal"), "");
                Ok(farm.collect(session, 0..TASKS)?.on_root())
            })
        };
        run_directory.is_stopped(start(), " of 1,000 tasks are in ");
        assert!(run_directory.done.lock().unwrap().len() < TASKS as usize);
        assert_eq!(start().unwrap().unwrap(), (0..TASKS).map(|n| n * n).collect::<Vec<_>>());
        run_directory.did_each_once(TASKS);
    }
}

#[test]
fn farm_stopped_while_it_restores_its_journal_names_all_its_results() {
    let run_directory = Run::new(300);
    // The sink of the second job is slow. The small window (limit of bytes in flight) keeps the farm from reading all results from its
    // journal before the sink takes them.
    let start = |sink: &(dyn Fn() + Sync)| {
        run(&run_directory.config(3), |session| {
            let work = |n: u64| {
                run_directory.work(n, 1);
                n
            };
            let farm = Farm::new("squares", work).window_bytes(64);
            farm.journal(run_directory.path("journal"), "").for_each(session, 0..9_000, |_, _| sink())?;
            Ok(())
        })
    };
    run_directory.is_stopped(start(&|| ()), " of 9,000 tasks are in ");
    let (done, delivered) = (run_directory.done.lock().unwrap().len(), Mutex::new(0));
    std::fs::write(run_directory.path("later"), "").unwrap();
    let stopped = start(&|| {
        *delivered.lock().unwrap() += 1;
        let _ = std::fs::rename(run_directory.path("later"), run_directory.path("stop"));
        std::thread::sleep(Duration::from_millis(20));
    });
    let thousands = if done < 1_000 { String::new() } else { format!("{},", done / 1_000) };
    run_directory.is_stopped(stopped, &format!("; {thousands}{:03} of 9,000 tasks are in ", done % 1_000));
    assert!(delivered.into_inner().unwrap() < done, "all results were restored before the stop");
    assert_eq!(run_directory.done.lock().unwrap().len(), done, "a task ran during the restoration");
}

#[test]
fn stopped_iterations_and_searches_continue_from_their_journals() {
    let iterations = Run::new(20);
    let start = || {
        run(&iterations.config(3), |session| {
            let mut farm = Farm::new("next", |n: u64| {
                iterations.work(n, 30);
                n + 10
            })
            .journal(iterations.path("journal"), "");
            farm.iterate(session, 0..10, |tasks, iteration| Ok((iteration < 19).then_some(tasks)))?;
            Ok(())
        })
    };
    iterations.is_stopped(start(), " tasks are in ");
    start().unwrap();
    iterations.did_each_once(200);

    let search = Run::new(20);
    let start = || {
        run(&search.config(3), |session| {
            let mut farm = Farm::exploring("tree", |&n: &u64, more: &mut More<u64>| {
                search.work(n, 20);
                more.extend([2 * n + 1, 2 * n + 2].into_iter().filter(|&n| n < 400));
                n
            })
            .journal(search.path("journal"), "");
            farm.explore(session, [0], |_| ())?;
            Ok(())
        })
    };
    search.is_stopped(start(), " tasks are in ");
    start().unwrap();
    search.did_each_once(400);
}

#[test]
fn stopped_farm_without_a_journal_reports_no_saved_results() {
    let run_directory = Run::new(20);
    let stopped = run(&run_directory.config(2), |session| {
        let mut farm = Farm::new("endless", |n: u64| run_directory.work(n, 5));
        farm.for_each(session, 0.., |_, ()| ())?;
        Ok(())
    });
    run_directory.is_stopped(stopped, " tasks were done, and nothing is kept");
}

#[test]
fn stopped_pipeline_delivers_items_in_flight() {
    for ranks in [1, 3] {
        let run_directory = Run::new(50);
        let delivered = Mutex::new(Vec::new());
        let stopped = run(&run_directory.config(ranks), |session| {
            Pipeline::source("numbers", || 0..2_000u64)
                .map("double", |n| {
                    run_directory.work(n, 5);
                    2 * n
                })
                .for_each(session, "note", |n| delivered.lock().unwrap().push(n))?;
            Ok(())
        });
        run_directory.is_stopped(stopped, " of 2,000 items were done");
        let (delivered, done) =
            (delivered.into_inner().unwrap(), run_directory.done.lock().unwrap().len() as u64);
        assert!(delivered.iter().copied().eq((0..done).map(|n| 2 * n)) && done < 2_000, "{delivered:?}");
    }
}

#[test]
fn stopped_pipeline_continues_from_its_snapshot() {
    const ITEMS: u64 = 1_200;
    for ranks in [1, 3] {
        let run_directory = Run::new(50);
        let start = || {
            run(&run_directory.config(ranks), |session| {
                let doubled = Pipeline::source("numbers", || 0..ITEMS).map("double", |n| {
                    run_directory.work(n, 5);
                    2 * n
                });
                let kept = Checkpoint::new(run_directory.path("kept"), "");
                doubled
                    .snapshots(kept)
                    .write_to(session, &run_directory.path("out"), |n, file| Ok(writeln!(file, "{n}")?))?;
                Ok(())
            })
        };
        run_directory.is_stopped(start(), " of 1,200 items are in ");
        assert!(!run_directory.path("out").exists());
        start().unwrap();
        run_directory.did_each_once(ITEMS);
        let lines: Vec<String> = (0..ITEMS).map(|n| format!("{}\n", 2 * n)).collect();
        assert_eq!(std::fs::read_to_string(run_directory.path("out")).unwrap(), lines.concat());
    }
}

#[test]
fn stopped_workflow_continues_from_its_journal() {
    for ranks in [1, 3] {
        let run_directory = Run::new(20);
        let start = || {
            run(&run_directory.config(ranks), |session| {
                let mut builder = Description::builder("chains");
                for unit in 0..160 {
                    builder.task(Task::new(unit.to_string(), Action::Closure("work".into())));
                    if unit % 20 > 0 {
                        builder.edge((unit - 1).to_string(), unit.to_string(), 0);
                    }
                }
                let mut workflow = Workflow::from_description(builder.build()?)
                    .closure("work", |_, cx| {
                        // The tasks take 1.6 s on any number of ranks. A request to stop is noticed within a second.
                        run_directory.work(cx.name().parse()?, 10 * ranks as u64);
                        Ok(())
                    })
                    .journal(run_directory.path("journal"), "");
                workflow.run(session)?;
                Ok(())
            })
        };
        run_directory.is_stopped(start(), " of 160 tasks are in ");
        start().unwrap();
        run_directory.did_each_once(160);
    }
}

/// Loop of rows, each of which takes the given number of milliseconds.
struct Counter<'r>(&'r Run, u64);

impl DoAll for Counter<'_> {
    type Units = Rows<u64>;

    fn create(&mut self, range: Range<u64>) -> Result<Rows<u64>, BoxError> {
        Ok(Rows::from_fn(range, 1, |unit, row| row.fill(unit)))
    }

    fn compute(&mut self, range: Range<u64>, rows: &mut [u64]) -> Result<(), BoxError> {
        for (unit, row) in range.zip(rows) {
            *row += 100;
            self.0.work(unit, self.1);
        }
        Ok(())
    }
}

#[test]
fn stopped_doall_loop_continues_from_its_checkpoint() {
    const PASSES: u64 = 200;
    for (ranks, every) in [(1, 3_600), (3, 0)] {
        let run_directory = Run::new(100);
        let start = || {
            run(&run_directory.config(ranks), |session| {
                let every = Duration::from_secs(every);
                let checkpoint = Checkpoint::new(run_directory.path("checkpoint"), "").every(every);
                // The passes take 2.4 s on any number of ranks. A request to stop is noticed within a second.
                let rows = Counter(&run_directory, ranks as u64);
                let mut counter = DoAllLoop::new("count", 12, rows).checkpoint(checkpoint);
                counter.run(session, PASSES)?;
                Ok(counter.collect(session)?)
            })
        };
        run_directory.is_stopped(start(), " of 200 passes are in ");
        assert_eq!(
            start().unwrap().unwrap(),
            Rows::from_fn(0..12, 1, |unit, row| row.fill(unit + 100 * PASSES))
        );
        assert_eq!(run_directory.done.lock().unwrap().len() as u64, 12 * PASSES);
    }
}

#[test]
fn runs_after_a_stop_request_do_not_begin() {
    let run_directory = Run::new(5);
    let stopped = run(&run_directory.config(3), |session| {
        let mut counter = DoAllLoop::new("count", 12, Counter(&run_directory, 1));
        (0..1_000_000).try_for_each(|_| counter.run(session, 1).map(drop))?;
        Ok(())
    });
    run_directory.is_stopped(stopped, "runs the DOALL loop \"count\" when it is continued");
}

struct Add<'r>(&'r Run);

impl DoAcross for Add<'_> {
    type Value = u64;

    fn row(&mut self, index: u64, values: &mut [u64]) -> Result<(), BoxError> {
        values.fill(index);
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, u64>, columns: Range<usize>) -> Result<(), BoxError> {
        for row in grid.values.chunks_exact_mut(grid.width).skip(1) {
            row[columns.clone()].iter_mut().for_each(|value| *value += 1);
        }
        self.0.work(0, 1);
        Ok(())
    }
}

#[test]
fn stopped_grids_continue_from_their_checkpoints() {
    const SWEEPS: u64 = 3_000;
    let shape = Shape { rows: 14, columns: 10 };
    for ranks in [1, 4] {
        let run_directory = Run::new(100);
        let start = || {
            run(&run_directory.config(ranks), |session| {
                let checkpoint = Checkpoint::new(run_directory.path("checkpoint"), "");
                let mut across = DoAcrossLoop::new("add", shape, Add(&run_directory)).checkpoint(checkpoint);
                Ok(across.run(session, SWEEPS)?.into_summary())
            })
        };
        run_directory.is_stopped(start(), " of 3,000 sweeps are in ");
        assert!(start().unwrap().unwrap().passes < SWEEPS);
    }
}

#[test]
fn program_polls_for_stops_and_reports_saved_state() {
    let run_directory = Run::new(3);
    let stopped = run(&run_directory.config(3), |session| -> Result<(), BoxError> {
        for pass in 0.. {
            if session.is_root() {
                run_directory.work(pass, 1);
            }
            let is_requested = session.stop_requested()?;
            if session.broadcast(session.is_root().then_some(is_requested))? {
                return Err(session.stop("the last pass is in state.bin").into());
            }
        }
        Ok(())
    });
    run_directory.is_stopped(stopped, "; the last pass is in state.bin");
}

#[test]
fn completed_job_is_finished_despite_a_stop_request() {
    let run_directory = Run::new(1);
    run(&run_directory.config(2), |session| {
        let work = |n: u64| run_directory.work(n, 1_500);
        Farm::new("last", work).for_each(session, 0..1, |_, ()| ())?;
        Ok(())
    })
    .unwrap();
    let status = JobStatus::read(&run_directory.path("status")).unwrap().unwrap();
    assert_eq!(status.state, State::Finished);
}

#[test]
fn farm_stops_when_no_task_can_end_before_the_time_limit() {
    const TASKS: u64 = 40;
    for ranks in [1, 3] {
        let run_directory = Run::new(usize::MAX);
        // The first job has 1.5 s for all tasks, so it runs only some of the ten tasks that take 0.9 s each.
        let start = |left: Duration| {
            let end = SystemTime::now() + left;
            run(&run_directory.config(ranks).end_time(Some(end)), |session| {
                let mut farm = Farm::new("squares", |n: u64| {
                    run_directory.work(n, if n < 30 { 5 } else { 900 });
                    n * n
                })
                .chunking(crate::farm::Chunking::fixed(1))
                .journal(run_directory.path("journal"), "");
                Ok(farm.collect(session, 0..TASKS)?.on_root())
            })
        };
        let begin = Instant::now();
        let error = start(Duration::from_millis(6_500)).expect_err("the job stops");
        let text = error.to_string();
        assert_eq!((error.kind(), error.exit_code()), (ErrorKind::Stopped, 85), "{text}");
        let cause = "stopped by the time limit of the job (a task of the farm \"squares\", such as task ";
        assert!(text.starts_with(cause) && text.contains(" are left) after "), "{text}");
        assert!(
            text.contains(" of 40 tasks are in ") && text.ends_with("; the same command continues"),
            "{text}"
        );
        let status = JobStatus::read(&run_directory.path("status")).unwrap().unwrap();
        assert!(status.stopped_for_time_limit() && status.kept == text);
        assert!(begin.elapsed() < Duration::from_millis(6_500));
        let done = run_directory.done.lock().unwrap().len();
        assert!((30..TASKS as usize).contains(&done), "{done}");
        let results = start(Duration::from_secs(3_600)).unwrap().unwrap();
        assert_eq!(results, (0..TASKS).map(|n| n * n).collect::<Vec<_>>());
        run_directory.did_each_once(TASKS);
    }
}

#[test]
fn farm_without_a_journal_and_a_time_limit_in_the_past_change_nothing() {
    let past = SystemTime::now() - Duration::from_secs(9);
    for (end, journal) in [(SystemTime::now() + Duration::from_secs(5), false), (past, true)] {
        let dir = tempfile::tempdir().unwrap();
        let results = run(&Config::new().ranks(2).end_time(Some(end)), |session| {
            let mut farm = Farm::new("slow", |n: u64| {
                std::thread::sleep(Duration::from_millis(30));
                n
            });
            if journal {
                farm = farm.journal(dir.path().join("journal"), "");
            }
            Ok(farm.collect(session, 0..20)?.on_root())
        });
        assert_eq!(results.unwrap().unwrap().len(), 20);
    }
}

#[test]
fn workflow_stops_when_no_task_can_end_before_the_time_limit() {
    for (ranks, planned) in [(1, false), (3, false), (3, true)] {
        let run_directory = Run::new(usize::MAX);
        let start = |left: u64| {
            let end = SystemTime::now() + Duration::from_secs(left);
            run(&run_directory.config(ranks).end_time(Some(end)), |session| {
                let mut builder = Description::builder("times");
                for task in 0..20u64 {
                    let mut of = Task::new(task.to_string(), Action::Closure("work".into()));
                    of.kind = Some(if task < 15 { "short" } else { "long" }.into());
                    of.run_time = Some(if task < 15 { 0.02 } else { 600.0 });
                    builder.task(of);
                }
                builder.edge("15", "16", 0);
                let mut workflow = Workflow::from_description(builder.build()?);
                if !planned {
                    workflow = workflow.unplanned();
                }
                workflow = workflow
                    .closure("work", |_, cx| {
                        run_directory.work(cx.name().parse()?, 20);
                        Ok(())
                    })
                    .journal(run_directory.path("journal"), "");
                workflow.run(session)?;
                Ok(())
            })
        };
        let error = start(300).expect_err("the job stops");
        let text = error.to_string();
        assert_eq!((error.kind(), error.exit_code()), (ErrorKind::Stopped, 85), "{text}");
        let cause = "stopped by the time limit of the job (task \"1";
        assert!(text.starts_with(cause) && text.contains("\" needs about 600.000 s, and 2"), "{text}");
        assert!(text.contains("; 15 of 20 tasks are in "), "{text}");
        assert!(JobStatus::read(&run_directory.path("status")).unwrap().unwrap().stopped_for_time_limit());
        start(36_000).unwrap();
        run_directory.did_each_once(20);
    }
}
