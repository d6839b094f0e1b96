//! Loops over independent indices with data: in each pass over all indices, each index must be computed once, with its own data, on any rank.

use std::ops::Range;

use armature::loops::{DoAll, DoAllLoop, ParallelFor, Rows, Settings, Summary, map, reduce};
use armature::{Balance, BoxError, Session};

use crate::Case;
use crate::check::{Work, check_equal, ensure, noise};

pub(super) const CASES: &[Case] = &[
    Case { name: "units", run: units },
    Case { name: "units-few", run: few },
    Case { name: "units-moving", run: |session| moving(session, 0..6) },
    Case { name: "units-large", run: large },
    Case { name: "ranges", run: ranges },
    Case { name: "closures", run: closures },
];

/// Case with hundreds of seeds, each of which selects other random movements of indices between ranks.
pub(super) const SEEDS: Case = Case { name: "units-seeds", run: |session| moving(session, 6..206) };

/// Loops with slow user code. A call takes longer than a rank may be silent, or longer than the other ranks may continue after a failure.
pub(super) const SLOW: &[Case] = &[
    Case { name: "units-slow", run: slow },
    Case { name: "units-fail-beside-slow", run: fails_during_slow_unit },
];

/// Each index has a row of numbers and a text, which identify it and count its computations. If `NOWAIT` is true, there is no barrier between passes
/// over all indices.
struct Marked<const NOWAIT: bool> {
    work: Work,
    width: usize,
}

impl<const NOWAIT: bool> DoAll for Marked<NOWAIT> {
    type Units = (Rows<u64>, Vec<String>);

    const NOWAIT: bool = NOWAIT;

    fn create(&mut self, range: Range<u64>) -> Result<Self::Units, BoxError> {
        let names = range.clone().map(|unit| format!("{unit}:")).collect();
        Ok((Rows::from_fn(range, self.width, |unit, row| row.fill(unit)), names))
    }

    fn compute(
        &mut self,
        range: Range<u64>,
        (rows, names): (&mut [u64], &mut [String]),
    ) -> Result<(), BoxError> {
        for ((unit, row), name) in range.zip(rows.chunks_exact_mut(self.width)).zip(names) {
            ensure(name.starts_with(&format!("{unit}:")), || format!("unit {unit} got the data of {name}"))?;
            name.push('+');
            row.iter_mut().for_each(|x| *x = noise(6, *x));
            self.work.take_uneven(7, unit);
        }
        Ok(())
    }
}

/// Runs a loop with and a loop without barriers between its passes over all indices, each twice. Returns the summaries.
fn check(
    session: &mut Session,
    units: u64,
    passes: u64,
    settings: &Settings,
) -> Result<Vec<Summary>, BoxError> {
    let mut summaries = check_as::<false>(session, units, passes, settings)?;
    summaries.extend(check_as::<true>(session, units, passes, settings)?);
    Ok(summaries)
}

fn check_as<const NOWAIT: bool>(
    session: &mut Session,
    units: u64,
    passes: u64,
    settings: &Settings,
) -> Result<Vec<Summary>, BoxError> {
    let marked = Marked::<NOWAIT> { work: Work::on(session), width: 3 };
    let mut marked = DoAllLoop::new("marked", units, marked).settings(settings.clone());
    let mut summaries = Vec::new();
    for run in 1..=2 {
        if let Some(summary) = marked.run(session, passes)?.into_summary() {
            let done: f64 = summary.ranks.iter().map(|rank| rank.units).sum();
            let held: u64 = summary.ranks.iter().map(|rank| rank.held).sum();
            ensure(done == (units * passes) as f64 && held == units, || {
                format!("{units} units, {passes} passes: not every unit was done once a pass\n{summary}")
            })?;
            summaries.push(summary);
        }
        let (rows, names) =
            marked.collect(session)?.map_or_else(Default::default, |(r, n)| (r.into_values(), n));
        let what = format!("{units} units, {} passes", run * passes);
        let expected_value = |unit: u64| (0..run * passes).fold(unit, |x, _| noise(6, x));
        check_equal(
            session,
            &what,
            &rows,
            &(0..units).flat_map(|unit| [expected_value(unit); 3]).collect::<Vec<_>>(),
        )?;
        let name = |unit: u64| format!("{unit}:{}", "+".repeat((run * passes) as usize));
        check_equal(session, &what, &names, &(0..units).map(name).collect::<Vec<_>>())?;
    }
    Ok(summaries)
}

fn units(session: &mut Session) -> Result<(), BoxError> {
    check(session, 200, 2, &Settings::new())?;
    check(session, 150, 1, &Settings::new().block_size(4))?;
    let fixed = Settings::new().balance(Balance::Off).block_size(9);
    for summary in check(session, 100, 3, &fixed)? {
        ensure(summary.moved() == 0, || format!("units have moved although they may not\n{summary}"))?;
    }
    Ok(())
}

fn few(session: &mut Session) -> Result<(), BoxError> {
    for units in [0, 1, 2, session.size() as u64 - 1, session.size() as u64 + 1] {
        check(session, units, 2, &Settings::new())?;
        check(session, units, 3, &Settings::new().forced(units))?;
    }
    Ok(())
}

fn moving(session: &mut Session, seeds: Range<u64>) -> Result<(), BoxError> {
    let (mut movements, least) = (0, 5 * (seeds.end - seeds.start));
    for seed in seeds {
        let settings = Settings::new().forced(seed).block_size(1 + seed % 4);
        for summary in check(session, 120 + 13 * (seed % 6), 1 + seed % 3, &settings)? {
            movements += summary.movements;
        }
    }
    ensure(!session.is_root() || session.size() == 1 || movements > least, || {
        format!("units have moved only {movements} times")
    })
}

/// Loop over rows that are too large for MPI to send them eagerly, and for the first part (head) of a message of armature.
fn large(session: &mut Session) -> Result<(), BoxError> {
    struct Large;
    impl DoAll for Large {
        type Units = Rows<u64>;
        fn create(&mut self, range: Range<u64>) -> Result<Rows<u64>, BoxError> {
            Ok(Rows::from_fn(range, 5_000, |unit, row| row.fill(unit)))
        }
        fn compute(&mut self, _: Range<u64>, rows: &mut [u64]) -> Result<(), BoxError> {
            rows.iter_mut().for_each(|x| *x += 1_000);
            Ok(())
        }
    }
    let mut loops = DoAllLoop::new("large", 60, Large).settings(Settings::new().forced(5).block_size(2));
    loops.run(session, 3)?;
    let rows = loops.collect(session)?.map_or_else(Vec::new, Rows::into_values);
    check_equal(
        session,
        "large rows",
        &rows,
        &(0..60).flat_map(|unit| [unit + 3_000; 5_000]).collect::<Vec<_>>(),
    )
}

fn nap(seconds: u64) {
    std::thread::sleep(std::time::Duration::from_secs(seconds));
}

/// A few indices of a loop take three seconds: on rank 0, on the last rank, and in the creation of the data. The others take almost no time.
fn slow(session: &mut Session) -> Result<(), BoxError> {
    const UNITS: u64 = 300;
    struct Slow {
        is_slow_rank: bool,
    }
    impl DoAll for Slow {
        type Units = Vec<u64>;
        fn create(&mut self, range: Range<u64>) -> Result<Vec<u64>, BoxError> {
            if self.is_slow_rank {
                nap(3);
            }
            Ok(range.collect())
        }
        fn compute(&mut self, range: Range<u64>, units: &mut [u64]) -> Result<(), BoxError> {
            for (unit, value) in range.zip(units) {
                if unit == 40 || unit == UNITS - 9 {
                    nap(3);
                }
                *value += 1_000;
            }
            Ok(())
        }
    }
    let is_slow_rank = session.rank() + 1 == session.size();
    let mut slow = DoAllLoop::new("slow", UNITS, Slow { is_slow_rank });
    slow.run(session, 1)?;
    let units = slow.collect(session)?.unwrap_or_default();
    let expected = if session.is_root() { (1_000..1_000 + UNITS).collect() } else { vec![] };
    check_equal(session, "slow units", &units, &expected)?;
    let is_root = session.is_root();
    let values = map(session, "slow", 0..UNITS, |n| {
        if is_root && n == 0 {
            nap(3);
        }
        n
    })?;
    ensure(values == (0..UNITS).collect::<Vec<_>>(), || "not the values of all indices".into())
}

/// The last rank fails while the other ranks compute indices for far longer than a job may continue after a failure.
fn fails_during_slow_unit(session: &mut Session) -> Result<(), BoxError> {
    let is_last = session.rank() + 1 == session.size();
    let still = ParallelFor::new("beside", 0..session.size() as u64).balance(Balance::Off);
    still.run(session, |_| {
        nap(if is_last { 1 } else { 90 });
        Err("torn".into())
    })?;
    Ok(())
}

/// Gathers numbers of all ranks on rank 0. It collects the data of a loop with one index for each rank, without a pass over the indices.
fn collect_indices(session: &mut Session, own_indices: Vec<u64>) -> Result<Vec<u64>, BoxError> {
    struct OwnIndices(Vec<u64>);
    impl DoAll for OwnIndices {
        type Units = Vec<Vec<u64>>;
        fn create(&mut self, _: Range<u64>) -> Result<Self::Units, BoxError> {
            Ok(vec![std::mem::take(&mut self.0)])
        }
        fn compute(&mut self, _: Range<u64>, _: &mut [Vec<u64>]) -> Result<(), BoxError> {
            Ok(())
        }
    }
    let all = DoAllLoop::new("all", session.size() as u64, OwnIndices(own_indices)).collect(session)?;
    Ok(all.map_or_else(Vec::new, |all| all.concat()))
}

fn ranges(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    let forced = Settings::new().forced(1).block_size(3);
    for (indices, settings) in [(7..307, Settings::new()), (5..5, Settings::new()), (0..90, forced)] {
        let mut own_indices = Vec::new();
        let mut ranges = ParallelFor::new("ranges", indices.clone()).settings(settings).ranges(session)?;
        while let Some(mut range) = ranges.next()? {
            while let Some(index) = range.next() {
                work.take_uneven(8, index);
                own_indices.push(index);
                range = ranges.hook(range)?;
            }
        }
        let has_summary = ranges.summary().is_some();
        drop(ranges);
        ensure(has_summary == session.is_root(), || "the summary is not on rank 0".into())?;
        let mut all = collect_indices(session, own_indices)?;
        all.sort_unstable();
        let expected: Vec<u64> = if session.is_root() { indices.clone().collect() } else { vec![] };
        check_equal(session, &format!("{indices:?}"), &all, &expected)?;
    }
    Ok(())
}

fn closures(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    let values = map(session, "noise", 10..260, |n| {
        work.take_uneven(9, n);
        noise(2, n)
    })?;
    ensure(values == (10..260).map(|n| noise(2, n)).collect::<Vec<_>>(), || {
        "map: not the serial values".into()
    })?;
    let third = |n: u64| 1.0 / (3 * n + 1) as f64;
    let sum = ParallelFor::new("sum", 0..500).fold_in_order(session, third, 0.25, |sum, x| sum + x)?;
    let serial = (0..500).map(third).fold(0.25, |sum, x| sum + x);
    ensure(sum.to_bits() == serial.to_bits(), || format!("fold_in_order: {sum} instead of {serial}"))?;
    let most = reduce(session, "most", 0..300, |n| noise(3, n), 0, u64::max)?;
    ensure(Some(most) == (0..300).map(|n| noise(3, n)).max(), || format!("{most} is not the largest"))?;
    let mut own_indices = Vec::new();
    let settings = Settings::new().forced(9).block_size(2);
    ParallelFor::new("note", 0..100).settings(settings).run(session, |range| {
        own_indices.extend(range);
        Ok(())
    })?;
    let mut all = collect_indices(session, own_indices)?;
    all.sort_unstable();
    let expected: Vec<u64> = if session.is_root() { (0..100).collect() } else { vec![] };
    check_equal(session, "indices", &all, &expected)
}
