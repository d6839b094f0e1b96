//! Pipeline whose stages really compute, with a fixed number of operations per item, for the experiments on
//! balancing.
//!
//! A stage advances a linear congruential generator, starting from the item, by a number of steps one at a time.
//! Without running the stages, [`expected`] computes the checksum of their results in a few operations, because any
//! sequence of steps is an affine function.

use std::hint::black_box;
use std::time::{Duration, Instant};

use armature::BoxError;
use armature::pipeline::{Context, Pipeline, Stage, StageResult};
use armature_planner::pipeline::{PipelineSpec, StageSpec};

const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;
const ITEM: f64 = 8.0;

/// Stage that computes a fixed number of generator steps per item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticStage {
    /// Name of the stage.
    pub name: &'static str,
    /// Steps per item; a thousand steps take some microseconds.
    pub steps: u64,
    /// Ranks on which the stage may run.
    pub place: Placement,
}

/// Ranks on which a stage may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Any number of ranks, because the stage has no state and can be replicated.
    Free,
    /// Any rank, but only one at a time, because the stage has state. The stage can migrate.
    Serial,
    /// Rank 0 only. The stage has state and cannot migrate.
    Root,
}

const fn stage(name: &'static str, steps: u64, place: Placement) -> SyntheticStage {
    SyntheticStage { name, steps, place }
}

/// Stages that together take some milliseconds per item. One serial stage, which only one rank can run, takes two
/// fifths of the time per item. If its rank becomes slow, it delays the stream unless the stage migrates.
pub const UNEVEN: &[SyntheticStage] = &[
    stage("read", 20_000, Placement::Root),
    stage("cut", 600_000, Placement::Free),
    stage("match", 900_000, Placement::Free),
    stage("track", 1_200_000, Placement::Serial),
    stage("paint", 300_000, Placement::Free),
    stage("write", 20_000, Placement::Root),
];

/// Stages that together take one to two milliseconds per item, for streams whose mapping (stages to ranks) changes
/// often.
pub const REMAPPED: &[SyntheticStage] = &[
    stage("read", 5_000, Placement::Root),
    stage("first", 400_000, Placement::Free),
    stage("middle", 300_000, Placement::Serial),
    stage("last", 400_000, Placement::Free),
    stage("write", 5_000, Placement::Root),
];

/// Creates a pipeline of the stages for the items 0, 1, …; its results are delivered in order.
pub fn pipeline(stages: &[SyntheticStage], items: u64) -> Pipeline<'_, u64> {
    let source = Pipeline::source("numbers", move || 0..items);
    stages.iter().fold(source, |pipeline, stage| {
        let steps = stage.steps;
        match stage.place {
            Placement::Free => pipeline.map(stage.name, move |item| advance(item, steps)),
            Placement::Serial => {
                pipeline.stage(stage.name, move || Ok(SerialStage { steps, seen: 0 })).serial()
            }
            Placement::Root => {
                pipeline.stage(stage.name, move || Ok(SerialStage { steps, seen: 0 })).at_root()
            }
        }
    })
}

/// Returns the specification of the pipeline for a planner, in which work is counted in generator steps.
pub fn spec(stages: &[SyntheticStage]) -> PipelineSpec {
    let stage = |stage: &SyntheticStage| {
        let spec = StageSpec::new(stage.name, stage.steps as f64, ITEM);
        match stage.place {
            Placement::Free => spec,
            Placement::Serial => spec.serial(),
            Placement::Root => spec.serial().pinned(0),
        }
    };
    PipelineSpec { input: ITEM, stages: stages.iter().map(stage).collect() }
}

/// Returns the checksum that [`fold`] computes from the results of `items` items.
pub fn expected(stages: &[SyntheticStage], items: u64) -> u64 {
    let mut seen = vec![0; stages.len()];
    let jumps: Vec<Affine> = stages.iter().map(|stage| Affine::STEP.power(stage.steps)).collect();
    let result = |item: u64| {
        let one = |item: u64, (at, stage): (usize, &SyntheticStage)| match stage.place {
            Placement::Free => jumps[at].apply(item),
            Placement::Serial | Placement::Root => accumulate(&mut seen[at], item, jumps[at].apply(item)),
        };
        stages.iter().enumerate().fold(item, one)
    };
    (0..items).map(result).fold(0, fold)
}

/// Folds a result into the checksum of the sink, which depends on every result and on their order.
pub fn fold(sum: u64, result: u64) -> u64 {
    sum.rotate_left(5) ^ result
}

/// Returns the seconds that all stages take per item on an undisturbed core: the minimum of several measurements.
pub fn seconds_per_item(stages: &[SyntheticStage]) -> f64 {
    let steps = stages.iter().map(|stage| stage.steps).sum();
    let measure_once = |_| {
        let start = Instant::now();
        black_box(advance(black_box(1), steps));
        start.elapsed()
    };
    (0..50).map(measure_once).min().unwrap_or(Duration::ZERO).as_secs_f64()
}

/// Advances the generator from `item` by `steps` steps.
pub(crate) fn advance(item: u64, steps: u64) -> u64 {
    // With known constants, the compiler could combine two steps into one.
    let (multiplier, increment) = (black_box(MULTIPLIER), black_box(INCREMENT));
    (0..steps).fold(item, |x, _| x.wrapping_mul(multiplier).wrapping_add(increment))
}

/// Returns the result of [`advance`], computed without executing each step.
pub(crate) fn advance_directly(item: u64, steps: u64) -> u64 {
    Affine::STEP.power(steps).apply(item)
}

struct SerialStage {
    steps: u64,
    seen: u64,
}

impl Stage for SerialStage {
    type In = u64;
    type Out = u64;

    fn process(&mut self, item: u64, _: &mut Context) -> StageResult<u64> {
        Ok(Some(accumulate(&mut self.seen, item, advance(item, self.steps))))
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(self.seen.to_le_bytes().to_vec())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        self.seen = u64::from_le_bytes(state.try_into()?);
        Ok(())
    }
}

fn accumulate(seen: &mut u64, item: u64, result: u64) -> u64 {
    *seen = fold(*seen, item);
    result ^ *seen
}

/// Affine function x ↦ factor · x + offset, modulo 2⁶⁴.
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

    fn followed_by(self, next: Affine) -> Affine {
        Affine { factor: self.factor.wrapping_mul(next.factor), offset: next.apply(self.offset) }
    }

    fn power(self, times: u64) -> Affine {
        let (mut result, mut square, mut times) = (Affine { factor: 1, offset: 0 }, self, times);
        while times > 0 {
            if times % 2 == 1 {
                result = result.followed_by(square);
            }
            square = square.followed_by(square);
            times /= 2;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_advance_equals_single_steps() {
        for steps in [0, 1, 2, 3, 1000, 4097] {
            assert_eq!(advance_directly(17, steps), advance(17, steps), "{steps} steps");
        }
    }

    #[test]
    fn restored_stage_continues_from_its_saved_state() {
        let mut cx = Context::for_test();
        let mut run = |stage: &mut SerialStage, item| stage.process(item, &mut cx).unwrap().unwrap();
        let (mut whole, mut first, mut second) = (
            SerialStage { steps: 9, seen: 0 },
            SerialStage { steps: 9, seen: 0 },
            SerialStage { steps: 9, seen: 0 },
        );
        run(&mut whole, 4);
        run(&mut first, 4);
        second.restore(&first.save().unwrap()).unwrap();
        assert_eq!(run(&mut whole, 5), run(&mut second, 5));
        assert!(second.restore(b"abc").is_err());
    }
}
