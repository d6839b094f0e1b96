//! A pipeline whose stages really compute, for a fixed number of operations an item: what experiments on balancing run.
//!
//! A stage advances a linear congruential generator by so many steps, starting from the item. Nothing shortens that for
//! a processor that has to do it, yet where many steps lead can be computed in a few (the step is an affine function,
//! and so is any number of them): [`expected`] knows the result of a stream without running it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use armature::BoxError;
use armature::pipeline::{Context, Pipeline, Stage, StageResult};
use armature_planner::pipeline::{PipelineSpec, StageSpec};

const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;
/// Bytes of an item.
const ITEM: f64 = 8.0;

/// A stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toil {
    /// Its name.
    pub name: &'static str,
    /// Steps for an item; a thousand take some microseconds.
    pub steps: u64,
    /// Where it may run.
    pub place: Place,
}

/// Where a stage may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Anywhere, replicated.
    Free,
    /// On one rank at a time, as it remembers something; it can be handed over.
    Serial,
    /// The same, on rank 0.
    Root,
}

const fn toil(name: &'static str, steps: u64, place: Place) -> Toil {
    Toil { name, steps, place }
}

/// Some milliseconds an item, two fifths of them in a stage that only one rank can run: without moving it, a rank that
/// becomes slow holds up the stream.
pub const UNEVEN: &[Toil] = &[
    toil("read", 20_000, Place::Root),
    toil("cut", 600_000, Place::Free),
    toil("match", 900_000, Place::Free),
    toil("track", 1_200_000, Place::Serial),
    toil("paint", 300_000, Place::Free),
    toil("write", 20_000, Place::Root),
];

/// One to two milliseconds an item, to be rearranged all the time.
pub const MOVED: &[Toil] = &[
    toil("read", 5_000, Place::Root),
    toil("first", 400_000, Place::Free),
    toil("middle", 300_000, Place::Serial),
    toil("last", 400_000, Place::Free),
    toil("write", 5_000, Place::Root),
];

/// The pipeline over so many items; its results come in order.
pub fn pipeline(stages: &[Toil], items: u64) -> Pipeline<'_, u64> {
    let source = Pipeline::source("numbers", move || 0..items);
    stages.iter().fold(source, |pipeline, stage| {
        let steps = stage.steps;
        match stage.place {
            Place::Free => pipeline.map(stage.name, move |item| advance(item, steps)),
            Place::Serial => pipeline.stage(stage.name, move || Ok(Track { steps, seen: 0 })).serial(),
            Place::Root => pipeline.stage(stage.name, move || Ok(Track { steps, seen: 0 })).at_root(),
        }
    })
}

/// What a planner needs to know of the pipeline; work is in steps.
pub fn spec(stages: &[Toil]) -> PipelineSpec {
    let stage = |toil: &Toil| {
        let spec = StageSpec::new(toil.name, toil.steps as f64, ITEM);
        match toil.place {
            Place::Free => spec,
            Place::Serial => spec.serial(),
            Place::Root => spec.serial().pinned(0),
        }
    };
    PipelineSpec { input: ITEM, stages: stages.iter().map(stage).collect() }
}

/// What [`fold`] makes of the results of so many items.
pub fn expected(stages: &[Toil], items: u64) -> u64 {
    let mut seen = vec![0; stages.len()];
    let jumps: Vec<Affine> = stages.iter().map(|stage| Affine::STEP.power(stage.steps)).collect();
    let result = |item: u64| {
        let one = |item: u64, (at, stage): (usize, &Toil)| match stage.place {
            Place::Free => jumps[at].apply(item),
            Place::Serial | Place::Root => follow(&mut seen[at], item, jumps[at].apply(item)),
        };
        stages.iter().enumerate().fold(item, one)
    };
    (0..items).map(result).fold(0, fold)
}

/// What the sink keeps: depends on every result and on their order.
pub fn fold(sum: u64, result: u64) -> u64 {
    sum.rotate_left(5) ^ result
}

/// Seconds that one item takes on a core that nobody else uses: the shortest of some.
pub fn seconds_per_item(stages: &[Toil]) -> f64 {
    let steps = stages.iter().map(|stage| stage.steps).sum();
    let once = |_| {
        let start = Instant::now();
        black_box(advance(black_box(1), steps));
        start.elapsed()
    };
    (0..50).map(once).min().unwrap_or(Duration::ZERO).as_secs_f64()
}

/// Where so many steps lead from `item`, step by step.
pub(crate) fn advance(item: u64, steps: u64) -> u64 {
    // Not known to the compiler, so that it cannot do two steps in one.
    let (multiplier, increment) = (black_box(MULTIPLIER), black_box(INCREMENT));
    (0..steps).fold(item, |x, _| x.wrapping_mul(multiplier).wrapping_add(increment))
}

/// The same, found in a few operations.
pub(crate) fn landing(item: u64, steps: u64) -> u64 {
    Affine::STEP.power(steps).apply(item)
}

/// A serial stage: its result depends on all items before.
struct Track {
    steps: u64,
    seen: u64,
}

impl Stage for Track {
    type In = u64;
    type Out = u64;

    fn process(&mut self, item: u64, _: &mut Context) -> StageResult<u64> {
        Ok(Some(follow(&mut self.seen, item, advance(item, self.steps))))
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(self.seen.to_le_bytes().to_vec())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        self.seen = u64::from_le_bytes(state.try_into()?);
        Ok(())
    }
}

fn follow(seen: &mut u64, item: u64, result: u64) -> u64 {
    *seen = fold(*seen, item);
    result ^ *seen
}

/// x ↦ factor · x + offset, modulo 2⁶⁴.
#[derive(Clone, Copy)]
struct Affine {
    factor: u64,
    offset: u64,
}

impl Affine {
    const STEP: Affine = Affine { factor: MULTIPLIER, offset: INCREMENT };

    fn apply(self, x: u64) -> u64 {
        x.wrapping_mul(self.factor).wrapping_add(self.offset)
    }

    /// `self` first, then `next`.
    fn then(self, next: Affine) -> Affine {
        Affine { factor: self.factor.wrapping_mul(next.factor), offset: next.apply(self.offset) }
    }

    fn power(self, times: u64) -> Affine {
        let (mut result, mut square, mut times) = (Affine { factor: 1, offset: 0 }, self, times);
        while times > 0 {
            if times % 2 == 1 {
                result = result.then(square);
            }
            square = square.then(square);
            times /= 2;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_steps_lead_where_the_power_says() {
        for steps in [0, 1, 2, 3, 1000, 4097] {
            assert_eq!(landing(17, steps), advance(17, steps), "{steps} steps");
        }
    }

    #[test]
    fn a_stage_goes_on_elsewhere_from_its_state() {
        let mut cx = Context::for_test();
        let mut run = |stage: &mut Track, item| stage.process(item, &mut cx).unwrap().unwrap();
        let (mut whole, mut first, mut second) =
            (Track { steps: 9, seen: 0 }, Track { steps: 9, seen: 0 }, Track { steps: 9, seen: 0 });
        run(&mut whole, 4);
        run(&mut first, 4);
        second.restore(&first.save().unwrap()).unwrap();
        assert_eq!(run(&mut whole, 5), run(&mut second, 5));
        assert!(second.restore(b"abc").is_err());
    }
}
