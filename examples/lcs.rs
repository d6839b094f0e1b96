//! The longest common subsequence of two texts, by dynamic programming. A DOACROSS loop: each value needs those above and to the
//! left of it.
//!
//! ```sh
//! mpirun -n 4 target/release/lcs README.md docs/farms.md
//! ```

use std::ops::Range;

use armature::loops::{DoAcross, DoAcrossLoop, Grid, Shape};
use armature::{BoxError, Config, Session};

/// `table[i][j]` is the length for the first `i` letters of `a` and the first `j` of `b`.
struct Table<'t> {
    a: &'t [u8],
    b: &'t [u8],
}

impl DoAcross for Table<'_> {
    type Value = u32;

    fn row(&mut self, _: u64, lengths: &mut [u32]) -> Result<(), BoxError> {
        lengths.fill(0);
        Ok(())
    }

    /// Fills some columns of some rows. The first row of `grid` is known already, the last one belongs to those below.
    fn sweep(&mut self, grid: Grid<'_, u32>, columns: Range<usize>) -> Result<(), BoxError> {
        let (lengths, width) = (grid.values, grid.width);
        for row in 1..lengths.len() / width - 1 {
            let letter = self.a[grid.first as usize + row - 1];
            for column in columns.clone() {
                let at = row * width + column;
                lengths[at] = if letter == self.b[column - 1] {
                    lengths[at - width - 1] + 1
                } else {
                    lengths[at - width].max(lengths[at - 1])
                };
            }
        }
        Ok(())
    }
}

fn main() -> armature::Result<()> {
    let (config, args) = Config::from_args()?;
    armature::run(&config, |session| {
        let [a, b] = &args[..] else { return Err("usage: lcs FILE FILE".into()) };
        let read = |file| std::fs::read(file).map_err(|error| format!("{file}: {error}"));
        if let Some(common) = lcs(session, &read(a)?, &read(b)?)? {
            println!("{}", String::from_utf8_lossy(&common));
        }
        Ok(())
    })
}

/// What both texts have in common, on rank 0.
fn lcs(session: &Session, a: &[u8], b: &[u8]) -> Result<Option<Vec<u8>>, BoxError> {
    // The edges of a grid are fixed: zeros above and to the left; what is below and to the right is not looked at.
    let shape = Shape { rows: a.len() as u64 + 2, columns: b.len() + 2 };
    let mut table = DoAcrossLoop::new("lcs", shape, Table { a, b });
    table.run(session, 1)?;
    // The way back through the table needs all of it on rank 0.
    Ok(table.collect(session)?.map(|lengths| trace_back(a, b, |i, j| lengths[i * shape.columns + j])))
}

/// The letters on the way back from the end of both texts.
fn trace_back(a: &[u8], b: &[u8], length: impl Fn(usize, usize) -> u32) -> Vec<u8> {
    let (mut i, mut j, mut common) = (a.len(), b.len(), Vec::new());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            common.push(a[i]);
        } else if length(i - 1, j) >= length(i, j - 1) {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    common.reverse();
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serial(a: &[u8], b: &[u8]) -> Vec<u8> {
        let mut lengths = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                lengths[i][j] = if a[i - 1] == b[j - 1] {
                    lengths[i - 1][j - 1] + 1
                } else {
                    lengths[i - 1][j].max(lengths[i][j - 1])
                };
            }
        }
        trace_back(a, b, |i, j| lengths[i][j])
    }

    #[test]
    fn is_that_of_the_serial_program() {
        let text = include_bytes!("../README.md");
        assert_eq!(serial(b"wavefront", b"weaver of nets"), b"waveront");
        for (a, b) in [(&text[..400], &text[200..700]), (b"a", b"a"), (b"wavefront", b"weaver of nets")] {
            let serial = serial(a, b);
            for ranks in 1..=3 {
                let common = armature::run(&Config::new().ranks(ranks), |session| lcs(session, a, b));
                assert_eq!(common.unwrap(), Some(serial.clone()));
            }
        }
    }
}
