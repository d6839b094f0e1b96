//! Boards with queens in the first rows, and the serial count of the solutions.

use serde::{Deserialize, Serialize};

/// Maximum number of rows of a board. Counting the solutions with one more row takes months.
pub const MAX_ROWS: u32 = 20;

/// Numbers of solutions of the n-queens problem on boards of 0, 1, 2 … rows (sequence A000170 of the On-Line Encyclopedia of Integer Sequences).
pub const KNOWN_COUNTS: [u64; MAX_ROWS as usize + 1] = [
    1,
    1,
    0,
    0,
    2,
    10,
    4,
    40,
    92,
    352,
    724,
    2_680,
    14_200,
    73_712,
    365_596,
    2_279_184,
    14_772_512,
    95_815_104,
    666_090_624,
    4_968_057_848,
    39_029_188_884,
];

/// Queens in the first rows of a board, none of which attacks another. `columns`, `falling` and `rising` are sets of columns with one bit per column:
/// the columns of the next row that a queen attacks along its column, and along its two diagonals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Board {
    size: u32,
    columns: u32,
    falling: u32,
    rising: u32,
}

impl Board {
    /// Returns an empty board of `size` rows, at most [`MAX_ROWS`].
    pub fn new(size: u32) -> Self {
        Board { size, columns: 0, falling: 0, rising: 0 }
    }

    /// Returns the number of rows without a queen.
    pub fn rows_left(&self) -> u32 {
        self.size - self.columns.count_ones()
    }

    /// Returns the boards with one more queen, one for each free place in the next row, from right to left.
    pub fn next(self) -> impl Iterator<Item = Board> {
        let all = (1 << self.size) - 1;
        let mut free = all & !(self.columns | self.falling | self.rising);
        std::iter::from_fn(move || {
            let place = free & free.wrapping_neg();
            free ^= place;
            (place != 0).then_some(Board {
                columns: self.columns | place,
                falling: (self.falling | place) >> 1,
                rising: (self.rising | place) << 1 & all,
                ..self
            })
        })
    }

    /// Returns the number of ways to place a queen in each remaining row without an attack.
    pub fn count(self) -> u64 {
        if self.rows_left() == 0 { 1 } else { self.next().map(Board::count).sum() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_boards_have_the_known_solution_counts() {
        for (size, known) in (1..).zip(&KNOWN_COUNTS[1..11]) {
            assert_eq!(Board::new(size).count(), *known, "{size} rows");
        }
    }

    #[test]
    fn placed_queen_excludes_attacked_squares() {
        let first: Vec<Board> = Board::new(4).next().collect();
        assert_eq!(first.iter().map(|board| board.next().count()).collect::<Vec<_>>(), [2, 1, 1, 2]);
        assert!(first.iter().all(|board| board.rows_left() == 3));
    }
}
