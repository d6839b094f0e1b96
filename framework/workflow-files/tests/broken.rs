//! Tests of the error messages about invalid files.

use armature_workflow_files::{Error, ErrorKind, read};

fn fault(name: &str, text: &str) -> Error {
    read(name, text.as_bytes()).expect_err(text)
}

#[track_caller]
fn assert_fault(name: &str, text: &str, expected: &str) {
    assert_eq!(fault(name, text).to_string(), format!("{name}: {expected}"));
}

fn nested(tasks: &str, files: &str) -> String {
    format!(
        r#"{{"name":"x","schemaVersion":"1.6","workflow":{{"specification":{{"tasks":[{tasks}],"files":[{files}]}}}}}}"#
    )
}

fn flat(tasks: &str) -> String {
    format!(r#"{{"name":"x","schemaVersion":"1.4","workflow":{{"tasks":[{tasks}]}}}}"#)
}

#[test]
fn files_of_unknown_format_are_refused() {
    let error = fault("letter.txt", "dear reader");
    assert_eq!(error.kind(), ErrorKind::Format);
    assert!(
        error
            .to_string()
            .starts_with("letter.txt: the format is unknown: expected a name that ends in .json")
    );
    let error = read("a.dag", b"TASK a x\n\xff\n").unwrap_err();
    assert_eq!(error.to_string(), "a.dag: line 2: \"\u{fffd}\\n\" is not UTF-8: expected text");
}

#[test]
fn unsupported_wfformat_versions_are_refused() {
    let of = |version: &str| format!(r#"{{"schemaVersion":{version},"workflow":{{}}}}"#);
    for version in ["1.0", "1.1"] {
        let error = fault("a.json", &of(&format!("{version:?}")));
        assert_eq!((error.kind(), error.place()), (ErrorKind::Version, "schemaVersion"));
        assert!(error.message().starts_with(&format!("is {version:?}: expected 1.2 to 1.6")), "{error}");
        assert!(error.message().contains("wfcommons-migrate-instance.py"), "{error}");
    }
    assert_fault("a.json", &of("\"1.7\""), "schemaVersion: is \"1.7\": expected 1.2 to 1.6");
    assert_fault("a.json", &of("1.5"), "schemaVersion: is 1.5: expected text");
    assert_fault(
        "a.json",
        "{}",
        "schemaVersion: is missing: expected a version of WfFormat, \"1.2\" to \"1.6\"",
    );
    assert_fault(
        "a.json",
        &of("\"1.6\""),
        "workflow.specification: is missing: expected an object with tasks and files",
    );
    assert_fault("a.json", &of("\"1.3\""), "workflow.tasks: is missing: expected a list of tasks");
}

#[test]
fn broken_wfformat_graphs_are_refused() {
    let a = r#"{"id":"a"}"#;
    assert_fault("a.json", &nested("", ""), "there must be at least one task");
    assert_fault(
        "a.json",
        &nested(&format!(r#"{a},{{"id":"b","parents":["a","c"]}}"#), ""),
        "workflow.specification.tasks[1].parents[1]: there is no task \"c\": expected the name of a task",
    );
    assert_fault(
        "a.json",
        &nested(r#"{"id":"b","children":["c"]}"#, ""),
        "workflow.specification.tasks[0].children[0]: there is no task \"c\": expected the name of a task",
    );
    assert_fault(
        "a.json",
        &nested(&format!("{a},{a}"), ""),
        "workflow.specification.tasks[1]: task \"a\" exists already, at workflow.specification.tasks[0]: expected another \
         name",
    );
    assert_fault(
        "a.json",
        &nested(r#"{"id":"a","parents":["b"]},{"id":"b","parents":["a"]}"#, ""),
        "2 tasks depend on one another in a cycle: \"a\" → \"b\" → \"a\"",
    );
    assert_fault(
        "a.json",
        &flat(r#"{"name":"a","parents":["a"]}"#),
        "workflow.tasks[0].parents[0]: task \"a\" depends on itself",
    );
    assert_fault(
        "a.json",
        &nested(
            r#"{"id":"a","outputFiles":["f"]},{"id":"b","outputFiles":["f"]}"#,
            r#"{"id":"f","sizeInBytes":1}"#,
        ),
        "workflow.specification.tasks[1]: task \"b\" writes file \"f\", which task \"a\" also writes: expected one writer",
    );
}

#[test]
fn wrong_wfformat_values_are_refused() {
    let file = |rest: &str| nested(r#"{"id":"a","inputFiles":["f"]}"#, &format!(r#"{{"id":"f"{rest}}}"#));
    let whole = "expected a whole number of 0 or more";
    for (size, there) in
        [("-5", "-5"), ("1.5", "1.5"), ("\"big\"", "\"big\""), ("1e30", "1e+30"), ("[1]", "a list of 1")]
    {
        assert_fault(
            "a.json",
            &file(&format!(",\"sizeInBytes\":{size}")),
            &format!("workflow.specification.files[0].sizeInBytes: is {there}: {whole}"),
        );
    }
    let size = "workflow.specification.files[0].sizeInBytes: is missing: expected the file's size";
    assert_fault("a.json", &file(""), size);
    assert_fault("a.json", &file(",\"sizeInBytes\":null"), size);
    assert_fault(
        "a.json",
        &nested(r#"{"id":"a","inputFiles":["f"]}"#, ""),
        "workflow.specification.tasks[0].inputFiles[0]: file \"f\" has no size: expected it in workflow.specification.files",
    );
    for (size, expected) in [
        ("", "workflow.tasks[0].files[0].sizeInBytes: is missing: expected the file's size"),
        (",\"size\":-1", "workflow.tasks[0].files[0].size: is -1: expected a whole number of 0 or more"),
    ] {
        let task = format!(r#"{{"name":"a","files":[{{"name":"f","link":"input"{size}}}]}}"#);
        assert_fault("a.json", &flat(&task), expected);
    }
    assert_fault(
        "a.json",
        &flat(r#"{"name":"a","files":[{"name":"f","link":"inout","size":1}]}"#),
        "workflow.tasks[0].files[0].link: is \"inout\": expected \"input\" or \"output\"",
    );
    assert_fault(
        "a.json",
        &flat(r#"{"name":"a","runtimeInSeconds":-2}"#),
        "workflow.tasks[0].runtimeInSeconds: is -2: expected a number of 0 or more",
    );
    assert_fault(
        "a.json",
        &nested(r#"{"name":"a"}"#, ""),
        "workflow.specification.tasks[0].id: is missing: expected the task's id",
    );
    let error = fault("a.json", "{\n\"schemaVersion\": ,\n}");
    assert_eq!((error.kind(), error.place()), (ErrorKind::Syntax, "line 2"));
    let error = fault("a.json", &"[".repeat(1_000_000));
    assert_eq!(error.kind(), ErrorKind::Syntax);
}

#[test]
fn broken_dag_files_are_refused() {
    for (text, expected) in [
        ("", "there must be at least one task"),
        ("TASK a x\nEDGE a b\n", "line 2: there is no task \"b\": expected the name of a task"),
        ("TASK a x\nDONE b\n", "line 2: there is no task \"b\": expected the name of a task"),
        (
            "TASK a x\n\n# x\nTASK a y\n",
            "line 4: task \"a\" exists already, at line 1: expected another name",
        ),
        ("TASK a x\nEDGE a a\n", "line 2: task \"a\" depends on itself"),
        (
            "TASK a x\nTASK b x\nEDGE a b\nEDGE b a\n",
            "2 tasks depend on one another in a cycle: \"a\" → \"b\" → \"a\"",
        ),
        ("TASK a -m -5 x\n", "line 1: option -m is \"-5\": expected megabytes, a number of 0 or more"),
        (
            "TASK a -m 99999999999999 x\n",
            "line 1: option -m is \"99999999999999\": expected megabytes, a number of 0 or more",
        ),
        ("TASK a -c 0 x\n", "line 1: option -c is \"0\": expected cores, a number above 0"),
        ("TASK a -t none x\n", "line 1: option -t is \"none\": expected tries, at least 1"),
        ("TASK a -f V x\n", "line 1: option -f is \"V\": expected VARIABLE=FILE"),
        ("TASK a -F s=../d x\n", "line 1: the name of a file is \"../d\": expected no part \"..\""),
        ("TASK a -z 1 x\n", "line 1: option \"-z\" is unknown: expected -m, -c, -t, -p, -f or -F"),
        ("TASK a -m\n", "line 1: option \"-m\" has no value"),
        ("TASK a\n", "line 1: task \"a\" has no program: expected \"TASK id [options] program [arguments]\""),
        ("TASK a 'x\n", "line 1: the line ends within a quotation: expected '"),
    ] {
        assert_fault("a.dag", text, expected);
    }
    let error = fault("a.dag", "TASK a x\nJOB b x.sub\n");
    assert!(
        error
            .to_string()
            .starts_with("a.dag: line 2: \"JOB b x.sub\" is not a line of a .dag file: expected"),
        "{error}"
    );
}

#[test]
fn broken_dot_files_are_refused() {
    for (text, expected) in [
        ("digraph {}", "there must be at least one task"),
        ("graph { a -- b }", "line 1: \"--\" is an edge without direction: expected \"->\""),
        ("graph { a }", "line 1: is not a directed graph: expected \"digraph\""),
        ("digraph {\na -> b\nb -> a\n}", "2 tasks depend on one another in a cycle: \"a\" → \"b\" → \"a\""),
        ("digraph {\na -> a\n}", "line 2: task \"a\" depends on itself"),
        (
            "digraph {\na [memory=-1]\n}",
            "line 2: attribute memory is \"-1\": expected a whole number of 0 or more",
        ),
        (
            "digraph {\na -> b [size=\"\"]\n}",
            "line 2: attribute size is \"\": expected a whole number of 0 or more",
        ),
        (
            "digraph {\na [weight=inf]\n}",
            "line 2: attribute weight is \"inf\": expected a number of 0 or more",
        ),
        ("digraph {\na -> {b c}\n}", "line 2: found \"{\": expected the name of a node"),
        ("digraph {\na -> b\n", "line 2: found the end of the file: expected the name of a node"),
        ("digraph { a } b", "line 1: found \"b\": expected the end of the file"),
        ("digraph {\n\"a\n}", "line 2: a quotation begins here: expected its end, \""),
        ("digraph {\n/* a\n}", "line 2: a comment begins here: expected its end, */"),
        (
            "digraph {\na ! b\n}",
            "line 2: \"!\" cannot be part of a word: expected a name, in quotes if it is not a word",
        ),
        ("digraph { \"a\nb\" }", "line 1: the name of a task is \"a\\nb\": expected no control characters"),
    ] {
        assert_fault("a.dot", text, expected);
    }
}

#[test]
fn broken_toml_files_are_refused() {
    for (text, expected) in [
        ("", "task: is missing: expected at least one [[task]]"),
        ("[[task]]\n", "task[0].id: is missing: expected the task's name"),
        (
            "[[task]]\nid='a'\n[[task]]\nid='a'",
            "task[1]: task \"a\" exists already, at task[0]: expected another name",
        ),
        (
            "[[task]]\nid='a'\ndeps=['b']",
            "task[0].deps[0]: there is no task \"b\": expected the name of a task",
        ),
        (
            "[[task]]\nid='a'\ndeps=['b']\n[[task]]\nid='b'\ndeps=['a']",
            "2 tasks depend on one another in a cycle: \"a\" → \"b\" → \"a\"",
        ),
        ("[[task]]\nid='a'\nmemory=-1", "task[0].memory: is -1: expected a whole number of 0 or more"),
        (
            "[[task]]\nid='a'\nmemory='2 gig'",
            "task[0].memory: is \"2 gig\": expected bytes, such as 4096 or \"2 GiB\"",
        ),
        (
            "[[task]]\nid='a'\ninputs=[{name='f'}]",
            "task[0].inputs[0].size: is missing: expected the file's size (where it is not known, write the name only)",
        ),
        ("[[task]]\nid='a'\ncpus=0", "task[0]: task \"a\" has 0 cores or tries: expected at least 1"),
        (
            "[[task]]\nid='a'\ntime_limit=0",
            "task[0].time_limit: is 0: expected a time above 0, such as 90 (seconds), \"5 min\" or \"2 h\"",
        ),
        (
            "[[task]]\nid='a'\nlimits={db=1}",
            "task[0]: task \"a\" uses limit \"db\": there is no limit of this name",
        ),
        (
            "[limit]\ndb=1\n[[task]]\nid='a'\nlimits={db=2}",
            "task[0]: task \"a\" uses 2 of limit \"db\": expected at most 1",
        ),
        (
            "[[task]]\nid='a'\ncommand=[]",
            "task[0].command: is a list of 0: expected a program and its arguments",
        ),
        (
            "[[task]]\nid='a'\ncommand='x'\nclosure='y'",
            "task[0].closure: is set in addition to a command: expected one of them",
        ),
        (
            "[[task]]\nid='a'\noutputs=['/x/../../y']",
            "task[0]: the name of a file is \"/x/../../y\": expected no part \"..\"",
        ),
        (
            "[[task]]\nid='a'\nenv={\"A=B\"='x'}",
            "task[0]: the name of a variable is \"A=B\": expected no \"=\"",
        ),
    ] {
        assert_fault("a.toml", text, expected);
    }
    let error = fault("a.toml", "[[task]]\nid='a'\ncomand='x'");
    assert!(
        error.to_string().starts_with("a.toml: task[0].comand: is an unknown key: expected one of id,"),
        "{error}"
    );
    let error = fault("a.toml", "[[task]]\nid=\n");
    assert_eq!((error.kind(), error.place()), (ErrorKind::Syntax, "line 2"));
}

#[test]
fn hostile_names_are_refused() {
    let long = "x".repeat(5000);
    let names = [
        ("", "\"\": expected at least one character".to_string()),
        ("a\\u0007", "\"a\\u{7}\": expected no control characters".into()),
        ("a\\u0000", "\"a\\u{0}\": expected no control characters".into()),
        ("a\\u202eb", "\"a\\u{202e}b\": expected no control characters".into()),
        (&long, format!("\"{}\"… (5000 bytes): expected at most 4096 bytes", "x".repeat(80))),
    ];
    for (name, there) in names {
        assert_fault(
            "a.json",
            &nested(&format!(r#"{{"id":"{name}"}}"#), ""),
            &format!("workflow.specification.tasks[0]: the name of a task is {there}"),
        );
        assert_fault(
            "a.toml",
            &format!("[[task]]\nid=\"{name}\"\n"),
            &format!("task[0]: the name of a task is {there}"),
        );
    }
}

#[test]
fn hostile_names_and_commands_in_dag_lines_are_refused() {
    for (text, expected) in [
        (
            "TASK a\u{1b}[2J x\n",
            "line 1: the name of a task is \"a\\u{1b}[2J\": expected no control characters",
        ),
        ("TASK '' x\n", "line 1: the name of a task is \"\": expected at least one character"),
        ("TASK a ''\n", "line 1: the command is empty: expected a program"),
        ("TASK a x y\0z\n", "line 1: \"y\\u{0}z\" has a zero byte: expected text"),
        ("TASK a -f 'V=/a/..' x\n", "line 1: the name of a file is \"/a/..\": expected no part \"..\""),
    ] {
        assert_fault("a.dag", text, expected);
    }
    let long = "x".repeat(5000);
    let error = fault("a.dot", &format!("digraph {{\n{long} }}"));
    assert_eq!(error.place(), "line 2");
    assert!(error.message().ends_with("… (5000 bytes): expected at most 4096 bytes"), "{error}");
}

#[test]
fn hostile_keys_are_escaped_in_errors() {
    let long = "x".repeat(5000);
    for key in ["\\u001b[2J", "", "a.b", &long] {
        for text in [
            format!("\"{key}\"=1"),
            format!("\"{key}\"=1\n\"{key}\"=2"),
            format!("[[task]]\nid='a'\nenv={{\"{key}\"=1}}"),
        ] {
            let error = fault("a.toml", &text).to_string();
            assert!(!error.contains(char::is_control), "{error:?}");
        }
    }
    let error = fault("a.toml", "\"\\u001b[2J\"=1");
    assert_eq!(error.place(), "\"\\u{1b}[2J\"");
    assert!(fault("a.toml", &format!("{long}=1")).place().ends_with("… (5000 bytes)"));
}

#[test]
fn sizes_whose_sum_overflows_are_refused() {
    let huge = u64::MAX;
    let text = format!("digraph {{ a -> b [size={huge}]; a -> b [size={huge}] }}");
    assert!(fault("a.dot", &text).message().ends_with("use a larger unit"));
}

#[test]
fn cycle_of_100000_tasks_is_reported_briefly() {
    const TASKS: usize = 100_000;
    let cycle = "100000 tasks depend on one another in a cycle: \"t0\" → \"t1\" → \"t2\" → \"t3\" → \"t4\" → \"t5\" → \"t6\" → \"t7\" → …";
    let next = |task: usize| (task + 1) % TASKS;
    let dag: String =
        (0..TASKS).map(|task| format!("TASK t{task} x\nEDGE t{task} t{}\n", next(task))).collect();
    assert_fault("a.dag", &dag, cycle);
    let dot: String = (0..TASKS).map(|task| format!("t{task} -> t{}\n", next(task))).collect();
    assert_fault("a.dot", &format!("digraph {{ {dot} }}"), cycle);
    let json: Vec<String> =
        (0..TASKS).map(|task| format!(r#"{{"id":"t{task}","children":["t{}"]}}"#, next(task))).collect();
    assert_fault("a.json", &nested(&json.join(","), ""), cycle);
    let toml: String =
        (0..TASKS).map(|task| format!("[[task]]\nid='t{}'\ndeps=['t{task}']\n", next(task))).collect();
    assert!(
        fault("a.toml", &toml)
            .to_string()
            .starts_with("a.toml: 100000 tasks depend on one another in a cycle")
    );
}

#[test]
fn file_text_in_errors_is_escaped_and_truncated() {
    let long = "x".repeat(500_000);
    for (file, text) in [
        ("a.dag", format!("TASK {long}")),
        ("a.dag", "TASK a\u{1b}[2J\u{2028}".to_string()),
        ("a.toml", format!("[[task]]\nid = \"a\"\nclosure = \"x\"\ndeps = [\"{long}\\n\"]")),
        ("a.toml", format!("{long}\u{1b} = = 1")),
        ("a.json", format!("{{\"schemaVersion\": \"\\u001b\\u202e{long}\"}}")),
        ("a.dot", format!("digraph {{ a -> \"{long}\u{2028}\" \"{long}\" = }}")),
        ("a\n\u{1b}.dag", "x".to_string()),
    ] {
        let error = fault(file, &text).to_string();
        assert!(error.len() < 1_000, "{} bytes: {}", error.len(), &error[..200]);
        assert!(
            !error.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{202e}')),
            "{error:?}"
        );
    }
}
