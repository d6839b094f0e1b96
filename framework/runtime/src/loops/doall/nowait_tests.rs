//! Tests of DOALL loops whose passes need not wait for each other, on ranks that are threads.

use std::ops::Range;
use std::time::Duration;

use super::tests::{check_as, config, forced, noise, nothing, uneven};
use super::{DoAll, DoAllLoop};
use crate::error::BoxError;
use crate::loops::Settings;
use crate::session::run;

#[test]
fn every_unit_runs_once_per_pass() {
    for ranks in 1..=8 {
        for units in [0, 1, 2, ranks as u64 - 1, ranks as u64, 100, 1_000] {
            check_as::<true>(ranks, units, 7, &Settings::new(), nothing);
        }
    }
    for ranks in [2, 3, 5] {
        check_as::<true>(ranks, 100, 4, &Settings::new(), uneven);
    }
}

/// Without barriers between passes, units (rows or indices) on one rank may have completed some passes more than those on another
/// rank.
#[test]
fn forced_movements_do_not_change_nowait_results() {
    let units = [100, 31, 9, 3, 1, 0, 60];
    let (movements, moved) = forced::<true>(|seed| 2 + seed % 5, units, |seed| 1 + noise(seed) % 9);
    assert!(movements > 2_500 && moved > 12_500, "{movements} movements of {moved} units");
}

/// Two ranks are slow in alternate passes. With barriers every pass takes as long as its slow rank; without barriers both ranks need the same time
/// for all passes.
#[test]
fn nowait_passes_do_not_wait() {
    struct Takes<const NOWAIT: bool>(usize);
    impl<const NOWAIT: bool> DoAll for Takes<NOWAIT> {
        type Units = Vec<usize>;
        const NOWAIT: bool = NOWAIT;
        fn create(&mut self, range: Range<u64>) -> Result<Vec<usize>, BoxError> {
            Ok(range.map(|_| 0).collect())
        }
        fn compute(&mut self, _: Range<u64>, passes: &mut [usize]) -> Result<(), BoxError> {
            for pass in passes {
                std::thread::sleep(Duration::from_millis(if *pass % 2 == self.0 { 18 } else { 2 }));
                *pass += 1;
            }
            Ok(())
        }
    }
    fn waiting<const NOWAIT: bool>() -> f64 {
        let summary = run(&config(2), |session| {
            let settings = Settings::new().balance(crate::Balance::Off);
            let takes = Takes::<NOWAIT>(session.rank());
            Ok(DoAllLoop::new("takes", 2, takes).settings(settings).run(session, 20)?.into_summary())
        });
        let summary = summary.unwrap().unwrap();
        assert_eq!((summary.passes, summary.ranks[0].units), (20, 20.0));
        summary.ranks.iter().map(|rank| rank.waiting.as_secs_f64()).sum()
    }
    let (with, without) = (waiting::<false>(), waiting::<true>());
    assert!(without < with / 2.0, "ranks waited {without} s without barriers, {with} s with them");
}
