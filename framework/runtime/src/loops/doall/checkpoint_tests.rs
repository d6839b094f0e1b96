//! Tests of jobs that end early and are restarted from a checkpoint.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{DoAll, DoAllLoop};
use crate::error::{BoxError, ErrorKind, Result};
use crate::loops::{Checkpoint, Rows, Settings, Summary};
use crate::session::{Config, run};

type Counts = (Rows<u64>, Vec<String>);

const UNITS: u64 = 23;
const PASSES: u64 = 400;

struct Counter {
    /// Directory of checkpoints. User code fails on purpose as soon as the directory holds another checkpoint than the first one, which can be that of
    /// the first pass.
    killed: Option<PathBuf>,
    /// Time at which the first checkpoint was written, if user code has seen it.
    first: Option<SystemTime>,
}

impl Counter {
    fn new(killed: Option<PathBuf>) -> Self {
        Counter { killed, first: None }
    }

    fn is_killed(&mut self) -> bool {
        let Some(manifest) = self.killed.as_ref().map(|dir| dir.join("manifest")) else { return false };
        let Ok(written) = manifest.metadata().and_then(|of| of.modified()) else { return false };
        written != *self.first.get_or_insert(written)
    }
}

impl DoAll for Counter {
    type Units = Counts;

    /// Although `NOWAIT` permits a rank to run ahead, passes of a loop with checkpoints wait for each other.
    const NOWAIT: bool = true;

    fn create(&mut self, range: Range<u64>) -> Result<Self::Units, BoxError> {
        let names = range.clone().map(|unit| unit.to_string()).collect();
        Ok((Rows::from_fn(range, 3, |unit, row| row.fill(unit)), names))
    }

    fn compute(&mut self, _: Range<u64>, (rows, names): (&mut [u64], &mut [String])) -> Result<(), BoxError> {
        if self.is_killed() {
            return Err("enough".into());
        }
        // Sleeps, to give the disk time to write a checkpoint.
        std::thread::sleep(Duration::from_micros(50));
        rows.iter_mut().for_each(|x| *x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        names.iter_mut().for_each(|name| name.truncate(1));
        Ok(())
    }
}

fn run_passes(
    ranks: usize,
    dir: &Path,
    (is_mortal, seed): (bool, Option<u64>),
    runs: &[u64],
) -> Result<(Option<Counts>, Option<Summary>)> {
    run(&Config::new().ranks(ranks), |session| {
        let settings = seed.map_or(Settings::new(), |seed| Settings::new().forced(seed));
        let settings = settings.checkpoint(Checkpoint::new(dir, "").every(Duration::ZERO));
        let body = Counter::new(is_mortal.then(|| dir.to_path_buf()));
        let mut counter = DoAllLoop::new("count", UNITS, body).settings(settings);
        let mut summary = None;
        for &passes in runs {
            summary = counter.run(session, passes)?.into_summary();
        }
        Ok((counter.collect(session)?, summary))
    })
}

fn expected() -> Counts {
    let value =
        |unit| (0..PASSES).fold(unit, |x: u64, _| x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let names = (0..UNITS).map(|unit| unit.to_string()[..1].to_string()).collect();
    (Rows::from_fn(0..UNITS, 3, |unit, row| row.fill(value(unit))), names)
}

#[test]
fn job_resumes_from_its_checkpoint_on_any_rank_count() {
    for (before, after, seed) in [(1, 3, None), (3, 1, Some(1)), (2, 8, Some(2)), (30, 4, None)] {
        let dir = tempfile::tempdir().unwrap();
        let error = run_passes(before, dir.path(), (true, seed), &[PASSES]).unwrap_err();
        assert!(error.to_string().contains("loop count: enough (in unit"), "{error}");
        let (units, summary) = run_passes(after, dir.path(), (false, seed), &[PASSES]).unwrap();
        assert!(units.unwrap() == expected(), "{before} ranks, then {after}");
        let summary = summary.unwrap();
        assert!(summary.passes < PASSES, "{summary}");
    }
}

#[test]
fn checkpoint_directory_belongs_to_one_loop() {
    let dir = tempfile::tempdir().unwrap();
    let error = run(&Config::new().ranks(2), |session| {
        for _ in 0..2 {
            let checkpoint = Checkpoint::new(dir.path(), "").every(Duration::ZERO);
            DoAllLoop::new("count", UNITS, Counter::new(None)).checkpoint(checkpoint).run(session, PASSES)?;
        }
        Ok(())
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("was used by an earlier run of this job"), "{error}");
}

#[test]
fn checkpoint_belongs_to_one_run() {
    let dir = tempfile::tempdir().unwrap();
    run_passes(2, dir.path(), (true, None), &[PASSES]).unwrap_err();
    for (runs, expected) in
        [(&[PASSES, 1][..], "this is not the first run"), (&[1], "but the run has only 1")]
    {
        let error = run_passes(2, dir.path(), (false, None), runs).unwrap_err();
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains(expected), "{error}");
    }
}
