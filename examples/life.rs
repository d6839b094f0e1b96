//! The Game of Life on a torus: the first and the last row are neighbours, and the first and the last column, too. A
//! stencil with periodic rows: each rank has some rows of the board, and receives the rows above and below its own
//! from its neighbours.
//!
//! ```sh
//! mpirun -n 4 target/release/life
//! ```

use armature::loops::{OldGrid, Shape, Stencil, StencilLoop};
use armature::{BoxError, Session};

/// The initial board, of which each rank creates its own rows.
struct Life<F> {
    is_alive: F,
}

impl<F: Fn(u64, u64) -> bool + Send> Stencil for Life<F> {
    /// Value of a cell: 1 if the cell is alive, else 0.
    type Value = u8;

    fn row(&mut self, row: u64, cells: &mut [u8]) -> Result<(), BoxError> {
        (0..).zip(cells).for_each(|(column, cell)| *cell = u8::from((self.is_alive)(row, column)));
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, u8>, new: &mut [u8]) -> Result<(), BoxError> {
        next_rows(old.values, new, old.width);
        Ok(())
    }
}

/// Computes the rows `new` from the rows `old`, which include one more row above and one below.
fn next_rows(old: &[u8], new: &mut [u8], width: usize) {
    for (rows, new) in old.windows(3 * width).step_by(width).zip(new.chunks_exact_mut(width)) {
        for (column, new) in new.iter_mut().enumerate() {
            let columns = [(column + width - 1) % width, column, (column + 1) % width];
            let around: u8 = rows
                .chunks_exact(width)
                .map(|row| columns.map(|column| row[column]).iter().sum::<u8>())
                .sum();
            // `around` counts the living cells among the cell and its eight neighbours.
            *new = u8::from(around == 3 || around == 4 && rows[width + column] == 1);
        }
    }
}

fn main() -> std::process::ExitCode {
    armature::main(|session| {
        let shape = Shape { rows: 1_000, columns: 2_000 };
        if let Some(board) = live(session, shape, random(shape), 100)? {
            println!("{} cells are alive", board.iter().filter(|cell| **cell == 1).count());
        }
        Ok(())
    })
}

/// Returns the board after this number of generations, on rank 0.
pub(crate) fn live(
    session: &mut Session,
    shape: Shape,
    is_alive: impl Fn(u64, u64) -> bool + Send,
    generations: u64,
) -> Result<Option<Vec<u8>>, BoxError> {
    let mut life = StencilLoop::new("life", shape, Life { is_alive }).periodic();
    life.run(session, generations)?;
    Ok(life.collect(session)?)
}

fn random(shape: Shape) -> impl Fn(u64, u64) -> bool + Send + Copy {
    move |row, column| {
        let cell = row * shape.columns as u64 + column;
        ((cell + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33).is_multiple_of(3)
    }
}

#[cfg(test)]
mod tests {
    use armature::Config;

    use super::*;

    #[test]
    fn glider_returns_to_its_position_on_a_periodic_board() {
        let board = |text: &str| -> Vec<u8> {
            text.chars().filter(|cell| !cell.is_whitespace()).map(|cell| u8::from(cell == '#')).collect()
        };
        let glider = board(".#.... ..#... ###... ...... ...... ......");
        let shape = Shape { rows: 6, columns: 6 };
        for ranks in 1..=3 {
            let live = |generations| {
                let is_alive = |row: u64, column: u64| glider[(row * 6 + column) as usize] == 1;
                let config = Config::new().ranks(ranks);
                armature::run(&config, |session| live(session, shape, is_alive, generations))
                    .unwrap()
                    .unwrap()
            };
            // The glider moves by one row and one column in four generations.
            assert_eq!(live(4), board("...... ..#... ...#.. .###.. ...... ......"));
            assert_eq!(live(24), glider);
        }
    }

    #[test]
    fn board_equals_serial_board_on_1_to_3_ranks() {
        let shape = Shape { rows: 17, columns: 23 };
        let mut serial = Vec::new();
        for row in 0..17 {
            serial.extend((0..23).map(|column| u8::from(random(shape)(row, column))));
        }
        for _ in 0..20 {
            let old = [&serial[16 * 23..], &serial, &serial[..23]].concat();
            next_rows(&old, &mut serial, 23);
        }
        for ranks in 1..=3 {
            let config = Config::new().ranks(ranks);
            let board = armature::run(&config, |session| live(session, shape, random(shape), 20));
            assert_eq!(board.unwrap(), Some(serial.clone()));
        }
    }
}
