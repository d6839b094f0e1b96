//! Tests that workflow plans are valid, for random workflows and clusters.

use proptest::prelude::*;

use super::generate::problem;
use super::worth::EQUALLY_LONG;
use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn memory_aware_list_schedules_are_valid((graph, cluster, task_memory) in problem(300)) {
        for level in [Level::Bottom, Level::BottomWithInputs] {
            match heftm(&graph, &cluster, level, task_memory) {
                Ok(plan) => {
                    let verification = verify(&graph, &cluster, &plan);
                    prop_assert!(verification.is_valid(), "{:?}", verification.violations);
                }
                Err(error) => prop_assert_eq!(error.kind(), crate::ErrorKind::Infeasible),
            }
        }
    }

    #[test]
    fn relaxed_list_schedules_are_valid((graph, cluster, task_memory) in problem(300)) {
        match heftm_relaxed(&graph, &cluster, graph.topological_order(), task_memory) {
            Ok(plan) => {
                let verification = verify(&graph, &cluster, &plan);
                prop_assert!(verification.is_valid(), "{:?}", verification.violations);
            }
            Err(error) => prop_assert_eq!(error.kind(), crate::ErrorKind::Infeasible),
        }
    }

    #[test]
    fn plans_can_be_replayed_and_replanned_at_any_moment(
        (graph, cluster, task_memory) in problem(120),
        moment in 0.0..1.0_f64,
        deviation in prop_oneof![Just(0.0), 0.0..0.5_f64],
        seed in any::<u64>(),
        lost in 0..8_usize,
    ) {
        let Ok(plan) = heftm_relaxed(&graph, &cluster, graph.topological_order(), task_memory) else {
            return Ok(());
        };
        let start = Situation::new(&graph, &cluster);
        prop_assert_eq!(retrace(&graph, &cluster, &plan, &start), Some(plan.clone()));

        let mut situation = start.later(&graph, &plan, moment * plan.makespan);
        if lost < cluster.len() {
            situation.lose(&graph, lost);
        }
        let mut random = crate::random::Random::new(seed);
        let measured: Vec<_> = (0..graph.len())
            .map(|task| {
                let mut about = |value: f64| (value * (1.0 + deviation * random.normal())).max(0.0);
                (task, about(graph.work(task)), about(graph.memory(task) as f64) as u64)
            })
            .collect();
        let graph = graph.with_measured(measured).unwrap();
        for plan in [
            retrace(&graph, &cluster, &plan, &situation),
            plan_rest(&graph, &cluster, &situation, task_memory).ok(),
            replan(&graph, &cluster, &plan, &situation, 0.0).ok().map(|replanned| replanned.plan),
        ].into_iter().flatten() {
            let verification = verify_rest(&graph, &cluster, &situation, &plan);
            prop_assert!(verification.is_valid(), "{:?}", verification.violations);
            // The run follows the new plan for some time and is then replanned again. Files that have been moved stay where they are.
            let situation = situation.later(&graph, &plan, situation.now + moment * (plan.makespan - situation.now));
            if let Ok(rest) = plan_rest(&graph, &cluster, &situation, task_memory) {
                let verification = verify_rest(&graph, &cluster, &situation, &rest);
                prop_assert!(verification.is_valid(), "{:?}", verification.violations);
            }
        }
    }

    #[test]
    fn best_plan_is_valid_and_no_planner_is_better((graph, cluster, task_memory) in problem(60)) {
        let memory = MemoryModel { task_memory, ..MemoryModel::default() };
        let options = |threads| PlanOptions { memory, evaluations: 20, threads, ..PlanOptions::default() };
        match plan(&graph, &cluster, &options(1)) {
            Ok(best) => {
                prop_assert!(best.certificate.is_valid());
                prop_assert_eq!(&best.certificate, &verify(&graph, &cluster, &best.plan));
                for attempt in &best.attempts {
                    match &attempt.makespan {
                        Ok(makespan) => prop_assert!(best.plan.makespan <= makespan * (1.0 + EQUALLY_LONG)),
                        Err(error) => prop_assert_eq!(error.kind(), crate::ErrorKind::Infeasible),
                    }
                }
                prop_assert_eq!(plan(&graph, &cluster, &options(3)), Ok(best.clone()));
            }
            Err(error) => prop_assert_eq!(error.kind(), crate::ErrorKind::Infeasible),
        }
    }

    #[test]
    fn heft_violates_only_memory_rules((graph, cluster, task_memory) in problem(300)) {
        let verification = verify(&graph, &cluster, &heft(&graph, &cluster, task_memory));
        let of_memory = verification.count(Rule::Memory) + verification.count(Rule::Buffer);
        prop_assert_eq!(verification.violations.len(), of_memory, "{:?}", verification.violations);
    }
}
