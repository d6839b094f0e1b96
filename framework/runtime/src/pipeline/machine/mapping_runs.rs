//! Mapping in messages: the ranks of a block as runs of consecutive numbers. A mapping is sent to every rank. With a number for each rank of the
//! blocks, the mapping of 4,000 ranks would take 48 MB in total, which rank 0 sends in 0.4 s over a link of 1 Gbit/s.

use std::ops::Range;

use armature_planner::Platform;
use armature_planner::pipeline::{Block, Mapping};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of ranks of all blocks together, where a rank counts once for each of its blocks: 64 blocks on all processors that a platform can
/// have. They take 8 MiB. If it is too small, a job with more replicas ends with an error.
const MOST_RANKS: usize = 64 * Platform::MOST_PROCESSORS;

#[derive(Serialize, Deserialize)]
struct BlockRuns {
    stages: Range<usize>,
    hosts: Vec<Range<usize>>,
}

pub(super) fn serialize<S: Serializer>(mapping: &Mapping, serializer: S) -> Result<S::Ok, S::Error> {
    let block = |block: &Block| BlockRuns {
        stages: block.stages.clone(),
        hosts: block.host_runs().map(|run| run[0]..run[0] + run.len()).collect(),
    };
    mapping.blocks.iter().map(block).collect::<Vec<_>>().serialize(serializer)
}

/// Decodes a mapping. The number of ranks is checked before memory is allocated, because a few bytes can name any number of ranks.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mapping, D::Error> {
    let blocks: Vec<BlockRuns> = Deserialize::deserialize(deserializer)?;
    let ranks =
        blocks.iter().flat_map(|block| &block.hosts).fold(0_usize, |sum, run| sum.saturating_add(run.len()));
    if ranks > MOST_RANKS {
        let text = format!("the blocks of a mapping have {ranks} ranks, expected at most {MOST_RANKS}");
        return Err(D::Error::custom(text));
    }
    let block = |block: BlockRuns| Block::new(block.stages, block.hosts.into_iter().flatten().collect());
    Ok(Mapping::new(blocks.into_iter().map(block).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sent(#[serde(with = "super")] Mapping);

    #[test]
    fn mappings_keep_the_order_of_ranks() {
        for hosts in [vec![], vec![3], vec![0, 1, 2, 5, 6, 2, 1, 1]] {
            let sent = Sent(Mapping::new(vec![Block::new(0..2, vec![7]), Block::new(2..3, hosts)]));
            assert_eq!(wire::from_bytes::<Sent>(&wire::to_bytes(&sent).unwrap()).unwrap(), sent);
        }
        let all = Sent(Mapping::new(vec![Block::new(0..4, (0..4_000).collect())]));
        assert!(wire::to_bytes(&all).unwrap().len() < 20);
    }

    #[test]
    fn too_many_ranks_are_an_error() {
        let block = |hosts| BlockRuns { stages: 0..1, hosts };
        let all = || block(vec![0..Platform::MOST_PROCESSORS; 1]);
        for blocks in [
            vec![block(vec![0..usize::MAX; 1])],
            vec![block(vec![5..usize::MAX; 2])],
            (0..65).map(|_| all()).collect(),
        ] {
            let error = wire::from_bytes::<Sent>(&wire::to_bytes(&blocks).unwrap()).unwrap_err();
            assert!(error.to_string().contains("expected at most 1048576"), "{error}");
        }
    }
}
