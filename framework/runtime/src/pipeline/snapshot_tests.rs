//! Tests of snapshots of a pipeline in complete runs, with threads as ranks.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Checkpoint, Context, MappingChoice, Pipeline, Sink, Stage, StageResult};
use crate::error::{BoxError, Error, ErrorKind};
use crate::session::{BatchMode, Config, run};

const ITEMS: u64 = 400;

/// Serial stage that numbers its items and emits their count at the end of the stream.
#[derive(Default)]
struct Number(u64);

impl Stage for Number {
    type In = u64;
    type Out = (u64, u64);

    fn process(&mut self, item: u64, _: &mut Context) -> StageResult<(u64, u64)> {
        self.0 += 1;
        Ok(Some((self.0, item)))
    }

    fn finish(&mut self, _: &mut Context) -> StageResult<(u64, u64)> {
        Ok(Some((self.0, u64::MAX)))
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(self.0.to_le_bytes().to_vec())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        self.0 = u64::from_le_bytes(state.try_into()?);
        Ok(())
    }
}

fn checkpoint(dir: &Path) -> Checkpoint {
    Checkpoint::new(dir.join("kept"), "numbers").every(Duration::ZERO)
}

fn config(ranks: usize) -> Config {
    Config::new().ranks(ranks)
}

/// Runs a pipeline that writes its output to the file `out` in `dir`, and fails at item `fails_at`. Returns the number of items that reached the
/// first stage, and the number of items that earlier starts of the job had processed.
fn job(dir: &Path, ranks: usize, mapping: &str, fails_at: Option<u64>) -> Result<(u64, u64), Error> {
    let seen = AtomicU64::new(0);
    let summary = run(&config(ranks), |session| {
        let seen = &seen;
        let pipeline = Pipeline::source("numbers", || 0..ITEMS)
            .map("square", move |x| {
                seen.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(50));
                x * x
            })
            .flat_map("twice", |x| [x, x + 1])
            .filter("some", |x| x % 3 != 1)
            .stage("number", || Ok(Number::default()))
            .serial();
        let pipeline = pipeline.map("line", |(number, x)| format!("{number} {x}\n")).serial().stateless();
        let pipeline = pipeline.try_map("fail", move |line| match fails_at {
            Some(at) if line.starts_with(&format!("{at} ")) => Err("enough".into()),
            _ => Ok(line),
        });
        let pipeline = pipeline.mapping(MappingChoice::Text(mapping.into())).batch(BatchMode::Fixed(4));
        let written =
            pipeline
                .snapshots(checkpoint(dir))
                .write_to(session, &dir.join("out"), |line, file| Ok(file.write_all(line.as_bytes())?))?;
        Ok(written.into_summary())
    })?;
    let summary = summary.ok_or_else(|| Error::new(ErrorKind::User, "no summary"))?;
    assert_eq!(summary.items + summary.items_before, ITEMS);
    Ok((seen.load(Ordering::Relaxed), summary.items_before))
}

fn expected() -> String {
    let items = (0..ITEMS).flat_map(|x| [x * x, x * x + 1]).filter(|x| x % 3 != 1);
    let lines: Vec<String> = (1..).zip(items).map(|(number, x)| format!("{number} {x}\n")).collect();
    lines.concat() + &format!("{} {}\n", lines.len(), u64::MAX)
}

#[test]
fn restarted_jobs_write_each_item_once_on_any_ranks_and_mappings() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let all = "square@0,1,2 | twice@2 | some@0,1 | number@1 | line@2 | fail@0";
    for (ranks, mapping, fails_at) in
        [(3, all, 100), (1, "square+twice+some+number+line+fail@0", 250), (3, all, 400)]
    {
        let error = job(dir, ranks, mapping, Some(fails_at)).unwrap_err();
        assert_eq!(error.stage(), Some("fail"), "{error}");
        assert!(!dir.join("out").exists(), "the output is not complete");
    }
    let (seen, before) = job(dir, 2, "square+twice@0,1 | some+number@1 | line+fail@0", None).unwrap();
    assert!(before > 0, "the job continues from a snapshot");
    assert_eq!(seen, ITEMS - before, "what is before the snapshot is not computed again");
    assert_eq!(std::fs::read_to_string(dir.join("out")).unwrap(), expected());
    assert_eq!(job(dir, 2, "square+twice+some+number+line+fail@1", None).unwrap(), (0, ITEMS));
    assert_eq!(std::fs::read_to_string(dir.join("out")).unwrap(), expected());
}

struct Calls<'a>(&'a std::sync::Mutex<Vec<String>>);

impl Sink for Calls<'_> {
    type In = u64;

    fn take(&mut self, item: u64) -> Result<(), BoxError> {
        self.0.lock().unwrap().push(format!("take {item}"));
        Ok(())
    }

    fn commit(&mut self, items: u64) -> Result<Vec<u8>, BoxError> {
        self.0.lock().unwrap().push(format!("commit {items}"));
        Ok(vec![items as u8])
    }

    fn resume(&mut self, items: u64, state: &[u8]) -> Result<(), BoxError> {
        self.0.lock().unwrap().push(format!("resume {items} {state:?}"));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), BoxError> {
        self.0.lock().unwrap().push("finish".into());
        Ok(())
    }
}

#[test]
fn user_sink_commits_at_the_end_and_resumes_before_it_finishes() {
    let dir = tempfile::tempdir().unwrap();
    let calls = std::sync::Mutex::new(Vec::new());
    let start = || {
        run(&config(2), |session| {
            let numbers = Pipeline::source_at("numbers", |first| first..3u64).map("same", |x| x);
            let numbers = numbers.mapping(MappingChoice::Text("same@1".into()));
            let kept = Checkpoint::new(dir.path(), "three");
            numbers.snapshots(kept).run_into(session, "calls", || Ok(Calls(&calls)))?;
            Ok(())
        })
        .unwrap();
        std::mem::take(&mut *calls.lock().unwrap())
    };
    assert_eq!(start(), ["take 0", "take 1", "take 2", "commit 3", "finish"]);
    assert_eq!(start(), ["resume 3 [3]", "finish"]);
}

#[test]
fn pipeline_that_cannot_be_resumed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let kept = || Checkpoint::new(dir.path(), "");
    let numbers = || Pipeline::source("numbers", || 0..9u64).mapping(MappingChoice::Serial);
    let serial = || numbers().map("sum", |x| x).serial().snapshots(kept());
    for ranks in [1, 2] {
        let error = run(&config(ranks), |session| Ok(serial().for_each(session, "drop", drop).map(drop)?));
        let error = error.unwrap_err();
        assert_eq!((error.kind(), error.stage()), (ErrorKind::Config, Some("sum")));
        assert!(error.message().contains("the serial stage sum cannot save its state"), "{error}");
        let error =
            run(&config(ranks), |session| Ok(numbers().snapshots(kept()).collect(session).map(drop)?));
        let error = error.unwrap_err();
        assert!(error.message().contains("`collect` keeps the items in memory"), "{error}");
    }
}

#[test]
fn snapshot_of_another_pipeline_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let start = |name: &str, identity: &str, end: u64| {
        run(&config(1), |session| {
            let numbers = Pipeline::source("numbers", move || 0..end).map(name, |x| x);
            let kept = Checkpoint::new(dir.path(), identity);
            numbers.mapping(MappingChoice::Serial).snapshots(kept).for_each(session, "drop", drop)?;
            Ok(())
        })
    };
    start("same", "seed 1", 9).unwrap();
    for (name, identity, expected) in [
        ("other", "seed 1", "expected numbers: numbers u64, other u64"),
        ("same", "seed 2", "identity \"seed 2\""),
    ] {
        let error = start(name, identity, 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(
            error.message().contains("it belongs to another job: it is of numbers: numbers u64, same u64"),
            "{error}"
        );
        assert!(error.message().contains(expected), "{error}");
    }
}

#[test]
fn shorter_source_is_an_error_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let start = |items: u64, stop_at: u64| {
        run(&config(1), |session| {
            let numbers = Pipeline::source("numbers", move || 0..items).map("slow", |x| {
                std::thread::sleep(Duration::from_millis(1));
                x
            });
            let numbers = numbers.mapping(MappingChoice::Serial).batch(BatchMode::Fixed(1)).window(1);
            let sink = move |x| if x == stop_at { Err("enough".into()) } else { Ok(()) };
            numbers.snapshots(checkpoint(dir.path())).try_for_each(session, "sink", sink)?;
            Ok(())
        })
    };
    assert_eq!(start(100, 50).unwrap_err().item(), Some(50));
    let error = start(1, 50).unwrap_err();
    assert_eq!((error.kind(), error.stage()), (ErrorKind::Config, Some("numbers")));
    assert!(error.message().contains("but the source has fewer"), "{error}");
}

/// A byte of the last snapshot is changed after the job has died, so the next start of the job must use the preceding snapshot.
#[test]
fn torn_snapshot_falls_back_to_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    job(dir, 1, "square+twice+some+number+line+fail@0", Some(300)).unwrap_err();
    let manifest = std::fs::read_to_string(dir.join("kept/manifest")).unwrap();
    let pass: u64 = manifest.split("\"pass\":").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    let newest = std::fs::read_dir(dir.join("kept")).unwrap().map(|entry| entry.unwrap().path());
    let newest =
        newest.into_iter().find(|path| path.display().to_string().contains(&format!("pass-{pass}-")));
    let file = newest.unwrap().join("rank-0");
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (seen, before) = job(dir, 1, "square+twice+some+number+line+fail@0", None).unwrap();
    assert!(pass > 1 && before > 0 && seen == ITEMS - before, "{pass} snapshots, {before} items before");
    assert_eq!(std::fs::read_to_string(dir.join("out")).unwrap(), expected());
}

#[test]
fn unordered_pipeline_is_resumed_without_loss() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let start = |fails_at: Option<u64>| {
        run(&config(3), |session| {
            let numbers = Pipeline::source("numbers", || 0..ITEMS).map("square", |x| {
                std::thread::sleep(Duration::from_micros(20 * (x % 7)));
                x * x
            });
            let numbers = numbers.unordered().batch(BatchMode::Fixed(3)).snapshots(checkpoint(dir));
            let numbers = numbers.mapping(MappingChoice::Text("square@0,1,2".into()));
            numbers.write_to(session, &dir.join("out"), move |x, file| {
                if fails_at == Some(x) { Err("enough".into()) } else { Ok(writeln!(file, "{x}")?) }
            })?;
            Ok(())
        })
    };
    start(Some(200 * 200)).unwrap_err();
    start(Some(350 * 350)).unwrap_err();
    start(None).unwrap();
    let text = std::fs::read_to_string(dir.join("out")).unwrap();
    let mut written: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    written.sort_unstable();
    assert_eq!(written, (0..ITEMS).map(|x| x * x).collect::<Vec<_>>());
}

/// The directory of the snapshots becomes a file while the job runs, so that no further snapshot can be written.
#[test]
fn job_continues_when_a_snapshot_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    run(&config(2), |session| {
        let numbers = Pipeline::source("numbers", || 0..ITEMS).map("square", |x| {
            std::thread::sleep(Duration::from_millis(1));
            if x == 100 {
                while !dir.join("kept/manifest").exists() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                std::fs::rename(dir.join("kept"), dir.join("moved")).unwrap();
                std::fs::write(dir.join("kept"), "").unwrap();
            }
            x * x
        });
        let numbers =
            numbers.mapping(MappingChoice::Text("square@1".into())).batch(BatchMode::Fixed(1)).window(4);
        let numbers = numbers.snapshots(checkpoint(dir));
        numbers.write_to(session, &dir.join("out"), |x, file| Ok(writeln!(file, "{x}")?))?;
        Ok(())
    })
    .unwrap();
    let lines: Vec<String> = (0..ITEMS).map(|x| format!("{}\n", x * x)).collect();
    assert_eq!(std::fs::read_to_string(dir.join("out")).unwrap(), lines.concat());
    assert!(dir.join("moved/manifest").exists(), "there was a snapshot before");
}

/// No snapshot can be written after the first one: the test creates files whose names are those of the directories that later snapshots
/// need.
#[test]
fn finished_job_whose_last_snapshot_is_missing_starts_from_the_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let kept = dir.join("kept");
    let block = || {
        while !kept.join("manifest").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        for entry in std::fs::read_dir(&kept).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if let Some((number, attempt)) = name.strip_prefix("pass-").and_then(|rest| rest.split_once('-'))
            {
                let number: u64 = number.parse().unwrap();
                (number + 1..number + ITEMS)
                    .for_each(|next| drop(std::fs::write(kept.join(format!("pass-{next}-{attempt}")), "")));
            }
        }
    };
    let start = |is_blocked: bool| {
        run(&config(2), |session| {
            let numbers = Pipeline::source("numbers", || 0..ITEMS).map("square", |x| {
                if is_blocked {
                    std::thread::sleep(Duration::from_micros(100));
                    if x == 100 {
                        block();
                    }
                }
                x * x
            });
            let numbers =
                numbers.mapping(MappingChoice::Text("square@1".into())).batch(BatchMode::Fixed(1)).window(4);
            let numbers = numbers.snapshots(checkpoint(dir));
            let done = numbers.write_to(session, &dir.join("out"), |x, file| Ok(writeln!(file, "{x}")?))?;
            Ok(done.into_summary().map(|summary| summary.items))
        })
    };
    let lines: Vec<String> = (0..ITEMS).map(|x| format!("{}\n", x * x)).collect();
    for is_blocked in [true, false] {
        assert_eq!(start(is_blocked).unwrap(), Some(ITEMS), "blocked: {is_blocked}");
        assert_eq!(std::fs::read_to_string(dir.join("out")).unwrap(), lines.concat());
    }
    assert_eq!(start(false).unwrap(), Some(0), "the second start has recorded that it is finished");
}

#[test]
fn directory_of_a_running_job_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let start = |name: &'static str, until: &(dyn Fn() -> bool + Sync)| {
        run(&config(1), |session| {
            let numbers = Pipeline::source("numbers", || 0..2u64).map("wait", |x| {
                while !until() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                x
            });
            let numbers = numbers.mapping(MappingChoice::Serial).name(name).snapshots(checkpoint(dir.path()));
            numbers.for_each(session, "drop", drop)?;
            Ok(())
        })
    };
    let (running, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            start("first", &|| {
                running.store(1, Ordering::Relaxed);
                refused.load(Ordering::Relaxed) > 0
            })
        });
        while running.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        let error = start("second", &|| true).unwrap_err();
        refused.store(1, Ordering::Relaxed);
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains("Each job needs a separate directory"), "{error}");
        first.join().unwrap().unwrap();
    });
}
