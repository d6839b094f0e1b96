//! Parallel loops written by hand with MPI: every rank keeps its rows for the whole run (no load balancing).
//!
//! - *Matrix product*: the rows of A and C are distributed over the ranks and every rank holds B; ranks do not synchronize between passes.
//! - *Sweep*: each rank computes its rows in strips of columns and waits for each strip of the rank above.
//! - *Heat*: ranks exchange border rows in each step and compute their inner rows during the exchange.

use std::{ops::Range, time::Instant};

use mpi::{
    collective::CommunicatorCollectives,
    point_to_point::{Destination, Source},
    topology::SimpleCommunicator,
    traits::Communicator,
};

use super::{slot::Slot, sweep::Sweep};
use crate::{
    RunResult,
    burner::pin_rank,
    loops::{
        job::{Job, Kernel},
        kernels,
    },
};

const ROWS: i32 = 21;
const TO_UPPER: i32 = 22;
const TO_LOWER: i32 = 23;
/// First row of the right factor B in an unbounded matrix of generated elements. The left factor A begins in row 0 of the same matrix.
const SECOND_MATRIX_ROW: usize = 1 << 30;

/// Runs a rank of a hand-written loop; prints `result seconds S` on rank 0.
///
/// # Errors
/// If the arguments are wrong, a rank has no rows, or the result is wrong.
pub fn main(arguments: &[String]) -> RunResult {
    let job = Job::parse(arguments)?;
    pin_rank(&job.cores)?;
    let universe = mpi::initialize().ok_or("MPI could not be started")?;
    let world = universe.world();
    let units = match job.kernel {
        Kernel::Matmul => 0..job.size,
        Kernel::Sor | Kernel::Heat => 1..job.size - 1,
    };
    let ranks = world.size() as usize;
    let rows_of = |rank: usize| share(units.clone(), job.split, rank, ranks);
    // Every rank checks the rows of all ranks, so that all ranks fail together and no rank waits for one that has exited.
    if let Some(rank) = (0..ranks).find(|&rank| rows_of(rank).is_empty()) {
        return Err(format!("rank {rank} has none of {units:?}").into());
    }
    let own_rows = rows_of(world.rank() as usize);
    let width = job.size;
    let (seconds, rows) = match job.kernel {
        Kernel::Matmul => {
            let a = kernels::rows(own_rows.clone(), width);
            let b = second(width);
            let mut c = vec![0.0; a.len()];
            let seconds = timed(&world, &job, |passes| {
                for _ in 0..passes {
                    kernels::multiply(&a, &b, &mut c);
                }
            });
            (seconds, c)
        }
        Kernel::Sor => {
            let mut sweep = Sweep::new(&world, &job, own_rows.clone());
            let seconds = timed(&world, &job, |passes| sweep.run(passes));
            (seconds, sweep.rows().to_vec())
        }
        Kernel::Heat => {
            let mut heat = Heat::new(&world, own_rows.clone(), width);
            let seconds = timed(&world, &job, |passes| (0..passes).for_each(|_| heat.step()));
            (seconds, heat.old[width..][..own_rows.len() * width].to_vec())
        }
    };
    if job.verify {
        verify(&world, &job, &rows, units)?;
    }
    if world.rank() == 0 {
        println!("result seconds {seconds}");
    }
    Ok(())
}

/// Returns the rows of one rank. With two ranks, rank 0 has the fraction `split` of the rows. Otherwise all ranks have equal shares; if the rows
/// cannot be divided evenly, each of the first ranks has one row more.
fn share(units: Range<usize>, split: f64, rank: usize, ranks: usize) -> Range<usize> {
    let at = |border: usize| match (ranks, border) {
        (2, 1) => (units.len() as f64 * split).round() as usize,
        _ => border * (units.len() / ranks) + border.min(units.len() % ranks),
    };
    units.start + at(rank)..units.start + at(rank + 1)
}

/// Runs the warm-up passes over the rows, and returns the seconds of the measured passes after them.
fn timed(world: &SimpleCommunicator, job: &Job, mut run: impl FnMut(usize)) -> f64 {
    run(job.settle);
    // The barrier establishes the connections of MPI before the measurement.
    world.barrier();
    let start = Instant::now();
    run(job.passes);
    world.barrier();
    start.elapsed().as_secs_f64()
}

fn verify(world: &SimpleCommunicator, job: &Job, rows: &[f64], units: Range<usize>) -> RunResult {
    let (width, ranks) = (job.size, world.size());
    if world.rank() > 0 {
        world.process_at_rank(0).send_with_tag(rows, ROWS);
        return Ok(());
    }
    let mut all = rows.to_vec();
    for rank in 1..ranks {
        let count = share(units.clone(), job.split, rank as usize, ranks as usize).len() * width;
        let start = all.len();
        all.resize(start + count, 0.0);
        world.process_at_rank(rank).receive_into_with_tag(&mut all[start..], ROWS);
    }
    if all == serial(job) { Ok(()) } else { Err(format!("the result of {job:?} is wrong").into()) }
}

pub(crate) fn second(width: usize) -> kernels::Factor {
    kernels::Factor::new(&kernels::rows(SECOND_MATRIX_ROW..SECOND_MATRIX_ROW + width, width), width)
}

pub(crate) fn serial(job: &Job) -> Vec<f64> {
    let (width, passes) = (job.size, job.settle + job.passes);
    if job.kernel == Kernel::Matmul {
        let (a, b) = (kernels::rows(0..width, width), second(width));
        let mut c = vec![0.0; a.len()];
        kernels::multiply(&a, &b, &mut c);
        return c;
    }
    let mut grid = kernels::rows(0..width, width);
    for _ in 0..passes {
        if job.kernel == Kernel::Sor {
            kernels::relax(&mut grid, width, 1..width - 1);
        } else {
            let old = grid.clone();
            kernels::step(&old, &mut grid[width..(width - 1) * width], width);
        }
    }
    grid[width..(width - 1) * width].to_vec()
}

/// Heat loop on one rank: its rows before and after a step, with a halo row (of the neighbouring rank or the grid's edge) above and below.
struct Heat<'a> {
    world: &'a SimpleCommunicator,
    width: usize,
    old: Vec<f64>,
    new: Vec<f64>,
    /// For each side, the neighbour's rank, the tag of messages to the neighbour, and the tag of messages from the neighbour.
    sides: [Option<(i32, i32, i32)>; 2],
    sent: [Slot<f64>; 2],
    received: [Slot<f64>; 2],
}

impl<'a> Heat<'a> {
    fn new(world: &'a SimpleCommunicator, own_rows: Range<usize>, width: usize) -> Self {
        let old = kernels::rows(own_rows.start - 1..own_rows.end + 1, width);
        let (rank, ranks) = (world.rank(), world.size());
        let upper = (rank > 0).then(|| (rank - 1, TO_UPPER, TO_LOWER));
        let lower = (rank + 1 < ranks).then(|| (rank + 1, TO_LOWER, TO_UPPER));
        let slots = || [Slot::new(width), Slot::new(width)];
        Heat { world, width, new: old.clone(), old, sides: [upper, lower], sent: slots(), received: slots() }
    }

    fn step(&mut self) {
        let (width, last) = (self.width, self.old.len() / self.width - 2);
        let (own, halo_rows) = ([1, last], [0, last + 1]);
        for (side, (sent, received)) in self.sides.iter().zip(self.sent.iter_mut().zip(&mut self.received)) {
            if let Some((neighbour, to, from)) = *side {
                received.receive(self.world, neighbour, from);
                let row = if to == TO_UPPER { own[0] } else { own[1] };
                sent.wait().copy_from_slice(&self.old[row * width..][..width]);
                sent.send(self.world, neighbour, to);
            }
        }
        self.compute(2..last);
        for (at, (side, received)) in self.sides.iter().zip(&mut self.received).enumerate() {
            if side.is_some() {
                self.old[halo_rows[at] * width..][..width].copy_from_slice(received.wait());
            }
        }
        self.compute(1..2);
        if last > 1 {
            self.compute(last..last + 1);
        }
        std::mem::swap(&mut self.old, &mut self.new);
    }

    fn compute(&mut self, rows: Range<usize>) {
        if rows.is_empty() {
            return;
        }
        let (width, Range { start, end }) = (self.width, rows);
        kernels::step(
            &self.old[(start - 1) * width..(end + 1) * width],
            &mut self.new[start * width..end * width],
            width,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_all_rows() {
        assert_eq!([0, 1].map(|rank| share(1..11, 0.3, rank, 2)), [1..4, 4..11]);
        assert_eq!([0, 1, 2].map(|rank| share(0..8, 0.3, rank, 3)), [0..3, 3..6, 6..8]);
        assert_eq!(share(1..9, 0.7, 0, 1), 1..9);
    }
}
