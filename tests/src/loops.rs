//! Checks that the programs of loops have in common.

use std::fmt::Debug;
use std::process::Command;

use crate::mpirun::Job;
use crate::program::{fails, outlives_its_reader, succeeds};

/// The program of a loop, as a user runs it.
#[derive(Clone, Copy, Debug)]
pub struct LoopProgram {
    /// The name of the loop.
    pub name: &'static str,
    /// Where the program is.
    pub path: &'static str,
    /// Options, with values, where a test does not give others: a loop that takes a moment only.
    pub usual: &'static [(&'static str, &'static str)],
    /// What it says of every run.
    pub says: &'static [&'static str],
    /// How its summary begins, behind its name.
    pub summary: &'static str,
}

impl LoopProgram {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path);
        command.args(arguments);
        command
    }

    /// Runs it on threads, with each of these sets of options. The result must be the serial loop's, the summary must be
    /// shown where it is asked for, and units must move where they are forced to.
    ///
    /// # Panics
    /// If anything is not as it should be.
    #[track_caller]
    pub fn agrees(&self, sets: &[&[&str]]) {
        let summary = format!("loop {}: {}", self.name, self.summary);
        for more in sets {
            let usual = self.usual.iter().filter(|(name, _)| !more.contains(name));
            let words = usual.flat_map(|(name, value)| [*name, *value]).chain(more.iter().copied());
            let text = succeeds(&mut self.command(&words.chain(["--verify"]).collect::<Vec<_>>())).all();
            for part in self.says.iter().chain(&[SAME, ", efficiency "]) {
                assert!(text.contains(part), "`{part}` is not said by {more:?}: {text}");
            }
            assert!(text.contains(" movements") || text.contains(" 1 movement"), "{text}");
            assert_eq!(more.contains(&"--summary"), text.contains(&summary), "{text}");
            assert!(!more.contains(&"--forced") || !text.contains(STILL), "{text}");
        }
    }

    /// Runs it while nobody reads what it says, and where that cannot be written.
    ///
    /// # Panics
    /// If only a full disk is not a failure, or anything else is.
    #[track_caller]
    pub fn outlives_its_reader(&self) {
        let usual: Vec<&str> = self.usual.iter().flat_map(|(name, value)| [*name, *value]).collect();
        outlives_its_reader(|| {
            self.command(&[&usual[..], &["--ranks", "2", "--verify", "--summary"]].concat())
        });
    }

    /// Runs it with what no loop can use, and with these arguments: each must be refused by these words.
    ///
    /// # Panics
    /// If one is not.
    #[track_caller]
    pub fn refuses(&self, sets: &[(&[&str], &str)]) {
        let shares =
            format!("loop {}: shares of a loop must be one positive number for each of 2", self.name);
        let all: [(&[&str], &str); 2] =
            [(&["--ranks", "2", "--shares", "1"], &shares), (&["--ranks", "0"], "1..=4096")];
        for (arguments, expected) in all.iter().chain(sets) {
            let messages = fails(&mut self.command(arguments));
            assert!(messages.contains(expected), "{arguments:?}: {messages}");
        }
    }

    /// Runs it on two and three ranks under mpirun, with options by which units move.
    ///
    /// # Panics
    /// If they do not, or the result is not the serial loop's.
    #[track_caller]
    pub fn agrees_under_mpirun(&self, words: &[&str]) {
        for ranks in [2, 3] {
            let job = words.iter().fold(Job::new(self.path, ranks), |job, word| job.arg(*word));
            let outcome = job.arg("--verify").succeeds();
            assert!(outcome.stdout.contains(SAME), "{outcome}");
            assert!(!outcome.stdout.contains(STILL), "{outcome}");
        }
    }
}

/// What a program says whose result is the serial loop's.
const SAME: &str = "the same bits as the serial loop";
/// What it says if no unit has moved.
const STILL: &str = " 0 rows moved";

/// Looks whether `compare` takes values, in rows of `columns` (three at least, and six rows), for right, and sees where
/// one bit of them is wrong.
///
/// # Panics
/// If it does not.
#[track_caller]
pub fn finds_a_wrong_bit<E: Debug + ToString>(
    mut values: Vec<f64>,
    columns: usize,
    compare: impl Fn(&[f64]) -> Result<f64, E>,
) {
    let right = compare(&values);
    assert!(right.is_ok(), "{right:?}");
    let at = 5 * columns + 2;
    values[at] = f64::from_bits(values[at].to_bits() ^ 1);
    let error = compare(&values).expect_err("a bit is wrong").to_string();
    assert!(error.starts_with("row 5, column 2: "), "{error}");
}
