//! Tests of the programs in `examples`: on threads against serial versions, and some of them as a user runs them.

#![allow(dead_code, reason = "nobody calls their `main` here")]

#[path = "../../examples/k_means.rs"]
mod k_means;
#[path = "../../examples/lcs.rs"]
mod lcs;
#[path = "../../examples/life.rs"]
mod life;
#[path = "../../examples/n_body.rs"]
mod n_body;
#[path = "../../examples/pi.rs"]
mod pi;
#[path = "../../examples/plate.rs"]
mod plate;
#[path = "../../examples/stations.rs"]
mod stations;
#[path = "../../examples/tree_search.rs"]
mod tree_search;
#[path = "../../examples/tutorial_farm.rs"]
mod tutorial_farm;
#[path = "../../examples/tutorial_pipeline.rs"]
mod tutorial_pipeline;
#[path = "../../examples/tutorial_stencil.rs"]
mod tutorial_stencil;
#[path = "../../examples/tutorial_workflow.rs"]
mod tutorial_workflow;
#[path = "../../examples/word_count.rs"]
mod word_count;

use std::fmt::Write;
use std::process::Command;

use armature::loops::Shape;
use armature::{BoxError, Config, Session};
use armature_tests::account;
use armature_tests::mpirun::Job;
use armature_tests::program::succeeds;

const SWEEP: &str = env!("CARGO_BIN_EXE_example-parameter-sweep");
const PI: &str = env!("CARGO_BIN_EXE_example-pi");

/// Page about the programs of the tutorial.
const TUTORIAL_PAGE: &str = include_str!("../../docs/tutorial.md");

/// Programs of the tutorial in the order of the page: path, source, and a text in the source. The page shows the source from its first `use` up to
/// this text.
const TUTORIAL: [(&str, &str, &str); 4] = [
    (
        env!("CARGO_BIN_EXE_example-tutorial-farm"),
        include_str!("../../examples/tutorial_farm.rs"),
        "#[cfg(test)]",
    ),
    (
        env!("CARGO_BIN_EXE_example-tutorial-pipeline"),
        include_str!("../../examples/tutorial_pipeline.rs"),
        "/// Returns the picture of a torch",
    ),
    (
        env!("CARGO_BIN_EXE_example-tutorial-stencil"),
        include_str!("../../examples/tutorial_stencil.rs"),
        "fn main",
    ),
    (
        env!("CARGO_BIN_EXE_example-tutorial-workflow"),
        include_str!("../../examples/tutorial_workflow.rs"),
        "/// Heats a cold plate",
    ),
];

/// Serial version of the command in the example program for a parameter sweep.
fn animals(rate: f64) -> f64 {
    (0..1_000).fold(0.3, |x, _| x * (rate * (1.0 - x)))
}

#[test]
fn parameter_sweep_runs_its_program_for_each_value() {
    let serial: String = (0..20)
        .map(|n| format!("{:.2}", 1.0 + 0.1 * f64::from(n)))
        .map(|rate| {
            let animals = animals(rate.parse().unwrap());
            format!("{rate}\t{animals:.6}\n")
        })
        .collect();
    for ranks in ["1", "2", "3"] {
        let place = tempfile::tempdir().unwrap();
        let output = succeeds(Command::new(SWEEP).arg(place.path()).args(["--ranks", ranks]));
        assert_eq!(output.printed, serial, "{ranks} ranks");
    }
    let place = tempfile::tempdir().unwrap();
    let outcome = Job::new(SWEEP, 2).arg(place.path()).succeeds();
    assert_eq!(outcome.stdout, serial, "{outcome}");
}

#[test]
fn tutorial_shows_its_programs_as_they_are() {
    let mut page = TUTORIAL_PAGE;
    for (program, source, end) in TUTORIAL {
        let shown = source.find("use ").and_then(|start| source[start..].split_once(&format!("\n{end}")));
        let (shown, _) = shown.unwrap_or_else(|| panic!("{program} has no `{end}`"));
        (_, page) = page
            .split_once(&format!("\n{shown}```\n"))
            .unwrap_or_else(|| panic!("docs/tutorial.md does not show {program} as it is:\n{shown}"));
    }
    // The page says that the function `step` is the same in three programs.
    let step = |source: &'static str| Some(source.split_once("\nfn step(")?.1.split_once("\n}\n")?.0);
    let [farm, pipeline, _, workflow] = TUTORIAL.map(|(_, source, _)| step(source));
    assert!(farm.is_some() && farm == pipeline && farm == workflow);
}

#[test]
fn tutorial_shows_the_output_of_its_programs() {
    for (program, _, _) in TUTORIAL {
        let outcome = Job::new(program, 2).succeeds();
        assert!(
            TUTORIAL_PAGE.contains(&format!("\n{}```\n", outcome.stdout)),
            "docs/tutorial.md does not show the output of {program}\n{outcome}"
        );
    }
}

#[test]
fn example_without_own_arguments_refuses_them_and_has_help() {
    for (argument, expected) in [
        (
            "--rank",
            "example-pi: unexpected argument \"--rank\": did you mean `--ranks`? `--help` lists the arguments\n",
        ),
        ("bogus", "example-pi: unexpected argument \"bogus\": `--help` lists the arguments\n"),
        ("--ranks=0", "example-pi: --ranks=0: expected a whole number from 1 to 4096\n"),
    ] {
        let output = Command::new(PI).args([argument, "4"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    }
    // The help must be printed once, although each rank receives `--help`.
    let outcome = Job::new(PI, 2).arg("--help").run();
    assert!(
        outcome.status.success() && outcome.stdout.matches("Usage: example-pi").count() == 1,
        "{outcome}"
    );
    let outcome = Job::new(PI, 2).arg("bogus").run();
    assert_eq!(outcome.stderr.matches("unexpected argument").count(), 1, "{outcome}");
    assert!(!outcome.status.success(), "{outcome}");
}

/// Computing, messages and waiting of each rank must take the same time in the event log as in the printed summary.
#[test]
fn event_log_agrees_with_the_summary() {
    let lines = tempfile::NamedTempFile::new().unwrap();
    let text = (0..20_000).fold(String::new(), |mut text, n| {
        writeln!(text, "s{};{}", n % 7, n % 50).unwrap();
        text
    });
    std::fs::write(&lines, text).unwrap();
    let book = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let (board, word) = (Shape { rows: 60, columns: 70 }, [b"acgtta".repeat(50), b"ctagga".repeat(50)]);
    type Body<'b> = &'b (dyn Fn(&mut Session) -> Result<(), BoxError> + Sync);
    let programs: [(&str, Body<'_>); 9] = [
        ("k_means", &|session| k_means::k_means(session, 15_000, 4).map(drop)),
        ("lcs", &|session| lcs::lcs(session, &word[0], &word[1]).map(drop)),
        ("life", &|session| {
            life::live(session, board, |row, column| (row + column).is_multiple_of(3), 50).map(drop)
        }),
        ("n_body", &|session| n_body::simulate(session, 200, 10).map(drop)),
        ("pi", &|session| pi::pi(session, 100_000).map(drop)),
        ("plate", &|session| plate::run_until_settled(session, board, 1e-3).map(drop)),
        ("stations", &|session| stations::stations(session, lines.path(), 1_000).map(drop)),
        ("tree_search", &|session| tree_search::ways(session, 8).map(drop)),
        ("word_count", &|session| word_count::count_words(session, &book).map(drop)),
    ];
    for ranks in 1..=3 {
        for (name, body) in programs {
            let log = tempfile::tempdir().unwrap();
            let config = Config::new().ranks(ranks).events(Some(log.path().into()));
            armature::run(&config, body).unwrap();
            assert!(account::check(log.path(), name) > 0, "{name} on {ranks} ranks has no totals");
        }
    }
}
