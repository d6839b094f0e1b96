//! The recurrence, and the serial program.

use crate::scores::{Gaps, Scores};
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

/// Operations that a value takes, for runs in which computing takes no time by itself.
pub const OPERATIONS: f64 = 9.0;

/// A value of the table: of the alignments that end with a letter of each sequence at this place, the best score …
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Cell {
    /// … of all, 0 for the empty one, …
    pub best: i32,
    /// … of those that end with a gap in the first sequence, …
    pub along: i32,
    /// … and with a gap in the second.
    pub down: i32,
}

/// An alignment: its score, and how many letters of each sequence come before its end. The first of the best ones, by the end in
/// the first sequence and then in the second; none if no score is above 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Best {
    /// The score.
    pub score: i32,
    /// Letters up to its end in the first sequence.
    pub first_end: u64,
    /// The same in the second.
    pub second_end: u64,
}

impl Best {
    /// The better one.
    pub fn or(self, other: Best) -> Best {
        let key = |best: &Best| (std::cmp::Reverse(best.score), best.first_end, best.second_end);
        if key(&other) < key(&self) { other } else { self }
    }
}

/// Fills values of a row from those above, of which there is one more, and that to the left. `scores` are those of the row's letter
/// beside each letter, `letters` those of the columns. Returns the best score of these and the first place of it.
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

/// The best local alignment, row by row.
pub fn serial(first: &[u8], second: &[u8], scores: &Scores, gaps: Gaps) -> Best {
    let mut above = vec![Cell::default(); second.len() + 1];
    let mut row = above.clone();
    let mut all = Best::default();
    for (number, &letter) in (1..).zip(first) {
        let (best, at) = fill(&above, row[0], &mut row[1..], scores.of(letter), second, gaps);
        all = all.or(Best { score: best, first_end: number, second_end: at as u64 + 1 }.unless_empty());
        std::mem::swap(&mut above, &mut row);
    }
    all
}

impl Best {
    /// This, or the empty alignment, which ends nowhere, if it is no better.
    pub fn unless_empty(self) -> Best {
        if self.score > 0 { self } else { Best::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The score of the best local alignment that ends at each place, by its definition: with gaps of each length.
    fn by_definition(first: &[u8], second: &[u8], scores: &Scores, gaps: Gaps) -> Best {
        let width = second.len() + 1;
        let mut table = vec![0; (first.len() + 1) * width];
        let mut all = Best::default();
        for i in 1..=first.len() {
            for j in 1..=second.len() {
                let cost = |length: usize| gaps.open + length as i32 * gaps.extend;
                let both =
                    table[(i - 1) * width + j - 1] + scores.of(first[i - 1])[usize::from(second[j - 1])];
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
        // The example of Smith and Waterman's method in Wikipedia: 3 for letters that are alike, -3 for others, 2 for each letter of a gap.
        let dna = Scores::dna(3, -3);
        let serial = |a, b, gaps| serial(&letters(a, &dna), &letters(b, &dna), &dna, gaps);
        let linear = Gaps { open: 0, extend: 2 };
        assert_eq!(serial("TGTTACGG", "GGTTGACTA", linear), Best { score: 13, first_end: 6, second_end: 7 });
        assert_eq!(serial("AAAA", "CCCC", linear), Best::default());
        // One gap of two letters costs 5 + 2 · 1, and joins six letters and six.
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
        fn is_what_the_definition_says(
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
