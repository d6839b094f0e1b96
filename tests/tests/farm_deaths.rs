//! Tests of farms whose workers are killed. Open MPI's launcher keeps the other ranks if it runs with
//! `--enable-recovery`; MPICH's launcher ends the job. Jobs that are killed as a whole are restarted and continue from
//! their journal.
//!
//! `ARMATURE_TEST_DEATHS` is the number of runs of each test (default: 2).

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use armature::observe::newest_attempt;
use armature_launch::Mpi;
use armature_tests::check::{noise, setting};
use armature_tests::mpirun::{Job, JobResult, Running, linked};
use rustix::process::{Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-cases");
const ARMATURE: &str = env!("CARGO_BIN_EXE_armature-run");

fn job(ranks: usize) -> Job {
    Job::new(PROGRAM, ranks).arg("farm-deaths").limit(Duration::from_secs(60))
}

/// Returns false for MPICH, whose launcher cannot let the other ranks continue when a rank dies.
fn launcher_keeps_other_ranks() -> bool {
    let launcher_keeps_other_ranks = linked(PROGRAM.as_ref()) == Mpi::OpenMpi;
    if !launcher_keeps_other_ranks {
        println!("MPICH's launcher ends the job when a rank dies; that it does is tested instead");
    }
    launcher_keeps_other_ranks
}

fn runs() -> u64 {
    setting("ARMATURE_TEST_DEATHS", 2).unwrap_or_else(|e| panic!("{e}")) as u64
}

/// Kills the ranks one after the other, each after a delay of up to 300 ms that depends on `seed`.
#[track_caller]
fn kill_workers(running: &Running, ranks: &[usize], seed: u64) {
    running.wait_for("farm under way");
    for (n, &rank) in ranks.iter().enumerate() {
        std::thread::sleep(Duration::from_millis(noise(seed, n as u64) % 300));
        running.kill_rank(rank);
    }
}

#[track_caller]
fn assert_completed(outcome: &JobResult, lost: &str) {
    assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    let line = format!("farm complete, lost [{lost}]");
    assert!(outcome.stdout.contains(&line), "`{line}` was not printed\n{outcome}");
}

#[test]
fn farm_completes_when_a_worker_dies() {
    for seed in 0..runs() {
        let victim = 1 + noise(11, seed) as usize % 2;
        if !launcher_keeps_other_ranks() {
            let running = job(3).start();
            kill_workers(&running, &[victim], seed);
            let outcome = running.wait();
            assert!(!outcome.status.success() && !outcome.hung, "{outcome}");
            continue;
        }
        let running = job(3).flag("--enable-recovery").start();
        kill_workers(&running, &[victim], seed);
        assert_completed(&running.wait(), &victim.to_string());
    }
}

#[test]
fn farm_completes_when_two_workers_die() {
    for seed in (0..runs()).filter(|_| launcher_keeps_other_ranks()) {
        let (first, second) = [(1, 2), (2, 3), (3, 1)][seed as usize % 3];
        let running = job(4).flag("--enable-recovery").env("ARMATURE_TEST_TASKS", "1500").start();
        kill_workers(&running, &[first, second], seed);
        let outcome = running.wait();
        let (low, high) = (first.min(second), first.max(second));
        let either = [format!("{low}, {high}"), format!("{high}, {low}")];
        let line = either.iter().find(|l| outcome.stdout.contains(&format!("lost [{l}]")));
        assert_completed(&outcome, line.unwrap_or(&either[0]));
    }
}

/// Two ranks need three seconds for each of the farm's last tasks, which idle ranks run as well. The farm must not wait for the slow ranks, even if
/// one of them is killed.
#[test]
fn farm_with_second_copies_does_not_wait_for_slow_ranks() {
    let slow = |job: Job| {
        job.env("ARMATURE_TEST_SLOW", "3000")
            .env("ARMATURE_TEST_TASKS", "400")
            .env("ARMATURE_TEST_CHUNKING", "ss")
    };
    let outcome = slow(job(4)).run();
    assert_completed(&outcome, "");
    assert!(outcome.stdout.contains(" second copies"), "{outcome}");
    if launcher_keeps_other_ranks() {
        let running = slow(job(4)).flag("--enable-recovery").start();
        kill_workers(&running, &[1], 3);
        assert_completed(&running.wait(), "1");
    }
}

/// The dead worker would have created further tasks, which other workers must create instead.
#[test]
fn search_completes_when_a_worker_dies() {
    if !launcher_keeps_other_ranks() {
        return;
    }
    let running = Job::new(PROGRAM, 3).arg("farm-deaths-in-a-tree").flag("--enable-recovery").start();
    kill_workers(&running, &[1], 5);
    assert_completed(&running.wait(), "1");
}

#[test]
fn search_resumes_from_its_journal_after_all_ranks_are_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("journal");
    let job = || {
        Job::new(PROGRAM, 3)
            .arg("farm-deaths-in-a-tree")
            .env("ARMATURE_TEST_JOURNAL", path.to_str().expect("a text"))
    };
    let running = job().start();
    running.wait_for("farm under way");
    running.kill();
    let outcome = job().run();
    assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    assert!(
        outcome.stdout.contains("farm complete, lost [], ") && !outcome.stdout.contains(" 0 known"),
        "{outcome}"
    );
}

#[test]
fn workers_end_when_the_master_dies() {
    if !launcher_keeps_other_ranks() {
        return;
    }
    let running = job(3).flag("--enable-recovery").env("ARMATURE_PEER_SECONDS", "3").start();
    running.wait_for("farm under way");
    let start = Instant::now();
    running.kill_rank(0);
    let outcome = running.wait();
    assert!(!outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    assert!(start.elapsed() < Duration::from_secs(30), "{outcome}");
    assert!(outcome.stderr.contains("rank 0, the farm's master"), "{outcome}");
    assert!(!outcome.stdout.contains("farm complete"), "{outcome}");
}

/// A worker that is silent for more than 2 s counts as dead. The results must stay complete when it resumes after 3.5 s.
#[test]
fn farm_completes_without_worker_stopped_beyond_the_silence_limit() {
    if !launcher_keeps_other_ranks() {
        return;
    }
    let running = job(3).flag("--enable-recovery").env("ARMATURE_TEST_TASKS", "5000").start();
    running.wait_for("farm under way");
    let stopped = running.process(1);
    kill_process(stopped, Signal::STOP).expect("rank 1 is there");
    std::thread::sleep(Duration::from_millis(3_500));
    kill_process(stopped, Signal::CONT).expect("rank 1 is still there");
    assert_completed(&running.wait(), "1");
}

/// Kills the whole job once for each of `moments` (a number of results or iterations), and then runs it to its end. The last run must compute no task
/// whose result is in the journal file, and every other task once.
fn kill_and_resume(case: &str, moments: &[u64], seed: u64) {
    const TASKS: usize = 1_000;
    let dir = tempfile::tempdir().expect("a directory");
    let dir_name = dir.path().to_str().expect("a text");
    let job = || Job::new(PROGRAM, 3).arg(case).env("ARMATURE_TEST_DIR", dir_name);
    let mut before = BTreeSet::new();
    for (n, moment) in moments.iter().enumerate() {
        let running = job().start();
        running.wait_for(&format!("farm has {moment}\n"));
        std::thread::sleep(Duration::from_millis(noise(seed, n as u64) % 60));
        running.kill();
        before.extend(computed_tasks(dir.path()));
    }
    let done = before.len();
    std::fs::remove_file(dir.path().join("computed")).expect("a log");
    let outcome = job().env("ARMATURE_TEST_TASKS", &TASKS.to_string()).run();
    assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    let known =
        outcome.stdout.lines().find_map(|l| l.strip_prefix("farm complete, ")?.strip_suffix(" known"));
    let known: usize = known.and_then(|known| known.parse().ok()).unwrap_or_else(|| panic!("{outcome}"));
    let after = computed_tasks(dir.path());
    let all: BTreeSet<_> = before.union(&after.iter().cloned().collect()).cloned().collect();
    println!("{case}: {done} were computed before the end, {known} known, {} computed then", after.len());
    assert_eq!((after.len(), all.len()), (TASKS - known, TASKS), "{outcome}");
    // The journal file may lack only the tasks in flight and the results since its last write.
    assert!(known > 0 && known + 100 >= done, "{known} of {done} were kept\n{outcome}");
}

fn computed_tasks(dir: &Path) -> Vec<String> {
    let log = std::fs::read_to_string(dir.join("computed")).unwrap_or_default();
    log.lines().map(str::to_string).collect()
}

#[test]
fn stream_resumes_from_its_journal_after_all_ranks_are_killed() {
    (0..runs()).for_each(|seed| kill_and_resume("farm-journal-stream", &[100, 400, 700], seed));
}

#[test]
fn iterations_resume_from_their_journal_after_all_ranks_are_killed() {
    (0..runs()).for_each(|seed| kill_and_resume("farm-journal-iterations", &[1, 4, 7], seed));
}

/// First a worker dies, which the job survives if the launcher keeps the other ranks. Then the master dies, and the restarted job must take the
/// results so far from the journal file.
#[test]
fn restarted_job_executes_only_missing_tasks() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = dir.path().join("journal");
    let recover = launcher_keeps_other_ranks();
    let options =
        if recover { &["run", "--recover", "--restarts", "1"][..] } else { &["run", "--restarts", "1"] };
    let job = job(3).through([&[ARMATURE], options].concat()).env("ARMATURE_TEST_TASKS", "6000");
    let running = job.env("ARMATURE_TEST_JOURNAL", journal.to_str().expect("a text")).start();
    running.wait_for("farm under way");
    if recover {
        running.kill_rank(2);
        let start = Instant::now();
        while !running.stderr_text().contains("of rank 2 are requeued") {
            assert!(start.elapsed() < Duration::from_secs(30), "nobody misses it: {}", running.stderr_text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    running.kill_rank(0);
    let outcome = running.wait();
    assert!(outcome.stderr.contains("restart 1 of 1"), "{outcome}");
    assert_completed(&outcome, "");
    let known = outcome.stdout.lines().find_map(|line| line.strip_suffix(" known")?.rsplit(' ').next());
    let known: u64 = known.and_then(|known| known.parse().ok()).expect("a number");
    assert!((10..6_000).contains(&known), "{outcome}");
}

/// Without recovery, the launcher ends the job when a worker is killed. The ranks take the SIGTERM of Open MPI's launcher for a request to stop,
/// which must not count as that of a user.
#[test]
fn job_that_its_launcher_ends_after_a_death_is_restarted() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = dir.path().join("journal");
    let job = job(3).through([ARMATURE, "run", "--restarts", "1"]).env("ARMATURE_TEST_TASKS", "3000");
    let running = job.env("ARMATURE_TEST_JOURNAL", journal.to_str().expect("a text")).start();
    running.wait_for("farm under way");
    running.kill_rank(2);
    let outcome = running.wait();
    assert!(outcome.stderr.contains("restart 1 of 1"), "{outcome}");
    assert_completed(&outcome, "");
}

/// The farm excludes a rank that hangs in a task. The rank must still finalise MPI with the others, because a launcher may take an early exit for a
/// failure.
#[test]
fn farm_completes_without_rank_that_hangs_in_a_task() {
    let flags: &[&'static str] = if launcher_keeps_other_ranks() { &["--enable-recovery"] } else { &[] };
    for flag in [None].into_iter().chain(flags.iter().map(Some)) {
        let events = tempfile::tempdir().expect("a directory");
        let mut job = Job::new(PROGRAM, 3).arg("farm-hung").limit(Duration::from_secs(60));
        job = job.env("ARMATURE_EVENTS", events.path().to_str().expect("a text"));
        let outcome = flag.map_or(job.clone(), |flag| job.flag(flag)).run();
        let lost = if outcome.stdout.contains("lost [1]") { "1" } else { "2" };
        assert_completed(&outcome, lost);
        assert!(outcome.stdout.contains("rank 0 goes on behind the farm"), "{outcome}");
        let log = std::fs::read_dir(newest_attempt(events.path())).expect("a log").flatten();
        let events_text =
            log.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect::<String>();
        assert!(events_text.contains("task 17 has exceeded the limit"), "{events_text}");
    }
}

/// A worker that was declared dead and resumes must finalise MPI with the others, so that the job succeeds under a launcher that ends a job when a
/// rank dies.
#[test]
fn resumed_worker_finalises_mpi_with_the_other_ranks() {
    // With 5000 tasks the stopped worker resumes during the farm, and with 900 after its end.
    for tasks in ["5000", "900"] {
        let running = job(3).env("ARMATURE_TEST_TASKS", tasks).start();
        running.wait_for("farm under way");
        let stopped = running.process(1);
        kill_process(stopped, Signal::STOP).expect("rank 1 is there");
        std::thread::sleep(Duration::from_millis(4_500));
        kill_process(stopped, Signal::CONT).expect("rank 1 is still there");
        assert_completed(&running.wait(), "1");
    }
}

/// The stopped worker never resumes, so that the job may fail although the farm is complete. A message must name the missing rank.
#[test]
fn worker_that_never_resumes_is_reported_as_missing() {
    let running = job(3).env("ARMATURE_PEER_SECONDS", "4").start();
    running.wait_for("farm under way");
    kill_process(running.process(1), Signal::STOP).expect("rank 1 is there");
    let outcome = running.wait();
    assert!(outcome.stdout.contains("farm complete, lost [1]"), "{outcome}");
    assert!(outcome.stderr.contains("rank(s) [1] have not returned"), "{outcome}");
    assert!(outcome.left_behind.is_empty() && !outcome.hung, "{outcome}");
}

#[test]
fn parked_worker_replaces_a_dead_worker() {
    for seed in (0..runs()).filter(|_| launcher_keeps_other_ranks()) {
        let running = job(3).flag("--enable-recovery").env("ARMATURE_TEST_WORKERS", "2").start();
        // Two of three ranks run tasks, so that rank 1 or 2 gets none. The killed rank may be this one.
        let victim = 1 + seed as usize % 2;
        kill_workers(&running, &[victim], seed);
        assert_completed(&running.wait(), &victim.to_string());
    }
}

/// Farm on seven ranks with two sub-masters (ranks that distribute tasks to a group of workers): rank 1 leads ranks 2 and 3, and rank 4 leads ranks 5
/// and 6.
fn split() -> Job {
    let tasks = ("ARMATURE_TEST_TASKS", "4000");
    job(7).flag("--enable-recovery").env(tasks.0, tasks.1).env("ARMATURE_TEST_SUB_MASTERS", "2")
}

#[test]
fn farm_completes_when_members_or_sub_masters_die() {
    // Killed ranks: a worker under a sub-master; a sub-master, whose workers continue under rank 0; all workers of a sub-master, which then runs
    // tasks itself.
    for (n, victims) in
        [&[2][..], &[1], &[4], &[5, 6]].into_iter().enumerate().filter(|_| launcher_keeps_other_ranks())
    {
        let running = split().start();
        kill_workers(&running, victims, 40 + n as u64);
        let outcome = running.wait();
        let orders: Vec<String> = [victims.to_vec(), victims.iter().rev().copied().collect()]
            .iter()
            .map(|v| v.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
            .collect();
        let lost = orders.iter().find(|lost| outcome.stdout.contains(&format!("lost [{lost}]")));
        assert_completed(&outcome, lost.unwrap_or(&orders[0]));
    }
}

#[test]
fn farm_completes_when_a_sub_master_and_its_member_die() {
    for seed in (0..runs()).filter(|_| launcher_keeps_other_ranks()) {
        let running = split().start();
        kill_workers(&running, &[1, 3], seed);
        let outcome = running.wait();
        let other = outcome.stdout.contains("lost [3, 1]");
        assert_completed(&outcome, if other { "3, 1" } else { "1, 3" });
    }
}

/// Farm in which one task ends the process of each rank that runs it. The job ends with rank 0, which therefore must not be the first to get the
/// task: chunks have one task, and the first task on rank 0 takes long. Tests with larger chunks must keep rank 0 from running tasks.
fn deadly(ranks: usize, how: &str, options: &[&str]) -> Job {
    let command = [&[ARMATURE, "run", "--recover"], options].concat();
    let job = Job::new(PROGRAM, ranks).arg("farm-deadly").limit(Duration::from_secs(60)).through(command);
    job.env("ARMATURE_TEST_KILL", how).env("ARMATURE_TEST_CHUNKING", "1")
}

/// The number of dead workers must be in `lost`, and a warning must name the deadly task.
#[track_caller]
fn assert_deadly_task_fails(outcome: &JobResult, lost: std::ops::RangeInclusive<usize>) {
    assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    let line = outcome.stdout.lines().find_map(|line| line.strip_prefix("farm complete, lost "));
    let died: usize =
        line.and_then(|line| line.split(';').next()?.parse().ok()).unwrap_or_else(|| panic!("{outcome}"));
    assert!(lost.contains(&died), "{outcome}");
    assert!(outcome.stderr.contains("task 40"), "no warning names the task\n{outcome}");
}

#[test]
fn task_that_kills_its_process_becomes_a_failed_task() {
    if !launcher_keeps_other_ranks() {
        return;
    }
    for (ranks, how) in [(3, "abort"), (4, "segfault"), (4, "exit")] {
        let outcome = deadly(ranks, how, &[]).run();
        assert_deadly_task_fails(&outcome, 2..=2);
        assert!(outcome.stdout.contains("task 40 failed on rank"), "{outcome}");
        assert!(outcome.stdout.contains("after 2 tries: the process of rank"), "{outcome}");
    }
}

/// Very short tasks leave no record of the running task, so that after a death the master knows only the chunk. Its tasks are tried again one by one,
/// which identifies the deadly one.
#[test]
fn deadly_task_in_a_chunk_of_short_tasks_is_identified() {
    if !launcher_keeps_other_ranks() {
        return;
    }
    for chunking in ["30", "auto"] {
        let job = deadly(5, "abort", &[])
            .env("ARMATURE_TEST_MICROSECONDS", "0")
            .env("ARMATURE_TEST_DEDICATED", "1");
        assert_deadly_task_fails(&job.env("ARMATURE_TEST_CHUNKING", chunking).run(), 2..=3);
    }
}

#[test]
fn task_that_kills_its_process_is_identified_under_a_sub_master() {
    if launcher_keeps_other_ranks() {
        let job = deadly(7, "abort", &[]).env("ARMATURE_TEST_SUB_MASTERS", "1");
        assert_deadly_task_fails(&job.env("ARMATURE_TEST_DEDICATED", "1").run(), 2..=3);
    }
}

/// A restart of the job would not help, because the task would end its process again.
#[test]
fn deadly_task_ends_a_job_that_tolerates_no_failed_tasks() {
    if !launcher_keeps_other_ranks() {
        return;
    }
    let job = deadly(4, "abort", &["--restarts", "2"]).env("ARMATURE_TEST_FAIL_FAST", "1");
    let outcome = job.env("ARMATURE_TEST_RETRIES", "1").run();
    assert_eq!(outcome.status.code(), Some(1), "{outcome}");
    assert!(outcome.stderr.contains("task 40: the process of rank"), "{outcome}");
    assert!(!outcome.stderr.contains("restart 1 of") && !outcome.hung, "{outcome}");
    assert!(outcome.left_behind.is_empty(), "{outcome}");
}

/// A farm without retries ends with the first death, which may have another cause than the task, so that the job is restarted. After a second death
/// in the same task, the task is the cause, and the job fails.
#[test]
fn job_without_retries_is_restarted_after_the_first_death_in_a_task() {
    if !launcher_keeps_other_ranks() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let journal = dir.path().join("journal");
    let job = deadly(4, "abort", &["--restarts", "3"]).env("ARMATURE_TEST_DEDICATED", "1");
    let job = job.env("ARMATURE_TEST_JOURNAL", journal.to_str().expect("a text"));
    let outcome = job.env("ARMATURE_TEST_RETRIES", "0").env("ARMATURE_TEST_FAIL_FAST", "1").run();
    assert_eq!(outcome.status.code(), Some(1), "{outcome}");
    assert!(!outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    let restarts = [1, 2].map(|restart| outcome.stderr.contains(&format!("restart {restart} of 3")));
    assert_eq!(restarts, [true, false], "{outcome}");
}

/// All workers die of the task, and the job ends with them because rank 0 runs no tasks. The restarted job must know these deaths from its journal
/// file.
#[test]
fn restarted_job_knows_which_tasks_killed_its_workers() {
    if !launcher_keeps_other_ranks() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let journal = dir.path().join("journal");
    let job = deadly(3, "abort", &["--restarts", "3"]).env("ARMATURE_TEST_DEDICATED", "1");
    let job = job.env("ARMATURE_TEST_JOURNAL", journal.to_str().expect("a text"));
    let outcome = job.env("ARMATURE_TEST_RETRIES", "1").run();
    assert_deadly_task_fails(&outcome, 0..=0);
    assert!(
        outcome.stderr.contains("restart 1 of 3") && !outcome.stderr.contains("restart 2 of 3"),
        "{outcome}"
    );
}
