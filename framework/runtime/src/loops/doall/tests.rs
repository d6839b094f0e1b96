//! Tests of DOALL loops on ranks that are threads.

use std::ops::Range;
use std::time::Duration;

use super::{DoAll, DoAllLoop};
use crate::error::{BoxError, Error, ErrorKind};
use crate::loops::{ParallelFor, Rows, Settings, Summary};
use crate::session::{Config, Driver, Progress, TransportChoice, run};

pub(super) fn config(ranks: usize) -> Config {
    Config::new()
        .transport(TransportChoice::Local)
        .ranks(ranks)
        .progress(Progress::Off)
        .peer_limit(Duration::from_secs(20))
        .join_limit(Duration::from_secs(20))
}

pub(super) fn noise(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// User code of a loop whose values depend on the unit (row or index) and on the number of passes. `NOWAIT` is true if passes need not wait for
/// each other.
struct Marked<const NOWAIT: bool> {
    width: usize,
    work: fn(u64),
}

fn mark(unit: u64, passes: u64) -> u64 {
    (0..passes).fold(unit, |x, _| noise(x))
}

impl<const NOWAIT: bool> DoAll for Marked<NOWAIT> {
    type Units = (Rows<u64>, Vec<String>);

    const NOWAIT: bool = NOWAIT;

    fn create(&mut self, range: Range<u64>) -> Result<Self::Units, BoxError> {
        let names = range.clone().map(|unit| unit.to_string()).collect();
        Ok((Rows::from_fn(range, self.width, |unit, row| row.fill(unit)), names))
    }

    fn compute(
        &mut self,
        range: Range<u64>,
        (rows, names): (&mut [u64], &mut [String]),
    ) -> Result<(), BoxError> {
        assert_eq!(
            (rows.len(), names.len()),
            ((range.end - range.start) as usize * self.width, (range.end - range.start) as usize)
        );
        rows.iter_mut().for_each(|x| *x = noise(*x));
        for (unit, name) in range.zip(names) {
            assert_eq!(name.split('+').next(), Some(&*unit.to_string()), "the data of another unit");
            name.push('+');
            (self.work)(unit);
        }
        Ok(())
    }
}

fn check(ranks: usize, units: u64, passes: u64, settings: &Settings, work: fn(u64)) -> Vec<Summary> {
    check_as::<false>(ranks, units, passes, settings, work)
}

pub(super) fn check_as<const NOWAIT: bool>(
    ranks: usize,
    units: u64,
    passes: u64,
    settings: &Settings,
    work: fn(u64),
) -> Vec<Summary> {
    let what = format!("{ranks} ranks, {units} units, {passes} passes, nowait {NOWAIT}");
    run(&config(ranks), |session| {
        let marked = Marked::<NOWAIT> { width: 3, work };
        let mut marked = DoAllLoop::new("marked", units, marked).settings(settings.clone());
        let mut summaries = Vec::new();
        for round in 1..=2 {
            let summary = marked.run(session, passes)?.into_summary();
            let gathered = marked.collect(session)?;
            assert_eq!((summary.is_some(), gathered.is_some()), (session.is_root(), session.is_root()));
            if let (Some(summary), Some((rows, names))) = (summary, gathered) {
                let expected: Vec<u64> =
                    (0..units).flat_map(|unit| [mark(unit, round * passes); 3]).collect();
                assert_eq!(rows.values(), expected, "{what}");
                let pluses = "+".repeat((round * passes) as usize);
                assert!(
                    names.iter().enumerate().all(|(n, name)| *name == format!("{n}{pluses}")),
                    "{what}: {names:?}"
                );
                let done: f64 = summary.ranks.iter().map(|rank| rank.units).sum();
                assert_eq!(done, (units * passes) as f64, "{what}: every unit once a pass");
                let sum =
                    |part: fn(&crate::loops::RankReport) -> u64| summary.ranks.iter().map(part).sum::<u64>();
                assert_eq!(sum(|rank| rank.held), units, "{what}");
                assert_eq!(sum(|rank| rank.sent), sum(|rank| rank.received), "{what}\n{summary}");
                assert_eq!((summary.units, summary.passes), (units, passes));
                summaries.push(summary);
            }
        }
        Ok(summaries)
    })
    .unwrap_or_else(|error| panic!("{what}: {error}"))
}

pub(super) fn nothing(_: u64) {}

#[test]
fn every_unit_runs_once_per_pass_on_any_rank_count() {
    for ranks in 1..=8 {
        for units in [0, 1, 2, ranks as u64 - 1, ranks as u64, 100, 1_000] {
            for passes in [1, 3] {
                check(ranks, units, passes, &Settings::new(), nothing);
            }
        }
    }
}

/// Runs a loop once for each of many random seeds. Units (rows or indices) move at random between any ranks, in blocks of several sizes.
/// Returns the total numbers of movements and of moved units.
pub(super) fn forced<const NOWAIT: bool>(
    ranks: impl Fn(u64) -> u64,
    units: [u64; 7],
    passes: impl Fn(u64) -> u64,
) -> (u64, u64) {
    let (mut movements, mut moved) = (0, 0);
    for seed in 0..1_200 {
        let settings = Settings::new().forced(seed).block_size(1 + noise(seed) % 6);
        let (ranks, units) = (ranks(seed) as usize, units[seed as usize % 7]);
        for summary in check_as::<NOWAIT>(ranks, units, passes(seed), &settings, nothing) {
            movements += summary.movements;
            moved += summary.moved();
        }
    }
    println!("{movements} movements of {moved} units");
    (movements, moved)
}

#[test]
fn forced_movements_do_not_change_results() {
    let units = [300, 40, 9, 3, 1, 0, 150];
    let (movements, moved) = forced::<false>(|seed| 1 + seed % 8, units, |seed| 1 + seed % 4);
    assert!(movements > 5_000 && moved > 25_000, "{movements} movements of {moved} units");
}

pub(super) fn uneven(unit: u64) {
    let time = match noise(unit) % 40 {
        0 => 3_000,
        1..6 => 300,
        _ => 0,
    };
    std::thread::sleep(Duration::from_micros(time));
}

#[test]
fn uneven_unit_times_do_not_change_results() {
    for ranks in [2, 3, 5] {
        check(ranks, 200, 2, &Settings::new(), uneven);
        check(ranks, 200, 1, &Settings::new().forced(3), uneven);
    }
}

/// A rank that is four times as slow as the others sends units (rows or indices) to other ranks, and the units stay there in the next run.
#[test]
fn units_move_away_from_a_slow_rank() {
    struct Slow(usize);
    impl DoAll for Slow {
        type Units = Vec<u64>;
        fn create(&mut self, range: Range<u64>) -> Result<Vec<u64>, BoxError> {
            Ok(range.collect())
        }
        fn compute(&mut self, _: Range<u64>, units: &mut [u64]) -> Result<(), BoxError> {
            // Rank 1 takes 24 ms per unit (row or index) and the other ranks take 6 ms. These times are long enough that other tests on the
            // same processor do not change their ratio.
            let each = if self.0 == 1 { 24 } else { 6 };
            std::thread::sleep(Duration::from_millis(each * units.len() as u64));
            Ok(())
        }
    }
    let summaries = run(&config(3), |session| {
        let mut slow = DoAllLoop::new("slow", 150, Slow(session.rank()));
        let mut summaries = Vec::new();
        for _ in 0..2 {
            summaries.extend(slow.run(session, 4)?.into_summary());
        }
        Ok(summaries)
    })
    .unwrap();
    let held = |n: usize| summaries[n].ranks.iter().map(|rank| rank.held).collect::<Vec<_>>();
    assert!(summaries[0].movements > 0, "{}", summaries[0]);
    assert!(held(0)[1] < 35 && held(0)[0] > 50, "{}", summaries[0]);
    assert!(summaries[1].first == held(0), "the second run begins where the first has ended");
    assert!(summaries[1].moved() < 50, "{}", summaries[1]);
    assert!(held(1)[1] < 35 && held(1)[0] > 50, "{}", summaries[1]);
}

/// Unit 0 takes as long as the 99 other units (rows or indices) together. While its rank computes unit 0, that rank's other units move to other
/// ranks.
#[test]
fn long_unit_does_not_delay_other_units() {
    fn long(unit: u64) {
        std::thread::sleep(Duration::from_millis(if unit == 0 { 800 } else { 8 }));
    }
    let summary = &check(4, 100, 1, &Settings::new(), long)[0];
    assert!(summary.ranks[0].units <= 12.0, "{summary}");
    // The duration of the run is compared with the computing times of the same run, because other load on the machine lengthens
    // both.
    let busy: Duration = summary.ranks.iter().map(|rank| rank.busy).sum();
    assert!(summary.elapsed < busy.mul_f64(0.8), "{summary}");
}

#[test]
fn no_units_move_with_balancing_off() {
    let settings = Settings::new().balance(crate::Balance::Off).shares([3.0, 1.0]);
    let summary = &check(2, 80, 2, &settings, uneven)[0];
    assert_eq!((summary.movements, summary.moved(), &summary.first), (0, 0, &vec![60, 20]));
}

fn failing(ranks: usize, fail: fn(u64) -> Result<(), BoxError>) -> Error {
    struct Failing(fn(u64) -> Result<(), BoxError>);
    impl DoAll for Failing {
        type Units = ();
        fn create(&mut self, range: Range<u64>) -> Result<(), BoxError> {
            range.filter(|unit| *unit == 99).try_for_each(self.0)
        }
        fn compute(&mut self, range: Range<u64>, (): ()) -> Result<(), BoxError> {
            range.filter(|unit| *unit == 17).try_for_each(self.0)
        }
    }
    run(&config(ranks), |session| {
        Ok(DoAllLoop::new("bad", 40, Failing(fail))
            .settings(Settings::new().block_size(5))
            .run(session, 3)?)
    })
    .unwrap_err()
}

#[test]
fn errors_and_panics_of_user_code_end_the_job() {
    for ranks in [1, 2, 4] {
        let error = failing(ranks, |_| Err("no pivot".into()));
        assert_eq!((error.kind(), error.stage()), (ErrorKind::User, Some("bad")), "{error}");
        // The failing unit (row or index) may have moved to another rank before it was computed, so the error may name any rank.
        assert!(error.rank().is_some_and(|rank| rank < ranks), "{error}");
        assert!(error.to_string().contains(": loop bad: no pivot (in unit"), "{error}");
        let error = failing(ranks, |_| panic!("out of luck"));
        assert_eq!(error.kind(), ErrorKind::Panic);
        let text = error.to_string();
        assert!(
            text.contains(": loop bad: panicked: out of luck (in unit") && text.ends_with(" of pass 1)"),
            "{text}"
        );
        if ranks == 1 {
            assert!(text.contains("(in units 15..20 of pass 1)"), "{text}");
        }
    }
    let error = run(&config(2), |session| {
        let mut wrong = DoAllLoop::new("wrong", 10, Wrong);
        Ok(wrong.run(session, 1)?)
    })
    .unwrap_err();
    assert!(
        error.to_string().contains("loop wrong: the data of units 0..5 cannot be 3 values for 5 units"),
        "{error}"
    );
}

struct Wrong;

impl DoAll for Wrong {
    type Units = Vec<u8>;
    fn create(&mut self, range: Range<u64>) -> Result<Vec<u8>, BoxError> {
        Ok(vec![0; if range.start == 0 { 3 } else { 5 }])
    }
    fn compute(&mut self, _: Range<u64>, _: &mut [u8]) -> Result<(), BoxError> {
        Ok(())
    }
}

#[test]
fn silent_rank_is_named() {
    // With the inline driver, user code runs on the communicating thread, and the rank sends no heartbeat until user code returns.
    let config = config(2).peer_limit(Duration::from_millis(300)).driver(Driver::Inline);
    let error = run(&config, |session| {
        ParallelFor::new("silent", 0..20).block_size(1).run(session, |range| {
            let time = if range.start == 18 { 5_000 } else { 20 };
            std::thread::sleep(Duration::from_millis(time));
            Ok(())
        })?;
        Ok(())
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with(
            "rank 0: loop silent: has waited 0 s for a heartbeat from rank 1; its last heartbeat:"
        ) && text.contains("for the reports of rank 1"),
        "{text}"
    );
}
