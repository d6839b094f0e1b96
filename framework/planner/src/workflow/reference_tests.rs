//! Tests with small workflows whose plans are computed by hand.

use super::*;

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

fn cluster(processors: &[(u64, u64)]) -> Cluster {
    let all: Vec<_> = processors.iter().map(|&(memory, buffer)| (1.0, memory, buffer)).collect();
    unequal(&all)
}

fn unequal(processors: &[(f64, u64, u64)]) -> Cluster {
    let processors = processors
        .iter()
        .map(|&(speed, memory, buffer)| Processor::new("p", speed, memory).with_buffer(buffer))
        .collect();
    Cluster::new(processors, 1.0).unwrap()
}

fn certified(graph: &Workflow, cluster: &Cluster, plan: &Plan) -> Verification {
    verify(graph, cluster, plan).certificate().unwrap()
}

/// Returns a workflow in which task 0 writes a file of size 6 for task 2, and task 1 needs a memory of 8.
fn a_file_in_the_way() -> Workflow {
    workflow(&[(1.0, 0), (1.0, 8), (1.0, 0)], &[(0, 2, 6)])
}

#[test]
fn largest_file_is_evicted_and_read_only_remotely() {
    let graph = a_file_in_the_way();
    let machines = cluster(&[(10, 6), (7, 0)]);
    let plan = heftm(&graph, &machines, Level::Bottom, TaskMemory::Additive).unwrap();
    assert_eq!(plan.processor_of, [0, 0, 1]);
    assert_eq!(plan.evictions, [Eviction { edge: 0, at: 1.0, before: 1 }]);
    assert_eq!(plan.transfers, [Transfer { edge: 0, start: 1.0, finish: 7.0, to_buffer: false }]);
    assert_eq!((plan.start, plan.makespan), (vec![0.0, 1.0, 7.0], 8.0));

    let plan = heftm(&graph, &machines, Level::Bottom, TaskMemory::Additive).unwrap();
    let verification = certified(&graph, &machines, &plan);
    assert_eq!((verification.peak, verification.buffer_peak), (vec![8, 6], vec![6, 0]));

    for machines in [cluster(&[(10, 6)]), cluster(&[(10, 5), (7, 0)])] {
        let error = heftm(&graph, &machines, Level::Bottom, TaskMemory::Additive).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Infeasible);
    }
}

#[test]
fn tasks_that_do_not_fit_are_postponed() {
    // In the given order, task 1 and the waiting file of size 6 exceed the memory of 10, and the buffer is too small for the file. Therefore task 2,
    // which reads the file, is placed first.
    let graph = a_file_in_the_way();
    let small = cluster(&[(10, 5)]);
    let plan = heftm_relaxed(&graph, &small, &[0, 1, 2], TaskMemory::Additive).unwrap();
    assert_eq!(plan.sequence, [0, 2, 1]);
    certified(&graph, &small, &plan);
    // With a larger buffer, the waiting file of size 6 is evicted for task 1, and task 2 reads it from the buffer.
    let large = cluster(&[(10, 6)]);
    let plan = heftm_relaxed(&graph, &large, &[0, 1, 2], TaskMemory::Additive).unwrap();
    assert_eq!((&plan.sequence[..], plan.evictions.len()), (&[0, 1, 2][..], 1));
    let verification = certified(&graph, &large, &plan);
    assert_eq!((verification.peak, verification.buffer_peak), (vec![8], vec![6]));
    // If a task fits on no processor at all, relaxed HEFTM (list scheduling that may depart from its order) still returns an error.
    let error = heftm_relaxed(&graph, &cluster(&[(7, 99)]), &[0, 1, 2], TaskMemory::Additive).unwrap_err();
    assert!(error.message().contains("task \"t1\" fits no processor"), "{error}");
}

#[test]
fn file_in_transfer_occupies_memory_until_sent_or_evicted() {
    // Task 2 fits only on the second processor, so the file of size 6 is sent from 1 s to 7 s. In this time task 1 and the file together exceed the
    // memory of the first processor.
    let graph = workflow(&[(1.0, 0), (1.0, 8), (1.0, 12)], &[(0, 2, 6)]);
    for (buffer, start) in [(0, 7.0), (6, 1.0)] {
        let machines = unequal(&[(1.0, 10, buffer), (0.5, 20, 0)]);
        let plan = heftm_in_order(&graph, &machines, &[0, 2, 1], TaskMemory::Additive).unwrap();
        assert_eq!(plan.processor_of, [0, 0, 1]);
        assert_eq!(plan.start[1], start);
        assert_eq!(plan.evictions.len(), usize::from(buffer > 0));
        certified(&graph, &machines, &plan);
    }
}

#[test]
fn transfer_without_buffer_waits_for_the_readers_memory() {
    // The second processor is busy with task 1 until 10 s. The file of task 0 could be transferred from 1 s to 4 s, if the second processor's buffer
    // has space for it.
    let graph = workflow(&[(1.0, 0), (5.0, 10), (1.0, 10)], &[(0, 2, 3)]);
    for (buffer, sent, makespan) in [(3, 1.0, 12.0), (2, 10.0, 15.0)] {
        let machines = unequal(&[(1.0, 3, 0), (0.5, 13, buffer)]);
        let plan = heftm_in_order(&graph, &machines, &[0, 1, 2], TaskMemory::Additive).unwrap();
        assert_eq!(plan.processor_of, [0, 1, 1]);
        assert_eq!(
            plan.transfers,
            [Transfer { edge: 0, start: sent, finish: sent + 3.0, to_buffer: buffer == 3 }]
        );
        assert_eq!(plan.makespan, makespan);
        certified(&graph, &machines, &plan);
    }
}

#[test]
fn files_on_one_channel_are_sent_sequentially() {
    // Tasks 0 and 1 end at 1 s and 2 s. The file of task 1 waits until 3 s for the end of the transfer of the file of task 0, which takes 2 s.
    let graph = workflow(&[(1.0, 0), (1.0, 0), (1.0, 20)], &[(0, 2, 2), (1, 2, 3)]);
    let machines = unequal(&[(1.0, 9, 0), (0.25, 30, 0)]);
    let plan = heftm_in_order(&graph, &machines, &[0, 1, 2], TaskMemory::Additive).unwrap();
    assert_eq!(
        plan.transfers.iter().map(|t| (t.start, t.finish)).collect::<Vec<_>>(),
        [(1.0, 3.0), (3.0, 6.0)]
    );
    assert_eq!((plan.start[2], plan.makespan), (6.0, 10.0));
    certified(&graph, &machines, &plan);
}

/// The tasks take no time. Task 4 needs memory that is occupied by a file which waits for its reader. The file must be evicted, although all tasks
/// start and end at the same time.
#[test]
fn files_are_evicted_between_zero_length_tasks() {
    let graph = workflow(
        &[(0.0, 0); 6],
        &[(0, 2, 50), (0, 3, 50), (1, 2, 10), (1, 3, 5), (1, 4, 50), (1, 5, 8), (3, 4, 0), (4, 5, 0)],
    );
    let options = PlanOptions {
        memory: MemoryModel { task_memory: TaskMemory::IncludesIo, ..MemoryModel::default() },
        ..PlanOptions::default()
    };
    let machines = cluster(&[(169, 1690)]);
    let mut plan = plan(&graph, &machines, &options).unwrap().plan;
    let verification = certified(&graph, &machines, &plan);
    assert_eq!((verification.makespan, verification.peak[0] <= 169), (0.0, true));
    // The plan is then changed: an eviction is invalid if it names a task that does not exist, or one that runs before the file is written.
    assert!(!plan.evictions.is_empty(), "the files of both sources are 173");
    for (before, rule) in [(graph.edges()[plan.evictions[0].edge].from, Rule::Buffer), (6, Rule::Shape)] {
        plan.evictions[0].before = before;
        assert_eq!(verify(&graph, &machines, &plan).count(rule), 1);
    }
}

/// Task 0 writes a file of size 6 for task 2. Task 1 needs 8 of the memory of 10, so the file is written to disk and read back, at 3 size units per
/// second.
#[test]
fn disk_time_delays_evicting_task_and_reader() {
    let graph = a_file_in_the_way();
    let machines = cluster(&[(10, 6)]).with_disk(3.0).unwrap();
    let mut plan = heftm_relaxed(&graph, &machines, &[0, 1, 2], TaskMemory::Additive).unwrap();
    assert_eq!(plan.evictions, [Eviction { edge: 0, at: 3.0, before: 1 }]);
    assert_eq!((&plan.start[..], plan.makespan), (&[0.0, 3.0, 6.0][..], 7.0));
    certified(&graph, &machines, &plan);
    // The plan is changed: too little time to read the file back, and then also too little time to write it, each of which the verifier must report.
    (plan.start[2], plan.finish[2], plan.makespan) = (5.0, 6.0, 6.0);
    assert_eq!(verify(&graph, &machines, &plan).count(Rule::Time), 1);
    (plan.evictions[0].at, plan.start[1], plan.finish[1]) = (2.0, 2.0, 3.0);
    assert_eq!(verify(&graph, &machines, &plan).count(Rule::Time), 1);
    // The best plan runs task 2 before task 1, so that no file must be evicted.
    assert_eq!(super::plan(&graph, &machines, &PlanOptions::default()).unwrap().plan.makespan, 3.0);
}

/// Returns a workflow in which tasks add up pairs of files of size 16, and a last task adds up all sums. Each task needs a memory of 1, and a file
/// between sums has the size `sum`.
fn sums_of_pairs(pairs: usize, work: f64, sum: u64) -> Workflow {
    let tasks = vec![(work, 1); 3 * pairs + 1];
    let mut edges = Vec::new();
    for pair in 0..pairs {
        let first = 3 * pair;
        edges.extend([(first, first + 2, 16), (first + 1, first + 2, 16), (first + 2, 3 * pairs, sum)]);
    }
    workflow(&tasks, &edges)
}

#[test]
fn plans_do_not_move_files_unnecessarily() {
    let options = PlanOptions::default();
    let machines = |count: usize, memory: u64, bandwidth: f64| {
        let processors = vec![Processor::new("p", 1.0, memory); count];
        Cluster::new(processors, bandwidth).unwrap().with_disk(200.0).unwrap()
    };
    // In the best plan each sum runs on the processor of its pair of files, with two pairs on each processor, so that no file is sent.
    let graph = sums_of_pairs(4, 1.0, 0);
    let plan = super::plan(&graph, &machines(2, 34, 16.0), &options).unwrap().plan;
    assert_eq!((plan.makespan, plan.evicted_bytes(&graph), plan.sent_bytes(&graph)), (7.0, 0, 0));
    // The plan must not run all tasks that write the pairs of files first, because their files would fill the memory of both processors.
    let graph = sums_of_pairs(60, 0.02, 1);
    let plan = super::plan(&graph, &machines(2, 190, f64::INFINITY), &options).unwrap().plan;
    assert_eq!(plan.evicted_bytes(&graph), 0);
    assert!(plan.makespan < 1.01 * 1.82, "{}", plan.makespan);
    // Sending a file takes 16 times as long as a task, so the best plan sends none.
    let graph = sums_of_pairs(2, 1.0, 0);
    let machines = machines(3, 1000, 1.0);
    let found = super::best::plan_by_heuristics(&graph, &machines, &options).unwrap();
    assert_eq!((found.plan.makespan, found.plan.sent_bytes(&graph)), (4.0, 0));
}

#[test]
fn order_must_contain_each_task_once_after_its_parents() {
    let graph = a_file_in_the_way();
    let machines = cluster(&[(20, 0)]);
    for (order, message) in [
        (&[0, 1][..], "lacks task \"t2\""),
        (&[0, 1, 0], "task \"t0\" twice"),
        (&[2, 0, 1], "task \"t2\" before \"t0\""),
        (&[3], "names task 3"),
    ] {
        let error = heftm_in_order(&graph, &machines, order, TaskMemory::Additive).unwrap_err();
        assert!(error.message().contains(message), "{error}");
    }
}

/// The example in figure 1 of the paper of Kulagina et al. (2024): four blocks on processors of speed 1 have a makespan of 12.
#[test]
fn makespan_of_blocks_uses_bottom_weights() {
    let graph = workflow(
        &[(4.0, 1), (1.0, 1), (3.0, 1), (1.0, 1)],
        &[(0, 1, 1), (0, 2, 2), (1, 2, 1), (1, 3, 1), (2, 3, 1)],
    );
    let machines = cluster(&[(10, 0); 4]);
    let mut plan = Plan {
        execution: Execution::Blocks { crossing: Crossing::Transit },
        task_memory: TaskMemory::Additive,
        processor_of: vec![0, 1, 2, 3],
        orders: vec![vec![0], vec![1], vec![2], vec![3]],
        sequence: vec![0, 1, 2, 3],
        start: vec![0.0, 5.0, 7.0, 11.0],
        finish: vec![4.0, 6.0, 10.0, 12.0],
        makespan: 12.0,
        peak: vec![4, 4, 5, 3],
        transfers: Vec::new(),
        evictions: Vec::new(),
    };
    let verification = certified(&graph, &machines, &plan);
    assert_eq!((verification.makespan, verification.peak), (12.0, vec![4, 4, 5, 3]));

    // Tasks 1 and 2 form one block, which sends the files of both to task 3 in one message at its end.
    (plan.processor_of, plan.orders) = (vec![0, 1, 1, 3], vec![vec![0], vec![1, 2], vec![], vec![3]]);
    (plan.start, plan.finish) = (vec![0.0, 7.0, 8.0, 13.0], vec![4.0, 8.0, 11.0, 14.0]);
    (plan.makespan, plan.peak) = (14.0, vec![4, 7, 0, 3]);
    let verification = certified(&graph, &machines, &plan);
    assert_eq!(verification.peak, [4, 5, 0, 3]);
    // If files between blocks occupy memory for the whole block, the input of task 2 is in memory while task 1 runs, and the output of task 1 while
    // task 2 runs.
    plan.execution = Execution::Blocks { crossing: Crossing::Resident };
    assert_eq!(certified(&graph, &machines, &plan).peak, [4, 6, 0, 3]);

    // A block of tasks 1 and 3 waits for task 2, which waits for task 1: the blocks depend on each other in a cycle.
    (plan.processor_of, plan.orders) = (vec![0, 1, 2, 1], vec![vec![0], vec![1, 3], vec![2], vec![]]);
    plan.sequence = vec![0, 1, 3, 2];
    let verification = verify(&graph, &machines, &plan);
    assert_eq!(verification.violations[0].rule, Rule::Order);
    plan.sequence = vec![0, 1, 2, 3];
    let verification = verify(&graph, &machines, &plan);
    assert!(
        verification.violations[0].message.contains("processors 1, 2 wait for one another"),
        "{verification:?}"
    );
}

#[test]
fn each_violated_rule_is_detected() {
    let graph = a_file_in_the_way();
    let machines = cluster(&[(10, 6), (7, 0)]);
    let plan = heftm(&graph, &machines, Level::Bottom, TaskMemory::Additive).unwrap();
    type Change = fn(&mut Plan);
    let broken: [(Rule, Change); 21] = [
        (Rule::Shape, |plan| plan.orders[0].truncate(1)),
        (Rule::Shape, |plan| plan.orders[1].push(0)),
        (Rule::Shape, |plan| plan.orders[1].push(7)),
        (Rule::Shape, |plan| plan.processor_of[0] = 1),
        (Rule::Shape, |plan| plan.processor_of[0] = 9),
        (Rule::Shape, |plan| plan.start.truncate(2)),
        (Rule::Shape, |plan| plan.start[0] = f64::NAN),
        (Rule::Shape, |plan| plan.transfers[0].edge = 1),
        (Rule::Shape, |plan| plan.evictions[0].at = f64::INFINITY),
        (Rule::Order, |plan| plan.sequence = vec![2, 0, 1]),
        (Rule::Order, |plan| plan.sequence = vec![1, 0, 2]),
        (Rule::Time, |plan| plan.finish[2] = 8.5),
        (Rule::Time, |plan| (plan.start[1], plan.finish[1]) = (0.5, 1.5)),
        (Rule::Time, |plan| plan.makespan = 7.0),
        (Rule::Transfer, |plan| plan.transfers.clear()),
        (Rule::Transfer, |plan| plan.transfers.push(plan.transfers[0])),
        (Rule::Transfer, |plan| plan.transfers[0].start = 0.5),
        (Rule::Transfer, |plan| (plan.start[2], plan.finish[2]) = (6.5, 7.5)),
        (Rule::Memory, |plan| plan.evictions.clear()),
        (Rule::Memory, |plan| plan.peak[0] = 7),
        (Rule::Buffer, |plan| plan.transfers[0].to_buffer = true),
    ];
    for (number, (rule, change)) in broken.into_iter().enumerate() {
        let mut plan = plan.clone();
        change(&mut plan);
        let verification = verify(&graph, &machines, &plan);
        assert!(verification.count(rule) > 0, "change {number}: {:?}", verification.violations);
        assert!(verification.certificate().is_err());
    }
    let mut late = plan.clone();
    late.evictions[0].at = 0.5;
    assert_eq!(verify(&graph, &machines, &late).count(Rule::Buffer), 1);
}
