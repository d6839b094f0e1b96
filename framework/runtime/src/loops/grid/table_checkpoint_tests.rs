//! Tests of tables whose job ends early and is restarted from a checkpoint.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::checkpoint_tests::PAUSE;
use super::table_tests::{Mixed, serial, summed};
use super::*;
use crate::error::{BoxError, Result};
use crate::loops::{Checkpoint, Settings, Summary};
use crate::session::{Config, run};

const SHAPE: Shape = Shape { rows: 23, columns: 400 };

/// Table of test values that saves its results in checkpoints. If `dies_of` is set, it fails as soon as that directory holds a checkpoint.
struct Kept {
    mixed: Mixed,
    dies_of: Option<PathBuf>,
}

impl Kept {
    fn new(shape: Shape) -> Self {
        Kept { mixed: Mixed::new(shape), dies_of: None }
    }
}

impl Table for Kept {
    type Value = u64;

    fn above(&mut self, column: Option<u64>) -> u64 {
        self.mixed.above(column)
    }

    fn left(&mut self, row: u64) -> u64 {
        self.mixed.left(row)
    }

    fn fill(&mut self, cells: Cells<'_, u64>) -> std::result::Result<(), BoxError> {
        if let Some(dir) = &self.dies_of {
            if dir.join("manifest").exists() {
                return Err("enough".into());
            }
            // User code sleeps, so that a checkpoint is complete before the last panel of columns is filled.
            std::thread::sleep(PAUSE);
        }
        self.mixed.fill(cells)
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some([self.mixed.count, self.mixed.sum].map(u64::to_le_bytes).concat())
    }

    fn restore(&mut self, saved: &[u8]) -> std::result::Result<(), BoxError> {
        let (numbers, []) = saved.as_chunks::<8>() else { return Err("not two numbers".into()) };
        let [count, sum] = numbers else { return Err("not two numbers".into()) };
        self.mixed.count += u64::from_le_bytes(*count);
        self.mixed.sum = self.mixed.sum.wrapping_add(u64::from_le_bytes(*sum));
        Ok(())
    }
}

fn settings(dir: &Path) -> Settings {
    Settings::new().panel_width(2).checkpoint(Checkpoint::new(dir, "mixed").every(Duration::ZERO))
}

fn die(ranks: usize, dir: &Path, settings: &Settings) {
    let error = run(&Config::new().ranks(ranks), |session| {
        let killed = Kept { dies_of: Some(dir.to_path_buf()), ..Kept::new(SHAPE) };
        TableLoop::new("mixed", SHAPE, killed).settings(settings.clone()).run(session)?;
        Ok(())
    })
    .unwrap_err();
    assert!(error.to_string().contains("loop mixed: enough (in rows"), "{error}");
}

/// Returns the number and the sum of the values filled by the restarted job and, according to its checkpoint, by the jobs before it.
fn resume(ranks: usize, shape: Shape, settings: &Settings) -> Result<((u64, u64), Summary)> {
    let (total, summary) = run(&Config::new().ranks(ranks), |session| {
        let mut table = TableLoop::new("mixed", shape, Kept::new(shape)).settings(settings.clone());
        let summary = table.run(session)?.into_summary();
        let Mixed { count, sum, .. } = table.body().mixed;
        Ok((session.all_reduce((count, sum), |a, b| (a.0 + b.0, a.1.wrapping_add(b.1)))?, summary))
    })?;
    Ok((total, summary.unwrap()))
}

#[test]
fn table_resumes_from_its_checkpoint_on_any_rank_count() {
    let table = serial(SHAPE);
    let expected = (table.len() as u64, summed(SHAPE, &table));
    for (before, after, seed) in [(1, 3, None), (3, 1, None), (2, 8, Some(1)), (5, 2, Some(2)), (30, 4, None)]
    {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path());
        let settings = seed.map_or(settings.clone(), |seed| settings.forced(seed));
        die(before, dir.path(), &settings);
        let (total, summary) = resume(after, SHAPE, &settings).unwrap();
        assert_eq!(total, expected, "{before} ranks, then {after}");
        assert!(summary.passes < 200, "{summary}");
        // The restarted job has written a later checkpoint, from which the job continues when it is started once more.
        let (again, last) = resume(2, SHAPE, &settings).unwrap();
        assert!(again == expected && last.passes <= summary.passes, "{last}");
    }
}

#[test]
fn error_after_a_checkpoint_names_rows_and_columns() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    die(2, dir.path(), &settings);
    let error = run(&Config::new(), |session| {
        let mut table = Kept::new(SHAPE);
        table.mixed.fails = Some((4, 399));
        TableLoop::new("mixed", SHAPE, table).settings(settings.clone()).run(session)?;
        Ok(())
    })
    .unwrap_err();
    assert!(error.to_string().contains("torn (in rows 0..23, columns 39"), "{error}");
}

#[test]
fn checkpoint_of_another_table_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let kept = settings(dir.path());
    die(2, dir.path(), &kept);
    let refused = |shape: Shape, settings: &Settings| resume(2, shape, settings).unwrap_err().to_string();
    let text = refused(Shape { columns: 390, ..SHAPE }, &kept);
    assert!(text.contains("it is of a table with 400 columns, expected 390"), "{text}");
    let text = refused(Shape { rows: 24, ..SHAPE }, &kept);
    assert!(text.contains("with 23 units") && text.contains("with 24 units"), "{text}");
    let text = refused(SHAPE, &kept.clone().panel_width(3));
    assert!(text.contains("bytes, expected"), "{text}");
    let text = refused(SHAPE, &kept.clone().panel_width(400));
    assert!(text.contains("a panel of 400 columns contains all 400 columns of the table"), "{text}");
    let without = run(&Config::new().ranks(2), |session| {
        TableLoop::new("mixed", SHAPE, Mixed::new(SHAPE)).settings(kept.clone()).run(session)?;
        Ok(())
    });
    assert!(
        without
            .unwrap_err()
            .to_string()
            .contains("loop mixed: a checkpoint is set, but the table has no `save`")
    );
}
