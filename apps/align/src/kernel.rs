//! Recurrence (Smith-Waterman with affine gaps) for the values of the alignment table, and the serial program.

use crate::scores::{Gaps, Scores};
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

/// Number of arithmetic operations for one value of the alignment table. Simulated runs derive the computing time from this number.
pub const OPERATIONS: f64 = 9.0;

/// Value of the alignment table for one letter of each sequence: the best scores of the alignments that end at these two letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Cell {
    /// Best score of all alignments that end at the two letters of this value; 0 for the empty alignment.
    pub best: i32,
    /// Best score of the alignments that end at the two letters of this value with a gap in the first sequence.
    pub along: i32,
    /// Best score of the alignments that end at the two letters of this value with a gap in the second sequence.
    pub down: i32,
}

/// Score and end of an alignment. Of two alignments with equal scores, the better one ends earlier in the first sequence or, if both end there at the
/// same letter, earlier in the second. The default is the empty alignment, with score 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Best {
    /// Score of the alignment (sum of the letter scores minus the costs of the gaps).
    pub score: i32,
    /// Number of letters of the first sequence up to the end of the alignment.
    pub first_end: u64,
    /// Number of letters of the second sequence up to the end of the alignment.
    pub second_end: u64,
}

impl Best {
    /// Returns the better of two alignments.
    pub fn better_of(self, other: Best) -> Best {
        let key = |best: &Best| (std::cmp::Reverse(best.score), best.first_end, best.second_end);
        if key(&other) < key(&self) { other } else { self }
    }
}

/// Fills adjacent values of a row of the alignment table. `left` is the value before the first of them. `above` are the values of the previous row,
/// beginning one column further left. `scores` are the scores of the row's letter with every letter, and `letters` are the letters of the columns.
/// Returns the best score of the filled values and the index of its first occurrence.
#[inline]
pub fn fill(
    above: &[Cell],
    mut left: Cell,
    values: &mut [Cell],
    scores: &[i32],
    letters: &[u8],
    gaps: Gaps,
) -> (i32, usize) {
    let (mut best, mut at) = (0, 0);
    for (column, ((value, &letter), above)) in
        values.iter_mut().zip(letters).zip(above.windows(2)).enumerate()
    {
        let along = (left.best - gaps.open).max(left.along) - gaps.extend;
        let down = (above[1].best - gaps.open).max(above[1].down) - gaps.extend;
        let both = above[0].best + scores[usize::from(letter)];
        left = Cell { best: both.max(along).max(down).max(0), along, down };
        *value = left;
        if left.best > best {
            (best, at) = (left.best, column);
        }
    }
    (best, at)
}

/// Returns the best local alignment of two sequences, computed serially, row by row.
pub fn serial(first: &[u8], second: &[u8], scores: &Scores, gaps: Gaps) -> Best {
    let mut above = vec![Cell::default(); second.len() + 1];
    let mut row = above.clone();
    let mut all = Best::default();
    for (number, &letter) in (1..).zip(first) {
        let (best, at) = fill(&above, row[0], &mut row[1..], scores.row_of(letter), second, gaps);
        all =
            all.better_of(Best { score: best, first_end: number, second_end: at as u64 + 1 }.unless_empty());
        std::mem::swap(&mut above, &mut row);
    }
    all
}

impl Best {
    /// Returns this alignment, or the empty alignment if the score is not above 0.
    pub fn unless_empty(self) -> Best {
        if self.score > 0 { self } else { Best::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the score of the best local alignment that ends at each position, from the definition: every gap length is tried.
    fn by_definition(first: &[u8], second: &[u8], scores: &Scores, gaps: Gaps) -> Best {
        let width = second.len() + 1;
        let mut table = vec![0; (first.len() + 1) * width];
        let mut all = Best::default();
        for i in 1..=first.len() {
            for j in 1..=second.len() {
                let cost = |length: usize| gaps.open + length as i32 * gaps.extend;
                let both =
                    table[(i - 1) * width + j - 1] + scores.row_of(first[i - 1])[usize::from(second[j - 1])];
                let down = (1..=i).map(|k| table[(i - k) * width + j] - cost(k)).max().unwrap();
                let along = (1..=j).map(|k| table[i * width + j - k] - cost(k)).max().unwrap();
                let score = both.max(down).max(along).max(0);
                table[i * width + j] = score;
                if score > all.score {
                    all = Best { score, first_end: i as u64, second_end: j as u64 };
                }
            }
        }
        all
    }

    fn letters(text: &str, scores: &Scores) -> Vec<u8> {
        text.bytes().map(|byte| scores.letter(byte).unwrap()).collect()
    }

    #[test]
    fn known_alignments_have_their_scores() {
        // The first example is from Wikipedia's article on the Smith-Waterman algorithm: score 3 for equal letters, -3 for different letters, cost 2
        // for each letter of a gap.
        let dna = Scores::dna(3, -3);
        let serial = |a, b, gaps| serial(&letters(a, &dna), &letters(b, &dna), &dna, gaps);
        let linear = Gaps { open: 0, extend: 2 };
        assert_eq!(serial("TGTTACGG", "GGTTGACTA", linear), Best { score: 13, first_end: 6, second_end: 7 });
        assert_eq!(serial("AAAA", "CCCC", linear), Best::default());
        // The best alignment joins two runs of six equal letters by one gap of two letters, which costs 5 + 2 · 1.
        let affine = Gaps { open: 5, extend: 1 };
        assert_eq!(
            serial("ACGTCAGGTTCA", "ACGTCATTGGTTCA", affine),
            Best { score: 29, first_end: 12, second_end: 14 }
        );
        let proteins = Scores::blosum62();
        let (a, b) = (letters("HEAGAWGHEE", &proteins), letters("PAWHEAE", &proteins));
        let gaps = Gaps { open: 11, extend: 1 };
        let best = super::serial(&a, &b, &proteins, gaps);
        assert_eq!(best, by_definition(&a, &b, &proteins, gaps));
        assert_eq!(best.score, 17);
    }

    proptest! {
        #[test]
        fn score_equals_score_by_definition(
            first in proptest::collection::vec(0..4_u8, 0..25), second in proptest::collection::vec(0..4_u8, 0..25),
            alike in 1..6, unlike in -5..2, open in 0..7, extend in 0..4
        ) {
            let (scores, gaps) = (Scores::dna(alike, unlike), Gaps { open, extend });
            prop_assert_eq!(
                serial(&first, &second, &scores, gaps),
                by_definition(&first, &second, &scores, gaps)
            );
        }
    }
}
