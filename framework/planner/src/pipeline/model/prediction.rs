//! Model of the production time, the seconds between two items that leave a pipeline.
//!
//! The time of a block of stages on a host is the sum of the transfer in, the work of its stages at the speed of the host, and the transfer out (Eqs.
//! 2–4 of the HeDPM paper, with the real links between the real neighbours). If processors compute while they communicate
//! ([`Platform::with_overlap`]), the time is the longest of the three. If the previous or the next block is replicated, the slowest transfer from or
//! to its processors counts. [`capacity`](super::capacity) computes the production time from the times of all blocks.

use serde::{Deserialize, Serialize};

use super::capacity::Hosted;
use super::costs::Costs;
use super::production_time::ProductionTime;
use crate::error::Result;
use crate::pipeline::dispatch::Dispatch;
use crate::pipeline::mapping::{Block, Mapping};
use crate::pipeline::spec::PipelineSpec;
use crate::platform::Platform;

/// Predicted performance of a pipeline whose stages are mapped to processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Seconds between two consecutive items that leave the pipeline once it is full (T in the HeDPM paper).
    pub production_time: f64,
    /// Prediction for each block of stages of the mapping.
    pub blocks: Vec<BlockPrediction>,
    /// Index of the slowest block of stages of the mapping, which determines the production time.
    pub bottleneck: usize,
    /// For each processor of the platform, the fraction of the time in which it is busy (0 to 1).
    pub utilisation: Vec<f64>,
}

/// Predicted performance of one block of stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockPrediction {
    /// Seconds between two items that leave this block of stages if it never waits for items of other blocks, while its processors also run the other
    /// blocks that are mapped to them. The largest time of all blocks is the production time of the pipeline (seconds per item).
    pub time: f64,
    /// For each processor of this block of stages, in the order of the mapping: seconds that one item takes there, including transfers.
    pub item_times: Vec<f64>,
    /// For each processor of this block of stages, in the order of the mapping: fraction of the items that it receives. The sum is 1.
    pub shares: Vec<f64>,
}

impl Prediction {
    /// Returns the throughput in items per second, the inverse of the production time.
    pub fn throughput(&self) -> f64 {
        self.production_time.recip()
    }
}

/// Predicts the performance of a pipeline with the given mapping on a platform.
///
/// # Errors
/// The errors of [`PipelineSpec::validate`] and [`Mapping::validate`] for the pipeline and the mapping.
///
/// ```
/// use armature_planner::pipeline::{Dispatch, Mapping, PipelineSpec, StageSpec, production_time};
/// use armature_planner::{Link, Platform};
///
/// let spec = PipelineSpec::new(0.0)
///     .stage(StageSpec::new("load", 1.0, 0.0).serial())
///     .stage(StageSpec::new("rank", 3.0, 0.0));
/// let platform = Platform::uniform(2, 1.0, Link::FREE)?;
/// let shared = Mapping::parse("load@0 | rank@0,1", &spec)?;
/// // Processor 0 loads for 1 s an item; what is left of it helps to rank: (2-1)/3 + 2/3 = 1.
/// let prediction = production_time(&platform, &spec, &shared, Dispatch::OnDemand)?;
/// assert!((prediction.production_time - 2.0).abs() < 1e-12);
/// assert!((prediction.blocks[1].shares[1] - 2.0 / 3.0).abs() < 1e-12);
/// # Ok::<(), armature_planner::Error>(())
/// ```
pub fn production_time(
    platform: &Platform,
    spec: &PipelineSpec,
    mapping: &Mapping,
    dispatch: Dispatch,
) -> Result<Prediction> {
    spec.validate(platform.processors())?;
    mapping.validate(spec, platform.processors())?;
    Ok(predict(&Costs::new(platform, spec), mapping, dispatch))
}

pub(in crate::pipeline) fn predict(costs: &Costs, mapping: &Mapping, dispatch: Dispatch) -> Prediction {
    let item_times = item_times(costs, &mapping.blocks);
    let hosted: Vec<_> = mapping
        .blocks
        .iter()
        .zip(&item_times)
        .map(|(block, times)| Hosted { hosts: &block.hosts, times })
        .collect();
    let mut model = ProductionTime::new(dispatch, costs);
    let production_time = model.together(&hosted);
    let mut utilisation = vec![0.0; costs.processors()];
    let mut blocks = Vec::with_capacity(hosted.len());
    for (b, block) in hosted.iter().enumerate() {
        let shares = model.shares(b, *block, production_time);
        for ((&p, time), share) in block.hosts.iter().zip(block.times).zip(&shares) {
            utilisation[p] += share * time;
        }
        let time = model.block_times()[b];
        blocks.push(BlockPrediction { time, item_times: block.times.to_vec(), shares });
    }
    if production_time > 0.0 {
        utilisation.iter_mut().for_each(|busy| *busy /= production_time);
    }
    let bottleneck = blocks.iter().position(|block| block.time >= production_time).unwrap_or(0);
    Prediction { production_time, blocks, bottleneck, utilisation }
}

pub(in crate::pipeline) fn pace(costs: &Costs, blocks: &[Block], dispatch: Dispatch) -> f64 {
    let item_times = item_times(costs, blocks);
    let hosted: Vec<_> =
        blocks.iter().zip(&item_times).map(|(block, times)| Hosted { hosts: &block.hosts, times }).collect();
    ProductionTime::new(dispatch, costs).together(&hosted)
}

/// Returns the seconds that an item takes on each host of each block of stages, including transfers from and to the neighbours.
pub fn item_times_of(platform: &Platform, spec: &PipelineSpec, mapping: &Mapping) -> Vec<Vec<f64>> {
    item_times(&Costs::new(platform, spec), &mapping.blocks)
}

fn item_times(costs: &Costs, blocks: &[Block]) -> Vec<Vec<f64>> {
    let ext = [costs.ext()];
    blocks
        .iter()
        .enumerate()
        .map(|(b, block)| {
            let before = if b == 0 { &ext[..] } else { &blocks[b - 1].hosts };
            let after = blocks.get(b + 1).map_or(&ext[..], |next| &next.hosts);
            let mut times = Vec::with_capacity(block.hosts.len());
            costs.push_times(&block.stages, &block.hosts, before, after, &mut times);
            times
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Link;
    use crate::pipeline::StageSpec;

    #[test]
    fn overlapped_transfers_count_by_their_maximum() {
        let spec =
            PipelineSpec::new(2.0).stage(StageSpec::new("a", 5.0, 3.0)).stage(StageSpec::new("b", 1.0, 1.0));
        let platform = Platform::uniform(2, 1.0, Link { bandwidth: 1.0, setup: 0.5 }).unwrap();
        let mapping = Mapping::parse("a@0 | b@1", &spec).unwrap();
        let times = |platform: &Platform| {
            let blocks = production_time(platform, &spec, &mapping, Dispatch::OnDemand).unwrap().blocks;
            blocks.iter().map(|b| b.item_times[0]).collect::<Vec<_>>()
        };
        assert_eq!(times(&platform), [2.5 + 5.0 + 3.5, 3.5 + 1.0 + 1.5]);
        assert_eq!(times(&platform.with_overlap(true)), [5.0, 3.5]);
    }
}
