//! Programs whose items change on their way between ranks, because `Serialize` and `Deserialize` of their types disagree. Each must fail on any
//! number of ranks, even on one, where no item is sent.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use armature::farm::{Chunking, Farm};
use armature::loops::{Checkpoint, DoAll, DoAllLoop, ParallelFor, Settings};
use armature::pipeline::Pipeline;
use armature::{BoxError, Item, Session, loops};
use serde::{Deserialize, Serialize};

use crate::Case;
use crate::faults::{Fault, ReportingRank};

/// Expected error message for a [`Figure::Line`], which is received as another variant.
const LINE: &str = "Figure is not received as it was sent: `Figure::Line` (variant 2) is decoded as `Figure::Disc` \
                    (variant 3). Items travel without the names of their fields, and ";

pub(crate) fn faults() -> Vec<Fault> {
    use ReportingRank::{Any, Root};
    let fault = |name, run: fn(&mut Session) -> Result<(), BoxError>, rank, text| {
        let case = Case { name, run };
        Fault { case, ranks: 1, rank, stage: None, item: None, panic: false, text }
    };
    let in_stage = |stage, fault| Fault { stage: Some(stage), ..fault };
    vec![
        fault("odd-tasks", |s| farm(s, figure, drop), Root, LINE),
        fault("odd-results", |s| farm(s, |n| n, figure), Any, LINE),
        Fault { ranks: 2, ..fault("odd-late-results", late_result, Any, LINE) },
        fault("odd-journal", journal, Any, LINE),
        in_stage("numbers", fault("odd-source", source, Root, LINE)),
        in_stage("front", fault("odd-edge", edge, Any, LINE)),
        fault("odd-units", |s| units(s, false), Any, LINE),
        fault("odd-checkpoint", |s| units(s, true), Any, LINE),
        fault("odd-values", values, Any, LINE),
        fault("odd-fold", fold, Root, LINE),
        fault(
            "odd-left-out",
            |s| farm(s, |n| n, Sparse::new),
            Any,
            "Sparse is not received as it was sent: it writes \
            `Sparse` without `b`, and the encoded value cannot be decoded: ",
        ),
        fault(
            "odd-flat",
            |s| farm(s, |n| n, Flat::new),
            Any,
            "it writes a map without its length, as a struct \
            with `flatten` does. Items travel without the names of their fields, and ",
        ),
        fault(
            "odd-bare",
            |s| farm(s, |n| n, Bare::new),
            Any,
            "Bare is not received as it was sent: the encoded value cannot be decoded: its Deserialize needs the type \
             of the next value, as with `untagged` ",
        ),
    ]
}

/// Type whose implementations disagree: `Serialize` counts the skipped variant, `Deserialize` does not.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Figure {
    Dot(u64),
    #[serde(skip)]
    #[allow(dead_code)]
    Cached(u64),
    Line(u64),
    #[allow(dead_code)]
    Disc(u64),
}

fn figure(n: u64) -> Figure {
    if n % 3 == 1 { Figure::Line(n) } else { Figure::Dot(n) }
}

#[derive(Debug, Serialize, Deserialize)]
struct Sparse {
    a: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<u64>,
}

impl Sparse {
    fn new(a: u64) -> Self {
        Sparse { a, b: (a % 3 != 1).then_some(a) }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Flat {
    a: u64,
    #[serde(flatten)]
    more: BTreeMap<String, u64>,
}

impl Flat {
    fn new(a: u64) -> Self {
        Flat { a, more: BTreeMap::new() }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Bare {
    Number(u64),
}

impl Bare {
    fn new(n: u64) -> Self {
        Bare::Number(n)
    }
}

fn farm<I: Item, O: Item>(
    session: &mut Session,
    make: fn(u64) -> I,
    work: impl FnMut(I) -> O + Send + Clone,
) -> Result<(), BoxError> {
    let found = Farm::new("odd", work).collect(session, (0..600).map(make))?.on_root();
    Err(format!("{} results came", found.map_or(0, |results| results.len())).into())
}

/// Only the last of 5000 results is a [`Figure::Line`], which a worker sends to rank 0.
fn late_result(session: &mut Session) -> Result<(), BoxError> {
    let work = |n: u64| if n == 4_999 { Figure::Line(n) } else { Figure::Dot(n) };
    let farm = Farm::new("odd", work).chunking(Chunking::fixed(100));
    farm.dedicated_master().unordered().for_each(session, 0..5_000, |_, _| ())?;
    Err("all results came".into())
}

/// The first hundred results, which a file (journal) keeps, are of the variant [`Figure::Dot`]. The framework checks the encoding of the first 64
/// results and of each result with a new variant, so that it must detect the first [`Figure::Line`].
fn journal(session: &mut Session) -> Result<(), BoxError> {
    let dir = tempfile::tempdir()?;
    let work = |n: u64| if n < 100 { Figure::Dot(n) } else { figure(n) };
    // Only rank 0 opens the journal, so that it may be in a directory of rank 0.
    let mut farm =
        Farm::new("odd", work).chunking(Chunking::fixed(7)).journal(dir.path().join("journal"), "1");
    farm.collect(session, 0..600)?;
    Err("all results came".into())
}

fn source(session: &mut Session) -> Result<(), BoxError> {
    Pipeline::source("numbers", || (0..600).map(figure))
        .map("front", |_| 1_u64)
        .for_each(session, "out", drop)?;
    Err("all items came".into())
}

fn edge(session: &mut Session) -> Result<(), BoxError> {
    Pipeline::source("numbers", || 0..600)
        .map("front", figure)
        .map("back", |_| 1_u64)
        .for_each(session, "out", drop)?;
    Err("all items came".into())
}

/// Loop with a [`Figure`] for each index. Each pass changes all of them to a [`Figure::Line`]. If the field is true, all are a [`Figure::Dot`] at the
/// start; otherwise some are a [`Figure::Line`] already.
struct Figures(bool);

impl DoAll for Figures {
    type Units = Vec<Figure>;

    fn create(&mut self, range: Range<u64>) -> Result<Vec<Figure>, BoxError> {
        Ok(range.map(if self.0 { Figure::Dot } else { figure }).collect())
    }

    fn compute(&mut self, range: Range<u64>, figures: &mut [Figure]) -> Result<(), BoxError> {
        figures.iter_mut().zip(range).for_each(|(figure, n)| *figure = Figure::Line(n));
        // The pause leaves the disk time to write checkpoints.
        std::thread::sleep(Duration::from_micros(50));
        Ok(())
    }
}

fn units(session: &mut Session, in_checkpoint: bool) -> Result<(), BoxError> {
    let dir = tempfile::tempdir()?;
    let settings = match in_checkpoint {
        true => {
            let shared_directory = session.broadcast(Some(dir.path().to_path_buf()))?;
            Settings::new().checkpoint(Checkpoint::new(shared_directory, "1").every(Duration::ZERO))
        }
        false => Settings::new(),
    };
    let mut figures = DoAllLoop::new("odd", 90, Figures(in_checkpoint)).settings(settings);
    figures.run(session, 50)?;
    Err("all passes are over".into())
}

fn values(session: &mut Session) -> Result<(), BoxError> {
    let all = loops::map(session, "odd", 0..600, figure)?;
    Err(format!("{} values came", all.len()).into())
}

fn fold(session: &mut Session) -> Result<(), BoxError> {
    let odd = ParallelFor::new("odd", 0..60);
    let last = odd.fold_in_order(session, |n| n, Figure::Dot(0), |_, n| Figure::Line(n))?;
    Err(format!("{last:?} came").into())
}
