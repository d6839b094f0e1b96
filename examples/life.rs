//! The Game of Life on a torus: the board has no edges, what leaves it on one side comes back on the other. A loop whose values all
//! ranks get: each rank has the whole board, and the ranks share out whose next row they make.
//!
//! ```sh
//! mpirun -n 4 target/release/life
//! ```

use armature::loops::map;
use armature::{BoxError, Config, Session};

type Board = Vec<Vec<bool>>;

fn main() -> armature::Result<()> {
    let (config, _rest) = Config::from_args()?;
    armature::run(&config, |session| {
        let board = live(session, random(1_000, 2_000), 100)?;
        if session.is_root() {
            println!("{} cells are alive", board.iter().flatten().filter(|cell| **cell).count());
        }
        Ok(())
    })
}

/// The board after this number of generations, on every rank.
fn live(session: &Session, mut board: Board, generations: u32) -> Result<Board, BoxError> {
    for _ in 0..generations {
        board = map(session, "generation", 0..board.len() as u64, |row| next_row(&board, row as usize))?;
    }
    Ok(board)
}

fn next_row(board: &[Vec<bool>], row: usize) -> Vec<bool> {
    let rows = [&board[(row + board.len() - 1) % board.len()], &board[row], &board[(row + 1) % board.len()]];
    let width = board[row].len();
    let next = |column: usize| {
        let columns = [(column + width - 1) % width, column, (column + 1) % width];
        let around =
            rows.iter().flat_map(|row| columns.map(|column| row[column])).filter(|cell| *cell).count();
        // The cell itself is among those that were counted.
        around == 3 || around == 4 && board[row][column]
    };
    (0..width).map(next).collect()
}

/// A board on which a third of the cells is alive, the same on all ranks.
fn random(rows: u64, columns: u64) -> Board {
    let cell = |n: u64| ((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33).is_multiple_of(3);
    (0..rows).map(|row| (0..columns).map(|column| cell(row * columns + column)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glider_comes_back_to_where_it_was() {
        let board = |text: &str| -> Board {
            text.split_whitespace().map(|row| row.chars().map(|cell| cell == '#').collect()).collect()
        };
        let glider = board(".#.... ..#... ###... ...... ...... ......");
        for ranks in 1..=3 {
            let live = |generations| {
                let config = Config::new().ranks(ranks);
                armature::run(&config, |session| live(session, glider.clone(), generations)).unwrap()
            };
            // It goes a row and a column in four generations.
            assert_eq!(live(4), board("...... ..#... ...#.. .###.. ...... ......"));
            assert_eq!(live(24), glider);
        }
    }

    #[test]
    fn is_the_board_of_the_serial_program() {
        let mut serial = random(17, 23);
        for _ in 0..20 {
            serial = (0..serial.len()).map(|row| next_row(&serial, row)).collect();
        }
        for ranks in 1..=3 {
            let board =
                armature::run(&Config::new().ranks(ranks), |session| live(session, random(17, 23), 20));
            assert_eq!(board.unwrap(), serial);
        }
    }
}
