//! Rank 0's snapshots of a pipeline: their schedule, their files, and the snapshot from which a restarted job continues.
//!
//! A snapshot is a consistent cut of the stream: a number n of source items, the state of each serial stage after exactly these items, and the state
//! of the sink that has committed everything made from them. Rank 0 draws a marker behind item n (`machine/source.rs`). The marker passes all stages
//! in order, like a batch, collects the states of the serial stages, and reaches the sink behind the last item before it. Therefore no messages or
//! queues belong to a snapshot, and only rank 0 writes files.

use std::path::Path;
use std::time::Duration;

use armature_text::shown;
use serde::{Deserialize, Serialize};

use super::machine::batch::SavedStage;
use super::machine::{Committed, Position};
use super::pipeline_def::PipelineDef;
use super::source_sink::{Durability, NamedSink};
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::Event;
use crate::persist::snapshot::{Checkpoint, Manifest, Schedule, SnapshotStore, SnapshotWriter, load};
use crate::session::Config;
use crate::wire;

/// State from which a restarted job continues, as read from the last snapshot.
#[derive(Debug, Default)]
pub(crate) struct Resumed {
    /// Point of the stream at which the snapshot was taken; `None` if there is no snapshot yet.
    pub(crate) position: Option<Position>,
    pub(crate) stages: Vec<SavedStage>,
    /// True if the job that wrote the snapshot has processed the whole stream.
    pub(crate) is_finished: bool,
}

/// Point of the stream at which a snapshot was taken, and whether the stream has ended there. It is the last byte string of a snapshot, after the
/// states of the serial stages.
#[derive(Serialize, Deserialize)]
struct Record {
    position: Position,
    is_finished: bool,
}

#[derive(Debug)]
pub(crate) struct Snapshots {
    store: SnapshotStore,
    writer: SnapshotWriter,
    schedule: Schedule,
    /// Number of the last snapshot, counted from the first start of the job.
    number: u64,
    stages: usize,
    /// Number of source items before the last complete snapshot, counted from the first start of the job; `None` if there is no snapshot.
    items: Option<u64>,
    progress: Progress,
    /// Content of the snapshot at the end of the stream, while the files of the preceding snapshot are being written.
    last: Option<(Committed, bool)>,
    costs: SnapshotCosts,
}

/// State of the next snapshot of a pipeline.
#[derive(Debug)]
enum Progress {
    /// No snapshot is due or being taken.
    Idle,
    /// The marker of a snapshot (a batch without items) has still to be sent by the source, or to reach the sink.
    Marked,
    /// The files of a snapshot are being written.
    Writing { items: u64, bytes: u64, took: Duration, since: Duration, is_finished: bool },
}

/// Number of the snapshots of a run, the time that they took, and the time between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SnapshotCosts {
    /// Number of snapshots that were completed.
    pub count: u64,
    /// Total time in which stages saved their states and the sink committed its items, for all snapshots.
    pub took: Duration,
    /// Time between the starts of two snapshots, as scheduled at the end of the run.
    pub period: Duration,
}

impl Snapshots {
    /// Opens the directory of the snapshots of a pipeline, and loads the newest snapshot.
    ///
    /// # Errors
    /// If the directory holds snapshots of another pipeline or damaged snapshots only, or another job uses it; errors of the file system.
    pub(crate) fn open(
        endpoint: &mut Endpoint,
        pipeline: &PipelineDef<'_>,
        checkpoint: &Checkpoint,
        config: &Config,
    ) -> Result<(Self, Resumed)> {
        endpoint.claim(&checkpoint.dir)?;
        let stages = pipeline.stages.len();
        let owner = pipeline.description();
        let identity = checkpoint.identity.bytes()?;
        let load = |manifest: &Manifest| read(checkpoint, manifest, stages);
        let (store, found) = SnapshotStore::open(&checkpoint.dir, &owner, identity, stages as u64 + 1, load)?;
        let number = found.as_ref().map_or(0, |(manifest, _)| manifest.pass);
        let resumed = found.map_or_else(Resumed::default, |(_, resumed)| resumed);
        let writer = store.writer(0, endpoint.capabilities().threads);
        let schedule = Schedule::new(checkpoint.every, config, endpoint.clock().now());
        let costs = SnapshotCosts::default();
        let items = resumed.position.as_ref().map(|position| position.items);
        if let Some(Position { items, .. }) = &resumed.position {
            let (name, dir) = (shown(pipeline.name()), armature_text::path(&checkpoint.dir));
            match resumed.is_finished {
                false => log::info!("pipeline {name}: resumes after {items} items from {dir}"),
                true => log::info!(
                    "pipeline {name}: an earlier job has processed all {items} items, so nothing is left to do; remove {dir} to start again"
                ),
            }
        }
        let snapshots = Snapshots {
            store,
            writer,
            schedule,
            number,
            stages,
            items,
            progress: Progress::Idle,
            last: None,
            costs,
        };
        Ok((snapshots, resumed))
    }

    /// Returns the number of source items before the last complete snapshot, and the directory of the snapshots; `None` if there is no snapshot.
    pub(crate) fn kept(&self) -> Option<(u64, &Path)> {
        self.items.map(|items| (items, self.store.dir()))
    }

    /// Returns true if a snapshot is due: the source must send its marker (a batch without items) into the stream.
    pub(crate) fn is_due(&mut self, now: Duration) -> bool {
        let is_due = matches!(self.progress, Progress::Idle) && self.schedule.is_due(now);
        if is_due {
            self.schedule.started(now);
            self.progress = Progress::Marked;
        }
        is_due
    }

    /// Starts to write the files of a snapshot, because the sink has committed all items before the snapshot's marker. If `is_finished` is true, the
    /// stream has ended.
    ///
    /// # Errors
    /// If the marker names a stage that the pipeline does not have ([`ErrorKind::Wire`]), or the thread that writes cannot be started.
    pub(crate) fn write(&mut self, committed: Committed, is_finished: bool, now: Duration) -> Result<()> {
        if self.is_writing() {
            // The snapshot at the end of the stream is written when the files of the preceding snapshot are complete. Until then the source sends no
            // other marker.
            self.last = Some((committed, is_finished));
            return Ok(());
        }
        let Committed { position, stages, took } = committed;
        let mut states = by_stage(stages, self.stages)?;
        let items = position.items;
        let mut record = Vec::new();
        wire::append(&Record { position, is_finished }, &mut record)?;
        states.push(record);
        let bytes = states.iter().map(|state| state.len() as u64).sum();
        let pieces = (0..).zip(states).map(|(unit, state)| (unit, 1, state)).collect();
        self.number += 1;
        self.store.begin(self.number, 1);
        self.progress = Progress::Writing { items, bytes, took, since: now, is_finished };
        self.writer.save(self.number, pieces)
    }

    /// Completes a snapshot whose files have been written. Returns the event for the event log. If the files cannot be written, the preceding
    /// snapshot stays valid, and the run continues with a warning. If the snapshot was that of the whole stream, all snapshots are removed, because
    /// the sink is finished next, and no job can continue a finished output from an earlier snapshot.
    ///
    /// # Errors
    /// If the marker names a stage that the pipeline does not have ([`ErrorKind::Wire`]), or the thread that writes cannot be started; errors of the
    /// file system while snapshots are removed.
    pub(crate) fn poll(&mut self, now: Duration) -> Result<Option<Event>> {
        let Progress::Writing { items, bytes, took, since, is_finished } = self.progress else {
            return Ok(None);
        };
        let Some((number, written)) = self.writer.poll() else { return Ok(None) };
        self.progress = Progress::Idle;
        let event = match self.store.add(0, number, written) {
            Err(error) if is_finished => {
                self.store.clear()?;
                log::warn!(
                    "{}; all items are processed, and the snapshots are removed: a job that is started again begins at the first item",
                    error.message()
                );
                None
            }
            Err(error) => {
                log::warn!(
                    "{}; the run continues, and the snapshot before this one stays valid",
                    error.message()
                );
                None
            }
            Ok(_) => {
                self.items = Some(items);
                self.schedule.completed(took);
                self.costs.count += 1;
                self.costs.took += took;
                Some(Event::Snapshot {
                    items,
                    bytes,
                    took_s: took.as_secs_f64(),
                    written_s: now.saturating_sub(since).as_secs_f64(),
                    next_s: self.schedule.period().as_secs_f64(),
                })
            }
        };
        if let Some((last, is_last)) = self.last.take() {
            self.write(last, is_last, now)?;
        }
        Ok(event)
    }

    pub(crate) fn is_writing(&self) -> bool {
        matches!(self.progress, Progress::Writing { .. })
    }

    pub(crate) fn costs(&self) -> SnapshotCosts {
        SnapshotCosts { period: self.schedule.period(), ..self.costs.clone() }
    }
}

fn read(checkpoint: &Checkpoint, manifest: &Manifest, stages: usize) -> Result<Resumed> {
    let wrong = || checkpoint.refused("it does not hold the snapshot of a pipeline");
    let units = stages as u64 + 1;
    let mut states: Vec<Vec<u8>> =
        load(&checkpoint.dir, manifest, &(0..units))?.into_iter().map(|piece| piece.data).collect();
    let record = states.pop().filter(|_| states.len() == stages).ok_or_else(wrong)?;
    let Record { position, is_finished } = wire::from_bytes(&record).map_err(|_| wrong())?;
    let saved = (0..).zip(states).map(|(stage, state)| SavedStage { stage, state }).collect();
    Ok(Resumed { position: Some(position), stages: saved, is_finished })
}

/// Returns the stage states that the marker of a snapshot has collected, ordered by stage. A stage that saved no state has an empty one.
///
/// # Errors
/// [`ErrorKind::Wire`] if the marker names a stage that the pipeline of `stages` stages does not have.
fn by_stage(saved: Vec<SavedStage>, stages: usize) -> Result<Vec<Vec<u8>>> {
    let mut states = vec![Vec::new(); stages];
    for SavedStage { stage, state } in saved {
        let place = states.get_mut(stage as usize).ok_or_else(|| {
            let text = format!("a marker has a state of stage {stage}, but the pipeline has {stages} stages");
            Error::new(ErrorKind::Wire, text)
        })?;
        *place = state;
    }
    Ok(states)
}

impl PipelineDef<'_> {
    /// Returns the text that identifies the pipeline in its snapshots: the name of the pipeline, and the names and item types of its source and
    /// stages.
    fn description(&self) -> String {
        let mut text = format!("{}: {} {}", self.name(), self.source_name, self.codecs[0].item());
        for (stage, codec) in self.stages.iter().zip(&self.codecs[1..]) {
            let serial = if stage.serial { " (serial)" } else { "" };
            text += &format!(", {}{serial} {}", stage.name, codec.item());
        }
        text
    }

    /// Returns an error if snapshots are set and the sink cannot use them.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if a restart would lose items of the sink.
    pub(super) fn check_snapshots(&self, sink: &NamedSink<'_>, method: &str) -> Result<()> {
        if self.snapshots.is_none() || sink.sink.durability() != Durability::InMemory {
            return Ok(());
        }
        let text = format!(
            "snapshots are set, but `{method}` keeps the items in memory and would lose those of an earlier job: use `write_to`, \
             `run_into`, or `for_each`"
        );
        Err(Error::new(ErrorKind::Config, text).in_pipeline(self.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_a_marker_are_ordered_and_an_unknown_stage_is_an_error() {
        let saved = |stage, state: &[u8]| SavedStage { stage, state: state.to_vec() };
        let states = by_stage(vec![saved(2, b"c"), saved(0, b"a")], 3).unwrap();
        assert_eq!(states, [b"a".to_vec(), Vec::new(), b"c".to_vec()]);
        let error = by_stage(vec![saved(3, b"d")], 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Wire);
        assert!(error.message().contains("stage 3"), "{error}");
    }
}
