//! A check of `armature doctor`: the facts that it examines, and its result.

use std::path::Path;

use super::probe::Probe;
use super::site::Site;

pub(super) struct Facts<'a> {
    pub(super) site: &'a dyn Site,
    pub(super) ranks: Option<usize>,
    pub(super) program: Option<&'a Path>,
    /// Names of the hosts in the hostfile or batch job; empty if there is only this machine.
    pub(super) hosts: &'a [String],
    /// Reports of the ranks that were started for the checks; `None` if no ranks were started.
    pub(super) probes: Option<&'a [Probe]>,
}

impl Facts<'_> {
    pub(super) fn host_count(&self) -> usize {
        let nodes = self.site.variable("SLURM_JOB_NUM_NODES").and_then(|nodes| nodes.trim().parse().ok());
        nodes.unwrap_or(1).max(self.hosts.len())
    }

    pub(super) fn ranks_per_host(&self) -> Option<usize> {
        self.ranks.map(|ranks| ranks.div_ceil(self.host_count()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// The check has found no problem. The text says what was examined and what was found.
    Ok(String),
    Skipped(String),
    Warn(Problem),
    Fail(Problem),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
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

    pub(super) fn word(&self) -> &'static str {
        match self {
            Finding::Ok(_) => "ok",
            Finding::Skipped(_) => "skipped",
            Finding::Warn(_) => "warn",
            Finding::Fail(_) => "fail",
        }
    }

    pub(super) fn found(&self) -> &str {
        match self {
            Finding::Ok(text) | Finding::Skipped(text) => text,
            Finding::Warn(problem) | Finding::Fail(problem) => &problem.found,
        }
    }

    pub(super) fn remedy(&self) -> Option<&str> {
        match self {
            Finding::Ok(_) | Finding::Skipped(_) => None,
            Finding::Warn(problem) | Finding::Fail(problem) => Some(&problem.remedy),
        }
    }
}

/// Check of `armature doctor` for one reason why jobs fail or are slow.
#[derive(Debug)]
pub(super) struct Check {
    /// Name by which the options `--only` and `--explain` select this check.
    pub(super) id: &'static str,
    /// Error message or behaviour by which a user notices the problem that this check finds.
    pub(super) symptom: &'static str,
    /// Text that the option `--explain` prints: the examined setting, its effect on jobs, and the remedy.
    pub(super) about: &'static str,
    pub(super) examine: fn(&Facts<'_>) -> Finding,
}

/// Version of a program or library; parts that are not known are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u32, pub(super) u32, pub(super) u32);

impl Version {
    /// Finds the first version, such as `4.1.4`, in a text. A number without a point is not a version.
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
