//! Mapping in messages: the ranks of a block as runs of consecutive numbers. A mapping is sent to every rank. With a number for each rank of the
//! blocks, the mapping of 4,000 ranks would take 48 MB in total, which rank 0 sends in 0.4 s over a link of 1 Gbit/s.

use std::ops::Range;

use armature_planner::Platform;
use armature_planner::pipeline::{Block, Mapping};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
struct BlockRuns {
    stages: Range<usize>,
    hosts: Vec<Range<usize>>,
}

pub(super) fn serialize<S: Serializer>(mapping: &Mapping, serializer: S) -> Result<S::Ok, S::Error> {
    let block = |block: &Block| BlockRuns {
        stages: block.stages.clone(),
        hosts: block
            .hosts
            .chunk_by(|a, b| a.checked_add(1) == Some(*b))
            .map(|run| run[0]..run[0] + run.len())
            .collect(),
    };
    mapping.blocks.iter().map(block).collect::<Vec<_>>().serialize(serializer)
}

/// Decodes a mapping. The number of ranks of a block is checked before memory is allocated, because a few bytes can name any number of ranks.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mapping, D::Error> {
    let block = |BlockRuns { stages, hosts }: BlockRuns| {
        let ranks = hosts.iter().fold(0_usize, |sum, run| sum.saturating_add(run.len()));
        let most = Platform::MOST_PROCESSORS;
        if ranks > most {
            let text = format!("a mapping has a block on {ranks} ranks, expected at most {most}");
            return Err(D::Error::custom(text));
        }
        Ok(Block::new(stages, hosts.into_iter().flatten().collect()))
    };
    let blocks: Vec<BlockRuns> = Deserialize::deserialize(deserializer)?;
    blocks.into_iter().map(block).collect::<Result<_, _>>().map(Mapping::new)
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
        for (run, runs) in [(0..usize::MAX, 1), (0..20_000, 1), (5..usize::MAX, 2), (0..1, 20_000)] {
            let hosts = vec![run; runs];
            let bytes = wire::to_bytes(&vec![BlockRuns { stages: 0..1, hosts }]).unwrap();
            let error = wire::from_bytes::<Sent>(&bytes).unwrap_err();
            assert!(error.to_string().contains("expected at most 16384"), "{error}");
        }
    }
}
