//! Tests of run directories and of the commands that read them. Shell scripts replace the launchers and the batch systems.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Home directory of a simulated user, with the scripts in `bin`.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    /// Home directory with a launcher that runs the program once, as rank 0.
    fn new() -> Self {
        let home = Home { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(home.path("bin")).unwrap();
        home.script("mpirun.mpich", "while [ \"$1\" != /bin/sh ]; do shift; done; exec \"$@\"");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn script(&self, name: &str, text: &str) {
        let file = self.path("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_armature"));
        command.args(args).env_clear().current_dir(self.dir.path()).env("PATH", self.path("bin"));
        command
    }

    #[track_caller]
    fn run(&self, args: &[&str], code: i32) -> String {
        checked(self.command(args).output().unwrap(), code)
    }

    #[track_caller]
    fn program(&self, name: &str, script: &str, code: i32) -> String {
        self.run(&["run", "--run", name, "-n", "1", "/bin/sh", "-c", script], code)
    }

    fn start(&self, name: &str, script: &str) -> Child {
        let mut command = self.command(&["run", "--run", name, "-n", "1", "/bin/sh", "-c", script]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn why(&self, attempt: &str) -> serde_json::Value {
        serde_json::from_str(&self.read(&format!("armature-runs/{attempt}/why.json"))).unwrap()
    }
}

#[track_caller]
fn checked(output: Output, code: i32) -> String {
    let printed = [&output.stdout[..], &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat();
    assert_eq!(output.status.code(), Some(code), "{printed}");
    printed
}

#[track_caller]
fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(process: u32, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(process.try_into().unwrap()).unwrap();
    rustix::process::kill_process(process, signal).unwrap();
}

#[test]
fn each_attempt_has_a_record_and_a_part_of_the_log() {
    let home = Home::new();
    home.program("day", "echo \"$ARMATURE_EVENTS $ARMATURE_RUN\"; echo problem >&2; exit 7", 7);
    let run = home.path("armature-runs/day-1");
    let log = home.read("armature-runs/day-1/log");
    let place = format!("{}/attempts/1 {}\n", run.display(), run.display());
    assert!(
        log.starts_with("=== attempt 1 of day-1, ") && log.contains(&place) && log.contains("problem\n"),
        "{log}"
    );
    let why = home.why("day-1/attempts/1");
    assert_eq!((why["reason"].as_str(), why["code"].as_u64()), (Some("own error"), Some(7)));
    let description: serde_json::Value =
        serde_json::from_str(&home.read("armature-runs/day-1/run.json")).unwrap();
    assert_eq!(
        (description["schema"].as_u64(), description["command"][0].as_str()),
        (Some(1), Some("/bin/sh"))
    );
    // `--run day-1` continues the run `day-1`; `--run day` creates another run.
    home.program("day-1", "echo second", 0);
    home.program("day", "echo third", 0);
    assert_eq!(home.why("day-1/attempts/2")["reason"], "finished");
    assert_eq!(fs::read_link(home.path("armature-runs/last")).unwrap(), Path::new("day-2"));
    let first = home.run(&["logs", "day-1", "--attempt", "1"], 0);
    assert!(first.contains("problem") && !first.contains("second"), "{first}");
    assert!(home.run(&["logs", "day-1@2"], 0).ends_with("===\nsecond\n"));
    assert_eq!(home.run(&["logs", "day-1", "--tail", "1"], 0), "second\n");
    assert!(home.run(&["logs", "--follow"], 0).ends_with("third\n"));
}

#[test]
fn recording_does_not_change_program_output() {
    let home = Home::new();
    let output = home
        .command(&["run", "--run", "a", "-n", "1", "/bin/sh", "-c", "echo one; echo two >&2"])
        .output()
        .unwrap();
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"one\n"[..], &b"two\n"[..]));
    // A standard output that goes to a file is not copied to the log of the run.
    let result = fs::File::create(home.path("result")).unwrap();
    let mut command =
        home.command(&["run", "--run", "a", "-n", "1", "/bin/sh", "-c", "echo one; echo two >&2"]);
    assert!(command.stdout(result).stderr(Stdio::null()).status().unwrap().success());
    assert_eq!(home.read("result"), "one\n");
    assert!(!home.read("armature-runs/a-2/log").contains("one"));
}

#[test]
fn runs_have_a_record_if_they_may_have_several_attempts() {
    let home = Home::new();
    home.run(&["run", "-n", "1", "/bin/sh", "-c", "true"], 0);
    home.run(&["run", "--no-run-directory", "-n", "1", "/bin/sh", "-c", "true", "--journal", "j"], 0);
    let mut command = home.command(&["run", "-n", "1", "/bin/sh", "-c", "true", "--journal", "j"]);
    checked(command.env("ARMATURE_EVENTS", home.path("events")).output().unwrap(), 0);
    assert!(!home.path("armature-runs").exists());
    home.run(&["run", "-n", "1", "/bin/sh", "-c", "true", "--journal", "j"], 0);
    assert_eq!(home.why("sh-1/attempts/1")["reason"], "finished");
    // The program must run even if no run directory can be created.
    fs::remove_dir_all(home.path("armature-runs")).unwrap();
    fs::write(home.path("armature-runs"), "").unwrap();
    let printed = home.run(&["run", "-n", "1", "/bin/sh", "-c", "echo ran", "--journal", "j"], 0);
    assert!(
        printed.contains("ran\n") && printed.contains("the run has no run directory: cannot create"),
        "{printed}"
    );
    assert!(
        home.run(&["run", "--run", "a", "-n", "1", "/bin/sh"], 1).contains("cannot create the run directory")
    );
}

#[test]
fn each_restart_is_an_attempt() {
    let home = Home::new();
    let script = concat!(
        r#"by=$(/usr/bin/sed 's/.*"started_by":\("[^"]*"\).*/\1/' "$ARMATURE_JOB_STATUS"); "#,
        r#"set -- $(/bin/ls "$ARMATURE_RUN/attempts" | /usr/bin/wc -l); "#,
        r#"printf '{"state":"running","done":%s,"started_by":%s}' $1 "$by" >"$ARMATURE_JOB_STATUS.new"; "#,
        r#"/bin/mv "$ARMATURE_JOB_STATUS.new" "$ARMATURE_JOB_STATUS"; /bin/kill -9 $$"#,
    );
    home.run(&["run", "--restarts", "2", "--run", "a", "-n", "1", "/bin/sh", "-c", script], 137);
    for attempt in 1..=3 {
        assert_eq!(home.why(&format!("a-1/attempts/{attempt}"))["code"], 137, "{attempt}");
    }
    assert!(!home.path("armature-runs/a-1/attempts/4").exists());
    let log = home.read("armature-runs/a-1/log");
    let heading = log.find("=== attempt 2").unwrap();
    assert!(log[..heading].contains("restart 1 of 2"), "{log}");
}

#[test]
fn unusable_names_options_and_runs_are_refused_with_exit_code_2() {
    let home = Home::new();
    home.program("a", "true", 0);
    for name in ["last", "48211", "a b", "../a", "$(touch hacked)", "a\nb", "", "-a"] {
        let printed = home.run(&["run", "--run", name, "/bin/sh"], 2);
        assert!(printed.contains("name of a run") || name == "-a", "{printed}");
    }
    for verb in ["status", "logs", "stop", "cancel", "explain", "report", "events", "trace", "top"] {
        let printed = home.run(&[verb, "no such run"], 2);
        assert!(
            printed.starts_with("armature: there is no run \"no such run\": expected a directory, "),
            "{verb}: {printed}"
        );
        assert_eq!(printed.lines().count(), 1, "{printed}");
        assert!(home.run(&[verb, "a@7"], 2).contains("a-1 has no attempt 7: the newest is 1"), "{verb}");
    }
    assert!(home.run(&["logs", "a@1", "--attempt", "2"], 2).contains("contradicts"));
    assert!(home.run(&["run", "--requeue", "2", "/bin/sh"], 2).contains("inside a Slurm job only"));
    home.run(&["run", "--run", "a", "--no-run-directory", "/bin/sh"], 2);
    // A directory that `armature` has not written, such as `bin`, is not a run.
    assert!(home.run(&["status", "bin"], 2).contains("there is no run \"bin\""));
    fs::remove_file(home.path("armature-runs/a-1/log")).unwrap();
    assert!(home.run(&["logs"], 2).contains("cannot read the log"));
    fs::remove_dir_all(home.path("armature-runs")).unwrap();
    assert!(home.run(&["status"], 2).contains("there is no run \"last\""));
    assert!(home.run(&["status", "--all"], 0).contains("There are no runs"));
    assert!(!home.path("hacked").exists());
}

#[test]
fn every_subcommand_finds_the_events_of_a_run() {
    let home = Home::new();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/events");
    let script = format!("/bin/cp {}/*.jsonl \"$ARMATURE_EVENTS\"", sample.display());
    let mut command = home.command(&["run", "--run", "day", "-n", "1", "/bin/sh", "-c", &script]);
    checked(command.env("SLURM_JOB_ID", "48211").output().unwrap(), 0);
    for verb in [&["explain"][..], &["events"], &["top", "--once"], &["report"], &["trace"]] {
        for run in [
            "day",
            "day-1",
            "last",
            "48211",
            "day@1",
            "armature-runs/day-1",
            "armature-runs/day-1/attempts/1",
        ] {
            home.run(&[verb, &[run]].concat(), 0);
        }
    }
    assert!(home.path("armature-runs/day-1/report.html").exists());
    assert!(home.path("armature-runs/day-1/attempts/1/report.html").exists());
}

#[test]
fn run_in_progress_is_shown_stopped_and_cancelled() {
    let home = Home::new();
    let mut running = home.start("a", "/bin/sleep 60");
    wait_for("the run starts", || home.path("armature-runs/a-1/attempts/1/start.json").exists());
    let printed = home.run(&["status"], 3);
    assert!(printed.starts_with("a-1          running since ") && printed.contains("attempt 1"), "{printed}");
    assert!(home.run(&["status", "--json"], 3).contains(r#""state":"running""#));
    assert!(home.run(&["stop"], 0).contains("a-1 is asked to stop at a checkpoint"));
    assert_eq!(home.read("armature-runs/a-1/stop"), "armature stop\n");
    let printed = home.run(&["stop", "a", "--after-checkpoint"], 0);
    assert!(printed.contains("a-1 is asked to stop at its next checkpoint"), "{printed}");
    assert_eq!(home.read("armature-runs/a-1/stop"), "armature stop --after-checkpoint\n");
    assert!(home.run(&["cancel", "a"], 0).contains("SIGTERM was sent to process"));
    assert_eq!(running.wait().unwrap().code(), Some(143));
    let printed = home.run(&["status", "a"], 1);
    assert!(printed.contains("cancelled: SIGTERM") && printed.contains("armature logs a-1@1"), "{printed}");
    assert!(home.run(&["cancel", "a"], 3).contains("a-1 has already ended: failed (cancelled: SIGTERM)"));
    home.run(&["stop", "a"], 3);
    // The request to stop was meant for the previous start of the program, so that the file `stop` must be gone.
    home.program("a-1", "test ! -e \"$ARMATURE_RUN/stop\"", 0);
    home.run(&["status", "a"], 0);
}

#[test]
fn usr1_requests_a_stop_and_is_not_forwarded() {
    let home = Home::new();
    let running = home.start("a", "while [ ! -e \"$ARMATURE_RUN/stop\" ]; do /bin/sleep 0.05; done; exit 85");
    wait_for("the run starts", || home.path("armature-runs/a-1/attempts/1/start.json").exists());
    signal(running.id(), rustix::process::Signal::USR1);
    checked(running.wait_with_output().unwrap(), 85);
    assert_eq!(home.why("a-1/attempts/1")["reason"], "stopped");
    let printed = home.run(&["status"], 85);
    assert!(
        printed.contains("stopped") && printed.contains("armature run --run a-1 with the same command"),
        "{printed}"
    );
}

#[test]
fn lines_of_a_rank_are_shown_without_the_label_of_the_launcher() {
    let home = Home::new();
    home.script(
        "mpirun.mpich",
        "echo \"$*\" >asked; echo '[0] about rank 1'; echo '[1] one'; echo '[1] two'; echo '[10] ten'",
    );
    home.run(&["run", "--run", "a", "--label", "-n", "11", "/bin/sh"], 0);
    assert!(home.read("asked").contains(" -prepend-rank "), "{}", home.read("asked"));
    assert_eq!(home.run(&["logs", "--rank", "1"], 0), "one\ntwo\n");
    // If the output is not labelled with ranks, `logs --rank 1` selects lines that contain "rank 1".
    home.run(&["run", "--run", "b", "-n", "11", "/bin/sh"], 0);
    assert_eq!(home.run(&["logs", "--rank", "1"], 0), "[0] about rank 1\n");
    assert!(!home.read("asked").contains("-prepend-rank"));
}

#[test]
fn status_shows_runs_that_have_ended_lately() {
    let home = Home::new();
    home.program("new", "true", 0);
    home.program("old", "true", 0);
    let why = home.read("armature-runs/old-1/attempts/1/why.json");
    let mut end: serde_json::Value = serde_json::from_str(&why).unwrap();
    end["ended"] = "2001-01-01T00:00:00Z".into();
    fs::write(home.path("armature-runs/old-1/attempts/1/why.json"), end.to_string()).unwrap();
    let printed = home.run(&["status", "--since", "1d"], 0);
    assert!(printed.contains("new-1") && !printed.contains("old-1"), "{printed}");
    assert!(home.run(&["status", "--since", "100000d"], 0).contains("old-1"));
    home.run(&["status", "--since", "soon"], 2);
    home.run(&["status", "--since", "1d", "new"], 2);
}

#[test]
fn run_with_a_killed_starter_counts_as_failed() {
    let home = Home::new();
    let mut running = home.start("a", "/bin/sleep 60");
    wait_for("the run starts", || home.path("armature-runs/a-1/attempts/1/start.json").exists());
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(home.run(&["status"], 1).contains("it was killed"), "{}", home.run(&["status"], 1));
    home.run(&["cancel"], 3);
}

#[test]
fn run_is_executed_by_one_process_at_a_time() {
    let home = Home::new();
    let mut running = home.start("a", "/bin/sleep 60");
    wait_for("the run starts", || home.path("armature-runs/a-1/attempts/1/start.json").exists());
    let printed = home.program("a-1", "true", 2);
    assert!(
        printed.contains("the run directory ") && printed.contains("has not released its lock"),
        "{printed}"
    );
    assert!(!home.path("armature-runs/a-1/attempts/2").exists());
    signal(running.id(), rustix::process::Signal::TERM);
    running.wait().unwrap();
}

fn submitted(home: &Home) {
    fs::create_dir_all(home.path("armature-runs/s-1")).unwrap();
    let text = r#"{"schema":1,"batch":{"system":"slurm","job":"7"}}"#;
    fs::write(home.path("armature-runs/s-1/run.json"), text).unwrap();
}

#[test]
fn status_queries_the_whole_queue_once() {
    let home = Home::new();
    submitted(&home);
    home.script(
        "squeue",
        "echo \"$*\" >>asked; echo '7|PENDING|N/A|2026-11-28T14:00:00|(Priority)|s $(touch hacked)'",
    );
    let printed = home.run(&["status", "s", "7"], 0);
    assert_eq!(
        printed.matches("waiting   Priority, expected start 2026-11-28T14:00:00").count(),
        2,
        "{printed}"
    );
    let asked = home.read("asked");
    assert!(asked.lines().count() == 1 && asked.contains("--me") && !asked.contains("-j"), "{asked}");
    home.run(&["status", "s"], 3);
    assert!(home.run(&["stop", "s"], 3).contains("has not started"));
    home.script("squeue", "exit 0");
    home.script("sacct", "echo TIMEOUT");
    assert!(home.run(&["status", "s"], 1).contains("its batch job ended as TIMEOUT"));
    // The controller of Slurm does not respond, so that the run must not count as ended.
    home.script("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1");
    home.script("sacct", "exit 1");
    assert!(home.run(&["status", "s"], 3).contains("cannot be read"));
    assert!(!home.path("hacked").exists());
}

#[test]
fn logs_of_a_waiting_run_can_be_followed() {
    let home = Home::new();
    submitted(&home);
    // The job starts at the first call of `squeue`, and has ended at the second.
    let start = "[ -e armature-runs/s-1/log ] || { echo '7|PENDING|N/A|N/A|(Priority)|s'; echo output >armature-runs/s-1/log; }";
    home.script("squeue", start);
    let output = home.command(&["logs", "--follow", "s"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "output\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "armature: s-1 is waiting: Priority\n");
    // The job has ended before it printed anything, so that there is no log.
    fs::remove_file(home.path("armature-runs/s-1/log")).unwrap();
    home.script("squeue", "exit 0");
    assert!(home.run(&["logs", "--follow", "s"], 2).contains("cannot read the log"));
}

#[test]
fn cancel_removes_a_waiting_job_from_the_queue() {
    let home = Home::new();
    submitted(&home);
    home.script("squeue", "echo '7|PENDING|N/A|N/A|(Priority)|s'");
    assert!(home.run(&["cancel", "s"], 4).contains("there is no scancel in the PATH"));
    home.script("scancel", "echo 'scancel: error: Access denied' >&2; exit 1");
    assert!(home.run(&["cancel", "s"], 3).contains("scancel has refused: scancel: error: Access denied"));
    home.script("scancel", "echo \"$*\" >cancelled");
    home.run(&["cancel", "7"], 0);
    assert_eq!(home.read("cancelled"), "7\n");
}

/// Starts a shell script as the run `a` in Slurm job 7, which was requeued `requeues` times.
fn in_job(home: &Home, script: &str, requeues: u32) -> Command {
    let args =
        ["run", "--launcher", "mpirun", "--requeue", "1", "--run", "a", "-n", "1", "/bin/sh", "-c", script];
    let mut command = home.command(&args);
    let requeues = requeues.to_string();
    command.envs([
        ("SLURM_JOB_ID", "7"),
        ("SLURM_JOB_END_TIME", "4000000000"),
        ("SLURM_RESTART_COUNT", &requeues),
    ]);
    command
}

/// Installs a `scontrol` that prints the fields `job` for the Slurm job, and accepts requests to requeue it.
fn slurm_says(home: &Home, job: &str) {
    home.script(
        "scontrol",
        &format!("echo \"$*\" >>asked; [ \"$1\" = requeue ] || echo JobId=7 NumNodes=1 Requeue=1 {job}"),
    );
}

#[test]
fn preempted_run_that_has_stopped_is_queued_again() {
    let home = Home::new();
    slurm_says(&home, "JobState=RUNNING Restarts=0 PreemptTime=2026-11-28T13:00:00");
    let printed = checked(in_job(&home, "exit 85", 0).output().unwrap(), 85);
    assert!(printed.contains("requeue after a preemption: scontrol requeue 7"), "{printed}");
    assert_eq!(home.why("a-1/attempts/1")["reason"], "preempted");
    // Slurm has already requeued the job (`Restarts=2`), so that it no longer reports the preemption.
    slurm_says(&home, "JobState=COMPLETING Restarts=2 PreemptTime=None");
    let script =
        "echo 'slurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT 2026 DUE TO PREEMPTION ***'; exit 85";
    checked(in_job(&home, script, 1).output().unwrap(), 85);
    let why = home.why("a-1/attempts/2");
    assert_eq!((why["reason"].as_str(), why["requeued"].as_bool()), (Some("preempted"), Some(true)));
    assert_eq!(home.read("asked").matches("requeue 7").count(), 1);
}

#[test]
fn another_job_continues_a_run_that_cannot_be_requeued() {
    let home = Home::new();
    home.script(
        "scontrol",
        "if [ \"$1\" = requeue ]; then echo 'Requested operation is presently disabled' >&2; exit 1; fi
echo JobId=7 JobState=RUNNING Restarts=0 PreemptTime=2026",
    );
    home.script("sbatch", "echo \"$*\" >submitted; echo 8");
    let printed = checked(in_job(&home, "exit 85", 0).output().unwrap(), 85);
    assert!(printed.contains("presently disabled; sbatch: there is no "), "{printed}");
    fs::write(home.path("armature-runs/a-1/job.sh"), "").unwrap();
    let printed = checked(in_job(&home, "exit 85", 0).output().unwrap(), 85);
    assert!(
        printed.contains("Requested operation is presently disabled: the run continues as job 8"),
        "{printed}"
    );
    let submitted = home.read("submitted");
    assert!(submitted.starts_with("--parsable --dependency=afterany:7 /"), "{submitted}");
    assert!(submitted.ends_with("/armature-runs/a-1/job.sh\n"), "{submitted}");
    home.script("squeue", "echo '8|PENDING|N/A|N/A|(Dependency)|a-1'");
    assert!(home.run(&["status", "8"], 3).contains("Dependency, after an attempt that ended: preempted"));
}

#[test]
fn attempt_that_was_killed_gets_a_record_from_the_next_start_of_its_job() {
    for (printed, reason) in [
        ("", "lost node"),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 1 DUE TO TIME LIMIT ***", "time limit"),
    ] {
        let home = Home::new();
        slurm_says(&home, "JobState=RUNNING Restarts=0");
        let mut killed = in_job(&home, &format!("echo '{printed}'; : >ready; /bin/sleep 60"), 0);
        let mut killed = killed.stdout(Stdio::null()).spawn().unwrap();
        wait_for("the program starts", || home.path("ready").exists());
        wait_for("its output is copied", || home.read("armature-runs/a-1/log").contains(printed));
        killed.kill().unwrap();
        killed.wait().unwrap();
        // A second start in the same allocation, without a requeue, does not show how the first one ended.
        home.script("squeue", "exit 0");
        let status = home.run(&["status", "a"], 1);
        assert!(printed.is_empty() || status.contains("its batch job ended as TIMEOUT"), "{status}");
        checked(in_job(&home, "exit 3", 0).output().unwrap(), 3);
        assert!(!home.path("armature-runs/a-1/attempts/1/why.json").exists());
        fs::remove_dir_all(home.path("armature-runs/a-1/attempts/2")).unwrap();
        checked(in_job(&home, "exit 0", 1).output().unwrap(), 0);
        let why = home.why("a-1/attempts/1");
        assert_eq!((why["reason"].as_str(), why["requeued"].as_bool()), (Some(reason), Some(true)), "{why}");
        assert_eq!(home.why("a-1/attempts/2")["reason"], "finished");
    }
}

#[test]
fn launch_failure_of_slurm_is_no_error_of_the_program() {
    let home = Home::new();
    slurm_says(&home, "JobState=RUNNING Restarts=0");
    let message =
        "srun: error: Unable to create step for job 7: Requested node configuration is not available";
    let script = format!("echo '{message}' >&2; exit 1");
    checked(in_job(&home, &script, 0).output().unwrap(), 1);
    let why = home.why("a-1/attempts/1");
    assert_eq!((why["reason"].as_str(), why["detail"].as_str()), (Some("start failed"), Some(message)));
    // While ranks are running, a message like that of `srun` may be the program's own.
    let script = format!("echo '{{\"state\":\"running\"}}' >\"$ARMATURE_EVENTS/job-status.json\"; {script}");
    checked(in_job(&home, &script, 0).output().unwrap(), 1);
    assert_eq!(home.why("a-1/attempts/2")["reason"], "own error");
}

#[test]
fn exit_code_0_without_the_ranks_is_no_success() {
    let home = Home::new();
    slurm_says(&home, "JobState=RUNNING Restarts=0");
    checked(in_job(&home, "echo 'srun: error: Node failure on n3' >&2; exit 0", 0).output().unwrap(), 1);
    assert_eq!(home.why("a-1/attempts/1")["reason"], "lost node");
    let script = "echo '{\"state\":\"running\",\"done\":4}' >\"$ARMATURE_EVENTS/job-status.json\"; exit 0";
    checked(in_job(&home, script, 0).output().unwrap(), 1);
    assert_eq!(home.why("a-1/attempts/2")["code"], 1);
}

#[test]
fn sigterm_of_the_batch_system_lets_ranks_stop_in_order() {
    let home = Home::new();
    slurm_says(&home, "JobState=COMPLETING Restarts=0");
    let wait = "while [ ! -e \"$ARMATURE_RUN/stop\" ]; do /bin/sleep 0.05; done; /bin/sleep 0.3; exit 85";
    let running = "echo '{\"state\":\"running\"}' >\"$ARMATURE_EVENTS/job-status.json\"";
    for (attempt, (script, code)) in
        [(format!("{running}; : >ready; {wait}"), 85), (format!(": >ready; {wait}"), 143)]
            .into_iter()
            .enumerate()
    {
        let mut command = in_job(&home, &script, 0);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for("the program starts", || home.path("ready").exists());
        signal(child.id(), rustix::process::Signal::TERM);
        checked(child.wait_with_output().unwrap(), code);
        let why = home.why(&format!("a-1/attempts/{}", attempt + 1));
        assert_eq!(why["reason"], "cancelled", "{why}");
        assert_eq!(why["stop_seconds"].as_f64().is_some_and(|seconds| seconds > 0.2), code == 85, "{why}");
        fs::remove_file(home.path("ready")).unwrap();
    }
}

/// Runs a program in a Slurm job that has a minute left, and sends it the warning signal SIGUSR1.
#[track_caller]
fn in_a_job_that_ends_soon(home: &Home, script: &str, code: i32) -> String {
    let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 60;
    let args =
        ["run", "--launcher", "mpirun", "--requeue", "1", "--run", "a", "-n", "1", "/bin/sh", "-c", script];
    let mut command = home.command(&args);
    command.env("SLURM_JOB_ID", "7").env("SLURM_JOB_END_TIME", soon.to_string());
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the program starts", || home.path("ready").exists());
    signal(child.id(), rustix::process::Signal::USR1);
    let printed = checked(child.wait_with_output().unwrap(), code);
    fs::remove_file(home.path("ready")).unwrap();
    printed
}

#[test]
fn stop_for_the_time_limit_is_requeued_as_often_as_allowed() {
    let home = Home::new();
    home.script(
        "scontrol",
        "echo \"$*\" >>asked; [ \"$1\" = requeue ] || echo JobId=7 JobState=RUNNING NumNodes=1",
    );
    let script = ": >ready; while [ ! -e \"$ARMATURE_RUN/stop\" ]; do /bin/sleep 0.05; done; exit 85";
    assert!(in_a_job_that_ends_soon(&home, script, 85).contains("requeue 1 of 1: scontrol requeue 7"));
    assert_eq!(home.read("asked").lines().last(), Some("requeue 7"));
    assert_eq!(home.why("a-1/attempts/1")["reason"], "time limit");
    // The job was requeued as often as the user has allowed, and must not be requeued again.
    assert!(in_a_job_that_ends_soon(&home, script, 85).contains("is not requeued again"));
    assert_eq!(home.why("a-1/attempts/2")["reason"], "time limit");
    assert_eq!(home.read("asked").matches("requeue 7").count(), 1);
    // A run that the user has stopped with `armature stop` must not be requeued.
    let before = home.read("asked");
    in_a_job_that_ends_soon(&home, ": >ready; /bin/sleep 1; exit 3", 3);
    assert_eq!(home.read("asked").matches("requeue").count(), before.matches("requeue").count());
}
