//! Recording of a profile: wrappers around pipeline stages that record the time and output size of each item.

use crate::profile::{ItemCost, MAX_COST, Profile, StageCost};
use crate::stages::{Cut, Described, Loaded, Probed, Ranked};
use armature::pipeline::{Context, Stage, StageResult};
use armature_apps::spin;
use std::mem::size_of;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Number of times that a recorded stage processes each item. The shortest time is recorded, because other programs disturb it least.
const ROUNDS: usize = 3;

/// Recorded times and sizes of each item, shared by all stages of a pipeline.
#[derive(Clone, Debug, Default)]
pub struct CostRecorder {
    items: Arc<Mutex<Vec<RecordedCosts>>>,
}

/// Recorded times and sizes of one item; `None` for a stage that the item has not passed.
#[derive(Clone, Debug, Default)]
struct RecordedCosts {
    input: u32,
    stages: [Option<StageCost>; 6],
}

impl CostRecorder {
    fn note(&self, number: u64, write: impl FnOnce(&mut RecordedCosts)) {
        // A mutex that a panic has poisoned is used as well, because its entries are always consistent.
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let number = number as usize;
        if items.len() <= number {
            items.resize(number + 1, RecordedCosts::default());
        }
        write(&mut items[number]);
    }

    /// Returns a profile with the recorded costs of all items that have passed all stages, and the speed of this machine.
    pub fn profile(&self, remarks: Vec<String>) -> Profile {
        let items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = |noted: &RecordedCosts| {
            let mut item = ItemCost { input: noted.input, ..ItemCost::default() };
            for (stage, cost) in item.stages.iter_mut().zip(noted.stages) {
                *stage = cost?;
            }
            Some(item)
        };
        Profile { speed: spin::speed().round(), remarks, items: items.iter().filter_map(whole).collect() }
    }
}

pub(crate) struct RecordingStage<S> {
    stage: S,
    number: usize,
    recorder: Option<CostRecorder>,
}

impl<S> RecordingStage<S> {
    pub(crate) fn new(stage: S, number: usize, recorder: &Option<CostRecorder>) -> Self {
        RecordingStage { stage, number, recorder: recorder.clone() }
    }
}

impl<S> Stage for RecordingStage<S>
where
    S: Stage,
    S::In: Clone + Bytes,
    S::Out: Bytes,
{
    type In = S::In;
    type Out = S::Out;

    fn process(&mut self, item: S::In, cx: &mut Context) -> StageResult<S::Out> {
        let Some(recorder) = &self.recorder else { return self.stage.process(item, cx) };
        let input = small(item.bytes());
        let mut shortest = f64::INFINITY;
        let mut timed = |item| {
            let start = Instant::now();
            let result = self.stage.process(item, cx);
            shortest = shortest.min(start.elapsed().as_secs_f64());
            result
        };
        let mut result = timed(item.clone());
        for _ in 1..ROUNDS {
            // An item that the stage drops is not processed again, because the stage would print its message for the dropped item again.
            if !matches!(result, Ok(Some(_))) {
                return result;
            }
            result = timed(item.clone());
        }
        if let Ok(Some(out)) = &result {
            let micros = (1e6 * shortest).ceil().clamp(1.0, f64::from(MAX_COST)) as u32;
            let cost = StageCost { micros, bytes: small(out.bytes()) };
            recorder.note(cx.number(), |noted| {
                if self.number == 0 {
                    noted.input = input;
                }
                noted.stages[self.number] = Some(cost);
            });
        }
        result
    }

    fn save(&self) -> Option<Vec<u8>> {
        self.stage.save()
    }
}

/// Number of bytes in an item that is sent between stages: text, pixels and numbers, without the few bytes that their serialization adds.
pub(crate) trait Bytes {
    fn bytes(&self) -> usize;
}

fn small(bytes: usize) -> u32 {
    u32::try_from(bytes).map_or(MAX_COST, |bytes| bytes.min(MAX_COST))
}

impl Bytes for Loaded {
    fn bytes(&self) -> usize {
        self.query.len() + 2 * size_of::<u32>() + self.picture.rgb.len()
    }
}

impl Bytes for Cut {
    fn bytes(&self) -> usize {
        let (picture, labels) = (&self.image.picture, &self.image.labels);
        self.query.len() + 2 * size_of::<u32>() + picture.rgb.len() + labels.len() + size_of::<u8>()
    }
}

impl Bytes for Described {
    fn bytes(&self) -> usize {
        self.query.len() + size_of_val(&self.regions[..])
    }
}

impl Bytes for Probed {
    fn bytes(&self) -> usize {
        self.query.len() + size_of_val(&self.regions[..]) + size_of_val(&self.candidates[..])
    }
}

impl Bytes for Ranked {
    fn bytes(&self) -> usize {
        let matches = self.matches.iter().map(|found| found.image.len() + size_of::<f64>());
        self.query.len() + matches.sum::<usize>()
    }
}

impl Bytes for String {
    fn bytes(&self) -> usize {
        self.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Spaces;

    impl Stage for Spaces {
        type In = String;
        type Out = String;

        fn process(&mut self, item: String, _: &mut Context) -> StageResult<String> {
            spin::spin(1_000_000);
            Ok((!item.is_empty()).then(|| " ".repeat(2 * item.len())))
        }
    }

    #[test]
    fn items_that_pass_all_stages_are_recorded() {
        let recorder = CostRecorder::default();
        let some_recorder = Some(recorder.clone());
        let mut stages: Vec<_> = (0..6).map(|n| RecordingStage::new(Spaces, n, &some_recorder)).collect();
        let mut cx = Context::for_test();
        let mut item = Some("ab".to_string());
        for stage in &mut stages {
            item = item.and_then(|item| stage.process(item, &mut cx).unwrap());
        }
        assert_eq!(item.unwrap().len(), 128);
        let profile = recorder.profile(vec![]);
        assert_eq!((profile.items.len(), profile.items[0].input), (1, 2));
        assert_eq!(profile.items[0].stages.map(|s| s.bytes), [4, 8, 16, 32, 64, 128]);
        assert!(profile.items[0].stages.iter().all(|s| s.micros > 10), "{profile}");

        let recorder = CostRecorder::default();
        let dropped =
            RecordingStage::new(Spaces, 0, &Some(recorder.clone())).process(String::new(), &mut cx).unwrap();
        assert!(dropped.is_none() && recorder.profile(vec![]).items.is_empty());
        let plain = RecordingStage::new(Spaces, 0, &None).process("x".into(), &mut cx).unwrap();
        assert_eq!(plain.unwrap(), "  ");
    }
}
