//! Results that every rank gets: all of them, in order, also none, fewer than ranks, and more than fit one message.

use std::ops::Range;

use armature::farm::Farm;
use armature::loops::{
    DoAcross, DoAcrossLoop, DoAll, DoAllLoop, Grid, OldGrid, ParallelFor, Rows, Shape, Stencil, StencilLoop,
};
use armature::pipeline::{MappingChoice, Pipeline};
use armature::{BoxError, Session};

use crate::Case;
use crate::check::{Work, noise, that};

pub(super) const CASES: &[Case] = &[
    Case { name: "collect-loops", run: loops },
    Case { name: "collect-farms", run: farms },
    Case { name: "collect-pipelines", run: pipelines },
];

/// So many numbers of 8 bytes are more than a piece, which has 4 MiB.
const MANY: u64 = 700_000;

/// How many items, or units, there are: none, fewer than ranks, as many, and some.
fn counts(session: &Session) -> [u64; 5] {
    let ranks = session.size() as u64;
    [0, 1, ranks.saturating_sub(1), ranks, 1_000]
}

/// Fails unless this rank has just what is expected.
fn whole<T: PartialEq>(
    session: &Session,
    what: &str,
    got: Option<&[T]>,
    expected: &[T],
) -> Result<(), BoxError> {
    that(got == Some(expected), || {
        let got = got.map_or_else(|| "nothing".to_string(), |got| format!("{} others", got.len()));
        format!("{what}: rank {} got {got} instead of the {} results", session.rank(), expected.len())
    })
}

/// Units with a row of numbers and a text.
struct Named(usize);

impl DoAll for Named {
    type Units = (Rows<u64>, Vec<String>);

    fn create(&mut self, range: Range<u64>) -> Result<Self::Units, BoxError> {
        let names = range.clone().map(|unit| format!("unit {unit}")).collect();
        Ok((Rows::from_fn(range, self.0, |unit, row| row.fill(noise(1, unit))), names))
    }

    fn compute(&mut self, _: Range<u64>, _: (&mut [u64], &mut [String])) -> Result<(), BoxError> {
        Ok(())
    }
}

/// A grid whose inner values are counted up.
struct Counted;

impl DoAcross for Counted {
    type Value = u64;

    fn row(&mut self, index: u64, values: &mut [u64]) -> Result<(), BoxError> {
        values.fill(index);
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, u64>, columns: Range<usize>) -> Result<(), BoxError> {
        for row in 1..grid.rows() - 1 {
            grid.values[row * grid.width..][columns.clone()].iter_mut().for_each(|x| *x += 1_000);
        }
        Ok(())
    }
}

impl Stencil for Counted {
    type Value = u64;

    fn row(&mut self, index: u64, values: &mut [u64]) -> Result<(), BoxError> {
        DoAcross::row(self, index, values)
    }

    fn step(&mut self, old: OldGrid<'_, u64>, new: &mut [u64]) -> Result<(), BoxError> {
        let old = old.values.chunks_exact(old.width).skip(1).zip(new.chunks_exact_mut(old.width));
        for (old, new) in old {
            let inner = 1..old.len() - 1;
            new[inner.clone()].iter_mut().zip(&old[inner]).for_each(|(new, old)| *new = old + 1_000);
        }
        Ok(())
    }
}

fn loops(session: &Session) -> Result<(), BoxError> {
    for units in counts(session) {
        for width in if units == 1_000 { [3, 700] } else { [3, 0] } {
            let mut named = DoAllLoop::new("named", units, Named(width)).forced(units).on_all_ranks();
            named.run(session, 2)?;
            let got = named.collect(session)?;
            let rows: Vec<u64> = (0..units).flat_map(|unit| vec![noise(1, unit); width]).collect();
            let names: Vec<String> = (0..units).map(|unit| format!("unit {unit}")).collect();
            let what = format!("{units} units of {width}");
            whole(session, &what, got.as_ref().map(|(rows, _)| rows.values()), &rows)?;
            whole(session, &what, got.as_ref().map(|(_, names)| &**names), &names)?;
        }
        let squares = ParallelFor::new("squares", 7..7 + units).on_all_ranks().collect(session, |n| n * n)?;
        let expected: Vec<u64> = (7..7 + units).map(|n| n * n).collect();
        whole(session, "squares", squares.as_ref().map(|(squares, _)| &**squares), &expected)?;
        that(squares.is_some_and(|(_, summary)| summary.units == units), || "another summary".into())?;
    }
    let many = ParallelFor::new("many", 0..MANY).on_all_ranks().collect(session, |n| noise(4, n))?;
    let expected: Vec<u64> = (0..MANY).map(|n| noise(4, n)).collect();
    whole(session, "many", many.as_ref().map(|(many, _)| &**many), &expected)?;
    let alone = ParallelFor::new("alone", 0..9).collect(session, |n| n)?;
    that(alone.is_some() == session.is_root(), || "rank 0 alone was to have it".into())?;
    grids(session)
}

fn grids(session: &Session) -> Result<(), BoxError> {
    for (rows, columns) in [(2, 5), (3, 3), (60, 7), (900, 600)] {
        let shape = Shape { rows, columns };
        let inner =
            |row: u64, column: usize| (1..rows - 1).contains(&row) && (1..columns - 1).contains(&column);
        let value = |row: u64, column: usize| row + if inner(row, column) { 3_000 } else { 0 };
        let expected: Vec<u64> =
            (0..rows).flat_map(|row| (0..columns).map(move |column| value(row, column))).collect();
        let mut sweeps = DoAcrossLoop::new("sweeps", shape, Counted).on_all_ranks();
        sweeps.run(session, 3)?;
        whole(session, "a grid that is swept", sweeps.collect(session)?.as_deref(), &expected)?;
        let mut steps = StencilLoop::new("steps", shape, Counted).on_all_ranks();
        steps.run(session, 3)?;
        whole(session, "a stencil's grid", steps.collect(session)?.as_deref(), &expected)?;
    }
    Ok(())
}

fn farms(session: &Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    for tasks in counts(session) {
        let farm = Farm::new("names", move |n: u64| {
            work.uneven(2, n);
            format!("task {n}")
        });
        let mut farm = farm.unordered().on_all_ranks();
        let expected: Vec<String> = (0..tasks).map(|n| format!("task {n}")).collect();
        // The same farm again has other results.
        for first in [0, tasks] {
            let got = farm.collect(session, first..first + tasks)?;
            let expected: Vec<String> = (first..first + tasks).map(|n| format!("task {n}")).collect();
            whole(session, "names", got.as_ref().map(|(names, _)| &**names), &expected)?;
            that(got.is_some_and(|(_, summary)| summary.tasks == tasks), || "another summary".into())?;
        }
        let alone = Farm::new("alone", |n: u64| format!("task {n}")).collect(session, 0..tasks)?;
        that(alone.is_some() == session.is_root(), || "rank 0 alone was to have it".into())?;
        that(alone.is_none_or(|(alone, _)| alone == expected), || "rank 0 got something else".into())?;
    }
    // A result of more than a piece, and many small ones.
    let large =
        Farm::new("large", |n: usize| vec![n as u64; 600_000 * n]).on_all_ranks().collect(session, 0..3)?;
    let expected: Vec<Vec<u64>> = (0..3).map(|n| vec![n as u64; 600_000 * n]).collect();
    whole(session, "large", large.as_ref().map(|(large, _)| &**large), &expected)?;
    let many = Farm::new("many", wide).plain().on_all_ranks().collect(session, 0..WIDE)?;
    let expected: Vec<_> = (0..WIDE).map(wide).collect();
    whole(session, "many", many.as_ref().map(|(many, _)| &**many), &expected)
}

/// So many values of 256 bytes are more than a piece. Each of them is a message where a batch holds one item or the window few bytes.
const WIDE: u64 = MANY / 32;

fn wide(n: u64) -> [u64; 32] {
    std::array::from_fn(|k| noise(k as u64, n))
}

fn pipelines(session: &Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    for items in counts(session) {
        for is_ordered in [true, false] {
            let names = || {
                let names = Pipeline::source("numbers", move || 0..items).map("name", move |n| {
                    work.uneven(3, n);
                    (n % 3 > 0).then(|| format!("item {n}"))
                });
                let names = names.filter_map("some", |name| name);
                if is_ordered { names.collect() } else { names.unordered().collect() }
                    .mapping(MappingChoice::Orderly)
            };
            let expected: Vec<String> =
                (0..items).filter(|n| n % 3 > 0).map(|n| format!("item {n}")).collect();
            let got = names().on_all_ranks().run(session)?;
            whole(session, "names", got.as_ref().map(|(names, _)| &**names), &expected)?;
            that(got.is_some_and(|(_, summary)| summary.items == items), || "another summary".into())?;
            let alone = names().run(session)?;
            that(alone.is_some() == session.is_root(), || "rank 0 alone was to have it".into())?;
            that(alone.is_none_or(|(alone, _)| alone == expected), || "rank 0 got something else".into())?;
        }
    }
    let many =
        Pipeline::source("many", || 0..WIDE).map("noise", wide).collect().on_all_ranks().run(session)?;
    let expected: Vec<_> = (0..WIDE).map(wide).collect();
    whole(session, "many", many.as_ref().map(|(many, _)| &**many), &expected)
}
