//! Tests of grid loops on ranks that are threads, against the serial loop.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::error::{BoxError, ErrorKind};
use crate::loops::{Settings, Summary};
use crate::session::{Balance, Config, run};

/// User code of a test loop for successive over-relaxation, which can fail on purpose.
pub(super) struct Sor {
    fails: Option<(u64, u64, bool)>,
    sweep: u64,
}

impl Sor {
    pub(super) fn new() -> Self {
        Sor { fails: None, sweep: 0 }
    }
}

pub(super) fn fill(row: u64, values: &mut [f64]) {
    for (column, value) in (0_u64..).zip(values) {
        let x = (row * 1_000_003 + column).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        *value = (x >> 40) as f64 / 1e6;
    }
}

pub(super) fn relax(b: &mut [f64], width: usize, columns: &Range<usize>) {
    for row in 1..b.len() / width - 1 {
        for i in row * width + columns.start..row * width + columns.end {
            b[i] = 0.493 * (b[i - width] + b[i - 1] + b[i + 1] + b[i + width]) - 0.972 * b[i];
        }
    }
}

impl DoAcross for Sor {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        fill(index, values);
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, f64>, columns: Range<usize>) -> Result<(), BoxError> {
        self.sweep += u64::from(columns.start == 1);
        if let Some((sweep, row, panics)) = self.fails
            && self.sweep == sweep
            && (grid.first + 1..grid.first + grid.rows() as u64 - 1).contains(&row)
        {
            assert!(!panics, "burst");
            return Err("torn".into());
        }
        relax(grid.values, grid.width, &columns);
        Ok(())
    }
}

pub(super) fn serial(shape: Shape, sweeps: u64) -> Vec<f64> {
    let mut values = vec![0.0; shape.rows as usize * shape.columns];
    if shape.columns > 0 {
        (0..).zip(values.chunks_exact_mut(shape.columns)).for_each(|(row, values)| fill(row, values));
    }
    if !shape.is_empty() {
        (0..sweeps).for_each(|_| relax(&mut values, shape.columns, &shape.inner()));
    }
    values
}

pub(super) fn same(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

fn check(ranks: usize, shape: Shape, runs: &[u64], settings: &Settings) -> Vec<Summary> {
    let (grid, summaries) = run(&Config::new().ranks(ranks), |session| {
        let mut sor = DoAcrossLoop::new("sor", shape, Sor::new()).settings(settings.clone());
        let mut summaries = Vec::new();
        for &sweeps in runs {
            summaries.extend(sor.run(session, sweeps)?.into_summary());
        }
        Ok((sor.collect(session)?, summaries))
    })
    .unwrap();
    let expected = serial(shape, runs.iter().sum());
    assert!(same(&grid.unwrap(), &expected), "{ranks} ranks, {shape:?}, {runs:?}");
    assert_eq!(summaries.len(), runs.len());
    for (summary, &sweeps) in summaries.iter().zip(runs) {
        let held: u64 = summary.ranks.iter().map(|rank| rank.held).sum();
        if sweeps > 0 && !shape.is_empty() {
            assert_eq!((held, summary.ranks.len()), (shape.units(), ranks));
            let units: f64 = summary.ranks.iter().map(|rank| rank.units).sum();
            assert!((units - (shape.units() * sweeps) as f64).abs() < 1e-3, "{summary}");
        }
    }
    summaries
}

#[test]
fn any_rank_count_gives_the_serial_result() {
    for ranks in 1..=8 {
        for (rows, columns) in [(40, 33), (11, 5), (100, 12)] {
            let shape = Shape { rows, columns };
            check(ranks, shape, &[10], &Settings::new());
            check(ranks, shape, &[3, 0, 4], &Settings::new().strip_width(3).balance(Balance::Off));
        }
    }
}

struct Watched<'w> {
    sor: Sor,
    most: &'w AtomicUsize,
}

impl DoAcross for Watched<'_> {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        self.sor.row(index, values)
    }

    fn sweep(&mut self, grid: Grid<'_, f64>, columns: Range<usize>) -> Result<(), BoxError> {
        self.most.fetch_max(grid.rows(), Ordering::Relaxed);
        self.sor.sweep(grid, columns)
    }
}

#[test]
fn large_blocks_are_computed_in_bands_of_rows() {
    let shape = Shape { rows: 900, columns: 150 };
    for ranks in [1, 2, 3] {
        let most = AtomicUsize::new(0);
        let grid = run(&Config::new().ranks(ranks), |session| {
            let user = Watched { sor: Sor::new(), most: &most };
            let settings = Settings::new().forced(3).strip_width(16);
            let mut sor = DoAcrossLoop::new("sor", shape, user).settings(settings);
            sor.run(session, 30)?;
            Ok(sor.collect(session)?)
        });
        assert!(same(&grid.unwrap().unwrap(), &serial(shape, 30)), "{ranks} ranks");
        // With 110 rows or more, a rank computes its rows in several calls of user code, a few rows per call.
        assert!(most.load(Ordering::Relaxed) < 110, "{most:?} rows at a time");
    }
}

#[test]
fn small_grids_are_computed() {
    for ranks in [1, 2, 3, 8] {
        for rows in [0, 1, 2, 3, 4, 7] {
            for columns in [0, 1, 2, 3, 6] {
                check(ranks, Shape { rows, columns }, &[2, 2], &Settings::new());
            }
        }
    }
}

#[test]
fn random_migrations_keep_the_serial_result() {
    let (mut movements, mut sent) = (0, 0);
    for ranks in 2..=8 {
        for seed in 0..4 {
            let shape = Shape { rows: 20 + 7 * seed, columns: 9 };
            for summary in
                check(ranks, shape, &[200, 100], &Settings::new().forced(seed).strip_width(1 + seed))
            {
                movements += summary.movements;
                sent += summary.moved();
            }
        }
    }
    assert!(movements > 1_000 && sent > movements, "{movements} movements of {sent} rows");
}

struct Slow;

impl DoAcross for Slow {
    type Value = f32;

    fn row(&mut self, _: u64, _: &mut [f32]) -> Result<(), BoxError> {
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, f32>, _: Range<usize>) -> Result<(), BoxError> {
        if grid.first > 10 {
            std::thread::sleep(std::time::Duration::from_millis(1_500));
        }
        Ok(())
    }
}

/// Runs two sweeps over a slow test grid; a rank that sends nothing for the time `limit` counts as dead.
fn run_slow(limit: std::time::Duration, driver: crate::Driver) -> crate::Result<()> {
    let config = Config { peer_limit: limit, join_limit: limit, driver, ..Config::new().ranks(2) };
    run(&config, |session| {
        DoAcrossLoop::new("slow", Shape { rows: 42, columns: 3 }, Slow).strip_width(10).run(session, 2)?;
        Ok(())
    })
}

#[test]
fn strip_may_exceed_the_silence_limit() {
    run_slow(std::time::Duration::from_millis(1_000), crate::Driver::Auto).unwrap();
}

#[test]
fn missing_report_is_named() {
    // With the inline driver, rank 1 computes on the thread that sends heartbeats. Rank 0 therefore misses the heartbeat and reports a timeout.
    let error = run_slow(std::time::Duration::from_millis(300), crate::Driver::Inline).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{text}");
    assert!(text.starts_with("rank 0: loop slow: has waited 0 s for a heartbeat from rank 1"), "{text}");
    assert!(text.contains("rank 0: waits for columns 0.. of sweep 0 from rank 1"), "{text}");
}

#[test]
fn shares_are_kept_with_balancing_off() {
    let settings = Settings::new().balance(Balance::Off).shares([3.0, 1.0]);
    let summaries = check(2, Shape { rows: 42, columns: 10 }, &[5], &settings);
    assert_eq!(summaries[0].first, [30, 10]);
    assert_eq!(summaries[0].ranks.iter().map(|rank| rank.held).collect::<Vec<_>>(), [30, 10]);
    let error = run(&Config::new().ranks(3), |session| {
        let shape = Shape { rows: 42, columns: 10 };
        DoAcrossLoop::new("sor", shape, Sor::new()).settings(settings.clone()).run(session, 1)?;
        Ok(())
    })
    .unwrap_err();
    assert!(error.to_string().contains("loop sor: shares of a loop must be"), "{error}");
}

#[test]
fn errors_and_panics_name_rows_and_columns() {
    for ranks in [1, 2, 4] {
        for (panics, expected) in [(false, "torn"), (true, "panicked: burst")] {
            let error = run(&Config::new().ranks(ranks), |session| {
                let sor = Sor { fails: Some((3, 38, panics)), ..Sor::new() };
                let shape = Shape { rows: 40, columns: 12 };
                let settings = Settings::new().strip_width(4).balance(Balance::Off);
                DoAcrossLoop::new("sor", shape, sor).settings(settings).run(session, 50)?;
                Ok(())
            })
            .unwrap_err();
            let text = error.to_string();
            let begin = format!("rank {}: loop sor: {expected} (in sweep 2, rows ", ranks - 1);
            assert!(text.starts_with(&begin) && text.ends_with("..39, columns 1..5)"), "{text}");
            let kind = if panics { ErrorKind::Panic } else { ErrorKind::User };
            assert_eq!((error.kind(), error.stage()), (kind, Some("sor")));
        }
    }
}

struct Holey;

impl DoAcross for Holey {
    type Value = f32;

    fn row(&mut self, index: u64, _: &mut [f32]) -> Result<(), BoxError> {
        if index == 7 { Err("no such row".into()) } else { Ok(()) }
    }

    fn sweep(&mut self, _: Grid<'_, f32>, _: Range<usize>) -> Result<(), BoxError> {
        Ok(())
    }
}

#[test]
fn row_initialisation_error_ends_the_job() {
    let error = run(&Config::new().ranks(2), |session| {
        DoAcrossLoop::new("holey", Shape { rows: 9, columns: 3 }, Holey).run(session, 1)?;
        Ok(())
    })
    .unwrap_err();
    assert_eq!(error.to_string(), "rank 1: loop holey: no such row (in row 7)");
}

pub(super) struct Heat;

pub(super) fn heat(b: &[f64], new: &mut [f64], width: usize) {
    for (row, new) in (1..).zip(new.chunks_exact_mut(width)) {
        for (column, new) in new.iter_mut().enumerate().skip(1).take(width.saturating_sub(2)) {
            let i = row * width + column;
            *new = b[i] + 0.2 * (b[i - width] + b[i - 1] + b[i + 1] + b[i + width] - 4.0 * b[i]);
        }
    }
}

impl Stencil for Heat {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        fill(index, values);
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
        if old.first > 1_000 {
            return Err("too far".into());
        }
        heat(old.values, new, old.width);
        Ok(())
    }
}

fn check_heat(ranks: usize, shape: Shape, runs: &[u64], settings: &Settings) -> Vec<Summary> {
    let (grid, summaries) = run(&Config::new().ranks(ranks), |session| {
        let mut heat = StencilLoop::new("heat", shape, Heat).settings(settings.clone());
        let mut summaries = Vec::new();
        for &steps in runs {
            summaries.extend(heat.run(session, steps)?.into_summary());
        }
        Ok((heat.collect(session)?, summaries))
    })
    .unwrap();
    let mut expected = serial(shape, 0);
    if !shape.is_empty() {
        for _ in 0..runs.iter().sum::<u64>() {
            let old = expected.clone();
            let inner = shape.columns..old.len() - shape.columns;
            heat(&old, &mut expected[inner], shape.columns);
        }
    }
    assert!(same(&grid.unwrap(), &expected), "{ranks} ranks, {shape:?}, {runs:?}");
    summaries
}

#[test]
fn stencils_give_the_serial_result_on_any_rank_count() {
    for ranks in 1..=8 {
        for (rows, columns) in [(40, 9), (11, 5), (3, 3), (5, 4), (2, 8), (8, 2), (0, 0)] {
            check_heat(ranks, Shape { rows, columns }, &[7, 0, 4], &Settings::new());
        }
    }
}

#[test]
fn stencil_results_are_unchanged_by_migrations() {
    let (mut movements, mut sent) = (0, 0);
    for ranks in 2..=8 {
        for seed in 0..3 {
            let shape = Shape { rows: 20 + 7 * seed, columns: 9 };
            for summary in check_heat(ranks, shape, &[200, 100], &Settings::new().forced(seed)) {
                movements += summary.movements;
                sent += summary.moved();
            }
        }
    }
    assert!(movements > 250 && sent > movements, "{movements} movements of {sent} rows");
}

#[test]
fn error_in_a_step_names_its_rows() {
    let error = run(&Config::new().ranks(2), |session| {
        let shape = Shape { rows: 1_500, columns: 4 };
        StencilLoop::new("heat", shape, Heat)
            .settings(Settings::new().balance(Balance::Off))
            .run(session, 5)?;
        Ok(())
    })
    .unwrap_err();
    assert_eq!(error.to_string(), "rank 1: loop heat: too far (in sweep 0, rows 1498..1499)");
}
