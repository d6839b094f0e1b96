//! Flexible mapping for processors that share cores: each item of a replicated stage goes to any replica that is free (dispatch on demand). It
//! replaces the planner's mapping if it is about as fast.
//!
//! If cores are the bottleneck, many mappings have equal production times in the model, and rounding errors in works and speeds decide which of them
//! a search returns. These mappings are not equally good in respects that the model does not include. With replicas on as many ranks as possible,
//! items go where a core has time. If another program uses a core, two ranks on this core together keep two thirds of it, but one rank keeps only
//! half. The *flexible* mapping therefore replicates all replicable stages on all processors that share cores with those of the plan. All other
//! stages are on one processor, or where they are pinned. Processors that would take core time from a long serial stage are left out if the model
//! predicts a gain.

use std::collections::BTreeSet;

use super::starts::normal_form;
use crate::cores::SharedCores;
use crate::pipeline::dispatch::Dispatch;
use crate::pipeline::mapping::Block;
use crate::pipeline::model::costs::Costs;
use crate::pipeline::model::pace;
use crate::pipeline::rules::Rules;
use crate::pipeline::spec::PipelineSpec;

/// Relative loss of speed that is accepted for a flexible mapping. It is less than the error of the measured works and speeds.
const SLOWER: f64 = 0.02;
/// Maximum number of processors on which the stages that cannot be replicated are tried.
const MOST_SERIAL_HOSTS: usize = 4;

/// Returns the flexible mapping that replaces `plan`, and its production time; `None` if no flexible mapping is about as fast as the plan, whose
/// production time is `time`.
pub(in crate::pipeline) fn instead_of(
    (plan, time): (&[Block], f64),
    spec: &PipelineSpec,
    costs: &Costs,
    rules: Rules,
) -> Option<(Vec<Block>, f64)> {
    let groups = costs.shared_cores();
    let is_scarce = |group: &SharedCores| group.cores < group.processors.len() as f64;
    if rules.dispatch != Dispatch::OnDemand || !groups.iter().any(is_scarce) {
        return None;
    }
    let group_of = group_numbers(groups, costs.processors());
    let mut used = vec![false; groups.len() + costs.processors()];
    plan.iter().flat_map(|block| &block.hosts).for_each(|&host| used[group_of[host]] = true);
    let near: Vec<usize> = (0..costs.processors()).filter(|&p| used[group_of[p]]).collect();
    let serial_hosts = serial_hosts(spec, &near, &group_of);
    let shares = |p: usize, q: usize| group_of[p] == group_of[q];
    let partners = |p: usize| near.iter().copied().filter(move |&q| q != p && shares(p, q));
    let replicas = |p: usize, left_out: usize| -> Vec<usize> {
        let others = near.iter().copied().filter(|&q| q == p || !shares(p, q));
        others.chain(partners(p).skip(left_out)).collect()
    };
    let most = serial_hosts.iter().map(|&p| partners(p).count()).max().unwrap_or(0);
    // Numbers of processors to leave out, of those that share cores with the serial stages: 0, 1, 2, 4 and so on, and last all of them.
    let powers = (0..usize::BITS).map(|n| 1 << n).take_while(|left_out| *left_out < most);
    let numbers = [0].into_iter().chain(powers).chain([most]);
    numbers
        .flat_map(|left_out| serial_hosts.iter().map(move |&p| (p, left_out)))
        .filter_map(|(p, left_out)| normal_form(spec, rules, &replicas(p, left_out), p))
        .filter(|blocks| blocks.iter().all(|block| rules.allow(spec, &block.stages, &block.hosts)))
        .map(|blocks| (pace(costs, &blocks, rules.dispatch), blocks))
        .find_map(|(flexible, blocks)| (flexible <= (1.0 + SLOWER) * time).then_some((blocks, flexible)))
}

fn group_numbers(groups: &[SharedCores], processors: usize) -> Vec<usize> {
    let mut group_of: Vec<usize> = (0..processors).map(|p| groups.len() + p).collect();
    for (g, group) in groups.iter().enumerate() {
        group.processors.iter().for_each(|&p| group_of[p] = g);
    }
    group_of
}

/// Returns one processor of each group that shares cores, at most [`MOST_SERIAL_HOSTS`] in all, as candidates to host the stages that cannot be
/// replicated. Groups with the fewest pinned stages come first, to spread the stages that only one rank can run over the cores.
fn serial_hosts(spec: &PipelineSpec, near: &[usize], group_of: &[usize]) -> Vec<usize> {
    let pins: Vec<usize> = spec.stages.iter().filter_map(|stage| stage.pinned).collect();
    let count = |is_there: &dyn Fn(usize) -> bool| pins.iter().filter(|pin| is_there(**pin)).count();
    let mut hosts = near.to_vec();
    hosts.sort_by_key(|&p| (count(&|pin| group_of[pin] == group_of[p]), count(&|pin| pin == p)));
    let mut seen = BTreeSet::new();
    hosts.retain(|&p| seen.insert(group_of[p]));
    hosts.truncate(MOST_SERIAL_HOSTS);
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{Mapping, Plan, PlanOptions, StageSpec, plan, production_time};
    use crate::platform::{Link, Platform};
    use crate::random::Random;

    const LINK: Link = Link { bandwidth: 1e9, setup: 0.01 };

    fn spec() -> PipelineSpec {
        PipelineSpec::new(8.0)
            .stage(StageSpec::new("read", 0.02, 8.0).serial().pinned(0))
            .stage(StageSpec::new("cut", 0.6, 8.0))
            .stage(StageSpec::new("match", 0.9, 8.0))
            .stage(StageSpec::new("track", 1.2, 8.0).serial())
            .stage(StageSpec::new("paint", 0.3, 8.0))
            .stage(StageSpec::new("write", 0.02, 8.0).serial().pinned(0))
    }

    fn pairs(speeds: &[f64], cores: &[f64]) -> Platform {
        let group = |(g, &cores): (usize, &f64)| SharedCores { processors: vec![2 * g, 2 * g + 1], cores };
        let platform =
            Platform::with_speeds(speeds, LINK).unwrap().with_overlap(true).with_ext_on(0).unwrap();
        platform.with_shared_cores(cores.iter().enumerate().map(group).collect()).unwrap()
    }

    fn planned(platform: &Platform, spec: &PipelineSpec) -> Plan {
        plan(platform, spec, &PlanOptions { budget: 8_000, ..PlanOptions::default() }).unwrap()
    }

    fn text(platform: &Platform, spec: &PipelineSpec) -> String {
        planned(platform, spec).mapping.display(spec).to_string()
    }

    #[test]
    fn small_errors_of_works_and_speeds_do_not_change_the_mapping() {
        let mut random = Random::new(5);
        for _ in 0..20 {
            let mut about = |x: f64| x * (1.0 + 0.06 * (random.uniform() - 0.5));
            let mut spec = spec();
            spec.stages.iter_mut().for_each(|stage| stage.work = about(stage.work));
            let faster = about(1.0);
            let found = text(&pairs(&[1.0, 1.0, faster, faster], &[1.0, 1.0]), &spec);
            assert_eq!(found, "read@0 | cut+match@0,1,2 | track@2 | paint@0,1,2 | write@0", "{spec:?}");
        }
    }

    #[test]
    fn later_load_leaves_little_gain() {
        let before = planned(&pairs(&[1.0; 4], &[1.0, 1.0]), &spec()).mapping;
        // Another program computes on the first core: one of two ranks on the core would get half of it, both together get two thirds.
        let loaded = pairs(&[0.5, 0.5, 1.0, 1.0], &[4.0 / 3.0, 1.0]);
        let best = planned(&loaded, &spec()).prediction.production_time;
        let kept = production_time(&loaded, &spec(), &before, Dispatch::OnDemand).unwrap().production_time;
        assert!(kept < 1.03 * best, "{kept} against {best}");
    }

    #[test]
    fn replication_leaves_room_for_a_long_serial_stage() {
        let group = SharedCores { processors: (0..6).collect(), cores: 2.0 };
        let platform = Platform::uniform(6, 1.0, LINK).unwrap().with_overlap(true).with_ext_on(0).unwrap();
        let platform = platform.with_shared_cores(vec![group]).unwrap();
        // The replicated stages run on the host of the serial stage `track` and on only one of the five other processors of the group. With three of
        // these, the model would count on only half a core for `track`, which would then take 2.4 s. A mapping with two of these is not tried.
        assert_eq!(text(&platform, &spec()), "read@0 | cut+match@1,5 | track@1 | paint@1,5 | write@0");
        let mut light = spec();
        light.stages[3].work = 0.1;
        let all = "read@0 | cut+match@0,1,2,3,4,5 | track@1 | paint@0,1,2,3,4,5 | write@0";
        assert_eq!(text(&platform, &light), all);
    }

    #[test]
    fn much_faster_plan_is_kept() {
        let mut spec = spec();
        spec.stages[1] = StageSpec::new("cut", 1.1, 8.0).serial();
        let plan = planned(&pairs(&[1.0; 4], &[1.0, 1.0]), &spec);
        let host = |stage: usize| plan.mapping.blocks[plan.mapping.block_of(stage).unwrap()].hosts[0] / 2;
        assert_ne!(host(1), host(3), "two long serial stages on one core: {:?}", plan.mapping);
    }

    #[test]
    fn processors_on_unused_cores_are_not_added() {
        let mut platform = pairs(&[1.0, 1.0, 1.0, 1.0, 0.01, 0.01], &[1.0, 1.0, 1.0]);
        for near in 0..4 {
            for far in 4..6 {
                platform.set_link(near, far, Link { bandwidth: 1.0, setup: 9.0 }).unwrap();
                platform.set_link(far, near, Link { bandwidth: 1.0, setup: 9.0 }).unwrap();
            }
        }
        let found = text(&platform, &spec());
        assert_eq!(found, "read@0 | cut+match@0,1,2 | track@2 | paint@0,1,2 | write@0");
    }

    #[test]
    fn plan_is_unchanged_if_no_core_is_scarce() {
        let spec = spec();
        for platform in [pairs(&[1.0; 4], &[]), pairs(&[1.0; 4], &[2.0, 2.5])] {
            let costs = Costs::new(&platform, &spec);
            let rules = Rules { dispatch: Dispatch::OnDemand, replicate_groups: true, share: true };
            let found = Mapping::parse("read+cut+match@0 | track@1 | paint+write@0", &spec).unwrap().blocks;
            assert_eq!(instead_of((&found, 9.0), &spec, &costs, rules), None);
        }
    }
}
