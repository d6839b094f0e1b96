use armature_planner::workflow::Workflow;

use super::*;
use crate::workflow::generate::{Family, RandomWorkflow};

fn whole(workflow: &Workflow) -> Dag {
    Dag::of_tasks(workflow, &(0..workflow.len()).collect::<Vec<_>>())
}

/// Returns the total size of the files between different blocks of tasks. Checks that each task is in one block, and
/// that edges lead to the same or a later block.
fn cut(workflow: &Workflow, blocks: &[Vec<usize>]) -> u64 {
    let mut block_of = vec![None; workflow.len()];
    for (block, tasks) in blocks.iter().enumerate() {
        assert!(!tasks.is_empty() && tasks.is_sorted());
        for &task in tasks {
            assert_eq!(block_of[task].replace(block), None);
        }
    }
    assert!(!block_of.contains(&None));
    let between = workflow.edges().iter().filter(|edge| {
        assert!(block_of[edge.from] <= block_of[edge.to]);
        block_of[edge.from] != block_of[edge.to]
    });
    between.map(|edge| edge.size).sum()
}

fn imbalance(workflow: &Workflow, blocks: &[Vec<usize>], count: usize) -> f64 {
    let work = |tasks: &Vec<usize>| tasks.iter().map(|&task| workflow.work(task)).sum::<f64>();
    let heaviest = blocks.iter().map(work).fold(0.0, f64::max);
    heaviest * count as f64 / blocks.iter().map(work).sum::<f64>()
}

#[test]
fn blocks_are_balanced_and_in_dependency_order() {
    for family in Family::ALL {
        for count in [2, 7, 36] {
            let workflow = family.build(1000, 1).unwrap();
            let blocks = partition(&whole(&workflow), count, &mut Random::new(1));
            cut(&workflow, &blocks);
            let imbalance = imbalance(&workflow, &blocks, count);
            assert!(blocks.len() == count && imbalance < 1.2, "{family:?}, {count} blocks: {imbalance}");
        }
    }
}

#[test]
fn two_chains_are_separated_at_no_cost() {
    let mut builder = Workflow::builder();
    for task in 0..200 {
        builder.task(task.to_string(), 1.0, 1);
    }
    for task in 0..198 {
        builder.edge(task, task + 2, 3);
    }
    let workflow = builder.build().unwrap();
    let [first, second] = halves(&whole(&workflow), &mut Random::new(1));
    assert_eq!(cut(&workflow, &[first, second]), 0);
}

#[test]
fn chain_is_cut_at_its_smallest_edges() {
    let mut builder = Workflow::builder();
    for task in 0..3000 {
        builder.task(task.to_string(), 1.0, 1);
    }
    for task in 0..2999 {
        builder.edge(task, task + 1, if task % 1000 == 999 { 1 } else { 100 });
    }
    let workflow = builder.build().unwrap();
    let cuts = (0..5).map(|seed| cut(&workflow, &partition(&whole(&workflow), 3, &mut Random::new(seed))));
    assert_eq!(cuts.min(), Some(2));
}

#[test]
fn few_tasks_and_tasks_without_work_are_partitioned() {
    let mut builder = Workflow::builder();
    for task in 0..5 {
        builder.task(task.to_string(), 0.0, 1);
    }
    builder.edge(4, 0, 1);
    let workflow = builder.build().unwrap();
    for count in 1..8 {
        let blocks = partition(&whole(&workflow), count, &mut Random::new(1));
        cut(&workflow, &blocks);
        assert_eq!(blocks.len(), count.min(5));
    }
}

#[test]
fn partitioning_terminates_despite_rounding_errors() {
    // Rounding errors of the weights must not make the refinement alternate between two cuts for ever.
    for seed in 0..30 {
        let workflow = RandomWorkflow { tasks: 40, ..RandomWorkflow::default() }.build(seed).unwrap();
        let mut random = Random::new(seed);
        let measured: Vec<(usize, f64, u64)> = (0..workflow.len())
            .map(|task| (task, workflow.work(task) * random.uniform() * 0.1, workflow.memory(task)))
            .collect();
        let workflow = workflow.with_measured(measured).unwrap();
        for count in 1..=36 {
            let blocks = partition(&whole(&workflow), count, &mut Random::new(seed));
            cut(&workflow, &blocks);
        }
    }
}

#[test]
fn clusters_of_random_graphs_have_no_cycle() {
    for seed in 0..40 {
        let shape =
            RandomWorkflow { tasks: 300, parents: 1 + seed as usize % 6, ..RandomWorkflow::default() };
        let workflow = shape.build(seed).unwrap();
        let mut dag = whole(&workflow);
        let most = dag.total() / 20.0;
        for round in 0..6 {
            let (cluster, count) = coarsen::clusters(&dag, most, round % 2 == 1, &mut Random::new(seed));
            dag = dag.contract(&cluster, count);
            // On a cycle, the levels could not increase along every edge, so this comparison detects cycles.
            let levels = dag.levels(false);
            for vertex in 0..dag.len() {
                assert!(dag.outputs(vertex).iter().all(|&(next, _)| levels[vertex] < levels[next]));
            }
        }
    }
}
