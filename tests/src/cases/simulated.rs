//! Declared work: charged on simulated hosts, done on real ones, never both.

use std::time::Duration;

use armature::pipeline::{Context, MappingChoice, Pipeline, Stage, StageResult};
use armature::{BoxError, Session};

use crate::Case;
use crate::check::{same, setting, that};

pub(super) const CASES: &[Case] = &[Case { name: "declared", run: declared }];

/// Items of the case, and its stages.
const ITEMS: u64 = 16;
const STAGES: usize = 3;
const TURNS: u64 = 100_000;

/// Does a little real work and declares as much as it is told.
struct Declares(f64);

impl Stage for Declares {
    type In = u64;
    type Out = u64;

    fn process(&mut self, item: u64, cx: &mut Context) -> StageResult<u64> {
        // Real work of some milliseconds, which would show in simulated time if it were counted there.
        let turns = cx.declare(self.0, || (0..TURNS).fold(0u64, |sum, n| std::hint::black_box(sum + n % 2)));
        Ok((turns == TURNS / 2).then_some(item + 1))
    }
}

/// Three stages one after the other that declare `ARMATURE_CASES_MEGAFLOPS` an item, 1000 unless set. On a
/// simulated rank 0 it prints the simulated time; `ci/smpi/test.sh` compares runs by that.
fn declared(session: &Session) -> Result<(), BoxError> {
    let flops = setting("ARMATURE_CASES_MEGAFLOPS", 1000)? as f64 * 1e6;
    let start = session.elapsed();
    let mut out = Vec::new();
    let mut pipeline = Pipeline::source("numbers", || 0..ITEMS);
    for n in 0..STAGES {
        pipeline = pipeline.stage(&format!("s{n}"), move || Ok(Declares(flops)));
    }
    let summary = pipeline.collect_into(&mut out).mapping(MappingChoice::Serial).run(session)?;
    same(session, "declared work", &out, &(STAGES as u64..STAGES as u64 + ITEMS).collect::<Vec<u64>>())?;
    let Some(summary) = summary else { return Ok(()) };
    if session.is_simulated() {
        println!("simulated seconds: {:.9} for {flops:e} flops an item", summary.elapsed.as_secs_f64());
        return Ok(());
    }
    // A real rank does the work (the result says so) and is not charged besides: that would be a minute.
    let took = session.elapsed().saturating_sub(start);
    that(took < Duration::from_secs(20), || format!("declared work was charged on a real rank: {took:?}"))
}
