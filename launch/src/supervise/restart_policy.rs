//! Decides after the end of a job if it is restarted, or with which code `armature run` exits. The functions have no side effects.

use std::time::Duration;

use armature::job_status::{JobStatus, STOPPED, State};

use crate::execute::TIMED_OUT;
use crate::run_directory::end_reason::Evidence;

/// A job that dies within this time without a newly completed task counts as a fruitless start.
const SOON: Duration = Duration::from_secs(10);

/// Fruitless starts in a row (early deaths without a completed task) after which the job is not restarted.
const FRUITLESS: u32 = 2;

#[derive(Clone, Debug, Default)]
pub(super) struct Ended {
    /// Exit code of the launcher, as a shell reports it (128 plus the number of a signal).
    pub(super) code: u8,
    pub(super) launcher_signal: Option<i32>,
    pub(super) out_of_memory: bool,
    /// True if `armature run` has ended the launcher, whose exit code then shows nothing about the job.
    pub(super) by_us: bool,
    pub(super) job_status: Option<JobStatus>,
    pub(super) missing: Option<String>,
    /// Signal by which `armature run` was asked to end the job.
    pub(super) signal: Option<u8>,
    /// Signal to `armature run` that does not end the job, such as the warning of a batch system.
    pub(super) warning: Option<u8>,
    pub(super) timed_out: bool,
    pub(super) took: Duration,
}

impl Ended {
    pub(super) fn failure(&self) -> u8 {
        if self.by_us { 1 } else { self.code.max(1) }
    }

    pub(super) fn evidence(&self, code: u8) -> Evidence {
        Evidence {
            code,
            status: self.job_status.clone(),
            signal: self.signal.or(self.warning),
            timed_out: self.timed_out,
            out_of_memory: self.out_of_memory,
            missing: self.missing.clone(),
            ..Evidence::default()
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Exit(u8, Option<String>),
    Restart(String),
}

#[derive(Clone, Debug)]
pub(super) struct RestartPolicy {
    allowed: u32,
    restarts: u32,
    done: u64,
    fruitless: u32,
}

impl RestartPolicy {
    pub(super) fn new(restarts: u32) -> Self {
        RestartPolicy { allowed: restarts, restarts: 0, done: 0, fruitless: 0 }
    }

    pub(super) fn restarts(&self) -> u32 {
        self.restarts
    }

    pub(super) fn decide(&mut self, ended: &Ended) -> Next {
        let failure = ended.failure();
        let job_status = ended.job_status.clone().unwrap_or_default();
        if job_status.state == State::Finished {
            return finished(ended, &job_status);
        }
        if ended.timed_out {
            return Next::Exit(TIMED_OUT, None);
        }
        let has_stopped = job_status.state == State::Stopped && !is_ended_by_launcher(ended, &job_status);
        if has_stopped || (ended.code == STOPPED && !ended.by_us) {
            // Nothing is printed here, because rank 0 has already told the user which results are kept.
            return Next::Exit(STOPPED, None);
        }
        if let Some(signal) = ended.signal {
            let code = if ended.by_us || ended.code == 0 { signal.saturating_add(128) } else { ended.code };
            return Next::Exit(code, None);
        }
        let is_own_failure = job_status.state == State::Failed && !job_status.restart;
        if let Some(name) = stop_request(ended).filter(|_| !is_own_failure) {
            let code = ended.code;
            let text = format!(
                "the job was asked to end: its launcher ended with code {code} ({name}). It is not restarted"
            );
            return Next::Exit(code, Some(text));
        }
        if ended.out_of_memory && !is_own_failure {
            let text = format!(
                "{}; with the same number of ranks it would run out of memory again and is not restarted: give each rank more memory, or \
                 start fewer ranks on each host",
                died(ended, &job_status)
            );
            return Next::Exit(failure, Some(text));
        }
        match job_status.state {
            State::Failed if !job_status.restart => {
                // Nothing is printed here if the launcher reports an error, because the failed rank has printed its own message.
                let quiet = ended.code != 0 && !ended.by_us;
                let text = (!quiet).then(|| format!("the job has failed: {}", job_status.message));
                Next::Exit(job_status.code.max(1), text)
            }
            // MPI has failed to start because a rank has died. Evidence of this: a rank is missing, a rank was killed by a signal, or rank 0 has
            // written its process ID to the status file but the job never ran.
            State::Starting
                if ended.missing.is_some() || is_of_a_signal(ended) || job_status.process != 0 =>
            {
                let mut job_status = job_status;
                job_status.message = ended.missing.clone().unwrap_or_default();
                self.died(ended, &job_status, failure)
            }
            State::Starting => {
                let text = "the job has left no job status: it ended before its ranks were ready, or does not use armature";
                Next::Exit(failure, Some(text.into()))
            }
            _ => self.died(ended, &job_status, failure),
        }
    }

    fn died(&mut self, ended: &Ended, job_status: &JobStatus, failure: u8) -> Next {
        let fruitless = ended.took < SOON && job_status.done <= self.done;
        self.fruitless = if fruitless { self.fruitless + 1 } else { 0 };
        self.done = self.done.max(job_status.done);
        let why = died(ended, job_status);
        if self.restarts >= self.allowed {
            let text = match self.allowed {
                0 => why,
                _ => format!("{why}; this was the last of {} restarts", self.allowed),
            };
            return Next::Exit(failure, Some(text));
        }
        if self.fruitless >= FRUITLESS {
            let (times, soon) = (self.fruitless, SOON.as_secs());
            let text = format!(
                "{why}; it has died {times} times in a row within {soon} s without completing another task, so that \
                 restarting it does not help"
            );
            return Next::Exit(failure, Some(text));
        }
        self.restarts += 1;
        Next::Restart(format!("{why}; restart {} of {}", self.restarts, self.allowed))
    }
}

/// Returns the signal by which a user or a batch system has ended the job, if the launcher's exit code shows one. Ranks that crash or are killed for
/// memory end by other signals.
fn stop_request(ended: &Ended) -> Option<&'static str> {
    match ended.code {
        _ if ended.by_us => None,
        129 => Some("SIGHUP"),
        130 => Some("SIGINT"),
        143 => Some("SIGTERM"),
        _ => None,
    }
}

/// When a rank has died, the launcher sends SIGTERM to the others, which take it for a request to stop. The launcher's exit code shows the signal
/// that killed the rank.
fn is_ended_by_launcher(ended: &Ended, job_status: &JobStatus) -> bool {
    let is_asked = ended.signal.is_some() || ended.warning.is_some() || stop_request(ended).is_some();
    is_of_a_signal(ended) && !is_asked && job_status.stopped_by_sigterm()
}

/// Returns true if the exit code shows that a signal ended a rank: 128 plus the signal, as in a shell, or the bare signal, as MPICH's launcher
/// reports it.
fn is_of_a_signal(ended: &Ended) -> bool {
    !ended.by_us && (ended.code > 128 || matches!(ended.code, 9 | 15))
}

/// An error code of the launcher, although no rank was lost, means that the program has failed after its ranks had written the status `Finished`.
fn finished(ended: &Ended, job_status: &JobStatus) -> Next {
    if ended.code == 0 || ended.by_us {
        return Next::Exit(0, None);
    }
    if let Some(signal) = ended.launcher_signal {
        let text = format!("the job has finished, although its launcher was ended by signal {signal}");
        return Next::Exit(0, Some(text));
    }
    if !job_status.lost.is_empty() {
        let text = format!("the job has finished without {}, which died", ranks(&job_status.lost));
        return Next::Exit(0, Some(text));
    }
    let text =
        format!("all ranks have finished, but the program has failed after that: exit code {}", ended.code);
    Next::Exit(ended.code, Some(text))
}

/// Describes the death of a job: its run time, the last message of its status file, and how the launcher ended.
fn died(ended: &Ended, job_status: &JobStatus) -> String {
    let mut text = format!("the job has died after {:.1} s", ended.took.as_secs_f64());
    if !job_status.message.is_empty() {
        text += &format!(": {}", job_status.message);
    }
    let mut facts = Vec::new();
    match ended.launcher_signal {
        _ if ended.by_us => facts.push("its launcher did not end and has been ended".to_owned()),
        Some(signal) => facts.push(format!("its launcher was ended by signal {signal}")),
        None => facts.push(format!("its launcher ended with code {}", ended.code)),
    }
    if !job_status.lost.is_empty() {
        facts.push(format!("{} had died before", ranks(&job_status.lost)));
    }
    facts.push(format!("{} tasks done", job_status.done));
    format!("{text} ({})", facts.join(", "))
}

fn ranks(ranks: &[usize]) -> String {
    let numbers: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job_status(state: State) -> JobStatus {
        let mut job_status = JobStatus::default();
        job_status.state = state;
        job_status
    }

    fn ended(code: u8, state: State) -> Ended {
        Ended { code, job_status: Some(job_status(state)), took: Duration::from_secs(3), ..Ended::default() }
    }

    fn with(mut ended: Ended, change: impl FnOnce(&mut JobStatus)) -> Ended {
        change(ended.job_status.as_mut().unwrap());
        ended
    }

    #[track_caller]
    fn exits(restarts: u32, ended: &Ended, code: u8, text: Option<&str>) {
        assert_eq!(RestartPolicy::new(restarts).decide(ended), Next::Exit(code, text.map(str::to_owned)));
    }

    #[test]
    fn job_status_decides_success() {
        exits(3, &ended(0, State::Finished), 0, None);
        let lost = with(ended(137, State::Finished), |v| v.lost = vec![1, 3]);
        exits(3, &lost, 0, Some("the job has finished without ranks 1, 3, which died"));
        exits(3, &Ended { by_us: true, ..ended(137, State::Finished) }, 0, None);
        exits(3, &Ended { timed_out: true, ..ended(0, State::Finished) }, 0, None);
        let stopped = with(ended(143, State::Stopped), |v| v.kept = "40 tasks are kept".into());
        exits(3, &Ended { signal: Some(15), by_us: true, ..stopped }, 85, None);
        let text = "all ranks have finished, but the program has failed after that: exit code 3";
        exits(3, &ended(3, State::Finished), 3, Some(text));
    }

    #[test]
    fn exit_code_0_of_the_launcher_is_not_enough_for_success() {
        let failed = with(ended(0, State::Failed), |v| (v.code, v.message) = (1, "rank 2: no fuel".into()));
        exits(3, &failed, 1, Some("the job has failed: rank 2: no fuel"));
        let text = "the job has died after 3.0 s (its launcher ended with code 0, 0 tasks done)";
        exits(0, &ended(0, State::Running), 1, Some(text));
        let none =
            "the job has left no job status: it ended before its ranks were ready, or does not use armature";
        exits(3, &Ended::default(), 1, Some(none));
        exits(3, &ended(5, State::Starting), 5, Some(none));
    }

    /// `srun --kill-on-bad-exit=0` exits with the code of the worst rank, and `mpirun --enable-recovery` with 0 even if a rank has died.
    #[test]
    fn only_survived_rank_deaths_are_tolerated() {
        for code in [0, 3, 134, 137] {
            let lost = with(ended(code, State::Finished), |v| v.lost = vec![2]);
            assert!(matches!(RestartPolicy::new(0).decide(&lost), Next::Exit(0, _)), "{code}");
            // A rank has died and the job has not survived this: its status is a failure or is not final.
            let failed = with(ended(code, State::Failed), |v| (v.code, v.restart) = (1, true));
            for ended in [failed, ended(code, State::Running), ended(code, State::Starting)] {
                let Next::Exit(exit, _) = RestartPolicy::new(0).decide(&ended) else { panic!("{ended:?}") };
                assert_eq!(exit, code.max(1), "{ended:?}");
            }
            // No rank was lost, but the launcher has an error code. The program has then failed after the end of its session.
            let Next::Exit(exit, _) = RestartPolicy::new(0).decide(&ended(code, State::Finished)) else {
                panic!("{code}")
            };
            assert_eq!(exit, code);
        }
    }

    #[test]
    fn rank_death_during_start_up_counts_as_a_death() {
        let missing = |code, by_us| Ended {
            missing: Some("the process of rank 1 has ended".into()),
            by_us,
            ..ended(code, State::Starting)
        };
        let mut policy = RestartPolicy::new(3);
        let Next::Restart(text) = policy.decide(&missing(0, true)) else { panic!("no restart") };
        let expected = "the job has died after 3.0 s: the process of rank 1 has ended (its launcher did not end and has been \
                        ended, 0 tasks done); restart 1 of 3";
        assert_eq!(text, expected);
        let Next::Exit(1, Some(text)) = policy.decide(&missing(0, true)) else { panic!("it goes on") };
        assert!(text.contains("died 2 times in a row"), "{text}");
        // The launcher exits with 137 (MPICH: 9) for a rank killed by SIGKILL, before the rank was found missing.
        for code in [137, 9] {
            let Next::Restart(_) = RestartPolicy::new(1).decide(&ended(code, State::Starting)) else {
                panic!("{code}")
            };
        }
        // Rank 0 has written its process ID to the status file, and other ranks have failed in MPI_Init.
        let failed = with(ended(1, State::Starting), |v| v.process = 7);
        assert!(matches!(RestartPolicy::new(1).decide(&failed), Next::Restart(_)));
        // The failed rank has printed its own message, so that `armature run` must print none.
        let failed =
            Ended { missing: Some("the process of rank 1 has ended".into()), ..ended(1, State::Failed) };
        exits(3, &with(failed, |v| v.code = 1), 1, None);
    }

    #[test]
    fn failed_program_is_not_restarted() {
        exits(3, &with(ended(1, State::Failed), |v| v.code = 1), 1, None);
    }

    #[test]
    fn job_ended_by_signal_or_time_limit_is_not_restarted() {
        exits(3, &Ended { timed_out: true, ..ended(1, State::Running) }, TIMED_OUT, None);
        exits(3, &Ended { signal: Some(15), ..ended(0, State::Running) }, 143, None);
        exits(3, &Ended { signal: Some(2), ..ended(1, State::Running) }, 1, None);
        exits(3, &Ended { signal: Some(2), by_us: true, ..ended(137, State::Running) }, 130, None);
    }

    /// `scancel --signal=TERM` ends the ranks of `srun`, and the exit code of `srun` shows the signal.
    #[test]
    fn job_whose_ranks_got_a_termination_signal_is_not_restarted() {
        for (code, name) in [(143, "SIGTERM"), (130, "SIGINT"), (129, "SIGHUP")] {
            let text = format!(
                "the job was asked to end: its launcher ended with code {code} ({name}). It is not restarted"
            );
            let missed = with(ended(code, State::Failed), |v| (v.code, v.restart) = (1, true));
            for ended in [ended(code, State::Running), ended(code, State::Starting), missed] {
                exits(3, &ended, code, Some(&text));
            }
            // A failure of the program in the status file takes precedence over the signal in the exit code.
            exits(3, &with(ended(code, State::Failed), |v| v.code = 1), 1, None);
            // The exit code of a launcher that `armature run` has ended shows nothing about the job.
            let by_us = Ended { by_us: true, ..ended(code, State::Running) };
            assert!(matches!(RestartPolicy::new(3).decide(&by_us), Next::Restart(_)));
        }
        assert!(matches!(RestartPolicy::new(3).decide(&ended(137, State::Running)), Next::Restart(_)));
    }

    #[test]
    fn stopped_job_is_not_restarted() {
        exits(3, &ended(85, State::Stopped), 85, None);
        // The job counts as stopped even if `armature run` has ended its launcher, or if the launcher has ended all ranks after the exit of the first
        // rank.
        exits(3, &Ended { signal: Some(15), by_us: true, ..ended(143, State::Stopped) }, 85, None);
        exits(3, &ended(85, State::Running), 85, None);
        exits(3, &Ended { timed_out: true, ..ended(85, State::Stopped) }, TIMED_OUT, None);
    }

    /// Without the option `--recover`, the launcher ends all ranks if one was killed.
    #[test]
    fn job_whose_launcher_ended_the_ranks_after_a_death_is_restarted() {
        let by = |cause: &str| {
            with(ended(137, State::Stopped), |v| {
                v.kept = format!("stopped by {cause} after 2.1 s; 9 tasks are kept")
            })
        };
        assert!(matches!(RestartPolicy::new(3).decide(&by("SIGTERM")), Next::Restart(_)));
        exits(3, &by("the file stop"), 85, None);
        exits(3, &Ended { warning: Some(10), ..by("SIGTERM") }, 85, None);
        exits(3, &Ended { code: 143, ..by("SIGTERM") }, 85, None);
    }

    #[test]
    fn killed_launcher_is_reported_and_the_job_status_still_counts() {
        let killed = |state| Ended { launcher_signal: Some(9), ..ended(137, state) };
        let text = "the job has finished, although its launcher was ended by signal 9";
        exits(3, &killed(State::Finished), 0, Some(text));
        let text = "the job has died after 3.0 s (its launcher was ended by signal 9, 0 tasks done)";
        exits(0, &killed(State::Running), 137, Some(text));
    }

    #[test]
    fn out_of_memory_job_is_not_restarted() {
        let killed = Ended { out_of_memory: true, ..ended(137, State::Running) };
        let Next::Exit(137, Some(text)) = RestartPolicy::new(3).decide(&killed) else { panic!("a restart") };
        assert!(text.contains("would run out of memory again and is not restarted"), "{text}");
        // The other ranks have finished the job without the lost rank, so that it has succeeded.
        let lost = with(Ended { out_of_memory: true, ..ended(137, State::Finished) }, |v| v.lost = vec![1]);
        assert!(matches!(RestartPolicy::new(3).decide(&lost), Next::Exit(0, Some(_))));
    }

    #[test]
    fn restart_count_is_limited() {
        let mut policy = RestartPolicy::new(2);
        let died = |done| with(ended(137, State::Running), |v| v.done = done);
        let text = |n, restart| {
            format!(
                "the job has died after 3.0 s (its launcher ended with code 137, {n} tasks done); {restart}"
            )
        };
        assert_eq!(policy.decide(&died(5)), Next::Restart(text(5, "restart 1 of 2")));
        assert_eq!(policy.decide(&died(6)), Next::Restart(text(6, "restart 2 of 2")));
        let last = text(7, "this was the last of 2 restarts");
        assert_eq!(policy.decide(&died(7)), Next::Exit(137, Some(last)));
    }

    #[test]
    fn machine_failure_counts_as_a_death_and_is_restarted() {
        let silent = with(ended(1, State::Failed), |v| {
            (v.code, v.restart, v.message) = (1, true, "rank 0: rank 1 is silent".into());
        });
        let Next::Restart(text) = RestartPolicy::new(1).decide(&silent) else { panic!("no restart") };
        assert!(text.starts_with("the job has died after 3.0 s: rank 0: rank 1 is silent ("), "{text}");
    }

    #[test]
    fn restarts_without_progress_stop_early() {
        let mut policy = RestartPolicy::new(9);
        let died = |done, seconds| Ended {
            took: Duration::from_secs(seconds),
            ..with(ended(137, State::Running), |v| v.done = done)
        };
        let restarted = |next| matches!(next, Next::Restart(_));
        assert!(restarted(policy.decide(&died(0, 1))));
        assert!(restarted(policy.decide(&died(4, 1))), "it did something");
        assert!(restarted(policy.decide(&died(4, 1))));
        assert!(restarted(policy.decide(&died(4, 60))), "it took its time");
        assert!(restarted(policy.decide(&died(4, 1))));
        let Next::Exit(137, Some(text)) = policy.decide(&died(3, 1)) else { panic!("it goes on") };
        assert!(text.contains("died 2 times in a row within 10 s without completing another task"), "{text}");
    }
}
