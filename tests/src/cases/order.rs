//! Pipelines must deliver every item exactly once and in order: with up to six stages, every kind of mapping to ranks, and items sent to the replicas
//! of a stage in turn or on demand.

use armature::pipeline::{Dispatch, Pipeline};
use armature::{BoxError, Session};

use crate::Case;
use crate::check::{Work, check_equal, noise};
use crate::mappings::every_kind;

pub(super) const CASES: &[Case] = &[
    Case { name: "order", run: order },
    Case { name: "overtaking", run: overtaking },
    Case { name: "unordered", run: unordered },
    Case { name: "counts", run: counts },
    Case { name: "filters", run: filters },
    Case { name: "no-stages", run: no_stages },
];

const DISPATCH: [Dispatch; 2] = [Dispatch::OnDemand, Dispatch::RoundRobin];

fn step(n: usize, x: u64) -> u64 {
    x.wrapping_mul(2 * n as u64 + 3).rotate_left(7) ^ n as u64
}

fn chain<'p>(stages: usize, items: u64, work: Option<Work>) -> Pipeline<'p, u64> {
    let mut pipeline = Pipeline::source("numbers", move || 0..items);
    for n in 0..stages {
        pipeline = pipeline.map(&format!("s{n}"), move |x| {
            if let Some(work) = work {
                work.take_uneven(n as u64, x);
            }
            step(n, x)
        });
    }
    pipeline
}

fn expected(stages: usize, items: u64) -> Vec<u64> {
    (0..items).map(|x| (0..stages).fold(x, |x, n| step(n, x))).collect()
}

fn order(session: &mut Session) -> Result<(), BoxError> {
    for stages in 1..=6 {
        for kind in every_kind(&vec![false; stages], session.size()) {
            for dispatch in DISPATCH {
                let mut out = Vec::new();
                chain(stages, 150, None).mapping(kind.mapping.clone()).dispatch(dispatch).for_each(
                    session,
                    "collect",
                    |item| out.push(item),
                )?;
                let what = format!("{stages} stages, {}, {dispatch:?}", kind.name);
                check_equal(session, &what, &out, &expected(stages, 150))?;
            }
        }
    }
    Ok(())
}

/// Some items take long, so that items on different replicas of a stage (copies on several ranks) overtake each other.
fn overtaking(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    for kind in every_kind(&[false; 3], session.size()) {
        for dispatch in DISPATCH {
            let mut out = Vec::new();
            chain(3, 100, Some(work)).mapping(kind.mapping.clone()).dispatch(dispatch).for_each(
                session,
                "collect",
                |item| out.push(item),
            )?;
            check_equal(session, &format!("{}, {dispatch:?}", kind.name), &out, &expected(3, 100))?;
        }
    }
    Ok(())
}

fn unordered(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    for kind in every_kind(&[false, true, false], session.size()) {
        for dispatch in DISPATCH {
            let mut out = Vec::new();
            Pipeline::source("numbers", || 0..200u64)
                .map("uneven", move |x| {
                    work.take_uneven(11, x);
                    step(0, x)
                })
                .map("one", |x| step(1, x))
                .serial()
                .filter_map("most", |x| (!noise(5, x).is_multiple_of(4)).then_some(step(2, x)))
                .unordered()
                .mapping(kind.mapping.clone())
                .dispatch(dispatch)
                .for_each(session, "collect", |item| out.push(item))?;
            let some = |x: u64| (!noise(5, x).is_multiple_of(4)).then(|| step(2, x));
            let mut all: Vec<u64> = (0..200).map(|x| step(1, step(0, x))).filter_map(some).collect();
            out.sort_unstable();
            all.sort_unstable();
            check_equal(session, &format!("{}, {dispatch:?}", kind.name), &out, &all)?;
        }
    }
    Ok(())
}

/// Streams of no item, of one, and of about as many items as a stage has replicas (copies on several ranks).
fn counts(session: &mut Session) -> Result<(), BoxError> {
    for items in [0, 1, 2, 5, 9] {
        for kind in every_kind(&[false, true, false, false], session.size()) {
            for dispatch in DISPATCH {
                let mut out = Vec::new();
                let mut pipeline = Pipeline::source("numbers", move || 0..items);
                for n in 0..4 {
                    pipeline = pipeline.map(&format!("s{n}"), move |x| step(n, x));
                    if n == 1 {
                        pipeline = pipeline.serial();
                    }
                }
                let pipeline = pipeline.mapping(kind.mapping.clone()).dispatch(dispatch);
                let outcome = pipeline.for_each(session, "collect", |item| out.push(item))?;
                check_equal(
                    session,
                    &format!("{items} items, {}, {dispatch:?}", kind.name),
                    &out,
                    &expected(4, items),
                )?;
                if let Some(summary) = outcome.into_summary() {
                    assert_eq!((summary.items, summary.delivered), (items, items), "{summary}");
                    assert_eq!(summary.ranks.len(), session.size(), "every rank reports");
                }
            }
        }
    }
    Ok(())
}

/// The stages after a filter must receive the remaining items in order, and the summary must count the dropped items.
fn filters(session: &mut Session) -> Result<(), BoxError> {
    for keep in [0, 1, 3, 8] {
        let passes_filter = move |seed: u64, x: u64| noise(seed, x) % 8 < keep;
        for kind in every_kind(&[false, false, true, false, false], session.size()) {
            let mut out = Vec::new();
            let outcome = Pipeline::source("numbers", || 0..200u64)
                .map("name", |x| (x, x.to_string()))
                .filter_map("first", move |(x, name)| passes_filter(1, x).then_some((x, name)))
                .map("pass", |pair| pair)
                .serial()
                .filter_map("second", move |(x, name)| (x % 3 != 0 || keep == 8).then_some((x, name)))
                .map("length", |(x, name)| (x, name, x % 7))
                .mapping(kind.mapping.clone())
                .for_each(session, "collect", |item| out.push(item))?;
            let first: Vec<u64> = (0..200).filter(|&x| passes_filter(1, x)).collect();
            let all: Vec<(u64, String, u64)> = first
                .iter()
                .filter(|&x| x % 3 != 0 || keep == 8)
                .map(|&x| (x, x.to_string(), x % 7))
                .collect();
            check_equal(session, &format!("{keep} of 8 kept, {}", kind.name), &out, &all)?;
            if let Some(summary) = outcome.into_summary() {
                assert_eq!((summary.items, summary.delivered), (200, all.len() as u64), "{summary}");
                assert_eq!(summary.dropped(1), 200 - first.len() as u64, "{summary}");
                assert_eq!(summary.dropped(3), (first.len() - all.len()) as u64, "{summary}");
            }
        }
    }
    Ok(())
}

fn no_stages(session: &mut Session) -> Result<(), BoxError> {
    let mut out = Vec::new();
    Pipeline::source("numbers", || 0..50u8).for_each(session, "collect", |item| out.push(item))?;
    check_equal(session, "no stages", &out, &(0..50).collect::<Vec<u8>>())
}
