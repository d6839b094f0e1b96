//! Computation of a strip of columns in bands: a few rows per call of user code, while the cache lines of the next rows are fetched from memory.

use std::ops::Range;

use bytemuck::Pod;
use prefetch_index::prefetch_index;

use super::local_rows::LocalRows;
use super::view::Grid;

/// Size in bytes of a *band*, the rows that user code computes per call: large enough to make the cost of the call negligible, and small enough that
/// the first-level cache also holds the cache lines of the next band, which are being fetched.
const BAND: usize = 1 << 10;
/// Number of bands of rows (one call of user code each) by which prefetches are ahead, so that the cache lines have arrived when they are used.
const AHEAD: usize = 2;
/// Width in bytes of a strip of columns from which on the processor's own prefetcher detects the access pattern, so that bands of rows are not
/// needed.
const WIDE: usize = 2 << 10;
/// Size in bytes of a rank's rows up to which they stay in a core's cache from sweep to sweep, so that computing in bands of rows is not needed.
const SMALL: usize = 128 << 10;
const LINE: usize = 64;

/// Calls `work` for all rows of the rank, to compute `columns`: once for all rows, or, if that is faster, in bands of a few rows from top to bottom,
/// while the next rows are prefetched.
///
/// The rows of a strip are far from each other in memory, and each has only a few values in the strip. The processor's own prefetcher does not fetch
/// the next row, so each row would begin with a wait for memory. It fetches values behind the strip instead, which are evicted before the next strip
/// needs them if the rank has many rows. The time per value would then grow with the number of rows of the rank, and each movement of rows would
/// gain less than predicted.
pub(super) fn in_bands<T: Pod, E>(
    local: &mut LocalRows<T>,
    columns: &Range<usize>,
    mut work: impl FnMut(Grid<'_, T>) -> Result<(), E>,
) -> Result<(), E> {
    let rows = local.len();
    let part = columns.len() * size_of::<T>();
    if part == 0 || part > WIDE || local.bytes() <= SMALL {
        return work(local.grid());
    }
    let band = BAND.div_ceil(part);
    for first in (0..rows).step_by(band) {
        // Prefetching ends with the lower halo row, which has the number `rows`.
        let ahead = |from: usize| (from + AHEAD * band).min(rows + 1);
        fetch(local, ahead(first)..ahead(first + band), columns);
        work(local.grid_of(&(first..(first + band).min(rows))))?;
    }
    Ok(())
}

/// Prefetches the cache lines of `columns` and of the column after them, in the rows `rows`.
fn fetch<T: Pod>(local: &LocalRows<T>, rows: Range<usize>, columns: &Range<usize>) {
    let step = (LINE / size_of::<T>()).max(1);
    for values in local.some(rows.start + 1..rows.end + 1).chunks_exact(local.width()) {
        columns.clone().step_by(step).for_each(|column| prefetch_index(values, column));
        prefetch_index(values, columns.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 300;

    fn local(rows: u64) -> LocalRows<u64> {
        LocalRows::create(WIDTH, 5..5 + rows, |row, values| {
            values.fill(row);
            Ok(())
        })
        .unwrap()
    }

    /// Returns the rows that each call of user code gets, including the row above and the row below. Checks
    /// that the rows have the right values.
    fn calls(rows: u64, columns: Range<usize>) -> Vec<Range<u64>> {
        let mut calls = Vec::new();
        in_bands(&mut local(rows), &columns, |grid| {
            let rows = grid.first..grid.first + grid.rows() as u64;
            let firsts: Vec<u64> = grid.values.iter().step_by(WIDTH).copied().collect();
            assert_eq!((grid.width, firsts), (WIDTH, rows.clone().collect()));
            calls.push(rows);
            Ok::<(), ()>(())
        })
        .unwrap();
        calls
    }

    #[test]
    fn bands_cover_all_rows_from_top_to_bottom() {
        for (rows, width, band) in [(100, 16, 8), (101, 16, 8), (99, 10, 13), (77, 128, 1), (60, 256, 1)] {
            let calls = calls(rows, 1..1 + width);
            assert_eq!(calls.len() as u64, rows.div_ceil(band), "{width} columns");
            let mut next = 5;
            for call in calls {
                assert_eq!(call.start + 1, next);
                next = call.end - 1;
                assert!(next <= call.start + 1 + band);
            }
            assert_eq!(next, 5 + rows);
        }
    }

    #[test]
    fn small_blocks_and_wide_strips_are_single_bands() {
        assert_eq!(calls(50, 1..17), [Range { start: 4, end: 56 }], "fits into a cache");
        assert_eq!(calls(100, 1..258), [Range { start: 4, end: 106 }], "a long part of a row");
        assert_eq!(calls(100, 7..7), [Range { start: 4, end: 106 }], "nothing to do");
    }

    #[test]
    fn first_error_ends_the_strip() {
        let mut calls = 0;
        let result = in_bands(&mut local(100), &(1..17), |grid| {
            calls += 1;
            if grid.first == 20 { Err("here") } else { Ok(()) }
        });
        assert_eq!((result, calls), (Err("here"), 3));
    }
}
