//! Tests of starters (processes that run commands) with real commands: limits, signals, orphaned processes, output,
//! and the death of each process involved.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use armature_commands::{
    CommandStatus, Destination, Ended, ErrorKind, Event, Input, Options, OutputKey, OutputLog, Program,
    Request, StandardStream, Starter, Stopped,
};
use rustix::process::{Pid, Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-commands");
/// Time after which a command counts as hanging, long enough for a slow machine.
const LIMIT: Duration = Duration::from_secs(60);
const MB: u64 = 1_000_000;

fn starter(options: &Options) -> Starter {
    Starter::spawn_program(PROGRAM.as_ref(), options).unwrap()
}

fn shell(id: u64, line: impl Into<std::ffi::OsString>) -> Request {
    Request::new(id, Program::shell(line))
}

fn run_all(starter: &mut Starter, requests: Vec<Request>) -> BTreeMap<u64, Ended> {
    let count = requests.len();
    requests.into_iter().for_each(|request| starter.run(request).unwrap());
    ended(starter, count)
}

fn ended(starter: &mut Starter, count: usize) -> BTreeMap<u64, Ended> {
    let (mut all, start) = (BTreeMap::new(), Instant::now());
    while all.len() < count {
        assert!(start.elapsed() < LIMIT, "{} of {count} have ended", all.len());
        for event in starter.events(LIMIT).unwrap() {
            if let Event::Ended { id, ended } = event {
                assert!(all.insert(id, ended).is_none(), "{id} ended twice");
            }
        }
    }
    all
}

fn run(starter: &mut Starter, request: Request) -> Ended {
    run_all(starter, vec![request]).into_values().next().unwrap()
}

/// Returns a unique number of seconds. A test runs `sleep` with this number to find the process again.
fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("1{:07}.{:04}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn sleepers(seconds: &str) -> Vec<Pid> {
    let is_one = |pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line == format!("sleep\0{seconds}\0").as_bytes())
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    all.filter(is_one).filter_map(Pid::from_raw).collect()
}

#[track_caller]
fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn parent(pid: Pid) -> Pid {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    let parent = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap();
    Pid::from_raw(parent.parse().unwrap()).unwrap()
}

fn output(path: &Path, id: u64, stream: StandardStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let log = OutputLog::read(path).unwrap();
    log.copy(OutputKey { id, attempt: 1 }, stream, &mut bytes).unwrap();
    bytes
}

#[test]
fn exit_codes_signals_and_start_failures_are_reported() {
    let mut starter = starter(&Options::new().cores(4));
    let mut nowhere = shell(5, "true");
    nowhere.directory = Some("/nonexistent".into());
    let mut unread = shell(6, "true");
    unread.stdin = Input::File("/nonexistent".into());
    let requests = vec![
        Request::new(1, Program::new("true", [""; 0])),
        shell(2, "exit 3"),
        shell(3, "kill -9 $$"),
        Request::new(4, Program::new("no-such-program", [""; 0])),
        nowhere,
        unread,
        Request::new(7, Program::new("/no/such", [""; 0])),
    ];
    let ended = run_all(&mut starter, requests);
    assert!(ended[&1].is_success() && !ended[&2].is_success());
    assert_eq!(
        (&ended[&2].outcome, &ended[&3].outcome),
        (&CommandStatus::Exited(3), &CommandStatus::Signalled(9))
    );
    let why = |id| match &ended[&id].outcome {
        CommandStatus::NotStarted(why) => why.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(why(4), "there is no program \"no-such-program\" in the PATH");
    assert_eq!(why(5), "there is no directory /nonexistent");
    assert!(why(6).starts_with("standard input /nonexistent: No such file"), "{}", why(6));
    assert!(why(7).starts_with("cannot start \"/no/such\": No such file"), "{}", why(7));
    starter.close().unwrap();
}

#[test]
fn command_gets_directory_variables_input_and_files() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut starter = starter(&Options::new().output(&log));
    let mut request = shell(1, "pwd; echo \"$A\" >&2; cat > here");
    request.directory = Some(dir.path().into());
    request.environment.push(("A".into(), "a=\u{e4}".into()));
    request.stdin = Input::Bytes(b"\0\xff".repeat(100_000));
    request.stderr = Destination::File(dir.path().join("err"));
    let mut again = shell(2, "cat");
    again.stdin = Input::File(dir.path().join("here"));
    again.stdout = Destination::Nowhere;
    let ended = run_all(&mut starter, vec![request, again]);
    assert!(ended.values().all(Ended::is_success), "{ended:?}");
    assert_eq!(output(&log, 1, StandardStream::Stdout), format!("{}\n", dir.path().display()).as_bytes());
    assert_eq!(fs::read_to_string(dir.path().join("err")).unwrap(), "a=\u{e4}\n");
    assert_eq!(fs::read(dir.path().join("here")).unwrap(), b"\0\xff".repeat(100_000));
    assert_eq!(OutputLog::read(&log).unwrap().keys().count(), 1);
}

#[test]
fn time_limit_ends_a_command_with_all_its_descendants() {
    let mut starter = starter(&Options::new().cores(3).grace(Duration::from_millis(200)));
    let (polite, deaf, distant) = (unique(), unique(), unique());
    let mut requests = vec![
        shell(1, format!("sleep {polite}; :")),
        shell(2, format!("trap '' TERM; while :; do sleep {deaf}; done")),
        // One process of this command has its own session and an empty environment, and its parent has ended.
        shell(3, format!("(setsid sh -c 'env -i sleep {distant} &' &); setsid sleep {distant}; :")),
    ];
    requests.iter_mut().for_each(|request| request.time_limit = Some(Duration::from_millis(300)));
    let ended = run_all(&mut starter, requests);
    for ended in ended.values() {
        assert_eq!(ended.stopped, Some(Stopped::TimeLimit));
        assert!(ended.run_time >= Duration::from_millis(300));
    }
    assert_eq!(
        (&ended[&1].outcome, &ended[&2].outcome),
        (&CommandStatus::Signalled(15), &CommandStatus::Signalled(9))
    );
    for seconds in [&polite, &deaf] {
        assert_eq!(sleepers(seconds), [], "left behind by {ended:?}");
    }
    // Neither the process group nor the environment of the process that sleeps for `distant` seconds identifies its
    // command, so the starter kills it when no command runs.
    wait_until("sleepers are left", || sleepers(&distant).is_empty());
}

#[test]
fn processes_left_by_a_command_end_with_the_command() {
    let mut starter = starter(&Options::new().cores(2));
    let (other, left) = (unique(), unique());
    let lines = [
        format!("sleep {left} & :"),
        format!("(setsid sleep {left} &) ; :"),
        format!(
            "setsid sh -c 'setsid sh -c \"sleep {left} & sleep {left} & wait\" & wait' & while ! [ -e $F ]; do sleep 0.01; done"
        ),
    ];
    starter.run(shell(99, format!("(setsid sleep {other} &); sleep {other}"))).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let flag = dir.path().join("flag");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("it has started the others", || sleepers(&left).len() >= 2);
            fs::write(&flag, "").unwrap();
        });
        for (id, line) in lines.iter().enumerate() {
            let mut request = shell(id as u64, line);
            request.environment.push(("F".into(), flag.clone().into()));
            // The first two commands leave a `sleep` process running and end at once. The third starts two more and
            // ends when they run.
            assert!(run(&mut starter, request).is_success());
            assert_eq!(sleepers(&left), [], "left behind by {line}");
        }
    });
    wait_until("the other command has been touched", || sleepers(&other).len() == 2);
    starter.close().unwrap();
    assert_eq!(sleepers(&other), []);
}

#[test]
fn memory_of_the_process_tree_is_measured_and_limited() {
    let mut starter = starter(&Options::new().cores(2));
    // `tail` stores all bytes that it may have to print, so the command uses `bytes` bytes of memory.
    let hold = |bytes: u64, seconds: &str| {
        format!("(head -c {bytes} /dev/zero; sleep {seconds}) | tail -c {bytes} > /dev/null")
    };
    let two = format!("{} & {} & wait", hold(60 * MB, "0.6"), hold(60 * MB, "0.6"));
    let ended = run(&mut starter, shell(1, &two));
    assert!((110 * MB..200 * MB).contains(&ended.peak_memory), "{ended:?}");
    let ended = run(&mut starter, shell(2, hold(50 * MB, "0")));
    assert!((45 * MB..150 * MB).contains(&ended.peak_memory), "{ended:?}");
    let mut greedy = shell(3, format!("{} & {} & wait", hold(60 * MB, "50"), hold(60 * MB, "50")));
    greedy.memory_limit = Some(100 * MB);
    let ended = run(&mut starter, greedy);
    assert_eq!(ended.stopped, Some(Stopped::MemoryLimit));
    assert!(ended.peak_memory > 100 * MB);
    assert!(ended.to_string().starts_with("ended at its memory limit, with 1"), "{ended}");
}

#[test]
fn cpu_time_includes_all_processes_of_the_command() {
    let mut starter = starter(&Options::new());
    let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let alone = run(&mut starter, shell(1, burn)).cpu_time;
    // The parent of the computing process ends, so that only the starter can measure the process's CPU time.
    let orphan = run(
        &mut starter,
        shell(
            2,
            format!("mkfifo $F; (sh -c '{burn}; echo > $F' &); read x < $F; sleep 0.2")
                .replace("$F", &fifo()),
        ),
    )
    .cpu_time;
    assert!(alone > Duration::from_millis(20) && orphan > alone / 3, "{alone:?} {orphan:?}");
}

fn fifo() -> String {
    std::env::temp_dir().join(format!("armature-fifo-{}", unique())).display().to_string()
}

#[test]
fn large_output_is_in_the_file_and_not_in_memory() {
    const BYTES: u64 = 256 << 20;
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut starter = starter(&Options::new().output(&log).cores(2));
    let many = shell(1, format!("head -c {BYTES} /dev/zero; echo end >&2"));
    starter.run(many).unwrap();
    starter.run(shell(2, "while [ -d /proc/$PPID ]; do sleep 0.01; done")).unwrap();
    let mut own = None;
    let mut has_ended = false;
    while !has_ended {
        for event in starter.events(LIMIT).unwrap() {
            match event {
                Event::Started { process, .. } => own = Pid::from_raw(process as i32).map(parent).or(own),
                Event::Ended { id, ended } => {
                    assert_eq!((id, ended.is_success(), ended.lost_output), (1, true, 0));
                    has_ended = true;
                }
            }
        }
    }
    let status = fs::read_to_string(format!("/proc/{}/status", own.unwrap().as_raw_nonzero())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 32 << 10, "the starter held {peak} kB");
    let read = OutputLog::read(&log).unwrap();
    assert_eq!(read.length(OutputKey { id: 1, attempt: 1 }, StandardStream::Stdout), BYTES);
    assert_eq!(output(&log, 1, StandardStream::Stderr), b"end\n");
}

#[test]
fn next_starter_appends_to_the_output_of_a_dead_one() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let options = Options::new().output(&log);
    let mut first = starter(&options);
    first.run(shell(1, "printf 'AOUT\\0\\377'; sleep 1000")).unwrap();
    let Event::Started { process, .. } = first.events(LIMIT).unwrap()[0] else { panic!("not started") };
    wait_until("the output is there", || !output_if_any(&log).is_empty());
    let second = starter(&options).events(LIMIT).unwrap_err();
    assert!(second.to_string().contains("another run writes to it"), "{second}");
    kill_process(parent(Pid::from_raw(process as i32).unwrap()), Signal::KILL).unwrap();
    let error = loop {
        match first.events(LIMIT) {
            Ok(events) => assert!(!events.is_empty(), "its death is not noticed"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Dead);
    let mut third = starter(&options);
    assert!(run(&mut third, shell(2, "echo two")).is_success());
    assert_eq!(output(&log, 1, StandardStream::Stdout), b"AOUT\0\xff");
    assert_eq!(output(&log, 2, StandardStream::Stdout), b"two\n");
}

fn output_if_any(log: &Path) -> Vec<u8> {
    match OutputLog::read(log) {
        Ok(_) => output(log, 1, StandardStream::Stdout),
        Err(_) => Vec::new(),
    }
}

#[test]
fn running_and_queued_commands_can_be_cancelled() {
    let mut starter = starter(&Options::new());
    let sleep = unique();
    for id in [1, 2] {
        starter.run(shell(id, format!("sleep {sleep}; :"))).unwrap();
    }
    wait_until("the first runs", || sleepers(&sleep).len() == 1);
    starter.cancel(2).unwrap();
    starter.cancel(1).unwrap();
    starter.cancel(77).unwrap();
    starter.run(shell(3, "true")).unwrap();
    let ended = ended(&mut starter, 3);
    assert_eq!(ended[&1].stopped, Some(Stopped::Cancelled));
    assert!(matches!(&ended[&2].outcome, CommandStatus::NotStarted(why) if why.contains("cancelled")));
    assert!(ended[&3].is_success());
    assert_eq!(sleepers(&sleep), []);
}

#[test]
fn concurrent_commands_do_not_exceed_the_core_count() {
    let mut starter = starter(&Options::new().cores(2));
    let mut cores = BTreeMap::new();
    for id in 0..12 {
        let mut request = shell(id, "sleep 0.02");
        request.cores = [1, 1, 2, 1, 5, 1][id as usize % 6];
        cores.insert(id, request.cores);
        starter.run(request).unwrap();
    }
    let (mut running, mut order, mut left) = (BTreeMap::new(), Vec::new(), cores.len());
    while left > 0 {
        for event in starter.events(LIMIT).unwrap() {
            match event {
                Event::Started { id, .. } => {
                    running.insert(id, cores[&id]);
                    order.push(id);
                    let used: u32 = running.values().sum();
                    assert!(used <= 2 || running.len() == 1, "{running:?}");
                }
                Event::Ended { id, ended } => {
                    assert!(ended.is_success());
                    running.remove(&id);
                    left -= 1;
                }
            }
        }
    }
    assert_eq!(order, (0..12).collect::<Vec<_>>());
}

#[test]
fn each_of_2000_commands_on_two_starters_ends_exactly_once() {
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut starter = starter(&Options::new());
                let requests = (0..1000).map(|id| Request::new(id, Program::new("/bin/true", [""; 0])));
                let ended = run_all(&mut starter, requests.collect());
                assert!(ended.values().all(Ended::is_success));
                assert!(ended.values().all(|ended| ended.peak_memory > 0));
            });
        }
    });
}

/// Starts another process, which a test can kill. It runs `lines` as commands of a starter (the process that
/// runs commands).
fn program(arguments: &[&str], lines: &str) -> std::process::Child {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child
}

#[test]
fn no_process_remains_if_caller_guard_or_starter_dies() {
    for victim in ["caller", "guard", "starter"] {
        let sleep = unique();
        let lines = format!("sleep {sleep}; :\n(setsid sleep {sleep} &) ; sleep {sleep}; :\n");
        let mut caller = program(&["-", "2"], &lines);
        wait_until("all sleep", || sleepers(&sleep).len() == 3);
        let mut pid = sleepers(&sleep)[0];
        // Ancestors of a `sleep` process, from its parent up; the last three are the starter, the guard and the caller.
        let mut up = Vec::new();
        while pid.as_raw_nonzero().get() as u32 != caller.id() {
            pid = parent(pid);
            up.push(pid);
        }
        let (guard, starter) = (up[up.len() - 2], up[up.len() - 3]);
        let killed = match victim {
            "caller" => pid,
            "guard" => guard,
            _ => starter,
        };
        kill_process(killed, Signal::KILL).unwrap();
        wait_until("sleepers are left", || sleepers(&sleep).is_empty());
        for process in [guard, starter] {
            let path = format!("/proc/{}/cmdline", process.as_raw_nonzero());
            let is_gone = || fs::read(&path).map_or(true, |line| line.is_empty());
            wait_until("the starter is left", is_gone);
        }
        assert!(!caller.wait().unwrap().success(), "{victim}");
    }
}

#[test]
fn commands_do_not_inherit_rank_variables_or_core_binding() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let lines = "env; nproc; cat /proc/self/status; :\n";
    let mut bound = Command::new("taskset");
    let unbound = Command::new("nproc").output().unwrap().stdout;
    bound.args(["-c", "0", PROGRAM]).arg(&log).stdin(Stdio::piped()).stdout(Stdio::null());
    for name in ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "SLURM_STEP_ID"] {
        bound.env(name, "3");
    }
    let mut child = bound.env("SLURM_JOB_ID", "7").spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8(output(&log, 1, StandardStream::Stdout)).unwrap();
    for start in ["OMPI_", "PMI", "SLURM_PROCID", "SLURM_STEP_ID", "ARMATURE_COMMANDS="] {
        // `OMPI_ALLOW_RUN_AS_ROOT` is a setting of the user, which commands inherit.
        let is_left = |line: &str| line.starts_with(start) && !line.starts_with("OMPI_ALLOW_RUN_AS_ROOT");
        assert!(!text.lines().any(is_left), "{start} in {text}");
    }
    assert!(text.contains("\nSLURM_JOB_ID=7\n") || text.starts_with("SLURM_JOB_ID=7\n"));
    assert!(text.contains(std::str::from_utf8(&unbound).unwrap()), "{text}");
}

#[test]
fn program_that_is_not_a_starter_is_a_start_error() {
    let error = Starter::spawn(&Options::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Start);
    let error =
        Starter::spawn_program("/bin/true".as_ref(), &Options::new()).unwrap().events(LIMIT).unwrap_err();
    assert!(error.to_string().contains("before it was ready (exit status: 0)"), "{error}");
    let error = Starter::spawn_program("/no/such".as_ref(), &Options::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Start);
}
