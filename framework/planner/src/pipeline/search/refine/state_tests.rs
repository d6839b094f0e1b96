//! Tests that the evaluation of an edit (change of a mapping) agrees with that of the resulting mapping.

use super::*;
use crate::pipeline::{Mapping, StageSpec};
use crate::platform::{Link, Platform};

#[test]
fn incremental_times_equal_recomputed_times() {
    let mut spec = PipelineSpec::new(3.0);
    for n in 0..6 {
        spec = spec.stage(StageSpec::new(format!("s{n}"), 1.0 + n as f64, 2.0 + n as f64));
    }
    let mut platform =
        Platform::with_speeds(&[1.0, 2.0, 3.0, 4.0], Link { bandwidth: 7.0, setup: 0.1 }).unwrap();
    platform.set_link(0, 2, Link { bandwidth: 1.0, setup: 0.5 }).unwrap();
    let costs = Costs::new(&platform, &spec);
    for dispatch in [Dispatch::RoundRobin, Dispatch::OnDemand] {
        let rules = Rules { dispatch, replicate_groups: true, share: true };
        let mut judge = Judge::new(Problem::new(&spec, &costs, rules));
        let start = Mapping::parse("s0@3 | s1+s2@0 | s3+s4@1 | s5@2", &spec).unwrap();
        let state = judge.state(&start.blocks);
        let mut edit = Edit::default();
        let mut compare = |edit: &mut Edit| {
            let after = judge.apply(&state, edit);
            if let Some(score) = judge.judge(&state, edit) {
                assert!((score.time - after.score.time).abs() < 1e-12, "{edit:?}");
            } else {
                let worse = after.score.time > state.score.time;
                assert!(worse || judge.overlaps_in_part(&after), "{edit:?}");
            }
        };
        compare(edit.clear().cut(1..2).block(1..3, [0, 2]));
        compare(edit.clear().cut(2..4).block(3..6, [1, 2]));
        compare(edit.clear().cut(3..4).block(5..6, [0]).cut(1..2).block(1..3, [2]));
        compare(edit.clear().cut(0..1).block(0..1, [2]).cut(2..3).block(3..4, [1]).block(4..5, [3]));
        compare(edit.clear().cut(1..3).block(1..4, [0]).block(4..5, [1]));
        compare(edit.clear().cut(0..4).block(0..6, [0, 1, 2, 3]));
    }
}
