//! Planner BSC, *binary search closest* (Benoit and Robert): intervals of stages on single processors, without replicas.
//!
//! The period T (time between two items) is bisected. For each T, stages are assigned from the first on: of the longest intervals of stages that the
//! free processors can run within T, the one whose time is closest to T is chosen. T is feasible if all stages can be assigned. The outgoing link of
//! an interval leads to an unknown neighbour, so the mean link of the processor is used (or the link to the outside world after the last stage).

use crate::pipeline::dispatch::Dispatch;
use crate::pipeline::mapping::Block;
use crate::pipeline::model;
use crate::pipeline::model::costs::Costs;

/// Number of bisections of the period (time between two items), after which the remaining interval is within rounding errors.
const BISECTIONS: usize = 40;

/// Returns the mapping with the shortest production time (evaluated with the real links of its processors), and the number of periods tried.
pub(in crate::pipeline) fn bsc(costs: &Costs) -> (Vec<Block>, usize) {
    // The best mapping of all stages to one processor gives an upper bound of the period.
    let whole = 0..costs.stages();
    let single = |p: usize| vec![Block::new(whole.clone(), vec![p])];
    let (mut best, mut high) = (single(0), f64::INFINITY);
    for p in 0..costs.processors() {
        let time = model::pace(costs, &single(p), Dispatch::RoundRobin);
        if time < high {
            (best, high) = (single(p), time);
        }
    }
    let (mut low, mut least) = (0.0, high);
    for _ in 0..BISECTIONS {
        let period = 0.5 * (low + high);
        match fit(costs, period) {
            Some(blocks) => {
                high = period;
                let time = model::pace(costs, &blocks, Dispatch::RoundRobin);
                if time < least {
                    (best, least) = (blocks, time);
                }
            }
            None => low = period,
        }
    }
    (best, BISECTIONS)
}

/// Assigns stages to processors by the greedy rule of BSC, so that no processor takes longer than `period` per item; `None` if processors run out.
fn fit(costs: &Costs, period: f64) -> Option<Vec<Block>> {
    let stages = costs.stages();
    let mut free: Vec<usize> = (0..costs.processors()).collect();
    let mut blocks: Vec<Block> = Vec::new();
    let mut start = 0;
    while start < stages {
        let before = blocks.last().map_or(costs.ext(), |block| block.hosts[0]);
        let mut closest: Option<(f64, usize, usize)> = None;
        for (i, &p) in free.iter().enumerate() {
            if let Some((end, time)) = longest(costs, start, before, p, period)
                && closest.is_none_or(|(best, ..)| time > best)
            {
                closest = Some((time, end, i));
            }
        }
        let (_, end, i) = closest?;
        blocks.push(Block::new(start..end, vec![free.remove(i)]));
        start = end;
    }
    Some(blocks)
}

/// Returns the longest interval of stages from `start` on that processor `p` can run within `period`: the end of the interval, and its time.
fn longest(costs: &Costs, start: usize, before: usize, p: usize, period: f64) -> Option<(usize, f64)> {
    let receive = costs.transfer(before, p, start);
    let mut found = None;
    for end in start + 1..=costs.stages() {
        let so_far = receive + costs.compute(&(start..end), p);
        if so_far > period {
            break;
        }
        // All longer intervals are tried, because a longer interval may fit when a shorter one does not: the outgoing transfer depends on the item
        // size at the end of the interval.
        let send = if end == costs.stages() {
            costs.transfer(p, costs.ext(), end)
        } else {
            costs.mean_transfer(p, end)
        };
        if so_far + send <= period {
            found = Some((end, so_far + send));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{PipelineSpec, StageSpec};
    use crate::platform::{Link, Platform};

    fn chain(works: &[f64]) -> PipelineSpec {
        let mut spec = PipelineSpec::new(0.0);
        for (n, &work) in works.iter().enumerate() {
            spec = spec.stage(StageSpec::new(format!("s{n}"), work, 0.0));
        }
        spec
    }

    #[test]
    fn intervals_balance_equal_processors() {
        let costs = Costs::new(&Platform::uniform(2, 1.0, Link::FREE).unwrap(), &chain(&[1.0, 2.0, 3.0]));
        let (blocks, _) = bsc(&costs);
        assert_eq!(blocks, [Block::new(0..2, vec![0]), Block::new(2..3, vec![1])]);
    }

    #[test]
    fn processor_with_the_closest_speed_is_chosen() {
        // At the best period of 1 s, the slow processor runs the stage with little work, and the fast processor remains for the stage with more work.
        let costs = Costs::new(&Platform::with_speeds(&[4.0, 1.0], Link::FREE).unwrap(), &chain(&[1.0, 4.0]));
        let (blocks, _) = bsc(&costs);
        assert_eq!(blocks, [Block::new(0..1, vec![1]), Block::new(1..2, vec![0])]);
    }
}
