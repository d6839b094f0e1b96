//! Programs that fail: the job must end with an error on every rank within seconds, and the message must name the failed rank, stage and item, as far
//! as there are any.

use std::time::{Duration, Instant};

use armature::{BatchMode, Driver, ErrorKind};
use armature_tests::faults::{self, Fault};
use armature_tests::local;
use armature_tests::mpirun::{Job, JobResult, Running};
use rustix::process::{Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-cases");

/// Longest time that a failing job may take, with start and end of the launcher.
const FAILURE_LIMIT: Duration = Duration::from_secs(20);

/// Programs that fail without a signal from the test.
fn failing() -> impl Iterator<Item = Fault> {
    faults::all().into_iter().filter(|f| !["endless", "never-comes"].contains(&f.case.name))
}

#[track_caller]
fn fails_locally(fault: &Fault, ranks: usize, driver: Driver) {
    let what = format!("{} on {ranks} ranks, {driver:?}", fault.case.name);
    let start = Instant::now();
    let config = local::config(ranks).driver(driver);
    let error = local::run(&what, &config, fault.case.run).expect_err(&what);
    assert!(start.elapsed() < FAILURE_LIMIT, "{what} took {:?}", start.elapsed());
    fault.check(&error.to_string(), ranks).unwrap_or_else(|e| panic!("{what}: {e}\n{error}"));
    assert_eq!(error.kind() == ErrorKind::Panic, fault.panic, "{what}: {error:?}");
}

#[test]
fn faults_fail_the_job_on_threads() {
    for fault in failing() {
        for ranks in (fault.ranks..=4).filter(|r| *r != 3) {
            fails_locally(&fault, ranks, Driver::Auto);
        }
        fails_locally(&fault, 3, Driver::Inline);
        fails_locally(&fault, 3, Driver::Threaded);
    }
}

#[track_caller]
fn ended_by_failure(outcome: &JobResult) {
    ended_by_failures(outcome, 1);
}

/// Checks the error messages of a failed job. Up to `most` ranks may detect the failure at the same moment.
#[track_caller]
fn ended_by_failures(outcome: &JobResult, most: usize) {
    assert!(!outcome.status.success(), "the job has succeeded\n{outcome}");
    assert!(!outcome.hung && outcome.took < FAILURE_LIMIT, "not within {FAILURE_LIMIT:?}\n{outcome}");
    assert!(outcome.left_behind.is_empty(), "{outcome}");
    let reports = outcome.errors().len();
    assert!((1..=most).contains(&reports), "it is printed by one to {most} ranks\n{outcome}");
}

/// Runs the failing programs whose names begin with `name`.
#[track_caller]
fn fails_under_mpirun(name: &str) {
    let mut found = 0;
    for fault in failing().filter(|f| f.case.name.starts_with(name)) {
        found += 1;
        let ranks = fault.ranks.max(3);
        let outcome = Job::new(PROGRAM, ranks).arg(fault.case.name).limit(FAILURE_LIMIT * 2).run();
        // In `odd-` programs every rank checks its own items; in `other-` programs every rank compares the skeleton (such as a farm) that it runs
        // with that of rank 0. So each rank may report the failure.
        let most = if name.starts_with("odd-") || name.starts_with("other-") { ranks } else { 1 };
        ended_by_failures(&outcome, most);
        fault.check(&outcome.errors().join("\n"), ranks).unwrap_or_else(|e| panic!("{e}\n{outcome}"));
        // In programs named `…-after`, the failure follows the skeleton (such as a farm), so that some ranks may print `ok` before another fails. In
        // other programs, no rank prints `ok`.
        let through = outcome.stdout.contains(": ok");
        assert!(!through || fault.case.name.ends_with("-after"), "{outcome}");
    }
    assert!(found > 0, "no fault is called {name}…");
}

#[test]
fn user_errors_fail_the_job_under_mpirun() {
    fails_under_mpirun("err-");
}

#[test]
fn panics_fail_the_job_under_mpirun() {
    fails_under_mpirun("panic-");
}

#[test]
fn unusable_mappings_fail_the_job_under_mpirun() {
    fails_under_mpirun("mapping-");
}

#[test]
fn disagreements_fail_the_job_under_mpirun() {
    fails_under_mpirun("other-");
}

#[test]
fn results_that_do_not_round_trip_fail_the_job_under_mpirun() {
    fails_under_mpirun("odd-results");
    fails_under_mpirun("odd-late");
}

#[test]
fn faults_fail_the_job_with_one_rank_under_mpirun() {
    for name in ["panic-in-sink", "odd-results"] {
        let fault = failing().find(|f| f.case.name == name).expect("the fault exists");
        let outcome = Job::new(PROGRAM, 1).arg(fault.case.name).limit(FAILURE_LIMIT * 2).run();
        ended_by_failure(&outcome);
        fault.check(&outcome.stderr, 1).unwrap_or_else(|e| panic!("{e}\n{outcome}"));
    }
}

#[track_caller]
fn endless(driver: &str) -> Running {
    let job = Job::new(PROGRAM, 3).arg("endless").env("ARMATURE_PEER_SECONDS", "2").limit(FAILURE_LIMIT * 3);
    let running = job.env("ARMATURE_DRIVER", driver).start();
    running.wait_for("endless: under way");
    // After this time, every rank has sent a heartbeat.
    std::thread::sleep(Duration::from_millis(1500));
    running
}

#[track_caller]
fn with_a_signal(running: Running, rank: usize, signal: Signal) -> JobResult {
    let start = Instant::now();
    kill_process(running.process(rank), signal).expect("the process can be signalled");
    let outcome = running.wait();
    assert!(!outcome.status.success(), "{outcome}");
    assert!(!outcome.hung && start.elapsed() < FAILURE_LIMIT, "{outcome}");
    assert!(outcome.left_behind.is_empty(), "{outcome}");
    outcome
}

/// The other ranks must notice a rank that is stopped by a signal, and report the last known state of every rank.
#[test]
fn stopped_rank_is_named_with_the_state_of_all_ranks() {
    for driver in ["threaded", "inline"] {
        let outcome = with_a_signal(endless(driver), 2, Signal::STOP);
        for part in [
            ": rank 0: has waited 2 s for a heartbeat from rank 2; its last heartbeat:",
            "\n    rank 0: ",
            "\n    rank 1: ",
            "\n    rank 2: ",
            "in flight",
        ] {
            assert!(outcome.stderr.contains(part), "`{part}` is not printed\n{outcome}");
        }
    }
}

#[test]
fn stopped_rank_0_is_named() {
    let outcome = with_a_signal(endless("auto"), 0, Signal::STOP);
    let text = "for a heartbeat from rank 0; its last heartbeat:";
    assert!(outcome.stderr.contains(text), "`{text}` is not printed\n{outcome}");
}

#[test]
fn killed_rank_ends_the_job() {
    with_a_signal(endless("auto"), 1, Signal::KILL);
    with_a_signal(endless("auto"), 0, Signal::KILL);
}

/// All processes of the job are suspended. The first rank that resumes has received no heartbeat for a long time, but must not declare the others
/// dead.
#[test]
fn job_suspended_as_a_whole_continues_after_resuming() {
    let running = endless("auto");
    for _ in 0..3 {
        running.suspend(Duration::from_millis(3_500));
        std::thread::sleep(Duration::from_millis(1_500));
    }
    // After the suspensions of the whole job, a single stopped rank must still be detected.
    let outcome = with_a_signal(running, 2, Signal::STOP);
    assert!(outcome.stderr.contains("has waited 2 s for a heartbeat from rank 2"), "{outcome}");

    // Chunks of tasks take more than a second each, so that hardly any message is in flight while the job is suspended.
    let job = Job::new(PROGRAM, 3).arg("farm-deaths").limit(FAILURE_LIMIT * 3);
    let running = job.env("ARMATURE_TEST_CHUNKING", "700").env("ARMATURE_TEST_TASKS", "9000").start();
    running.wait_for("farm under way");
    running.suspend(Duration::from_millis(3_500));
    let outcome = running.wait();
    assert!(outcome.status.success() && outcome.left_behind.is_empty(), "{outcome}");
    assert!(outcome.stdout.contains("farm complete, lost []"), "{outcome}");
}

/// One rank never starts the pipeline. The others wait for it until the time limit for ranks outside of parallel operations
/// (`ARMATURE_JOIN_SECONDS`).
#[test]
fn rank_that_never_joins_is_named() {
    let job =
        Job::new(PROGRAM, 3).arg("never-comes").env("ARMATURE_JOIN_SECONDS", "2").limit(FAILURE_LIMIT * 2);
    let outcome = job.run();
    ended_by_failure(&outcome);
    let text = "for a heartbeat from rank 2; it has sent no heartbeat";
    assert!(outcome.stderr.contains(text), "`{text}` is not printed\n{outcome}");
}

/// A rank that computes all the time must send heartbeats, even if it computes on the thread that communicates.
#[test]
fn busy_rank_is_not_declared_dead() {
    for driver in [Driver::Threaded, Driver::Inline] {
        let config = local::config(3).driver(driver).peer_limit(Duration::from_secs(1));
        // Rank 0 runs all stages of the pipeline; the other ranks receive nothing but its heartbeats.
        local::run("a busy root", &config, |session| {
            armature::pipeline::Pipeline::source("numbers", || 0..30u32)
                .map("slow", |x| {
                    std::thread::sleep(Duration::from_millis(100));
                    x
                })
                .batch(BatchMode::Fixed(1))
                .mapping(armature::pipeline::MappingChoice::Serial)
                .for_each(session, "out", drop)?;
            Ok(())
        })
        .unwrap_or_else(|e| panic!("{driver:?}: {e}"));
    }
}

fn assert_no_death(case: &str) {
    let case = armature_tests::find(case).expect("the case exists");
    for (ranks, driver) in [(2, Driver::Auto), (3, Driver::Threaded)] {
        let config = local::config(ranks).driver(driver).peer_limit(Duration::from_secs(1));
        local::run(case.name, &config, case.run).unwrap_or_else(|e| panic!("{ranks} ranks, {driver:?}: {e}"));
    }
}

fn assert_no_death_under_mpirun(case: &str) {
    let job = Job::new(PROGRAM, 3).arg(case).env("ARMATURE_PEER_SECONDS", "2");
    job.limit(FAILURE_LIMIT * 3).passes(&[case]);
}

/// Rank 0 must send heartbeats while the source or the sink of the farm takes longer than a rank may be silent.
#[test]
fn slow_farm_source_or_sink_does_not_time_out_under_mpirun() {
    assert_no_death_under_mpirun("farm-slow-ends");
}

#[test]
fn slow_farm_task_does_not_time_out() {
    assert_no_death("farm-slow-tasks");
}

#[test]
fn slow_farm_task_does_not_time_out_under_mpirun() {
    assert_no_death_under_mpirun("farm-slow-tasks");
}

#[test]
fn slow_loop_unit_does_not_time_out() {
    assert_no_death("units-slow");
}

#[test]
fn slow_loop_unit_does_not_time_out_under_mpirun() {
    assert_no_death_under_mpirun("units-slow");
}

/// Ranks that run long tasks must leave the job when another rank fails.
#[test]
fn failure_ends_the_job_while_slow_tasks_run() {
    let outcome = Job::new(PROGRAM, 3).arg("farm-fail-beside-slow").limit(FAILURE_LIMIT * 2).run();
    ended_by_failure(&outcome);
    assert!(outcome.stderr.contains("armature: rank 2: farm beside: task "), "{outcome}");
}

/// Ranks that compute long loop bodies must leave the job when another rank fails.
#[test]
fn failure_ends_the_job_while_slow_units_run() {
    let outcome = Job::new(PROGRAM, 3).arg("units-fail-beside-slow").limit(FAILURE_LIMIT * 2).run();
    ended_by_failure(&outcome);
    assert!(outcome.stderr.contains("armature: rank 2: loop beside: torn (in unit 2)"), "{outcome}");
}

/// An item that takes longer than a rank may be silent must not count as a standstill, on any rank.
#[test]
fn long_pipeline_item_does_not_time_out() {
    let config = local::config(3).driver(Driver::Threaded).peer_limit(Duration::from_secs(1));
    local::run("long items", &config, |session| {
        let slow = |x: u32| {
            std::thread::sleep(Duration::from_millis(1100));
            x
        };
        armature::pipeline::Pipeline::source("numbers", || 0..1u32)
            .map("first", slow)
            .map("second", slow)
            .map("third", slow)
            .map("fourth", slow)
            .map("fifth", slow)
            .mapping(armature::pipeline::MappingChoice::Text(
                "first@1 | second@2 | third@1 | fourth@2 | fifth@1".into(),
            ))
            .for_each(session, "out", drop)?;
        Ok(())
    })
    .unwrap_or_else(|e| panic!("{e}"));
}

/// In every place where ranks wait, a rank must report after ten seconds for which ranks it waits.
#[test]
fn wait_of_ten_seconds_is_reported_with_the_missing_ranks() {
    const PROGRAMS: &str = env!("CARGO_BIN_EXE_armature-programs");
    let waits = [
        (&["late-start", "1"][..], "armature: rank 0 has waited 10 s for MPI to start"),
        (&["late-start", "0"], "armature: rank 1 has waited 10 s for MPI to start"),
        (&["late", "0", "farm"], "rank 1] has waited 10 s for rank 0, before it runs the farm \"a\""),
        (&["late", "1", "farm"], "rank 0] has waited 10 s for rank(s) [1] to reach the farm"),
        (&["late", "1", "pipeline"], "rank 0] has waited 10 s for rank(s) [1] to reach the pipeline"),
        (&["late", "1", "map"], "rank 0] has waited 10 s for rank(s) [1] to reach the loop"),
        (&["late", "1", "doall"], "rank 0] has waited 10 s for rank(s) [1] to reach the loop"),
        (&["late", "1", "sweeps"], "rank 0] has waited 10 s for rank(s) [1] to reach the loop"),
    ];
    // The jobs run at the same time, because they only sleep.
    let start = |(args, text): (&[&str], &'static str)| {
        let job = Job::new(PROGRAMS, 2).limit(FAILURE_LIMIT * 3).env("RUST_LOG", "warn");
        (args.iter().fold(job, |job, arg| job.arg(arg)).start(), text)
    };
    let jobs: Vec<(Running, &str)> = waits.into_iter().map(start).collect();
    for (running, text) in jobs {
        let outcome = running.wait();
        assert!(outcome.status.success() && !outcome.hung, "{outcome}");
        assert!(outcome.stderr.contains(text), "`{text}` is not printed\n{outcome}");
    }
}
