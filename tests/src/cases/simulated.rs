//! Tests on simulated hosts, where times are exact: pipeline stages that declare their work to the simulator, and slow links.

use std::time::Duration;

use armature::pipeline::{Context, MappingChoice, Pipeline, Stage, StageResult};
use armature::{BoxError, Session};

use crate::Case;
use crate::check::{Work, check_equal, ensure, setting};

pub(super) const CASES: &[Case] =
    &[Case { name: "declared", run: declared }, Case { name: "slow-link", run: slow_link }];

const ITEMS: u64 = 16;
const STAGES: usize = 3;
const TURNS: u64 = 100_000;

/// Stage that does a little real work, and declares this number of operations to the simulator.
struct Declares(f64);

impl Stage for Declares {
    type In = u64;
    type Out = u64;

    fn process(&mut self, item: u64, cx: &mut Context) -> StageResult<u64> {
        // The stage does some milliseconds of real work, which the simulated time must not contain.
        let turns = cx.declare(self.0, || (0..TURNS).fold(0u64, |sum, n| std::hint::black_box(sum + n % 2)));
        Ok((turns == TURNS / 2).then_some(item + 1))
    }
}

/// Each of three stages declares `ARMATURE_CASES_MEGAFLOPS` (default 1000) for each item. A simulated rank 0 prints the simulated time, by which
/// `ci/smpi/test.sh` compares runs.
fn declared(session: &mut Session) -> Result<(), BoxError> {
    let flops = setting("ARMATURE_CASES_MEGAFLOPS", 1000)? as f64 * 1e6;
    let start = session.elapsed();
    let mut out = Vec::new();
    let mut pipeline = Pipeline::source("numbers", || 0..ITEMS);
    for n in 0..STAGES {
        pipeline = pipeline.stage(&format!("s{n}"), move || Ok(Declares(flops)));
    }
    let outcome =
        pipeline.mapping(MappingChoice::Serial).for_each(session, "collect", |item| out.push(item))?;
    check_equal(
        session,
        "declared work",
        &out,
        &(STAGES as u64..STAGES as u64 + ITEMS).collect::<Vec<u64>>(),
    )?;
    let Some(summary) = outcome.into_summary() else { return Ok(()) };
    if session.is_simulated() {
        println!("simulated seconds: {:.9} for {flops:e} flops an item", summary.elapsed.as_secs_f64());
        return Ok(());
    }
    // On a real host, declared operations (about a minute) must not count; only the real work takes time.
    let took = session.elapsed().saturating_sub(start);
    ensure(took < Duration::from_secs(20), || format!("declared work was charged on a real rank: {took:?}"))
}

/// Stage that passes on large items in order, and can move to another rank.
struct Carries(Work);

impl Stage for Carries {
    type In = Vec<u8>;
    type Out = Vec<u8>;

    fn process(&mut self, item: Vec<u8>, _: &mut Context) -> StageResult<Vec<u8>> {
        self.0.take(Duration::from_millis(10));
        Ok(Some(item))
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(Vec::new())
    }

    fn restore(&mut self, _: &[u8]) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Three serial stages on three ranks, with a slow link between ranks 1 and 2 if `ARMATURE_CASES_SLOW_LINK=1`. Rank 0 cannot measure it, but the
/// balancer must change to a mapping of stages to ranks that does not use it.
fn slow_link(session: &mut Session) -> Result<(), BoxError> {
    let slow = setting("ARMATURE_CASES_SLOW_LINK", 0)? == 1;
    let (items, bytes) = if slow { (400, 20_000) } else { (20, 200) };
    let work = Work::on(session);
    let item = move |n: usize| vec![n as u8; bytes];
    let mut out = Vec::new();
    let mut pipeline = Pipeline::source("items", move || (0..items).map(item));
    for stage in ["a", "b", "c"] {
        pipeline = pipeline.stage(stage, move || Ok(Carries(work))).serial();
    }
    let outcome =
        pipeline.mapping(MappingChoice::Orderly).for_each(session, "collect", |item| out.push(item))?;
    check_equal(session, "large items", &out, &(0..items).map(item).collect::<Vec<_>>())?;
    let Some(summary) = outcome.into_summary().filter(|_| slow) else { return Ok(()) };
    let ranks: Vec<usize> = summary.mapping.blocks.iter().flat_map(|b| b.hosts.clone()).collect();
    let avoided = ranks.windows(2).all(|pair| pair.contains(&0) || pair[0] == pair[1]);
    ensure(avoided, || format!("the mapping still goes from rank 1 to rank 2:\n{summary}"))
}
