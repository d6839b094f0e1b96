//! Rank 0's part of a run: choose a mapping, start everybody, see the stream through, collect the reports.

use std::time::Duration;

use armature_planner::pipeline::{Dispatch, Mapping, PipelineSpec, PlanOptions, StageSpec, plan};
use serde::{Deserialize, Serialize};

use super::choice::{MappingChoice, on_root, outline};
use super::engine::Inspection;
use super::ledger::RankReport;
use super::machine::table::Table;
use super::machine::window::WindowPlan;
use super::probe;
use super::progress::{Display, View};
use super::rank::Rank;
use super::summary::Summary;
use super::workshop::SavedState;
use crate::error::{Error, ErrorKind, Result};
use crate::session::post::Kind;
use crate::session::{BatchMode, Config};
use crate::wire;

/// An automatic mapping is planned after this many items and this long, or, where items are slow, after one
/// item and `CALIBRATE_MOST`.
const CALIBRATE_ITEMS: u64 = 8;
const CALIBRATE_TIME: Duration = Duration::from_millis(50);
const CALIBRATE_MOST: Duration = Duration::from_secs(2);
/// Batches on which the sizes of items are taken.
const SIZED_BATCHES: usize = 3;

/// The beginning of an epoch, as every rank is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) table: Table,
    pub(crate) ahead: usize,
    /// Stage names: every rank must have built the same pipeline.
    pub(crate) names: Vec<String>,
    /// State of serial stages that go on on another rank.
    pub(crate) states: Vec<SavedState>,
}

/// What rank 0 needs to know of the pipeline, which is in the workshop by now.
#[derive(Debug)]
pub(crate) struct Score {
    pub(crate) outline: PipelineSpec,
    pub(crate) mapping: Option<Mapping>,
    pub(crate) dispatch: Dispatch,
    pub(crate) ordered: bool,
    /// Groups of ranks that share cores.
    pub(crate) sharing: Vec<Vec<usize>>,
}

impl Score {
    /// Reads the pipeline, and its mapping if that is not to be planned.
    pub(crate) fn of(pipeline: &super::Runnable<'_>, ranks: usize, sharing: &[Vec<usize>]) -> Result<Self> {
        let choice: &MappingChoice = &pipeline.mapping;
        Ok(Score {
            outline: outline(&pipeline.stages),
            mapping: choice.resolve(&pipeline.stages, ranks)?,
            dispatch: pipeline.dispatch,
            ordered: pipeline.ordered,
            sharing: sharing.to_vec(),
        })
    }
}

/// Runs rank 0 to the end of the stream.
pub(crate) fn conduct<'scope, 'p: 'scope>(
    mut rank: Rank<'_, 'scope, '_, 'p>,
    score: Score,
    config: &Config,
) -> Result<Summary> {
    let mut display = Display::new(config.progress, rank.clock().now());
    let result = Conductor { rank: &mut rank, score: &score, config, display: &mut display, epoch: 0 }.run();
    display.clear();
    let mut summary = result?;
    summary.ranks = collect_reports(rank)?;
    let arrived = |r: &RankReport| r.stages.iter().map(|s| s.dropped).sum::<u64>();
    summary.delivered = summary.items - summary.ranks.iter().map(arrived).sum::<u64>();
    Ok(summary)
}

struct Conductor<'c, 'a, 'scope, 'env, 'p> {
    rank: &'c mut Rank<'a, 'scope, 'env, 'p>,
    score: &'c Score,
    config: &'c Config,
    display: &'c mut Display,
    epoch: u32,
}

impl<'p: 'scope, 'scope> Conductor<'_, '_, 'scope, '_, 'p> {
    fn run(mut self) -> Result<Summary> {
        let start = self.rank.clock().now();
        let stages = self.score.outline.len();
        let mut calibration = (Duration::ZERO, 0);
        let mut predicted = None;
        let mapping = match self.score.mapping.clone() {
            Some(mapping) => {
                self.begin(&mapping, Vec::new(), 0, false)?;
                self.stream(None)?;
                mapping
            }
            None => {
                let root = on_root(stages);
                self.begin(&root, Vec::new(), 0, true)?;
                self.rank.measure_sizes(SIZED_BATCHES)?;
                if self.stream(Some(start))? {
                    root
                } else {
                    let items = self.drawn();
                    let (mapping, time, states) = self.plan()?;
                    let now = self.rank.clock().now();
                    calibration = (now.saturating_sub(start), items);
                    predicted = Some(time);
                    self.begin(&mapping, states, items, false)?;
                    self.stream(None)?;
                    mapping
                }
            }
        };
        let mapping_text = mapping.display(&self.score.outline).to_string();
        Ok(Summary {
            stages: self.score.outline.stages.iter().map(|s| s.name.clone()).collect(),
            mapping_text,
            mapping,
            items: self.drawn(),
            delivered: 0,
            elapsed: self.rank.clock().now().saturating_sub(start),
            calibration: calibration.0,
            calibration_items: calibration.1,
            predicted,
            ranks: Vec::new(),
        })
    }

    fn drawn(&mut self) -> u64 {
        self.rank.source().map_or(0, |s| s.items_drawn())
    }

    /// Begins an epoch on every rank; returns when all stages are set up.
    fn begin(
        &mut self,
        mapping: &Mapping,
        states: Vec<SavedState>,
        next_item: u64,
        calibrating: bool,
    ) -> Result<()> {
        self.epoch += 1;
        let serial: Vec<bool> = self.score.outline.stages.iter().map(|s| s.serial).collect();
        let table = Table::new(self.epoch, mapping.clone(), self.score.dispatch, &serial, self.score.ordered);
        let text = mapping.display(&self.score.outline).to_string();
        if calibrating {
            log::debug!("calibrating with {text}");
        } else if self.rank.size() > 1 {
            let parked: Vec<usize> = (0..self.rank.size()).filter(|&r| !table.hosts(r)).collect();
            let parked =
                if parked.is_empty() { String::new() } else { format!("; parked: ranks {parked:?}") };
            log::info!("mapping {text}{parked}");
        }
        self.display.set_mapping(text);
        let ahead = self.config.request_ahead;
        let names = self.score.outline.stages.iter().map(|s| s.name.clone()).collect();
        let start = Start { table: table.clone(), ahead, names, states: states.clone() };
        for to in 1..self.rank.size() {
            self.rank.post().send(to, Kind::Start, &start)?;
        }
        self.rank.host(&table, states)?;
        let mut waiting: Vec<usize> = (1..self.rank.size()).collect();
        while !waiting.is_empty() {
            while let Some(letter) = self.rank.control() {
                match letter.kind {
                    Kind::Ready => waiting.retain(|&r| r != letter.from),
                    other => return Err(out_of_step(letter.from, other, "while stages were set up")),
                }
            }
            if !waiting.is_empty() {
                self.rank.turn_or_wait()?;
            }
        }
        let plan = WindowPlan {
            // One large batch would be all that there is to measure.
            batch: if calibrating { BatchMode::Auto } else { self.config.batch },
            batch_time: self.config.batch_time,
            fixed: self.config.window,
            bytes: self.config.window_bytes,
            hosts: mapping.blocks.iter().map(|b| b.hosts.len()).sum::<usize>().max(1),
            ahead,
        };
        self.rank.begin(table, ahead, Some((plan, next_item)))
    }

    /// Sees the stream through to its end, or (`calibrating` since some time) until enough has been measured;
    /// returns whether the stream is over. Either way nothing is in flight any more.
    fn stream(&mut self, calibrating: Option<Duration>) -> Result<bool> {
        let mut turns = 0u32;
        loop {
            if let Some(letter) = self.rank.control() {
                return Err(out_of_step(letter.from, letter.kind, "in the middle of the stream"));
            }
            let Some(source) = self.rank.source() else { return Ok(true) };
            if source.is_over() {
                return Ok(source.has_ended());
            }
            turns = turns.wrapping_add(1);
            if calibrating.is_some() || turns.is_multiple_of(64) {
                self.look(calibrating);
            }
            self.rank.turn_or_wait()?;
        }
    }

    /// What has to be looked at now and then: the display, and whether enough has been measured.
    fn look(&mut self, calibrating: Option<Duration>) {
        let now = self.rank.clock().now();
        let Some(source) = self.rank.source() else { return };
        let (items, flow) = (source.items_done(), source.flow());
        if let Some(since) = calibrating {
            let spent = now.saturating_sub(since);
            if (items >= CALIBRATE_ITEMS && spent >= CALIBRATE_TIME) || (items > 0 && spent >= CALIBRATE_MOST)
            {
                source.pause();
            }
        }
        if self.display.is_due(now) {
            self.display.show(View { items, flow }, now);
        }
    }

    /// Plans a mapping from what the calibration run has measured; returns it with the time that it is expected
    /// to take per item, and the states of serial stages.
    fn plan(&mut self) -> Result<(Mapping, f64, Vec<SavedState>)> {
        let inspection = self.rank.inspect()?;
        let platform = probe::platform(self.rank, &self.score.sharing)?;
        let spec = measured(&self.score.outline, &inspection, platform.speeds()[0]);
        let options = PlanOptions { dispatch: self.score.dispatch, ..PlanOptions::default() };
        let plan = plan(&platform, &spec, &options)
            .map_err(|e| Error::new(ErrorKind::Mapping, format!("no mapping could be planned: {e}")))?;
        log::info!("measured {}", describe(&spec, &platform));
        let moved = |stage: &usize| {
            let block = plan.mapping.block_of(*stage);
            block.is_some_and(|b| plan.mapping.blocks[b].hosts != [0])
        };
        let states = (0..spec.len())
            .filter(|&s| spec.stages[s].serial)
            .filter(moved)
            .filter_map(|s| inspection.saved[s].clone().map(|state| (s, state)))
            .collect();
        Ok((plan.mapping, plan.prediction.production_time, states))
    }
}

/// The pipeline with the costs that were measured on rank 0. A serial stage whose state cannot be moved stays.
fn measured(outline: &PipelineSpec, inspection: &Inspection, root_speed: f64) -> PipelineSpec {
    let bytes = |edge: usize| inspection.item_bytes.get(edge).copied().flatten().unwrap_or(0.0);
    let stage = |(n, stage): (usize, &StageSpec)| {
        let service = inspection.stats[n].service().unwrap_or_default().as_secs_f64();
        let stays = stage.serial && inspection.saved[n].is_none();
        StageSpec {
            work: service * root_speed,
            output: bytes(n + 1),
            pinned: stage.pinned.or(stays.then_some(0)),
            ..stage.clone()
        }
    };
    PipelineSpec { input: bytes(0), stages: outline.stages.iter().enumerate().map(stage).collect() }
}

/// The measurements in words.
fn describe(spec: &PipelineSpec, platform: &armature_planner::Platform) -> String {
    let root = platform.speeds()[0];
    let stages: Vec<String> = spec
        .stages
        .iter()
        .map(|s| format!("{} {}", s.name, super::summary::seconds(s.work / root)))
        .collect();
    let speeds: Vec<String> = platform.speeds().iter().map(|s| format!("{:.2}", s / root)).collect();
    format!("{} an item on rank 0; relative speeds {}", stages.join(", "), speeds.join(" "))
}

/// Lets the other ranks go and takes their reports.
fn collect_reports<'scope, 'p: 'scope>(mut rank: Rank<'_, 'scope, '_, 'p>) -> Result<Vec<RankReport>> {
    let size = rank.size();
    for to in 1..size {
        rank.post().send(to, Kind::Finish, &())?;
    }
    let mut reports: Vec<Option<RankReport>> = vec![None; size];
    while reports.iter().skip(1).any(Option::is_none) {
        match rank.control() {
            Some(letter) if letter.kind == Kind::Report => {
                reports[letter.from] = Some(wire::from_bytes(&letter.body)?);
            }
            Some(letter) => return Err(out_of_step(letter.from, letter.kind, "at the end of the stream")),
            None => rank.turn_or_wait()?,
        }
    }
    reports[0] = Some(rank.finish()?.0);
    Ok(reports.into_iter().flatten().collect())
}

fn out_of_step(from: usize, kind: Kind, when: &str) -> Error {
    Error::new(ErrorKind::Wire, format!("rank {from} sent {kind:?} {when}"))
}
