//! Model of processors that share cores: each processor has its full speed while it has a core, but there are fewer cores than processors.
//!
//! At production time T (seconds per item) the processors of a group with c cores have c·T core seconds per item, and need `Σ share · time`, where a
//! host of a block receives the fraction `share` of the items and takes `time` for each. If they need more than they have, all of them slow down in
//! proportion, as with a fair scheduler. Their times are multiplied by the missing factor until the need at the resulting production time equals the
//! available core seconds. Blocks with hosts outside the group then send more items to these hosts. If no items can move to other hosts, the
//! production time is need / c.
//!
//! Dispatch on demand relies on items moving to other hosts. However, a replica that finds items takes them, even on the core that a serial stage
//! needs most. The serial stage is certain only of its fair share of the core, and of the unused shares of other processors. No processor uses more
//! time than all items of its blocks take. A processor with u seconds per item of work that no other processor does therefore keeps up at `(u + Σ
//! min(d, u)) / c`, where d is the time that each of the other processors of the group could use ([`CoreSharing::sure_pace`]).

use super::capacity::{Capacity, Hosted};
use crate::cores::SharedCores;
use crate::pipeline::dispatch::Dispatch;

/// Maximum number of iterations of the model, each of which adjusts the factors by which processors that share cores are slower.
const ROUNDS: usize = 12;
/// Relative excess of the needed core time over the available core time up to which the need counts as met.
const CLOSE: f64 = 0.005;

#[derive(Clone, Debug)]
pub(in crate::pipeline) struct CoreSharing {
    group_of: Vec<Option<usize>>,
    members: Vec<Vec<usize>>,
    cores: Vec<f64>,
    /// Factor by which the processors of each group are slower in the last evaluated mapping.
    slower: Vec<f64>,
    /// Core seconds per item of the pipeline that the processors of each group need together.
    need: Vec<f64>,
    /// Core seconds per item that each processor would use if it were sent all items that it can process.
    demands: Vec<Demand>,
    times: Vec<f64>,
    shares: Vec<f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    /// Core seconds per item for blocks of stages that no other processor hosts.
    own: f64,
    /// Core seconds per item for replicated blocks of stages, if all items were sent to this processor.
    more: f64,
}

impl CoreSharing {
    pub(in crate::pipeline) fn new(groups: &[SharedCores], processors: usize) -> Self {
        let mut group_of = vec![None; processors];
        for (g, group) in groups.iter().enumerate() {
            group.processors.iter().for_each(|&p| group_of[p] = Some(g));
        }
        CoreSharing {
            group_of,
            members: groups.iter().map(|group| group.processors.clone()).collect(),
            cores: groups.iter().map(|group| group.cores).collect(),
            slower: vec![1.0; groups.len()],
            need: vec![0.0; groups.len()],
            demands: vec![Demand::default(); processors],
            times: Vec::new(),
            shares: Vec::new(),
        }
    }

    pub(in crate::pipeline) fn slower(&self, p: usize) -> f64 {
        self.group_of[p].map_or(1.0, |g| self.slower[g])
    }

    /// Returns the production time of blocks (groups of stages) on processors that share cores. `pace` is the production time that the blocks would
    /// have if every processor had its own core.
    pub(in crate::pipeline) fn slow_down(
        &mut self,
        capacity: &mut Capacity,
        blocks: &[Hosted<'_>],
        pace: f64,
    ) -> f64 {
        self.slower.fill(1.0);
        self.add_demands(capacity, blocks);
        self.times.clear();
        self.times.extend(blocks.iter().flat_map(|block| block.times));
        let mut pace = pace;
        let mut best = f64::INFINITY;
        let mut best_slower = self.slower.clone();
        for round in 0..ROUNDS {
            if round > 0 {
                pace = capacity.together(&slowed(blocks, &self.times));
            }
            self.add_needs(capacity, blocks, pace);
            // Smallest production time with enough core time for every processor and every group of processors. Each host receives the fraction of
            // the items that was computed in this iteration.
            let kept_up =
                self.need.iter().zip(&self.cores).fold(pace, |t, (need, cores)| t.max(need / cores));
            if kept_up < best {
                best = kept_up;
                best_slower.clone_from(&self.slower);
            }
            let mut close = true;
            for ((slower, need), cores) in self.slower.iter_mut().zip(&self.need).zip(&self.cores) {
                let missing = need / (cores * pace);
                let next = if missing.is_finite() { f64::max(*slower * missing, 1.0) } else { 1.0 };
                close &= (next / *slower - 1.0).abs() < CLOSE;
                *slower = next;
            }
            if close {
                break;
            }
            self.lay_out(blocks);
        }
        // The iteration with the shortest production time is computed again, because later calls return its block times and its fractions of the
        // items.
        self.slower = best_slower;
        self.lay_out(blocks);
        let slow = slowed(blocks, &self.times);
        pace = capacity.together(&slow);
        self.add_needs(capacity, blocks, pace);
        for g in 0..self.cores.len() {
            let sure = self.sure_pace(g);
            let least = f64::max(self.need[g] / self.cores[g], sure);
            if least > pace {
                capacity.no_faster_than(least, blocks, |p| self.group_of[p] == Some(g));
            }
            best = best.max(sure);
        }
        best
    }

    /// Adds up the core seconds that each processor could use per item. Under round robin the sums are 0, because hosts do not request items.
    fn add_demands(&mut self, capacity: &Capacity, blocks: &[Hosted<'_>]) {
        self.demands.fill(Demand::default());
        if capacity.dispatch() == Dispatch::RoundRobin {
            return;
        }
        for block in blocks {
            for (&p, time) in block.hosts.iter().zip(block.times) {
                match block.hosts {
                    [_] => self.demands[p].own += time,
                    _ => self.demands[p].more += time,
                }
            }
        }
    }

    /// Returns the production time at which every processor of a group keeps up with the work that no other processor does. The other processors of
    /// the group are assumed to use their fair share of the cores whenever they can.
    fn sure_pace(&self, group: usize) -> f64 {
        let members = || self.members[group].iter().map(|&p| (p, self.demands[p]));
        let keeps_up = |(p, Demand { own, .. })| {
            let others = members().filter(|(q, _)| *q != p);
            own + others.map(|(_, other)| own.min(other.own + other.more)).sum::<f64>()
        };
        let busy = members().filter(|(_, demand)| demand.own > 0.0);
        busy.map(keeps_up).fold(0.0, f64::max) / self.cores[group]
    }

    fn lay_out(&mut self, blocks: &[Hosted<'_>]) {
        self.times.clear();
        for block in blocks {
            for (&p, time) in block.hosts.iter().zip(block.times) {
                self.times.push(time * self.group_of[p].map_or(1.0, |g| self.slower[g]));
            }
        }
    }

    fn add_needs(&mut self, capacity: &Capacity, blocks: &[Hosted<'_>], pace: f64) {
        self.need.fill(0.0);
        for (b, block) in slowed(blocks, &self.times).into_iter().enumerate() {
            self.shares.clear();
            capacity.push_shares(b, block, pace, &mut self.shares);
            for ((&p, time), share) in block.hosts.iter().zip(blocks[b].times).zip(&self.shares) {
                if let Some(g) = self.group_of[p] {
                    self.need[g] += share * time;
                }
            }
        }
    }
}

fn slowed<'a>(blocks: &[Hosted<'a>], times: &'a [f64]) -> Vec<Hosted<'a>> {
    let mut rest = times;
    let with = |block: &Hosted<'a>| {
        let (times, others) = rest.split_at(block.hosts.len());
        rest = others;
        Hosted { hosts: block.hosts, times }
    };
    blocks.iter().map(with).collect()
}

#[cfg(test)]
mod tests {
    use crate::pipeline::{Dispatch, Mapping, PipelineSpec, PlanOptions, StageSpec, plan, production_time};
    use crate::{Link, Platform, SharedCores};

    fn platform(processors: usize, groups: &[&[usize]]) -> Platform {
        let on_one = |group: &&[usize]| SharedCores { processors: group.to_vec(), cores: 1.0 };
        Platform::uniform(processors, 1.0, Link::FREE)
            .unwrap()
            .with_shared_cores(groups.iter().map(on_one).collect())
            .unwrap()
    }

    fn spec(works: &[f64]) -> PipelineSpec {
        let stage = |(n, &work): (usize, &f64)| StageSpec::new(format!("s{n}"), work, 0.0);
        works.iter().enumerate().map(stage).fold(PipelineSpec::new(0.0), PipelineSpec::stage)
    }

    fn time(platform: &Platform, spec: &PipelineSpec, mapping: &str, dispatch: Dispatch) -> f64 {
        let mapping = Mapping::parse(mapping, spec).unwrap();
        production_time(platform, spec, &mapping, dispatch).unwrap().production_time
    }

    #[track_caller]
    fn assert_near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.01, "{found}, not {expected}");
    }

    #[test]
    fn stages_on_one_core_share_its_time() {
        let (spec, two) = (spec(&[1.0, 9.0]), platform(3, &[&[0, 1]]));
        for dispatch in [Dispatch::OnDemand, Dispatch::RoundRobin] {
            assert_near(time(&two, &spec, "s0@0 | s1@1", dispatch), 10.0);
            assert_near(time(&two, &spec, "s0+s1@0", dispatch), 10.0);
            assert_near(time(&two, &spec, "s0@0 | s1@2", dispatch), 9.0);
        }
        // Two processors share 1.5 cores, and need only 10/9 cores, so that neither is slowed down.
        let waiting = SharedCores { processors: vec![0, 1], cores: 1.5 };
        let two = platform(3, &[]).with_shared_cores(vec![waiting]).unwrap();
        assert_near(time(&two, &spec, "s0@0 | s1@1", Dispatch::OnDemand), 9.0);
    }

    #[test]
    fn items_are_dispatched_to_free_cores() {
        let (spec, shared) = (spec(&[6.0]), platform(4, &[&[0, 1], &[2, 3]]));
        let on_demand = |mapping| time(&shared, &spec, mapping, Dispatch::OnDemand);
        assert_near(on_demand("s0@0,1"), 6.0);
        assert_near(on_demand("s0@0,2"), 3.0);
        assert_near(on_demand("s0@0,1,2,3"), 3.0);
        assert_near(on_demand("s0@0,1,2"), 3.0);
        // Under round robin each of the three ranks gets a third of the items, and all of them wait for the core that two of the ranks share.
        assert_near(time(&shared, &spec, "s0@0,1,2", Dispatch::RoundRobin), 4.0);
    }

    #[test]
    fn serial_stage_gets_only_its_fair_core_share() {
        let spec = PipelineSpec::new(0.0)
            .stage(StageSpec::new("read", 0.02, 0.0).serial().pinned(0))
            .stage(StageSpec::new("match", 1.5, 0.0))
            .stage(StageSpec::new("track", 1.2, 0.0).serial())
            .stage(StageSpec::new("paint", 0.3, 0.0))
            .stage(StageSpec::new("write", 0.02, 0.0).serial().pinned(0));
        let shared = platform(4, &[&[0, 1], &[2, 3]]);
        let on_demand = |mapping| time(&shared, &spec, mapping, Dispatch::OnDemand);
        // All stages together need 3.04 s of computing per item, which two cores do in 1.52 s.
        assert_near(on_demand("read@0 | match@0,1,2 | track@2 | paint@1 | write@0"), 1.52);
        // Rank 2, which shares its core with rank 3, computes whenever it has items of `match`. The stage `track` on rank 3, which needs 1.2 s per
        // item, therefore gets only half of the core.
        assert_near(on_demand("read@0 | match@0,1,2 | track@3 | paint@1 | write@0"), 2.4);
        assert_near(on_demand("read@0 | match@0,1,2,3 | track@3 | paint@1 | write@0"), 2.4);
        // Rank 2 has only items of `paint`, which take little time, so `track` on rank 3 gets most of their common core.
        assert_near(on_demand("read@0 | match@0,1 | track@3 | paint@2,3 | write@0"), 1.54);
        let best = plan(&shared, &spec, &PlanOptions::default()).unwrap();
        assert_near(best.prediction.production_time, 1.52);
    }

    #[test]
    fn no_plan_exceeds_the_machine_capacity() {
        let spec = spec(&[1.0, 4.0, 2.0, 5.0]);
        let shared = platform(4, &[&[0, 1], &[2, 3]]);
        let best = plan(&shared, &spec, &PlanOptions::default()).unwrap();
        let time = best.prediction.production_time;
        assert!((6.0 * 0.995..6.0 * 1.01).contains(&time), "12 s of work on two cores: {time}");
        let of = |p: usize| best.prediction.utilisation[p];
        assert!(of(0) + of(1) < 1.01 && of(2) + of(3) < 1.01, "{:?}", best.prediction);
    }

    #[test]
    fn invalid_core_groups_are_refused() {
        let group = |processors: Vec<usize>, cores| SharedCores { processors, cores };
        let refused = |groups: Vec<SharedCores>| {
            platform(2, &[]).with_shared_cores(groups).unwrap_err().message().to_string()
        };
        assert!(refused(vec![group(vec![0, 2], 1.0)]).contains("processor 2"));
        assert!(refused(vec![group(vec![0], 1.0), group(vec![0, 1], 1.0)]).contains("two groups"));
        assert!(refused(vec![group(vec![0, 1], 0.0)]).contains("0 cores"));
    }
}
