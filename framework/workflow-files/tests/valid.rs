//! Tests that valid files of every format and version are read, and that written files are read again.

use std::time::Duration;

use armature_workflow_files::{Action, Description, File, Format, Task, read, rescue, to_wfformat};

const BACASS: &[u8] = include_bytes!("data/bacass-1.5.json");

fn edges(description: &Description) -> Vec<(usize, usize, u64)> {
    description.edges().iter().map(|edge| (edge.from, edge.to, edge.size)).collect()
}

#[test]
fn wfformat_file_of_a_real_run_is_read_and_written() {
    let description = read("bacass.json", BACASS).unwrap();
    assert_eq!(
        (description.name(), description.tasks().len(), description.edges().len()),
        ("bacass", 11, 14)
    );
    let skewer =
        description.tasks().iter().find(|task| task.name == "NFCORE_BACASS.BACASS.SKEWER_1").unwrap();
    assert_eq!(skewer.kind.as_deref(), Some("NFCORE_BACASS.BACASS.SKEWER"));
    assert_eq!((skewer.run_time, skewer.memory, skewer.cores), (Some(208.0), Some(9_932_800), 1));
    let workflow = description.to_workflow().unwrap();
    let work: f64 = (0..workflow.len()).map(|task| workflow.work(task)).sum();
    let run_times: f64 = description.tasks().iter().filter_map(|task| task.run_time).sum();
    assert_eq!(work, run_times);
    // Files that one task writes and another reads become edges with a size.
    assert!(description.edges().iter().any(|edge| edge.size > 0));

    let written = to_wfformat(&description, "2030-01-01T00:00:00+00:00", Duration::from_secs(4243));
    let again = read("again.json", written.as_bytes()).unwrap();
    let sorted = |description: &Description| {
        let mut tasks = description.tasks().to_vec();
        tasks.iter_mut().for_each(|task| {
            task.inputs.sort_by(|a, b| a.name.cmp(&b.name));
            task.outputs.sort_by(|a, b| a.name.cmp(&b.name));
        });
        tasks
    };
    assert_eq!(sorted(&again), sorted(&description));
    assert_eq!(again.edges(), description.edges());
}

#[test]
fn older_wfformat_versions_are_read() {
    let of = |version: &str, list: &str, runtime: &str, memory: &str, size: &str| {
        format!(
            r#"{{"name":"old","schemaVersion":"{version}","workflow":{{"{list}":[
            {{"name":"a_1","id":"1","{runtime}":2.5,"cores":2.0,"{memory},"machine":"m",
              "command":{{"program":"make","arguments":["--out f"]}},
              "files":[{{"name":"f","link":"output","{size}":70}}]}},
            {{"name":"b_2","id":"2","parents":["a_1"],"files":[{{"name":"f","link":"input","{size}":70}}]}},
            {{"name":"c_3","parents":["2"]}}]}}}}"#
        )
    };
    for text in [
        of("1.2", "jobs", "runtime", "memory\":3", "size"),
        of("1.3", "tasks", "runtime", "memory\":3", "size"),
        of("1.4", "tasks", "runtimeInSeconds", "memoryInBytes\":3000", "sizeInBytes"),
    ] {
        let description = read("old.json", text.as_bytes()).unwrap();
        assert_eq!(edges(&description), [(0, 1, 70), (1, 2, 0)]);
        let a = &description.tasks()[0];
        assert_eq!(
            (a.run_time, a.memory, a.cores, a.machine.as_deref()),
            (Some(2.5), Some(3000), 2, Some("m"))
        );
        assert_eq!(a.action, Action::Shell("make --out f".into()));
    }
}

#[test]
fn toml_supports_every_attribute() {
    let text = r#"
name = "all"
limit.db = 5
[[task]]
id = "first"
command = ["sh", "-c", "echo x > f"]
outputs = [{ name = "f", size = "1 KiB" }]
cpus = 2
memory = "2 GiB"
tries = 3
time_limit = "5 min"
priority = -1
limits = { db = 2 }
env = { A = "b" }
stdin = "text"
run_time = 1.5
machine = "m"
done = true
[[task]]
id = "second"
closure = "sum"
inputs = ["f", "from outside"]
[[task]]
id = "third"
command = "echo done"
deps = ["first", "second"]
"#;
    let description = read("all.toml", text.as_bytes()).unwrap();
    assert_eq!(edges(&description), [(0, 1, 1024), (0, 2, 0), (1, 2, 0)]);
    let [first, second, third] = description.tasks() else { panic!("three tasks") };
    let mut expected = Task::new(
        "first",
        Action::Command { program: "sh".into(), arguments: vec!["-c".into(), "echo x > f".into()] },
    );
    expected.outputs = vec![File::new("f", Some(1024))];
    (expected.cores, expected.memory, expected.tries) = (2, Some(2 << 30), Some(3));
    (expected.time_limit, expected.priority) = (Some(Duration::from_secs(300)), -1);
    expected.limits.insert("db".into(), 2);
    expected.environment.insert("A".into(), "b".into());
    (expected.stdin, expected.run_time) = (Some("text".into()), Some(1.5));
    (expected.machine, expected.done) = (Some("m".into()), true);
    assert_eq!(*first, expected);
    assert_eq!(second.action, Action::Closure("sum".into()));
    assert_eq!(third.action, Action::Shell("echo done".into()));
}

#[test]
fn rescue_file_with_an_error_marks_no_task_as_done() {
    let mut description = read("a.dag", b"TASK a x\nTASK b x\nTASK ab x\n").unwrap();
    for (text, expected) in [
        ("DONE a\nDONE c\n", "r: line 2: there is no task \"c\": expected the name of a task"),
        ("DONE a\nTASK b\n", "r: line 2: \"TASK b\" is not a line of a rescue file: expected \"DONE id\""),
    ] {
        let error = rescue::read("r", text.as_bytes(), &mut description).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(rescue::write(&description), "");
    }
    // The last line has no line end. It may be the beginning of "DONE ab" and is ignored.
    rescue::read("r", b"DONE b\nDONE a", &mut description).unwrap();
    assert_eq!(rescue::write(&description), "DONE b\n");
}

#[test]
fn ids_that_wfformat_does_not_allow_are_replaced() {
    let mut builder = Description::builder("odd names");
    let arguments = vec!["it's".into(), "plain".into()];
    builder.task(Task::new("a b", Action::Command { program: "echo".into(), arguments }));
    for name in ["a_b", "a!b", "a?b"] {
        builder.task(Task::new(name, Action::Nothing));
    }
    builder.edge("a b", "a_b", 5).edge("a!b", "a?b", 0);
    let written = to_wfformat(&builder.build().unwrap(), "2030-01-01T00:00:00+00:00", Duration::ZERO);
    let again = read("odd.json", written.as_bytes()).unwrap();
    let names: Vec<&str> = again.tasks().iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["a_b_2", "a_b", "a_b_3", "a_b_4"]);
    assert_eq!(again.tasks()[0].action, Action::Shell(r"echo 'it'\''s' plain".into()));
    assert_eq!(edges(&again), [(0, 1, 0), (2, 3, 0)]);
}

#[test]
fn names_with_spaces_round_trip_through_rescue_files() {
    let mut builder = Description::builder("spaces");
    for name in [" a ", "b c", "d"] {
        builder.task(Task::new(name, Action::Nothing));
    }
    let mut description = builder.build().unwrap();
    (0..3).for_each(|task| description.set_done(task, true));
    let rescue_file = rescue::write(&description);
    (0..3).for_each(|task| description.set_done(task, false));
    rescue::read("r", rescue_file.as_bytes(), &mut description).unwrap();
    assert!(description.tasks().iter().all(|task| task.done));
}

#[test]
fn format_is_detected_by_name_and_content() {
    for (name, content, format) in [
        ("a/b.JSON", "", Format::WfFormat),
        ("a.gv", "", Format::Dot),
        ("a.toml", "{", Format::Toml),
        ("dir.dag/file", " \n {\"schemaVersion\": 1}", Format::WfFormat),
        ("a.dag.rescue", "# done\nDONE a\n", Format::Dag),
        ("-", "// x\nStrict Digraph {", Format::Dot),
        ("-", "# x\n[[task]]", Format::Toml),
        ("-", "name = 'x'", Format::Toml),
    ] {
        assert_eq!(Format::of(name, content.as_bytes()), Ok(format), "{name} {content}");
    }
}

#[test]
fn file_listed_twice_makes_one_edge() {
    let text = "[[task]]\nid='a'\noutputs=[{name='f',size=7},{name='f',size=7}]\n[[task]]\nid='b'\ninputs=['f','f']\n";
    assert_eq!(edges(&read("a.toml", text.as_bytes()).unwrap()), [(0, 1, 7)]);
}

#[test]
fn fractional_measured_values_are_accepted() {
    let text = r#"{"schemaVersion":"1.5","workflow":{"specification":{"tasks":[{"id":"a"}]},"execution":{"tasks":[
        {"id":"a","runtimeInSeconds":1,"memoryInBytes":10.25,"coreCount":1.5,"priority":-2.0,"machine":"m"}]}}}"#;
    let description = read("a.json", text.as_bytes()).unwrap();
    let task = &description.tasks()[0];
    assert_eq!(
        (task.memory, task.cores, task.priority, task.machine.as_deref()),
        (Some(11), 2, -2, Some("m"))
    );
}

/// Replaces single bytes of files, and cuts files off. Each such file must be refused, or read and converted to a workflow for the planner.
#[test]
fn damaged_files_are_refused_or_read_without_panic() {
    let dag: &[u8] = b"# x\nTASK a -m 5 -f A=b 'x y' z\nTASK b -t 2 x\nEDGE a b\nDONE a\n";
    let dot: &[u8] =
        b"digraph \"x\" { a [memory=5, label=<b<c>>]; subgraph s { a -> b:n -> c [size=7] } /* x */ }";
    let toml: &[u8] =
        b"[limit]\ndb=5\n[[task]]\nid='a'\nmemory='5 MB'\n[[task]]\nid='b'\ndeps=['a']\nlimits={db=1}\n";
    for (name, file) in
        [("a.json", &BACASS[..1500]), ("b.json", BACASS), ("a.dag", dag), ("a.dot", dot), ("a.toml", toml)]
    {
        let step = 1 + file.len() / 200;
        let (mut read_well, mut refused) = (0, 0);
        for place in (0..file.len()).step_by(step) {
            for byte in [b'"', b'{', b'-', b'9', b'\n', 0, 0xff] {
                let mut damaged = file.to_vec();
                damaged[place] = byte;
                for bytes in [&damaged[..], &damaged[..=place]] {
                    match read(name, bytes) {
                        Ok(description) => {
                            read_well += 1;
                            assert_eq!(description.to_workflow().unwrap().len(), description.tasks().len());
                        }
                        Err(error) => {
                            refused += 1;
                            assert!(
                                !error.message().is_empty() && !error.to_string().contains('\0'),
                                "{error:?}"
                            );
                        }
                    }
                }
            }
        }
        assert!(
            refused > 0 && (read_well > 0 || name == "a.json"),
            "{name}: {read_well} read, {refused} refused"
        );
    }
}

/// A thousand tasks each write for a thousand other tasks. The JSON file lists each dependency at both tasks.
#[test]
fn million_edges_are_read() {
    const SIDE: usize = 1000;
    let pairs = || (0..SIDE).flat_map(|from| (SIDE..2 * SIDE).map(move |to| (from, to)));
    let list = |tasks: std::ops::Range<usize>| {
        tasks.map(|task| format!("\"task_{task:08}\"")).collect::<Vec<_>>().join(",")
    };
    let task = |task: usize| {
        let (parents, children) =
            if task < SIDE { (String::new(), list(SIDE..2 * SIDE)) } else { (list(0..SIDE), String::new()) };
        format!(r#"{{"name":"t","id":"task_{task:08}","parents":[{parents}],"children":[{children}]}}"#)
    };
    let tasks: Vec<String> = (0..2 * SIDE).map(task).collect();
    let json = format!(
        r#"{{"schemaVersion":"1.6","workflow":{{"specification":{{"tasks":[{}]}}}}}}"#,
        tasks.join(",")
    );
    let mut dag: String = (0..2 * SIDE).map(|task| format!("TASK t{task} x\n")).collect();
    dag.extend(pairs().map(|(from, to)| format!("EDGE t{from} t{to}\n")));
    let edges: String = pairs().map(|(from, to)| format!("t{from} -> t{to} [size=3];\n")).collect();
    for (name, text) in [("a.json", json), ("a.dag", dag), ("a.dot", format!("digraph {{ {edges} }}"))] {
        let start = std::time::Instant::now();
        let description = read(name, text.as_bytes()).unwrap();
        println!("{name}: {} bytes, {} edges, {:?}", text.len(), description.edges().len(), start.elapsed());
        assert_eq!(description.edges().len(), SIDE * SIDE);
    }
}
