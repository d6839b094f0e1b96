//! Discrete-event simulation of a stream of items through a mapped pipeline.
//!
//! The model of [`pipeline`](armature_planner::pipeline) predicts the long-term speed of a mapping, and this simulator measures that speed. A
//! processor processes one item at a time, items wait in queues and leave in order, and a window limits the items in flight. An item takes the same
//! time on a processor as in the model. The simulation tests how the blocks of stages work together, the order of items, and the two kinds of
//! dispatch.
//!
//! A processor that hosts several blocks of stages first serves blocks without another host, because all other blocks wait for them, and then
//! replicated blocks. Within each kind, the processor serves the block furthest downstream first. The model makes the same assumption.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use armature_planner::pipeline::{Dispatch, Mapping, PipelineSpec, item_times_of};
use armature_planner::{Error, ErrorKind, Platform, Result};

/// Result of a simulated stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamResult {
    /// Simulated seconds until the last item left the pipeline.
    pub makespan: f64,
    /// Seconds between two items that leave the pipeline, over the middle three fifths of the stream.
    pub production_time: f64,
    /// Busy fraction of the makespan for each processor.
    pub utilisation: Vec<f64>,
    /// Number of items processed by each host of each block of stages (group of consecutive stages).
    pub items: Vec<Vec<u64>>,
}

/// Maximum number of items of a simulated stream. For this number, the times at which the items leave the pipeline
/// take 128 MiB.
const MOST_ITEMS: u64 = 1 << 24;

/// Simulates `items` items in the pipeline, with at most `window` of them in flight.
///
/// # Errors
/// The errors of [`production_time`](armature_planner::pipeline::production_time), and [`ErrorKind::Options`] if there are
/// more than 16 million items.
///
/// ```
/// use armature_planner::pipeline::{Dispatch, Mapping, PipelineSpec, StageSpec};
/// use armature_papers::simulate::pipeline::simulate;
/// use armature_planner::Platform;
///
/// let spec = PipelineSpec::new(0.0)
///     .stage(StageSpec::new("load", 1.0, 0.0).serial())
///     .stage(StageSpec::new("rank", 3.0, 0.0));
/// let platform = Platform::uniform(2, 1.0, armature_planner::Link::FREE)?;
/// let mapping = Mapping::parse("load@0 | rank@0,1", &spec)?;
/// let stream = simulate(&platform, &spec, &mapping, Dispatch::OnDemand, 1000, 8)?;
/// assert!((stream.production_time - 2.0).abs() < 0.01, "{stream:?}");
/// assert_eq!(stream.items[1].iter().sum::<u64>(), 1000);
/// # Ok::<(), armature_planner::Error>(())
/// ```
pub fn simulate(
    platform: &Platform,
    spec: &PipelineSpec,
    mapping: &Mapping,
    dispatch: Dispatch,
    items: u64,
    window: u64,
) -> Result<StreamResult> {
    spec.validate(platform.processors())?;
    mapping.validate(spec, platform.processors())?;
    if items > MOST_ITEMS {
        let message =
            format!("a simulated stream has {MOST_ITEMS} items at most, but {items} were asked for");
        return Err(Error::new(ErrorKind::Options, message));
    }
    let mut run = Run::new(platform, spec, mapping, dispatch, items, window.max(1));
    run.admit();
    run.start_idle();
    while let Some(Reverse(Completion { time, processor })) = run.completions.pop() {
        run.complete(time, processor);
        run.admit();
        run.start_idle();
    }
    Ok(run.finish())
}

/// Completion of one item on one processor. Completions are ordered by time, then by processor, so that the
/// simulation is repeatable.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Completion {
    time: f64,
    processor: usize,
}

impl Eq for Completion {}

impl PartialOrd for Completion {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Completion {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.time.total_cmp(&other.time).then(self.processor.cmp(&other.processor))
    }
}

#[derive(Debug)]
struct Run<'a> {
    mapping: &'a Mapping,
    dispatch: Dispatch,
    item_times: Vec<Vec<f64>>,
    /// For each processor, the blocks of stages that it hosts, each with the processor's position among the hosts of
    /// the block, in the order in which the processor serves the blocks.
    duties: Vec<Vec<(usize, usize)>>,
    /// True for each block of stages that contains a serial stage, which must process the items in order.
    in_order: Vec<bool>,
    /// Items that wait for each block of stages.
    waiting: Vec<BTreeSet<u64>>,
    /// For each host of each block of stages, the number of the only item that the host may start, if the block has a
    /// serial stage or dispatch is round robin.
    next: Vec<Vec<u64>>,
    /// For each processor, the block of stages and the item that it processes at present.
    current: Vec<Option<(usize, u64)>>,
    completions: BinaryHeap<Reverse<Completion>>,
    now: f64,
    total: u64,
    window: u64,
    admitted: u64,
    /// Items that the last block of stages has completed but that wait for an earlier item, because items leave in
    /// order.
    early: BTreeSet<u64>,
    released: Vec<f64>,
    busy: Vec<f64>,
    done: Vec<Vec<u64>>,
}

impl<'a> Run<'a> {
    fn new(
        platform: &Platform,
        spec: &PipelineSpec,
        mapping: &'a Mapping,
        dispatch: Dispatch,
        total: u64,
        window: u64,
    ) -> Self {
        let blocks = &mapping.blocks;
        let mut duties = vec![Vec::new(); platform.processors()];
        let (single, replicated): (Vec<usize>, Vec<usize>) =
            (0..blocks.len()).rev().partition(|&b| !blocks[b].is_replicated());
        for b in single.into_iter().chain(replicated) {
            for (place, &p) in blocks[b].hosts.iter().enumerate() {
                duties[p].push((b, place));
            }
        }
        Run {
            mapping,
            dispatch,
            item_times: item_times_of(platform, spec, mapping),
            duties,
            in_order: blocks
                .iter()
                .map(|block| spec.stages[block.stages.clone()].iter().any(|stage| stage.serial))
                .collect(),
            waiting: vec![BTreeSet::new(); blocks.len()],
            next: blocks.iter().map(|block| (0..block.hosts.len() as u64).collect()).collect(),
            current: vec![None; platform.processors()],
            completions: BinaryHeap::new(),
            now: 0.0,
            total,
            window,
            admitted: 0,
            early: BTreeSet::new(),
            released: Vec::new(),
            busy: vec![0.0; platform.processors()],
            done: blocks.iter().map(|block| vec![0; block.hosts.len()]).collect(),
        }
    }

    fn admit(&mut self) {
        while self.admitted < self.total && self.admitted - (self.released.len() as u64) < self.window {
            self.waiting[0].insert(self.admitted);
            self.admitted += 1;
        }
    }

    /// Starts, on each idle processor, the first item that the order of items and the rule of dispatch permit.
    fn start_idle(&mut self) {
        for p in 0..self.current.len() {
            if self.current[p].is_some() {
                continue;
            }
            let choice =
                self.duties[p].iter().find_map(|&(b, place)| Some((b, place, self.ready(b, place)?)));
            if let Some((b, place, item)) = choice {
                self.waiting[b].remove(&item);
                self.next[b][place] += self.mapping.blocks[b].hosts.len() as u64;
                let time = self.item_times[b][place];
                self.done[b][place] += 1;
                self.busy[p] += time;
                self.current[p] = Some((b, item));
                self.completions.push(Reverse(Completion { time: self.now + time, processor: p }));
            }
        }
    }

    /// Returns the item that block `b` of stages may start now on its host number `place`, if there is one.
    fn ready(&self, b: usize, place: usize) -> Option<u64> {
        if self.dispatch == Dispatch::RoundRobin || self.in_order[b] {
            let next = self.next[b][place];
            self.waiting[b].contains(&next).then_some(next)
        } else {
            self.waiting[b].first().copied()
        }
    }

    fn complete(&mut self, time: f64, processor: usize) {
        self.now = time;
        if let Some((b, item)) = self.current[processor].take() {
            match self.waiting.get_mut(b + 1) {
                Some(waiting) => {
                    waiting.insert(item);
                }
                None => {
                    self.early.insert(item);
                }
            }
            while self.early.remove(&(self.released.len() as u64)) {
                self.released.push(time);
            }
        }
    }

    fn finish(self) -> StreamResult {
        let makespan = self.now;
        let count = self.released.len();
        let ends = count / 5;
        let (from, to) = (ends, count - ends);
        let production_time = match (self.released.get(from), self.released.get(to.wrapping_sub(1))) {
            (Some(first), Some(last)) if to > from + 1 => (last - first) / (to - from - 1) as f64,
            _ => makespan,
        };
        let utilisation =
            self.busy.iter().map(|busy| if makespan > 0.0 { busy / makespan } else { 0.0 }).collect();
        StreamResult { makespan, production_time, utilisation, items: self.done }
    }
}
