//! A sweep in Gauss-Seidel order by hand: rows in blocks, strips of columns passed down the ranks.
//!
//! For a strip of a sweep a rank needs its upper neighbour's last row of the same sweep, and its lower neighbour's first row
//! of the sweep before. The latter goes up strip by strip as well, so that the upper rank begins the next sweep while the
//! lower ones are still at this one: the pipeline fills once, not once a sweep.

use std::ops::Range;

use mpi::{topology::SimpleCommunicator, traits::Communicator};

use super::slot::Slot;
use crate::loops::{job::Job, kernels};

const DOWN: i32 = 24;
const UP: i32 = 25;

/// The rows of one rank, with one more above and below.
pub(super) struct Sweep<'a> {
    world: &'a SimpleCommunicator,
    width: usize,
    grid: Vec<f64>,
    strips: Vec<Range<usize>>,
    /// To and from each neighbour, a message a strip; all of them may be under way at once.
    upper: Option<Border>,
    lower: Option<Border>,
}

/// Messages exchanged with one neighbour.
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
    pub(super) fn new(world: &'a SimpleCommunicator, job: &Job, mine: Range<usize>) -> Self {
        let (strips, rank) = (job.strips(), world.rank());
        let border = |exists: bool, rank: i32| exists.then(|| Border::new(rank, &strips));
        Sweep {
            world,
            width: job.size,
            grid: kernels::rows(mine.start - 1..mine.end + 1, job.size),
            upper: border(rank > 0, rank - 1),
            lower: border(rank + 1 < world.size(), rank + 1),
            strips,
        }
    }

    /// Its own rows.
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
                    // For the next sweep, or the next run, which begins where this one ends.
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
