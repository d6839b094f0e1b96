//! Placement of unreplicated blocks of stages on the processors on which an item waits least for other items.
//!
//! In the model the placement of a short serial stage has almost no effect. A real processor, however, finishes its current item before it runs
//! another block. On a slow processor that also runs long items, the whole stream repeatedly waits for these items: the items in flight accumulate
//! there, and the other processors run out of work.

use super::edit::Edit;
use super::search::Search;
use super::state::State;
use crate::range::is_less;

/// Multiple of the production time below which the waiting time of an item does not matter: the pipeline has at least this number of items in flight,
/// which keep the other processors busy meanwhile.
const SHORT: f64 = 4.0;
/// Maximum ratio of the new waiting time to the old one for which a block of stages is moved; smaller improvements are within the error of item
/// times.
const WORTH_MOVING: f64 = 0.9;

/// Moves unreplicated blocks of stages that share their processor with other blocks to processors where an item finishes sooner, if the production
/// time does not exceed `limit`.
pub(in crate::pipeline) fn shorten(search: &mut Search<'_>, mut state: State, limit: f64) -> State {
    let mut edit = Edit::default();
    let mut places: Vec<(f64, usize)> = Vec::new();
    for b in 0..state.timed_blocks.len() {
        let &[host] = &state.timed_blocks[b].hosts[..] else { continue };
        if state.uses[host] < 2 {
            continue;
        }
        let longest = longest_items(&state, b);
        let stages = state.timed_blocks[b].stages.clone();
        if longest[host] < SHORT * state.score.time {
            continue;
        }
        let now = longest[host] + state.timed_blocks[b].times[0];
        places.clear();
        for (p, &wait) in longest.iter().enumerate().filter(|&(p, wait)| p != host && *wait < now) {
            let through = wait + search.judge.item_time(&state, b, p);
            if through < WORTH_MOVING * now {
                places.push((through, p));
            }
        }
        places.sort_unstable_by(|x, y| x.0.total_cmp(&y.0).then(x.1.cmp(&y.1)));
        for &(_, p) in &places {
            if !search.has_budget() {
                return state;
            }
            edit.clear().cut(b..b + 1).block(stages.clone(), [p]);
            if search.judge.judge(&state, &mut edit).is_some_and(|score| !is_less(limit, score.time)) {
                state = search.judge.apply(&state, &mut edit);
                break;
            }
        }
    }
    state
}

fn longest_items(state: &State, b: usize) -> Vec<f64> {
    let mut longest = vec![0.0; state.uses.len()];
    for (_, timed_block) in state.timed_blocks.iter().enumerate().filter(|&(i, _)| i != b) {
        for (&p, &time) in timed_block.hosts.iter().zip(&timed_block.times) {
            longest[p] = f64::max(longest[p], time);
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use crate::pipeline::{Mapping, PipelineSpec, PlanOptions, StageSpec, plan, production_time};
    use crate::platform::{Link, Platform};

    fn spec() -> PipelineSpec {
        PipelineSpec::new(0.0)
            .stage(StageSpec::new("load", 0.5, 0.0).serial().pinned(0))
            .stage(StageSpec::new("rank", 9.0, 0.0))
            .stage(StageSpec::new("out", 0.001, 0.0).serial())
    }

    #[test]
    fn short_serial_stage_avoids_a_slow_host() {
        // Without [`shorten`], the last stage would be on the slow host: the set-up time of its messages occupies its host, and occupying the slowest
        // host costs the least throughput.
        let link = Link { bandwidth: 1e9, setup: 0.02 };
        let platform = Platform::with_speeds(&[2.0, 2.0, 2.0, 2.0, 0.1], link).unwrap().with_overlap(true);
        let (spec, platform) = (spec(), platform.with_ext_on(0).unwrap());
        let planned = plan(&platform, &spec, &PlanOptions::default()).unwrap();
        let out = planned.mapping.blocks.last().unwrap();
        let rank = planned.mapping.block_of(1).unwrap();
        // The stage named `rank` uses all hosts, and takes 90 s for an item on the slow host 4, but 4.5 s on the others. If the last stage `out` ran
        // on host 4, its items could wait there for up to 90 s until host 4 has finished an item of stage `rank`.
        assert_eq!(planned.mapping.blocks[rank].hosts, [0, 1, 2, 3, 4], "{:?}", planned.mapping);
        assert_ne!(out.hosts, [4]);
        let slow = Mapping::parse("load@0 | rank@0,1,2,3,4 | out@4", &spec).unwrap();
        let slow = production_time(&platform, &spec, &slow, PlanOptions::default().dispatch).unwrap();
        assert!(planned.prediction.production_time <= slow.production_time * 1.02);
    }
}
