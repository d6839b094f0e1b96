//! Grids of tasks as in Task Bench (Slaughter et al., SC 2020), and programs that run them.
//!
//! A grid has columns and time steps. A task computes the value of a column at a step: it combines values of the previous step, and runs a kernel,
//! whose length depends on the pattern. Columns outside the grid have the value 0. A sum over values checks that every program computes the same.
//!
//! - [`search`]: search for METG, the smallest task length at which a program is still half efficient
//! - [`skeletons`]: grids as a farm, a stencil loop, and a workflow of closures
//! - [`by_hand`]: grids by hand with MPI

pub mod by_hand;
pub mod job;
pub mod search;
pub mod skeletons;

use std::{fmt, str::FromStr};

use crate::RunResult;

/// Dependences of the tasks and distribution of their lengths, with the names of Task Bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// No dependences.
    Trivial,
    /// A task depends on its column and the two neighbouring columns in the previous step.
    Stencil,
    /// A task depends on five columns in the previous step: its own, and two on each side.
    Nearest,
    /// The dependences of [`Stencil`](Pattern::Stencil); the length of each task is uniformly distributed from 0 to twice the mean.
    Imbalanced,
}

impl Pattern {
    const ALL: [Pattern; 4] = [Pattern::Trivial, Pattern::Stencil, Pattern::Nearest, Pattern::Imbalanced];

    /// Returns the number of columns on each side on which a task depends.
    pub fn reach(self) -> usize {
        match self {
            Pattern::Trivial => 0,
            Pattern::Stencil | Pattern::Imbalanced => 1,
            Pattern::Nearest => 2,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pattern::Trivial => "trivial",
            Pattern::Stencil => "stencil_1d",
            Pattern::Nearest => "nearest",
            Pattern::Imbalanced => "imbalanced",
        })
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Pattern::ALL.into_iter().find(|pattern| pattern.to_string() == name);
        found.ok_or_else(|| format!("there is no pattern {name}"))
    }
}

/// Kernel of a task: computes a value from an input with the given length, in steps of the kernel.
pub trait Kernel: Fn(u64, u64) -> u64 + Copy + Send + Sync + 'static {}

impl<K: Fn(u64, u64) -> u64 + Copy + Send + Sync + 'static> Kernel for K {}

/// Grid of tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Dependences and lengths of the tasks.
    pub pattern: Pattern,
    /// Number of columns.
    pub width: usize,
    /// Number of time steps.
    pub steps: usize,
    /// Mean length of a task in steps of the kernel.
    pub mean: u64,
}

/// Result of a serial run of a grid, without computing the kernel step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serial {
    /// Sum over the values of the last step, or over all values if the tasks are independent.
    pub checksum: u64,
    /// Total length of all tasks in steps of the kernel.
    pub work: u64,
}

/// Measured run of a grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Time of the run.
    pub seconds: f64,
    /// Checksum of the run; `None` on ranks other than rank 0.
    pub checksum: Option<u64>,
}

impl Grid {
    /// Returns the number of tasks.
    pub fn tasks(&self) -> u64 {
        self.width as u64 * self.steps as u64
    }

    /// Returns the value of a column before the first step.
    pub fn initial(&self, column: usize) -> u64 {
        if column < self.width { scramble(column as u64 + 1) } else { 0 }
    }

    /// Computes the value of a task from the values on which it depends, in the order of their columns. An independent task has its number as its
    /// only input.
    pub fn task(&self, inputs: impl IntoIterator<Item = u64>, kernel: impl FnOnce(u64, u64) -> u64) -> u64 {
        let input = inputs.into_iter().fold(0_u64, |all, input| all.rotate_left(5) ^ input);
        kernel(input, self.length(input))
    }

    /// Returns the length of a task with this input in steps of the kernel.
    pub fn length(&self, input: u64) -> u64 {
        match self.pattern {
            Pattern::Imbalanced => {
                let uniform = scramble(input) as f64 / u64::MAX as f64;
                (2.0 * self.mean as f64 * uniform) as u64
            }
            Pattern::Trivial | Pattern::Stencil | Pattern::Nearest => self.mean,
        }
    }

    /// Runs the grid serially. `kernel` may compute its result without the individual steps.
    pub fn serial(&self, kernel: impl Fn(u64, u64) -> u64) -> Serial {
        let (reach, mut work, mut checksum) = (self.pattern.reach(), 0, 0);
        let mut counted = |input, length| {
            work += length;
            kernel(input, length)
        };
        if reach == 0 {
            for number in 0..self.tasks() {
                checksum = add(checksum, number, self.task([number], &mut counted));
            }
            return Serial { checksum, work };
        }
        // The values begin and end with those of the columns outside the grid.
        let mut old = vec![0; self.width + 2 * reach];
        (0..self.width).for_each(|column| old[reach + column] = self.initial(column));
        for _ in 0..self.steps {
            let new: Vec<u64> = old
                .windows(2 * reach + 1)
                .map(|inputs| self.task(inputs.iter().copied(), &mut counted))
                .collect();
            old[reach..][..self.width].copy_from_slice(&new);
        }
        let values = (0..).zip(&old[reach..][..self.width]);
        Serial { checksum: values.fold(0, |sum, (column, value)| add(sum, column, *value)), work }
    }

    /// Returns the efficiency of a run on rank 0, the length of all tasks divided by the time of all ranks, after a comparison of its checksum with
    /// the serial one. The kernel computes `per_second` steps in a second.
    ///
    /// # Errors
    /// If the checksum differs.
    pub fn efficiency(
        &self,
        trial: Trial,
        ranks: usize,
        per_second: f64,
        direct: impl Fn(u64, u64) -> u64,
    ) -> RunResult<f64> {
        let Serial { checksum, work } = self.serial(direct);
        match trial.checksum {
            Some(sum) if sum == checksum => Ok(work as f64 / per_second / (ranks as f64 * trial.seconds)),
            sum => Err(format!("the result of {self:?} is wrong: {sum:x?} instead of {checksum:x}").into()),
        }
    }
}

/// Adds the value at a position, a column or the number of a task, to a checksum. The order of the additions does not matter.
pub fn add(checksum: u64, position: u64, value: u64) -> u64 {
    checksum.wrapping_add(scramble(value ^ position))
}

/// Mixes the bits of a number (finaliser of SplitMix64).
fn scramble(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imbalanced_lengths_have_the_mean_and_a_wide_range() {
        let grid = Grid { pattern: Pattern::Imbalanced, width: 100, steps: 100, mean: 1_000 };
        let lengths: Vec<u64> = (0..10_000).map(|input| grid.length(scramble(input))).collect();
        let mean = lengths.iter().sum::<u64>() as f64 / 1e4;
        assert!((980.0..1_020.0).contains(&mean), "{mean}");
        assert!(lengths.iter().any(|&length| length < 20) && lengths.iter().any(|&length| length > 1_980));
        assert!((grid.serial(|input, _| input).work as f64 / 1e7 - 1.0).abs() < 0.05);
    }

    #[test]
    fn values_depend_on_neighbours_within_reach() {
        let checksum = |pattern, steps| Grid { pattern, width: 9, steps, mean: 1 }.serial(u64::wrapping_add);
        assert_eq!(checksum(Pattern::Nearest, 3).work, 27);
        assert_ne!(checksum(Pattern::Stencil, 3).checksum, checksum(Pattern::Nearest, 3).checksum);
        assert_ne!(checksum(Pattern::Stencil, 3).checksum, checksum(Pattern::Stencil, 4).checksum);
    }

    #[test]
    fn wrong_checksum_is_an_error() {
        let grid = Grid { pattern: Pattern::Stencil, width: 4, steps: 2, mean: 10 };
        let right = grid.serial(u64::wrapping_add).checksum;
        let of =
            |checksum| grid.efficiency(Trial { seconds: 0.5, checksum }, 2, 100.0, u64::wrapping_add).ok();
        assert_eq!([of(Some(right)), of(Some(right ^ 1)), of(None)], [Some(0.8), None, None]);
    }
}
