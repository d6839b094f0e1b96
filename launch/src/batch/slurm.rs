//! Reads the output of Slurm's commands `squeue`, `scontrol show job` and `sacct`.

use super::{BatchState, NoAnswer, query};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queued {
    /// Number of a batch job; for an element of a job array in the form `48211_3`.
    pub(crate) job: String,
    pub(crate) name: String,
    pub(crate) state: String,
    /// Reason for which the batch job waits; the names of its nodes if it runs.
    pub(crate) reason: String,
    pub(crate) end: String,
    pub(crate) start: String,
}

impl Queued {
    pub(crate) fn is_running(&self) -> bool {
        !matches!(
            self.state.as_str(),
            "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_HOLD" | "SPECIAL_EXIT"
        )
    }
}

/// Columns that `squeue` prints. The name of the job is last, because it may contain the separator.
const COLUMNS: &str = "%i|%T|%e|%S|%R|%j";

/// Returns the jobs of this user in Slurm's queue, including those that have ended in the last minutes.
pub(crate) fn queue() -> Result<Vec<Queued>, NoAnswer> {
    // The whole queue of the user is read, because `squeue -j N` fails for a job that has left the queue.
    let answer = query("squeue", ["--me", "--noheader", "--array", "--format", COLUMNS])?;
    if answer.is_success {
        Ok(answer.output.lines().filter_map(parse).collect())
    } else {
        Err(NoAnswer::Silent)
    }
}

fn parse(line: &str) -> Option<Queued> {
    let mut fields = line.splitn(6, '|').map(|field| field.trim().to_string());
    let mut next = || fields.next();
    let (job, state, end, start, reason, name) = (next()?, next()?, next()?, next()?, next()?, next()?);
    (!job.is_empty()).then_some(Queued { job, name, state, reason, end, start })
}

pub(crate) fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// `nodes` and `requeues` are the numbers of nodes and requeues of the batch job at the start of an attempt (one start of the program).
pub(crate) fn state_of(job: &str, nodes: Option<usize>, requeues: u32) -> BatchState {
    match query("scontrol", ["-o", "show", "job", job]) {
        Ok(answer) if answer.is_success => state_in(&answer.output, nodes, requeues),
        Ok(answer) if answer.errors.contains("Invalid job id") => BatchState::default(),
        Ok(_) | Err(NoAnswer::Silent) => BatchState { is_missing: true, ..BatchState::default() },
        Err(NoAnswer::Missing) => BatchState::default(),
    }
}

/// Asks Slurm how long the job may still run. Slurm before 23.02 sets no environment variable with the end time.
pub(crate) fn seconds_left(job: &str) -> Option<u64> {
    let answer = query("scontrol", ["-o", "show", "job", job]).ok()?;
    seconds_left_in(&answer.output)
}

/// Returns the time limit of a job minus its run time. Unlike the end time of the job, neither depends on the time zone.
fn seconds_left_in(line: &str) -> Option<u64> {
    let seconds = |name: &str| {
        let (days, clock) = field(line, name).map(|text| text.split_once('-').unwrap_or(("0", text)))?;
        let sum = |sum: u64, part: &str| sum.checked_mul(60)?.checked_add(part.parse().ok()?);
        let clock = clock.split(':').try_fold(0, sum)?;
        days.parse::<u64>().ok()?.checked_mul(24 * 3600)?.checked_add(clock)
    };
    Some(seconds("TimeLimit")?.saturating_sub(seconds("RunTime")?))
}

fn state_in(line: &str, nodes: Option<usize>, requeues: u32) -> BatchState {
    let is_set = |value: &&str| !matches!(*value, "" | "None" | "(null)" | "N/A" | "Unknown");
    let number = |name: &str| field(line, name)?.parse::<u32>().ok();
    let state = field(line, "JobState").unwrap_or_default();
    let left = field(line, "NumNodes").and_then(|nodes| nodes.split('-').next()?.parse::<usize>().ok());
    // After a requeue, the fields other than `Restarts` describe the next start of the job.
    let is_requeued = number("Restarts").is_some_and(|number| number > requeues);
    BatchState {
        state: if is_requeued { String::new() } else { state.to_string() },
        is_requeued,
        is_preempted: state == "PREEMPTED" || field(line, "PreemptTime").filter(is_set).is_some(),
        has_lost_nodes: state == "NODE_FAIL"
            || (state == "RUNNING" && left.zip(nodes).is_some_and(|(left, nodes)| left < nodes)),
        is_missing: false,
        seconds_left: seconds_left_in(line).filter(|_| !is_requeued),
    }
}

/// Returns the final state of a job that has left the queue, from the accounting database or, without one, from the file of completed jobs.
pub(crate) fn final_state(job: &str) -> Option<String> {
    let columns = ["--noheader", "--parsable2", "--allocations", "--format", "State", "--jobs", job];
    let database = query("sacct", columns).ok().and_then(|answer| first_state(&answer.output));
    database.or_else(|| {
        let columns = ["--completion", "--noheader", "--parsable2", "--format", "State", "--jobs", job];
        first_state(&query("sacct", columns).ok()?.output)
    })
}

/// Returns the last state in the output of `sacct`, which has several lines for a requeued job. A remark after the state, as in `CANCELLED by 1000`,
/// is cut.
fn first_state(output: &str) -> Option<String> {
    let word = output.lines().rev().find_map(|line| line.split_whitespace().next())?;
    word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_').then(|| word.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_is_parsed_with_any_name() {
        let line = "48211_3|RUNNING|2026-11-28T16:02:00|2026-11-28T14:02:11|n[3-6]|a|b $(id)";
        let job = parse(line).unwrap();
        assert_eq!((job.job.as_str(), job.name.as_str(), job.is_running()), ("48211_3", "a|b $(id)", true));
        assert!(!parse("7|PENDING|N/A|N/A|(Resources)|x").unwrap().is_running());
        assert_eq!([parse(""), parse("slurm_load_jobs error: x")], [None, None]);
    }

    #[test]
    fn job_state_is_parsed_from_scontrol() {
        let line = "JobId=7 JobName=x JobState=RUNNING Reason=None Requeue=1 Restarts=2 NumNodes=3 PreemptEligibleTime=2026 PreemptTime=None";
        let running = BatchState { state: "RUNNING".into(), ..BatchState::default() };
        assert_eq!(state_in(line, Some(3), 2), running);
        assert!(state_in(line, Some(4), 2).has_lost_nodes);
        assert!(state_in(&line.replace("PreemptTime=None", "PreemptTime=2026-11-28"), None, 2).is_preempted);
        assert!(!state_in("", Some(4), 0).has_lost_nodes);
        // Slurm has requeued the job while the program was still ending.
        let requeued = line.replace("RUNNING", "COMPLETING") + " RunTime=00:00:00 TimeLimit=00:01:00";
        assert_eq!(
            state_in(&requeued, Some(4), 1),
            BatchState { is_requeued: true, ..BatchState::default() }
        );
    }

    #[test]
    fn remaining_time_is_the_limit_minus_the_run_time() {
        let left = |limit: &str| seconds_left_in(&format!("RunTime=00:01:30 TimeLimit={limit} TimeMin=N/A"));
        assert_eq!(
            (left("00:02:00"), left("1-00:00:00"), left("00:01:00")),
            (Some(30), Some(86_310), Some(0))
        );
        assert_eq!([left("UNLIMITED"), left(""), left("x-1:00:00"), seconds_left_in("")], [None; 4]);
    }

    #[test]
    fn accounting_shows_the_last_state() {
        assert_eq!(first_state("REQUEUED\nCANCELLED by 1000\n").as_deref(), Some("CANCELLED"));
        assert_eq!([first_state(""), first_state("Slurm accounting storage is disabled\n")], [None, None]);
    }
}
