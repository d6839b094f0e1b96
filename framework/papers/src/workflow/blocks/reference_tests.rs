//! Tests of plans of blocks of tasks against values computed by hand, and against all plans of small workflows.

use armature_planner::random::Random;
use armature_planner::workflow::{
    Cluster, Crossing, MemoryModel, Processor, TaskMemory, Traversal, Workflow, memory_over_time, verify,
};

use super::quotient::{Merged, Quotient};
use super::*;
use crate::workflow::generate::{Family, RandomCluster, RandomWorkflow, paper_cluster};

/// Builds a workflow from tasks (work, memory) and edges (from, to, size).
fn workflow(tasks: &[(f64, u64)], edges: &[(usize, usize, u64)]) -> Workflow {
    let mut builder = Workflow::builder();
    for (task, &(work, memory)) in tasks.iter().enumerate() {
        builder.task(format!("t{task}"), work, memory);
    }
    for &(from, to, size) in edges {
        builder.edge(from, to, size);
    }
    builder.build().unwrap()
}

fn cluster(processors: &[(f64, u64)]) -> Cluster {
    let processors = processors.iter().map(|&(speed, memory)| Processor::new("p", speed, memory)).collect();
    Cluster::new(processors, 1.0).unwrap()
}

/// Returns the workflow of figure 1 of the paper of Kulagina et al.: nine tasks of work 1 with files of size 1, in blocks of 4, 1, 3 and 1 tasks.
fn example() -> Workflow {
    let edges =
        [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (1, 5), (2, 6), (4, 5), (5, 7), (6, 7), (7, 8), (4, 8)];
    workflow(&[(1.0, 0); 9], &edges.map(|(from, to)| (from, to, 1)))
}

const EXAMPLE_BLOCKS: [&[usize]; 4] = [&[0, 1, 2, 3], &[4], &[5, 6, 7], &[8]];

#[test]
fn example_of_the_paper_has_the_published_makespan() {
    let (graph, cluster) = (example(), cluster(&[(1.0, 9), (2.0, 9)]));
    let mut quotient = Quotient::new(&graph, &cluster, EXAMPLE_BLOCKS.into_iter());
    assert_eq!(quotient.critical_path(), [0, 1, 2, 3]);
    let makespan =
        |quotient: &Quotient<'_>, processor| quotient.makespan_if(Merged { blocks: &[0], processor });
    // The bottom weights (time from the start of a block of tasks to the end of all blocks that
    // depend on it) are 1, 5, 7 and 12. On a processor of twice the speed the first block takes 2 time units less.
    assert_eq!(makespan(&quotient, 0), Some(12.0));
    assert_eq!(makespan(&quotient, 1), Some(10.0));
    // Block 1 reads files of block 0 and writes files for block 2, so a merger of blocks 0 and 2 alone would cause a
    // cycle.
    assert_eq!(quotient.makespan_if(Merged { blocks: &[0, 2], processor: 0 }), None);
    assert_eq!(quotient.between(0, 2), [1]);
    let all = Merged { blocks: &[0, 2, 1], processor: 0 };
    assert_eq!(quotient.makespan_if(all), Some(8.0 + 2.0 + 1.0));
    quotient.merge(all, &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(quotient.blocks().collect::<Vec<_>>(), [0, 3]);
    assert_eq!(quotient.critical_path(), [0, 3]);
    // The block that was merged from blocks 0, 1 and 2 is divided into the tasks of block 0 and those of blocks 1 and
    // 2. The halves get new numbers.
    quotient.divide(0, &[EXAMPLE_BLOCKS[0].to_vec(), vec![4, 5, 6, 7]]);
    assert_eq!(quotient.critical_path(), [4, 5, 3]);
    assert_eq!(
        quotient.makespan_if(Merged { blocks: &[3], processor: 0 }),
        Some(4.0 + 3.0 + 4.0 + 2.0 + 1.0)
    );
}

#[test]
fn order_is_cut_when_the_processor_memory_is_full() {
    // The tasks of the chain need 3, 4, 4 and 3 units of memory, including their files.
    let graph = workflow(&[(2.0, 2); 4], &[(0, 1, 1), (1, 2, 1), (2, 3, 1)]);
    let plan = dag_het_mem(&graph, &cluster(&[(1.0, 3), (1.0, 4)]), MemoryModel::default()).unwrap();
    assert_eq!(plan.orders, [vec![], vec![0, 1, 2, 3]]);
    // The second task needs 4 units of memory, and all processors have 3.
    let error = dag_het_mem(&graph, &cluster(&[(1.0, 3); 9]), MemoryModel::default()).unwrap_err();
    assert!(error.message().contains("\"t1\"") && error.message().contains("1 of 9"), "{error}");
    // A file of size 5 stays in memory for the last task. Task 0 needs 6 units of memory, and task 1 needs 3 in
    // addition to the file.
    let graph = workflow(&[(2.0, 0), (2.0, 2), (2.0, 0)], &[(0, 1, 1), (0, 2, 5), (1, 2, 0)]);
    let plan = dag_het_mem(&graph, &cluster(&[(1.0, 8)]), MemoryModel::default()).unwrap();
    assert_eq!((plan.makespan, &plan.peak[..]), (6.0, &[8][..]));
    let plan = dag_het_mem(&graph, &cluster(&[(1.0, 7), (2.0, 6)]), MemoryModel::default()).unwrap();
    // Tasks 0 and 1 fit in a memory of 7 if task 2, which reads the large file, is on another processor.
    assert_eq!(plan.orders, [vec![0, 1], vec![2]]);
    assert_eq!(plan.makespan, 2.0 + 2.0 + 5.0 + 1.0);
    // In the resident memory model, a file for another block stays in memory until the end of the block that wrote it.
    let mut strict = MemoryModel::default();
    strict.crossing = Crossing::Resident;
    let plan = dag_het_mem(&graph, &cluster(&[(1.0, 7), (2.0, 6), (1.0, 5)]), strict).unwrap();
    assert_eq!(plan.orders, [vec![0], vec![1], vec![2]]);
}

#[test]
fn heavy_blocks_go_to_fast_processors() {
    let graph = workflow(&[(1.0, 1), (8.0, 1), (1.0, 1)], &[(0, 2, 1)]);
    let cluster = cluster(&[(1.0, 9), (4.0, 3), (2.0, 3)]);
    let plan = dag_het_part(&graph, &cluster, MemoryModel::default(), &DagHetPart::default()).unwrap();
    assert_eq!(plan.processor_of[1], 1);
    assert_eq!(plan.makespan, 2.0);
}

fn least_makespan(graph: &Workflow, cluster: &Cluster, model: MemoryModel) -> Option<f64> {
    let (count, processors) = (graph.len(), cluster.len());
    let peak = |tasks: &[usize]| {
        permutations(graph, tasks).map(|order| Traversal::in_order(graph, order, model).peak).min()
    };
    let mut peaks = std::collections::HashMap::new();
    let mut best: Option<f64> = None;
    for code in 0..processors.pow(count as u32) {
        let of: Vec<usize> = (0..count as u32).map(|task| code / processors.pow(task) % processors).collect();
        let mut ends = vec![None; processors];
        // Each iteration computes the end times of blocks of tasks whose inputs have end times; blocks on a cycle
        // never get one.
        for _ in 0..processors {
            for p in 0..processors {
                let mut begin = Some(0.0_f64);
                for other in (0..processors).filter(|&other| other != p) {
                    let between =
                        graph.edges().iter().filter(|edge| of[edge.from] == other && of[edge.to] == p);
                    let sizes: Vec<u64> = between.map(|edge| edge.size).collect();
                    if !sizes.is_empty() {
                        let arrives = ends[other]
                            .map(|end: f64| end + cluster.transfer_time(other, p, sizes.iter().sum()));
                        begin = begin.zip(arrives).map(|(begin, arrives)| begin.max(arrives));
                    }
                }
                let work: f64 = (0..count).filter(|&task| of[task] == p).map(|task| graph.work(task)).sum();
                ends[p] = begin.map(|begin| begin + work / cluster.processors()[p].speed);
            }
        }
        let Some(makespan) = ends.into_iter().try_fold(0.0_f64, |most, end| Some(most.max(end?))) else {
            continue;
        };
        let fits = (0..processors).all(|p| {
            let tasks: Vec<usize> = (0..count).filter(|&task| of[task] == p).collect();
            let memory = cluster.processors()[p].memory;
            peaks.entry(tasks.clone()).or_insert_with(|| peak(&tasks)).is_none_or(|peak| peak <= memory)
        });
        if fits && best.is_none_or(|best| makespan < best) {
            best = Some(makespan);
        }
    }
    best
}

fn permutations(graph: &Workflow, tasks: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let mut orders = vec![Vec::new()];
    for _ in tasks {
        orders = orders
            .into_iter()
            .flat_map(|order: Vec<usize>| {
                let next = tasks.iter().filter(|task| {
                    !order.contains(task)
                        && graph
                            .inputs(**task)
                            .all(|edge| !tasks.contains(&edge.from) || order.contains(&edge.from))
                });
                next.map(|&task| [&order[..], &[task]].concat()).collect::<Vec<_>>()
            })
            .collect();
    }
    orders.into_iter()
}

#[test]
fn no_plan_beats_the_optimum_and_most_are_close() {
    let mut random = Random::new(9);
    let (mut ratios, mut missed, mut feasible) = (Vec::new(), 0, 0);
    for case in 0..60 {
        let tasks = 2 + case % 6;
        let shape = RandomWorkflow { tasks, parents: 2, reach: 4, work: 20, memory: 20, size: 20 };
        let graph = shape.build(case as u64).unwrap();
        let shape =
            RandomCluster { processors: 3, largest: 1.0 + random.uniform(), smallest: 0.6, buffer: 0.0 };
        let cluster = shape.build(&graph, TaskMemory::Additive, case as u64).unwrap();
        let model = MemoryModel::default();
        let least = least_makespan(&graph, &cluster, model);
        let found = dag_het_part(&graph, &cluster, model, &DagHetPart::default());
        feasible += usize::from(least.is_some());
        match (least, found) {
            (Some(least), Ok(plan)) => {
                verify(&graph, &cluster, &plan).certificate().unwrap();
                assert!(plan.makespan >= least * (1.0 - 1e-9), "case {case}: {} < {least}", plan.makespan);
                ratios.push(plan.makespan / least);
            }
            (Some(_), Err(_)) => missed += 1,
            (None, Ok(plan)) => panic!("case {case}: there is no plan, but {plan:?}"),
            (None, Err(_)) => {}
        }
    }
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    assert!(10 * missed <= feasible && mean < 1.25, "{missed} of {feasible} missed, {mean} of the least");
}

/// The memory of a processor over time must reach the peak that the verifier computes for the plan, and be 0 at the
/// end; its times must increase.
#[test]
fn memory_steps_reach_the_peak_and_end_at_zero() {
    let workflow = Family::Montage.build(200, 1).unwrap();
    let cluster = paper_cluster(3, 10, 1.0).unwrap();
    let plan = dag_het_part(&workflow, &cluster, MemoryModel::default(), &DagHetPart::default()).unwrap();
    let verification = verify(&workflow, &cluster, &plan);
    let stairs = memory_over_time(&workflow, &cluster, &plan);
    assert_eq!(stairs.len(), cluster.len());
    for (steps, peak) in stairs.iter().zip(&verification.peak) {
        assert!(steps.windows(2).all(|two| two[0].0 < two[1].0));
        assert_eq!(steps.iter().map(|step| step.1).max().unwrap_or(0), *peak);
        assert_eq!(steps.last().map_or(0, |step| step.1), 0);
    }
}
