//! Repair of mappings whose planners ignore that stages are pinned to processors.

use std::ops::Range;

use crate::pipeline::mapping::Block;
use crate::pipeline::rules::Rules;
use crate::pipeline::spec::PipelineSpec;

/// Returns the mapping with every pinned stage on the processor to which it is pinned, or `None` if that needs a shared processor and the rules
/// exclude sharing.
pub(in crate::pipeline) fn repair(
    spec: &PipelineSpec,
    rules: Rules,
    blocks: Vec<Block>,
) -> Option<Vec<Block>> {
    if blocks.iter().all(|block| rules.allow(spec, &block.stages, &block.hosts)) {
        return Some(blocks);
    }
    if rules.share { Some(split_out(spec, blocks)) } else { pinned_intervals(spec) }
}

fn split_out(spec: &PipelineSpec, blocks: Vec<Block>) -> Vec<Block> {
    let mut repaired: Vec<Block> = Vec::new();
    for block in blocks {
        let mut start = block.stages.start;
        while start < block.stages.end {
            let pinned = spec.stages[start].pinned;
            let end = (start..block.stages.end)
                .find(|&n| spec.stages[n].pinned != pinned)
                .unwrap_or(block.stages.end);
            let hosts = pinned.map_or_else(|| block.hosts.clone(), |pin| vec![pin]);
            match repaired.last_mut() {
                Some(last) if last.hosts == hosts && hosts.len() == 1 => last.stages.end = end,
                _ => repaired.push(Block::new(start..end, hosts)),
            }
            start = end;
        }
    }
    repaired
}

/// Returns a mapping without shared processors: all stages from the first to the last that are pinned to one processor are one block on that
/// processor. Stages outside these ranges join the block before them, or the first block.
fn pinned_intervals(spec: &PipelineSpec) -> Option<Vec<Block>> {
    let mut blocks: Vec<Block> = Vec::new();
    for (n, pin) in spec.stages.iter().enumerate().filter_map(|(n, stage)| Some((n, stage.pinned?))) {
        match blocks.iter().position(|block| block.hosts == [pin]) {
            None => blocks.push(Block::new(n..n + 1, vec![pin])),
            Some(b) if b + 1 == blocks.len() => blocks[b].stages.end = n + 1,
            // No mapping without shared processors exists if a stage pinned to another processor lies between
            // two stages that are pinned to this processor.
            Some(_) => return None,
        }
    }
    let starts: Vec<usize> = blocks.iter().skip(1).map(|block| block.stages.start).collect();
    let ends = starts.into_iter().chain([spec.len()]);
    let mut start = 0;
    for (block, end) in blocks.iter_mut().zip(ends) {
        block.stages = Range { start, end };
        start = end;
    }
    Some(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{Dispatch, Mapping, StageSpec};

    fn repaired(pins: &[Option<usize>], share: bool, text: &str) -> Option<String> {
        let mut spec = PipelineSpec::new(0.0);
        for (n, pin) in pins.iter().enumerate() {
            spec = spec.stage(StageSpec { pinned: *pin, ..StageSpec::new(format!("s{n}"), 1.0, 0.0) });
        }
        let rules = Rules { dispatch: Dispatch::OnDemand, replicate_groups: true, share };
        let mapping = Mapping::parse(text, &spec).unwrap();
        repair(&spec, rules, mapping.blocks).map(|blocks| Mapping::new(blocks).display(&spec).to_string())
    }

    #[test]
    fn pinned_stages_are_split_from_their_blocks() {
        let pins = [Some(0), None, None, Some(0)];
        assert_eq!(repaired(&pins, true, "s0+s1@0 | s2+s3@1,2").unwrap(), "s0+s1@0 | s2@1,2 | s3@0");
        assert_eq!(repaired(&pins, true, "s0+s1+s2+s3@1").unwrap(), "s0@0 | s1+s2@1 | s3@0");
    }

    #[test]
    fn pins_claim_whole_intervals_without_sharing() {
        assert_eq!(repaired(&[Some(0), None, Some(0)], false, "s0@1 | s1@0 | s2@2").unwrap(), "s0+s1+s2@0");
        assert_eq!(
            repaired(&[None, Some(1), None, Some(2)], false, "s0+s1+s2+s3@0").unwrap(),
            "s0+s1+s2@1 | s3@2"
        );
        assert_eq!(repaired(&[Some(0), Some(1), Some(0)], false, "s0+s1+s2@0"), None);
    }
}
