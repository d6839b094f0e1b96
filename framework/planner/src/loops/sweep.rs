//! Grain of a pipelined (DOACROSS) loop: the number of iterations of a rank between two messages.

use serde::{Deserialize, Serialize};

use super::{invalid, round_half_up};
use crate::error::Result;
use crate::range::{self, AMOUNT};

/// Seconds of a shift (a message with border values to the next rank): `fixed + per_element × elements` (equation 8 of Siegell and Steenkiste 1997).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShiftCost {
    /// Seconds that a message without elements to the next rank takes.
    pub fixed: f64,
    /// Additional seconds for each element of the message.
    pub per_element: f64,
}

impl ShiftCost {
    /// Computes the cost from the time `empty` (s) of a message without elements and the time `full` (s) of a message with `elements` elements. If
    /// `full` is not longer, which can happen due to the resolution of clocks, the time per element is 0.
    pub fn measured(empty: f64, elements: u64, full: f64) -> Self {
        let per_element = if elements > 0 { ((full - empty) / elements as f64).max(0.0) } else { 0.0 };
        ShiftCost { fixed: empty, per_element }
    }

    /// Returns the seconds of a message of `elements` elements to the next rank.
    pub fn time(&self, elements: f64) -> f64 {
        self.fixed + self.per_element * elements
    }
}

/// One sweep of a pipelined loop. Each rank holds a part of the distributed loop, and does all iterations of the *pipelined* loop on this part in
/// blocks. After a block the rank sends the border of its part, one element per iteration, to the next rank, which can then compute that block.
///
/// Many blocks fill the pipeline fast; few blocks need few messages. The optimum is flat: a factor of two in the block size costs little.
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
    /// Number of ranks in the pipeline (P in the paper of Siegell and Steenkiste).
    pub ranks: usize,
    /// Number of iterations of the pipelined loop (m in the paper of Siegell and Steenkiste).
    pub iterations: u64,
    /// Seconds of one pass of the pipelined loop (a sweep) on a single rank (t_seq in the paper of Siegell and Steenkiste). If the ranks' parts take
    /// unequal times, the value is P times the longest, see [`of_iteration`](Sweep::of_iteration).
    pub sequential: f64,
    /// Cost of a message with border values to the next rank.
    pub shift: ShiftCost,
}

/// Division of the iterations of a pipelined loop into blocks, and the predicted time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grain {
    /// Number of iterations in a block (b in the paper of Siegell and Steenkiste); the last block may have fewer.
    pub block: u64,
    /// Number of blocks (M in the paper of Siegell and Steenkiste).
    pub blocks: u64,
    /// Predicted seconds of one pass (sweep) of the pipelined loop (equation 9 of the paper of Siegell and Steenkiste).
    pub time: f64,
}

impl Sweep {
    /// Creates the description of a sweep (one pass of the pipelined loop) from the seconds of an iteration on the rank with the slowest part
    /// (equation 5 of the paper of Siegell and Steenkiste).
    pub fn of_iteration(ranks: usize, iterations: u64, iteration: f64, shift: ShiftCost) -> Self {
        Sweep { ranks, iterations, sequential: ranks as f64 * iterations as f64 * iteration, shift }
    }

    /// Checks that the parameters of the sweep are valid.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`](crate::ErrorKind::Loop) if there is no rank, or a time is neither 0 s nor from 1e-60 to 1e60 s.
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

    /// Returns the predicted seconds of the sweep (one pass of the pipelined loop), if its iterations are divided into `blocks` blocks (equation 9 of
    /// the paper of Siegell and Steenkiste). A single rank sends no messages.
    pub fn time(&self, blocks: f64) -> f64 {
        if self.ranks <= 1 || self.iterations == 0 {
            return self.sequential;
        }
        let (p, m) = (self.ranks as f64, self.iterations as f64);
        let shift = self.shift.time(m / blocks);
        (blocks + p - 1.0) * self.sequential / (p * blocks) + (blocks + p - 2.0) * shift
    }

    /// Returns the number of blocks (not rounded to an integer) with the shortest time of the pipelined loop (equation 10 of the paper of Siegell and
    /// Steenkiste); infinite if a message has no fixed cost.
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

    /// Returns the optimal division into blocks of whole iterations (equation 10 of the paper of Siegell and Steenkiste). Rounding to the nearest
    /// block size is a guess, as the available copy of the paper gives no rule for it.
    pub fn grain(&self) -> Grain {
        let all = self.iterations.max(1);
        let block = if self.ranks <= 1 {
            all
        } else {
            round_half_up(self.iterations as f64 / self.best_blocks()).clamp(1, all)
        };
        self.in_blocks_of(block)
    }

    /// Returns the division into blocks of `block` iterations; 0 counts as 1.
    pub fn in_blocks_of(&self, block: u64) -> Grain {
        let block = block.max(1);
        let blocks = self.iterations.div_ceil(block);
        Grain { block, blocks, time: self.time(blocks as f64) }
    }

    /// Returns the efficiency of the ranks, if the iterations of the loop are divided into `blocks` blocks: [`sequential`](Sweep::sequential) /
    /// ([`ranks`](Sweep::ranks) × [`time`](Sweep::time)).
    pub fn efficiency(&self, blocks: f64) -> f64 {
        self.sequential / (self.ranks as f64 * self.time(blocks))
    }

    /// Returns an upper bound of the efficiency with M `blocks` on P ranks, `M / (M + P − 1)`, which is due to filling and draining the pipeline,
    /// without messages (equation 6 of the paper of Siegell and Steenkiste).
    pub fn efficiency_bound(&self, blocks: f64) -> f64 {
        blocks / (blocks + self.ranks as f64 - 1.0)
    }
}
