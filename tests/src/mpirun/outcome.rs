//! What came of a job, and how a failing test shows it.

use std::process::ExitStatus;
use std::time::Duration;

/// What came of a job.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How the launcher ended.
    pub status: ExitStatus,
    /// What all ranks printed.
    pub stdout: String,
    /// What all ranks complained about.
    pub stderr: String,
    /// From start to end.
    pub took: Duration,
    /// Processes of the job that were still there two seconds after its end (they have been ended since).
    pub left_behind: Vec<String>,
    /// Whether the limit was reached.
    pub hung: bool,
}

impl Outcome {
    /// Lines on stderr that begin with the name of a program of armature, all of which are called `armature…`.
    pub fn errors(&self) -> Vec<&str> {
        let is_error = |line: &&str| {
            let program = line.split_once(": ").map_or("", |(program, _)| program);
            program.starts_with("armature") && !program.contains(' ')
        };
        self.stderr.lines().filter(is_error).collect()
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Outcome { status, stdout, stderr, took, left_behind, hung } = self;
        let hung = if *hung { ", ended after its limit" } else { "" };
        writeln!(f, "{status} after {took:?}{hung}")?;
        // What others keep of a long output may be its beginning.
        self.errors().into_iter().try_for_each(|line| writeln!(f, "{line}"))?;
        if !left_behind.is_empty() {
            writeln!(f, "left behind: {left_behind:#?}")?;
        }
        let (passed, others): (Vec<&str>, Vec<&str>) = stdout.lines().partition(|l| l.ends_with(": ok"));
        let last = passed.last().map_or(String::new(), |last| format!(", the last one: {last}"));
        writeln!(f, "stdout, {} lines of cases that passed left out{last}", passed.len())?;
        others.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        write!(f, "stderr:\n{stderr}")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn what_went_wrong_comes_first() {
        let outcome = Outcome {
            status: ExitStatus::from_raw(256),
            stdout: "case order rank 1 of 2: ok\ncase order rank 0 of 2: ok\nfarm under way\n".into(),
            stderr: "[INFO ] mapping\narmature: rank 1: torn\n".into(),
            took: Duration::from_secs(3),
            left_behind: vec!["17 sleep".into()],
            hung: false,
        };
        let text = outcome.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["exit status: 1 after 3s", "armature: rank 1: torn"], "{text}");
        let left_out =
            "stdout, 2 lines of cases that passed left out, the last one: case order rank 0 of 2: ok";
        let at = lines.iter().position(|line| *line == left_out).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(lines[at + 1..at + 4], ["farm under way", "stderr:", "[INFO ] mapping"], "{text}");
        assert!(text.contains("17 sleep"), "{text}");
    }
}
