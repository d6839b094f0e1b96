//! Results that every rank collects must be complete and in order: no results, fewer than ranks, and more than fit into one message.

use std::ops::Range;

use armature::farm::Farm;
use armature::loops::{
    DoAcross, DoAcrossLoop, DoAll, DoAllLoop, Grid, OldGrid, ParallelFor, Rows, Settings, Shape, Stencil,
    StencilLoop,
};
use armature::pipeline::{MappingChoice, Pipeline};
use armature::{BoxError, Session};

use crate::Case;
use crate::check::{Work, ensure, noise};

pub(super) const CASES: &[Case] = &[
    Case { name: "collect-loops", run: loops },
    Case { name: "collect-farms", run: farms },
    Case { name: "collect-pipelines", run: pipelines },
];

/// Number of 8-byte values that exceed 4 MiB, so that their message is split into pieces.
const MORE_THAN_A_PIECE: u64 = 700_000;

fn counts(session: &Session) -> [u64; 5] {
    let ranks = session.size() as u64;
    [0, 1, ranks.saturating_sub(1), ranks, 1_000]
}

fn check_complete<T: PartialEq>(
    session: &Session,
    what: &str,
    found: &[T],
    expected: &[T],
) -> Result<(), BoxError> {
    ensure(found == expected, || {
        let (rank, found, expected) = (session.rank(), found.len(), expected.len());
        format!("{what}: rank {rank} got {found} others instead of the {expected} results")
    })
}

/// Checks that only rank 0 has the results, and that the summary counts them.
fn at_root<T: PartialEq>(
    session: &Session,
    what: &str,
    found: Option<(Vec<T>, u64)>,
    expected: (&[T], u64),
) -> Result<(), BoxError> {
    ensure(found.is_some() == session.is_root(), || format!("{what}: rank 0 alone was to have the results"))?;
    let Some((found, counted)) = found else { return Ok(()) };
    check_complete(session, what, &found, expected.0)?;
    ensure(counted == expected.1, || format!("{what}: the summary counts {counted} of {}", expected.1))
}

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

fn loops(session: &mut Session) -> Result<(), BoxError> {
    for units in counts(session) {
        for width in if units == 1_000 { [3, 700] } else { [3, 0] } {
            let mut named =
                DoAllLoop::new("named", units, Named(width)).settings(Settings::new().forced(units));
            named.run(session, 2)?;
            let (got_rows, got_names) = named.collect_on_all(session)?;
            let rows: Vec<u64> = (0..units).flat_map(|unit| vec![noise(1, unit); width]).collect();
            let names: Vec<String> = (0..units).map(|unit| format!("unit {unit}")).collect();
            let what = format!("{units} units of {width}");
            check_complete(session, &what, got_rows.values(), &rows)?;
            check_complete(session, &what, &got_names, &names)?;
        }
        let squares = ParallelFor::new("squares", 7..7 + units);
        let expected: Vec<u64> = (7..7 + units).map(|n| n * n).collect();
        let on_all = squares.collect_on_all(session, |n| n * n)?;
        check_complete(session, "squares", &on_all, &expected)?;
        let alone = squares.collect(session, |n| n * n)?.into_parts();
        let alone = alone.map(|(squares, summary)| (squares, summary.units));
        at_root(session, "squares", alone, (&expected[..], units))?;
    }
    let many = ParallelFor::new("many", 0..MORE_THAN_A_PIECE).collect_on_all(session, |n| noise(4, n))?;
    let expected: Vec<u64> = (0..MORE_THAN_A_PIECE).map(|n| noise(4, n)).collect();
    check_complete(session, "many", &many, &expected)?;
    grids(session)
}

fn grids(session: &mut Session) -> Result<(), BoxError> {
    for (rows, columns) in [(2, 5), (3, 3), (60, 7), (900, 600)] {
        let shape = Shape { rows, columns };
        let inner =
            |row: u64, column: usize| (1..rows - 1).contains(&row) && (1..columns - 1).contains(&column);
        let value = |row: u64, column: usize| row + if inner(row, column) { 3_000 } else { 0 };
        let expected: Vec<u64> =
            (0..rows).flat_map(|row| (0..columns).map(move |column| value(row, column))).collect();
        let mut sweeps = DoAcrossLoop::new("sweeps", shape, Counted);
        sweeps.run(session, 3)?;
        let grid = sweeps.collect_on_all(session)?;
        check_complete(session, "a grid that is swept", &grid, &expected)?;
        let mut steps = StencilLoop::new("steps", shape, Counted);
        steps.run(session, 3)?;
        let grid = steps.collect_on_all(session)?;
        check_complete(session, "a stencil's grid", &grid, &expected)?;
    }
    Ok(())
}

fn farms(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    for tasks in counts(session) {
        let farm = Farm::new("names", move |n: u64| {
            work.take_uneven(2, n);
            format!("task {n}")
        });
        let mut farm = farm.unordered();
        for first in [0, tasks] {
            let expected: Vec<String> = (first..first + tasks).map(|n| format!("task {n}")).collect();
            let found = farm.collect_on_all(session, first..first + tasks)?;
            check_complete(session, "names", &found, &expected)?;
            let alone = farm.collect(session, first..first + tasks)?.into_parts();
            let alone = alone.map(|(names, summary)| (names, summary.tasks));
            at_root(session, "names", alone, (&expected[..], tasks))?;
        }
    }
    // A result of the farm "large" exceeds 4 MiB, so that its message is split into pieces; the farm "many" has many small results.
    let large = Farm::new("large", |n: usize| vec![n as u64; 600_000 * n]).collect_on_all(session, 0..3)?;
    let expected: Vec<Vec<u64>> = (0..3).map(|n| vec![n as u64; 600_000 * n]).collect();
    check_complete(session, "large", &large, &expected)?;
    let many = Farm::new("many", wide).plain().collect_on_all(session, 0..WIDE_ITEMS)?;
    let expected: Vec<_> = (0..WIDE_ITEMS).map(wide).collect();
    check_complete(session, "many", &many, &expected)
}

/// Number of 256-byte values that exceed 4 MiB, the size of a piece of a message. With batches of one item, or a low limit of bytes in flight, each
/// value is sent in a message of its own.
const WIDE_ITEMS: u64 = MORE_THAN_A_PIECE / 32;

fn wide(n: u64) -> [u64; 32] {
    std::array::from_fn(|k| noise(k as u64, n))
}

fn pipelines(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    for items in counts(session) {
        for is_ordered in [true, false] {
            let names = || {
                let names = Pipeline::source("numbers", move || 0..items).map("name", move |n| {
                    work.take_uneven(3, n);
                    (n % 3 > 0).then(|| format!("item {n}"))
                });
                let names = names.filter_map("some", |name| name);
                if is_ordered { names } else { names.unordered() }.mapping(MappingChoice::Orderly)
            };
            let expected: Vec<String> =
                (0..items).filter(|n| n % 3 > 0).map(|n| format!("item {n}")).collect();
            let on_all = names().collect_on_all(session)?;
            check_complete(session, "names", &on_all, &expected)?;
            let alone = names().collect(session)?.into_parts();
            let alone = alone.map(|(names, summary)| (names, summary.items));
            at_root(session, "names", alone, (&expected[..], items))?;
        }
    }
    let many = Pipeline::source("many", || 0..WIDE_ITEMS).map("noise", wide).collect_on_all(session)?;
    let expected: Vec<_> = (0..WIDE_ITEMS).map(wide).collect();
    check_complete(session, "many", &many, &expected)
}
