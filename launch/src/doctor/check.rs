//! Check of `armature doctor`: its input and its result.

use std::path::Path;

use super::probe::Probe;
use super::site::Site;

/// Input of a check: the machine, the job, and the reports of the ranks that were started.
pub(super) struct Facts<'a> {
    /// Machine on which the check runs.
    pub(super) site: &'a dyn Site,
    /// Number of ranks that the user wants to start, if the user has given it.
    pub(super) ranks: Option<usize>,
    /// Program that the user wants to start.
    pub(super) program: Option<&'a Path>,
    /// Hosts of the job: those of the hostfile or of the batch job; empty for this machine alone.
    pub(super) hosts: &'a [String],
    /// Reports of the ranks that were started for the active checks; `None` if none were started.
    pub(super) probes: Option<&'a [Probe]>,
}

impl Facts<'_> {
    /// Returns the number of hosts of the job.
    pub(super) fn host_count(&self) -> usize {
        let nodes = self.site.variable("SLURM_JOB_NUM_NODES").and_then(|nodes| nodes.trim().parse().ok());
        nodes.unwrap_or(1).max(self.hosts.len())
    }

    /// Returns the number of ranks that the job has on each host, rounded up.
    pub(super) fn ranks_per_host(&self) -> Option<usize> {
        self.ranks.map(|ranks| ranks.div_ceil(self.host_count()))
    }
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// The check has found no problem. The text states what it has found.
    Ok(String),
    /// The check does not apply on this machine, for the given reason.
    Skipped(String),
    /// The check has found a problem that makes jobs slow, or lets some jobs fail.
    Warn(Problem),
    /// The check has found a problem with which jobs fail.
    Fail(Problem),
}

/// Problem that a check has found, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Sentence that states what the problem is.
    pub(super) found: String,
    /// Command, setting or line of a job script that solves the problem.
    pub(super) remedy: String,
}

impl Finding {
    pub(super) fn ok(found: impl Into<String>) -> Self {
        Finding::Ok(found.into())
    }

    pub(super) fn skipped(reason: impl Into<String>) -> Self {
        Finding::Skipped(reason.into())
    }

    pub(super) fn warn(found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Finding::Warn(Problem { found: found.into(), remedy: remedy.into() })
    }

    pub(super) fn fail(found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Finding::Fail(Problem { found: found.into(), remedy: remedy.into() })
    }

    /// Returns the word for the result in the printed table, such as `warn`.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Finding::Ok(_) => "ok",
            Finding::Skipped(_) => "skipped",
            Finding::Warn(_) => "warn",
            Finding::Fail(_) => "fail",
        }
    }

    /// Returns the sentence about the result of the check, without the remedy.
    pub(super) fn found(&self) -> &str {
        match self {
            Finding::Ok(text) | Finding::Skipped(text) => text,
            Finding::Warn(problem) | Finding::Fail(problem) => &problem.found,
        }
    }

    /// Returns the remedy for the problem, if the check has found one.
    pub(super) fn remedy(&self) -> Option<&str> {
        match self {
            Finding::Ok(_) | Finding::Skipped(_) => None,
            Finding::Warn(problem) | Finding::Fail(problem) => Some(&problem.remedy),
        }
    }
}

/// Check of one cause for which jobs fail or are slow.
#[derive(Debug)]
pub(super) struct Check {
    /// Name of the check, by which `--only` and `--explain` select it.
    pub(super) id: &'static str,
    /// Error message or behaviour of jobs that a user sees if the check fails.
    pub(super) symptom: &'static str,
    /// Explanation for `--explain`: the examined setting, its effect on jobs, and the remedy.
    pub(super) about: &'static str,
    pub(super) examine: fn(&Facts<'_>) -> Finding,
}

/// Version of a program or library: its numbers as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u32, pub(super) u32, pub(super) u32);

impl Version {
    /// Returns the first version number, such as `4.1.4`, in a text. A number without a point does not count as a version.
    pub(super) fn find(text: &str) -> Option<Self> {
        text.split(|c: char| !(c.is_ascii_digit() || c == '.')).find_map(|word| {
            let mut numbers = word.trim_matches('.').split('.').map(str::parse::<u32>);
            let (first, second) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
            Some(Version(first, second, numbers.next().and_then(Result::ok).unwrap_or(0)))
        })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}
