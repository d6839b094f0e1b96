//! Tests of `armature plan workflow` on a small workflow and on malformed files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workflows").join(name)
}

fn plan(file: &Path, platform: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_armature"));
    command.args(["plan", "workflow"]).arg(file).arg("--platform").arg(platform).args(more);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap()
}

#[track_caller]
fn planned(more: &[&str]) -> String {
    let output = plan("tests/workflows/small.toml".as_ref(), "tests/workflows/two.toml".as_ref(), more);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Found by hand: `left` needs 910 MiB, so that it runs on the large processor from 1 s to 5 s. `right` runs on the small one: the transfer of its
/// input of 100 MiB takes 0.5 s and the task 4 s, and its result is back 0.05 s after 5.5 s. Then `join` takes 0.5 s. If `right` ran after `left`,
/// `join` would end at 7.5 s.
#[test]
fn plan_equals_the_optimal_plan_found_by_hand() {
    assert_eq!(planned(&[]), include_str!("workflows/small.txt"));
}

#[test]
fn planners_are_compared_on_request() {
    let text = planned(&["--compare"]);
    assert!(text.starts_with(include_str!("workflows/small.txt")));
    for planner in ["HEFTM-BL ", "HEFTM-MM ", "DagHetMem ", "DagHetPart "] {
        assert!(text.lines().any(|line| line.starts_with(planner)), "{planner} in {text}");
    }
    assert_eq!(text.matches("  chosen").count(), 1);
}

#[test]
fn plan_is_printed_as_json() {
    let value: serde_json::Value = serde_json::from_str(&planned(&["--json"])).unwrap();
    assert_eq!(value["verified"], true);
    assert_eq!(value["tasks"].as_array().unwrap().len(), 4);
    let last = value["tasks"][3]["finish"].as_f64().unwrap();
    assert_eq!(value["makespan"].as_f64().unwrap(), last);
    assert_eq!(value["processors"][0]["memory"], 1 << 30);
    assert!(value["processors"][0]["peak"].as_u64().unwrap() <= 1 << 30);
}

#[test]
fn task_is_explained_with_its_waits() {
    let explained = |task| planned(&["--explain", task]);
    assert!(explained("split").contains("It waits for nothing."), "{}", explained("split"));
    let left = explained("left");
    assert!(left.contains("\"left\" runs on large from 1.000 s to 5.000 s."), "{left}");
    assert!(left.contains("Memory: it needs 910 MiB of 1.00 GiB"), "{left}");
    let join = explained("join <&>");
    assert!(join.contains("It waits for that input."), "{join}");
    let output = plan(&sample("small.toml"), &sample("two.toml"), &["--explain", "joint"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.ends_with("small.toml: there is no task \"joint\": expected the name of a task\n"),
        "{error}"
    );
}

#[test]
fn svg_chart_shows_each_task_and_is_valid_xml() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("plan.svg");
    planned(&["--svg", file.to_str().unwrap()]);
    let svg = std::fs::read_to_string(file).unwrap();
    assert_eq!(svg.matches("<rect ").count(), 4);
    assert!(svg.contains("join &lt;&amp;&gt;: ") && !svg.contains("<&>"));
    assert!(svg.contains("peak ") && svg.trim_end().ends_with("</svg>"));
    for tag in ["svg", "title", "text"] {
        let opened = svg.matches(&format!("<{tag}>")).count() + svg.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, svg.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

/// Tasks `a` and `b` each write two files of 60 B to a memory of 200 B, so that one of the four files must go to disk.
#[test]
fn eviction_is_explained_with_the_task_that_needs_the_memory() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let task = |id: &str, more: &str| format!("[[task]]\nid = \"{id}\"\nrun_time = 1\n{more}\n");
    let file = |name: &str| format!("{{ name = \"{name}\", size = 60 }}");
    // `c` and `d` each read a file of `a` and a file of `b`, so that in every order of the tasks all four files exist at the same time.
    let text = task("a", &format!("outputs = [{}, {}]", file("ac"), file("ad")))
        + &task("b", &format!("outputs = [{}, {}]", file("bc"), file("bd")))
        + &task("c", "inputs = [\"ac\", \"bc\"]")
        + &task("d", "inputs = [\"ad\", \"bd\"]");
    let workflow = write("evict.toml", &text);
    let platform = write("one.toml", "disk = 60\n[[processor]]\nname = \"p\"\nmemory = 200\n");
    let output = plan(&workflow, &platform, &["--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let evicted = value["evictions"].as_array().unwrap();
    assert_eq!((evicted.len(), value["makespan"].as_f64()), (1, Some(6.0)), "{value}");
    let before = evicted[0]["before"].as_str().unwrap();
    let explained = String::from_utf8(plan(&workflow, &platform, &["--explain", before]).stdout).unwrap();
    assert!(explained.contains("Before that, the 60 B from "), "{explained}");
}

#[test]
fn hostfile_with_memory_is_accepted_as_platform() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    std::fs::write(&hosts, "node1 slots=2 memory=3GiB speed=2\nnode2 memory=1GiB\n").unwrap();
    let output = plan(&sample("small.toml"), &hosts, &["--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> =
        value["processors"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["node1:0", "node1:1", "node2"]);
    assert_eq!(value["processors"][1]["memory"].as_u64(), Some(3 << 29));
}

/// An error in a workflow file must be one line with the file, the position in it and the expected content.
#[test]
fn malformed_files_are_reported_with_position_and_expectation() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let task = "[[task]]\nid = \"a\"\nmemory = \"2 GiB\"\n";
    let (good, two) = (sample("small.toml"), sample("two.toml"));
    let cases = [
        (
            write("cycle.dag", "TASK a x\nTASK b x\nEDGE a b\nEDGE b a\n"),
            two.clone(),
            2,
            vec!["cycle.dag: ", "cycle"],
        ),
        (
            write("unknown.dag", "TASK a x\nEDGE a b\n"),
            two.clone(),
            2,
            vec!["unknown.dag: line 2: there is no task \"b\""],
        ),
        (
            write("old.json", r#"{"schemaVersion": "1.1", "workflow": {"jobs": []}}"#),
            two.clone(),
            2,
            vec!["old.json: schemaVersion: ", "expected"],
        ),
        (
            write("negative.toml", "[[task]]\nid = \"a\"\nmemory = -1\n"),
            two.clone(),
            2,
            vec!["task[0].memory", "expected"],
        ),
        (write("large.toml", task), two.clone(), 3, vec!["there is no plan: task \"a\" fits no processor"]),
        (
            dir.path().join("none.dag"),
            two.clone(),
            2,
            vec!["cannot read the workflow ", "none.dag: No such file"],
        ),
        (
            good.clone(),
            dir.path().join("none.toml"),
            2,
            vec!["cannot read the platform ", "none.toml: No such file"],
        ),
        (
            good.clone(),
            write("p.toml", "[[processor]]\nspeed = 1\n"),
            2,
            vec!["p.toml: processor[0].memory: is missing: expected its memory"],
        ),
        (
            good.clone(),
            write("long.toml", &format!("[[processor]]\nmemory = 1\nname = \"{}\"\n", "n".repeat(70_000))),
            2,
            vec![
                "long.toml: processor[0]: the name of processor 0 has 70000 bytes, but must have at most 4096",
            ],
        ),
        (
            good.clone(),
            write("longhosts", &format!("{} memory=2GiB\n", "n".repeat(70_000))),
            2,
            vec!["the name of processor 0 has 70000 bytes"],
        ),
        (
            good,
            write("hosts", "node1 slots=2\n"),
            2,
            vec!["hosts: host node1 has no memory=: expected memory=M"],
        ),
    ];
    for (file, platform, code, parts) in cases {
        let output = plan(&file, &platform, &[]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        for part in parts {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}

#[test]
fn processor_names_are_escaped_and_truncated() {
    let dir = tempfile::tempdir().unwrap();
    let platform = dir.path().join("platform.toml");
    for (name, shown) in [(r"x\u2028forged".to_string(), r"x\u{2028}forged"), ("y".repeat(4096), "yyy")] {
        fs::write(&platform, format!("[[processor]]\nname = \"{name}\"\nmemory = \"4 GiB\"\n")).unwrap();
        for more in [&[][..], &["--explain", "left"]] {
            let output = plan("tests/workflows/small.toml".as_ref(), &platform, more);
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains(shown) && text.len() < 5_000, "{text}");
            assert!(!text.contains('\u{2028}'), "{text:?}");
        }
    }
    for (name, expected) in [
        (r"x\nforged\u001b[2J".to_string(), r"x\nforged\u{1b}[2J"),
        ("y".repeat(70_000), "has 70000 bytes, but must have at most 4096"),
    ] {
        fs::write(&platform, format!("[[processor]]\nname = \"{name}\"\nmemory = \"4 GiB\"\n")).unwrap();
        let output = plan("tests/workflows/small.toml".as_ref(), &platform, &[]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(expected) && error.lines().count() == 1 && error.len() < 500, "{error}");
    }
}
