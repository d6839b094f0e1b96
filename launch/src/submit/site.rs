//! Finds how much time a Slurm site leaves a job to stop at a checkpoint before its time limit and after a preemption.

use std::path::Path;

use super::request::Request;
use crate::batch::{query, slurm::field};
use crate::run_directory::all;
use crate::run_directory::attempt::Attempt;

/// Slurm's settings that limit the time in which a job can stop at a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Site {
    /// Slurm's setting `KillWait`: seconds between SIGTERM and SIGKILL at the end of a job.
    kill_wait: u64,
    partition: String,
    /// Seconds between the beginning of a preemption (for a job of higher priority) and the end of the job.
    grace: u64,
    has_preemption: bool,
}

impl Site {
    pub(super) fn survey(partition: Option<&str>) -> Option<Self> {
        let answer = |args: &[&str]| query("scontrol", args).ok().filter(|answer| answer.is_success);
        let config = answer(&["show", "config"])?.output;
        Site::read(&config, &answer(&["-o", "show", "partition"])?.output, partition)
    }

    fn read(config: &str, partitions: &str, partition: Option<&str>) -> Option<Self> {
        let set = |name: &str| {
            let value = |line: &str| {
                Some(line.strip_prefix(name)?.trim_start().strip_prefix('=')?.trim().to_string())
            };
            config.lines().find_map(value).unwrap_or_default()
        };
        let number =
            |text: &str| text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let is_own = |line: &&str| match partition {
            Some(name) => field(line, "PartitionName") == Some(name),
            None => field(line, "Default") == Some("YES"),
        };
        let own = partitions.lines().find(is_own)?;
        let tier = |line: &str| number(field(line, "PriorityTier").unwrap_or_default());
        let mode = field(own, "PreemptMode").unwrap_or("OFF");
        let is_by_partition = set("PreemptType") == "preempt/partition_prio";
        Some(Site {
            kill_wait: number(&set("KillWait")),
            partition: field(own, "PartitionName").unwrap_or_default().into(),
            grace: number(field(own, "GraceTime").unwrap_or_default()),
            has_preemption: is_by_partition
                && (mode.contains("REQUEUE") || mode.contains("CANCEL"))
                && partitions.lines().any(|line| tier(line) > tier(own)),
        })
    }

    /// Tells the user if the time to stop at a checkpoint is too short. `needed` is the longest stop of earlier runs in seconds.
    pub(super) fn notes(&self, request: &Request, needed: Option<u64>) -> Vec<String> {
        let Site { kill_wait, partition, grace, .. } = self;
        let mut notes = Vec::new();
        let needed_text = |needed: u64| format!("a stop of an earlier run took {needed} s");
        if let (Some(needed), Some(warn)) = (needed, request.warn)
            && request.time.is_some()
            && needed > warn + kill_wait
        {
            notes.push(format!(
                "{}, but Slurm ends the job {warn} s after the warning before the time limit, and kills it {kill_wait} s later (KillWait): expected \
                 a longer --warn or --time",
                needed_text(needed)
            ));
        }
        if self.has_preemption {
            let time = format!(
                "{} s to stop: {grace} s (GraceTime of the partition) and {kill_wait} s (KillWait)",
                grace + kill_wait
            );
            notes.push(match needed.filter(|&needed| needed > grace + kill_wait) {
                Some(needed) => format!(
                    "{}, but Slurm gives a job of partition {partition} that is preempted {time}: it will lose what it has done since its last \
                     checkpoint",
                    needed_text(needed)
                ),
                None => format!("jobs of partition {partition} may be preempted, and then have {time}"),
            });
        }
        notes
    }
}

/// Returns the longest time in seconds that runs named `name` took from a request to stop until they had ended.
pub(super) fn longest_stop(runs: &Path, name: &str) -> Option<u64> {
    let is_of_name = |run: &String| {
        run.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['-', '.']) && !rest.contains(char::is_alphabetic))
    };
    let runs = all(runs).into_iter().filter(|run| is_of_name(&run.name()));
    let stops = runs.flat_map(|run| {
        let ends = run.attempts().into_iter().filter_map(move |number| Attempt::of(&run, number).end());
        ends.filter(|end| end.stopped).filter_map(|end| end.stop_seconds)
    });
    stops.map(|seconds| seconds.max(0.0).ceil() as u64).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "Configuration data as of 2026-11-28T13:00:00\nKillOnBadExit           = 0\nKillWait                = 30 sec\n\
        PreemptMode             = REQUEUE\nPreemptType             = preempt/partition_prio\n";
    const PARTITIONS: &str = "PartitionName=main Default=YES GraceTime=0 PriorityTier=1 PreemptMode=OFF\n\
        PartitionName=low Default=NO GraceTime=15 PriorityTier=1 PreemptMode=REQUEUE\n\
        PartitionName=high Default=NO GraceTime=60 PriorityTier=10 PreemptMode=REQUEUE\n";

    fn site(partition: Option<&str>) -> Site {
        Site::read(CONFIG, PARTITIONS, partition).unwrap()
    }

    #[test]
    fn preemption_depends_on_partition_and_priority() {
        let low = Site { kill_wait: 30, partition: "low".into(), grace: 15, has_preemption: true };
        assert_eq!(site(Some("low")), low);
        assert_eq!((site(None).partition.as_str(), site(None).has_preemption), ("main", false));
        assert!(!site(Some("high")).has_preemption);
        assert_eq!(Site::read(CONFIG, PARTITIONS, Some("none")), None);
        let none = CONFIG.replace("partition_prio", "none");
        assert!(!Site::read(&none, PARTITIONS, Some("low")).unwrap().has_preemption);
    }

    #[test]
    fn notes_compare_the_time_for_a_stop_with_what_stops_have_taken() {
        let request = Request { warn: Some(20), time: Some(60), ..Request::default() };
        assert_eq!(site(None).notes(&request, Some(50)), [""; 0]);
        let notes = site(None).notes(&request, Some(51));
        assert!(
            notes.len() == 1 && notes[0].contains("took 51 s, but Slurm ends the job 20 s after"),
            "{notes:?}"
        );
        let notes = site(Some("low")).notes(&request, None);
        assert_eq!(
            notes,
            [
                "jobs of partition low may be preempted, and then have 45 s to stop: 15 s (GraceTime of the partition) and 30 s (KillWait)"
            ]
        );
        let notes = site(Some("low")).notes(&request, Some(46));
        assert!(notes.len() == 1 && notes[0].contains("it will lose what it has done"), "{notes:?}");
    }
}
