//! Result of a job (exit status and output), and its display in failing tests.

use std::process::ExitStatus;
use std::time::Duration;

/// Result of a job that a test has run.
#[derive(Clone, Debug)]
pub struct JobResult {
    /// Exit status of the launcher.
    pub status: ExitStatus,
    /// Standard output of all ranks.
    pub stdout: String,
    /// Standard error of all ranks.
    pub stderr: String,
    /// Time from the start to the end of the job.
    pub took: Duration,
    /// Processes of the job that still existed two seconds after its end. They have been killed since.
    pub left_behind: Vec<String>,
    /// True if the job reached its time limit.
    pub hung: bool,
}

impl JobResult {
    /// Returns the lines of standard error that begin with the name of a program of armature. All these names begin
    /// with `armature`.
    pub fn errors(&self) -> Vec<&str> {
        let is_error = |line: &&str| {
            let program = line.split_once(": ").map_or("", |(program, _)| program);
            program.starts_with("armature") && !program.contains(' ')
        };
        self.stderr.lines().filter(is_error).collect()
    }
}

impl std::fmt::Display for JobResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let JobResult { status, stdout, stderr, took, left_behind, hung } = self;
        let hung = if *hung { ", ended after its limit" } else { "" };
        writeln!(f, "{status} after {took:?}{hung}")?;
        // The error lines come first, because a test runner may cut a long text.
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
    fn outcome_shows_errors_before_other_output() {
        let outcome = JobResult {
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
