//! Tests that the functions of the farm and loop models do not panic, whatever numbers are passed.

use armature_papers::{
    Barriers, Oscillation, Reaction, block_of_grain, idle_bound, idle_index, iteration_time, real_optima,
    time_bound, unbalanced_time,
};
use armature_planner::farm::{IterationModel, MessageCosts, Protocol, StartUp};
use proptest::prelude::*;

use crate::numbers::{count, in_time, index, number, some};

fn messages() -> impl Strategy<Value = MessageCosts> + Clone {
    (number(), number(), number(), number()).prop_map(|(small, border, large, per_byte)| MessageCosts {
        start_up: StartUp { small, border, large },
        per_byte,
    })
}

proptest! {
    #[test]
    fn loop_equations_accept_any_numbers(
        (ranks, iterations, sequential, fixed) in (index(), count(), number(), number()),
        (blocks, unit, share) in (number(), number(), number()),
        times in some(some(number())),
    ) {
        in_time(move || {
            assert!(block_of_grain(sequential, unit) >= 1);
            let _ = iteration_time(&times);
            let barriers = Barriers { ranks, units: iterations, iterations, unit, barrier: fixed };
            let _ = (barriers.time(), barriers.sequential(), barriers.efficiency());
            let load = Oscillation { ranks, share, off: fixed, on: unit };
            let reaction = Reaction { to_off: blocks, move_back: fixed, to_on: unit, move_away: share };
            let _ = (load.balanced(&reaction), load.unbalanced(), load.unchanged());
        });
    }

    #[test]
    fn farm_equations_accept_any_numbers(
        messages in messages(),
        (volume, out, compute, master) in (number(), number(), number(), number()),
        (to, from, work) in (some(number()), some(number()), some(number())),
        (workers, tasks, mean, deviation) in (index(), count(), number(), number()),
        equation in any::<u8>(),
    ) {
        in_time(move || {
            for protocol in [Protocol::Synchronous, Protocol::Asynchronous] {
                let model = IterationModel { messages, volume, out, compute, master, protocol };
                let _ = real_optima(&model, equation);
                let time = unbalanced_time(&messages, protocol, &to, &from, &work, mean);
                assert_eq!(time.is_ok(), !to.is_empty() && to.len() == from.len() && to.len() == work.len());
            }
            let _ = (idle_index(&work, mean), idle_bound(workers, mean, deviation));
            let _ = time_bound(workers, tasks, mean, deviation);
        });
    }
}
