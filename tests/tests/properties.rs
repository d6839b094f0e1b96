//! Random pipelines, mappings of stages to ranks, and settings, on threads: the result must equal the serial result.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::time::Duration;

use armature::pipeline::{
    Block, Context, Dispatch, Mapping, MappingChoice, Pipeline, RankReport, Stage, StageResult, Summary,
};
use armature::{BatchMode, Config, Driver, Session};
use armature_tests::check::{Work, check_equal, noise};
use armature_tests::local;
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestCaseError, TestRunner};

#[derive(Clone, Copy, Debug)]
enum Kind {
    Map,
    /// Stage that keeps about this number of every eight items, and drops the others.
    Filter(u64),
    /// Serial stage that adds a value which depends on the position of the item, so that the items must arrive in order.
    Serial,
    /// Stage that takes 500 µs for about one of 128 items, and no time for the others.
    Uneven,
}

#[derive(Clone, Debug)]
struct Plan {
    stages: Vec<Kind>,
    blocks: Vec<Block>,
    /// Later mappings of stages to ranks, each with the number of delivered items at which it is requested.
    remaps: Vec<(u64, Vec<Block>)>,
    ranks: usize,
    items: u64,
    dispatch: Dispatch,
    driver: Driver,
    batch: BatchMode,
    window: Option<usize>,
    window_bytes: usize,
    ahead: usize,
    ordered: bool,
}

impl Plan {
    fn config(&self) -> Config {
        local::config(self.ranks).driver(self.driver)
    }

    fn stage(&self, n: usize) -> TestStage {
        TestStage { kind: self.stages[n], n: n as u64, ordered: self.ordered, seen: 0, work: None }
    }

    fn expected(&self) -> Vec<u64> {
        let mut stages: Vec<_> = (0..self.stages.len()).map(|n| self.stage(n)).collect();
        (0..self.items).filter_map(|x| stages.iter_mut().try_fold(x, |x, stage| stage.of(x))).collect()
    }

    fn run(&self, session: &mut Session) -> Result<Option<Summary>, armature::BoxError> {
        let work = Work::on(session);
        let mut out = Vec::new();
        let items = self.items;
        let mut pipeline = Pipeline::source("numbers", move || 0..items);
        for (n, kind) in self.stages.iter().copied().enumerate() {
            let stage = self.stage(n);
            pipeline = pipeline.stage(&format!("s{n}"), move || Ok(TestStage { work: Some(work), ..stage }));
            if matches!(kind, Kind::Serial) {
                pipeline = pipeline.serial();
            }
        }
        if !self.ordered {
            pipeline = pipeline.unordered();
        }
        let mapping = MappingChoice::Given(Mapping::new(self.blocks.clone()));
        pipeline = pipeline.mapping(mapping).dispatch(self.dispatch).batch(self.batch);
        pipeline = pipeline.window_bytes(self.window_bytes).request_ahead(self.ahead);
        if let Some(window) = self.window {
            pipeline = pipeline.window(window);
        }
        for (after, blocks) in &self.remaps {
            pipeline = pipeline.remap_after(*after, MappingChoice::Given(Mapping::new(blocks.clone())));
        }
        let summary = pipeline.for_each(session, "collect", |item| out.push(item))?.into_summary();
        let mut expected = self.expected();
        if !self.ordered {
            out.sort_unstable();
            expected.sort_unstable();
        }
        check_equal(session, "the result", &out, &expected)?;
        if let Some(summary) = &summary {
            let counts = (summary.items, summary.delivered);
            assert_eq!(counts, (items, expected.len() as u64), "{summary}");
        }
        Ok(summary)
    }
}

#[derive(Clone, Copy, Debug)]
struct TestStage {
    kind: Kind,
    n: u64,
    ordered: bool,
    seen: u64,
    /// Work that takes the time of slow items in a stage `Uneven`; `None` while the serial result is computed.
    work: Option<Work>,
}

impl TestStage {
    /// In an unordered pipeline, items reach a serial stage in any order, so that it ignores their positions.
    fn of(&mut self, x: u64) -> Option<u64> {
        let y = x.wrapping_mul(2 * self.n + 3) ^ noise(self.n, 0);
        match self.kind {
            Kind::Filter(keep) => (noise(x, self.n) % 8 < keep).then_some(y),
            Kind::Serial if self.ordered => {
                self.seen += 1;
                Some(y.wrapping_add(noise(self.seen, 3)))
            }
            _ => Some(y),
        }
    }
}

impl Stage for TestStage {
    type In = u64;
    type Out = u64;

    fn process(&mut self, x: u64, _: &mut Context) -> StageResult<u64> {
        if let (Kind::Uneven, Some(work)) = (self.kind, &self.work)
            && noise(x, 9).is_multiple_of(128)
        {
            work.take(Duration::from_micros(500));
        }
        Ok(self.of(x))
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(self.seen.to_le_bytes().to_vec())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), armature::BoxError> {
        self.seen = u64::from_le_bytes(state.try_into()?);
        Ok(())
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => Just(Kind::Map),
        2 => (0..=8u64).prop_map(Kind::Filter),
        2 => Just(Kind::Serial),
        1 => Just(Kind::Uneven),
    ]
}

/// Random mapping: groups of adjacent stages, each on random ranks. A group with a serial stage has one rank.
fn blocks(stages: Vec<Kind>, ranks: usize) -> impl Strategy<Value = Vec<Block>> {
    let everyone: Vec<usize> = (0..ranks).collect();
    let hosts = proptest::sample::subsequence(everyone, 1..=ranks).prop_shuffle();
    let cuts = proptest::collection::vec((any::<bool>(), hosts), stages.len());
    cuts.prop_map(move |cuts| {
        let mut blocks: Vec<Block> = Vec::new();
        for (stage, (cut, hosts)) in cuts.into_iter().enumerate() {
            match blocks.last_mut() {
                Some(block) if !cut => block.stages.end = stage + 1,
                _ => blocks.push(Block::new(stage..stage + 1, hosts)),
            }
        }
        for block in &mut blocks {
            if block.stages.clone().any(|s| matches!(stages[s], Kind::Serial)) {
                block.hosts.truncate(1);
            }
        }
        blocks
    })
}

/// Random pipeline whose mapping of stages to ranks changes up to `remaps` times.
fn plan(remaps: usize) -> impl Strategy<Value = Plan> {
    let shape =
        (proptest::collection::vec(kind(), 0..7), 1..=6usize).prop_flat_map(move |(stages, ranks)| {
            let remap = (any::<prop::sample::Index>(), blocks(stages.clone(), ranks));
            let remaps = proptest::collection::vec(remap, 0..=remaps);
            (blocks(stages.clone(), ranks), remaps, Just(stages), Just(ranks))
        });
    let dispatch = prop_oneof![Just(Dispatch::OnDemand), Just(Dispatch::RoundRobin)];
    let driver = prop_oneof![Just(Driver::Auto), Just(Driver::Inline), Just(Driver::Threaded)];
    let batch = prop_oneof![2 => Just(BatchMode::Auto), 3 => (1..100usize).prop_map(BatchMode::Fixed)];
    let window = proptest::option::of(1..40usize);
    let bytes = prop_oneof![Just(1usize), Just(1000), Just(1 << 28)];
    let most: u64 = if remaps > 0 { 6000 } else { 2000 };
    let items = prop_oneof![1 => 0..5u64, 3 => 0..300u64, 1 + remaps as u32 / 2 => 0..most];
    let settings = (dispatch, driver, batch, window, bytes, 1..4usize, any::<bool>());
    (shape, items, settings).prop_map(|((blocks, remaps, stages, ranks), items, settings)| {
        let (dispatch, driver, batch, window, window_bytes, ahead, ordered) = settings;
        // Changes of the mapping are requested in the first three quarters of the stream. When the last ones begin, few batches are in flight, and
        // the stream may end before they are complete.
        let after = |at: prop::sample::Index| at.index(items.max(1) as usize) as u64 * 3 / 4;
        let remaps = remaps.into_iter().map(|(at, blocks)| (after(at), blocks)).collect();
        #[rustfmt::skip]
        let plan = Plan {
            stages, blocks, remaps, ranks, items, dispatch, driver, batch, window, window_bytes, ahead, ordered,
        };
        plan
    })
}

fn cases(cases: u32) -> TestRunner {
    TestRunner::new(ProptestConfig {
        cases,
        max_shrink_time: 60_000,
        source_file: Some(file!()),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })
}

/// Runs two random pipelines at a time, because ranks wait for each other most of the time.
fn run(number: u32, remaps: usize) -> Vec<Summary> {
    std::thread::scope(|scope| {
        let halves = [number / 2, number - number / 2].map(|n| scope.spawn(move || run_in_turn(n, remaps)));
        halves.into_iter().flat_map(|half| half.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

fn run_in_turn(number: u32, remaps: usize) -> Vec<Summary> {
    let summaries = RefCell::new(Vec::new());
    let result = cases(number).run(&plan(remaps), |plan| {
        match local::run(&format!("{plan:?}"), &plan.config(), |session| plan.run(session)) {
            Ok(summary) => summaries.borrow_mut().extend(summary),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    summaries.into_inner()
}

#[test]
fn any_pipeline_on_any_mapping_gives_the_serial_result() {
    assert_eq!(run(3000, 0).len(), 3000);
}

#[test]
fn results_are_unchanged_by_ten_thousand_remaps_at_any_moment() {
    let summaries = run(3200, 16);
    let remaps: usize = summaries.iter().map(|s| s.remaps.len() - 1).sum();
    let of = |count: fn(&RankReport) -> u64| summaries.iter().flat_map(|s| &s.ranks).map(count).sum::<u64>();
    let (forwarded, handed_over, overtaken) =
        (of(|r| r.forwarded), of(|r| r.handed_over), of(|r| r.overtaken));
    println!(
        "{remaps} changes of mapping: {forwarded} batches forwarded, {handed_over} stages handed over, \
         {overtaken} changes in the middle of a hand-over"
    );
    assert!(remaps >= 10_000, "{remaps} changes of mapping");
    assert!(forwarded > 0 && handed_over > 0 && overtaken > 0, "the changes met nothing that was on its way");
}
