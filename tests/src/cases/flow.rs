//! The number of items in flight in a pipeline must stay below its limit (the window), also with alternating slow and fast stages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use armature::pipeline::{Dispatch, Pipeline};
use armature::{BoxError, Session};

use crate::Case;
use crate::check::{Work, check_equal, ensure};
use crate::mappings::every_kind;

pub(super) const CASES: &[Case] =
    &[Case { name: "window", run: window }, Case { name: "slow-and-fast", run: slow_and_fast }];

/// `ARMATURE_WINDOW` (batches) and `ARMATURE_BATCH` (items in a batch), if both are set, limit the items in flight.
fn window(session: &mut Session) -> Result<(), BoxError> {
    let fixed = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    bounded(session, fixed("ARMATURE_WINDOW"), fixed("ARMATURE_BATCH"))
}

/// Runs a pipeline and counts the items that the source has emitted and the sink has not received. There must never
/// be more than `window` batches of `batch` items, if both are given.
///
/// # Errors
/// Returns an error if more items are in flight, or if the result is not the serial one.
pub fn bounded(session: &mut Session, window: Option<usize>, batch: Option<usize>) -> Result<(), BoxError> {
    let work = Work::on(session);
    for kind in every_kind(&[false, false, true], session.size()) {
        for dispatch in [Dispatch::OnDemand, Dispatch::RoundRobin] {
            let flying = Arc::new(AtomicUsize::new(0));
            let most = AtomicUsize::new(0);
            let mut out = Vec::new();
            let drawn = flying.clone();
            let source = move || {
                (0..150u64).inspect(move |_| {
                    drawn.fetch_add(1, Ordering::SeqCst);
                })
            };
            let outcome = Pipeline::source("numbers", source)
                .map("fast", |x| x + 1)
                .map("slow", move |x| {
                    work.take_uneven(8, x);
                    x * 2
                })
                .map("one", |x| x)
                .serial()
                .mapping(kind.mapping.clone())
                .dispatch(dispatch)
                .for_each(session, "count", |x| {
                    // The number of items in flight is compared with the maximum before this item is subtracted.
                    most.fetch_max(flying.load(Ordering::SeqCst), Ordering::SeqCst);
                    flying.fetch_sub(1, Ordering::SeqCst);
                    out.push(x);
                })?;
            let what = format!("{}, {dispatch:?}", kind.name);
            check_equal(session, &what, &out, &(1..=150).map(|x| x * 2).collect::<Vec<u64>>())?;
            let Some(summary) = outcome.into_summary() else { continue };
            let most = most.into_inner();
            if let (Some(window), Some(batch)) = (window, batch) {
                ensure(most <= window * batch, || {
                    format!("{what}: {most} items were in flight, the window is {window} batches of {batch}")
                })?;
            }
            let longest = summary.ranks.iter().flat_map(|r| &r.stages).map(|s| s.longest_queue).max();
            let longest = longest.unwrap_or(0);
            ensure(window.is_none_or(|window| longest <= window), || {
                format!("{what}: {longest} batches waited in one place, the window is {window:?}\n{summary}")
            })?;
        }
    }
    Ok(())
}

/// Slow and fast stages alternate, so that items queue up in front of both.
fn slow_and_fast(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    let times = [0, 400, 0, 0, 800, 100];
    for kind in every_kind(&[false, false, false, true, false, false], session.size()) {
        let mut out = Vec::new();
        let mut pipeline = Pipeline::source("numbers", || 0..40u64);
        for (n, micros) in times.into_iter().enumerate() {
            pipeline = pipeline.map(&format!("s{n}"), move |x| {
                work.take(Duration::from_micros(micros));
                x + n as u64
            });
            if n == 3 {
                pipeline = pipeline.serial();
            }
        }
        pipeline.mapping(kind.mapping).for_each(session, "collect", |item| out.push(item))?;
        check_equal(session, kind.name, &out, &(15..55).collect::<Vec<u64>>())?;
    }
    Ok(())
}
