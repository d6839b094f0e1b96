//! Ranks die by a signal or by their own exit in every phase of a job. The job must end within seconds with the right exit code, and may survive only
//! deaths that its farm or workflow tolerates.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use armature_launch::Mpi;
use armature_tests::mpirun::{Job, JobResult, linked};
use armature_tests::phases::kills::{Kill, TestedProgram, histogram};

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-phases");
const ARMATURE: &str = env!("CARGO_BIN_EXE_armature-run");

/// Kills a rank in each phase of a job, `ARMATURE_TEST_DEATHS` times.
#[test]
fn killed_rank_ends_the_job_unless_a_farm_or_workflow_survives_it() {
    let mpi = linked(PROGRAM.as_ref());
    let times = armature_tests::check::setting("ARMATURE_TEST_DEATHS", 1).unwrap_or_else(|e| panic!("{e}"));
    // With seed 233, the first nine kills cover every skeleton (such as a farm), a worker in a workflow, and jobs with and without recovery.
    let kills: Vec<Kill> = (0..9 * times).map(|number| Kill::from_seed(233, number, mpi)).collect();
    let tested_program =
        TestedProgram { armature: ARMATURE.into(), program: PROGRAM.into(), leading_arguments: Vec::new() };
    // Three jobs run at a time, because they wait most of the time.
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(kill) = kills.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match kill.run(&tested_program) {
                        Ok(outcome) => println!("{kill}: {} after {:.1?}", outcome.status, outcome.took),
                        Err(error) => wrong.lock().expect("nobody panics here").push(error),
                    }
                }
            });
        }
    });
    println!("{}", histogram(&kills));
    let wrong = wrong.into_inner().expect("nobody panics here");
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), kills.len(), wrong.join("\n"));
}

/// Runs `armature run OPTIONS armature-phases DIR SKELETON ACTION`; an action has the form PHASE:RANK:ACT.
fn run(options: &[&str], skeleton: &str, action: &str) -> JobResult {
    let dir = tempfile::tempdir().expect("a directory");
    let line = [&[ARMATURE, "run"], options].concat();
    let job = Job::new(PROGRAM, 3).through(line).limit(Duration::from_secs(60));
    let outcome = job.arg(dir.path()).arg(skeleton).arg(action).run();
    assert!(!outcome.hung && outcome.left_behind.is_empty(), "{options:?} {skeleton} {action}: {outcome}");
    outcome
}

/// Only farms and workflows replace a rank, so that the job must fail. A launcher that keeps the other ranks does not report the exit of a rank, and
/// MPICH's launcher detects an exit before `MPI_Init` only if a signal has caused it.
#[test]
fn rank_that_exits_early_outside_a_farm_fails_the_job() {
    let recover: &[&str] =
        if linked(PROGRAM.as_ref()) == Mpi::OpenMpi { &["--recover"] } else { &["--start-limit", "5m"] };
    for (skeleton, action, expected) in [
        ("pipeline", "launched:1:fail", "rank 1"),
        ("farm", "started:1:exit", "the process of rank 1 has ended before it reached the farm"),
        ("explore", "started:1:exit", "the process of rank 1 has ended before it reached the farm"),
        ("workflow", "started:1:exit", "the process of rank 1 has ended before it reached the workflow"),
        ("pipeline", "started:2:abort", "the process of rank 2 has ended before it reached the pipeline"),
        ("farm", "between:1:quit", "the process of rank 1 has ended before it reached the farm"),
        ("workflow", "between:2:quit", "the process of rank 2 has ended before it reached the workflow"),
        ("units", "between:2:fail", "rank 2 fails: between"),
        ("sweep", "between:1:exit", "the process of rank 1 has ended before it reached the loop"),
        ("farm", "ended:2:exit", "for all ranks to leave, but the process of rank 2 has ended"),
        ("pipeline", "ended:1:panic", "rank 1 panics: ended"),
    ] {
        let outcome = run(recover, skeleton, action);
        assert!(!outcome.status.success(), "{skeleton} {action}: {outcome}");
        if recover == ["--recover"] {
            assert_eq!(outcome.status.code(), Some(1), "{skeleton} {action}: {outcome}");
            assert!(
                outcome.stderr.contains(expected),
                "{skeleton} {action}: `{expected}` is not printed\n{outcome}"
            );
        }
    }
}

/// The other ranks must not wait for large messages in flight to or from the dead worker.
#[test]
fn job_completes_without_worker_that_exits_in_a_task() {
    if linked(PROGRAM.as_ref()) != Mpi::OpenMpi {
        return;
    }
    for skeleton in ["farm", "explore", "workflow"] {
        let outcome = run(&["--recover"], skeleton, "working:2:exit");
        assert!(outcome.status.success() && outcome.stdout.contains("all is right"), "{outcome}");
        assert!(outcome.stderr.contains("rank 2 is lost, the job continues without it"), "{outcome}");
    }
}

/// Each try of the deadly task costs a rank, and rank 0 never runs it. The job tolerates a failed task and must not be restarted.
#[test]
fn task_that_kills_each_rank_fails_after_its_tries() {
    if linked(PROGRAM.as_ref()) != Mpi::OpenMpi {
        return;
    }
    for skeleton in ["deadly-farm", "deadly-explore", "deadly-workflow"] {
        let dir = tempfile::tempdir().expect("a directory");
        let line = [ARMATURE, "run", "--recover", "--restarts", "1"];
        let job = Job::new(PROGRAM, 4).through(line).limit(Duration::from_secs(60));
        let outcome = job.arg(dir.path()).arg(skeleton).run();
        assert!(!outcome.hung && outcome.left_behind.is_empty(), "{skeleton}: {outcome}");
        assert!(outcome.status.success() && !outcome.stderr.contains("restart 1"), "{skeleton}: {outcome}");
    }
}

#[test]
fn job_start_fails_after_the_start_limit() {
    let outcome = run(&["--start-limit", "2s"], "pipeline", "launched:1:hold");
    assert_eq!(outcome.status.code(), Some(1), "{outcome}");
    assert!(outcome.stderr.contains("connected to each other within 2 s (--start-limit"), "{outcome}");
}

/// Open MPI's launcher with recovery does not end a rank that waits in `MPI_Init` for a dead rank, so that the waiting rank must report it.
#[test]
fn rank_waiting_for_a_rank_that_died_before_mpi_init_reports_it() {
    if linked(PROGRAM.as_ref()) != Mpi::OpenMpi {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let job = Job::new(PROGRAM, 2).flag("--enable-recovery").limit(Duration::from_secs(60));
    let running = job.arg(dir.path()).arg("pipeline").arg("launched:0:exit").start();
    let start = Instant::now();
    while !running.stderr_text().contains("armature: rank 1 has waited 10 s for MPI to start") {
        assert!(start.elapsed() < Duration::from_secs(40), "nothing is printed: {}", running.stderr_text());
        std::thread::sleep(Duration::from_millis(50));
    }
    running.kill();
}
