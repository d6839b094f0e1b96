//! Tests of the `armature` command with launchers that only print their arguments, and with real launchers.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Directory with a shell script that takes the place of the launcher `name`.
fn launcher(name: &str, script: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// Runs `armature run` outside of any batch job; it finds only the programs in the directory `launchers`.
fn armature(launchers: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_armature"));
    command.arg("run").args(args).env_clear().env("PATH", launchers).current_dir(launchers);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn expect_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn exit_code_and_the_output_pass_through() {
    let dir = launcher("mpirun.mpich", "printf '%s ' \"$@\"; exit 7");
    let output =
        armature(dir.path(), &["-n", "3", "--bind", "none", "/bin/sh", "-c", "true"]).output().unwrap();
    expect_code(&output, 7);
    let words = "-n 3 -bind-to none /bin/sh -c exec \"$0\" \"$@\" </dev/null /bin/sh -c true ";
    assert_eq!(text(&output.stdout), words);
}

#[test]
fn version_names_the_installed_mpi() {
    let dir = launcher("mpirun", "echo 'Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307'");
    let printed = |option: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_armature"));
        let output = command.arg(option).env_clear().env("PATH", dir.path()).output().unwrap();
        expect_code(&output, 0);
        text(&output.stdout)
    };
    let version = concat!("armature ", env!("CARGO_PKG_VERSION"));
    for option in ["--version", "-V"] {
        let mpirun = dir.path().join("mpirun");
        assert_eq!(printed(option), format!("{version}\nIntel MPI 2021.9 ({})\n", mpirun.display()));
    }
    fs::rename(dir.path().join("mpirun"), dir.path().join("mpirun.openmpi")).unwrap();
    let script = "#!/bin/sh\necho 'mpirun.openmpi (OpenRTE) 4.1.4'\necho 'Report bugs'\n";
    fs::write(dir.path().join("mpirun.openmpi"), script).unwrap();
    assert!(printed("-V").contains("\nOpen MPI 4.1.4 (/"), "{}", printed("-V"));
    fs::remove_file(dir.path().join("mpirun.openmpi")).unwrap();
    assert_eq!(printed("-V"), format!("{version}\nno MPI: the PATH has no mpirun\n"));
}

#[test]
fn command_line_variables_do_not_override_the_environment() {
    let dir = launcher("srun", "echo \"$SLURM_PMIX_FENCE\"");
    let slurm = || {
        let mut command = armature(dir.path(), &["--mpi", "openmpi", "-n", "2", "/bin/sh"]);
        command.env("SLURM_JOB_ID", "7");
        command
    };
    assert_eq!(text(&slurm().output().unwrap().stdout), "ring\n");
    assert_eq!(text(&slurm().env("SLURM_PMIX_FENCE", "tree").output().unwrap().stdout), "tree\n");
}

/// The reader of the messages may end, as in `2>&1 | head`; `armature run` must then continue to supervise the job.
#[test]
fn closed_stderr_does_not_end_supervision() {
    let dir = launcher("mpirun.mpich", "exit 7");
    let (_, left) = std::io::pipe().unwrap();
    let args = ["--verbose", "--restarts", "1", "-n", "1", "/bin/sh"];
    expect_code(&armature(dir.path(), &args).stderr(left).output().unwrap(), 7);
}

#[test]
fn launcher_killed_by_a_signal_gives_exit_code_128_plus_signal() {
    let dir = launcher("mpirun.mpich", "kill -9 $$");
    expect_code(&armature(dir.path(), &["-n", "1", "/bin/sh"]).output().unwrap(), 137);
}

/// Ranks of a killed `mpirun` live for a moment, and lock files that a restarted job needs.
#[test]
fn ranks_left_by_a_killed_launcher_are_awaited() {
    for more in [&[][..], &["--job-status", "status"]] {
        let rank = "(/bin/sleep 0.5; : >done) &";
        let dir = launcher("mpirun.mpich", &format!("{rank} echo $$ >new; /bin/mv new ready; wait"));
        let args = [more, &["-n", "1", "/bin/sh"]].concat();
        let mut command = armature(dir.path(), &args);
        let child = command.current_dir(dir.path()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for("the launcher starts", || dir.path().join("ready").exists());
        let number = fs::read_to_string(dir.path().join("ready")).unwrap();
        let launcher = rustix::process::Pid::from_raw(number.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(launcher, rustix::process::Signal::KILL).unwrap();
        let output = child.wait_with_output().unwrap();
        expect_code(&output, 137);
        assert!(dir.path().join("done").exists(), "{more:?}");
        let printed = text(&output.stderr);
        let expected = "the launcher was ended by signal 9; the processes that it had started have ended";
        assert!(printed.contains(expected), "{printed}");
    }
}

#[test]
fn temporary_hostfile_is_plain_and_removed_afterwards() {
    let dir = launcher("mpirun.mpich", "echo \"$4\"; /bin/cat \"$4\"");
    let hosts = dir.path().join("hosts");
    fs::write(&hosts, "node01 slots=4 speed=2.5 memory=64GiB # fast\nnode02 slots=2\n").unwrap();
    let output = armature(dir.path(), &["--hostfile", hosts.to_str().unwrap(), "/bin/sh"]).output().unwrap();
    expect_code(&output, 0);
    let printed = text(&output.stdout);
    let (file, content) = printed.split_once('\n').unwrap();
    assert_eq!(content, "node01:4\nnode02:2\n");
    assert!(file.contains("armature-hosts-") && !Path::new(file).exists(), "{file}");
}

#[test]
fn malformed_hostfile_is_refused_with_its_line() {
    let dir = launcher("mpirun.mpich", "echo started");
    let hosts = dir.path().join("hosts");
    fs::write(&hosts, "node01\nnode02 speed=0\n").unwrap();
    let output = armature(dir.path(), &["--hostfile", hosts.to_str().unwrap(), "/bin/sh"]).output().unwrap();
    expect_code(&output, 2);
    let printed = text(&output.stderr);
    assert!(printed.contains("hosts:2: `speed=0`: expected speed=S with S a number above 0"), "{printed}");
    assert_eq!(text(&output.stdout), "");
}

/// Opening a FIFO blocks until a writer opens it, so that `armature run` must refuse one without opening it.
#[test]
fn fifos_and_devices_are_refused_without_blocking() {
    let dir = launcher("mpirun.mpich", "echo started");
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo = fifo.to_str().unwrap();
    for (option, file, what, code) in [
        ("--hostfile", fifo, "a FIFO", 2),
        ("--hostfile", "/dev/null", "a character device", 2),
        ("--job-status", fifo, "a FIFO", 1),
        // A status that is written to `/dev/null` cannot be read back.
        ("--job-status", "/dev/null", "a character device", 1),
    ] {
        let output = armature(dir.path(), &[option, file, "/bin/sh"]).output().unwrap();
        expect_code(&output, code);
        let printed = text(&output.stderr);
        assert!(printed.contains(&format!("{file}: is {what}, expected a regular file")), "{printed}");
        assert_eq!(text(&output.stdout), "");
    }
    assert!(!Path::new("/dev/null").is_file());
}

#[test]
fn dry_run_starts_nothing() {
    let dir = launcher("mpirun.openmpi", "echo started");
    let hosts = dir.path().join("hosts");
    fs::write(&hosts, "node01 slots=2\n").unwrap();
    let args = ["--dry-run", "--hostfile", hosts.to_str().unwrap(), "-n", "4", "/bin/sh"];
    let output = armature(dir.path(), &args).output().unwrap();
    expect_code(&output, 0);
    let printed = text(&output.stdout);
    assert!(printed.starts_with("# hosts:\n#   node01 slots=2\n"), "{printed}");
    assert!(printed.contains(" -n 4 --hostfile hosts --oversubscribe --bind-to none /bin/sh\n"), "{printed}");
    // A reader that closes the pipe, as in `armature run --dry-run … | head`, is not an error; a full disk is one.
    let (_, left) = std::io::pipe().unwrap();
    expect_code(&armature(dir.path(), &args).stdout(left).output().unwrap(), 0);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = armature(dir.path(), &args).stdout(full).output().unwrap();
    expect_code(&output, 1);
    assert!(text(&output.stderr).contains("No space left on device"), "{}", text(&output.stderr));
}

#[test]
fn time_limit_ends_the_job() {
    let dir = launcher("mpirun.mpich", "trap 'echo signalled; kill $!; exit 0' TERM; /bin/sleep 60 & wait");
    let start = Instant::now();
    let mut command = armature(dir.path(), &["--timeout", "0.5s", "/bin/sh"]);
    let printed = dir.path().join("printed");
    command
        .stdout(fs::File::create(&printed).unwrap())
        .stderr(fs::File::create(dir.path().join("errors")).unwrap());
    assert_eq!(command.status().unwrap().code(), Some(124));
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(fs::read_to_string(printed).unwrap(), "signalled\n");
    assert!(fs::read_to_string(dir.path().join("errors")).unwrap().contains("has not ended within 0.5 s"));
}

#[track_caller]
fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}: not yet");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn signals_are_forwarded_to_the_launcher() {
    let dir = launcher("mpirun.mpich", "trap 'exit 31' USR1; : >ready; while :; do /bin/sleep 0.05; done");
    let mut child = armature(dir.path(), &["/bin/sh"]).current_dir(dir.path()).spawn().unwrap();
    wait_for("the launcher starts", || dir.path().join("ready").exists());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(31));
}

/// `armature run` cannot forward SIGKILL, so that the kernel must send a signal to the launcher (`PR_SET_PDEATHSIG`).
#[test]
fn launcher_receives_sigterm_when_the_command_is_killed() {
    let script = "trap ': >signalled; exit 0' TERM; : >ready; while :; do /bin/sleep 0.05; done";
    for more in [&[][..], &["--restarts", "2"]] {
        let dir = launcher("mpirun.mpich", script);
        let args = [more, &["/bin/sh"]].concat();
        let mut child = armature(dir.path(), &args).current_dir(dir.path()).spawn().unwrap();
        wait_for("the launcher starts", || dir.path().join("ready").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        wait_for("the launcher has received the signal", || dir.path().join("signalled").exists());
    }
}

#[test]
fn ranks_end_when_the_command_is_killed() {
    for (mpi, more) in [("openmpi", &[][..]), ("openmpi", &["--recover"]), ("mpich", &[])] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_armature"));
        let rank = "echo $$ >new.$$; mv new.$$ pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec sleep 60";
        command.args(["run", "--mpi", mpi, "-n", "2"]).args(more).args(["/bin/sh", "-c", rank]);
        let mut child = without_settings(command.current_dir(dir.path())).spawn().unwrap();
        let rank = |rank: usize| fs::read_to_string(dir.path().join(format!("pid.{rank}"))).ok();
        wait_for("the ranks start", || rank(0).is_some() && rank(1).is_some());
        let ranks = [rank(0).unwrap(), rank(1).unwrap()];
        child.kill().unwrap();
        child.wait().unwrap();
        let lives = |rank: &String| {
            let command = fs::read(format!("/proc/{}/cmdline", rank.trim())).unwrap_or_default();
            command.starts_with(b"sleep\0")
        };
        wait_for(&format!("ranks of {mpi} {more:?} end"), || !ranks.iter().any(lives));
    }
}

/// In a `while read` loop of a shell script, `armature run` must not consume the input of the loop.
#[test]
fn standard_input_is_read_only_on_request() {
    let dir = launcher("mpirun.mpich", "while read -r line; do echo \"launcher: $line\"; done");
    let lines = dir.path().join("list");
    fs::write(&lines, "a\nb\nc\n").unwrap();
    let script = |stdin: &str| {
        let run = format!("'{}' run {stdin} -n 1 /bin/sh", env!("CARGO_BIN_EXE_armature"));
        let list = lines.display();
        let script = format!("while read -r x; do echo \"loop: $x\"; {run} || exit; done <'{list}'");
        let mut command = Command::new("/bin/sh");
        let output = command.args(["-c", &script]).env_clear().env("PATH", dir.path()).output().unwrap();
        expect_code(&output, 0);
        text(&output.stdout)
    };
    assert_eq!(script(""), "loop: a\nloop: b\nloop: c\n");
    assert_eq!(script("--stdin"), "loop: a\nlauncher: b\nlauncher: c\n");
}

/// MPICH's launcher forwards the end of its input, and it fails if rank 0 ends at that moment.
#[test]
fn input_of_mpich_does_not_end() {
    let dir = launcher("mpirun.mpich", "if /bin/cat 2>/dev/null; then echo end; else echo unreadable; fi");
    let output = armature(dir.path(), &["-n", "1", "/bin/sh"]).output().unwrap();
    assert_eq!(text(&output.stdout), "unreadable\n");
}

#[test]
fn rank_0_reads_standard_input_on_request() {
    for mpi in ["openmpi", "mpich"] {
        for (stdin, expected) in [(&[][..], ""), (&["--stdin"], "hello")] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_armature"));
            command.args(["run", "--mpi", mpi, "-n", "1"]).args(stdin).arg("/bin/cat");
            let child = without_settings(&mut command).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut child = child.unwrap();
            // Writing to the standard input fails if the job has ended without reading it.
            let _ = child.stdin.take().unwrap().write_all(b"hello");
            let output = child.wait_with_output().unwrap();
            expect_code(&output, 0);
            assert_eq!(text(&output.stdout), expected, "{mpi} {stdin:?}");
        }
    }
}

#[test]
fn second_program_is_refused_before_anything_is_started() {
    let dir = launcher("mpirun.mpich", "echo started");
    for args in [&["-n", "2", "/bin/sh", ":", "/bin/true"][..], &["-n", "2", "--", "/bin/sh", "x", ":"]] {
        let output = armature(dir.path(), args).output().unwrap();
        expect_code(&output, 2);
        assert!(text(&output.stderr).contains("an argument is `:`"), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn unneeded_pbs_node_file_is_not_read() {
    let dir = launcher("mpirun.mpich", "printf '%s ' \"$@\"");
    let hosts = dir.path().join("hosts");
    fs::write(&hosts, "node01 slots=4\n").unwrap();
    let with = |file: &str, args: &[&str]| {
        let output = armature(dir.path(), &[args, &["/bin/sh"]].concat()).env("PBS_NODEFILE", file).output();
        output.unwrap()
    };
    let empty = dir.path().join("empty");
    fs::write(&empty, "").unwrap();
    for file in ["/nowhere", empty.to_str().unwrap()] {
        let output = with(file, &["--hostfile", hosts.to_str().unwrap()]);
        expect_code(&output, 0);
        assert_eq!(text(&output.stderr), "");
        let output = with(file, &["-n", "2"]);
        expect_code(&output, 0);
        assert!(text(&output.stdout).starts_with("-n 2 "), "{}", text(&output.stdout));
        let printed = text(&output.stderr);
        assert!(
            printed.contains("PBS_NODEFILE of the batch job: ") && printed.contains("on this machine"),
            "{printed}"
        );
        let output = with(file, &[]);
        expect_code(&output, 2);
        assert!(text(&output.stderr).contains("PBS_NODEFILE of the batch job: "), "{}", text(&output.stderr));
    }
    let output = with("", &[]);
    expect_code(&output, 0);
    assert_eq!(text(&output.stderr), "");
}

/// By default, Open MPI takes host names that differ only after the first dot for one host with two numbers of slots, and refuses them.
#[test]
fn open_mpi_accepts_host_names_that_differ_only_after_a_dot() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    fs::write(&hosts, "mpi-worker.1.foo.net slots=2\nmpi-worker.2.foo.net slots=2\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_armature"));
    command.args(["run", "--timeout", "30s", "--mpi", "openmpi", "--hostfile", hosts.to_str().unwrap()]);
    // The hosts do not exist. A failing program replaces the remote shell, so that nothing tries to connect to them.
    let output =
        without_settings(command.arg("/bin/true")).env("OMPI_MCA_plm_rsh_agent", "/bin/false").output();
    let printed = text(&output.unwrap().stderr);
    assert!(!printed.contains("multiple definitions"), "{printed}");
    assert!(printed.contains("unable to reliably start one or more daemons"), "{printed}");
}

#[test]
fn missing_program_gives_exit_code_127() {
    let none = tempfile::tempdir().unwrap();
    let output = armature(none.path(), &["no-such-program"]).output().unwrap();
    expect_code(&output, 127);
    assert!(text(&output.stderr).contains("`no-such-program`"), "{}", text(&output.stderr));
}

/// Removes variables of the MPI library and the batch system that run this test, which would influence the choice of the launcher.
fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["OMPI_", "PMI", "SLURM_", "PBS_", "PE_HOSTFILE"].iter().any(|start| name.starts_with(start)) {
            command.env_remove(name);
        }
    }
    command
}

fn for_real(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_armature"));
    without_settings(command.args(["run", "--timeout", "60s"]).args(args)).output().unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn open_mpi_starts_more_ranks_than_there_are_cores() {
    // Ranks wait a second after their output, because the launcher ends all of them when one exits with an error.
    let script = "echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE; sleep 1; exit 3";
    let output = for_real(&["--mpi", "openmpi", "-n", "5", "/bin/sh", "-c", script]);
    expect_code(&output, 3);
    assert_eq!(lines(&output), ["0 of 5", "1 of 5", "2 of 5", "3 of 5", "4 of 5"]);
}

#[test]
fn mpich_starts_more_ranks_than_there_are_cores() {
    let script = "echo $PMI_RANK of $PMI_SIZE; sleep 1; exit 3";
    let output = for_real(&["--mpi", "mpich", "-n", "5", "/bin/sh", "-c", script]);
    expect_code(&output, 3);
    let ranks = lines(&output).into_iter().filter(|line| line.ends_with(" of 5")).collect::<Vec<_>>();
    assert_eq!(ranks, ["0 of 5", "1 of 5", "2 of 5", "3 of 5", "4 of 5"]);
}

#[test]
fn hostfile_of_this_machine_works_with_open_mpi_and_mpich() {
    let hosts = samples().join("local.hosts");
    for mpi in ["openmpi", "mpich"] {
        let args = ["--mpi", mpi, "--hostfile", hosts.to_str().unwrap(), "/bin/sh", "-c", "echo rank"];
        let output = for_real(&args);
        expect_code(&output, 0);
        assert_eq!(lines(&output), ["rank", "rank"], "{mpi}");
    }
}

fn samples() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../hostfiles")
}

#[test]
fn every_sample_hostfile_is_accepted() {
    let dir = launcher("mpirun.openmpi", "echo started");
    let mut ranks = Vec::new();
    for name in ["local", "mpich", "openmpi", "unequal"] {
        let hosts = samples().join(format!("{name}.hosts"));
        let output = armature(dir.path(), &["--dry-run", "--hostfile", hosts.to_str().unwrap(), "/bin/sh"])
            .output()
            .unwrap();
        expect_code(&output, 0);
        let printed = text(&output.stdout);
        let words: Vec<&str> = printed.lines().last().unwrap().split(' ').collect();
        let n = words.iter().position(|word| *word == "-n").unwrap();
        ranks.push((name, words[n + 1].to_owned()));
    }
    let expected = [("local", "2"), ("mpich", "10"), ("openmpi", "10"), ("unequal", "18")];
    assert_eq!(ranks, expected.map(|(name, n)| (name, n.to_owned())));
}
