//! Pipelines whose mapping of stages to ranks changes while they run.

use std::time::Duration;

use armature::pipeline::{Context, Dispatch, MappingChoice, Pipeline, Stage, StageResult};
use armature::{BoxError, Session};

use crate::Case;
use crate::check::{Work, check_equal, ensure};
use crate::mappings::every_kind;

pub(super) const CASES: &[Case] = &[
    Case { name: "remaps", run: remaps },
    Case { name: "remaps-in-a-row", run: in_a_row },
    Case { name: "phases", run: phases },
];

/// Stage whose running value is right only if it receives every item once and in order, and keeps its state.
#[derive(Default)]
struct Sums(u64);

impl Sums {
    fn add(&mut self, x: u64) -> u64 {
        self.0 = self.0.rotate_left(7) ^ x;
        self.0
    }
}

impl Stage for Sums {
    type In = u64;
    type Out = u64;

    fn process(&mut self, x: u64, _: &mut Context) -> StageResult<u64> {
        Ok(Some(self.add(x)))
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(self.0.to_le_bytes().to_vec())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        self.0 = u64::from_le_bytes(state.try_into()?);
        Ok(())
    }
}

fn passes_filter(x: u64) -> bool {
    x % 7 != 3
}

/// Serial results of [`run`]: two stages compute running sums, and a stage between them drops items.
fn expected(items: u64) -> Vec<u64> {
    let (mut first, mut second) = (Sums::default(), Sums::default());
    (0..items).map(|x| first.add(x)).filter(|&x| passes_filter(x)).map(|x| second.add(x)).collect()
}

/// Changes the mapping of stages to ranks after every `step` items. Returns on rank 0 the number of changes.
fn run(session: &mut Session, items: u64, step: usize, dispatch: Dispatch) -> Result<usize, BoxError> {
    let work = Work::on(session);
    let mut out = Vec::new();
    let mut pipeline = Pipeline::source("numbers", move || 0..items)
        .stage("first", || Ok(Sums::default()))
        .serial()
        .filter_map("uneven", move |x| {
            work.take_uneven(5, x);
            passes_filter(x).then_some(x)
        })
        .stage("second", || Ok(Sums::default()))
        .serial()
        .map("after", move |x| {
            work.take_uneven(6, x);
            x
        })
        .mapping(MappingChoice::Orderly)
        .dispatch(dispatch);
    let kinds = every_kind(&[true, false, true, false], session.size());
    for (after, kind) in (0..items).step_by(step).zip(kinds.iter().cycle()) {
        pipeline = pipeline.remap_after(after, kind.mapping.clone());
    }
    let outcome = pipeline.for_each(session, "collect", |item| out.push(item))?;
    check_equal(
        session,
        &format!("{items} items, another mapping every {step}, {dispatch:?}"),
        &out,
        &expected(items),
    )?;
    Ok(outcome.summary().map_or(0, |summary| summary.remaps.len() - 1))
}

fn remaps(session: &mut Session) -> Result<(), BoxError> {
    for dispatch in [Dispatch::OnDemand, Dispatch::RoundRobin] {
        let remap_count = run(session, 300, 20, dispatch)?;
        ensure(session.rank() != 0 || remap_count > 0, || "the mapping was never changed".to_string())?;
    }
    Ok(())
}

/// Each change of the mapping of stages to ranks starts as soon as the previous one is in effect, even while states of stages are on their way to
/// other ranks.
fn in_a_row(session: &mut Session) -> Result<(), BoxError> {
    run(session, 200, 1, Dispatch::OnDemand).map(drop)
}

/// In the middle of the stream, one stage becomes fast and another slow. The balancer may change the mapping of stages to ranks; on simulated hosts,
/// where times are exact, it must.
fn phases(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    let items = 400u64;
    let heavy =
        move |here: bool| work.take(if here { Duration::from_millis(3) } else { Duration::from_micros(300) });
    let mut out = Vec::new();
    let outcome = Pipeline::source("numbers", move || 0..items)
        .map("early", move |x| {
            heavy(x < items / 2);
            x
        })
        .stage("sums", || Ok(Sums::default()))
        .serial()
        .map("late", move |x| {
            heavy(x >= items / 2);
            x
        })
        .mapping(MappingChoice::Orderly)
        .for_each(session, "collect", |item| out.push(item))?;
    let mut sums = Sums::default();
    let expected: Vec<u64> = (0..items).map(|x| sums.add(x)).collect();
    check_equal(session, "phases", &out, &expected)?;
    let Some(summary) = outcome.into_summary() else { return Ok(()) };
    let live = std::env::var("ARMATURE_BALANCE").is_ok_and(|mode| mode == "live");
    if live && session.is_simulated() && session.size() > 3 {
        ensure(summary.remaps.len() > 1, || format!("the mapping did not follow the work:\n{summary}"))?;
    }
    Ok(())
}
