//! Replay of a profile: a pipeline whose stages take the recorded times and send the recorded numbers of bytes, without images.
//!
//! The stages have the names and properties of those in [`crate::pipeline`]. Each stage takes the recorded time by declaring its work on a simulated
//! machine, and by [`armature_apps::spin`]ning on a real machine. Thus streams can be tested on simulated machines, and mappings (assignments of
//! stages to ranks) can be compared.

use crate::profile::Profile;
use crate::timing::STAGES;
use armature::pipeline::{Context, Dispatch, MappingChoice, Pipeline, Stage, StageResult, Summary};
use armature::{BoxError, Session};
use armature_apps::random::Random;
use armature_apps::spin::spin;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Parameters of the replay of a profile.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Recorded times and sizes of the items.
    pub profile: Arc<Profile>,
    /// Number of items that the pipeline processes. A profile with fewer items repeats.
    pub items: u64,
    /// Initial mapping (assignment of stages to ranks).
    pub mapping: MappingChoice,
    /// Mappings that replace the initial one, each with the number of results after which the pipeline adopts it.
    pub remaps: Vec<(u64, MappingChoice)>,
    /// Method by which items are dispatched to the replicas of a stage.
    pub dispatch: Dispatch,
}

/// Result of the replay of a profile, on rank 0.
#[derive(Clone, Debug)]
pub struct ReplayResult {
    /// Time from the start of the replay on rank 0 to the arrival of each item at the sink, in the order of the items.
    pub times: Vec<Duration>,
    /// Checksum of the stages that every item has passed, in order, which does not depend on the mapping and the number of ranks.
    pub checksum: u64,
    /// Summary of the pipeline's run, with the final mapping (assignment of stages to ranks) and the work of each rank.
    pub run: Summary,
}

/// Sends the items through the stages of the pipeline. All ranks call this function; rank 0 receives the result.
///
/// # Errors
/// A mapping that does not fit, or items that arrive out of order, are missing, or have lost bytes.
pub fn replay(session: &mut Session, replay: &Replay) -> Result<Option<ReplayResult>, BoxError> {
    let clock = session.stopwatch();
    let simulated = session.is_simulated();
    let (profile, items) = (&replay.profile, replay.items);
    let stage = |number: usize| {
        let profile = profile.clone();
        move || Ok(ReplayStage { number, simulated, profile: profile.clone() })
    };
    let mut times = Vec::new();
    let mut checksum = 0;
    let [load, seg, ext, ind, rank, out] = STAGES;
    let first = profile.clone();
    let job =
        Pipeline::source("files", move || (0..items).map(move |n| ReplayItem::new(n, first.item(n).input)))
            .stage(load, stage(0))
            .serial()
            .stage(seg, stage(1))
            .stage(ext, stage(2))
            .stage(ind, stage(3))
            .stage(rank, stage(4))
            .stage(out, stage(5))
            .serial()
            .mapping(replay.mapping.clone())
            .dispatch(replay.dispatch);
    let remaps = replay.remaps.iter().cloned();
    let job = remaps.fold(job, |job, (after, mapping)| job.remap_after(after, mapping));
    let outcome = job.try_for_each(session, "write", |stream_item| {
        let expected = times.len() as u64;
        if stream_item.number != expected {
            return Err(format!("item {} arrived, expected item {expected}", stream_item.number).into());
        }
        times.push(clock.elapsed());
        checksum = hash_pair(checksum, stream_item.digest);
        stream_item.check(profile.item(stream_item.number).stages[5].bytes)
    })?;
    let Some(run) = outcome.into_summary() else { return Ok(None) };
    if times.len() as u64 != items {
        return Err(format!("{} items arrived, but {items} were sent", times.len()).into());
    }
    Ok(Some(ReplayResult { times, checksum, run }))
}

/// Item of the pipeline: number, digest of the stages that it has passed, and as many bytes as the recorded item has.
#[derive(Debug, Serialize, Deserialize)]
struct ReplayItem {
    number: u64,
    digest: u64,
    #[serde(with = "armature::raw")]
    payload: Vec<u8>,
}

impl ReplayItem {
    const HEADER_BYTES: u32 = 16;

    fn new(number: u64, bytes: u32) -> Self {
        ReplayItem { number, digest: 0, payload: vec![0; bytes.saturating_sub(Self::HEADER_BYTES) as usize] }
    }

    fn check(&self, bytes: u32) -> Result<(), BoxError> {
        let (found, expected) = (self.payload.len(), bytes.saturating_sub(Self::HEADER_BYTES) as usize);
        if found == expected {
            return Ok(());
        }
        Err(format!("item {} carries {found} bytes instead of {expected}", self.number).into())
    }
}

struct ReplayStage {
    number: usize,
    simulated: bool,
    profile: Arc<Profile>,
}

impl Stage for ReplayStage {
    type In = ReplayItem;
    type Out = ReplayItem;

    fn process(&mut self, stream_item: ReplayItem, cx: &mut Context) -> StageResult<ReplayItem> {
        let item = self.profile.item(stream_item.number);
        stream_item.check(match self.number {
            0 => item.input,
            n => item.stages[n - 1].bytes,
        })?;
        let work = self.profile.work(stream_item.number, self.number);
        cx.declare(work, || {
            if !self.simulated {
                spin(work as u64);
            }
        });
        let out = ReplayItem::new(stream_item.number, item.stages[self.number].bytes);
        Ok(Some(ReplayItem {
            digest: hash_pair(stream_item.digest ^ stream_item.number, self.number as u64),
            ..out
        }))
    }

    /// Returns an empty state: this stage has no state, but a serial stage can only migrate to another rank if it returns one.
    fn save(&self) -> Option<Vec<u8>> {
        Some(Vec::new())
    }
}

fn hash_pair(a: u64, b: u64) -> u64 {
    Random::stream(a, b).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{ItemCost, StageCost};
    use armature::Config;

    fn run_replay(ranks: usize, mapping: MappingChoice, dispatch: Dispatch) -> ReplayResult {
        let stage = |n: u32| StageCost { micros: 1 + n % 3, bytes: 1000 * (n % 4) };
        let item = |n: u32| ItemCost { input: 40 * n, stages: [0, 1, 2, 3, 4, 5].map(|s| stage(n + s)) };
        let items = (0..7).map(item).collect();
        let profile = Arc::new(Profile { speed: 1e8, remarks: vec![], items });
        let plan = Replay { profile, items: 60, mapping, remaps: Vec::new(), dispatch };
        let mut found = None;
        let cell = std::sync::Mutex::new(&mut found);
        armature::run(&Config::new().ranks(ranks), |session| {
            if let Some(run_replay) = replay(session, &plan)? {
                **cell.lock().unwrap() = Some(run_replay);
            }
            Ok(())
        })
        .unwrap();
        found.unwrap()
    }

    #[test]
    fn every_mapping_delivers_the_same_items_in_order() {
        let one = run_replay(1, MappingChoice::Serial, Dispatch::OnDemand);
        assert_eq!((one.times.len(), one.run.delivered), (60, 60));
        assert!(one.times.is_sorted());
        let replicas = "load@2 | seg+ext@0,1,2 | ind+rank@1,2 | out@1";
        for (mapping, dispatch) in [
            (MappingChoice::Orderly, Dispatch::OnDemand),
            (MappingChoice::Text(replicas.into()), Dispatch::OnDemand),
            (MappingChoice::Text(replicas.into()), Dispatch::RoundRobin),
        ] {
            let other = run_replay(3, mapping.clone(), dispatch);
            assert_eq!((other.checksum, other.times.len()), (one.checksum, 60), "{mapping:?}");
        }
    }

    #[test]
    fn lost_payload_byte_is_detected() {
        let mut stream_item = ReplayItem::new(3, 100);
        stream_item.check(100).unwrap();
        stream_item.payload.pop();
        let error = stream_item.check(100).unwrap_err().to_string();
        assert!(error.contains("item 3") && error.contains("83") && error.contains("84"), "{error}");
    }
}
