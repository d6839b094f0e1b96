use super::*;

fn fault(names: &[&str], edges: &[(usize, usize, u64)]) -> String {
    let mut builder = Workflow::builder();
    for name in names {
        builder.task(*name, 1.0, 1);
    }
    for &(from, to, size) in edges {
        builder.edge(from, to, size);
    }
    let error = builder.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Workflow);
    error.message().to_string()
}

#[test]
fn invalid_workflows_are_refused_by_name() {
    assert!(fault(&[], &[]).contains("at least one task"));
    assert!(fault(&["a", ""], &[]).contains("task 1 is called \"\""));
    assert!(fault(&["a\n"], &[]).contains("\"a\\n\""));
    assert!(fault(&["a", "b", "a"], &[]).contains("tasks 0 and 2 are both called \"a\""));
    assert!(fault(&["a"], &[(0, 1, 1)]).contains("0→1 names task 1"));
    assert!(fault(&["a"], &[(usize::MAX, 0, 1)]).contains("names task"));
    assert!(fault(&["a", "b"], &[(0, 1, 1), (0, 1, 2)]).contains("from \"a\" to \"b\" is there twice"));
    assert!(fault(&["a"], &[(0, 0, 1)]).contains("1 tasks depend on one another in a cycle: \"a\" → \"a\""));
    assert!(fault(&["a", "b"], &[(0, 1, u64::MAX / 2)]).contains("use a larger unit"));
    for work in [-1.0, f64::NAN, f64::INFINITY, 1e61] {
        let mut builder = Workflow::builder();
        builder.task("a", work, 0);
        assert!(builder.build().unwrap_err().message().contains("work of task 0 (\"a\")"));
    }
}

#[test]
fn cycle_is_reported_without_its_predecessors() {
    let edges = [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 1, 1), (3, 4, 1)];
    let message = fault(&["in", "a", "b", "c", "out"], &edges);
    assert_eq!(message, "3 tasks depend on one another in a cycle: \"a\" → \"b\" → \"c\" → \"a\"");
    let names: Vec<String> = (0..100).map(|task| task.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let ring: Vec<_> = (0..100).map(|task| (task, (task + 1) % 100, 0)).collect();
    let message = fault(&names, &ring);
    assert!(message.starts_with("100 tasks") && message.ends_with('…'), "{message}");
}

#[test]
fn measured_numbers_are_validated() {
    let mut builder = Workflow::builder();
    builder.task("a", 1.0, 1);
    let workflow = builder.build().unwrap();
    let other = workflow.clone().with_measured([(0, 2.0, 5)]).unwrap();
    assert_eq!((other.work(0), other.memory(0)), (2.0, 5));
    for (measured, message) in [
        ((1, 1.0, 1), "no task 1"),
        ((0, f64::NAN, 1), "work of task 0"),
        ((0, 1.0, u64::MAX), "larger unit"),
    ] {
        let error = workflow.clone().with_measured([measured]).unwrap_err();
        assert!(error.message().contains(message), "{error}");
    }
}

#[test]
fn edges_are_indexed_from_both_ends() {
    let mut builder = Workflow::builder();
    builder.edge(2, 0, 7);
    builder.edge(1, 0, 5);
    builder.edge(2, 1, 3);
    for name in ["c", "b", "a"] {
        builder.task(name, 1.0, 1);
    }
    let workflow = builder.build().unwrap();
    assert_eq!(workflow.topological_order(), [2, 1, 0]);
    assert_eq!(
        workflow.outputs(2).iter().map(|edge| (edge.to, edge.size)).collect::<Vec<_>>(),
        [(0, 7), (1, 3)]
    );
    assert_eq!(workflow.inputs(0).map(|edge| edge.from).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((workflow.input_size(0), workflow.output_size(0)), (12, 0));
    assert_eq!(workflow.requirement(1, TaskMemory::Additive), 1 + 3 + 5);
    assert_eq!(workflow.requirement(1, TaskMemory::IncludesIo), 5);
}

#[test]
fn measured_output_size_applies_to_every_edge_of_a_task() {
    let mut builder = Workflow::builder();
    for name in ["a", "b", "c"] {
        builder.task(name, 1.0, 1);
    }
    for (from, to, size) in [(0, 1, 5), (0, 2, 7), (1, 2, 3)] {
        builder.edge(from, to, size);
    }
    let workflow = builder.build().unwrap();
    let measured = workflow.clone().with_output_sizes([(0, 10)]).unwrap();
    assert_eq!([0, 1, 2].map(|task| measured.output_size(task)), [20, 3, 0]);
    assert_eq!([0, 1, 2].map(|task| measured.input_size(task)), [0, 10, 13]);
    for (measured, message) in [((3, 1), "no task 3"), ((1, u64::MAX), "larger unit")] {
        let error = workflow.clone().with_output_sizes([measured]).unwrap_err();
        assert!(error.message().contains(message), "{error}");
    }
}
