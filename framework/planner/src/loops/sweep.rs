//! The grain of a pipelined (DOACROSS) loop: how many iterations a rank does between two messages.

use serde::{Deserialize, Serialize};

use super::{invalid, round_half_up};
use crate::error::Result;
use crate::range::{self, AMOUNT};

/// What it costs to pass values to the next rank: `fixed + per_element × elements`, (8).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShiftCost {
    /// Seconds of a shift without elements.
    pub fixed: f64,
    /// Seconds for an element.
    pub per_element: f64,
}

impl ShiftCost {
    /// From the time `empty` (s) of a shift without elements and the time `full` (s) of one with `elements`. Clocks
    /// are forgiven a full one that is not longer.
    pub fn measured(empty: f64, elements: u64, full: f64) -> Self {
        let per_element = if elements > 0 { ((full - empty) / elements as f64).max(0.0) } else { 0.0 };
        ShiftCost { fixed: empty, per_element }
    }

    /// Seconds of a shift of `elements` elements.
    pub fn time(&self, elements: f64) -> f64 {
        self.fixed + self.per_element * elements
    }
}

/// One sweep of a pipelined loop. Each rank holds a part of the distributed loop, and does all iterations of the
/// *pipelined* loop on it, in blocks; after a block it passes its border, an element for an iteration, to the next
/// rank, which can then do that block.
///
/// Many blocks fill the pipeline fast, few cost few messages. The optimum is flat: a factor of two in the size of blocks
/// costs little.
///
/// ```
/// use armature_planner::loops::{ShiftCost, Sweep};
///
/// let shift = ShiftCost { fixed: 0.005, per_element: 2e-6 };
/// let sweep = Sweep { ranks: 8, iterations: 1000, sequential: 60.0, shift };
/// sweep.validate()?;
/// let grain = sweep.grain();
/// assert_eq!((grain.block, grain.blocks), (10, 100));
/// // 7.5 s would be ideal; one block each time would take 60 s.
/// assert!((grain.time - 8.557).abs() < 1e-3);
/// assert!(sweep.time(1.0) > 60.0);
/// // Blocks of twice and of half the size are 4 % slower at most.
/// assert!(sweep.time(50.0).max(sweep.time(200.0)) < 1.04 * grain.time);
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Ranks in the pipeline, P.
    pub ranks: usize,
    /// Iterations of the pipelined loop, m.
    pub iterations: u64,
    /// Seconds of the sweep on one rank, t_seq. With parts that take unequally long it is P times the longest, see
    /// [`of_iteration`](Sweep::of_iteration).
    pub sequential: f64,
    /// What a message to the next rank costs.
    pub shift: ShiftCost,
}

/// Blocks of a pipelined loop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grain {
    /// Iterations in a block, b; the last block may have fewer.
    pub block: u64,
    /// Number of blocks, M.
    pub blocks: u64,
    /// Seconds of the sweep by the model (9).
    pub time: f64,
}

impl Sweep {
    /// A sweep by the time of an iteration of the pipelined loop (s) on the rank that takes longest for its part, see
    /// [`iteration_time`]; (5).
    pub fn of_iteration(ranks: usize, iterations: u64, iteration: f64, shift: ShiftCost) -> Self {
        Sweep { ranks, iterations, sequential: ranks as f64 * iterations as f64 * iteration, shift }
    }

    /// Checks that the numbers can be used.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`](crate::ErrorKind::Loop) if there is no rank, or a time is not 0 s and not from 1e-60 to 1e60 s.
    pub fn validate(&self) -> Result<()> {
        if self.ranks == 0 {
            return invalid("a sweep needs at least one rank".into());
        }
        let times = [
            ("sequential", self.sequential),
            ("fixed", self.shift.fixed),
            ("per_element", self.shift.per_element),
        ];
        for (name, value) in times {
            if !range::is_amount(value) {
                return invalid(format!("{name} of a sweep in seconds must be {AMOUNT}, but is {value}"));
            }
        }
        Ok(())
    }

    /// Seconds of the sweep in `blocks` blocks (9). One rank sends nothing.
    pub fn time(&self, blocks: f64) -> f64 {
        if self.ranks <= 1 || self.iterations == 0 {
            return self.sequential;
        }
        let (p, m) = (self.ranks as f64, self.iterations as f64);
        let shift = self.shift.time(m / blocks);
        (blocks + p - 1.0) * self.sequential / (p * blocks) + (blocks + p - 2.0) * shift
    }

    /// The number of blocks for which (9) is least (10), as a real number; infinite if a message has no fixed cost.
    pub fn best_blocks(&self) -> f64 {
        if self.ranks <= 1 {
            return 1.0;
        }
        let (p, m) = (self.ranks as f64, self.iterations as f64);
        let per_element = self.shift.per_element * m * (p - 2.0);
        match (self.sequential * (1.0 - 1.0 / p) + per_element, self.shift.fixed) {
            (saved, _) if saved <= 0.0 => 1.0,
            (saved, fixed) => (saved / fixed).sqrt(),
        }
    }

    /// The blocks of the optimum (10), in whole iterations; the rounding is a reconstruction.
    pub fn grain(&self) -> Grain {
        let all = self.iterations.max(1);
        let block = if self.ranks <= 1 {
            all
        } else {
            round_half_up(self.iterations as f64 / self.best_blocks()).clamp(1, all)
        };
        self.in_blocks_of(block)
    }

    /// The sweep in blocks of `block` iterations; 0 counts as 1.
    pub fn in_blocks_of(&self, block: u64) -> Grain {
        let block = block.max(1);
        let blocks = self.iterations.div_ceil(block);
        Grain { block, blocks, time: self.time(blocks as f64) }
    }

    /// [`sequential`](Sweep::sequential) / (P × [`time`](Sweep::time)).
    pub fn efficiency(&self, blocks: f64) -> f64 {
        self.sequential / (self.ranks as f64 * self.time(blocks))
    }

    /// What filling and draining the pipeline leave at most, messages apart: `M / (M + P − 1)`, (6).
    pub fn efficiency_bound(&self, blocks: f64) -> f64 {
        blocks / (blocks + self.ranks as f64 - 1.0)
    }
}

/// Iterations in a block that takes a rank about `grain` seconds, at `iteration` seconds each (3); at least 1, and 1 if
/// an iteration takes no time that could be told. The paper's fixed grain is one and a half quanta of the scheduler.
///
/// ```
/// assert_eq!(armature_planner::loops::block_of_grain(0.15, 0.011), 14);
/// ```
pub fn block_of_grain(grain: f64, iteration: f64) -> u64 {
    if iteration > 0.0 { round_half_up(grain / iteration).max(1) } else { 1 }
}

/// The time of an iteration from several measurements on each rank: the shortest of a rank, as other load only makes
/// it longer, and of these the longest, as all ranks wait for that one. `None` without measurements.
///
/// ```
/// use armature_planner::loops::iteration_time;
///
/// assert_eq!(iteration_time(&[vec![0.011, 0.010], vec![0.019, 0.012]]), Some(0.012));
/// assert_eq!(iteration_time(&[vec![]]), None);
/// ```
pub fn iteration_time(measured: &[Vec<f64>]) -> Option<f64> {
    let shortest = |times: &Vec<f64>| times.iter().copied().reduce(f64::min);
    measured.iter().filter_map(shortest).reduce(f64::max)
}
