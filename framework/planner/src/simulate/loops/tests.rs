//! Small systems whose times can be had by hand.

use super::processor::Processor;
use super::*;
use crate::loops::Reach;

fn processor(sharing: Sharing, off: f64, on: f64) -> Processor {
    Processor::new(sharing, Some(Load { rank: 0, off, on }))
}

#[test]
fn a_load_takes_half_while_it_is_on() {
    let mut fluid = processor(Sharing::Fluid, 10.0, 5.0);
    assert_eq!(fluid.compute(0.0, 4.0), 4.0);
    // 1 s until 10, then 2.5 s at half speed until 15, then 0.5 s.
    assert_eq!(fluid.compute(9.0, 4.0), 15.5);
    assert_eq!(fluid.competing(16.0), 2.5);
    // Where the rank does nothing, the load has it all.
    assert_eq!(fluid.competing(30.0), 7.5);
}

#[test]
fn turns_are_taken() {
    let mut turns = processor(Sharing::Turns(1.0), 10.0, 100.0);
    // A turn each, the rank first; it has computed its third second at 15.
    assert_eq!(turns.compute(9.0, 4.0), 15.0);
    // It goes on: the other's turn, then its own.
    assert_eq!(turns.compute(15.0, 0.5), 16.5);
    // It stops at 16.5, and the other begins a turn; whoever comes at 18.75 waits for the end of the third.
    assert_eq!(turns.compute(18.75, 0.5), 20.0);
    assert_eq!(turns.competing(20.0), 10.0 - 3.0 - 0.5 - 0.5);
    // Alone again from 110 on.
    assert_eq!(turns.compute(109.75, 1.0), 111.0);
}

#[test]
fn without_loads_all_ranks_are_busy_all_of_the_time() {
    let mut system = LoopSystem::equal(4, 1000, 50, 0.5);
    let run = system.run(&Balancing::Off).unwrap();
    assert!((run.efficiency() - 1.0).abs() < 1e-9 && (run.elapsed - 25.0).abs() < 1e-9);
    // Interactions may take a twentieth of the time: after the first pass, then after every fourth.
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
fn what_cannot_be_simulated_is_refused() {
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
    ];
    for system in bad {
        assert_eq!(system.run(&Balancing::Off).unwrap_err().kind(), ErrorKind::Loop, "{system:?}");
    }
    let empty = LoopSystem::equal(3, 0, 10, 1.0).run(&Balancing::Pipelined(LoopOptions::default())).unwrap();
    assert_eq!((empty.elapsed, empty.movements), (0.0, 0));
}
