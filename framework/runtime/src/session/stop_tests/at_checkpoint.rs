//! Jobs that are asked to stop at their next checkpoint or snapshot, and stops whose last checkpoint cannot be written.

use std::path::Path;

use super::*;

/// Content of the file by which `armature stop --after-checkpoint` asks for a stop.
const REQUEST: &str = "armature stop --after-checkpoint\n";

/// Time between checkpoints: longer than the second in which rank 0 notices the file that asks for a stop.
const PERIOD: Duration = Duration::from_millis(1_600);

/// A job that is asked to stop at its next checkpoint as soon as it has begun.
fn asked_at_once() -> Run {
    Run { request: REQUEST, ..Run::new(1) }
}

fn checkpoint(run_directory: &Run, period: Duration) -> Checkpoint {
    Checkpoint::new(run_directory.path("checkpoint"), "").every(period)
}

/// Loop of 12 rows, each of which takes as many milliseconds as there are ranks, so that a pass over all rows takes 12 ms on any number of ranks.
fn count(run_directory: &Run, ranks: usize, passes: u64, checkpoint: Option<Checkpoint>) -> Result<()> {
    run(&run_directory.config(ranks), |session| {
        let mut counter = DoAllLoop::new("count", 12, Counter(run_directory, ranks as u64));
        if let Some(checkpoint) = checkpoint.clone() {
            counter = counter.checkpoint(checkpoint);
        }
        counter.run(session, passes)?;
        let expected = Rows::from_fn(0..12, 1, |unit, row| row.fill(unit + 100 * passes));
        assert!(counter.collect(session)?.is_none_or(|rows| rows == expected));
        Ok(())
    })
}

#[test]
fn loop_stops_when_its_next_checkpoint_is_due() {
    const PASSES: u64 = 250;
    for ranks in [1, 3] {
        let (run_directory, begin) = (asked_at_once(), Instant::now());
        let start = || count(&run_directory, ranks, PASSES, Some(checkpoint(&run_directory, PERIOD)));
        run_directory.is_stopped(start(), " of 250 passes are in ");
        assert!(begin.elapsed() >= PERIOD, "stopped after {:?}", begin.elapsed());
        start().unwrap();
        assert_eq!(run_directory.done.lock().unwrap().len() as u64, 12 * PASSES);
    }
}

#[test]
fn grid_stops_when_its_next_checkpoint_is_due() {
    let shape = Shape { rows: 14, columns: 10 };
    for ranks in [1, 3] {
        let (run_directory, begin) = (asked_at_once(), Instant::now());
        let stopped = run(&run_directory.config(ranks), |session| {
            let mut across = DoAcrossLoop::new("add", shape, Add(&run_directory))
                .checkpoint(checkpoint(&run_directory, PERIOD));
            across.run(session, 100_000)?;
            Ok(())
        });
        run_directory.is_stopped(stopped, " of 100,000 sweeps are in ");
        assert!(begin.elapsed() >= PERIOD, "stopped after {:?}", begin.elapsed());
    }
}

#[test]
fn pipeline_stops_when_its_next_snapshot_is_due() {
    const ITEMS: u64 = 1_500;
    for ranks in [1, 3] {
        let run_directory = asked_at_once();
        let start = || {
            run(&run_directory.config(ranks), |session| {
                let doubled = Pipeline::source("numbers", || 0..ITEMS).map("double", |n| {
                    run_directory.work(n, 2 * ranks as u64);
                    2 * n
                });
                doubled.snapshots(checkpoint(&run_directory, PERIOD)).write_to(
                    session,
                    &run_directory.path("out"),
                    |n, file| Ok(writeln!(file, "{n}")?),
                )?;
                Ok(())
            })
        };
        let begin = Instant::now();
        run_directory.is_stopped(start(), " of 1,500 items are in ");
        assert!(begin.elapsed() >= PERIOD, "stopped after {:?}", begin.elapsed());
        start().unwrap();
        run_directory.did_each_once(ITEMS);
    }
}

#[test]
fn skeletons_without_checkpoints_stop_at_once() {
    let run_directory = asked_at_once();
    run_directory
        .is_stopped(count(&run_directory, 2, 1_000_000, None), "passes were done, and nothing is kept");
    let run_directory = asked_at_once();
    let stopped = run(&run_directory.config(2), |session| {
        let mut farm = Farm::new("endless", |n: u64| run_directory.work(n, 5))
            .journal(run_directory.path("journal"), "");
        farm.for_each(session, 0.., |_, ()| ())?;
        Ok(())
    });
    run_directory.is_stopped(stopped, " tasks are in ");
}

#[test]
fn second_request_stops_a_loop_at_once() {
    let run_directory = asked_at_once();
    let hours = checkpoint(&run_directory, Duration::from_secs(36_000));
    let stopped = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !run_directory.path("stop").exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
            // Rank 0 removes the file when it takes the first request to stop.
            while run_directory.path("stop").exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::fs::write(run_directory.path("stop"), "").unwrap();
        });
        count(&run_directory, 2, 1_000_000, Some(hours))
    });
    run_directory.is_stopped(stopped, " of 1,000,000 passes are in ");
}

/// Puts a file in the place of the directory, so that not even root can write to it.
fn hide(dir: &Path) {
    std::fs::rename(dir, dir.with_extension("hidden")).unwrap();
    std::fs::write(dir, "").unwrap();
}

fn restore(dir: &Path) {
    std::fs::remove_file(dir).unwrap();
    std::fs::rename(dir.with_extension("hidden"), dir).unwrap();
}

fn passes_kept(dir: &Path) -> Option<u64> {
    // While the description of the checkpoint is replaced, it is `manifest.old` for a moment.
    let manifests = ["manifest", "manifest.old"].map(|name| std::fs::read_to_string(dir.join(name)));
    let manifest = manifests.into_iter().find_map(Result::ok)?;
    manifest.split_once("\"pass\":")?.1.split(',').next()?.parse().ok()
}

/// Waits until the checkpoint has more than `passes` passes over all rows, and returns their number.
fn wait_for_passes(dir: &Path, passes: u64) -> u64 {
    let begin = Instant::now();
    loop {
        match passes_kept(dir) {
            Some(kept) if kept > passes => return kept,
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "no checkpoint of more than {passes} passes");
    }
}

#[test]
fn loop_continues_without_a_checkpoint_that_cannot_be_written() {
    for ranks in [1, 3] {
        let run_directory = Run::new(usize::MAX);
        let dir = run_directory.path("checkpoint");
        std::thread::scope(|scope| {
            let ended = scope.spawn(|| {
                let often = checkpoint(&run_directory, Duration::from_millis(20));
                count(&run_directory, ranks, 300, Some(often))
            });
            wait_for_passes(&dir, 1);
            hide(&dir);
            std::thread::sleep(Duration::from_millis(300));
            let kept = passes_kept(&dir.with_extension("hidden")).unwrap();
            restore(&dir);
            wait_for_passes(&dir, kept + 1);
            ended.join().unwrap().unwrap();
        });
    }
}

#[test]
fn stop_names_the_older_checkpoint_if_the_last_one_cannot_be_written() {
    for ranks in [1, 3] {
        let run_directory = Run::new(usize::MAX);
        let dir = run_directory.path("checkpoint");
        let start = || {
            let often = checkpoint(&run_directory, Duration::from_millis(500));
            count(&run_directory, ranks, 1_000_000, Some(often))
        };
        let kept = std::thread::scope(|scope| {
            let stopped = scope.spawn(start);
            wait_for_passes(&dir, 1);
            // After this time, the description of the checkpoint is synced to the disk, and the next checkpoint has not begun.
            std::thread::sleep(Duration::from_millis(200));
            hide(&dir);
            std::fs::write(run_directory.path("stop"), "").unwrap();
            let stopped = stopped.join().unwrap();
            restore(&dir);
            let kept = passes_kept(&dir).unwrap();
            run_directory.is_stopped(stopped, &format!("; {kept} of 1,000,000 passes are in "));
            kept
        });
        assert!(run_directory.done.lock().unwrap().len() as u64 > 12 * kept);
    }
}
