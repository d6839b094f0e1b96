//! Tests that plans of blocks of tasks are valid for random workflows and clusters.

use armature_planner::workflow::{Crossing, MemoryModel, PlanOptions, TaskMemory, verify};
use proptest::prelude::*;

use super::*;
use crate::workflow::generate::problem;
use crate::workflow::plan_with_blocks;

fn crossing() -> impl Strategy<Value = Crossing> {
    prop_oneof![Just(Crossing::Transit), Just(Crossing::Resident)]
}

fn model(task_memory: TaskMemory, crossing: Crossing) -> MemoryModel {
    let mut model = MemoryModel::new(task_memory);
    model.crossing = crossing;
    model
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
        let model = model(task_memory, crossing);
        let baseline = dag_het_mem(&graph, &cluster, model);
        let best = dag_het_part(&graph, &cluster, model, &options(2));
        for plan in [&baseline, &best] {
            match plan {
                Ok(plan) => {
                    let verification = verify(&graph, &cluster, plan);
                    prop_assert!(verification.is_valid(), "{:?}", verification.violations);
                    prop_assert_eq!(&verification.peak, &plan.peak);
                }
                Err(error) => prop_assert_eq!(error.kind(), armature_planner::ErrorKind::Infeasible),
            }
        }
        if let Ok(baseline) = baseline {
            let best = best.unwrap().makespan;
            prop_assert!(best <= baseline.makespan, "{best} s, and {} s without", baseline.makespan);
        }
    }

    #[test]
    fn plan_does_not_depend_on_the_thread_count((graph, cluster, task_memory) in problem(100)) {
        let model = model(task_memory, Crossing::Transit);
        let plans = [1, 2, 5].map(|threads| dag_het_part(&graph, &cluster, model, &options(threads)));
        prop_assert_eq!(&plans[0], &plans[1]);
        prop_assert_eq!(&plans[0], &plans[2]);
    }

    #[test]
    fn plan_exists_if_the_baseline_finds_one(
        (graph, cluster, task_memory) in problem(60),
        crossing in crossing(),
    ) {
        let mut options = PlanOptions::default();
        (options.memory, options.evaluations, options.threads) = (model(task_memory, crossing), 4, 1);
        let baseline = dag_het_mem(&graph, &cluster, options.memory);
        match (plan_with_blocks(&graph, &cluster, &options), baseline) {
            (Ok(best), baseline) => {
                prop_assert_eq!(&best.certificate, &verify(&graph, &cluster, &best.plan));
                prop_assert!(best.certificate.is_valid());
                if let Ok(baseline) = baseline {
                    prop_assert!(best.plan.makespan <= baseline.makespan * 1.01);
                }
            }
            (Err(error), baseline) => {
                prop_assert_eq!(error.kind(), armature_planner::ErrorKind::Infeasible);
                prop_assert!(baseline.is_err());
            }
        }
    }
}
