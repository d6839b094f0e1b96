//! Production time (seconds between two finished items) of a pipeline, from the time of each block of stages on each of its processors.
//!
//! The hosts of a block are the processors that run it. For blocks without common hosts these are the formulas of the HeDPM paper: the slowest block
//! determines the production time, and a block with time t on each of R processors takes `max t / R` under round robin (Eq. 1) and `1 / Σ 1/t` on
//! demand.
//!
//! The time of a processor that hosts several blocks is divided:
//!
//! - **Round robin**: each of R replicas processes every R-th item. The loads t/R of all blocks on a processor add up, and the processor with the
//!   highest load determines the production time.
//! - **On demand**: blocks with one host take their fixed time, in total u(p) seconds per item on p. A replicated block gets the rest: at production
//!   time T, p has T − u(p) seconds left per item, so the block keeps up if `Σ_p max(0, T − u(p)) / t(p) ≥ 1`. The left side grows with T, so the
//!   smallest such T has a closed form.
//! - **On demand, several replicated blocks on one processor**: the blocks divide the rest in proportion to a weight of each block. The weights are
//!   adjusted, block by block, until the blocks keep up equally well (a slower block gains weight), because in a running pipeline blocks that wait
//!   for items leave their time to the others. This division is fair, but not always the fastest, because every processor works for all of its
//!   blocks. A running pipeline does not reach this division if only some hosts of a block are shared: a processor that prefers the block furthest
//!   downstream leaves too little time to blocks upstream, for whose items other processors wait. Planners therefore let replicated blocks share all
//!   their processors or none ([`overlaps_in_part`](Capacity::overlaps_in_part)).
//!
//! In this module every processor has its own core; [`production_time`](super::production_time) extends the model to shared cores.

use crate::pipeline::dispatch::Dispatch;

#[derive(Clone, Copy, Debug)]
pub(in crate::pipeline) struct Hosted<'a> {
    pub(in crate::pipeline) hosts: &'a [usize],
    pub(in crate::pipeline) times: &'a [f64],
}

/// Maximum number of rounds in which the weights of replicated blocks (their shares of common processors) are adjusted.
const ROUNDS: usize = 24;
/// Relative change of the production time below which the adjustment of weights ends. The work of stages is known to about one per cent only.
const SETTLED: f64 = 1e-4;
/// Minimum weight (share of common processors) of a replicated block that hardly needs these processors.
const LEAST_WEIGHT: f64 = 1e-6;

/// Computes production times (seconds between two finished items) of mappings of stages to processors.
#[derive(Clone, Debug)]
pub(in crate::pipeline) struct Capacity {
    dispatch: Dispatch,
    /// Seconds per item for which each processor is busy: with all its blocks under round robin, or with its unreplicated blocks on demand.
    load: Vec<f64>,
    /// Total weight of all replicated blocks on each processor. They divide the time that the other blocks of the processor leave.
    weight_on: Vec<f64>,
    /// For each processor, the highest number of the replicated blocks on it, used to find blocks that share some of their processors, but not all.
    last_on: Vec<usize>,
    /// Weight of each block of stages, to which its share of common processors is proportional.
    weight: Vec<f64>,
    /// Seconds per item that each block of stages needs, given the other load of its processors.
    block_times: Vec<f64>,
    order: Vec<(f64, f64)>,
}

impl Capacity {
    pub(in crate::pipeline) fn new(dispatch: Dispatch, processors: usize) -> Self {
        Capacity {
            dispatch,
            load: vec![0.0; processors],
            weight_on: vec![0.0; processors],
            last_on: vec![0; processors],
            weight: Vec::new(),
            block_times: Vec::new(),
            order: Vec::new(),
        }
    }

    pub(in crate::pipeline) fn dispatch(&self) -> Dispatch {
        self.dispatch
    }

    pub(in crate::pipeline) fn block_times(&self) -> &[f64] {
        &self.block_times
    }

    /// Returns the time per item of a replicated block of stages that shares no processor; `times` has its seconds per item on each processor.
    pub(in crate::pipeline) fn alone(&self, times: &[f64]) -> f64 {
        match self.dispatch {
            Dispatch::RoundRobin => times.iter().fold(0.0, |a, &t| f64::max(a, t)) / times.len() as f64,
            Dispatch::OnDemand => match times {
                [time] => *time,
                _ => times.iter().map(|t| t.recip()).sum::<f64>().recip(),
            },
        }
    }

    /// Raises the time per item of a block of stages to at least `least` if one of its processors is slow.
    pub(in crate::pipeline) fn no_faster_than(
        &mut self,
        least: f64,
        blocks: &[Hosted<'_>],
        slow: impl Fn(usize) -> bool,
    ) {
        for (time, block) in self.block_times.iter_mut().zip(blocks) {
            if block.hosts.iter().any(|&p| slow(p)) {
                *time = f64::max(*time, least);
            }
        }
    }

    pub(in crate::pipeline) fn together(&mut self, blocks: &[Hosted<'_>]) -> f64 {
        match self.dispatch {
            Dispatch::RoundRobin => self.round_robin(blocks),
            Dispatch::OnDemand => self.on_demand(blocks),
        }
        self.block_times.iter().fold(0.0, |a, &t| f64::max(a, t))
    }

    pub(in crate::pipeline) fn overlaps_in_part(&mut self, blocks: &[Hosted<'_>]) -> bool {
        let replicated = || blocks.iter().enumerate().filter(|(_, block)| block.hosts.len() > 1);
        for (b, block) in replicated() {
            block.hosts.iter().for_each(|&p| self.last_on[p] = b);
        }
        // Here `last_on[p]` is the highest number of the replicated blocks on processor p. If no two replicated blocks share only some of their
        // hosts, all hosts of a replicated block have the same `last_on`, and the block with this number has no other hosts.
        replicated().any(|(_, block)| {
            let last = self.last_on[block.hosts[0]];
            blocks[last].hosts.len() != block.hosts.len()
                || block.hosts.iter().any(|&p| self.last_on[p] != last)
        })
    }

    fn round_robin(&mut self, blocks: &[Hosted<'_>]) {
        for block in blocks {
            block.hosts.iter().for_each(|&p| self.load[p] = 0.0);
        }
        for block in blocks {
            let replicas = block.hosts.len() as f64;
            for (&p, &time) in block.hosts.iter().zip(block.times) {
                self.load[p] += time / replicas;
            }
        }
        self.block_times.clear();
        for block in blocks {
            self.block_times.push(block.hosts.iter().fold(0.0, |a, &p| f64::max(a, self.load[p])));
        }
    }

    fn on_demand(&mut self, blocks: &[Hosted<'_>]) {
        for block in blocks {
            for &p in block.hosts {
                self.load[p] = 0.0;
                self.weight_on[p] = 0.0;
            }
        }
        for block in blocks {
            match (block.hosts, block.times) {
                ([p], [time]) => self.load[*p] += time,
                _ => block.hosts.iter().for_each(|&p| self.weight_on[p] += 1.0),
            }
        }
        self.weight.clear();
        self.weight.resize(blocks.len(), 1.0);
        self.block_times.clear();
        let mut contested = false;
        for (b, block) in blocks.iter().enumerate() {
            let time = match block.hosts {
                [p] => self.load[*p],
                hosts => {
                    contested |= hosts.iter().any(|&p| self.weight_on[p] > 1.0);
                    self.keeps_up_at(b, *block)
                }
            };
            self.block_times.push(time);
        }
        if contested {
            self.balance(blocks);
        }
    }

    fn balance(&mut self, blocks: &[Hosted<'_>]) {
        let slowest = |times: &[f64]| times.iter().fold(0.0, |a, &t| f64::max(a, t));
        let replicated = |block: &&Hosted<'_>| block.hosts.len() > 1;
        let mut best = (slowest(&self.block_times), self.weight.clone());
        for _ in 0..ROUNDS {
            let pace = slowest(&self.block_times);
            for (weight, (block, time)) in self.weight.iter_mut().zip(blocks.iter().zip(&self.block_times)) {
                if block.hosts.len() > 1 {
                    *weight = f64::max(*weight * time / pace, LEAST_WEIGHT);
                }
            }
            self.weigh(blocks);
            for (b, block) in blocks.iter().enumerate().filter(|(_, block)| replicated(block)) {
                self.block_times[b] = self.keeps_up_at(b, *block);
            }
            let now = slowest(&self.block_times);
            let settled = (now - best.0).abs() < SETTLED * best.0;
            if now < best.0 {
                best.0 = now;
                best.1.clone_from(&self.weight);
            }
            if settled {
                break;
            }
        }
        self.weight = best.1;
        self.weigh(blocks);
        for (b, block) in blocks.iter().enumerate().filter(|(_, block)| replicated(block)) {
            self.block_times[b] = self.keeps_up_at(b, *block);
        }
    }

    /// Adds up the weights of the replicated blocks on each processor. A block's share of the processor is its weight divided by this sum.
    fn weigh(&mut self, blocks: &[Hosted<'_>]) {
        let replicated = || blocks.iter().enumerate().filter(|(_, block)| block.hosts.len() > 1);
        for (_, block) in replicated() {
            block.hosts.iter().for_each(|&p| self.weight_on[p] = 0.0);
        }
        for (b, block) in replicated() {
            block.hosts.iter().for_each(|&p| self.weight_on[p] += self.weight[b]);
        }
    }

    /// Returns the smallest production time T at which a replicated block keeps up: `Σ_p share(p)·max(0, T − u(p)) / t(p) = 1`, where p are its
    /// processors, t(p) is its time per item on p, and u(p) the time of unreplicated blocks on p.
    fn keeps_up_at(&mut self, b: usize, block: Hosted<'_>) -> f64 {
        // Sums over the hosts p of the block that have time left: of the item rates share(p) / t(p), and of these rates multiplied by u(p).
        let (mut rate, mut busy) = (0.0, 0.0);
        self.order.clear();
        for (&p, &time) in block.hosts.iter().zip(block.times) {
            if time <= 0.0 {
                // The block takes no time on this host, and only has to wait for the unreplicated blocks of the host.
                return self.load[p];
            }
            let own = self.weight[b] / self.weight_on[p] / time;
            if self.load[p] == 0.0 {
                rate += own;
            } else {
                self.order.push((self.load[p], own));
            }
        }
        self.order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        for &(load, own) in &self.order {
            if rate > 0.0 && (1.0 + busy) / rate <= load {
                break;
            }
            rate += own;
            busy += load * own;
        }
        (1.0 + busy) / rate
    }

    /// Appends to `shares` the fraction of the items that each host of block `b` of the last mapping receives at production time `pace`.
    pub(in crate::pipeline) fn push_shares(
        &self,
        b: usize,
        block: Hosted<'_>,
        pace: f64,
        shares: &mut Vec<f64>,
    ) {
        let start = shares.len();
        match (self.dispatch, block.hosts) {
            (Dispatch::RoundRobin, hosts) => {
                shares.extend(hosts.iter().map(|_| (hosts.len() as f64).recip()));
            }
            (Dispatch::OnDemand, [_]) => shares.push(1.0),
            (Dispatch::OnDemand, hosts) => {
                shares.extend(hosts.iter().zip(block.times).map(|(&p, &time)| {
                    let left = f64::max(0.0, pace - self.load[p]);
                    self.weight[b] / self.weight_on[p] * left / f64::max(time, f64::MIN_POSITIVE)
                }));
                let total: f64 = shares[start..].iter().sum();
                let equal = (hosts.len() as f64).recip();
                let usable = total > 0.0 && total.is_finite();
                for share in &mut shares[start..] {
                    *share = if usable { *share / total } else { equal };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn together(dispatch: Dispatch, blocks: &[(&[usize], &[f64])]) -> f64 {
        let blocks: Vec<_> = blocks.iter().map(|&(hosts, times)| Hosted { hosts, times }).collect();
        Capacity::new(dispatch, 8).together(&blocks)
    }

    #[track_caller]
    fn assert_close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-3 * b, "{a} is not {b}");
    }

    #[test]
    fn disjoint_blocks_follow_the_published_formulas() {
        let blocks: &[(&[usize], &[f64])] = &[(&[0], &[1.5]), (&[1, 2], &[2.0, 4.0])];
        assert_close(together(Dispatch::RoundRobin, blocks), 2.0);
        assert_close(together(Dispatch::OnDemand, blocks), 1.5);
        assert_close(together(Dispatch::OnDemand, &blocks[1..]), 4.0 / 3.0);
    }

    #[test]
    fn replicated_block_gets_the_remaining_capacity() {
        // A replicated block takes 3 s per item on each of two processors, the first of which also runs a serial stage of 1 s per item. The
        // production time T follows from (T − 1)/3 + T/3 = 1, so T = 2.
        assert_close(together(Dispatch::OnDemand, &[(&[0], &[1.0]), (&[0, 1], &[3.0, 3.0])]), 2.0);
        // The serial stage takes 9 s per item, so its processor has no time for the replicated block, which takes 1 s per item on the other
        // processor.
        assert_close(together(Dispatch::OnDemand, &[(&[0], &[9.0]), (&[0, 1], &[1.0, 1.0])]), 9.0);
    }

    #[test]
    fn partial_overlap_is_detected() {
        let overlaps = |sets: &[&[usize]]| {
            let blocks: Vec<_> = sets.iter().map(|&hosts| Hosted { hosts, times: &[] }).collect();
            Capacity::new(Dispatch::OnDemand, 8).overlaps_in_part(&blocks)
        };
        assert!(!overlaps(&[&[0, 1], &[0], &[1, 0], &[2, 3]]));
        assert!(overlaps(&[&[0, 1], &[1, 2]]));
        assert!(overlaps(&[&[0, 1, 2], &[1, 2]]));
        assert!(overlaps(&[&[1, 2], &[0, 1, 2]]));
    }

    #[test]
    fn round_robin_loads_add_up() {
        assert_close(together(Dispatch::RoundRobin, &[(&[0], &[1.0]), (&[0, 1], &[3.0, 3.0])]), 2.5);
    }

    #[test]
    fn replicated_blocks_divide_shared_processors() {
        // Two processors run both a block of stages that takes 1 s and one that takes 3 s per item. They do these 4 s of work in 2 s.
        let blocks: &[(&[usize], &[f64])] = &[(&[0, 1], &[1.0, 1.0]), (&[0, 1], &[3.0, 3.0])];
        assert_close(together(Dispatch::OnDemand, blocks), 2.0);
        // A third processor runs the block of 3 s as well, so that the 4 s of work per item are divided evenly among three processors.
        let blocks: &[(&[usize], &[f64])] = &[(&[0, 1], &[1.0, 1.0]), (&[0, 1, 2], &[3.0, 3.0, 3.0])];
        assert_close(together(Dispatch::OnDemand, blocks), 4.0 / 3.0);
        // The block of 1 s per item has three further processors, and leaves the processor that both blocks share to the block of 2 s.
        let blocks: &[(&[usize], &[f64])] = &[(&[0, 1], &[2.0, 2.0]), (&[1, 2, 3, 4], &[1.0, 1.0, 1.0, 1.0])];
        assert_close(together(Dispatch::OnDemand, blocks), 1.0);
    }
}
