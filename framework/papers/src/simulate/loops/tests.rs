//! Tests of simulated loops whose times can be computed by hand.

use armature_planner::ErrorKind;
use armature_planner::loops::{MovementCosts, Reach};

use super::processor::Processor;
use super::worker::SimulatedWorker;
use super::*;

fn processor(sharing: Sharing, off: f64, on: f64) -> Processor {
    Processor::new(sharing, Some(Load { rank: 0, off, on }), Effort::default())
}

#[test]
fn active_load_takes_half_of_the_processor() {
    let mut fluid = processor(Sharing::Fluid, 10.0, 5.0);
    assert_eq!(fluid.compute(0.0, 4.0), 4.0);
    // The rank computes 1 s from 9 s until the competing load starts at 10 s, 2.5 s at half speed until the load
    // stops at 15 s, and then 0.5 s.
    assert_eq!(fluid.compute(9.0, 4.0), 15.5);
    assert_eq!(fluid.competing(16.0), 2.5);
    assert_eq!(fluid.competing(30.0), 7.5);
}

#[test]
fn rank_reports_no_more_units_than_it_holds() {
    // This number is not a 64-bit floating-point number, and the nearest one is larger.
    let held = (1 << 60) - 1;
    let mut worker = SimulatedWorker::new(Processor::new(Sharing::Fluid, None, Effort::default()), held);
    worker.begin(0.0, 1.0);
    assert_eq!(worker.report(0.0, 0.0).held, held);
}

#[test]
fn time_slices_alternate_between_rank_and_load() {
    let mut turns = processor(Sharing::Turns(1.0), 10.0, 100.0);
    // From 10 s on, rank and competing load take turns of 1 s, the rank first. The rank begins at 9 s and has had 4 s
    // of computing at 15 s.
    assert_eq!(turns.compute(9.0, 4.0), 15.0);
    // The rank computes for another 0.5 s, after a turn of 1 s of the competing load.
    assert_eq!(turns.compute(15.0, 0.5), 16.5);
    // The rank stops at 16.5 s and the competing load begins turns of 1 s. A rank that wants to compute at 18.75 s
    // waits until the third turn of the load ends at 19.5 s.
    assert_eq!(turns.compute(18.75, 0.5), 20.0);
    assert_eq!(turns.competing(20.0), 10.0 - 3.0 - 0.5 - 0.5);
    // The competing load stops at 110 s, and the rank has the whole processor again.
    assert_eq!(turns.compute(109.75, 1.0), 111.0);
}

#[test]
fn all_ranks_are_always_busy_without_loads() {
    let mut system = LoopSystem::equal(4, 1000, 50, 0.5);
    let run = system.run(&Balancing::Off).unwrap();
    assert!((run.efficiency() - 1.0).abs() < 1e-9 && (run.elapsed - 25.0).abs() < 1e-9);
    // Reports of all ranks to the balancer cost 0.1 s each time, and altogether may take a twentieth of the run time.
    // The ranks report after the first of the 50 passes, then after every fourth pass.
    system.interaction = 0.1;
    let balanced = system.run(&Balancing::Pipelined(LoopOptions::default())).unwrap();
    assert_eq!((balanced.movements, balanced.decisions.len()), (0, 13));
    assert!((balanced.elapsed - 26.3).abs() < 1e-9);
}

#[test]
fn unequal_ranks_are_balanced_by_one_movement() {
    for reach in [Reach::Anywhere, Reach::Neighbours] {
        let mut system = LoopSystem::equal(16, 16_000, 400, 0.5);
        system.speeds = (0..16).map(|rank| f64::from(1 + rank % 8)).collect();
        system.interaction = 0.005;
        system.movement = MovementCosts { fixed: 0.03, per_unit: 1e-4 };
        let equal = system.run(&Balancing::Off).unwrap();
        assert!((equal.efficiency() - 1.0 / 4.5).abs() < 1e-3, "the slowest decides");
        let options = LoopOptions { reach, ..LoopOptions::default() };
        let run = system.run(&Balancing::Pipelined(options)).unwrap();
        assert_eq!(run.movements, 1);
        assert!(run.efficiency() > 0.95, "{reach:?}: {}", run.efficiency());
        assert_eq!(run.held.iter().sum::<u64>(), 16_000);
    }
}

#[test]
fn invalid_systems_are_refused() {
    let good = LoopSystem::equal(2, 10, 1, 1.0);
    let load = Load { rank: 0, off: 1.0, on: 1.0 };
    let bad = [
        LoopSystem { speeds: Vec::new(), ..good.clone() },
        LoopSystem { speeds: vec![1.0, 0.0], ..good.clone() },
        LoopSystem { loads: vec![load, load], ..good.clone() },
        LoopSystem { loads: vec![Load { rank: 2, ..load }], ..good.clone() },
        LoopSystem { loads: vec![Load { on: 0.0, ..load }], ..good.clone() },
        LoopSystem { sharing: Sharing::Turns(0.0), ..good.clone() },
        LoopSystem { noise: f64::NAN, ..good.clone() },
        LoopSystem { hook: -1.0, ..good.clone() },
    ];
    for system in bad {
        assert_eq!(system.run(&Balancing::Off).unwrap_err().kind(), ErrorKind::Loop, "{system:?}");
    }
    let empty = LoopSystem::equal(3, 0, 10, 1.0).run(&Balancing::Pipelined(LoopOptions::default())).unwrap();
    assert_eq!((empty.elapsed, empty.movements), (0.0, 0));
    let empty = LoopSystem::equal(3, 0, 10, 1.0).run(&Balancing::Overlapped(LoopOptions::default())).unwrap();
    assert_eq!((empty.elapsed, empty.movements), (0.0, 0));
}

#[test]
fn work_done_by_a_time_is_predicted() {
    let mut fluid = processor(Sharing::Fluid, 10.0, 5.0);
    fluid.compute(0.0, 4.0);
    let done = [8.0, 9.0, 9.5, 10.0, 12.0, 15.5].map(|limit| fluid.done_by(9.0, limit));
    assert_eq!(done, [0.0, 0.0, 0.5, 1.0, 2.0, 4.0]);
    let turns = processor(Sharing::Turns(1.0), 10.0, 100.0);
    // The rank makes no progress during the turns of the competing load.
    let done = [10.5, 11.0, 11.5, 12.0, 12.5, 13.5].map(|limit| turns.done_by(9.0, limit));
    assert_eq!(done, [1.5, 2.0, 2.0, 2.0, 2.5, 3.0]);
}

/// System of one pass on two ranks, of which the first takes 5 ms for a row or index of the loop and the second 10
/// ms.
fn two_unequal() -> LoopSystem {
    let mut system = LoopSystem::equal(2, 100, 1, 0.5);
    system.speeds = vec![2.0, 1.0];
    system.movement.per_unit = 1e-3;
    system
}

#[test]
fn units_move_within_a_pass_while_ranks_compute() {
    let mut system = two_unequal();
    let overlapped = Balancing::Overlapped(LoopOptions::default());
    // Units are rows or indices of the loop. Rank 0 has computed its 50 units after 250 ms, when 25 units of rank 1
    // are left, and receives 17 of them. These units arrive at 267 ms and would take until 352 ms. Rank 1 has no
    // units left at 330 ms, when rank 0 has not begun 4 of the 17 units, and receives one of the 4.
    let run = system.run(&overlapped).unwrap();
    let moved: Vec<u64> = run.decisions.iter().flat_map(|d| &d.moves).map(|m| m.units).collect();
    assert_eq!((moved, run.movements, run.held), (vec![17, 1], 2, vec![66, 34]));
    assert!((run.moving - 0.018).abs() < 1e-9 && (run.elapsed - 0.347).abs() < 1e-9, "{}", run.elapsed);
    // If rank 1 reports 10 ms later, at its next hook (poll for messages), 24 of its rows or indices are left, of
    // which 16 move.
    system.hook = 0.01;
    let run = system.run(&overlapped).unwrap();
    assert_eq!((run.decisions[0].now, run.decisions[0].moves[0].units), (0.26, 16));
    // Now each movement of rows or indices also costs 0.1 s of computing time of both ranks.
    system.hook = 0.0;
    system.movement.fixed = 0.1;
    let run = system.run(&overlapped).unwrap();
    assert!((run.elapsed - 0.452).abs() < 1e-9, "both lose a tenth of a second: {}", run.elapsed);
    assert_eq!(run.movements, 1, "a second one would take longer than what it saves");
}

#[test]
fn overlapped_movement_follows_loads_and_keeps_all_units() {
    let mut system = LoopSystem::equal(4, 1000, 120, 0.5);
    system.loads = vec![Load { rank: 0, off: 10.0, on: 10.0 }];
    (system.noise, system.movement.per_unit) = (0.01, 1e-3);
    for sharing in [Sharing::Fluid, Sharing::Turns(0.01)] {
        system.sharing = sharing;
        let [met, overlapped] = [Balancing::Pipelined, Balancing::Overlapped].map(|balancing| {
            let run = system.run(&balancing(LoopOptions::default())).unwrap();
            assert_eq!(run.held.iter().sum::<u64>(), 1000);
            run.efficiency()
        });
        assert!(overlapped > met + 0.03 && overlapped < 1.0, "{overlapped} and {met}, {sharing:?}");
    }
    // Without a time quantum, only the cost of the reports limits how often ranks may report.
    let mut options = LoopOptions::default();
    options.period.quantum = 0.0;
    system.passes = 20;
    let run = system.run(&Balancing::Overlapped(options)).unwrap();
    assert!(run.efficiency() > 0.98 && run.efficiency() <= 1.0, "{}", run.efficiency());
}
