//! Block size of a DOALL loop: number of units (rows or indices) that a rank computes in one call of user code. Between two blocks, the rank
//! processes messages (a *hook*).

use std::time::Duration;

/// Target duration of a block in seconds. Processing messages after each block costs microseconds, but longer blocks use caches better (matmul 1000²
/// takes a seventh longer in blocks of 2 ms). A rank answers messages only after its block, so blocks longer than the target delay its answers.
const TARGET: f64 = 8e-3;
/// Maximum duration of a block in seconds, for kernels that are faster in larger blocks. Block sizes double, so the first size whose blocks exceed
/// [`TARGET`] takes up to twice that.
const LONGEST: f64 = 2.0 * TARGET;
/// Minimum duration in seconds of the shrinking blocks at the end of a pass: with shorter blocks, the data that all units (rows or indices)
/// share would be read too often. A rank that has only two such blocks left is not asked for an early report (`SOON` of the planner) when
/// another rank runs out of units.
const SHORTEST: f64 = TARGET / 8.0;
/// Minimum number of blocks into which the rank's remaining units (rows or indices) are divided, because later units may take longer, and
/// because at the end of a pass other ranks wait for a rank's last block. If blocks have a high fixed cost, the number falls to
/// [`FEWEST_PARTS`].
const PARTS: u64 = 6;
const FEWEST_PARTS: u64 = 2;
/// Approximate natural logarithm of the quotient of the number of a rank's units (rows or indices) and its smallest block size. If each block has
/// `1/n` of the rank's remaining units, a pass has about `n` times this number of blocks.
const BLOCKS_OF_PARTS: f64 = 3.0;
/// Minimum duration of a block at the end of a pass, as a multiple of the fixed cost that the kernel (user code of the loop) has per block.
const DEAR: f64 = 4.0;
/// Weight of the last block (rows or indices of one call of user code) in the estimate of the time of a unit.
const SHARE: f64 = 0.25;
/// Maximum fraction of a block's time that the fixed cost per block of the kernel (user code of the loop) may take.
const WORTH: f64 = 0.03;
/// Number of rounds of trials before the first choice of a block size. Each round tries every size once, so that a temporary slowdown of the machine
/// affects all sizes. The fastest of the blocks of a size counts, because other programs can only slow a block down.
const ROUNDS: u32 = 3;
/// Number of blocks between the first choice of a block size and the next round of trials; doubled with each choice.
const REVIEW: u64 = 64;

/// Chooses the block size from the measured times of blocks.
///
/// In the first round of trials, sizes double until a block takes [`LONGEST`]. After [`ROUNDS`] rounds the smallest size is chosen whose blocks take
/// at least half of [`TARGET`] and in which the kernel's fixed cost per block is at most the fraction [`WORTH`]. Further rounds follow, more and more
/// rarely, to correct a choice that was made while the machine was slow.
#[derive(Clone, Debug)]
pub(super) struct BlockSize {
    set: Option<u64>,
    size: u64,
    /// Block sizes (rows or indices per call of user code) that were tried, in ascending order.
    candidates: Vec<Candidate>,
    /// Index of the block size that is tried now; `None` between rounds of trials.
    trying: Option<usize>,
    /// Number of rounds of trials (each block size is tried once per round) that remain before the next choice of a block size.
    rounds: u32,
    /// Number of blocks (calls of user code) since the block size was last chosen; `review` is the number after which sizes are tried
    /// again.
    done: u64,
    review: u64,
    chosen: Option<u64>,
    /// Latest estimate of the seconds that a unit (row or index) takes; `None` before the first block.
    unit: Option<f64>,
    /// Fixed cost of a block (call of user code) in seconds, in addition to the time of its units (rows or indices), as estimated at the last
    /// choice of a block size.
    fixed: f64,
    most: u64,
}

/// A block size (rows or indices per call of user code) with the measured times of its last blocks.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    size: u64,
    unit_times: [f64; ROUNDS as usize],
    next: usize,
}

impl Candidate {
    fn new(size: u64) -> Self {
        Candidate { size, unit_times: [f64::INFINITY; ROUNDS as usize], next: 0 }
    }

    fn record_unit_time(&mut self, unit: f64) {
        self.unit_times[self.next] = unit;
        self.next = (self.next + 1) % self.unit_times.len();
    }

    fn unit(&self) -> f64 {
        self.unit_times.into_iter().fold(f64::INFINITY, f64::min)
    }

    fn block(&self) -> f64 {
        self.size as f64 * self.unit()
    }
}

impl BlockSize {
    /// Creates the choice of the block size (rows or indices per call of user code). A size `set` by the user is not changed.
    pub(super) fn new(set: Option<u64>) -> Self {
        BlockSize {
            set,
            size: 1,
            candidates: Vec::new(),
            trying: Some(0),
            rounds: ROUNDS,
            done: 0,
            review: REVIEW,
            chosen: None,
            unit: None,
            fixed: 0.0,
            most: 0,
        }
    }

    /// Returns the block size that is used except at the end of a pass, where blocks shrink with the number of remaining units (rows or
    /// indices).
    pub(super) fn usual(&self) -> u64 {
        self.set.or(self.chosen).unwrap_or(self.size)
    }

    /// Returns the number of units (rows or indices) in the next block, for a rank that has `left` units left to compute.
    pub(super) fn next(&mut self, left: u64) -> u64 {
        if let Some(size) = self.set {
            return size;
        }
        self.most = self.most.max(left);
        let parts = self.parts();
        if self.trying.is_some_and(|at| at > 0) && self.size > self.most.div_ceil(parts) {
            // A block of the size to be tried next would have more than the permitted fraction of the rank's units (rows or indices), so the
            // round of trials ends.
            self.end_round();
        }
        let least =
            self.unit.map_or(1, |unit| units_in(SHORTEST.max(DEAR * self.fixed), unit)).min(self.size);
        self.size.min(left.div_ceil(parts).max(least)).max(1)
    }

    /// Returns the smallest number of blocks into which the remaining units (rows or indices) may be divided. More blocks distribute work
    /// better; the number is limited so that the fixed costs of all blocks in a pass stay below the fraction [`WORTH`] of the pass.
    fn parts(&self) -> u64 {
        let pass = self.unit.unwrap_or(0.0) * self.most as f64;
        let blocks = WORTH * pass / self.fixed;
        // If blocks have no fixed cost, the quotient `blocks / BLOCKS_OF_PARTS` is infinity or NaN.
        if self.fixed > 0.0 { ((blocks / BLOCKS_OF_PARTS) as u64).clamp(FEWEST_PARTS, PARTS) } else { PARTS }
    }

    pub(super) fn done(&mut self, units: u64, took: Duration) {
        if self.set.is_some() || units == 0 {
            return;
        }
        let unit = took.as_secs_f64() / units as f64;
        if units < self.size {
            // A block smaller than the usual size, as at the end of a pass, is a poor measurement for blocks of the usual size. It only serves
            // to detect that units (rows or indices) have become much slower.
            if unit * self.size as f64 > 2.0 * LONGEST {
                self.restart(unit);
            }
        } else if let Some(at) = self.trying {
            self.record_unit_time(at, unit);
        } else {
            let mean = self.unit.map_or(unit, |mean| mean + SHARE * (unit - mean));
            self.unit = Some(mean);
            let block = mean * self.size as f64;
            self.done += 1;
            let may_grow = self.size <= self.most.div_ceil(self.parts()) / 2;
            if block > 2.0 * LONGEST && self.size > 1 || block < TARGET / 4.0 && may_grow {
                self.restart(mean);
            } else if self.done >= self.review {
                self.rounds = 1;
                self.begin_round();
            }
        }
    }

    /// Records a block of the size that is being tried, which took `unit` seconds per unit (row or index), and selects the size to try next.
    fn record_unit_time(&mut self, at: usize, unit: f64) {
        if self.candidates.len() <= at {
            self.candidates.push(Candidate::new(self.size));
        }
        let Some(candidate) = self.candidates.get_mut(at) else { return };
        candidate.record_unit_time(unit);
        self.unit = Some(candidate.unit());
        let may_grow = 2.0 * candidate.block() <= LONGEST && self.size < u64::MAX / 2;
        let next = self.candidates.get(at + 1).map(|candidate| candidate.size);
        match next.or_else(|| may_grow.then(|| 2 * self.size)) {
            Some(size) => (self.size, self.trying) = (size, Some(at + 1)),
            None => self.end_round(),
        }
    }

    fn end_round(&mut self) {
        self.rounds = self.rounds.saturating_sub(1);
        if self.rounds > 0 {
            self.begin_round();
        } else {
            self.settle();
        }
    }

    /// Begins a round of trials with the smallest size whose block takes at least [`SHORTEST`], or with the largest size tried.
    fn begin_round(&mut self) {
        let at = self.candidates.iter().position(|candidate| candidate.block() >= SHORTEST);
        let at = at.unwrap_or(self.candidates.len().saturating_sub(1));
        self.trying = Some(at);
        self.size = self.candidates.get(at).map_or(1, |candidate| candidate.size);
    }

    fn settle(&mut self) {
        let unit = self.candidates.iter().map(Candidate::unit).fold(f64::INFINITY, f64::min);
        // The time of a block is a linear function of its size. The fixed cost, its intercept, is estimated from short blocks, because in long blocks
        // it is a small part, which the noise of the machine would hide.
        let short = self
            .candidates
            .iter()
            .filter(|candidate| candidate.size == 1 || candidate.size as f64 * unit <= TARGET);
        let mut fixed: Vec<f64> =
            short.map(|candidate| candidate.block() - unit * candidate.size as f64).collect();
        fixed.sort_by(f64::total_cmp);
        let fixed = fixed.get(fixed.len() / 2).copied().unwrap_or(0.0);
        let wanted = (fixed / WORTH).max(TARGET / 2.0);
        let is_large = |candidate: &&Candidate| candidate.size as f64 * unit >= wanted;
        if let Some(candidate) = self.candidates.iter().find(is_large).or(self.candidates.last()) {
            (self.size, self.unit, self.chosen) =
                (candidate.size, Some(candidate.unit()), Some(candidate.size));
        }
        self.fixed = fixed.max(0.0);
        self.trying = None;
        (self.done, self.review) = (0, self.review.saturating_mul(2));
    }

    /// Begins to try block sizes again, because the time of a unit (row or index) has changed to `unit` seconds.
    fn restart(&mut self, unit: f64) {
        self.size = units_in(TARGET, unit).min(self.size);
        (self.unit, self.trying, self.rounds, self.review) = (Some(unit), Some(0), ROUNDS, REVIEW);
        (self.chosen, self.fixed) = (None, 0.0);
        self.candidates.clear();
    }
}

/// Returns the number of units (rows or indices) that take `seconds` seconds together, at `unit` seconds each; at least 1.
fn units_in(seconds: f64, unit: f64) -> u64 {
    // If a unit (row or index) takes no time, the quotient is infinity, which converts to the largest integer.
    (seconds / unit) as u64 | u64::from(seconds < unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates `blocks` calls of user code, each of which takes `fixed` seconds and `unit` seconds more for each unit (row or index).
    fn settle(fixed: f64, unit: f64, blocks: usize) -> BlockSize {
        let mut block_size = BlockSize::new(None);
        for _ in 0..blocks {
            let units = block_size.next(u64::MAX);
            block_size.done(units, Duration::from_secs_f64(fixed + unit * units as f64));
        }
        block_size
    }

    #[test]
    fn remaining_units_form_fewer_blocks_if_blocks_are_expensive() {
        // The simulated rank has 500 units (rows or indices) of 0.16 ms each. The fixed cost per block is 0.4 ms, 0.05 ms or zero.
        let blocks_of = |fixed: f64| {
            let mut block_size = settle(fixed, 1.6e-4, 200);
            block_size.trying = None;
            let (mut left, mut blocks) = (500, 0);
            block_size.most = left;
            while left > 0 {
                left -= block_size.next(left).min(left);
                blocks += 1;
            }
            blocks
        };
        let [dear, cheap, free] = [4e-4, 5e-5, 0.0].map(blocks_of);
        assert!(dear <= 12 && dear < cheap && cheap <= free, "{dear} {cheap} {free}");
    }

    #[test]
    fn blocks_take_a_few_milliseconds() {
        for unit in [1e-7, 3e-6, 1e-4, 4e-4] {
            let block = settle(0.0, unit, 60).usual() as f64 * unit;
            assert!((3.9e-3..=8.1e-3).contains(&block), "units of {unit} s: blocks of {block} s");
        }
        assert_eq!(settle(0.0, 0.5, 60).usual(), 1);
    }

    #[test]
    fn blocks_grow_while_units_become_faster() {
        let block_size = settle(0.5e-3, 20e-6, 60);
        assert!((256..=1024).contains(&block_size.usual()), "{}", block_size.usual());
    }

    #[test]
    fn disturbed_blocks_are_ignored() {
        let mut block_size = BlockSize::new(None);
        for n in 0..60 {
            let units = block_size.next(u64::MAX);
            let disturbed = if n % 2 == 0 { 4e-3 } else { 0.0 };
            block_size.done(units, Duration::from_secs_f64(1e-3 + 20e-6 * units as f64 + disturbed));
        }
        assert!((256..=1024).contains(&block_size.usual()), "{}", block_size.usual());
    }

    /// The simulated user code packs a matrix for each block, which is a fixed cost, on a machine whose speed varies by a third.
    #[test]
    fn block_cost_is_estimated_despite_noise() {
        let mut random = 1_u64;
        for run in 0..200 {
            let mut block_size = BlockSize::new(None);
            for _ in 0..400 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let slower = 1.0 + (random >> 40) as f64 / (1_u64 << 24) as f64 / 3.0;
                let units = block_size.next(u64::MAX);
                block_size.done(units, Duration::from_secs_f64(slower * (280e-6 + 180e-6 * units as f64)));
            }
            assert!(block_size.chosen.is_some_and(|size| size >= 32), "run {run}: {block_size:?}");
        }
    }

    /// From block 100 on the kernel packs a matrix for each block, which is a fixed cost per block. The blocks get slower by too little for all
    /// trials of block sizes to be repeated, so only the periodic review changes the block size.
    #[test]
    fn chosen_size_is_reviewed() {
        let (mut block_size, mut early) = (BlockSize::new(None), None);
        for block in 0..2_000 {
            let units = block_size.next(u64::MAX);
            let packing = if block < 100 { 0.0 } else { 280e-6 };
            block_size.done(units, Duration::from_secs_f64(packing + 180e-6 * units as f64));
            early = if block == 99 { block_size.chosen } else { early };
        }
        assert_eq!((early, block_size.chosen), (Some(32), Some(64)));
    }

    #[test]
    fn reviews_of_small_loops_become_rarer() {
        let mut block_size = BlockSize::new(None);
        for left in (1..=40).rev().cycle().take(4_000) {
            let units = block_size.next(left);
            block_size.done(units, Duration::from_secs_f64(1e-6 * units as f64));
        }
        assert!(block_size.review > REVIEW * 8, "{block_size:?}");
    }

    #[test]
    fn search_ends_if_larger_sizes_never_occur() {
        // A rank computes its 500 units (rows or indices) in at least six blocks if the fixed cost per block is 0.02 ms, and in at least five
        // if it is 0.1 ms. Larger block sizes never occur and cannot be tried.
        for (fixed, longest) in [(0.02e-3, 83), (0.1e-3, 100)] {
            let mut block_size = BlockSize::new(None);
            for left in (1..=500).rev().cycle().take(5_000) {
                let units = block_size.next(left);
                block_size.done(units, Duration::from_secs_f64(fixed + 100e-6 * units as f64));
            }
            assert!(
                block_size.trying.is_none() && (16..=longest).contains(&block_size.usual()),
                "{block_size:?}"
            );
        }
    }

    #[test]
    fn block_size_is_bounded_by_remaining_units_and_time() {
        let mut block_size = settle(0.0, 1e-6, 60);
        let usual = block_size.usual();
        assert_eq!(
            (block_size.next(u64::MAX), block_size.next(8_000), block_size.next(100), block_size.next(1)),
            (usual, 1_334, 1_000, 1_000)
        );
        block_size.done(100, Duration::from_millis(100));
        assert_eq!(block_size.usual(), 8, "units of 1 ms");
        block_size.done(1, Duration::from_secs(1));
        assert_eq!(block_size.usual(), 1);
        let mut block_size = settle(0.0, 1e-6, 60);
        block_size.done(usual, Duration::from_millis(500));
        assert!(block_size.usual() < usual / 8);
    }

    #[test]
    fn fixed_size_is_kept() {
        let mut block_size = BlockSize::new(Some(7));
        block_size.done(7, Duration::from_secs(7));
        assert_eq!((block_size.next(100), block_size.next(3), block_size.usual()), (7, 7, 7));
        let mut free = BlockSize::new(None);
        for _ in 0..200 {
            free.done(free.usual(), Duration::ZERO);
        }
        assert!(free.next(64) >= 8, "units that take no time");
    }
}
