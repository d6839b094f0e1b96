//! Random pipelines, mappings and settings on threads: the result is always the serial one.

use std::time::Duration;

use armature::pipeline::{Block, Dispatch, Mapping, MappingChoice, Pipeline};
use armature::{BatchMode, Config, Driver, Session};
use armature_tests::check::{Work, noise, same};
use armature_tests::local;
use proptest::prelude::*;

/// A stage: what it does to the numbers that pass.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Map,
    /// Keeps so many of eight.
    Filter(u64),
    /// Numbers the items and mixes the number in, so it must see them in order.
    Serial,
    /// Some items take long.
    Uneven,
}

#[derive(Clone, Debug)]
struct Plan {
    stages: Vec<Kind>,
    blocks: Vec<Block>,
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
        local::config(self.ranks)
            .driver(self.driver)
            .batch(self.batch)
            .window(self.window)
            .window_bytes(self.window_bytes)
            .request_ahead(self.ahead)
    }

    /// Without order a serial stage may number the items in any way, so it only passes them on.
    fn step(&self, n: usize) -> impl FnMut(u64) -> Option<u64> + Clone + Send + use<> {
        let (kind, ordered, mut seen) = (self.stages[n], self.ordered, 0u64);
        move |x| {
            let y = x.wrapping_mul(2 * n as u64 + 3) ^ noise(n as u64, 0);
            match kind {
                Kind::Filter(keep) => (noise(x, n as u64) % 8 < keep).then_some(y),
                Kind::Serial if ordered => {
                    seen += 1;
                    Some(y.wrapping_add(noise(seen, 3)))
                }
                _ => Some(y),
            }
        }
    }

    fn expected(&self) -> Vec<u64> {
        let mut steps: Vec<_> = (0..self.stages.len()).map(|n| self.step(n)).collect();
        (0..self.items).filter_map(|x| steps.iter_mut().try_fold(x, |x, step| step(x))).collect()
    }

    fn run(&self, session: &Session) -> Result<(), armature::BoxError> {
        let work = Work::on(session);
        let mut out = Vec::new();
        let items = self.items;
        let mut pipeline = Pipeline::source("numbers", move || 0..items);
        for (n, kind) in self.stages.iter().copied().enumerate() {
            let mut step = self.step(n);
            pipeline = pipeline.filter_map(&format!("s{n}"), move |x| {
                if matches!(kind, Kind::Uneven) && noise(x, 9).is_multiple_of(128) {
                    work.take(Duration::from_micros(500));
                }
                step(x)
            });
            if matches!(kind, Kind::Serial) {
                pipeline = pipeline.serial();
            }
        }
        if !self.ordered {
            pipeline = pipeline.unordered();
        }
        let mapping = MappingChoice::Given(Mapping::new(self.blocks.clone()));
        let summary =
            pipeline.collect_into(&mut out).mapping(mapping).dispatch(self.dispatch).run(session)?;
        let mut expected = self.expected();
        if !self.ordered {
            out.sort_unstable();
            expected.sort_unstable();
        }
        same(session, "the result", &out, &expected)?;
        if let Some(summary) = summary {
            let counts = (summary.items, summary.delivered);
            assert_eq!(counts, (items, expected.len() as u64), "{summary}");
        }
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

/// Blocks of random lengths on random hosts; a block with a serial stage has one.
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

fn plan() -> impl Strategy<Value = Plan> {
    let shape = (proptest::collection::vec(kind(), 0..7), 1..=6usize)
        .prop_flat_map(|(stages, ranks)| (blocks(stages.clone(), ranks), Just(stages), Just(ranks)));
    let dispatch = prop_oneof![Just(Dispatch::OnDemand), Just(Dispatch::RoundRobin)];
    let driver = prop_oneof![Just(Driver::Auto), Just(Driver::Inline), Just(Driver::Threaded)];
    let batch = prop_oneof![2 => Just(BatchMode::Auto), 3 => (1..100usize).prop_map(BatchMode::Fixed)];
    let window = proptest::option::of(1..40usize);
    let bytes = prop_oneof![Just(1usize), Just(1000), Just(1 << 28)];
    let items = prop_oneof![1 => 0..5u64, 3 => 0..300u64, 1 => 0..2000u64];
    let settings = (dispatch, driver, batch, window, bytes, 1..4usize, any::<bool>());
    (shape, items, settings).prop_map(|((blocks, stages, ranks), items, settings)| {
        let (dispatch, driver, batch, window, window_bytes, ahead, ordered) = settings;
        Plan { stages, blocks, ranks, items, dispatch, driver, batch, window, window_bytes, ahead, ordered }
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000,
        max_shrink_time: 60_000,
        failure_persistence: Some(Box::new(
            proptest::test_runner::FileFailurePersistence::WithSource("regressions"),
        )),
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_pipeline_on_any_mapping_gives_the_serial_result(plan in plan()) {
        let outcome = local::run(&format!("{plan:?}"), &plan.config(), |session| plan.run(session));
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}
