//! The program that the chapter "Farms" ports does what the chapter says, and is the one that it shows.

use armature_tests::mpirun::Job;

const BY_HAND: &str = env!("CARGO_BIN_EXE_factors-by-hand");

#[test]
fn the_program_by_hand_finds_what_the_farm_finds() {
    for ranks in [2, 3] {
        let outcome = Job::new(BY_HAND, ranks).run();
        assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
        // The farm of the chapter asserts the same number.
        assert!(outcome.stdout.contains("126 of 3000 numbers are prime"), "{outcome}");
    }
}

#[test]
fn the_chapter_shows_the_program() {
    let (chapter, program) =
        (include_str!("../../docs/farms.md"), include_str!("../src/bin/factors-by-hand.rs"));
    let body = program.split_once("\n\n").expect("a heading").1;
    assert!(chapter.contains(body), "docs/farms.md shows another program than src/bin/factors-by-hand.rs");
    assert!(chapter.contains("assert_eq!(primes, 126);"), "docs/farms.md expects another number of primes");
}
