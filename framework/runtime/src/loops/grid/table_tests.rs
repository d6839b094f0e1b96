//! Tests of table loops (dynamic programming over a two-dimensional table) on ranks that are threads, against a serial program.

use std::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::error::{BoxError, Error, ErrorKind};
use crate::loops::Settings;
use crate::session::{Balance, Config, run};

pub(super) fn mix(before: u64, above: u64, left: u64, row: u64, column: u64) -> u64 {
    (before ^ above.rotate_left(9) ^ left.rotate_left(23))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(row * 1_009 + column)
        .rotate_left(31)
}

/// Returns the value that the test table has outside its first row or column; `None` stands for the row above or the column to the left.
pub(super) fn edge(row: Option<u64>, column: Option<u64>) -> u64 {
    mix(7, row.map_or(3, |row| row + 11), column.map_or(5, |column| column + 13), 0, 0)
}

/// User code of a table loop in the tests. It also counts and sums the table's values that this rank has computed.
pub(super) struct Mixed {
    pub(super) shape: Shape,
    pub(super) count: u64,
    pub(super) sum: u64,
    pub(super) fails: Option<(u64, u64)>,
}

impl Mixed {
    pub(super) fn new(shape: Shape) -> Self {
        Mixed { shape, count: 0, sum: 0, fails: None }
    }
}

impl Table for Mixed {
    type Value = u64;

    fn above(&mut self, column: Option<u64>) -> u64 {
        assert!(column.is_none_or(|column| column < self.shape.columns as u64), "{column:?}");
        edge(None, column)
    }

    fn left(&mut self, row: u64) -> u64 {
        assert!(row < self.shape.rows);
        edge(Some(row), None)
    }

    fn fill(&mut self, mut cells: Cells<'_, u64>) -> Result<(), BoxError> {
        let (rows, columns) = (cells.rows(), cells.columns());
        if self.fails.is_some_and(|(row, column)| rows.contains(&row) && columns.contains(&column)) {
            return Err("torn".into());
        }
        for row in rows {
            let Line { above, mut left, values } = cells.line(row);
            assert_eq!((values.len(), above.len()), (columns.clone().count(), values.len() + 1));
            for ((column, value), above) in columns.clone().zip(values).zip(above.windows(2)) {
                left = mix(above[0], above[1], left, row, column);
                *value = left;
                self.count += 1;
                self.sum = self.sum.wrapping_add(mix(left, row, column, 0, 0));
            }
        }
        Ok(())
    }
}

pub(super) fn serial(shape: Shape) -> Vec<u64> {
    let columns = shape.columns as u64;
    let mut table: Vec<u64> = Vec::new();
    for row in 0..shape.rows {
        for column in 0..columns {
            let value = |row: Option<u64>, column: Option<u64>| match (row, column) {
                (Some(row), Some(column)) => table[(row * columns + column) as usize],
                (row, column) => edge(row, column),
            };
            let (above, left) = (row.checked_sub(1), column.checked_sub(1));
            table.push(mix(
                value(above, left),
                value(above, Some(column)),
                value(Some(row), left),
                row,
                column,
            ));
        }
    }
    table
}

pub(super) fn summed(shape: Shape, table: &[u64]) -> u64 {
    let columns = shape.columns.max(1) as u64;
    (0..)
        .zip(table)
        .fold(0, |sum, (at, value)| sum.wrapping_add(mix(*value, at / columns, at % columns, 0, 0)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn table_equals_the_serial_program_for_any_distribution(
        ranks in 1..6_usize, rows in 0..40_u64, columns in 0..60_usize, panel in 1..70_u64,
        strip in any::<Option<u8>>(), seed in any::<Option<u64>>()
    ) {
        let shape = Shape { rows, columns };
        let mut settings = Settings::new().panel_width(panel);
        if let Some(seed) = seed {
            settings = settings.forced(seed);
        }
        if let Some(strip) = strip {
            settings = settings.strip_width(1 + u64::from(strip % 20));
        }
        let got = run(&Config::new().ranks(ranks), |session| {
            let mut table = TableLoop::new("mixed", shape, Mixed::new(shape)).settings(settings.clone());
            let mut all = Vec::new();
            // In the second run each rank begins with the rows that it had at the end of the first run.
            for _ in 0..2 {
                table.run(session)?;
                let Mixed { count, sum, .. } = std::mem::replace(table.body_mut(), Mixed::new(shape));
                all.push(session.all_reduce((count, sum), |a, b| (a.0 + b.0, a.1.wrapping_add(b.1)))?);
            }
            let kept = if panel >= columns as u64 { table.collect(session)? } else { None };
            Ok((all, kept))
        });
        let (all, kept) = got.unwrap();
        let serial = serial(shape);
        prop_assert_eq!(all, vec![(serial.len() as u64, summed(shape, &serial)); 2]);
        prop_assert_eq!(kept, (panel >= columns as u64).then_some(serial));
    }
}

#[test]
fn table_rows_migrate_between_panels() {
    let (shape, mut movements) = (Shape { rows: 60, columns: 1_000 }, 0);
    let sum = summed(shape, &serial(shape));
    for ranks in 2..=5 {
        let (total, summary) = run(&Config::new().ranks(ranks), |session| {
            let mut table = TableLoop::new("mixed", shape, Mixed::new(shape))
                .settings(Settings::new().panel_width(9).forced(ranks as u64));
            let summary = table.run(session)?.into_summary();
            Ok((session.all_reduce(table.body().sum, u64::wrapping_add)?, summary))
        })
        .unwrap();
        let summary = summary.unwrap();
        assert_eq!((total, summary.passes), (sum, 112), "{ranks} ranks");
        movements += summary.movements;
    }
    assert!(movements > 40, "{movements} movements");
}

fn refused(work: impl Fn(&mut crate::Session) -> crate::Result<()> + Sync) -> Error {
    run(&Config::new().ranks(2), |session| Ok(work(session)?)).unwrap_err()
}

#[test]
fn error_names_rows_and_columns() {
    let shape = Shape { rows: 10, columns: 40 };
    let error = refused(|session| {
        let body = Mixed { fails: Some((7, 25)), ..Mixed::new(shape) };
        let settings = Settings::new().panel_width(16).strip_width(8).balance(Balance::Off);
        TableLoop::new("mixed", shape, body).settings(settings).run(session)?;
        Ok(())
    });
    assert_eq!(error.to_string(), "rank 1: loop mixed: torn (in rows 5..10, columns 24..32)");
}

#[test]
fn invalid_tables_are_refused() {
    let shape = Shape { rows: 10, columns: 400 };
    let table = || TableLoop::new("mixed", shape, Mixed::new(shape));
    let error = refused(|session| {
        let mut table = table();
        table.run(session)?;
        table.collect(session)?;
        Ok(())
    });
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error.to_string().contains("loop mixed: 256 of the 400 columns of the table are kept"),
        "{error}"
    );
    let error = refused(|session| {
        let mut table = table();
        table.run(session)?;
        table.panel_width(3).run(session)?;
        Ok(())
    });
    assert!(error.to_string().contains("the panel width"), "{error}");
    let error = refused(|session| {
        table().panel_width(0).run(session)?;
        Ok(())
    });
    assert!(error.to_string().contains("the option panel_width of a table is 0"), "{error}");
    let columns = |rank: usize| if rank == 0 { 400 } else { 401 };
    let error = refused(|session| {
        let shape = Shape { columns: columns(session.rank()), ..shape };
        TableLoop::new("mixed", shape, Mixed::new(shape)).run(session)?;
        Ok(())
    });
    assert!(error.to_string().contains("shape 10 x 401, but rank 0 with shape 10 x 400"), "{error}");
}

#[test]
fn cells_follow_strip_and_panel_widths() {
    struct Watching(Vec<(Range<u64>, Range<u64>)>);
    impl Table for Watching {
        type Value = u8;

        fn fill(&mut self, mut cells: Cells<'_, u8>) -> Result<(), BoxError> {
            self.0.push((cells.rows(), cells.columns()));
            assert_eq!(
                format!("{cells:?}"),
                format!("Cells {{ rows: {:?}, columns: {:?}, .. }}", cells.rows(), cells.columns())
            );
            let columns = cells.columns().count();
            let line = cells.line(0);
            assert_eq!(
                (line.above, line.left, &*line.values),
                (&vec![0; columns + 1][..], 0, &vec![0; columns][..])
            );
            line.values.fill(0);
            Ok(())
        }
    }
    let seen = run(&Config::new(), |session| {
        let shape = Shape { rows: 3, columns: 10 };
        let mut table = TableLoop::new("watched", shape, Watching(Vec::new())).panel_width(6).strip_width(4);
        table.run(session)?;
        Ok(std::mem::take(&mut table.body_mut().0))
    });
    assert_eq!(seen.unwrap(), [(0..3, 0..4), (0..3, 4..6), (0..3, 6..10)]);
}
