//! Serial pipeline stages must keep their state between items, also if the planner moves them to another rank.

use std::time::Duration;

use armature::pipeline::{Context, Dispatch, MappingChoice, Pipeline, Stage, StageResult};
use armature::{BoxError, Session};

use crate::Case;
use crate::check::{Work, check_equal, ensure};
use crate::mappings::every_kind;

pub(super) const CASES: &[Case] = &[
    Case { name: "serial-stages", run: serial_stages },
    Case { name: "auto", run: auto },
    Case { name: "auto-moves-state", run: auto_moves_state },
    Case { name: "at-root", run: at_root },
];

/// Stage that numbers the items, fails if they arrive out of order, and can move to another rank with its state.
#[derive(Default)]
struct Number {
    seen: u64,
    last: Option<u64>,
}

impl Stage for Number {
    type In = u64;
    type Out = (u64, u64);

    fn process(&mut self, item: u64, cx: &mut Context) -> StageResult<(u64, u64)> {
        if self.last.is_some_and(|last| last >= item) {
            return Err(format!("item {item} came after {:?}", self.last).into());
        }
        if cx.number() != item {
            return Err(format!("item {item} is number {} to the framework", cx.number()).into());
        }
        self.last = Some(item);
        self.seen += 1;
        Ok(Some((self.seen, item)))
    }

    fn save(&self) -> Option<Vec<u8>> {
        let last = self.last.map_or(0, |l| l + 1);
        Some([self.seen.to_le_bytes(), last.to_le_bytes()].concat())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        let (seen, last) = state.split_first_chunk::<8>().ok_or("the state is cut short")?;
        self.seen = u64::from_le_bytes(*seen);
        self.last = u64::from_le_bytes(last.try_into()?).checked_sub(1);
        Ok(())
    }
}

fn passes_filter(x: u64) -> bool {
    x % 5 != 2
}

fn expected(items: u64) -> Vec<(u64, u64)> {
    (0..items).filter(|&x| passes_filter(x)).enumerate().map(|(n, x)| (n as u64 + 1, x)).collect()
}

fn serial_stages(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    for kind in every_kind(&[false, true, false, true], session.size()) {
        for dispatch in [Dispatch::OnDemand, Dispatch::RoundRobin] {
            let mut out = Vec::new();
            Pipeline::source("numbers", || 0..120u64)
                .filter_map("uneven", move |x| {
                    work.take_uneven(3, x);
                    passes_filter(x).then_some(x)
                })
                .stage("number", || Ok(Number::default()))
                .serial()
                .map("after", move |(n, x)| {
                    work.take_uneven(4, x);
                    (n, x)
                })
                .map("last", |pair| pair)
                .serial()
                .mapping(kind.mapping.clone())
                .dispatch(dispatch)
                .for_each(session, "collect", |item| out.push(item))?;
            check_equal(session, &format!("{}, {dispatch:?}", kind.name), &out, &expected(120))?;
        }
    }
    Ok(())
}

fn planned(session: &mut Session, items: u64, dispatch: Dispatch) -> Result<(), BoxError> {
    let work = Work::on(session);
    let mut out = Vec::new();
    let outcome = Pipeline::source("numbers", move || 0..items)
        .filter_map("slow", move |x| {
            work.take(Duration::from_millis(2));
            passes_filter(x).then_some(x)
        })
        .stage("number", || Ok(Number::default()))
        .serial()
        .map("after", move |pair| {
            work.take(Duration::from_millis(1));
            pair
        })
        .mapping(MappingChoice::Auto)
        .dispatch(dispatch)
        .for_each(session, "collect", |item| out.push(item))?;
    check_equal(session, &format!("auto, {dispatch:?}"), &out, &expected(items))?;
    let Some(summary) = outcome.into_summary() else { return Ok(()) };
    ensure(summary.items == items, || format!("the summary counts other items than {items}:\n{summary}"))?;
    // With large fixed batches, the stream ends before a plan can be computed, so that a prediction is required only for many batches.
    if session.size() > 1 && items > 200 && summary.ranks[0].stages[0].batches > 30 {
        ensure(summary.predicted.is_some(), || format!("nothing was planned:\n{summary}"))?;
    }
    Ok(())
}

/// Before it plans, the framework measures the stages with the first items of the stream. These must not be lost, even if the stream ends during the
/// measurement.
fn auto(session: &mut Session) -> Result<(), BoxError> {
    planned(session, 0, Dispatch::OnDemand)?;
    planned(session, 5, Dispatch::OnDemand)?;
    planned(session, 300, Dispatch::OnDemand)?;
    planned(session, 300, Dispatch::RoundRobin)
}

/// A slow serial stage must continue its numbering on any rank to which the planner moves it.
fn auto_moves_state(session: &mut Session) -> Result<(), BoxError> {
    moves_state(session).map(drop)
}

/// Stage that numbers the items like [`Number`], and is slow enough to need a rank of its own.
struct Slow(Number, Work);

impl Stage for Slow {
    type In = u64;
    type Out = (u64, u64);

    fn process(&mut self, item: u64, cx: &mut Context) -> StageResult<(u64, u64)> {
        self.1.take(Duration::from_millis(4));
        self.0.process(item, cx)
    }

    fn save(&self) -> Option<Vec<u8>> {
        self.0.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        self.0.restore(state)
    }
}

/// Runs a pipeline in which the planner may move a slow serial stage away from rank 0, where the stage starts.
/// Returns true on rank 0 if the stage moved. On a loaded machine, the planner may find that the move does not pay.
///
/// # Errors
/// Returns an error if the result is not the serial one.
pub fn moves_state(session: &mut Session) -> Result<bool, BoxError> {
    let work = Work::on(session);
    let mut out = Vec::new();
    let outcome = Pipeline::source("numbers", || 0..100u64)
        .map("pinned", move |x| {
            work.take(Duration::from_millis(4));
            x
        })
        .at_root()
        .stage("number", move || Ok(Slow(Number::default(), work)))
        .serial()
        .for_each(session, "collect", |item| out.push(item))?;
    let expected: Vec<(u64, u64)> = (0..100).map(|x| (x + 1, x)).collect();
    check_equal(session, "a moved serial stage", &out, &expected)?;
    let Some(summary) = outcome.into_summary() else { return Ok(false) };
    ensure(summary.ranks[0].stages[1].items > 0, || format!("it did not begin on rank 0:\n{summary}"))?;
    Ok(summary.ranks[1..].iter().any(|r| r.stages[1].items > 0))
}

fn at_root(session: &mut Session) -> Result<(), BoxError> {
    for mapping in [MappingChoice::Orderly, MappingChoice::Auto] {
        let mut out = Vec::new();
        Pipeline::source("numbers", || 0..60u64)
            .map("anywhere", |x| x + 1)
            .stage("where", || Ok(Where))
            .at_root()
            .mapping(mapping)
            .for_each(session, "collect", |item| out.push(item))?;
        let expected: Vec<(u64, usize)> = (1..=60).map(|x| (x, 0)).collect();
        check_equal(session, "at root", &out, &expected)?;
    }
    Ok(())
}

struct Where;

impl Stage for Where {
    type In = u64;
    type Out = (u64, usize);

    fn process(&mut self, item: u64, cx: &mut Context) -> StageResult<(u64, usize)> {
        Ok(Some((item, cx.rank())))
    }
}
