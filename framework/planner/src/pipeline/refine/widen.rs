//! Where processors share cores, replicated blocks get more of those that are on their cores already.
//!
//! By the model a second one adds nothing: the core is as fast for both together. But a fair scheduler counts threads. When
//! a load comes to the core, two of ours keep two thirds of it where one keeps half, at once and without another mapping.
//! What the model does say is whether the second one gets in the way of a serial stage there; then it stays out.

use super::Search;
use super::edit::Edit;
use super::state::State;
use crate::pipeline::plan::Dispatch;

/// Adds processors to blocks that may be replicated, the longest first, if the pace stays within `limit`; a block takes none
/// from a longer one.
pub(super) fn widen(search: &mut Search<'_>, mut state: State, limit: f64) -> State {
    if search.rules().dispatch != Dispatch::OnDemand {
        return state;
    }
    let groups = search.judge.problem.costs.shared_cores();
    let mut longest_first: Vec<usize> = (0..state.pieces.len()).collect();
    let item = |b: &usize| state.pieces[*b].times[0];
    longest_first.sort_by(|a, b| item(b).total_cmp(&item(a)));
    let mut edit = Edit::default();
    for (turn, &b) in longest_first.iter().enumerate() {
        for group in groups {
            for &p in &group.processors {
                let hosts = &state.pieces[b].hosts;
                let is_near = hosts.iter().any(|host| group.processors.contains(host));
                let is_taken = longest_first[..turn].iter().any(|&c| {
                    let longer = &state.pieces[c].hosts;
                    longer.len() > 1 && longer.contains(&p)
                });
                let may = search.may_replicate(&state.pieces[b].stages);
                if !may || !is_near || is_taken || hosts.contains(&p) {
                    continue;
                }
                if !search.goes_on() {
                    return state;
                }
                with_one_more(&state, b, p, &mut edit);
                if search.judge.judge(&state, &mut edit).is_some_and(|score| score.time <= limit) {
                    state = search.judge.apply(&state, &mut edit);
                }
            }
        }
    }
    state
}

/// Block `b` on `p`, too. Replicated blocks share all their processors or none: those on the same processors as `b` get
/// `p` as well, others that are on it give it up.
fn with_one_more(state: &State, b: usize, p: usize, edit: &mut Edit) {
    edit.clear();
    let hosts = &state.pieces[b].hosts;
    for (c, other) in state.pieces.iter().enumerate() {
        let is_with_b = other.hosts.len() == hosts.len() && other.hosts.iter().all(|q| hosts.contains(q));
        if c == b || (other.hosts.len() > 1 && is_with_b) {
            edit.cut(c..c + 1).block(other.stages.clone(), other.hosts.iter().copied().chain([p]));
        } else if other.hosts.len() > 1 && other.hosts.contains(&p) {
            let others = other.hosts.iter().copied().filter(|q| *q != p);
            edit.cut(c..c + 1).block(other.stages.clone(), others);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SharedCores;
    use crate::pipeline::costs::Costs;
    use crate::pipeline::plan::Stop;
    use crate::pipeline::refine::Problem;
    use crate::pipeline::rules::Rules;
    use crate::pipeline::{Block, Mapping, PipelineSpec, PlanOptions, StageSpec, plan, production_time};
    use crate::platform::{Link, Platform};

    fn spec() -> PipelineSpec {
        PipelineSpec::new(0.0)
            .stage(StageSpec::new("read", 0.02, 0.0).serial().pinned(0))
            .stage(StageSpec::new("match", 1.5, 0.0))
            .stage(StageSpec::new("track", 1.2, 0.0).serial())
            .stage(StageSpec::new("paint", 0.3, 0.0))
            .stage(StageSpec::new("write", 0.02, 0.0).serial().pinned(0))
    }

    /// Four processors, of which two at a time have one core; those of the first pair are as fast as is said, and have so
    /// many cores.
    fn platform(speed: f64, cores: f64) -> Platform {
        let groups = [(0, cores), (2, 1.0)];
        let groups = groups.map(|(first, cores)| SharedCores { processors: vec![first, first + 1], cores });
        Platform::with_speeds(&[speed, speed, 1.0, 1.0], Link::FREE)
            .with_shared_cores(groups.to_vec())
            .unwrap()
    }

    /// What becomes of a mapping by this step alone.
    fn widened(from: &str) -> String {
        let (platform, spec) = (platform(1.0, 1.0), spec());
        let from = Mapping::parse(from, &spec).unwrap();
        let costs = Costs::new(&platform, &spec);
        let rules = Rules { dispatch: Dispatch::OnDemand, replicate_groups: true, share: true };
        let stop = Stop::never();
        let mut search = Search::new(Problem::new(&spec, &costs, rules), 1000, &stop);
        let state = search.judge.state(&from.blocks);
        let limit = 1.02 * state.score.time;
        let wide = widen(&mut search, state, limit);
        let sorted = |mut hosts: Vec<usize>| {
            hosts.sort_unstable();
            hosts
        };
        let blocks = wide.pieces.into_iter().map(|piece| Block::new(piece.stages, sorted(piece.hosts)));
        Mapping::new(blocks.collect()).display(&spec).to_string()
    }

    #[test]
    fn partners_help_unless_a_serial_stage_needs_their_core() {
        let plan = plan(&platform(1.0, 1.0), &spec(), &PlanOptions::default()).unwrap();
        assert_eq!(
            plan.mapping.display(&spec()).to_string(),
            "read@0 | match@0,1,2 | track@2 | paint+write@0"
        );
    }

    #[test]
    fn a_longer_block_takes_partners_from_a_shorter_one_and_not_the_other_way_round() {
        let from = "read@0 | match@0,2 | track@2 | paint@1,3 | write@0";
        assert_eq!(widened(from), "read@0 | match@0,1,2 | track@2 | paint@3 | write@0");
    }

    #[test]
    fn a_load_that_comes_later_finds_them_at_work() {
        let before = plan(&platform(1.0, 1.0), &spec(), &PlanOptions::default()).unwrap();
        // One of two has half of the first core then, and both have two thirds of it.
        let loaded = platform(0.5, 4.0 / 3.0);
        let best = plan(&loaded, &spec(), &PlanOptions::default()).unwrap().prediction.production_time;
        let kept = production_time(&loaded, &spec(), &before.mapping, Dispatch::OnDemand).unwrap();
        assert!(kept.production_time < 1.01 * best, "{} against {best}", kept.production_time);
    }
}
