//! Finds messages of Slurm and of launchers in the output of a job.

use crate::command_line::rank_of;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Preemption,
    NodeFailure,
    TimeLimit,
    Requeue,
    /// A user or an administrator has cancelled the job, or a step of it (a launch by `srun`).
    Cancelled,
}

impl Cause {
    pub(crate) fn state(self) -> Option<&'static str> {
        match self {
            Cause::Preemption => Some("PREEMPTED"),
            Cause::NodeFailure => Some("NODE_FAIL"),
            Cause::TimeLimit => Some("TIMEOUT"),
            Cause::Cancelled => Some("CANCELLED"),
            Cause::Requeue => None,
        }
    }
}

/// Returns the reason for which a job has ended, from the last message of Slurm's daemons in the job's output. A preemption or another such reason
/// takes precedence over a cancellation, because Slurm prints both messages for one end.
pub(crate) fn cause_in(log: &str) -> Option<Cause> {
    // After the exit of a rank, srun itself cancels the ranks on other nodes, and prints the same message as for a cancellation by a user.
    let mut has_exited = false;
    let causes = log.lines().filter_map(|line| {
        let line = rank_of(line).map_or(line, |(_, line)| line);
        has_exited |= line.starts_with("srun: error: ") && line.contains(": task");
        if line.starts_with("srun: error: Node failure on ") {
            return Some(Cause::NodeFailure);
        }
        let (_, cancellation) = line.strip_prefix("slurmstepd")?.split_once(" CANCELLED AT ")?;
        let why = cancellation.split_once(" DUE TO ").map_or("", |(_, why)| why);
        let known = [
            ("PREEMPTION", Cause::Preemption),
            ("NODE FAILURE", Cause::NodeFailure),
            ("TIME LIMIT", Cause::TimeLimit),
            ("JOB REQUEUE", Cause::Requeue),
        ];
        let named = known.into_iter().find(|(name, _)| why.starts_with(name));
        named.map(|(_, cause)| cause).or_else(|| (!has_exited).then_some(Cause::Cancelled))
    });
    causes.max_by_key(|&cause| cause != Cause::Cancelled)
}

/// Returns true if the first exit of a rank that `srun` has reported is a stop at a checkpoint. After this exit, `srun` ends the other ranks with
/// SIGTERM, and its own exit code becomes that of the signal.
pub(crate) fn has_stopped_first(log: &str) -> bool {
    let lines = log.lines().map(|line| rank_of(line).map_or(line, |(_, line)| line));
    let first = { lines }.find(|line| line.starts_with("srun: error: ") && line.contains(": task"));
    first.is_some_and(is_stop)
}

/// Returns true if `srun` reports in this line that ranks have stopped at a checkpoint.
fn is_stop(line: &str) -> bool {
    line.starts_with("srun: error: ") && line.trim_end().ends_with("Exited with exit code 85")
}

const SPEAKERS: [&str; 4] =
    ["slurmstepd", "srun: error: ", "There are not enough slots", "mpirun was unable"];

/// Parts of messages in which Slurm or Open MPI reports that ranks were not started.
const START_FAILURES: [&str; 9] = [
    "execve():",
    "Unable to create step",
    "Task launch for ",
    "Application launch failed",
    "Unable to confirm allocation",
    "Job credential",
    "Unable to resolve",
    "not enough slots",
    "unable to",
];

pub(crate) fn start_failure_in(log: &str) -> Option<&str> {
    let unlabelled = |line| rank_of(line).map_or(line, |(_, line)| line);
    let is_failure = |line: &&str| {
        SPEAKERS.iter().any(|name| line.starts_with(name))
            && START_FAILURES.iter().any(|part| line.contains(part))
    };
    log.lines().map(unlabelled).find(is_failure)
}

/// Beginnings of the messages, framed by lines of dashes or equals signs, in which `mpirun` reports the exit code of a rank: three of Open MPI, one
/// of MPICH.
const FRAMED: [&str; 4] =
    ["Primary job ", "mpirun detected that", "prterun detected that", "=   BAD TERMINATION OF ONE OF YOUR"];

/// Maximum number of lines of a launcher's message that are held back until the exit code in the message is known.
const LINES: usize = 24;

/// Hides the messages of launchers about ranks that have stopped at a checkpoint, because their exit code 85 looks like an error.
#[derive(Debug, Default)]
pub(crate) struct Farewells {
    /// Lines of a message of `mpirun` about the exit code of a rank, which are held back until the exit code in the message is known.
    held: Vec<String>,
    was_srun: bool,
}

impl Farewells {
    /// Takes a line of the launcher's output, with its line end. Returns the lines that can now be shown to the user: none if this line is held back
    /// or hidden.
    pub(crate) fn filter(&mut self, line: &[u8]) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(line) else {
            return [self.finish(), line.to_vec()].concat();
        };
        let is_edge =
            text.trim_end().len() > 40 && text.trim_end().bytes().all(|byte| matches!(byte, b'-' | b'='));
        let (is_first, is_second) = (self.held.is_empty(), self.held.len() == 1);
        if is_first && !is_edge {
            return if self.is_of_srun(text) { Vec::new() } else { line.to_vec() };
        }
        if is_second && !FRAMED.iter().any(|known| text.starts_with(known)) || self.held.len() > LINES {
            let shown = self.finish();
            return [shown, self.filter(line)].concat();
        }
        self.held.push(text.to_string());
        let is_complete = is_edge && self.held.iter().any(|line| line.to_lowercase().contains("exit code: "));
        if !is_complete {
            return Vec::new();
        }
        let code = |line: &String| {
            line.to_lowercase().split_once("exit code:").map(|(_, code)| code.trim().to_string())
        };
        if self.held.iter().find_map(code).as_deref() == Some("85") {
            self.held.clear()
        }
        self.finish()
    }

    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.held.drain(..).collect::<String>().into_bytes()
    }

    fn is_of_srun(&mut self, text: &str) -> bool {
        let is_exit = is_stop(text);
        let is_end = self.was_srun && text.starts_with("srun: launch/slurm: _step_signal: Terminating");
        self.was_srun = is_exit || is_end;
        self.was_srun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_names_the_cause_of_an_end() {
        let of = |why: &str| {
            cause_in(&format!(
                "slurmstepd-n1: error: *** STEP 10.0 ON n1 CANCELLED AT 2026-11-28T13:01:22{why} ***\nsrun: x"
            ))
        };
        assert_eq!(of(" DUE TO PREEMPTION"), Some(Cause::Preemption));
        assert_eq!(of(" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"), Some(Cause::NodeFailure));
        assert_eq!(of(" DUE TO TIME LIMIT"), Some(Cause::TimeLimit));
        assert_eq!(of(" DUE TO JOB REQUEUE"), Some(Cause::Requeue));
        assert_eq!(of(""), Some(Cause::Cancelled));
        let both = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 1 DUE TO TIME LIMIT ***\nslurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 1 ***\n";
        assert_eq!(cause_in(both), Some(Cause::TimeLimit));
        let exit = "srun: error: n2: task 1: Exited with exit code 2\nslurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 1 ***\n";
        assert_eq!(cause_in(exit), None);
        assert_eq!(cause_in("srun: error: Node failure on n3"), Some(Cause::NodeFailure));
        // A line that the program itself has printed is ignored.
        assert_eq!([cause_in("the job was CANCELLED AT 1 DUE TO PREEMPTION"), cause_in("")], [None, None]);
    }

    #[test]
    fn only_the_first_exit_that_srun_reports_tells_a_stop() {
        let stopped = "srun: error: n3: tasks 0-1: Exited with exit code 85\n";
        let ended = "srun: launch/slurm: _step_signal: Terminating StepId=26.0\nsrun: error: n4: task 2: Terminated\n";
        assert!(has_stopped_first(&format!("rank 1 stops\n{stopped}{ended}")));
        assert!(!has_stopped_first(&format!("{ended}{stopped}")));
        assert!(!has_stopped_first("task 2: Exited with exit code 85"));
    }

    #[test]
    fn messages_about_ranks_that_were_not_started_are_found() {
        let bad = "slurmstepd-n2: error: execve(): bad interpreter(/x): No such file or directory";
        assert_eq!(
            start_failure_in(&format!("srun: x\n{bad}\nsrun: error: n2: task 1: Exited with exit code 2")),
            Some(bad)
        );
        let busy =
            "srun: error: Unable to create step for job 7: Requested node configuration is not available";
        assert_eq!(start_failure_in(busy), Some(busy));
        for text in
            ["", "srun: error: n1: task 0: Killed", "my program was unable to read x", "Task launch for fun"]
        {
            assert_eq!(start_failure_in(text), None);
        }
    }

    fn shown(text: &str) -> String {
        let mut farewells = Farewells::default();
        let mut shown: Vec<u8> =
            text.split_inclusive('\n').flat_map(|line| farewells.filter(line.as_bytes())).collect();
        shown.extend(farewells.finish());
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn farewells_after_a_stop_are_removed_and_nothing_else() {
        let edge = "-".repeat(74);
        let openmpi = |code: u8| {
            format!(
                "{edge}\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the job has been \
                 aborted.\n{edge}\n{edge}\nmpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be \
                 terminated. The first process to do so was:\n\n  Process name: [[16437,1],0]\n  Exit code:    {code}\n{edge}\n"
            )
        };
        let double = "=".repeat(83);
        let mpich = |code: u8| {
            format!(
                "{double}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 12 RUNNING AT n1\n=   EXIT CODE: {code}\n{double}\n"
            )
        };
        let srun = |code: u8| {
            format!(
                "srun: error: n1: tasks 0-1: Exited with exit code {code}\nsrun: launch/slurm: _step_signal: Terminating StepId=3.0\n"
            )
        };
        for text in [openmpi(85), mpich(85), srun(85)] {
            assert_eq!(shown(&format!("one\n{text}two")), "one\ntwo");
        }
        let table = format!("{edge}\n{edge}\nname  value\n{edge}\nPrimary job x\n");
        for text in [openmpi(1), mpich(1), srun(1), table, format!("{edge}\nPrimary job \n"), edge] {
            assert_eq!(shown(&text), text);
        }
        let long = format!(
            "{double}\n=   BAD TERMINATION OF ONE OF YOUR\n{}EXIT CODE: 85\n{double}\n",
            "x\n".repeat(30)
        );
        assert_eq!(shown(&long), long);
    }
}
