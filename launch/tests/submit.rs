//! Tests of `armature submit` with a shell script that replaces `sbatch`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Home directory of a user on a login node, with the scripts in `bin`.
struct Home {
    dir: tempfile::TempDir,
    name: String,
}

/// Script in the place of `sbatch` that runs every job script at once, as job 48211.
const RUNS: &str = r#"if [ "$1" = --test-only ]; then /bin/cat >tested; exit 0; fi
echo "$@" >asked
SLURM_JOB_ID=48211 SLURM_JOB_END_TIME=4000000000 /bin/bash "$2" >output 2>&1
echo "48211;cluster""#;

impl Home {
    fn new(name: &str) -> Self {
        let home = Home { dir: tempfile::tempdir().unwrap(), name: name.into() };
        fs::create_dir_all(home.dir.path().join("bin")).unwrap();
        fs::create_dir(home.path("")).unwrap();
        home.script(
            "app",
            "for word; do printf '%s\\0' \"$word\"; done >words; printf '%s' \"$VALUE\" >value",
        );
        // A program `touch` that creates a file, by which the test detects that a shell has executed a text of the user.
        home.script("touch", ": >\"$1\"");
        home.script("mpirun.mpich", "while [ \"${1##*/}\" != app ]; do shift; done; exec \"$@\"");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(&self.name).join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn script(&self, name: &str, text: &str) {
        let file = self.dir.path().join("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn armature(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_armature"));
        command
            .args(args)
            .env_clear()
            .env("PATH", self.dir.path().join("bin"))
            .current_dir(self.path(""))
            .output()
            .unwrap()
    }

    #[track_caller]
    fn submit(&self, args: &[&str], code: i32) -> String {
        let output = self.armature(&[&["submit"], args].concat());
        let printed = [&output.stdout[..], &output.stderr];
        let printed = printed.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
        assert_eq!(output.status.code(), Some(code), "{printed}");
        printed
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

#[test]
fn submitted_script_continues_the_run_directory_of_the_submission() {
    let home = Home::new("work");
    home.script("sbatch", RUNS);
    let printed = home.submit(&["--name", "day", "-n", "1", "--time", "2h", "app", "one", "--two"], 0);
    assert_eq!(printed, "day-1 is job 48211: armature-runs/day-1\n");
    assert_eq!(home.read("asked"), "--parsable armature-runs/day-1/job.sh\n");
    assert_eq!(home.read("words"), "one\0--two\0");
    let script = home.read("armature-runs/day-1/job.sh");
    assert_eq!(home.read("tested"), script);
    let run: serde_json::Value = serde_json::from_str(&home.read("armature-runs/day-1/run.json")).unwrap();
    assert_eq!(run["batch"]["job"], "48211");
    assert!(run["options"].as_array().unwrap().iter().any(|option| option == "--time=02:00:00"), "{run}");
    let why: serde_json::Value =
        serde_json::from_str(&home.read("armature-runs/day-1/attempts/1/why.json")).unwrap();
    assert_eq!(why["reason"], "finished", "{}", home.read("output"));
    assert_eq!(home.armature(&["status", "48211"]).status.code(), Some(0));
    assert!(
        home.submit(&["--name", "day", "-n", "1", "--after", "day-1", "--dry-run", "app"], 0)
            .contains("afterok:48211")
    );
}

#[test]
fn elements_of_an_array_are_runs_of_their_own() {
    let home = Home::new("work");
    home.script(
        "sbatch",
        r#"if [ "$1" = --test-only ]; then exit 0; fi
for n in 2 4; do
  SLURM_JOB_ID=48211 SLURM_ARRAY_JOB_ID=48211 SLURM_ARRAY_TASK_ID=$n SLURM_JOB_END_TIME=4000000000 /bin/bash "$2" >>armature-runs/day-1.$n-1/log 2>&1
done
echo 48211"#,
    );
    home.script("app", "echo \"element $SLURM_ARRAY_TASK_ID\"; [ \"$SLURM_ARRAY_TASK_ID\" = 2 ]");
    home.submit(&["--name", "day", "-n", "1", "--array", "2-6:2%2", "app"], 0);
    home.script("squeue", "echo '48211_6|PENDING|N/A|N/A|(JobArrayTaskLimit)|day-1'");
    let status = |args: &[&str], code: i32| {
        let output = home.armature(&[&["status"], args].concat());
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{printed}");
        printed
    };
    let printed = status(&[], 3);
    let words: Vec<&str> = printed.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(words, ["finished", "failed", "waiting"], "{printed}");
    assert_eq!(status(&["--all"], 0), printed);
    status(&["day-1.2-1"], 0);
    assert!(status(&["48211_6"], 3).contains("JobArrayTaskLimit"));
    let logs = home.armature(&["logs", "day-1.2-1"]);
    assert!(String::from_utf8_lossy(&logs.stdout).ends_with("===\nelement 2\n"), "{logs:?}");
    let printed = home.armature(&["logs", "day"]);
    assert!(
        String::from_utf8_lossy(&printed.stderr).contains("name one of its elements, such as day-1.2-1"),
        "{printed:?}"
    );
    home.script("scancel", "echo \"$@\" >cancelled");
    assert_eq!(home.armature(&["cancel", "day"]).status.code(), Some(0));
    assert_eq!(home.read("cancelled"), "48211\n");
    home.script("squeue", "exit 0");
    home.script("sacct", "echo CANCELLED");
    status(&["day"], 1);
    assert_eq!(home.armature(&["cancel", "day"]).status.code(), Some(3));
    home.script("sbatch", "[ \"$1\" = --test-only ] && exit 0; exit 1");
    home.submit(&["--name", "none", "-n", "1", "--array", "1-3", "app"], 3);
    assert_eq!(std::fs::read_dir(home.path("armature-runs")).unwrap().count(), 5, "four runs and `last`");
    home.submit(&["-n", "1", "--array", "3-1", "app"], 2);
}

#[test]
fn time_for_a_stop_follows_from_the_site_and_from_earlier_runs() {
    let home = Home::new("work");
    home.script("sbatch", "[ \"$1\" = --test-only ] || echo 7");
    home.script(
        "scontrol",
        r#"if [ "$2" = config ]; then echo 'KillWait = 30 sec'; echo 'PreemptType = preempt/partition_prio'; exit; fi
echo 'PartitionName=low Default=YES GraceTime=60 PriorityTier=1 PreemptMode=REQUEUE'
echo 'PartitionName=high Default=NO GraceTime=0 PriorityTier=9 PreemptMode=OFF'"#,
    );
    let submit = |args: &[&str]| home.submit(&[&["--name", "day", "-n", "1"], args, &["app"]].concat(), 0);
    let printed = submit(&["--time", "2h"]);
    assert!(
        printed.contains("jobs of partition low may be preempted, and then have 90 s to stop"),
        "{printed}"
    );
    assert!(home.read("armature-runs/day-1/job.sh").contains("--signal=B:USR1@120\n"));
    assert!(!submit(&["-p", "high"]).contains("preempted"));
    // Record of an earlier run, which took about 100 s to stop at a checkpoint.
    fs::create_dir_all(home.path("armature-runs/day-1/attempts/1")).unwrap();
    let why = r#"{"schema":1,"reason":"stopped","detail":"","code":85,"stopped":true,"done":1,"seconds":9.0,"ended":"","stop_seconds":99.5}"#;
    fs::write(home.path("armature-runs/day-1/attempts/1/why.json"), why).unwrap();
    let printed = submit(&["--time", "2h"]);
    assert!(
        printed.contains("a stop of an earlier run took 100 s, but Slurm gives a job of partition low"),
        "{printed}"
    );
    assert!(home.read("armature-runs/day-3/job.sh").contains("--signal=B:USR1@200\n"));
    let printed = submit(&["-p", "high", "--time", "2h", "--warn", "60s"]);
    assert!(printed.contains("took 100 s, but Slurm ends the job 60 s after the warning"), "{printed}");
    assert!(!home.submit(&["--name", "night", "-n", "1", "app"], 0).contains("took 100 s"));
}

#[test]
fn refused_job_leaves_no_files() {
    let home = Home::new("work");
    home.script("sbatch", "echo 'sbatch: error: invalid partition specified: nowhere' >&2; exit 1");
    let printed = home.submit(&["-n", "1", "-p", "nowhere", "app"], 3);
    assert_eq!(
        printed,
        "armature: sbatch has refused: sbatch: error: invalid partition specified: nowhere\n"
    );
    home.script("sbatch", "[ \"$1\" = --test-only ] && exit 0; echo 'sbatch: error: job limit' >&2; exit 1");
    assert!(home.submit(&["-n", "1", "app"], 3).contains("job limit"));
    home.script("sbatch", "exit 0");
    assert!(home.submit(&["-n", "1", "app"], 3).contains("it has printed no job number"));
    fs::remove_file(home.dir.path().join("bin/sbatch")).unwrap();
    assert_eq!(home.files(), [""; 0]);
}

#[test]
fn dry_run_prints_the_script_and_writes_nothing() {
    let home = Home::new("work");
    let printed = home
        .submit(&["--batch", "slurm", "--dry-run", "-n", "8", "-N", "2", "-c", "4", "--recover", "app"], 0);
    let expected = [
        "--job-name=app-1",
        "--nodes=2",
        "--ntasks=8",
        "--cpus-per-task=4",
        "--open-mode=append",
        "--no-kill",
    ];
    for directive in expected {
        assert!(printed.contains(&format!("\n#SBATCH {directive}\n")), "{directive}\n{printed}");
    }
    assert!(printed.ends_with(" run --run app-1 -n 8 --recover -- app\n"), "{printed}");
    for system in ["pbs", "sge"] {
        let printed = home.submit(&["--batch", system, "--dry-run", "-n", "8", "app"], 0);
        assert!(printed.contains("has not been tried"), "{printed}");
        assert!(home.submit(&["--batch", system, "-n", "8", "app"], 2).contains("works with Slurm only"));
        home.submit(&["--batch", system, "--dry-run", "-n", "8", "--requeue", "1", "app"], 2);
    }
    let printed = home.submit(&["--batch", "slurm", "--dry-run", "-n", "1", "--array", "1-8%2", "app"], 0);
    assert!(printed.contains("--array=1-8%2") && printed.contains("/app-1.%a-1/log\n"), "{printed}");
    assert!(printed.ends_with(" run --run \"app-1.$SLURM_ARRAY_TASK_ID-1\" -n 1 -- app\n"), "{printed}");
    assert_eq!(home.files(), [""; 0]);
}

#[test]
fn unusable_options_are_refused_before_submission() {
    let home = Home::new("work");
    home.script("sbatch", ": >asked");
    let wrong: [&[&str]; 20] = [
        &["app"],
        &["-n", "0", "app"],
        &["-n", "1", "--time", "soon", "app"],
        &["-n", "1", "--time", "1m", "--warn", "1m", "app"],
        &["-n", "1", "--warn", "1h", "app"],
        &["-n", "1", "--mem-per-rank", "400", "app"],
        &["-n", "9", "-N", "2", "--ranks-per-node", "4", "app"],
        &["-n", "1", "--partition", "a\n#SBATCH --wrap=id", "app"],
        &["-n", "1", "--account", "$(touch hacked)", "app"],
        &["-n", "1", "--option", "qos", "app"],
        &["-n", "1", "--option", "--comment='x'", "app"],
        &["-n", "1", "--array", "1-x", "app"],
        &["-n", "1", "--module", "a;touch hacked", "app"],
        &["-n", "1", "--env", "touch hacked", "app"],
        &["-n", "1", "--env", "A B=1", "app"],
        &["-n", "1", "--name", "$(touch hacked)", "app"],
        &["-n", "1", "--after", "no-such-run", "app"],
        &["-n", "1", "app", ":"],
        &["-n", "1", "--walltime", "1h", "app"],
        &["-n", "1"],
    ];
    for args in wrong {
        home.submit(args, 2);
    }
    home.submit(&["-n", "1", "no-such-program"], 127);
    fs::remove_file(home.dir.path().join("bin/sbatch")).unwrap();
    assert_eq!(home.files(), [""; 0]);
}

#[test]
fn without_a_batch_system_the_exit_code_is_4() {
    let home = Home::new("work");
    let mut command = Command::new(env!("CARGO_BIN_EXE_armature"));
    let args = ["submit", "-n", "1", "app"];
    let output = command.args(args).env_clear().env("PATH", home.dir.path().join("bin")).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        printed,
        "armature: there is no sbatch in the PATH: run this command on a login node of the cluster\n"
    );
}

/// Characters that are special in a shell must reach the program unchanged.
#[test]
fn user_text_is_never_executed() {
    let texts = [
        "$(touch hacked)",
        "`touch hacked`",
        "'; touch hacked; '",
        "\"; touch hacked; \"",
        "a\ntouch hacked\n",
        "\n#SBATCH --wrap=id",
        "\\",
        "$HOME",
        "*",
        "",
        "--",
        "-n",
    ];
    for (n, name) in ["work", "a b'c\"$(touch hacked)", "a\nb"].into_iter().enumerate() {
        let home = Home::new(name);
        home.script("sbatch", RUNS);
        let value = format!("VALUE={}", texts.concat());
        let args = [&["--name", "day", "-n", "1", "--env", &value, "--", "app"][..], &texts].concat();
        home.submit(&args, 0);
        let words = home.read("words");
        assert_eq!(words.split_terminator('\0').collect::<Vec<_>>(), texts, "{n}: {}", home.read("output"));
        assert_eq!(home.read("value"), texts.concat());
        assert_eq!(home.files(), ["armature-runs", "asked", "output", "tested", "value", "words"]);
    }
}
