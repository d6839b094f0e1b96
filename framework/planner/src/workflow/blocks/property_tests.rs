//! Tests that plans of blocks keep the rules, for any workflow and cluster.

use proptest::prelude::*;

use super::*;
use crate::workflow::property_tests::problem;
use crate::workflow::*;

fn crossing() -> impl Strategy<Value = Crossing> {
    prop_oneof![Just(Crossing::Transit), Just(Crossing::Resident)]
}

fn options(threads: usize) -> DagHetPart {
    DagHetPart { threads, ..DagHetPart::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn plans_are_valid_and_never_worse_than_the_baseline(
        (graph, cluster, task_memory) in problem(300),
        crossing in crossing(),
    ) {
        let model = MemoryModel { task_memory, crossing };
        let baseline = dag_het_mem(&graph, &cluster, model);
        let best = dag_het_part(&graph, &cluster, model, &options(2));
        for plan in [&baseline, &best] {
            match plan {
                Ok(plan) => {
                    let verdict = verify(&graph, &cluster, plan);
                    prop_assert!(verdict.is_valid(), "{:?}", verdict.violations);
                    prop_assert_eq!(&verdict.peak, &plan.peak);
                }
                Err(error) => prop_assert_eq!(error.kind(), crate::ErrorKind::Infeasible),
            }
        }
        if let Ok(baseline) = baseline {
            let best = best.unwrap().makespan;
            prop_assert!(best <= baseline.makespan, "{best} s, and {} s without", baseline.makespan);
        }
    }

    #[test]
    fn threads_change_nothing((graph, cluster, task_memory) in problem(100)) {
        let model = MemoryModel { task_memory, crossing: Crossing::Transit };
        let plans = [1, 2, 5].map(|threads| dag_het_part(&graph, &cluster, model, &options(threads)));
        prop_assert_eq!(&plans[0], &plans[1]);
        prop_assert_eq!(&plans[0], &plans[2]);
    }
}
