//! DOALL loops on ranks that are threads.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{DoAll, DoAllLoop};
use crate::error::{BoxError, Error, ErrorKind};
use crate::loops::{
    Ranges, Rows, Settings, Summary, map, parallel_for, parallel_for_with, reduce, reduce_any_order,
};
use crate::session::{Config, Progress, Session, TransportChoice, run};

pub(super) fn config(ranks: usize) -> Config {
    Config::new()
        .transport(TransportChoice::Local)
        .ranks(ranks)
        .progress(Progress::Off)
        .peer_limit(Duration::from_secs(20))
        .join_limit(Duration::from_secs(20))
}

/// A number that looks random.
pub(super) fn noise(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// Units whose data say who they are, and how often they were done. Passes wait for each other, or not.
struct Marked<const NOWAIT: bool> {
    width: usize,
    work: fn(u64),
}

/// The data of a unit after so many passes.
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

/// Runs a loop of so many passes, twice, and checks what is gathered after each.
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
            let summary = marked.passes(session, passes)?;
            let gathered = marked.gather(session)?;
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
fn every_unit_is_done_once_a_pass_on_any_number_of_ranks() {
    for ranks in 1..=8 {
        for units in [0, 1, 2, ranks as u64 - 1, ranks as u64, 100, 1_000] {
            for passes in [1, 3] {
                check(ranks, units, passes, &Settings::new(), nothing);
            }
        }
    }
}

/// Runs a loop for each seed, with movements between any ranks at any time, in blocks of all sizes. Returns how many
/// movements there were, and of how many units.
pub(super) fn forced<const NOWAIT: bool>(
    ranks: impl Fn(u64) -> u64,
    units: [u64; 7],
    passes: impl Fn(u64) -> u64,
) -> (u64, u64) {
    let (mut movements, mut moved) = (0, 0);
    for seed in 0..1_200 {
        let settings = Settings::new().forced(seed).block(1 + noise(seed) % 6);
        let settings = if seed % 5 == 0 { settings.synchronous() } else { settings };
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
fn forced_movements_change_nothing() {
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
fn units_of_uneven_times() {
    for ranks in [2, 3, 5] {
        check(ranks, 200, 2, &Settings::new(), uneven);
        check(ranks, 200, 1, &Settings::new().forced(3), uneven);
    }
}

/// A rank that is four times slower than the others gives units away, and they stay where they went.
#[test]
fn units_leave_a_slow_rank() {
    struct Slow(usize);
    impl DoAll for Slow {
        type Units = Vec<u64>;
        fn create(&mut self, range: Range<u64>) -> Result<Vec<u64>, BoxError> {
            Ok(range.collect())
        }
        fn compute(&mut self, _: Range<u64>, units: &mut [u64]) -> Result<(), BoxError> {
            let each = if self.0 == 1 { 8 } else { 2 };
            std::thread::sleep(Duration::from_millis(each * units.len() as u64));
            Ok(())
        }
    }
    let summaries = run(&config(3), |session| {
        let mut slow = DoAllLoop::new("slow", 150, Slow(session.rank()));
        let mut summaries = Vec::new();
        for _ in 0..2 {
            summaries.extend(slow.passes(session, 4)?);
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

/// One unit takes as long as all the others: these go elsewhere meanwhile.
#[test]
fn a_unit_that_takes_long_keeps_nobody_else_waiting() {
    fn long(unit: u64) {
        std::thread::sleep(Duration::from_millis(if unit == 0 { 800 } else { 8 }));
    }
    let summary = &check(4, 100, 1, &Settings::new(), long)[0];
    assert!(summary.ranks[0].units <= 12.0, "{summary}");
    assert!(summary.elapsed < Duration::from_millis(1300), "{summary}");
}

#[test]
fn nothing_moves_where_that_is_switched_off() {
    let settings = Settings::new().balance(crate::Balance::Off).shares([3.0, 1.0]);
    let summary = &check(2, 80, 2, &settings, uneven)[0];
    assert_eq!((summary.movements, summary.moved(), &summary.first), (0, 0, &vec![60, 20]));
}

/// What goes wrong in user code, on the rank that has unit 17.
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
        Ok(DoAllLoop::new("bad", 40, Failing(fail)).settings(Settings::new().block(5)).passes(session, 3)?)
    })
    .unwrap_err()
}

#[test]
fn errors_and_panics_of_user_code_end_the_job() {
    for ranks in [1, 2, 4] {
        let error = failing(ranks, |_| Err("no pivot".into()));
        assert_eq!((error.kind(), error.stage()), (ErrorKind::User, Some("bad")), "{error}");
        // Units may have moved before.
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
        Ok(wrong.run(session)?)
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
fn a_silent_rank_is_named() {
    let config = config(2).peer_limit(Duration::from_millis(300));
    let error = run(&config, |session| {
        parallel_for_with(session, "silent", 0..20, Settings::new().block(1), |range| {
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
        text.starts_with("rank 0: loop silent: waited") && text.contains("for the reports of rank 1"),
        "{text}"
    );
}

#[test]
fn ranges_hand_out_every_index_once() {
    for ranks in [1, 2, 3, 8] {
        for (indices, seed) in
            [(5..5, None), (7..8, None), (3..6, Some(1)), (10..510, None), (0..300, Some(2))]
        {
            let done = Mutex::new(Vec::new());
            let settings = Settings::new();
            let settings = match seed {
                Some(seed) => settings.forced(seed).block(3),
                None => settings,
            };
            run(&config(ranks), |session: &Session| {
                let mut ranges = Ranges::with(session, "ranges", indices.clone(), settings.clone())?;
                while let Some(range) = ranges.next()? {
                    done.lock().unwrap().extend(range);
                }
                assert_eq!(ranges.next()?, None, "it stays at its end");
                assert_eq!(
                    ranges.summary().map(|s| s.units),
                    session.is_root().then_some(indices.end - indices.start)
                );
                Ok(())
            })
            .unwrap();
            let mut done = done.into_inner().unwrap();
            done.sort_unstable();
            assert_eq!(done, indices.collect::<Vec<_>>(), "{ranks} ranks");
        }
    }
}

/// The indices that each rank has done. They take long on rank 0.
fn done_by(ranks: usize, settings: &Settings, has_hooks: bool) -> Vec<Vec<u64>> {
    let done = Mutex::new(vec![Vec::new(); ranks]);
    run(&config(ranks), |session: &Session| {
        let rank = session.rank();
        let mut ranges = Ranges::with(session, "hooks", 100..200, settings.clone())?;
        while let Some(mut range) = ranges.next()? {
            while let Some(index) = range.next() {
                std::thread::sleep(Duration::from_micros(if rank == 0 { 4_000 } else { 300 }));
                done.lock().unwrap()[rank].push(index);
                if has_hooks {
                    range = ranges.hook(range)?;
                }
            }
        }
        Ok(())
    })
    .unwrap();
    done.into_inner().unwrap()
}

#[test]
fn units_that_are_handed_out_move_where_there_is_a_hook() {
    let whole = Settings::new().block(100);
    let without = done_by(2, &whole, false);
    assert_eq!(without[0], (100..150).collect::<Vec<_>>());
    let with = done_by(2, &whole, true);
    assert!(with[0].len() < 35, "{with:?}");
}

#[test]
fn indices_are_done_once_where_there_are_hooks() {
    for ranks in [1, 2, 3, 8] {
        for seed in 0..6 {
            let settings = Settings::new().forced(seed).block(1 + 17 * seed);
            let settings = if seed % 2 == 0 { settings.synchronous() } else { settings };
            let mut all = done_by(ranks, &settings, true).concat();
            all.sort_unstable();
            assert_eq!(all, (100..200).collect::<Vec<_>>(), "{ranks} ranks, seed {seed}");
        }
    }
}

#[test]
fn a_hook_wants_the_rest_of_the_range() {
    let error = run(&config(1), |session: &Session| {
        let mut ranges = Ranges::with(session, "hooks", 10..30, Settings::new().block(8))?;
        assert_eq!((ranges.next()?, ranges.hook(13..18)?), (Some(10..18), 13..18));
        assert_eq!(ranges.hook(18..18)?, 18..18, "all is done");
        assert_eq!(ranges.next()?, Some(18..26));
        ranges.hook(17..26)?;
        Ok(())
    });
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::User);
    assert!(error.to_string().contains("loop hooks: 17..26 is not what is left of 18..26"), "{error}");
}

#[test]
fn results_of_closures_are_those_of_the_serial_loop() {
    let third = |n: u64| 1.0 / (3 * n + 1) as f64;
    let serial = (5..905).map(third).fold(0.5, |sum, x| sum + x);
    for ranks in [1, 2, 3, 7] {
        let (names, sum, most) = run(&config(ranks), |session| {
            let names = map(session, "names", 3..203, |n| n.to_string())?;
            let sum = reduce(session, "sum", 5..905, third, 0.5, |sum, x| sum + x)?;
            let most = reduce_any_order(session, "most", 0..500, noise, 0, u64::max)?;
            assert!(map(session, "none", 3..3, |n| n)?.is_empty());
            Ok((names, sum, most))
        })
        .unwrap();
        assert_eq!(names, (3..203).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(sum.to_bits(), serial.to_bits());
        assert_eq!(Some(most), (0..500).map(noise).max());
    }
    let count = AtomicU64::new(0);
    let settings = Settings::new().forced(4).block(2);
    run(&config(4), |session| {
        parallel_for_with(session, "count", 0..100, settings.clone(), |range| {
            count.fetch_add(range.end - range.start, Ordering::Relaxed);
            // The session tells the time also while a loop runs.
            assert!(session.elapsed() > Duration::ZERO && !session.is_simulated());
            Ok(())
        })?;
        parallel_for(session, "count", 100..150, |range| {
            count.fetch_add(range.end - range.start, Ordering::Relaxed);
            Ok(())
        })?;
        Ok(())
    })
    .unwrap();
    assert_eq!(count.into_inner(), 150);
}

#[test]
fn a_closure_that_fails_names_its_indices() {
    // Without movements it is known which rank has which index.
    let still = Settings::new().balance(crate::Balance::Off);
    let error = run(&config(2), |session| {
        parallel_for_with(session, "odd", 30..40, still.clone(), |range| {
            if range.contains(&38) { Err("odd".into()) } else { Ok(()) }
        })?;
        Ok(())
    })
    .unwrap_err();
    assert_eq!((error.kind(), error.rank()), (ErrorKind::User, Some(1)), "{error}");
    assert!(error.to_string().contains("loop odd: odd (in unit"), "{error}");
}
