//! Computation of the alignment table on several ranks: all the code needed in addition to the serial program.

use crate::kernel::{Best, Cell, OPERATIONS, fill};
use crate::scores::{Gaps, Scores};
use armature::loops::{Cells, Line, Settings, Shape, Summary, Table, TableLoop};
use armature::{BoxError, Session};

/// Two sequences whose alignment table is filled by all ranks, with the best alignment found by this rank.
struct Pair<'p> {
    first: &'p [u8],
    second: &'p [u8],
    scores: &'p Scores,
    gaps: Gaps,
    best: Best,
}

impl Table for Pair<'_> {
    type Value = Cell;

    fn fill(&mut self, mut cells: Cells<'_, Cell>) -> Result<(), BoxError> {
        let (rows, columns) = (cells.rows(), cells.columns());
        let letters = &self.second[columns.start as usize..columns.end as usize];
        let operations = OPERATIONS * (rows.end - rows.start) as f64 * letters.len() as f64;
        armature::declare(operations, || {
            for row in rows {
                let Line { above, left, values } = cells.line(row);
                let scores = self.scores.row_of(self.first[row as usize]);
                let (score, at) = fill(above, left, values, scores, letters, self.gaps);
                let found = Best { score, first_end: row + 1, second_end: columns.start + at as u64 + 1 };
                self.best = self.best.better_of(found.unless_empty());
            }
        });
        Ok(())
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(serde_json::to_vec(&self.best).unwrap_or_default())
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), BoxError> {
        self.best = self.best.better_of(serde_json::from_slice(saved)?);
        Ok(())
    }
}

/// Computes the best local alignment of two sequences. Returns the alignment on all ranks, and the summary of the loop (times and moved rows) on rank
/// 0.
///
/// # Errors
/// Sequences whose score could exceed 32 bits, and the errors of the loop.
pub fn align(
    session: &mut Session,
    (first, second): (&[u8], &[u8]),
    scores: &Scores,
    gaps: Gaps,
    settings: Settings,
) -> Result<(Best, Option<Summary>), BoxError> {
    let most = first.len().min(second.len()) as i64 * i64::from(scores.best());
    if most > i64::from(i32::MAX) {
        let text = format!(
            "a score may be {most}, expected {} at most: the sequences are too long for these scores",
            i32::MAX
        );
        return Err(text.into());
    }
    let shape = Shape { rows: first.len() as u64, columns: second.len() };
    let pair = Pair { first, second, scores, gaps, best: Best::default() };
    let mut table = TableLoop::new("align", shape, pair).settings(settings);
    let summary = table.run(session)?.into_summary();
    Ok((session.all_reduce(table.body().best, Best::better_of)?, summary))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::serial;
    use armature::Config;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn scores_equal_serial_scores_for_any_rank_count(
            ranks in 1..6_usize, first in proptest::collection::vec(0..4_u8, 1..70),
            second in proptest::collection::vec(0..4_u8, 1..90),
            open in 0..6, extend in 0..3, panel in 1..100_u64, seed in any::<Option<u64>>()
        ) {
            let (scores, gaps) = (Scores::dna(2, -3), Gaps { open, extend });
            let settings = seed.into_iter().fold(Settings::new().panel_width(panel), Settings::forced);
            let found = armature::run(&Config::new().ranks(ranks), |session| {
                let (best, summary) = align(session, (&first, &second), &scores, gaps, settings.clone())?;
                assert_eq!(summary.is_some(), session.is_root());
                Ok(session.all_gather(best)?)
            });
            prop_assert_eq!(found.unwrap(), vec![serial(&first, &second, &scores, gaps); ranks]);
        }
    }

    #[test]
    fn scores_that_could_overflow_are_refused() {
        let (scores, gaps) = (Scores::dna(10_000, -1), Gaps { open: 1, extend: 1 });
        let long = vec![0; 214_749];
        let error = armature::run(&Config::new(), |session| {
            align(session, (&long, &long), &scores, gaps, Settings::new())?;
            Ok(())
        });
        assert!(error.unwrap_err().to_string().contains("a score may be 2147490000"));
    }
}
