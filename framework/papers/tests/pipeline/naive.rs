//! Exhaustive search for the optimal mapping of a pipeline, without code of the planner.

use armature_planner::Platform;
use armature_planner::pipeline::{Dispatch, PipelineSpec, PlanOptions};
use proptest::prelude::*;

use super::{Instance, ask, dispatch, instance};

/// Computes the production time of a mapping by the formulas of the HeDPM paper, without code of the planner.
fn time(
    platform: &Platform,
    spec: &PipelineSpec,
    blocks: &[(usize, usize, Vec<usize>)],
    dispatch: Dispatch,
) -> f64 {
    let ext = vec![platform.processors()];
    let mut slowest = 0.0_f64;
    for (b, (start, end, hosts)) in blocks.iter().enumerate() {
        let before = if b > 0 { &blocks[b - 1].2 } else { &ext };
        let after = if b + 1 < blocks.len() { &blocks[b + 1].2 } else { &ext };
        let bytes_in = if *start > 0 { spec.stages[start - 1].output } else { spec.input };
        let bytes_out = spec.stages[end - 1].output;
        let times: Vec<f64> = hosts
            .iter()
            .map(|&p| {
                let receive =
                    before.iter().map(|&q| platform.transfer_time(q, p, bytes_in)).fold(0.0, f64::max);
                let send = after.iter().map(|&q| platform.transfer_time(p, q, bytes_out)).fold(0.0, f64::max);
                let work: f64 = spec.stages[*start..*end].iter().map(|stage| stage.work).sum();
                receive + work / platform.speeds()[p] + send
            })
            .collect();
        let time = match dispatch {
            Dispatch::RoundRobin => times.iter().copied().fold(0.0, f64::max) / times.len() as f64,
            _ => 1.0 / times.iter().map(|time| 1.0 / time).sum::<f64>(),
        };
        slowest = slowest.max(time);
    }
    slowest
}

/// Shortest production time of all mappings to disjoint processors. A block of stages may have any set of processors
/// that the options permit.
fn optimum(
    instance: &Instance,
    options: &PlanOptions,
    blocks: &mut Vec<(usize, usize, Vec<usize>)>,
    least: &mut f64,
) {
    let Instance { platform, spec } = instance;
    let start = blocks.last().map_or(0, |block| block.1);
    if start == spec.len() {
        *least = least.min(time(platform, spec, blocks, options.dispatch));
        return;
    }
    for end in start + 1..=spec.len() {
        for set in 1..1_u32 << platform.processors() {
            let hosts: Vec<usize> = (0..platform.processors()).filter(|p| set >> p & 1 == 1).collect();
            let taken = blocks.iter().any(|block| block.2.iter().any(|p| hosts.contains(p)));
            let serial = spec.stages[start..end].iter().any(|stage| stage.serial);
            let group = end - start > 1 && !options.replicate_groups;
            if !taken && (hosts.len() == 1 || !(serial || group)) {
                blocks.push((start, end, hosts));
                optimum(instance, options, blocks, least);
                blocks.pop();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn optimum_equals_exhaustive_enumeration(
        instance in instance(4, 4, false),
        dispatch in dispatch(),
        replicate_groups in any::<bool>(),
    ) {
        let options = PlanOptions {
            dispatch, replicate_groups, share_processors: false, budget: 50_000, ..PlanOptions::default()
        };
        let optimal = ask(&instance, &options, None);
        let mut least = f64::INFINITY;
        optimum(&instance, &options, &mut Vec::new(), &mut least);
        let found = optimal.prediction.production_time;
        prop_assert!(optimal.complete);
        prop_assert!((found - least).abs() <= 1e-9 * least, "{found} is not {least}");
    }
}
