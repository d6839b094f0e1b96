//! Tests of loops until convergence in which units (rows or indices) move between ranks at random: they must end after the same pass as the serial
//! loop, with the same values.

use std::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::error::{BoxError, ErrorKind};
use crate::loops::Settings;
use crate::session::{Config, Session, run};

const SHAPE: Shape = Shape { rows: 17, columns: 9 };

struct Plate {
    change: f64,
}

fn fill(row: u64, values: &mut [f64]) {
    for (column, value) in (0_u64..).zip(values) {
        *value = ((row * 31 + column * 17) % 23) as f64;
    }
}

fn step(old: &[f64], new: &mut [f64], width: usize) -> f64 {
    let mut change = 0.0_f64;
    for (row, new) in (1..).zip(new.chunks_exact_mut(width)) {
        for (column, value) in new.iter_mut().enumerate().take(width - 1).skip(1) {
            let i = row * width + column;
            *value = 0.25 * (old[i - width] + old[i - 1] + old[i + 1] + old[i + width]);
            change = change.max((*value - old[i]).abs());
        }
    }
    change
}

fn relax(b: &mut [f64], width: usize, columns: &Range<usize>) -> f64 {
    let mut change = 0.0_f64;
    for row in 1..b.len() / width - 1 {
        for i in row * width + columns.start..row * width + columns.end {
            let new = 0.25 * (b[i - width] + b[i - 1] + b[i + 1] + b[i + width]);
            change = change.max((new - b[i]).abs());
            b[i] = new;
        }
    }
    change
}

impl Stencil for Plate {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        fill(index, values);
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
        self.change = self.change.max(step(old.values, new, old.width));
        Ok(())
    }
}

impl DoAcross for Plate {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        fill(index, values);
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, f64>, columns: Range<usize>) -> Result<(), BoxError> {
        self.change = self.change.max(relax(grid.values, grid.width, &columns));
        Ok(())
    }
}

impl DoAll for Plate {
    type Units = Vec<f64>;

    fn create(&mut self, range: Range<u64>) -> Result<Vec<f64>, BoxError> {
        Ok(range.map(|n| (n + 2) as f64).collect())
    }

    fn compute(&mut self, range: Range<u64>, roots: &mut [f64]) -> Result<(), BoxError> {
        for (n, root) in range.zip(roots) {
            self.change = self.change.max(newton(n, root));
        }
        Ok(())
    }
}

fn newton(n: u64, root: &mut f64) -> f64 {
    let better = 0.5 * (*root + (n + 2) as f64 / *root);
    (better - std::mem::replace(root, better)).abs()
}

fn take(plate: &mut Plate) -> f64 {
    std::mem::take(&mut plate.change)
}

fn serial(
    until: Until,
    small: f64,
    mut values: Vec<f64>,
    mut pass: impl FnMut(&mut [f64]) -> f64,
) -> (Converged, Vec<f64>) {
    let (mut last, mut change) = (None, 0.0_f64);
    for passes in 1..=until.passes {
        change = change.max(pass(&mut values));
        if passes % until.every == 0 {
            let residual = std::mem::take(&mut change);
            last = Some(until::CheckResult { passes, residual, is_converged: residual < small });
            if residual < small {
                break;
            }
        }
    }
    pass(&mut values);
    (Converged::new(last, until.passes, None), values)
}

fn grid() -> Vec<f64> {
    let mut values = vec![0.0; SHAPE.rows as usize * SHAPE.columns];
    (0..).zip(values.chunks_exact_mut(SHAPE.columns)).for_each(|(row, values)| fill(row, values));
    values
}

fn on_ranks(
    ranks: usize,
    body: impl Fn(&mut Session) -> crate::error::Result<(Converged, Option<Vec<f64>>)> + Sync,
) -> (Converged, Vec<f64>) {
    let (mut ends, values) = run(&Config::new().ranks(ranks), |session| {
        let (end, values) = body(session)?;
        assert!(session.is_root() || end.summary.is_none());
        let end = (end.passes, end.residual.map(f64::to_bits), end.is_converged);
        Ok((session.all_gather(end)?, values))
    })
    .unwrap();
    ends.dedup();
    let [(passes, residual, is_converged)] = ends[..] else { panic!("ranks differ: {ends:?}") };
    let end = Converged { passes, residual: residual.map(f64::from_bits), is_converged, summary: None };
    (end, values.unwrap_or_default())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn loop_converges_after_the_same_pass_as_serially(
        ranks in 1..6_usize, every in 1..8_u64, most in 0..60_u64, exponent in 0..4_i32, seed in any::<u64>()
    ) {
        let (until, small) = (Until::at_most(most).every(every), 10_f64.powi(-exponent));
        let got = on_ranks(ranks, |session| {
            let mut heat = StencilLoop::new("heat", SHAPE, Plate { change: 0.0 }).settings(Settings::new().forced(seed));
            let end = heat.run_until(session, until, take, |change| change < small)?;
            heat.run(session, 1)?;
            Ok((end, heat.collect(session)?))
        });
        let pass = |values: &mut [f64]| {
            let (old, width) = (values.to_vec(), SHAPE.columns);
            step(&old, &mut values[width..old.len() - width], width)
        };
        prop_assert_eq!(got, serial(until, small, grid(), pass));

        let got = on_ranks(ranks, |session| {
            let mut sor = DoAcrossLoop::new("sor", SHAPE, Plate { change: 0.0 }).settings(Settings::new().forced(seed));
            let end = sor.run_until(session, until, take, |change| change < small)?;
            sor.run(session, 1)?;
            Ok((end, sor.collect(session)?))
        });
        let pass = |values: &mut [f64]| relax(values, SHAPE.columns, &(1..SHAPE.columns - 1));
        prop_assert_eq!(got, serial(until, small, grid(), pass));

        let got = on_ranks(ranks, |session| {
            let mut roots = DoAllLoop::new("roots", 40, Plate { change: 0.0 }).settings(Settings::new().forced(seed));
            let end = roots.run_until(session, until, take, |change| change < small)?;
            roots.run(session, 1)?;
            Ok((end, roots.collect(session)?))
        });
        let pass = |values: &mut [f64]| (0..).zip(values).map(|(n, root)| newton(n, root)).fold(0.0, f64::max);
        prop_assert_eq!(got, serial(until, small, (0..40).map(|n| (n + 2) as f64).collect(), pass));
    }
}

#[test]
fn residual_sums_all_ranks_and_nan_never_converges() {
    let (end, _) = on_ranks(3, |session| {
        let mut heat = StencilLoop::new("heat", SHAPE, Plate { change: 0.0 });
        let end = heat.run_until(
            session,
            Until::at_most(9).every(4).sum(),
            |_| 0.5,
            |sum| {
                // User code reports the residual 0.5 per call. Each of three ranks calls it three times per step, for its first row, its last row
                // and the rows between them, and a check follows after four steps.
                assert_eq!(sum, 0.5 * 4.0 * 3.0 * 3.0);
                false
            },
        )?;
        Ok((end, None))
    });
    assert_eq!((end.passes, end.is_converged), (9, false));
    let (end, _) = on_ranks(2, |session| {
        let mut heat = StencilLoop::new("heat", SHAPE, Plate { change: 0.0 });
        let residual = |_: &mut Plate| f64::NAN;
        Ok((heat.run_until(session, Until::at_most(3), residual, |change| change < 1e9)?, None))
    });
    assert!(end.residual.is_some_and(f64::is_nan) && !end.is_converged);
}

#[test]
fn invalid_options_are_refused_and_panics_end_the_job() {
    let refused = |until: Until, panics: bool| {
        let error = run(&Config::new().ranks(3), |session| {
            let mut heat = StencilLoop::new("heat", SHAPE, Plate { change: 0.0 });
            heat.run_until(session, until, take, |_| {
                assert!(!panics, "no verdict");
                true
            })?;
            Ok(())
        });
        error.unwrap_err()
    };
    let none = refused(Until::at_most(5).every(0), false);
    assert_eq!(none.kind(), ErrorKind::Config);
    assert!(none.message().contains("the check interval is 0 passes"), "{none}");
    let panicked = refused(Until::at_most(5), true);
    assert_eq!((panicked.kind(), panicked.rank()), (ErrorKind::Panic, Some(0)));
    let kept = run(&Config::new(), |session| {
        let kept = Checkpoint::new("nowhere", "");
        let mut roots = DoAllLoop::new("roots", 4, Plate { change: 0.0 }).checkpoint(kept);
        Ok(roots.run_until(session, Until::at_most(3), take, |_| true)?.passes)
    });
    assert!(kept.unwrap_err().message().contains("the option checkpoint is set"));
}
