//! Ranks that run different programs: every difference must end the job soon with a nonzero exit code, and the message must show the values of both
//! ranks.

use std::path::Path;
use std::time::{Duration, Instant};

use armature::farm::Farm;
use armature::loops::{Checkpoint, DoAll, DoAllLoop, ParallelFor, Until};
use armature::pipeline::Pipeline;
use armature::workflow::{Action, Cluster, Description, Processor, Task, Workflow};
use armature::{BoxError, ErrorKind, Session};
use armature_tests::local;
use armature_tests::mpirun::{Job, JobResult};
use armature_tests::programs::Program;
use proptest::prelude::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-programs");
const TASKS: &str = env!("CARGO_BIN_EXE_armature-tasks");

/// Longest time until a difference is detected, on a busy machine and with other tests in the same process.
const DETECTION_LIMIT: Duration = Duration::from_secs(5);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn differing_programs_are_refused_on_threads(seed in any::<u64>(), change in any::<u64>(), ranks in 2usize..5) {
        let program = Program::of(seed);
        let other = program.variant(change);
        let what = format!("{program:?} and on rank {} {other:?}", ranks - 1);
        let start = Instant::now();
        let result = local::run(&what, &local::config(ranks), move |session| program.run(session, &other));
        let error = result.expect_err(&what);
        prop_assert!(start.elapsed() < DETECTION_LIMIT, "{what}: {:?}", start.elapsed());
        prop_assert_eq!(error.kind(), ErrorKind::Config, "{}: {}", what, error);
        prop_assert_eq!(error.rank(), Some(ranks - 1));
        prop_assert!(error.message().contains("but rank 0 "), "{what}: {error}");
    }

    #[test]
    fn equal_programs_on_all_ranks_give_serial_results(seed in any::<u64>(), ranks in 1usize..4) {
        let program = Program::of(seed);
        let what = format!("{program:?} on {ranks} ranks");
        let result = local::run(&what, &local::config(ranks), move |session| program.run(session, &program));
        prop_assert!(result.is_ok(), "{what}: {result:?}");
    }
}

#[test]
fn differing_programs_are_refused_under_mpirun() {
    for seed in 0..12 {
        let outcome = Job::new(PROGRAM, 2 + seed % 2)
            .arg("differ")
            .arg(seed.to_string())
            .limit(DETECTION_LIMIT * 6)
            .run();
        assert!(!outcome.status.success() && !outcome.hung, "{seed}: {outcome}");
        assert!(outcome.left_behind.is_empty(), "{seed}: {outcome}");
        let error_lines = outcome.errors();
        assert!(matches!(error_lines[..], [line] if line.contains(", but rank 0 ")), "{seed}: {outcome}");
    }
}

#[test]
fn equal_programs_give_serial_results_under_mpirun() {
    let job = (0..12).fold(Job::new(PROGRAM, 3), |job, seed| job.arg(seed.to_string()));
    let outcome = job.limit(DETECTION_LIMIT * 6).run();
    assert!(outcome.status.success(), "{outcome}");
}

/// Job of two ranks with a program and arguments for each. `script` starts the program on each rank; `RANK` is 1 for the second.
fn two(programs: [&str; 2], arguments: [&[&str]; 2], script: &str) -> Job {
    let job = Job::new(programs[0], 1).limit(DETECTION_LIMIT * 6).in_shell(script);
    let job = arguments[0].iter().fold(job, |job, argument| job.arg(*argument));
    let job = [":", "-n", "1", "bash", "-c"].into_iter().fold(job, |job, word| job.arg(word));
    let job = job.arg(format!("RANK=1; {script}")).arg("bash").arg(programs[1]);
    arguments[1].iter().fold(job, |job, argument| job.arg(*argument))
}

const AS_IT_IS: &str = "exec \"$@\"";

#[track_caller]
fn refused(job: Job, texts: &[&str]) {
    let outcome = job.run();
    assert!(!outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    let lines = outcome.errors();
    let [line] = lines[..] else { panic!("{} lines: {outcome}", lines.len()) };
    assert!(texts.iter().all(|text| line.contains(text)), "{texts:?}: {outcome}");
}

#[track_caller]
fn accepted(job: Job) -> JobResult {
    let outcome = job.run();
    assert!(outcome.status.success() && outcome.left_behind.is_empty(), "{outcome}");
    outcome
}

/// Copies a program with another build id and another checksum. The checksum identifies the program where the linker writes no build id.
fn other_build(program: &str, copy: &Path) {
    std::fs::copy(program, copy).expect("the program can be copied");
    let mut bytes = std::fs::read(copy).expect("the copy can be read");
    // The build id is in an ELF note: length of the owner's name, length of the text, type 3, the owner, the text.
    let kind_and_owner = [3_u32.to_ne_bytes(), *b"GNU\0"].concat();
    let is_note = |window: &[u8]| window[..4] == 4_u32.to_ne_bytes() && window[8..] == kind_and_owner;
    if let Some(at) = bytes.windows(16).position(is_note) {
        bytes[at + 16] ^= 1;
    }
    bytes.push(0);
    std::fs::write(copy, bytes).expect("the copy can be written");
}

#[test]
fn two_builds_in_one_job_are_refused_unless_allowed() {
    let place = tempfile::tempdir().expect("a directory for the copies");
    let [same, other] = ["same", "other"].map(|name| place.path().join(name));
    std::fs::copy(PROGRAM, &same).expect("the program can be copied");
    other_build(PROGRAM, &other);
    let [same, other] = [&same, &other].map(|path| path.to_str().expect("a name in UTF-8"));
    accepted(two([PROGRAM, same], [&["3"], &["3"]], AS_IT_IS));
    let job = || two([PROGRAM, other], [&["3"], &["3"]], AS_IT_IS);
    refused(job(), &[": rank 1: runs ", other, "another build than ", PROGRAM, "ARMATURE_CHECK_BUILD=off"]);
    let outcome = accepted(job().env("ARMATURE_CHECK_BUILD", "off"));
    assert!(outcome.stderr.contains("rank(s) {1} run another build than rank 0"), "{outcome}");
}

#[test]
fn differing_arguments_are_refused_unless_allowed() {
    // Ranks 8 and 9, which would start late, do not exist, so that both ranks run the same program although their arguments differ.
    let job = || two([PROGRAM; 2], [&["late", "8", "farm"], &["late", "9", "farm"]], AS_IT_IS);
    refused(
        job(),
        &[
            "rank 1: was started with \"9\" as argument 2, but rank 0 with \"8\"",
            "ARMATURE_CHECK_ARGUMENTS=off",
        ],
    );
    accepted(job().env("ARMATURE_CHECK_ARGUMENTS", "off"));
}

#[test]
fn differing_settings_are_named_with_both_values() {
    let script = "if [ $RANK = 1 ]; then export ARMATURE_SPLIT_BYTES=4096; fi; exec \"$@\"";
    refused(
        two([PROGRAM; 2], [&["3"]; 2], script),
        &["rank 1: runs with ARMATURE_SPLIT_BYTES 4096, but rank 0 with ARMATURE_SPLIT_BYTES 67108864"],
    );
    let place = tempfile::tempdir().expect("a directory for the workflow");
    let file = place.path().join("one.dag");
    std::fs::write(&file, "TASK one true\n").expect("the workflow can be written");
    let file = file.to_str().expect("a name in UTF-8");
    for (option, values) in [("--cores", ["2", "1"]), ("--directory", ["/", "/tmp"])] {
        let arguments = values.map(|value| [file, option, value]);
        let job = two([TASKS; 2], [&arguments[0], &arguments[1]], AS_IT_IS);
        let name = if option == "--cores" { "Commands::cores" } else { "directory" };
        let job = job.env("ARMATURE_CHECK_ARGUMENTS", "off");
        let shown = |value: &str| if option == "--cores" { value.to_string() } else { format!("{value:?}") };
        let [root, other] = values.map(shown);
        refused(job, &[&format!("with {name} {other}, but rank 0 with {name} {root}")]);
    }
}

struct Nothing;

impl DoAll for Nothing {
    type Units = Vec<u64>;

    fn create(&mut self, range: std::ops::Range<u64>) -> Result<Vec<u64>, BoxError> {
        Ok(range.collect())
    }

    fn compute(&mut self, _: std::ops::Range<u64>, _: &mut [u64]) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Runs a skeleton (such as a farm), with one option set if the second argument is true.
type Optional = fn(&mut Session, bool) -> Result<(), BoxError>;

#[test]
fn differing_skeleton_options_are_named() {
    let cases: [(Optional, &str); 8] = [
        (
            |session, is_set| {
                let farm = Farm::new("a", |x: [f64; 1]| x);
                let mut farm = if is_set { farm.plain_results() } else { farm };
                farm.collect(session, [[1.0]; 9])?;
                Ok(())
            },
            "with results of type [f64; 1], sent as plain memory, but rank 0 with results of type [f64; 1]:",
        ),
        (
            |session, is_set| {
                let farm = Farm::new("a", |x: u8| x);
                let mut farm = if is_set { farm.silence_limit(DETECTION_LIMIT) } else { farm };
                farm.collect(session, 0..9)?;
                Ok(())
            },
            "with silence_limit 5s, but rank 0 with silence_limit unset:",
        ),
        (
            |session, is_set| {
                let source = Pipeline::source("points", || (0..9).map(|x| [x]));
                let source = if is_set { source.plain() } else { source };
                source.map("first", |[x]: [i32; 1]| x).collect(session)?;
                Ok(())
            },
            "with after \"points\" items of type [i32; 1], sent as plain memory, but rank 0 with",
        ),
        (
            |session, is_set| {
                let pipeline = Pipeline::source("numbers", || 0..9).map("same", |x: i32| x);
                if is_set {
                    pipeline.collect_on_all(session)?;
                } else {
                    pipeline.collect(session)?;
                }
                Ok(())
            },
            "with method collect_on_all, but rank 0 with method collect:",
        ),
        (
            |session, is_set| {
                let until = if is_set { Until::at_most(3).sum() } else { Until::at_most(3) };
                DoAllLoop::new("a", 9, Nothing).run_until(session, until, |_| 0.0, |_| true)?;
                Ok(())
            },
            "with Until::sum set, but rank 0 with Until::sum unset:",
        ),
        (
            |session, is_set| {
                let all = ParallelFor::new("a", 0..9);
                let all = if is_set { all.block_size(2) } else { all };
                all.run(session, |_| Ok(()))?;
                Ok(())
            },
            "with block_size 2, but rank 0 with no block_size:",
        ),
        (
            |session, is_set| {
                let dir = tempfile::tempdir()?;
                let directory = session.broadcast(Some(dir.path().join("kept")))?;
                let directory = if is_set { dir.path().join("elsewhere") } else { directory };
                let mut all = DoAllLoop::new("a", 9, Nothing).checkpoint(Checkpoint::new(directory, "1"));
                all.run(session, 3)?;
                Ok(())
            },
            "with checkpoint directory \"",
        ),
        (
            |session, is_set| {
                let mut one = Description::builder("one");
                one.task(Task::new("a", Action::Closure("a".into())));
                let workflow = Workflow::from_description(one.build()?).closure("a", |_, _| Ok(1));
                let ranks = (0..session.size()).map(|rank| Processor::new(format!("{rank}"), 1.0, 1 << 30));
                let cluster = Cluster::new(ranks.collect(), 1e9)?;
                let mut workflow = if is_set { workflow.cluster(cluster) } else { workflow };
                workflow.run(session)?;
                Ok(())
            },
            "with a cluster, but rank 0 with no cluster:",
        ),
    ];
    for (skeleton, text) in cases {
        let ran = local::run(text, &local::config(2), |session| {
            let is_set = session.rank() == 1;
            skeleton(session, is_set)
        });
        let error = ran.expect_err(text);
        assert_eq!((error.kind(), error.rank()), (ErrorKind::Config, Some(1)), "{error}");
        assert!(error.message().contains(text), "{text}: {error}");
    }
}
