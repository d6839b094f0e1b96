//! Sweep in Gauss-Seidel order, written by hand with MPI: each rank has a block of rows, and the ranks compute strips of columns as a wavefront.
//!
//! For a strip of a sweep, a rank needs the last row of its upper neighbour from the same sweep and the first row of its lower neighbour from the
//! previous sweep. A rank sends its first row to the rank above after each strip. The rank above then begins the next sweep while lower ranks still
//! compute the current one: the wavefront starts once per run, not once per sweep.

use std::ops::Range;

use mpi::{topology::SimpleCommunicator, traits::Communicator};

use super::slot::Slot;
use crate::loops::{job::Job, kernels};

const DOWN: i32 = 24;
const UP: i32 = 25;

/// Sweep on one rank: its rows, with one halo row above and one below.
pub(super) struct Sweep<'a> {
    world: &'a SimpleCommunicator,
    width: usize,
    grid: Vec<f64>,
    strips: Vec<Range<usize>>,
    /// Messages to and from the rank above, one per strip of columns; all may be in flight at once.
    upper: Option<Border>,
    lower: Option<Border>,
}

struct Border {
    rank: i32,
    out: Vec<Slot<f64>>,
    back: Vec<Slot<f64>>,
}

impl Border {
    fn new(rank: i32, strips: &[Range<usize>]) -> Self {
        let slots = || strips.iter().map(|strip| Slot::new(strip.len())).collect();
        Border { rank, out: slots(), back: slots() }
    }
}

impl<'a> Sweep<'a> {
    pub(super) fn new(world: &'a SimpleCommunicator, job: &Job, own_rows: Range<usize>) -> Self {
        let (strips, rank) = (job.strips(), world.rank());
        let border = |exists: bool, rank: i32| exists.then(|| Border::new(rank, &strips));
        Sweep {
            world,
            width: job.size,
            grid: kernels::rows(own_rows.start - 1..own_rows.end + 1, job.size),
            upper: border(rank > 0, rank - 1),
            lower: border(rank + 1 < world.size(), rank + 1),
            strips,
        }
    }

    pub(super) fn rows(&self) -> &[f64] {
        &self.grid[self.width..self.grid.len() - self.width]
    }

    pub(super) fn run(&mut self, sweeps: usize) {
        let Sweep { world, width, ref mut grid, ref strips, ref mut upper, ref mut lower } = *self;
        let (first, last) = (width, grid.len() - 2 * width);
        let below = last + width;
        if sweeps == 0 {
            return;
        }
        if let Some(upper) = upper {
            upper.back.iter_mut().for_each(|slot| slot.receive(world, upper.rank, DOWN));
        }
        for sweep in 0..sweeps {
            let is_last = sweep + 1 == sweeps;
            for (at, strip) in strips.iter().enumerate() {
                let place = |row: usize| row + strip.start..row + strip.end;
                if let Some(upper) = upper {
                    grid[place(0)].copy_from_slice(upper.back[at].wait());
                    if !is_last {
                        upper.back[at].receive(world, upper.rank, DOWN);
                    }
                }
                if let Some(lower) = lower {
                    if sweep > 0 {
                        grid[place(below)].copy_from_slice(lower.back[at].wait());
                    }
                    // The first row of the rank below is needed in the next sweep, or in the next call of this function, which continues the sweeps.
                    lower.back[at].receive(world, lower.rank, UP);
                }
                kernels::relax(grid, width, strip.clone());
                if let Some(upper) = upper {
                    upper.out[at].wait().copy_from_slice(&grid[place(first)]);
                    upper.out[at].send(world, upper.rank, UP);
                }
                if let Some(lower) = lower {
                    lower.out[at].wait().copy_from_slice(&grid[place(last)]);
                    lower.out[at].send(world, lower.rank, DOWN);
                }
            }
        }
        if let Some(lower) = lower {
            for (slot, strip) in lower.back.iter_mut().zip(strips) {
                grid[below + strip.start..below + strip.end].copy_from_slice(slot.wait());
            }
        }
    }
}
