//! Tests of simulations of pipelines and loops with arbitrary systems: no call panics or runs without end.

use armature_papers::simulate::loops::{Balancing, Load, LoopSystem, Sharing};
use armature_papers::simulate::pipeline::simulate;
use armature_planner::loops::{LoopOptions, MovementCosts};
use armature_planner::pipeline::{Dispatch, Mapping, PipelineSpec, StageSpec};
use armature_planner::{Link, Platform};
use proptest::prelude::*;

use crate::numbers::{count, in_time, index, mostly_amount, mostly_positive, positive, some};

/// Generates numbers of pipeline items or loop rows: up to 59, which take little time to simulate, or far too many.
fn few_or_far_too_many() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![4 => 0..60_u64, 1 => Just(u64::MAX), 1 => Just(1 << 40)]
}

fn system() -> impl Strategy<Value = LoopSystem> {
    let load =
        (0..3_usize, mostly_amount(), mostly_positive()).prop_map(|(rank, off, on)| Load { rank, off, on });
    let sharing = prop_oneof![1 => Just(Sharing::Fluid), 2 => mostly_positive().prop_map(Sharing::Turns)];
    let costs = (
        mostly_amount(),
        mostly_amount(),
        mostly_amount(),
        mostly_amount(),
        mostly_amount(),
        mostly_amount(),
    );
    (
        count(),
        few_or_far_too_many(),
        prop::collection::vec(mostly_positive(), 0..4),
        some(load),
        sharing,
        costs,
    )
        .prop_map(
            |(units, passes, speeds, loads, sharing, (unit, noise, fixed, per_unit, interaction, hook))| {
                LoopSystem {
                    units,
                    passes,
                    unit,
                    speeds,
                    loads,
                    sharing,
                    noise,
                    seed: 7,
                    movement: MovementCosts { fixed, per_unit },
                    interaction,
                    hook,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_loop_simulation_ends_or_is_refused(system in system()) {
        in_time(move || {
            let options = LoopOptions::default();
            for balancing in [
                Balancing::Off,
                Balancing::Pipelined(options.clone()),
                Balancing::Synchronous(options.clone()),
                Balancing::Overlapped(options),
            ] {
                let Ok(run) = system.run(&balancing) else { continue };
                assert!(run.elapsed >= 0.0 && run.elapsed.is_finite(), "{balancing:?}: {run:?}");
                assert_eq!(run.held.iter().sum::<u64>(), system.units, "{balancing:?}");
                let _ = run.efficiency();
            }
        });
    }

    #[test]
    fn any_stream_simulation_ends_or_is_refused(
        works in prop::collection::vec(mostly_amount(), 1..4),
        speeds in prop::collection::vec(positive(), 1..4),
        (bandwidth, setup) in (positive(), mostly_amount()),
        hosts in prop::collection::vec(index(), 4),
        items in few_or_far_too_many(),
        window in count(),
        in_turn in any::<bool>(),
    ) {
        in_time(move || {
            let stage = |(n, work): (usize, &f64)| StageSpec::new(format!("s{n}"), *work, 1.0);
            let spec = works.iter().enumerate().map(stage).fold(PipelineSpec::new(1.0), PipelineSpec::stage);
            let Ok(platform) = Platform::with_speeds(&speeds, Link { bandwidth, setup }) else { return };
            let text: Vec<String> =
                (0..works.len()).map(|n| format!("s{n}@{}", hosts[n] % (speeds.len() + 1))).collect();
            let mapping = Mapping::parse(&text.join("|"), &spec).unwrap();
            let dispatch = if in_turn { Dispatch::RoundRobin } else { Dispatch::OnDemand };
            let Ok(stream) = simulate(&platform, &spec, &mapping, dispatch, items, window) else { return };
            assert!(stream.makespan.is_finite() && stream.production_time.is_finite(), "{stream:?}");
            assert!(stream.items.iter().all(|done| done.iter().sum::<u64>() == items), "{stream:?}");
        });
    }
}

#[test]
fn endless_simulations_are_refused_immediately() {
    let system = LoopSystem::equal(2, 100, 10, 1.0);
    let short = Load { rank: 0, off: 1e-12, on: 1e-12 };
    for system in [
        LoopSystem { passes: u64::MAX, ..system.clone() },
        LoopSystem { loads: vec![short], ..system.clone() },
        LoopSystem {
            loads: vec![Load { off: 0.0, on: 1.0, ..short }],
            sharing: Sharing::Turns(1e-12),
            ..system
        },
        LoopSystem::equal(usize::MAX, 100, 10, 1.0),
    ] {
        let error = in_time(move || system.run(&Balancing::Off)).unwrap_err();
        assert!(error.message().contains("steps") || error.message().contains("ranks"), "{error}");
    }
}

/// The simulated loop would run for years and report every 50 ms; the limit of simulation steps ends it with an
/// error.
#[test]
fn simulation_with_too_many_steps_is_aborted() {
    let system = LoopSystem { hook: 1e-9, ..LoopSystem::equal(2, 100, 3, 1e12) };
    let mut options = LoopOptions::default();
    (options.period.quantum, options.period.quantum_scale) = (0.0, 0.0);
    let error = in_time(move || system.run(&Balancing::Overlapped(options))).unwrap_err();
    assert!(error.message().contains("steps"), "{error}");
}
