//! The programs in the book that are written directly in MPI must have the documented results, and be the same as the tested sources.

use std::process::Command;

use armature_tests::mpirun::Job;
use armature_tests::program::succeeds;

const BY_HAND: &str = env!("CARGO_BIN_EXE_factors-by-hand");

#[test]
fn hand_written_program_gives_the_result_of_the_farm() {
    for ranks in [2, 3] {
        let outcome = Job::new(BY_HAND, ranks).run();
        assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
        // The program with armature in the same chapter asserts this number, too.
        assert!(outcome.stdout.contains("126 of 3000 numbers are prime"), "{outcome}");
    }
}

#[test]
fn chapter_on_farms_shows_the_tested_program() {
    let (chapter, program) =
        (include_str!("../../docs/farms.md"), include_str!("../src/bin/factors-by-hand.rs"));
    let body = program.split_once("\n\n").expect("a heading").1;
    assert!(chapter.contains(body), "docs/farms.md shows another program than src/bin/factors-by-hand.rs");
    assert!(chapter.contains("assert_eq!(primes, 126);"), "docs/farms.md expects another number of primes");
}

#[test]
fn c_program_of_the_chapter_gives_the_result_of_the_farm() {
    let chapter = include_str!("../../docs/from-c.md");
    let program =
        chapter.split_once("```c\n").and_then(|(_, rest)| rest.split_once("```")).expect("a program").0;
    let place = tempfile::tempdir().expect("a directory for the program");
    let (source, built) = (place.path().join("master.c"), place.path().join("master"));
    std::fs::write(&source, program).expect("the program can be written");
    let compiler = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".into());
    succeeds(Command::new(compiler).args(["-O2", "-Wall", "-Werror", "-o"]).args([&built, &source]));
    let outcome = Job::new(built, 3).run();
    assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    assert_eq!(outcome.stdout, "15155 of 60300 points\n", "{outcome}");
    // The program with armature in the same chapter asserts this number, too.
    assert!(
        chapter.contains("assert_eq!(total, 15_155);"),
        "docs/from-c.md expects another number of points"
    );
}
