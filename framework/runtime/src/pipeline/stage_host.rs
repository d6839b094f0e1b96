//! Host of a rank's user code in a pipeline: the stages that the rank runs, and on rank 0 the source and the sink.
//!
//! A stage host runs one call of user code (of the source, of stages or of the sink) after another on the calling thread. It does not communicate
//! with other ranks.

use std::sync::Arc;
use std::time::Duration;

use armature_text::shown;

use super::erased::{Codec, ErasedStage, Expand, Expanded, Items};
use super::fill::Fill;
use super::job_cost::{EdgeSize, JobCost, StageTime};
use super::machine::batch::{Batch, BatchKind, ExpansionPiece, Payload, SavedStage};
use super::machine::{Committed, Consumed, Done, Job, Position, SetUp};
use super::pipeline_def::PipelineDef;
use super::produced_counts::ProducedCounts;
use super::range::Range;
use super::sizes::Sizes;
use super::source_sink::{ErasedSource, NamedSink};
use super::stage_def::StageDef;
use super::stats::{Activity, Doing, Sampler, StageStats};
use super::steal_time::StealTime;
use crate::balance::probe;
use crate::comm::Part;
use crate::comm::clock::Clock;
use crate::context::{Context, RankPlace};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::Tally;
use crate::rank::user_code::UserCode;
use crate::user_code;

pub(crate) struct StageHost<'p> {
    clock: Clock,
    core: StealTime,
    monitor: bool,
    /// True if serial stages must be able to save their states for snapshots.
    has_snapshots: bool,
    rank: usize,
    contexts: Vec<Context>,
    defs: Vec<StageDef<'p>>,
    live: Vec<Option<Box<dyn ErasedStage + 'p>>>,
    codecs: Vec<Arc<dyn Codec>>,
    source: Box<dyn ErasedSource + 'p>,
    source_name: String,
    sink: NamedSink<'p>,
    /// Timing of a sequence of stages that run in one call of user code, by index of the first stage of the sequence.
    stage_runs: Vec<Times>,
    /// Counters of the source, of each stage, and of the sink, in this order.
    stats: Vec<StageStats>,
    logs: bool,
    sizes: Sizes,
    activity: Arc<Activity>,
}

/// Timing of a sequence of stages that one call of user code runs: selection of the batches in which each stage is timed, and time per item in the
/// last such batch.
type Times = (Sampler, Duration);

impl<'p> StageHost<'p> {
    pub(crate) fn new(
        pipeline: PipelineDef<'p>,
        sink: NamedSink<'p>,
        place: RankPlace,
        clock: Clock,
        (monitor, logs): (bool, bool),
    ) -> Self {
        let count = pipeline.stages.len();
        let context = |stage: &StageDef<'_>| Context::new(place, &stage.name);
        StageHost {
            clock,
            core: StealTime::default(),
            monitor,
            has_snapshots: pipeline.snapshots.is_some(),
            rank: place.rank,
            contexts: pipeline.stages.iter().map(context).collect(),
            live: (0..count).map(|_| None).collect(),
            defs: pipeline.stages,
            codecs: pipeline.codecs,
            source: pipeline.source,
            source_name: pipeline.source_name,
            sink,
            stage_runs: vec![Times::default(); count],
            stats: vec![StageStats::default(); count + 2],
            logs,
            sizes: Sizes::default(),
            activity: Arc::default(),
        }
    }

    pub(crate) fn codecs(&self) -> Vec<Arc<dyn Codec>> {
        self.codecs.clone()
    }

    pub(crate) fn activity(&self) -> Arc<Activity> {
        self.activity.clone()
    }

    pub(crate) fn stats(&self) -> (&[StageStats], Duration) {
        let last = self.stats.len() - 1;
        (&self.stats[1..last], self.stats[0].busy() + self.stats[last].busy())
    }

    /// Returns the cost of a call of the source or the sink that began at `begin`, and adds its duration and `items` items to the counters.
    fn end(&mut self, kind: usize, begin: Duration, items: u64) -> JobCost {
        let took = self.clock.now().saturating_sub(begin);
        let stats = &mut self.stats[kind];
        stats.items += items;
        stats.timed += took;
        stats.timed_items += items;
        JobCost { took, ..JobCost::default() }
    }

    /// Measures the encoded size of the items of a batch on `edge` (the connection between two stages), if a measurement is due there. Returns the
    /// items.
    fn measure_size(
        &mut self,
        edge: usize,
        items: Items,
        range: &Range,
        edge_sizes: &mut Vec<EdgeSize>,
    ) -> Result<Items> {
        let live = range.live();
        if live == 0 || !self.sizes.is_due(edge) {
            return Ok(items);
        }
        let begin = self.clock.now();
        let (mut head, mut parts) = (Vec::new(), Vec::new());
        let place = |e: Error| self.produced_by(edge, range, e);
        self.codecs[edge].encode(items, &mut head, &mut parts).map_err(place)?;
        let bytes = head.len() + parts.iter().map(Part::len).sum::<usize>();
        edge_sizes.push(EdgeSize { edge, items: live, bytes });
        let items = self.codecs[edge].decode(head.into(), parts, live).map_err(place);
        self.sizes.measured(self.clock.now().saturating_sub(begin));
        items
    }

    /// Checks that a sample of the items that a stage has produced can be encoded. Returns true if any item was checked.
    fn check(&self, edge: usize, items: &Items, range: &Range) -> Result<bool> {
        self.codecs[edge].check(items).map_err(|error| self.produced_by(edge, range, error))
    }

    fn produced_by(&self, edge: usize, range: &Range, error: Error) -> Error {
        let stage = edge.checked_sub(1).map_or(self.source_name.as_str(), |stage| &self.defs[stage].name);
        range.blame(error).in_stage(stage).at_rank(self.rank)
    }

    /// Creates the stages in `hosted` that do not exist on this rank yet. Other existing stages are kept: they may have batches to finish, and need
    /// not be created again if a later mapping assigns them to this rank.
    fn set_up(&mut self, hosted: &[usize]) -> Result<SetUp> {
        let mut done = SetUp::default();
        for &stage in hosted {
            if self.live[stage].is_some() {
                continue;
            }
            let took = self.make(stage)?;
            done.warm_up.push((stage, took));
            if self.defs[stage].serial {
                match self.save(stage)? {
                    Some(_) => done.movable.push(stage),
                    None if self.has_snapshots => {
                        return Err(self.in_stage(stage, no_state(&self.defs[stage])));
                    }
                    None => {}
                }
            }
        }
        Ok(done)
    }

    fn make(&mut self, stage: usize) -> Result<Duration> {
        self.activity.set(Doing::Stage { stage, item: 0 });
        let start = self.clock.now();
        let factory = &mut self.defs[stage].factory;
        let produced = user_code::call(factory);
        self.live[stage] = Some(produced.map_err(|e| self.in_stage(stage, e))?);
        let took = self.clock.now().saturating_sub(start);
        self.stats[stage + 1].warm_up += took;
        self.activity.set(Doing::Nothing);
        Ok(took)
    }

    fn save(&self, stage: usize) -> Result<Option<Vec<u8>>> {
        let live = self.live[stage].as_ref();
        let saved = live.map_or(Ok(None), |live| state_of(&self.defs[stage], &**live));
        saved.map_err(|e| self.in_stage(stage, e))
    }

    fn release(&mut self, stage: usize) -> Result<Vec<u8>> {
        let saved = self.save(stage)?;
        self.live[stage] = None;
        saved.ok_or_else(|| {
            let text =
                "its `save` returned a state at first, but `None` when the stage had to migrate to another rank";
            self.in_stage(stage, Error::new(ErrorKind::User, text))
        })
    }

    fn restore(&mut self, stage: usize, state: &[u8]) -> Result<()> {
        if self.live[stage].is_none() {
            self.make(stage)?;
        }
        let live = self.live[stage].as_mut().filter(|_| !self.defs[stage].stateless);
        let restored = live.map_or(Ok(()), |live| live.restore(state, self.rank));
        restored.map_err(|e| self.in_stage(stage, e))
    }

    fn in_stage(&self, stage: usize, error: Error) -> Error {
        error.in_stage(&self.defs[stage].name).at_rank(self.rank)
    }

    /// Runs one stage on the items of a batch. If the stage makes several items from one and has made `produced` parts of its output for the batch,
    /// the items are `None`, and the stage makes the next part.
    fn call(
        &mut self,
        stage: usize,
        (items, produced): (Option<Items>, u64),
        batch: &mut Batch,
        fill: Fill,
    ) -> Result<Ran> {
        let wrong = |text: &str| Error::new(ErrorKind::Wire, text);
        let Some(live) = &mut self.live[stage] else {
            return Err(wrong(&format!(
                "batch {} arrived at a rank that does not host the stage",
                batch.number
            )));
        };
        let (def, cx) = (&self.defs[stage], &mut self.contexts[stage]);
        let mut ran = if def.expands {
            expand(&mut **live, (items, produced), batch, (fill, self.clock), cx)?
        } else {
            let items = items.ok_or_else(|| wrong("another stage still holds the items of a batch"))?;
            let input_items = batch.range.live();
            let items = live.run(items, &mut batch.range, cx)?;
            Ran { items, input_items, dropped: input_items - batch.range.live(), is_cut: false }
        };
        if let BatchKind::Marker(states) = &mut batch.kind
            && def.serial
        {
            states.push(SavedStage {
                stage: stage as u32,
                state: state_of(def, &**live)?.ok_or_else(|| no_state(def))?,
            });
        }
        if batch.kind == BatchKind::End && batch.ended() == batch.pieces.len() {
            let before = batch.range.live();
            ran.items = live.finish(ran.items, &mut batch.range, cx)?;
            if !def.serial && batch.range.live() > before {
                let text = "returns an item at the end of the stream, but is not serial: each of several ranks may have processed a \
                            part of the items (declare it `.serial()`)";
                return Err(Error::new(ErrorKind::Config, text));
            }
        }
        Ok(ran)
    }

    fn process(
        &mut self,
        stages: std::ops::Range<usize>,
        mut batch: Batch,
        fill: Fill,
    ) -> Result<(Done, JobCost)> {
        let (begin, mut end) = (stages.start, stages.end);
        let sampled = self.stage_runs[begin].0.due();
        let per_stage = sampled && self.monitor;
        let first = batch.range.first;
        let mut cost = JobCost::default();
        let start = (sampled || self.monitor).then(|| self.clock.now());
        let mut stage_time = start;
        let mut cpu = if per_stage { self.clock.cpu() } else { Duration::ZERO };
        let whole = std::mem::replace(&mut batch.payload, Payload::Kept { produced: 0 });
        let (mut items, made_before) = match whole {
            Payload::Kept { produced } => (None, produced),
            payload => {
                let items = unpack(self.codecs.get(begin).map(Arc::as_ref), payload, &batch.range)
                    .map_err(|e| self.in_stage(begin, e))?;
                (Some(self.measure_size(begin, items, &batch.range, &mut cost.edge_sizes)?), 0)
            }
        };
        for stage in stages {
            self.activity.set(Doing::Stage { stage, item: first });
            let ran = self.call(stage, (items.take(), made_before), &mut batch, fill);
            let Ran { items: now_there, input_items, dropped, is_cut } =
                ran.map_err(|e| self.in_stage(stage, e))?;
            let produced = batch.range.live();
            let stats = &mut self.stats[stage + 1];
            stats.items += input_items as u64;
            stats.batches += 1;
            stats.dropped += dropped as u64;
            stats.made += produced as u64;
            if self.monitor {
                let cpu_now = if per_stage { self.clock.cpu() } else { cpu };
                let now = self.clock.now();
                let took = now.saturating_sub(stage_time.unwrap_or(now));
                stats.timed += took;
                stats.timed_items += input_items as u64;
                if per_stage {
                    let spent = cpu_now.saturating_sub(cpu).min(took);
                    let lost = self.core.lost(took, spent);
                    stats.lost += lost;
                    cost.stage_times.push(StageTime {
                        stage,
                        items: input_items,
                        produced,
                        took,
                        cpu: spent,
                        lost,
                    });
                } else if self.logs {
                    cost.unsampled.push((stage, input_items, took));
                }
                (stage_time, cpu) = (Some(now), cpu_now);
            } else if self.logs {
                cost.unsampled.push((stage, input_items, Duration::ZERO));
            }
            let checked = self.check(stage + 1, &now_there, &batch.range)?;
            let measured = cost.edge_sizes.len();
            items = Some(self.measure_size(stage + 1, now_there, &batch.range, &mut cost.edge_sizes)?);
            if self.monitor && (checked || cost.edge_sizes.len() > measured) {
                // The time of the next stage starts after its input items have been checked for encoding and their size has been measured.
                stage_time = Some(self.clock.now());
                cpu = if per_stage { self.clock.cpu() } else { cpu };
            }
            if is_cut {
                // The stage has made only a part of its output. This call of user code ends here, because other ranks may be free to process the
                // parts.
                end = stage + 1;
                break;
            }
        }
        let count = batch.range.count.max(1);
        cost.took = match start {
            Some(start) => {
                let now = stage_time.filter(|_| self.monitor).unwrap_or_else(|| self.clock.now());
                let took = now.saturating_sub(start);
                if sampled {
                    self.stage_runs[begin].0.timed(took / cost.stage_times.len().max(1) as u32);
                    self.stage_runs[begin].1 = took / count;
                }
                took
            }
            None => self.stage_runs[begin].1 * count,
        };
        self.sizes.computed(cost.took);
        batch.service += cost.took;
        batch.stage = end;
        if let Some(items) = items {
            batch.payload = Payload::Items(items);
        }
        Ok((Done::Processed { batch, took: cost.took }, cost))
    }
}

/// Returns the saved state of a serial stage; `None` if the stage cannot continue on another rank.
fn state_of(def: &StageDef<'_>, live: &dyn ErasedStage) -> Result<Option<Vec<u8>>> {
    if def.stateless { Ok(Some(Vec::new())) } else { live.save() }
}

fn no_state(def: &StageDef<'_>) -> Error {
    let text = format!(
        "snapshots are set, but the serial stage {} cannot save its state: implement `Stage::save` and `Stage::restore`, or \
         declare `.stateless()` if no state is kept between items",
        shown(&def.name)
    );
    Error::new(ErrorKind::Config, text)
}

/// Output of a stage for a batch.
pub(super) struct Ran {
    pub(super) items: Items,
    /// Number of input items; for a stage that makes several items from one, number of input items that it started.
    pub(super) input_items: usize,
    /// Number of the input items in `input_items` that produced no output.
    pub(super) dropped: usize,
    /// True if `items` is only a part of the stage's output for the batch.
    pub(super) is_cut: bool,
}

fn unpack(codec: Option<&dyn Codec>, payload: Payload, range: &Range) -> Result<Items> {
    match (payload, codec) {
        (Payload::Items(items), _) => Ok(items),
        (Payload::Bytes { head, parts }, Some(codec)) => {
            codec.decode(head, parts, range.live()).map_err(|e| range.blame(e))
        }
        (Payload::Bytes { .. }, None) => {
            Err(Error::new(ErrorKind::Wire, "a batch arrived for a stage that does not exist"))
        }
        (Payload::Kept { .. }, _) => {
            Err(Error::new(ErrorKind::Wire, "another stage still holds the items of a batch"))
        }
    }
}

/// Makes the next part of the output of a stage that makes several items from one, after `produced` parts. If `items` is `None`, the stage already
/// has the input items of the batch.
pub(super) fn expand(
    stage: &mut dyn ErasedStage,
    (items, produced): (Option<Items>, u64),
    batch: &mut Batch,
    (fill, clock): (Fill, Clock),
    cx: &mut Context,
) -> Result<Ran> {
    let produced = if items.is_some() { 0 } else { produced };
    let expand = Expand { number: &batch.number, items, range: &batch.range, fill, clock };
    let Expanded { items, produced: of_places, is_last, started, dropped } = stage.expand(expand, cx)?;
    batch.range.dropped.clear();
    batch.range.produced = Some(of_places);
    batch.number.pieces.push(produced);
    batch.pieces.push(ExpansionPiece { is_last, items: batch.range.live() as u32 });
    Ok(Ran { items, input_items: started, dropped, is_cut: produced > 0 || !is_last })
}

impl UserCode for StageHost<'_> {
    type Job = Job;
    type Done = (Done, JobCost);

    fn run(&mut self, job: Job) -> Result<Option<(Done, JobCost)>> {
        let result = match job {
            Job::Draw { number, first, fill, kind } => {
                self.activity.set(Doing::Drawing { item: first });
                let begin = self.clock.now();
                let name = &self.source_name;
                let source = &mut self.source;
                let drawn = match kind {
                    BatchKind::Marker(_) => source.empty(),
                    _ => source
                        .draw(fill, first, self.clock)
                        .map_err(|e| e.in_stage(name).at_rank(self.rank))?,
                };
                let cost = self.end(0, begin, drawn.count as u64);
                let mut range = Range::new(first, drawn.count as u32);
                if kind == BatchKind::End {
                    // An item that a stage emits at the end of the stream is made from no source item.
                    range.produced = Some(ProducedCounts::default());
                }
                self.check(0, &drawn.items, &range)?;
                let batch = (drawn.count > 0 || kind != BatchKind::Items).then(|| Batch {
                    number: number.into(),
                    pieces: Vec::new(),
                    kind,
                    stage: 0,
                    range,
                    service: Duration::ZERO,
                    widest: 0,
                    behind: drawn.left,
                    payload: Payload::Items(drawn.items),
                });
                let done = Done::Drawn { batch, ended: drawn.ended, left: drawn.left };
                (done, cost)
            }
            Job::Process { stages, batch, fill } => self.process(stages, batch, fill)?,
            Job::Consume { batch } => {
                let consumed = Consumed::of(&batch);
                let Batch { number, kind, range, payload, .. } = batch;
                self.activity.set(Doing::Feeding { item: range.first });
                let begin = self.clock.now();
                let place = |e: Error| e.in_stage(&self.sink.name).at_rank(self.rank);
                if let BatchKind::Marker(stages) = kind {
                    let items = range.first;
                    let sink = self.sink.sink.commit(items).map_err(place)?;
                    let cost = self.end(self.stats.len() - 1, begin, 0);
                    let took = consumed.service + cost.took;
                    let committed = Committed { position: Position { items, sink }, stages, took };
                    return Ok(Some((Done::Committed(consumed, committed), cost)));
                }
                let codec = self.codecs.last().map(Arc::as_ref);
                let items = unpack(codec, payload, &range).map_err(place)?;
                self.sink.sink.take(items, &number, &range).map_err(place)?;
                let cost = self.end(self.stats.len() - 1, begin, u64::from(consumed.done));
                (Done::Consumed(consumed), cost)
            }
            Job::ResumeSink(position) => {
                let resumed = self.sink.sink.resume(&position);
                resumed.map_err(|e| e.in_stage(&self.sink.name).at_rank(self.rank))?;
                return Ok(None);
            }
            Job::FinishSink => {
                let begin = self.clock.now();
                let finished = self.sink.sink.finish();
                finished.map_err(|e| e.in_stage(&self.sink.name).at_rank(self.rank))?;
                (Done::SinkFinished, self.end(self.stats.len() - 1, begin, 0))
            }
            Job::Release { stage } => {
                (Done::Released { stage, state: self.release(stage)? }, JobCost::default())
            }
            Job::Restore { stage, state } => {
                self.restore(stage, &state)?;
                (Done::Restored { stage }, JobCost::default())
            }
            Job::SetUp { hosted } => (Done::SetUp(self.set_up(&hosted)?), JobCost::default()),
            Job::Measure { batches } => {
                self.sizes.take(batches, self.codecs.len());
                return Ok(None);
            }
            Job::Probe => (Done::Probed(probe::speed(self.clock)), JobCost::default()),
        };
        self.activity.set(Doing::Nothing);
        Ok(Some(result))
    }

    fn answers(job: &Job) -> bool {
        !matches!(job, Job::Measure { .. } | Job::ResumeSink(_))
    }

    fn is_work(job: &Job) -> bool {
        matches!(job, Job::Draw { .. } | Job::Process { .. } | Job::Consume { .. })
    }

    fn may_block(&self, job: &Job) -> bool {
        // Creating a stage may take long even if all earlier calls of user code were short, because the stage's factory may load data.
        matches!(job, Job::SetUp { hosted } if hosted.iter().any(|&stage| self.live[stage].is_none()))
    }

    fn took((done, cost): &Self::Done) -> Option<Duration> {
        (!matches!(done, Done::SetUp(_) | Done::Probed(_) | Done::Committed(..) | Done::SinkFinished))
            .then_some(cost.took)
    }

    /// Adds the items and times of a call of user code to `tally`, the counts of the source, the stages and the sink for the event log.
    fn tally((done, cost): &Self::Done, tally: &mut Tally) {
        match done {
            Done::Drawn { batch, .. } => {
                let range = batch.as_ref().map(|batch| &batch.range);
                let items = range.map_or(0, |range| u64::from(range.count));
                tally.add(0, range.map(|range| range.first), items, cost.took);
            }
            Done::Processed { batch, .. } => {
                for time in &cost.stage_times {
                    tally.add(time.stage + 1, Some(batch.range.first), time.items as u64, time.took);
                }
                for &(stage, items, took) in &cost.unsampled {
                    tally.add(stage + 1, Some(batch.range.first), items as u64, took);
                }
            }
            // The event log counts source items when they reach the sink, so that a reader can derive the number of items in flight.
            Done::Consumed(consumed) => {
                tally.add(tally.last_kind(), None, u64::from(consumed.done), cost.took);
            }
            Done::Committed(..) | Done::SinkFinished => tally.add(tally.last_kind(), None, 0, cost.took),
            Done::Released { .. } | Done::Restored { .. } | Done::SetUp(_) | Done::Probed(_) => {}
        }
    }
}

impl std::fmt::Debug for StageHost<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StageHost").field("rank", &self.rank).field("doing", &self.activity.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Waker;
    use crate::error::BoxError;
    use crate::pipeline::Pipeline;
    use crate::pipeline::source_sink::{NamedSink, SinkOf};
    use crate::rank::executor::Executor;
    use crate::session::Driver;

    #[test]
    fn user_error_is_reported_by_a_later_submit() {
        let items = || [Err::<u8, BoxError>("torn".into())];
        let pipeline = Pipeline::try_source("numbers", items);
        let sink = NamedSink { name: "out".into(), sink: Box::new(SinkOf::<_, u8>::new(drop::<u8>)) };
        let stage_host = StageHost::new(pipeline.def, sink, RankPlace::ALONE, Clock::wall(), (true, false));
        let draw =
            || Job::Draw { number: 0, first: 0, fill: Fill { items: 1, time: None }, kind: BatchKind::Items };
        let error = std::thread::scope(|scope| {
            let waker = Waker::for_this_thread();
            let mut executor =
                Executor::new(scope, 0, Driver::Threaded, waker, Clock::wall(), stage_host).unwrap();
            loop {
                // Submits calls of user code until the executor returns the error of the source, after which the compute thread has ended.
                if let Err(error) = executor.submit(draw()) {
                    break error;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        assert_eq!(error.to_string(), "rank 0: stage numbers: item 0: torn");
    }
}
