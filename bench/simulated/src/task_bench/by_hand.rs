//! Grid of tasks by hand with MPI: each rank keeps its columns, and exchanges boundary values with its neighbours by non-blocking messages.
//!
//! Columns whose inputs are all on the rank are computed while the messages travel. Independent tasks need no messages.

use std::ops::Range;

use armature::mpi::collective::SystemOperation;
use armature::mpi::request::scope;
use armature::mpi::traits::*;

use super::{Grid, Kernel, add};

const TO_NEXT: i32 = 31;
const TO_PREVIOUS: i32 = 32;

/// Runs the grid on all ranks of `world`, and returns the checksum on rank 0.
///
/// # Panics
/// If a rank has fewer columns than a task depends on at each side.
pub fn run(world: &impl Communicator, grid: &Grid, kernel: impl Kernel) -> Option<u64> {
    let border = |rank: i32| grid.width * rank as usize / world.size() as usize;
    let columns = border(world.rank())..border(world.rank() + 1);
    let own_sum = match grid.pattern.reach() {
        0 => independent(grid, columns, kernel),
        _ => Columns::new(world, *grid, columns).run(kernel),
    };
    let (root, mut sum) = (world.process_at_rank(0), 0_u64);
    if world.rank() > 0 {
        root.reduce_into(&own_sum, SystemOperation::sum());
        return None;
    }
    root.reduce_into_root(&own_sum, &mut sum, SystemOperation::sum());
    Some(sum)
}

fn independent(grid: &Grid, columns: Range<usize>, kernel: impl Kernel) -> u64 {
    let mut sum = 0;
    for step in 0..grid.steps {
        for column in columns.clone() {
            let number = (step * grid.width + column) as u64;
            sum = add(sum, number, grid.task([number], kernel));
        }
    }
    sum
}

/// Columns of one rank before and after a step. `old` begins and ends with values of the neighbours, or with 0 at an edge of the grid.
struct Columns<'w, C: Communicator> {
    world: &'w C,
    grid: Grid,
    columns: Range<usize>,
    old: Vec<u64>,
    new: Vec<u64>,
}

impl<'w, C: Communicator> Columns<'w, C> {
    fn new(world: &'w C, grid: Grid, columns: Range<usize>) -> Self {
        let (reach, count) = (grid.pattern.reach(), columns.len());
        assert!(count >= reach, "{count} columns on a rank, expected at least {reach}");
        let mut old = vec![0; count + 2 * reach];
        columns.clone().zip(&mut old[reach..]).for_each(|(column, value)| *value = grid.initial(column));
        Columns { world, grid, columns, old, new: vec![0; count] }
    }

    fn run(mut self, kernel: impl Kernel) -> u64 {
        (0..self.grid.steps).for_each(|_| self.step(kernel));
        let values = self.columns.zip(&self.old[self.grid.pattern.reach()..]);
        values.fold(0, |sum, (column, value)| add(sum, column as u64, *value))
    }

    fn step(&mut self, kernel: impl Kernel) {
        let Columns { world, grid, old, new, .. } = self;
        let (reach, count) = (grid.pattern.reach(), new.len());
        let task = |inputs: &[u64]| grid.task(inputs.iter().copied(), kernel);
        let previous = (world.rank() > 0).then(|| world.process_at_rank(world.rank() - 1));
        let next = (world.rank() + 1 < world.size()).then(|| world.process_at_rank(world.rank() + 1));
        let (lower, rest) = old.split_at_mut(reach);
        let (own, upper) = rest.split_at_mut(count);
        let own = &*own;
        scope(|scope| {
            let requests = [
                previous.as_ref().map(|rank| rank.immediate_receive_into_with_tag(scope, lower, TO_NEXT)),
                next.as_ref().map(|rank| rank.immediate_receive_into_with_tag(scope, upper, TO_PREVIOUS)),
                previous.as_ref().map(|rank| rank.immediate_send_with_tag(scope, &own[..reach], TO_PREVIOUS)),
                next.as_ref().map(|rank| rank.immediate_send_with_tag(scope, &own[count - reach..], TO_NEXT)),
            ];
            for (new, inputs) in new[reach..].iter_mut().zip(own.windows(2 * reach + 1)) {
                *new = task(inputs);
            }
            requests.into_iter().flatten().for_each(|request| request.wait_without_status());
        });
        for column in (0..count).filter(|column| *column < reach || column + reach >= count) {
            new[column] = task(&old[column..=column + 2 * reach]);
        }
        old[reach..][..count].copy_from_slice(new);
    }
}
