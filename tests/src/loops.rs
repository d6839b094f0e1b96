//! Tests of the example programs with loops, on their command lines.

use std::fmt::Debug;
use std::process::Command;

use crate::mpirun::Job;
use crate::program::{fails, succeeds, survives_closed_output};

/// Example program with one parallel loop, which the tests run on its command line as a user does.
#[derive(Clone, Copy, Debug)]
pub struct LoopProgram {
    /// Name of the loop in the program's messages.
    pub name: &'static str,
    /// Path of the program.
    pub path: &'static str,
    /// Options with their values for a short run. A test may override them.
    pub default_options: &'static [(&'static str, &'static str)],
    /// Texts that the example program prints in every run.
    pub expected_texts: &'static [&'static str],
    /// Words that follow the name of the loop at the start of the summary that the program prints.
    pub summary: &'static str,
}

impl LoopProgram {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path);
        command.args(arguments);
        command
    }

    /// Runs the program on threads, once with each set of options. The result must equal that of the serial loop, the summary must be printed if the
    /// options request it, and rows or indices must move between ranks if the options force it.
    ///
    /// # Panics
    /// If a condition does not hold.
    #[track_caller]
    pub fn matches_serial_loop(&self, argument_sets: &[&[&str]]) {
        let summary = format!("loop {}: {}", self.name, self.summary);
        for more in argument_sets {
            let defaults = self.default_options.iter().filter(|(name, _)| !more.contains(name));
            let arguments = defaults.flat_map(|(name, value)| [*name, *value]).chain(more.iter().copied());
            let text = succeeds(&mut self.command(&arguments.chain(["--verify"]).collect::<Vec<_>>())).all();
            for part in self.expected_texts.iter().chain(&[EQUAL_RESULT, ", efficiency "]) {
                assert!(text.contains(part), "`{part}` is not printed by {more:?}: {text}");
            }
            assert!(text.contains(" movements") || text.contains(" 1 movement"), "{text}");
            assert_eq!(more.contains(&"--summary"), text.contains(&summary), "{text}");
            assert!(!more.contains(&"--forced") || !text.contains(NO_ROWS_MOVED), "{text}");
        }
    }

    /// Runs the program without a reader of its output, and with its output on a full disk.
    ///
    /// # Panics
    /// If the program fails without a reader, or succeeds with a full disk.
    #[track_caller]
    pub fn survives_closed_output(&self) {
        let defaults: Vec<&str> =
            self.default_options.iter().flat_map(|(name, value)| [*name, *value]).collect();
        survives_closed_output(|| {
            self.command(&[&defaults[..], &["--ranks", "2", "--verify", "--summary"]].concat())
        });
    }

    /// Runs the program with options that no loop accepts, and with each set of arguments in `argument_sets`. The program must refuse each with the
    /// given message.
    ///
    /// # Panics
    /// If the program accepts one of the sets or prints another message.
    #[track_caller]
    pub fn rejects(&self, argument_sets: &[(&[&str], &str)]) {
        let shares =
            format!("loop {}: shares of a loop must be one positive number for each of 2", self.name);
        let all: [(&[&str], &str); 2] =
            [(&["--ranks", "2", "--shares", "1"], &shares), (&["--ranks", "0"], "1..=4096")];
        for (arguments, expected) in all.iter().chain(argument_sets) {
            let messages = fails(&mut self.command(arguments));
            assert!(messages.contains(expected), "{arguments:?}: {messages}");
        }
    }

    /// Runs the program on two and on three ranks under mpirun, with options that force rows or indices to move between ranks.
    ///
    /// # Panics
    /// If nothing moves, or if the result differs from the result of the serial loop.
    #[track_caller]
    pub fn matches_serial_loop_under_mpirun(&self, arguments: &[&str]) {
        for ranks in [2, 3] {
            let job = arguments.iter().fold(Job::new(self.path, ranks), |job, word| job.arg(*word));
            let outcome = job.arg("--verify").succeeds();
            assert!(outcome.stdout.contains(EQUAL_RESULT), "{outcome}");
            assert!(!outcome.stdout.contains(NO_ROWS_MOVED), "{outcome}");
        }
    }
}

/// Text that an example program prints if its result equals that of the serial loop.
const EQUAL_RESULT: &str = "the same bits as the serial loop";
/// Text that an example program prints if no row or index of its loop has moved to another rank.
const NO_ROWS_MOVED: &str = " 0 rows moved";

/// Checks that `compare` accepts `values`, and finds a single wrong bit in them. The values are at least six rows of `columns` values, and `columns`
/// is at least three.
///
/// # Panics
/// If `compare` rejects the correct values, accepts the wrong ones, or reports another position.
#[track_caller]
pub fn detects_a_wrong_bit<E: Debug + ToString>(
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
