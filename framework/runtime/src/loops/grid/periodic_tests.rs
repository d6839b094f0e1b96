//! Tests of stencils with periodic rows, against a serial program on the same torus.

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;

use super::checkpoint_tests::PAUSE;
use super::*;
use crate::error::{BoxError, ErrorKind};
use crate::loops::{Checkpoint, DoAll, DoAllLoop, Settings, Until};
use crate::session::{Balance, Config, run};

/// Computes a step of a test stencil. The first column contains the row number; the other values depend on each bit of all neighbours on the torus.
fn step(old: OldGrid<'_, u64>, new: &mut [u64]) {
    let width = old.width;
    let rows = old.values.windows(3 * width).step_by(width);
    for (rows, new) in rows.zip(new.chunks_exact_mut(width)) {
        new[0] = rows[width];
        let around = |row: usize, column: usize| rows[row * width + column];
        for (column, new) in new.iter_mut().enumerate().skip(1) {
            let (left, right) = ((column + width - 2) % (width - 1) + 1, column % (width - 1) + 1);
            *new = around(0, left)
                .wrapping_mul(3)
                .wrapping_add(around(0, column).rotate_left(7))
                .wrapping_add(around(1, right).wrapping_mul(5))
                .wrapping_add(around(2, column).rotate_left(19))
                .wrapping_add(around(2, right).wrapping_mul(11));
        }
    }
}

fn fill(row: u64, values: &mut [u64]) {
    (0..).zip(values.iter_mut()).for_each(|(column, value)| {
        *value = (row * 1_000_003 + column).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    });
    if let [first, ..] = values {
        *first = row;
    }
}

/// Residual for convergence tests: returns a number between 0 and 1, computed from the last column, that differs after each step.
fn change(values: &[u64], width: usize) -> f64 {
    let last = values.chunks_exact(width).map(|row| row[width - 1] % 1_000);
    last.max().unwrap_or(0) as f64 / 1_000.0
}

struct Torus {
    rows: u64,
    change: f64,
    /// Directory of checkpoints. The job fails on purpose as soon as the directory holds a checkpoint.
    dir: Option<PathBuf>,
}

impl Torus {
    fn new(rows: u64) -> Self {
        Torus { rows, change: 0.0, dir: None }
    }
}

impl Stencil for Torus {
    type Value = u64;

    fn row(&mut self, index: u64, values: &mut [u64]) -> Result<(), BoxError> {
        assert!(index < self.rows, "row {index} of {}", self.rows);
        fill(index, values);
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, u64>, new: &mut [u64]) -> Result<(), BoxError> {
        let numbers = old.values.iter().step_by(old.width);
        assert!(
            numbers.eq((0..old.rows() as u64).map(|row| old.row_of(row as usize)).collect::<Vec<_>>().iter())
        );
        if let Some(dir) = &self.dir {
            std::thread::sleep(PAUSE);
            if dir.join("manifest").exists() {
                return Err("enough".into());
            }
        }
        step(old, new);
        self.change = self.change.max(change(new, old.width));
        Ok(())
    }
}

fn begin(shape: Shape) -> Vec<u64> {
    let mut values = vec![0; shape.rows as usize * shape.columns];
    (0..).zip(values.chunks_exact_mut(shape.columns)).for_each(|(row, values)| fill(row, values));
    values
}

fn serial_step(values: &mut [u64], width: usize) {
    let last = values.len() - width;
    let old = [&values[last..], values, &values[..width]].concat();
    step(OldGrid { values: &old, width, first: 0, ring: None }, values);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn periodic_grid_equals_the_serial_program(
        ranks in 1..6_usize, rows in 1..40_u64, columns in 2..7_usize, steps in 0..40_u64,
        every in 1..5_u64, small in 0.8..1.0_f64, seed in any::<Option<u64>>()
    ) {
        let shape = Shape { rows, columns };
        let settings = seed.map_or(Settings::new(), |seed| Settings::new().forced(seed));
        let got = run(&Config::new().ranks(ranks), |session| {
            let mut torus = StencilLoop::new("torus", shape, Torus::new(rows)).settings(settings.clone()).periodic();
            torus.run(session, steps)?;
            torus.body_mut().change = 0.0;
            let take = |torus: &mut Torus| std::mem::take(&mut torus.change);
            let end = torus.run_until(session, Until::at_most(30).every(every), take, |change| change < small)?;
            torus.run(session, 3)?;
            Ok((end.passes, torus.collect(session)?))
        });
        let (passes, values) = got.unwrap();
        let mut serial = begin(shape);
        (0..steps).for_each(|_| serial_step(&mut serial, columns));
        let (mut expected, mut most) = (30, 0.0_f64);
        for pass in 1..=30 {
            serial_step(&mut serial, columns);
            most = most.max(change(&serial, columns));
            if pass % every == 0 && std::mem::take(&mut most) < small {
                expected = pass;
                break;
            }
        }
        (0..3).for_each(|_| serial_step(&mut serial, columns));
        prop_assert_eq!((passes, values), (expected, Some(serial)));
    }
}

#[test]
fn rows_of_a_periodic_grid_migrate() {
    let (shape, mut movements) = (Shape { rows: 41, columns: 5 }, 0);
    let mut serial = begin(shape);
    (0..300).for_each(|_| serial_step(&mut serial, 5));
    for ranks in 2..=5 {
        let (grid, summary) = run(&Config::new().ranks(ranks), |session| {
            let mut torus = StencilLoop::new("torus", shape, Torus::new(41))
                .settings(Settings::new().forced(ranks as u64))
                .periodic();
            let summary = torus.run(session, 300)?.into_summary();
            Ok((torus.collect(session)?, summary))
        })
        .unwrap();
        assert_eq!(grid.unwrap(), serial, "{ranks} ranks");
        let summary = summary.unwrap();
        assert_eq!(summary.ranks.iter().map(|rank| rank.held).sum::<u64>(), 41);
        movements += summary.movements;
    }
    assert!(movements > 60, "{movements} movements");
}

#[test]
fn periodic_grid_resumes_from_its_checkpoint_on_any_rank_count() {
    let (shape, steps) = (Shape { rows: 23, columns: 4 }, 2_000);
    let mut serial = begin(shape);
    (0..steps).for_each(|_| serial_step(&mut serial, 4));
    for (before, after) in [(1, 3), (3, 1), (4, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let on = |ranks: usize, dies: bool| {
            run(&Config::new().ranks(ranks), |session| {
                let kept = Checkpoint::new(dir.path(), "torus").every(Duration::ZERO);
                let torus = Torus { dir: dies.then(|| dir.path().to_path_buf()), ..Torus::new(23) };
                let mut torus = StencilLoop::new("torus", shape, torus).checkpoint(kept).periodic();
                let summary = torus.run(session, steps)?.into_summary();
                Ok((torus.collect(session)?, summary))
            })
        };
        let error = on(before, true).unwrap_err();
        assert!(error.to_string().contains("loop torus: enough (in sweep"), "{error}");
        let (grid, summary) = on(after, false).unwrap();
        assert_eq!(grid.unwrap(), serial, "{before} ranks, then {after}");
        assert!(summary.unwrap().passes < steps);
    }
}

#[test]
fn error_names_the_rows_of_a_periodic_grid() {
    /// Stencil that fails to create row 99, and that fails in the call of `step` whose last row is row 7.
    struct Broken;
    impl Stencil for Broken {
        type Value = u8;

        fn row(&mut self, index: u64, _: &mut [u8]) -> Result<(), BoxError> {
            if index == 99 { Err("no such row".into()) } else { Ok(()) }
        }

        fn step(&mut self, old: OldGrid<'_, u8>, new: &mut [u8]) -> Result<(), BoxError> {
            if old.first + new.len() as u64 == 7 { Err("torn".into()) } else { Ok(()) }
        }
    }
    let broken = |rows: u64| {
        run(&Config::new().ranks(2), |session| {
            let settings = Settings::new().balance(Balance::Off);
            StencilLoop::new("ring", Shape { rows, columns: 1 }, Broken)
                .settings(settings)
                .periodic()
                .run(session, 2)?;
            Ok(())
        })
        .unwrap_err()
        .to_string()
    };
    assert_eq!(broken(8), "rank 1: loop ring: torn (in sweep 0, rows 7..8)");
    let text = broken(100);
    assert!(text.ends_with("loop ring: no such row (in row 99)"), "{text}");
}

#[test]
fn periodic_rows_are_refused_by_other_loops() {
    struct Nothing;
    impl DoAcross for Nothing {
        type Value = u8;

        fn row(&mut self, _: u64, _: &mut [u8]) -> Result<(), BoxError> {
            Ok(())
        }

        fn sweep(&mut self, _: Grid<'_, u8>, _: std::ops::Range<usize>) -> Result<(), BoxError> {
            Ok(())
        }
    }
    impl DoAll for Nothing {
        type Units = ();

        fn create(&mut self, _: std::ops::Range<u64>) -> Result<(), BoxError> {
            Ok(())
        }

        fn compute(&mut self, _: std::ops::Range<u64>, (): ()) -> Result<(), BoxError> {
            Ok(())
        }
    }
    let shape = Shape { rows: 5, columns: 5 };
    let settings = Settings::new().periodic();
    let swept = run(&Config::new().ranks(2), |session| {
        DoAcrossLoop::new("sweep", shape, Nothing).settings(settings.clone()).run(session, 1)?;
        Ok(())
    })
    .unwrap_err();
    assert_eq!(swept.kind(), ErrorKind::Config);
    assert!(
        swept.to_string().contains("the option periodic is set, which a DOACROSS loop does not have"),
        "{swept}"
    );
    let all = run(&Config::new(), |session| {
        DoAllLoop::new("all", 5, Nothing).settings(settings.clone()).run(session, 1)?;
        Ok(())
    });
    assert_eq!(all.unwrap_err().kind(), ErrorKind::Config);
    let late = run(&Config::new().ranks(2), |session| {
        let mut torus = StencilLoop::new("torus", shape, Torus::new(5)).periodic();
        torus.run(session, 1)?;
        torus.settings(Settings::new()).run(session, 1)?;
        Ok(())
    })
    .unwrap_err();
    assert!(late.to_string().contains("periodic rows or the panel width were changed"), "{late}");
}
