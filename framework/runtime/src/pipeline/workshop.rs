//! The compute side of a rank: the stages it hosts, and on rank 0 the source and the sink.
//!
//! A workshop does one job after the other on whichever thread it is on. It knows nothing of other ranks.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::builder::{Runnable, StageDef};
use super::ends::{ErasedSink, ErasedSource};
use super::engine::Inspection;
use super::erased::{Codec, ErasedStage, Items};
use super::ledger::{Activity, Doing, Sampler, StageStats};
use super::machine::parcel::{Parcel, Payload};
use super::machine::{Done, Job};
use super::stage::Context;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::session::{from_user, panic_text};

/// The state of a serial stage that goes on on another rank.
pub(crate) type SavedState = (usize, Vec<u8>);

/// See the module's page.
pub(crate) struct Workshop<'p> {
    clock: Clock,
    monitor: bool,
    cx: Context,
    defs: Vec<StageDef<'p>>,
    live: Vec<Option<Box<dyn ErasedStage + 'p>>>,
    codecs: Vec<Arc<dyn Codec>>,
    source: Box<dyn ErasedSource + 'p>,
    source_name: String,
    sink: Box<dyn ErasedSink + 'p>,
    sink_name: String,
    /// By block of the present epoch: its stages, and which of its batches are timed.
    blocks: Vec<(Range<usize>, Sampler)>,
    /// Time per item of each block when it was last taken.
    last: Vec<Duration>,
    stats: Vec<StageStats>,
    source_times: Times,
    sink_times: Times,
    sizes: Sizes,
    /// In a calibration run times are taken also where the user wants no monitoring: the planner needs them.
    calibrating: bool,
    activity: Arc<Activity>,
}

/// Whether a batch at one end of the pipeline is timed. Source and sink may be slow as stages are, and then the rank
/// needs a thread for them.
struct Timing(Option<Duration>);

/// Which batches are timed, and what the last one took.
type Times = (Sampler, Duration);

impl Timing {
    fn begin(times: &mut Times, clock: Clock) -> Self {
        Timing(times.0.due().then(|| clock.now()))
    }

    fn end(self, times: &mut Times, clock: Clock) -> Duration {
        if let Some(start) = self.0 {
            times.1 = clock.now().saturating_sub(start);
            times.0.timed(times.1);
        }
        times.1
    }
}

/// Bytes of the items on each edge, measured on a few batches by sending them through their codec.
#[derive(Debug, Default)]
struct Sizes {
    /// Batches still to be measured, by edge.
    left: Vec<usize>,
    /// Bytes and items measured so far, by edge.
    seen: Vec<(u64, u64)>,
}

impl<'p> Workshop<'p> {
    /// Takes a pipeline apart; returns the workshop and its codecs, one for each edge between stages.
    pub(crate) fn new(pipeline: Runnable<'p>, rank: usize, clock: Clock, monitor: bool) -> Self {
        let count = pipeline.stages.len();
        Workshop {
            clock,
            monitor,
            cx: Context { rank, item: 0 },
            live: (0..count).map(|_| None).collect(),
            defs: pipeline.stages,
            codecs: pipeline.codecs,
            source: pipeline.source,
            source_name: pipeline.source_name,
            sink: pipeline.sink,
            sink_name: pipeline.sink_name,
            blocks: Vec::new(),
            last: Vec::new(),
            stats: vec![StageStats::default(); count],
            source_times: Times::default(),
            sink_times: Times::default(),
            sizes: Sizes::default(),
            calibrating: false,
            activity: Arc::default(),
        }
    }

    pub(crate) fn codecs(&self) -> Vec<Arc<dyn Codec>> {
        self.codecs.clone()
    }

    pub(crate) fn activity(&self) -> Arc<Activity> {
        self.activity.clone()
    }

    /// Counters of all stages.
    pub(crate) fn stats(&self) -> &[StageStats] {
        &self.stats
    }

    /// Begins a calibration run: takes the sizes of items on the next `batches` batches of every edge, and the
    /// stages' times until the next epoch.
    pub(crate) fn measure_sizes(&mut self, batches: usize) {
        self.calibrating = true;
        let edges = self.codecs.len();
        self.sizes = Sizes { left: vec![batches; edges], seen: vec![(0, 0); edges] };
    }

    /// What there is to tell of the stages between two epochs.
    pub(crate) fn inspect(&self) -> Result<Inspection> {
        let per_item = |&(bytes, items): &(u64, u64)| (items > 0).then(|| bytes as f64 / items as f64);
        let save = |(stage, live): (usize, &Option<Box<dyn ErasedStage + 'p>>)| {
            let saved = live.as_ref().map_or(Ok(None), |live| live.save());
            saved.map_err(|e| e.in_stage(&self.defs[stage].name).at_rank(self.cx.rank))
        };
        Ok(Inspection {
            stats: self.stats.clone(),
            saved: self.live.iter().enumerate().map(save).collect::<Result<_>>()?,
            item_bytes: self.sizes.seen.iter().map(per_item).collect(),
        })
    }

    /// Sends a batch through its codec and back, to see how many bytes it has.
    fn weigh(&mut self, edge: usize, items: Items, range: &super::erased::Range) -> Result<Items> {
        let live = range.live();
        match self.sizes.left.get_mut(edge) {
            Some(left) if *left > 0 && live > 0 => *left -= 1,
            _ => return Ok(items),
        }
        let (mut head, mut parts) = (Vec::new(), Vec::new());
        // Items that cannot be sent are the fault of the stage that made them.
        let made_by = edge.checked_sub(1).map_or(self.source_name.as_str(), |stage| &self.defs[stage].name);
        let place = |e: Error| range.blame(e).in_stage(made_by).at_rank(self.cx.rank);
        self.codecs[edge].encode(items, &mut head, &mut parts).map_err(place)?;
        let (bytes, count) = &mut self.sizes.seen[edge];
        *bytes += (head.len() + parts.iter().map(Bytes::len).sum::<usize>()) as u64;
        *count += live as u64;
        self.codecs[edge].decode(head.into(), parts, live).map_err(place)
    }

    /// Sets up for an epoch: makes the stages that are `hosted` and not live yet, hands them their state, and
    /// lets go of the others.
    pub(crate) fn set_up(
        &mut self,
        blocks: &[Range<usize>],
        hosted: &[usize],
        states: &[SavedState],
    ) -> Result<()> {
        self.calibrating = false;
        self.blocks = blocks.iter().map(|b| (b.clone(), Sampler::default())).collect();
        self.last = vec![Duration::ZERO; blocks.len()];
        for stage in 0..self.defs.len() {
            if !hosted.contains(&stage) {
                self.live[stage] = None;
                continue;
            }
            self.activity.set(Doing::Stage { stage, item: 0 });
            let name = self.defs[stage].name.clone();
            let here = |e: Error| e.in_stage(&name).at_rank(self.cx.rank);
            if self.live[stage].is_none() {
                let start = self.clock.now();
                let factory = &mut self.defs[stage].factory;
                let made = catch_unwind(AssertUnwindSafe(factory))
                    .map_err(|p| here(Error::new(ErrorKind::Panic, panic_text(&*p))))?;
                self.live[stage] = Some(made.map_err(|e| here(from_user(e, self.cx.rank)))?);
                self.stats[stage].warm_up += self.clock.now().saturating_sub(start);
            }
            if let Some((_, state)) = states.iter().find(|(s, _)| *s == stage)
                && let Some(live) = &mut self.live[stage]
            {
                live.restore(state, self.cx.rank).map_err(here)?;
            }
        }
        self.activity.set(Doing::Nothing);
        Ok(())
    }

    /// Does one job; returns its result and how long it took (an estimate where it was not timed).
    pub(crate) fn run(&mut self, job: Job) -> Result<(Done, Duration)> {
        let result = match job {
            Job::Draw { number, first, fill } => {
                self.activity.set(Doing::Drawing { item: first });
                let timing = Timing::begin(&mut self.source_times, self.clock);
                let name = &self.source_name;
                let (items, count, ended) = self
                    .source
                    .draw(fill, first, self.clock)
                    .map_err(|e| e.in_stage(name).at_rank(self.cx.rank))?;
                let parcel = (count > 0).then(|| Parcel {
                    number,
                    range: super::erased::Range { first, count: count as u32, dropped: Vec::new() },
                    service: Duration::ZERO,
                    widest: 0,
                    payload: Payload::Items(items),
                });
                (Done::Drawn { parcel, ended }, timing.end(&mut self.source_times, self.clock))
            }
            Job::Process { block, parcel } => self.process(block, parcel)?,
            Job::Consume { parcel } => {
                let Parcel { range, service, widest, payload, .. } = parcel;
                self.activity.set(Doing::Feeding { item: range.first });
                let timing = Timing::begin(&mut self.sink_times, self.clock);
                let place = |e: Error| e.in_stage(&self.sink_name).at_rank(self.cx.rank);
                let codec = self.codecs.last().map(Arc::as_ref);
                let items = unpack(codec, payload, &range).map_err(place)?;
                self.sink.take(items, &range).map_err(place)?;
                let done = Done::Consumed { count: range.count as usize, service, bytes: widest };
                (done, timing.end(&mut self.sink_times, self.clock))
            }
        };
        self.activity.set(Doing::Nothing);
        Ok(result)
    }

    /// Runs the stages of a block on a batch.
    fn process(&mut self, block: usize, mut parcel: Parcel) -> Result<(Done, Duration)> {
        let (stages, sampler) = &mut self.blocks[block];
        let stages = stages.clone();
        let timed = sampler.due();
        let per_stage = timed && (self.monitor || self.calibrating);
        let first = parcel.range.first;
        let start = timed.then(|| self.clock.now());
        let mut lap = start;
        let mut items = unpack(self.codecs.get(stages.start).map(Arc::as_ref), parcel.payload, &parcel.range)
            .map_err(|e| e.in_stage(&self.defs[stages.start].name).at_rank(self.cx.rank))?;
        items = self.weigh(stages.start, items, &parcel.range)?;
        for stage in stages {
            self.activity.set(Doing::Stage { stage, item: first });
            let Some(live) = &mut self.live[stage] else {
                let text = format!("batch {} came to a rank that does not host the stage", parcel.number);
                let error = Error::new(ErrorKind::Wire, text);
                return Err(error.in_stage(&self.defs[stage].name).at_rank(self.cx.rank));
            };
            let coming = parcel.range.live();
            items = live
                .run(items, &mut parcel.range, &mut self.cx)
                .map_err(|e| e.in_stage(&self.defs[stage].name).at_rank(self.cx.rank))?;
            let stats = &mut self.stats[stage];
            stats.items += coming as u64;
            stats.batches += 1;
            stats.dropped += (coming - parcel.range.live()) as u64;
            if per_stage {
                let now = self.clock.now();
                stats.timed += now.saturating_sub(lap.unwrap_or(now));
                stats.timed_items += coming as u64;
                lap = Some(now);
            }
            items = self.weigh(stage + 1, items, &parcel.range)?;
            if per_stage && self.sizes.left.get(stage + 1).is_some_and(|&left| left > 0) {
                // The measuring is not the next stage's work.
                lap = Some(self.clock.now());
            }
        }
        let count = parcel.range.count.max(1);
        let took = match start {
            Some(start) => {
                let took =
                    lap.filter(|_| per_stage).unwrap_or_else(|| self.clock.now()).saturating_sub(start);
                self.blocks[block].1.timed(took);
                self.last[block] = took / count;
                took
            }
            None => self.last[block] * count,
        };
        parcel.service += took;
        parcel.payload = Payload::Items(items);
        Ok((Done::Processed { block, parcel }, took))
    }
}

/// The items of a payload, decoded if they have travelled.
fn unpack(codec: Option<&dyn Codec>, payload: Payload, range: &super::erased::Range) -> Result<Items> {
    match (payload, codec) {
        (Payload::Items(items), _) => Ok(items),
        (Payload::Bytes { head, parts }, Some(codec)) => {
            codec.decode(head, parts, range.live()).map_err(|e| range.blame(e))
        }
        (Payload::Bytes { .. }, None) => {
            Err(Error::new(ErrorKind::Wire, "a batch for a stage that does not exist"))
        }
    }
}

impl std::fmt::Debug for Workshop<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workshop").field("rank", &self.cx.rank).field("doing", &self.activity.get()).finish()
    }
}
