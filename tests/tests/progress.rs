//! Messages of rank 0 about a running farm, pipeline, loop or workflow on threads: its progress, and the ranks for which others wait.

use std::ops::Range;
use std::sync::{Mutex, Once, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use armature::farm::Farm;
use armature::loops::{
    self, Cells, DoAcross, DoAcrossLoop, DoAll, DoAllLoop, Grid, OldGrid, Shape, Stencil, StencilLoop, Table,
    TableLoop, Until,
};
use armature::pipeline::{MappingChoice, Pipeline};
use armature::workflow::{Action, Description, Task, Workflow};
use armature::{BoxError, Progress, Session};
use armature_tests::local;

/// Messages that all ranks in this process have logged.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct LogCollector;

impl log::Log for LogCollector {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        LINES.lock().unwrap_or_else(PoisonError::into_inner).push(record.args().to_string());
    }

    fn flush(&self) {}
}

/// Runs `body` on two ranks, and returns the log lines that begin with `start`.
#[track_caller]
fn log_lines(
    start: &str,
    progress: Progress,
    body: impl Fn(&mut Session) -> Result<(), BoxError> + Sync,
) -> Vec<String> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&LogCollector).expect("there is no other");
        log::set_max_level(log::LevelFilter::Info);
    });
    local::run(start, &local::config(2).progress(progress), body)
        .unwrap_or_else(|error| panic!("{start}: {error}"));
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().filter(|line| line.starts_with(start)).cloned().collect()
}

#[track_caller]
fn assert_progress_line(name: &str, text: &str, body: impl Fn(&mut Session) -> Result<(), BoxError> + Sync) {
    let lines = log_lines(name, Progress::On, body);
    let first = lines.first().unwrap_or_else(|| panic!("no line is about {name}"));
    assert!(first.contains(text), "{name}: `{text}` is not in `{first}`");
}

fn work<T>(value: T) -> T {
    sleep(Duration::from_millis(5));
    value
}

struct Rows {
    /// Number of the loop's slow row, and the time that it takes.
    slow: Option<(u64, Duration)>,
}

impl Rows {
    fn quick() -> Self {
        Rows { slow: None }
    }

    fn wait_in(&self, row: u64) {
        if let Some((slow, time)) = self.slow
            && slow == row
        {
            sleep(time);
        }
    }
}

impl DoAll for Rows {
    type Units = Vec<f64>;

    fn create(&mut self, range: Range<u64>) -> Result<Vec<f64>, BoxError> {
        Ok(range.map(|n| n as f64).collect())
    }

    fn compute(&mut self, range: Range<u64>, rows: &mut [f64]) -> Result<(), BoxError> {
        range.clone().for_each(|row| self.wait_in(row));
        rows.iter_mut().for_each(|row| *row = work(0.5 * *row));
        Ok(())
    }
}

impl Stencil for Rows {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        values.fill(index as f64);
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
        for (row, new) in (old.first + 1..).zip(new.chunks_exact_mut(old.width)) {
            self.wait_in(row);
            new.fill(work(row as f64));
        }
        Ok(())
    }
}

impl DoAcross for Rows {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        values.fill(index as f64);
        Ok(())
    }

    fn sweep(&mut self, _: Grid<'_, f64>, _: Range<usize>) -> Result<(), BoxError> {
        work(());
        Ok(())
    }
}

const SHAPE: Shape = Shape { rows: 6, columns: 8 };

#[test]
fn farm_reports_its_progress() {
    assert_progress_line("farm \"tell\"", "of 40 tasks (0 %)", |session| {
        Ok(Farm::new("tell", work::<u64>).collect(session, 0..40).map(drop)?)
    });
    // The number of tasks of a source with a filter is unknown, so that the line about the progress has no total.
    assert_progress_line("farm \"filtered\"", "s  0 tasks", |session| {
        let tasks = (0..40).filter(|n| n % 2 == 0);
        Ok(Farm::new("filtered", work::<u64>).collect(session, tasks).map(drop)?)
    });
}

#[test]
fn pipeline_reports_its_progress() {
    assert_progress_line("pipeline \"tell\"", "of 40 items", |session| {
        let work = Pipeline::source("numbers", || 0..40u64).map("work", work);
        Ok(work.name("tell").collect(session).map(drop)?)
    });
}

#[test]
fn loops_report_their_progress() {
    assert_progress_line("loop \"map\"", "of 40 units", |session| {
        Ok(loops::map(session, "map", 0..40, work).map(drop)?)
    });
    assert_progress_line("loop \"passes\"", "of 60 units", |session| {
        Ok(DoAllLoop::new("passes", 20, Rows::quick()).run(session, 3).map(drop)?)
    });
    assert_progress_line("loop \"sweeps\"", "of 3 sweeps", |session| {
        Ok(DoAcrossLoop::new("sweeps", SHAPE, Rows::quick()).run(session, 3).map(drop)?)
    });
    assert_progress_line("loop \"steps\"", "of 3 sweeps", |session| {
        Ok(StencilLoop::new("steps", SHAPE, Rows::quick()).run(session, 3).map(drop)?)
    });
}

/// One long sweep over a grid, or a table whose columns are all filled in one go, must report progress long before the end.
#[test]
fn single_sweep_reports_its_progress() {
    struct Slow;
    impl DoAcross for Slow {
        type Value = f64;

        fn row(&mut self, _: u64, _: &mut [f64]) -> Result<(), BoxError> {
            Ok(())
        }

        fn sweep(&mut self, _: Grid<'_, f64>, _: Range<usize>) -> Result<(), BoxError> {
            sleep(Duration::from_millis(500));
            Ok(())
        }
    }
    impl Table for Slow {
        type Value = f64;

        fn fill(&mut self, _: Cells<'_, f64>) -> Result<(), BoxError> {
            sleep(Duration::from_millis(500));
            Ok(())
        }
    }
    let assert_partial_progress =
        |name: &str, what: &str, body: &(dyn Fn(&mut Session) -> Result<(), BoxError> + Sync)| {
            let lines = log_lines(name, Progress::Auto, body);
            let (_, rest) =
                lines.first().and_then(|line| line.split_once(what)).expect("a line with the amount");
            let percent: u32 = rest.split_once(" %").expect("per cent").0.parse().expect("a number");
            assert!((10..95).contains(&percent) && rest.contains(" left"), "{lines:?}");
        };
    let sweep = |session: &mut Session| {
        let shape = Shape { rows: 4, columns: 16 };
        Ok(DoAcrossLoop::new("one sweep", shape, Slow).strip_width(1).run(session, 1).map(drop)?)
    };
    let table = |session: &mut Session| {
        let shape = Shape { rows: 4, columns: 14 };
        Ok(TableLoop::new("one panel", shape, Slow).strip_width(1).run(session).map(drop)?)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| assert_partial_progress("loop \"one sweep\"", " 0 of 1 sweeps (", &sweep));
        scope.spawn(|| assert_partial_progress("loop \"one panel\"", " 0 of 1 panels (", &table));
    });
}

#[test]
fn loop_until_convergence_reports_no_total() {
    let lines = log_lines("loop \"units\"", Progress::On, |session| {
        let mut units = DoAllLoop::new("units", 8, Rows::quick());
        units.run_until(session, Until::at_most(5), |_| 1.0, |_| false)?;
        Ok(())
    });
    assert!(lines.iter().any(|line| line.contains("pass 3 of at most 5")), "{lines:#?}");
    assert!(lines.iter().all(|line| !line.contains('%') && !line.contains("left")), "{lines:#?}");
    assert_progress_line("loop \"rows\"", " sweeps  at most 5", |session| {
        let mut rows = StencilLoop::new("rows", SHAPE, Rows::quick());
        rows.run_until(session, Until::at_most(5), |_| 1.0, |_| false)?;
        Ok(())
    });
}

fn two_tasks(name: &str, session: &mut Session, time: Duration) -> Result<(), BoxError> {
    let mut two = Description::builder(name);
    for task in ["long", "short"] {
        two.task(Task::new(task, Action::Closure(task.into())));
    }
    let mut two = Workflow::from_description(two.build()?)
        .closure("long", move |_, _| {
            sleep(time);
            Ok(0_u64)
        })
        .closure("short", |_, _| Ok(1_u64));
    two.run(session)?;
    Ok(())
}

#[test]
fn workflow_reports_its_progress() {
    assert_progress_line("workflow \"tell\"", "of 2 tasks", |session| {
        two_tasks("tell", session, Duration::from_millis(50))
    });
}

#[test]
fn progress_is_silent_when_switched_off() {
    let lines = log_lines("farm \"off\"", Progress::Off, |session| {
        Ok(Farm::new("off", work::<u64>).collect(session, 0..40).map(drop)?)
    });
    assert_eq!(lines, [""; 0]);
}

/// Duration of a wait that must be reported: longer than the 10 s after which ranks report waits, plus the time of a heartbeat.
const LONG_WAIT: Duration = Duration::from_millis(12_500);

/// Exactly one line of the log must report that a rank waits for the other; `activity` describes what the other rank does.
#[track_caller]
fn assert_wait_is_reported(
    kind: &str,
    activity: &str,
    body: impl Fn(&mut Session) -> Result<(), BoxError> + Sync,
) {
    let lines = log_lines(&format!("in the {kind} rank "), Progress::Off, body);
    let matching = lines.iter().filter(|line| line.contains(activity)).collect::<Vec<_>>();
    let [line] = matching[..] else {
        panic!("{kind}: `{activity}` is not reported exactly once in {lines:#?}")
    };
    let others = [("rank 0 has waited 1", "for rank 1 (for "), ("rank 1 has waited 1", "for rank 0 (for ")];
    let names_both_ranks =
        others.iter().any(|(waiting, awaited)| line.contains(waiting) && line.contains(awaited));
    assert!(names_both_ranks, "{line}");
}

fn farm_names_the_awaited_rank() {
    assert_wait_is_reported("farm", "s in task 1 or the chunk", |session| {
        let farm = Farm::new("one is long", |n: u64| if n == 1 { sleep(LONG_WAIT) } else { work(()) });
        Ok(farm.chunking(armature::farm::Chunking::fixed(1)).collect(session, 0..2).map(drop)?)
    });
}

fn pipeline_names_the_awaited_rank() {
    assert_wait_is_reported("pipeline", "s in stage slow, items from 1 on", |session| {
        let numbers = Pipeline::source("numbers", || 0..2u64);
        let slow = numbers.map("slow", |n| {
            if n == 1 {
                sleep(LONG_WAIT)
            }
        });
        let slow = slow.batch(armature::BatchMode::Fixed(1)).mapping(MappingChoice::Text("slow@1".into()));
        Ok(slow.collect(session).map(drop)?)
    });
}

fn doall_loop_names_the_awaited_rank() {
    assert_wait_is_reported("loop", "s computing units 3 to 4 of pass 1", |session| {
        let rows = Rows { slow: Some((3, LONG_WAIT)) };
        Ok(DoAllLoop::new("one is long", 4, rows).block_size(1).run(session, 1).map(drop)?)
    });
}

fn grid_loop_names_the_awaited_rank() {
    assert_wait_is_reported("loop", "s computes in sweep 0, ", |session| {
        let rows = Rows { slow: Some((4, LONG_WAIT)) };
        Ok(StencilLoop::new("one is long", SHAPE, rows).run(session, 1).map(drop)?)
    });
}

fn workflow_names_the_awaited_rank() {
    assert_wait_is_reported("workflow", "s runs long; ", |session| {
        two_tasks("one is long", session, LONG_WAIT)
    });
}

#[test]
fn every_skeleton_reports_which_ranks_it_waits_for() {
    let all = [
        farm_names_the_awaited_rank,
        pipeline_names_the_awaited_rank,
        doall_loop_names_the_awaited_rank,
        grid_loop_names_the_awaited_rank,
        workflow_names_the_awaited_rank,
    ];
    // The tests run at the same time, because each waits for more than ten seconds.
    std::thread::scope(|scope| {
        for test in all {
            scope.spawn(test);
        }
    });
}
