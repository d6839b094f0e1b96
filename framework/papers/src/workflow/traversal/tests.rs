use armature_planner::random::Random;
use armature_planner::workflow::{Crossing, TaskMemory, breadth_first, depth_first, greedy};

use super::*;

/// Creates a graph of tasks without work from the memory need of each task and edges (from, to, size).
fn graph(memories: &[u64], edges: &[(usize, usize, u64)]) -> Workflow {
    let mut builder = Workflow::builder();
    for (task, &memory) in memories.iter().enumerate() {
        builder.task(task.to_string(), 0.0, memory);
    }
    for &(from, to, size) in edges {
        builder.edge(from, to, size);
    }
    builder.build().unwrap()
}

fn all(workflow: &Workflow) -> Vec<usize> {
    (0..workflow.len()).collect()
}

fn model(task_memory: TaskMemory, crossing: Crossing) -> MemoryModel {
    let mut model = MemoryModel::new(task_memory);
    model.crossing = crossing;
    model
}

fn models() -> impl Iterator<Item = MemoryModel> {
    [TaskMemory::Additive, TaskMemory::IncludesIo].into_iter().flat_map(|task_memory| {
        [Crossing::Transit, Crossing::Resident].map(|crossing| model(task_memory, crossing))
    })
}

/// Least peak memory of any order of a block of tasks, by enumerating all sets of completed tasks.
fn least_peak(block: &TaskBlock) -> u64 {
    let count = block.len();
    let start: u64 = (0..count).map(|task| block.arriving(task)).sum();
    let mut best = vec![None::<(u64, u64)>; 1 << count];
    best[0] = Some((start, start));
    for done in 0..1_usize << count {
        let Some((peak, live)) = best[done] else { continue };
        for task in (0..count).filter(|task| done >> task & 1 == 0) {
            if block.inputs(task).iter().all(|edge| done >> edge.from & 1 == 1) {
                let without = live - block.freed(task);
                let peak = peak.max(without + block.need(task));
                let next = &mut best[done | 1 << task];
                if next.is_none_or(|(other, _)| peak < other) {
                    *next = Some((peak, without + block.kept(task)));
                }
            }
        }
    }
    best[(1 << count) - 1].unwrap().0
}

fn below(random: &mut Random, limit: usize) -> usize {
    ((random.uniform() * limit as f64) as usize).min(limit - 1)
}

/// Returns the edges of a random series-parallel graph from vertex 0 to vertex 1, made by repeatedly splitting an
/// edge at a new vertex or doubling an edge.
fn series_parallel_edges(random: &mut Random, vertices: usize) -> Vec<(usize, usize)> {
    let mut edges = vec![(0, 1)];
    let mut next = 2;
    while next < vertices {
        let edge = below(random, edges.len());
        let (from, to) = edges[edge];
        if random.uniform() < 0.5 {
            edges[edge].1 = next;
        } else {
            edges.push((from, next));
        }
        edges.push((next, to));
        next += 1;
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

fn weighted(random: &mut Random, count: usize, edges: &[(usize, usize)], most: usize) -> Workflow {
    let memories: Vec<u64> = (0..count).map(|_| below(random, most) as u64).collect();
    let edges: Vec<_> = edges.iter().map(|&(from, to)| (from, to, below(random, 2 * most) as u64)).collect();
    graph(&memories, &edges)
}

#[test]
fn series_parallel_traversal_has_the_minimum_peak() {
    let mut random = Random::new(3);
    for case in 0..600 {
        let count = 2 + case % 9;
        let edges = series_parallel_edges(&mut random, count);
        let workflow = weighted(&mut random, count, &edges, 1 + case % 20);
        for model in models() {
            let block = TaskBlock::new(&workflow, &all(&workflow), model);
            let order = series_parallel::order(&block);
            assert_eq!(block.peak(&order), least_peak(&block), "case {case}: {workflow:?}, order {order:?}");
        }
    }
}

#[test]
fn orders_are_topological_and_not_below_the_minimum_peak() {
    let mut random = Random::new(5);
    let (mut optimal, mut cases) = (0, 0);
    for case in 0..400 {
        let count = 1 + case % 12;
        let density = random.uniform();
        let edges: Vec<_> = (0..count)
            .flat_map(|from| (from + 1..count).map(move |to| (from, to)))
            .filter(|_| random.uniform() < density)
            .collect();
        let workflow = weighted(&mut random, count, &edges, 30);
        let tasks: Vec<usize> = all(&workflow).into_iter().filter(|_| random.uniform() < 0.8).collect();
        for model in models() {
            let block = TaskBlock::new(&workflow, &tasks, model);
            let least = least_peak(&block);
            for order in
                [series_parallel::order(&block), greedy(&block), depth_first(&block), breadth_first(&block)]
            {
                let mut place = vec![usize::MAX; block.len()];
                for (at, &task) in order.iter().enumerate() {
                    place[task] = at;
                }
                assert!(order.len() == block.len() && !place.contains(&usize::MAX), "{order:?}");
                for task in 0..block.len() {
                    assert!(block.outputs(task).iter().all(|edge| place[task] < place[edge.to]));
                }
                assert!(block.peak(&order) >= least);
            }
            let found = least_memory(&workflow, &tasks, model);
            assert_eq!(Traversal::in_order(&workflow, found.order.clone(), model), found);
            optimal += usize::from(found.peak == least);
            cases += 1;
        }
    }
    assert!(optimal * 10 > cases * 9, "{optimal} of {cases} orders are the best");
}

#[test]
fn branch_hills_are_traversed_before_their_valleys() {
    // After the source task, the memory of one branch climbs to 20 and falls to 1, and that of the other branch climbs to 12 and falls to 8.
    let workflow = graph(&[0, 20, 4, 0], &[(0, 1, 0), (0, 2, 0), (1, 3, 1), (2, 3, 8)]);
    let traversal = least_memory(&workflow, &[0, 1, 2, 3], MemoryModel::default());
    assert_eq!(traversal, Traversal { order: vec![0, 1, 2, 3], peak: 21 });
}

#[test]
fn crossing_edges_are_counted_by_the_memory_model() {
    // Tasks 0 and 3 are on other processors: task 1 reads a file of size 5 from task 0, and task 2 writes a file of size 7 for task 3.
    let workflow = graph(&[0, 1, 2, 0], &[(0, 1, 5), (0, 2, 3), (1, 2, 4), (1, 3, 6), (2, 3, 7)]);
    let peak = |task_memory, crossing| least_memory(&workflow, &[1, 2], model(task_memory, crossing)).peak;
    // The memory of a task is its own plus its inputs and outputs: task 1 needs 1 + 5 + 10, task 2 needs 2 + 7 + 7.
    assert_eq!(peak(TaskMemory::Additive, Crossing::Transit), 16);
    // If input files stay resident until the block ends, the input of task 2 is also in memory while task 1 runs, and
    // the output of task 1 while task 2 runs.
    assert_eq!(peak(TaskMemory::Additive, Crossing::Resident), 22);
    assert_eq!(peak(TaskMemory::IncludesIo, Crossing::Transit), 10);
    assert_eq!(peak(TaskMemory::IncludesIo, Crossing::Resident), 13);
}

#[test]
fn long_chains_and_wide_forks_do_not_overflow_the_stack() {
    let count = 30_000;
    let chain: Vec<_> = (1..count).map(|to| (to - 1, to, 1 + to as u64 % 3)).collect();
    let skips = (2..count).map(|to| (to - 2, to, 1));
    let fork: Vec<_> = (1..count - 1).flat_map(|task| [(0, task, 1), (task, count - 1, 1)]).collect();
    let bands: Vec<_> = chain.iter().copied().chain(skips).collect();
    for edges in [chain, fork, bands] {
        let workflow = graph(&vec![1; count], &edges);
        let traversal = least_memory(&workflow, &all(&workflow), MemoryModel::default());
        assert_eq!(traversal.order.len(), count);
    }
}
