//! Longest common subsequence of two texts by dynamic programming. Ranks fill a table in parallel: each value depends
//! on the values above and to the left of it.
//!
//! ```sh
//! mpirun -n 4 target/release/lcs README.md docs/farms.md
//! ```

use armature::loops::{Cells, Line, Shape, Table, TableLoop};
use armature::{BoxError, Config, Session};

/// Table in which a value is the length of the longest common subsequence of the letters of `a` up to its row and of
/// `b` up to its column. Above and to the left of the table are zeros.
struct Lengths<'t> {
    a: &'t [u8],
    b: &'t [u8],
}

impl Table for Lengths<'_> {
    type Value = u32;

    fn fill(&mut self, mut cells: Cells<'_, u32>) -> Result<(), BoxError> {
        let columns = cells.columns();
        let b = &self.b[columns.start as usize..columns.end as usize];
        for row in cells.rows() {
            let letter = self.a[row as usize];
            let Line { above, mut left, values } = cells.line(row);
            for ((length, other), above) in values.iter_mut().zip(b).zip(above.windows(2)) {
                left = if letter == *other { above[0] + 1 } else { above[1].max(left) };
                *length = left;
            }
        }
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    armature::exit_code(run())
}

fn run() -> armature::Result<()> {
    let (config, args) = Config::from_args_and_rest()?;
    armature::run(&config, |session| {
        let [a, b] = &args[..] else { return Err("usage: lcs FILE FILE".into()) };
        let read = |file| std::fs::read(file).map_err(|error| format!("{file}: {error}"));
        if let Some(common) = lcs(session, &read(a)?, &read(b)?)? {
            println!("{}", String::from_utf8_lossy(&common));
        }
        Ok(())
    })
}

/// Returns the longest common subsequence on rank 0, and `None` on other ranks.
pub(crate) fn lcs(session: &mut Session, a: &[u8], b: &[u8]) -> Result<Option<Vec<u8>>, BoxError> {
    let shape = Shape { rows: a.len() as u64, columns: b.len() };
    // `trace_back` needs the whole table on rank 0, so ranks keep all columns of their rows.
    let columns = (b.len() as u64).max(1);
    let mut table = TableLoop::new("lcs", shape, Lengths { a, b }).panel_width(columns);
    table.run(session)?;
    let Some(lengths) = table.collect(session)? else { return Ok(None) };
    Ok(Some(trace_back(a, b, |i, j| match (i, j) {
        (0, _) | (_, 0) => 0,
        _ => lengths[(i - 1) * b.len() + j - 1],
    })))
}

/// Returns the longest common subsequence, found by a walk through the table from the ends of both texts to their
/// beginnings. `length(i, j)` is the length for the first `i` letters of `a` and the first `j` letters of `b`.
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
    fn lcs_equals_serial_lcs_on_1_to_3_ranks() {
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
