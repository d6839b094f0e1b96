//! Simple mappings from which the local search starts, in addition to the mappings of other planners.

use crate::pipeline::mapping::Block;
use crate::pipeline::model;
use crate::pipeline::model::costs::Costs;
use crate::pipeline::rules::Rules;
use crate::pipeline::spec::PipelineSpec;

pub(in crate::pipeline) fn on_one(costs: &Costs, rules: Rules) -> Vec<Block> {
    let whole = |p: usize| vec![Block::new(0..costs.stages(), vec![p])];
    let mut best = (whole(0), f64::INFINITY);
    for p in 0..costs.processors() {
        let time = model::pace(costs, &whole(p), rules.dispatch);
        if time < best.1 {
            best = (whole(p), time);
        }
    }
    best.0
}

/// Returns the normal form of a mapping: every range of replicable stages is one block on the processors `replicas`, and all other stages are on
/// `serial_host`, or where they are pinned. Unless the normal form is one block, the rules must permit several blocks on one processor.
pub(in crate::pipeline) fn normal_form(
    spec: &PipelineSpec,
    rules: Rules,
    replicas: &[usize],
    serial_host: usize,
) -> Option<Vec<Block>> {
    let mut blocks: Vec<Block> = Vec::new();
    for (n, stage) in spec.stages.iter().enumerate() {
        let hosts =
            if stage.is_replicable() { replicas.to_vec() } else { vec![stage.pinned.unwrap_or(serial_host)] };
        match blocks.last_mut() {
            Some(last) if last.hosts == hosts && (hosts.len() == 1 || rules.replicate_groups) => {
                last.stages.end = n + 1;
            }
            _ => blocks.push(Block::new(n..n + 1, hosts)),
        }
    }
    (rules.share || blocks.len() == 1).then_some(blocks)
}
