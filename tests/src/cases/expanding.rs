//! Pipeline stages that produce several items from one item, and stages that produce an item at the end of the stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use armature::pipeline::{Context, Dispatch, MappingChoice, Pipeline, Stage, StageResult};
use armature::{BatchMode, BoxError, Session};

use crate::Case;
use crate::check::{Work, check_equal, ensure, noise};
use crate::mappings::every_kind;

pub(super) const CASES: &[Case] = &[
    Case { name: "flat-map", run: flat_map },
    Case { name: "flat-map-remaps", run: remaps },
    Case { name: "flat-map-of-many", run: of_many },
    Case { name: "finish", run: finish },
];

/// Stage that produces a running sum of its items, and the last sum again at the end of the stream.
#[derive(Default)]
struct Sums(u64);

impl Sums {
    fn add(&mut self, x: u64) -> u64 {
        self.0 = self.0.rotate_left(7) ^ x;
        self.0
    }

    fn of(items: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut sums = Sums::default();
        let mut all: Vec<u64> = items.into_iter().map(|x| sums.add(x)).collect();
        all.push(sums.0);
        all
    }
}

impl Stage for Sums {
    type In = u64;
    type Out = u64;

    fn process(&mut self, x: u64, _: &mut Context) -> StageResult<u64> {
        Ok(Some(self.add(x)))
    }

    fn finish(&mut self, _: &mut Context) -> StageResult<u64> {
        Ok(Some(self.0))
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(self.0.to_le_bytes().to_vec())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        self.0 = u64::from_le_bytes(state.try_into()?);
        Ok(())
    }
}

/// Stage that produces up to four items from most items, and forty from some.
fn expand(x: u64) -> impl Iterator<Item = u64> {
    let count = if noise(5, x).is_multiple_of(16) { 40 } else { noise(4, x) % 5 };
    (0..count).map(move |k| noise(k, x))
}

fn passes_filter(x: &u64) -> bool {
    !x.is_multiple_of(3)
}

/// Pipeline with two stages that produce several items from one, and other stages before, between and after them.
fn flat_map(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    let items = 24u64;
    let expected: Vec<u64> = (0..items)
        .map(|x| x + 1)
        .flat_map(expand)
        .filter(passes_filter)
        .flat_map(|x| [x; 2])
        .map(|x| x ^ 1)
        .collect();
    let kinds = every_kind(&[false, false, false, true, false], session.size());
    for (n, kind) in kinds.into_iter().enumerate() {
        let dispatch = if n % 2 == 0 { Dispatch::OnDemand } else { Dispatch::RoundRobin };
        let mut pipeline = Pipeline::source("numbers", || 0..items)
            .map("before", |x| x + 1)
            .flat_map("some", expand)
            .filter("keeps", passes_filter)
            .flat_map("twice", |x| [x; 2])
            .serial()
            .map("behind", move |x| {
                work.take_uneven(7, x);
                x ^ 1
            })
            .mapping(kind.mapping)
            .dispatch(dispatch);
        if n % 3 > 0 {
            pipeline = pipeline.batch(BatchMode::Fixed(n % 3)).window(4);
        }
        let found = pipeline.collect(session)?.into_parts();
        ensure(found.is_some() == session.is_root(), || "rank 0 alone was to have the items".into())?;
        let Some((found, summary)) = found else { continue };
        check_equal(session, kind.name, &found, &expected)?;
        ensure((summary.items, summary.delivered) == (items, expected.len() as u64), || summary.to_string())?;
    }
    let unordered =
        Pipeline::source("numbers", || 0..items).flat_map("some", expand).flat_map("twice", |x| [x; 2]);
    let unordered = unordered.unordered().batch(BatchMode::Fixed(1)).window(3);
    let expected: Vec<u64> = (0..items).flat_map(expand).flat_map(|x| [x; 2]).collect();
    match unordered.collect(session)?.on_root() {
        // The items arrive at the sink in any order; `collect` sorts them into the order of the source.
        Some(found) => check_equal(session, "unordered", &found, &expected),
        None => Ok(()),
    }
}

/// The mapping of stages to ranks changes after every four items. Some stages have state, others produce several items from one.
fn remaps(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    let items = 80u64;
    let expected = Sums::of(Sums::of((0..items).flat_map(expand)).into_iter().flat_map(|x| [x; 3]));
    for (window, batch) in [(None, None), (Some(3), Some(2))] {
        let mut out = Vec::new();
        let mut pipeline = Pipeline::source("numbers", || 0..items)
            .flat_map("some", move |x| {
                work.take_uneven(8, x);
                expand(x)
            })
            .stage("first", || Ok(Sums::default()))
            .serial()
            .flat_map("thrice", |x| [x; 3])
            .stage("second", || Ok(Sums::default()))
            .serial()
            .mapping(MappingChoice::Orderly);
        if let (Some(window), Some(batch)) = (window, batch) {
            pipeline = pipeline.window(window).batch(BatchMode::Fixed(batch));
        }
        let kinds = every_kind(&[false, true, false, true], session.size());
        for (after, kind) in (0..items).step_by(4).zip(kinds.iter().cycle()) {
            pipeline = pipeline.remap_after(after, kind.mapping.clone());
        }
        pipeline.for_each(session, "collect", |x| out.push(x))?;
        check_equal(session, &format!("another mapping every four items, {batch:?}"), &out, &expected)?;
    }
    Ok(())
}

/// Each of three items produces far more items than may be in flight.
fn of_many(session: &mut Session) -> Result<(), BoxError> {
    let (each, window, batch) = (20_000u64, 4, 100);
    let flying = Arc::new(AtomicU64::new(0));
    let (created, most) = (flying.clone(), AtomicU64::new(0));
    let mut sum = 0;
    let many = move |x: u64| {
        let created = created.clone();
        (0..each).map(move |k| {
            created.fetch_add(1, Ordering::SeqCst);
            x * each + k
        })
    };
    // This stage and the sink are both on rank 0, so that a shared counter can count the items in flight.
    let pipeline =
        Pipeline::source("numbers", || 0..3u64).flat_map("many", many).at_root().map("next", |x| x + 1);
    let outcome = pipeline
        // The mapping of stages to ranks is given, because the framework would otherwise measure the stages first, and choose its own batch sizes.
        .mapping(MappingChoice::Orderly)
        .window(window)
        .batch(BatchMode::Fixed(batch))
        .for_each(session, "sum", |x| {
            // The number of items in flight is compared with the maximum before this item is subtracted.
            most.fetch_max(flying.fetch_sub(1, Ordering::SeqCst), Ordering::SeqCst);
            sum = u64::wrapping_add(sum, noise(sum, x));
        })?;
    let Some(summary) = outcome.into_summary() else { return Ok(()) };
    let most = most.into_inner();
    // `window` limits the batches in flight. Three more may exist: one in production, one that waits for the sink, and one in the sink.
    ensure(most <= ((window + 3) * batch) as u64, || {
        format!("{most} items were in flight at once\n{summary}")
    })?;
    let expected = (1..=3 * each).fold(0u64, |sum, x| sum.wrapping_add(noise(sum, x)));
    ensure((sum, summary.delivered) == (expected, 3 * each), || {
        format!("items are lost or out of order: {summary}")
    })
}

fn finish(session: &mut Session) -> Result<(), BoxError> {
    for items in [0, 1, 50u64] {
        let expected = Sums::of(Sums::of(0..items).into_iter().map(|x| x / 2));
        for kind in every_kind(&[true, false, true], session.size()) {
            let sums =
                Pipeline::source("numbers", || 0..items).stage("first", || Ok(Sums::default())).serial();
            let sums = sums.map("half", |x| x / 2).stage("second", || Ok(Sums::default())).serial();
            let found = sums.mapping(kind.mapping).collect(session)?.into_parts();
            let Some((found, summary)) = found else { continue };
            check_equal(session, &format!("{items} items, {}", kind.name), &found, &expected)?;
            ensure((summary.items, summary.delivered) == (items, items + 2), || summary.to_string())?;
        }
    }
    Ok(())
}
