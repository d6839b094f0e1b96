//! Tests of jobs that end early and are restarted from a checkpoint.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::tests::{Heat, Sor, fill, heat, relax, same, serial};
use super::*;
use crate::error::{BoxError, ErrorKind, Result};
use crate::loops::{Checkpoint, Settings, Summary};
use crate::session::{Balance, Config, run};

const SHAPE: Shape = Shape { rows: 26, columns: 14 };
const SWEEPS: u64 = 3000;
/// Minimum time that user code takes for a piece of a sweep in a job that is to fail. It is long enough that a checkpoint is on the disk before the
/// last sweep, even if other processes use the disk.
pub(super) const PAUSE: Duration = Duration::from_millis(1);

struct KilledAt {
    dir: PathBuf,
}

impl DoAcross for KilledAt {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        fill(index, values);
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, f64>, columns: std::ops::Range<usize>) -> Result<(), BoxError> {
        if self.dir.join("manifest").exists() {
            return Err("enough".into());
        }
        // User code sleeps, so that a checkpoint is complete before the last sweep.
        std::thread::sleep(PAUSE);
        relax(grid.values, grid.width, &columns);
        Ok(())
    }
}

fn checkpoint(dir: &Path) -> Checkpoint {
    Checkpoint::new(dir, "random").every(Duration::ZERO)
}

fn die(ranks: usize, dir: &Path, settings: &Settings) {
    let error = run(&Config::new().ranks(ranks), |session| {
        let settings = settings.clone().checkpoint(checkpoint(dir));
        let killed = KilledAt { dir: dir.to_path_buf() };
        DoAcrossLoop::new("sor", SHAPE, killed).settings(settings).run(session, SWEEPS)?;
        Ok(())
    })
    .unwrap_err();
    assert!(error.to_string().contains("loop sor: enough (in sweep"), "{error}");
}

fn resume(ranks: usize, dir: &Path, shape: Shape, settings: &Settings) -> Result<(Vec<f64>, Summary)> {
    let (grid, summary) = run(&Config::new().ranks(ranks), |session| {
        let settings = settings.clone().checkpoint(checkpoint(dir));
        let mut sor = DoAcrossLoop::new("sor", shape, Sor::new()).settings(settings);
        let summary = sor.run(session, SWEEPS)?.into_summary();
        Ok((sor.collect(session)?, summary))
    })?;
    Ok((grid.unwrap(), summary.unwrap()))
}

#[test]
fn job_resumes_from_its_checkpoint_on_any_rank_count() {
    let expected = serial(SHAPE, SWEEPS);
    for (before, after, seed) in [(1, 3, None), (3, 1, None), (2, 8, Some(1)), (5, 2, Some(2)), (30, 4, None)]
    {
        let dir = tempfile::tempdir().unwrap();
        let settings = seed.map_or(Settings::new(), |seed| Settings::new().forced(seed)).strip_width(5);
        die(before, dir.path(), &settings);
        let (grid, summary) = resume(after, dir.path(), SHAPE, &settings).unwrap();
        assert!(same(&grid, &expected), "{before} ranks, then {after}");
        assert!(summary.passes < SWEEPS, "{summary}");
        // The restarted job has written a later checkpoint, from which the job continues when it is started once more.
        let (again, last) = resume(1, dir.path(), SHAPE, &settings).unwrap();
        assert!(same(&again, &expected) && last.passes <= summary.passes);
    }
}

#[test]
fn checkpoint_belongs_to_one_run_of_one_loop() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let settings = Settings::new().balance(Balance::Off);
    die(2, dir, &settings);
    let refused = |shape: Shape, sweeps: &[u64]| {
        let error = run(&Config::new().ranks(2), |session| {
            let settings = settings.clone().checkpoint(checkpoint(dir));
            let mut sor = DoAcrossLoop::new("sor", shape, Sor::new()).settings(settings);
            for &sweeps in sweeps {
                sor.run(session, sweeps)?;
            }
            Ok(())
        })
        .unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Config), "{error}");
        error.to_string()
    };
    let text = refused(Shape { rows: 27, ..SHAPE }, &[SWEEPS]);
    assert!(text.contains("with 24 units") && text.contains("with 25 units"), "{text}");
    let text = refused(Shape { columns: 15, ..SHAPE }, &[SWEEPS]);
    assert!(text.contains("have") && text.contains("bytes, expected"), "{text}");
    assert!(refused(SHAPE, &[0]).contains("but the run has only 0"));
    assert!(refused(SHAPE, &[SWEEPS, 1]).contains("this is not the first run"));
}

struct KilledHeat {
    dir: PathBuf,
}

impl Stencil for KilledHeat {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        fill(index, values);
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
        if self.dir.join("manifest").exists() {
            return Err("enough".into());
        }
        std::thread::sleep(PAUSE);
        heat(old.values, new, old.width);
        Ok(())
    }
}

#[test]
fn stencil_resumes_from_its_checkpoint_on_any_rank_count() {
    let mut expected = serial(SHAPE, 0);
    for _ in 0..SWEEPS {
        let old = expected.clone();
        let inner = SHAPE.columns..old.len() - SHAPE.columns;
        heat(&old, &mut expected[inner], SHAPE.columns);
    }
    for (before, after, seed) in [(1, 3, None), (4, 1, Some(1)), (2, 5, Some(2)), (30, 4, None)] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let settings = seed.map_or(Settings::new(), |seed| Settings::new().forced(seed));
        let settings = settings.checkpoint(checkpoint(dir));
        let error = run(&Config::new().ranks(before), |session| {
            let killed = KilledHeat { dir: dir.to_path_buf() };
            StencilLoop::new("heat", SHAPE, killed).settings(settings.clone()).run(session, SWEEPS)?;
            Ok(())
        })
        .unwrap_err();
        assert!(error.to_string().contains("loop heat: enough (in sweep"), "{error}");
        let (grid, summary) = run(&Config::new().ranks(after), |session| {
            let mut heat = StencilLoop::new("heat", SHAPE, Heat).settings(settings.clone());
            let summary = heat.run(session, SWEEPS)?.into_summary();
            Ok((heat.collect(session)?, summary))
        })
        .unwrap();
        assert!(same(&grid.unwrap(), &expected), "{before} ranks, then {after}");
        assert!(summary.unwrap().passes < SWEEPS);
    }
}
