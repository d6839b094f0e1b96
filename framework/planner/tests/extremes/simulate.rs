//! Tests of the farm simulations by which chunk sizes are chosen, with arbitrary times: no simulation panics or runs without end.

use armature_planner::farm::{Chunker, Chunking, Knowledge, MessageCosts, Published};
use armature_planner::simulate::farm::{Dispatch as Farmed, Farm, Tasks};
use proptest::prelude::*;

use crate::farm::ahead;
use crate::numbers::{in_time, index, number, some};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_simulated_farm_completes_all_tasks(
        times in prop::collection::vec(number(), 0..60),
        workers in some(index()),
        slowness in some(number()),
        (small, per_byte, latency, bytes, now) in (number(), number(), number(), number(), number()),
        (ahead, master, inline) in (ahead(), prop::option::of(index()), any::<bool>()),
    ) {
        in_time(move || {
            let messages = MessageCosts::new(small, per_byte);
            let knowledge =
                Knowledge { now, messages, latency, task_bytes: bytes, result_bytes: bytes, ahead, master };
            let farm = Farm::new(knowledge);
            let farm = if inline { farm.with_inline_master() } else { farm };
            let tasks = Tasks::new(&times);
            for chunking in [Chunking::Auto, Chunking::fixed(3), Chunking::Policy(Published::AwfB), Chunking::Policy(Published::Dpf)] {
                let mut chunker = Chunker::new(chunking);
                let mut dispatch = Farmed::new(&mut chunker, &tasks, knowledge).with_slowness(&slowness);
                for run in [dispatch.iteration(&farm, &workers), dispatch.iteration(&farm, &workers), dispatch.stream(&farm, &workers)] {
                    assert!(run.time >= 0.0 && run.time.is_finite(), "{chunking}: {run:?}");
                    assert_eq!(run.chunks > 0, !times.is_empty() && !workers.is_empty(), "{chunking}: {run:?}");
                }
            }
            for (first, tasks_of) in [(0, u64::MAX), (u64::MAX, u64::MAX), (u64::MAX, 1)] {
                let (sum, squares) = tasks.sums(first, tasks_of);
                assert!(sum >= 0.0 && squares >= 0.0);
            }
        });
    }
}
