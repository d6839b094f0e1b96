//! Plans of small workflows, beside the best of all plans.

use super::best::plan_by_heuristics;
use super::exhaustive::Search;
use super::*;
use crate::random::Random;

fn joins(seed: u64) -> (Workflow, Cluster) {
        let mut random = Random::new(seed);
        let mut below = |n: usize| (random.uniform() * n as f64) as usize;
        let (tasks, processors) = (5 + below(4), 2 + below(2));
        let size = [2, 20, 200][below(3)];
        let mut builder = Workflow::builder();
        for task in 0..tasks {
            builder.task(format!("t{task}"), 1.0 + below(4) as f64, 1);
        }
        for task in 0..tasks - 1 {
            let first = task + 1 + below(tasks - 1 - task);
            builder.edge(task, first, (1+below(size)) as u64);
            let second = task + 1 + below(tasks - 1 - task);
            if second != first && below(4) == 0 { builder.edge(task, second, (1+below(size)) as u64); }
        }
        let cluster = Cluster::new(vec![Processor::new("p", 1.0, 1 << 40); processors], 4.0).unwrap();
        (builder.build().unwrap(), cluster)
}

#[test]
fn scratch() {
    let mut per = std::collections::BTreeMap::<String, usize>::new();
    let mut only = std::collections::BTreeMap::<String, usize>::new();
    let (mut off, mut worst, mut n, mut infinite) = (0, 1.0_f64, 0, 0);
    let mut ratios = vec![];
    for seed in 0..96 {
        let (graph, cluster) = joins(seed);
        let options = PlanOptions { threads: 1, ..PlanOptions::default() };
        let best = plan_by_heuristics(&graph, &cluster, &options).unwrap();
        let known = best.plan.makespan * (1.0 + 1e-12);
        let mut search = Search::new(&graph, &cluster, TaskMemory::Additive, known, usize::MAX);
        search.run();
        let ratio = best.plan.makespan / search.shortest;
        let least = best.attempts.iter().filter(|a| a.planner != Planner::LocalSearch).filter_map(|a| a.makespan.as_ref().ok()).fold(f64::INFINITY, |a, &b| a.min(b));
        let winners: Vec<String> = best.attempts.iter().filter(|a| a.makespan.as_ref().is_ok_and(|&m| m <= least * 1.0000001)).map(|a| a.planner.to_string()).collect();
        if winners.len() == 1 { *only.entry(winners[0].clone()).or_default() += 1; }
        for w in winners { *per.entry(w).or_default() += 1; }
        let used = usize::MAX - search.left;
        infinite += usize::from(used > 30_000);
        ratios.push(least / search.shortest);
        let old = best.attempts.iter().filter(|a| !matches!(a.planner, Planner::LocalSearch|Planner::ClusteredBl(_)|Planner::ClusteredMm(_))).filter_map(|a| a.makespan.as_ref().ok()).fold(f64::INFINITY, |a, &b| a.min(b));
        n += 1;
        if ratio > 1.05 || least > 1.05 * search.shortest { println!("seed {seed}: {ratio}, before local {} old {} used {used} by {}", least / search.shortest, old / search.shortest, best.planner); }
        if ratio > 1.05 { off += 1; }
        worst = worst.max(ratio);
    }
    println!("{off} of {n} off, worst {worst}; out of budget {infinite}");
    println!("before local: {} off, worst {}", ratios.iter().filter(|&&r| r > 1.05).count(), ratios.iter().fold(1.0_f64, |a, &b| a.max(b)));
    println!("{per:?}\nonly {only:?}");
}
