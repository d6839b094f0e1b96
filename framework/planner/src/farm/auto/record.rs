//! What candidates came to in simulations of whole iterations, over the iterations.
//!
//! A few drawn rows of tasks tell two policies apart that differ by a tenth, not those that differ by a per cent. But
//! iterations are alike: where each draws other rows, and what came of all of them counts, the best of many candidates is
//! found in time, and not the one that the last few rows happened to suit.

use super::candidates::Candidate;
use super::synthetic::Likeness;

/// Tasks that differ by this part from those that the record was begun with are no longer alike.
const UNLIKE: f64 = 0.25;
/// Earlier rows count as so many at most, so that what changes slowly is followed.
const MOST_ROWS: f64 = 64.0;

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// The tasks, and how many for how many workers.
    of: Option<(Likeness, u64, u64)>,
    entries: Vec<Entry>,
    /// Rows that were drawn.
    rows: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    candidate: Candidate,
    /// Time by the least that a row could take, summed over the rows.
    total: f64,
    rows: f64,
}

impl Record {
    /// An iteration of `total` tasks like these begins on `workers` workers. Where the last ones were others, nothing is
    /// known.
    pub(super) fn begin(&mut self, likeness: &Likeness, total: u64, workers: u64) {
        let near = |a: f64, b: f64| (a - b).abs() <= UNLIKE * a.max(b);
        let is_alike = self.of.is_some_and(|(before, tasks, on)| {
            near(before.mean, likeness.mean)
                && near(before.deviation / before.mean, likeness.deviation / likeness.mean)
                && near(before.block, likeness.block)
                && near(tasks as f64, total as f64)
                && on == workers
        });
        if !is_alike {
            self.of = Some((*likeness, total, workers));
            self.entries.clear();
        }
    }

    /// The number of the next row to draw: none is drawn twice.
    pub(super) fn next_row(&mut self) -> u64 {
        self.rows += 1;
        self.rows - 1
    }

    /// In `rows` rows a candidate has taken `total` in all.
    pub(super) fn add(&mut self, candidate: Candidate, total: f64, rows: f64) {
        match self.entries.iter_mut().find(|entry| entry.candidate == candidate) {
            Some(entry) => {
                let kept = (MOST_ROWS / entry.rows).min(1.0);
                entry.total = kept * entry.total + total;
                entry.rows = kept * entry.rows + rows;
            }
            None => self.entries.push(Entry { candidate, total, rows }),
        }
    }

    /// What a row takes with a candidate, in the mean of all rows that count.
    pub(super) fn mean(&self, candidate: Candidate) -> Option<f64> {
        self.entries.iter().find(|entry| entry.candidate == candidate).map(|entry| entry.total / entry.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIKENESS: Likeness = Likeness { mean: 2.0, deviation: 1.0, block: 4.0 };

    #[test]
    fn rows_of_all_iterations_count_until_tasks_are_others() {
        let mut record = Record::default();
        record.begin(&LIKENESS, 1000, 8);
        record.add(Candidate::SAFE, 2.2, 2.0);
        record.begin(&Likeness { mean: 2.2, ..LIKENESS }, 1100, 8);
        record.add(Candidate::SAFE, 1.3, 1.0);
        assert!((record.mean(Candidate::SAFE).unwrap() - 3.5 / 3.0).abs() < 1e-12);
        assert_eq!(record.mean(Candidate::OfAll(0.1)), None);
        for (likeness, total, workers) in [
            (Likeness { mean: 4.0, ..LIKENESS }, 1000, 8),
            (Likeness { deviation: 2.0, ..LIKENESS }, 1000, 8),
            (Likeness { block: 9.0, ..LIKENESS }, 1000, 8),
            (LIKENESS, 2000, 8),
            (LIKENESS, 1000, 9),
        ] {
            let mut record = Record::default();
            record.begin(&LIKENESS, 1000, 8);
            record.add(Candidate::SAFE, 2.2, 2.0);
            record.begin(&likeness, total, workers);
            assert_eq!(record.mean(Candidate::SAFE), None, "{likeness:?}, {total} tasks, {workers} workers");
        }
    }

    #[test]
    fn old_rows_lose_weight_and_none_is_drawn_twice() {
        let mut record = Record::default();
        record.add(Candidate::SAFE, 2.0 * 640.0, 640.0);
        record.add(Candidate::SAFE, 64.0, 64.0);
        assert!((record.mean(Candidate::SAFE).unwrap() - 1.5).abs() < 1e-12);
        assert_eq!([record.next_row(), record.next_row()], [0, 1]);
    }
}
