//! Data that rank 0 needs for a run of a pipeline: description of the pipeline, its first mapping, and the measured speeds and links of the
//! ranks.

use std::collections::BTreeSet;

use armature_planner::SharedCores;
use armature_planner::pipeline::{Dispatch, Mapping, PipelineSpec};

use super::choice::{MappingChoice, on_root, outline};
use super::machine::window::WindowPlan;
use super::pipeline_def::PipelineDef;
use super::remaps::Script;
use crate::error::Result;
use crate::session::{BatchMode, Config, Probed};

/// Properties of the pipeline and of the ranks that rank 0 needs to plan and control a run, without the user code.
#[derive(Debug)]
pub(crate) struct RunSpec<'s> {
    pub(crate) name: String,
    pub(crate) outline: PipelineSpec,
    /// For each stage: true if it produces several items from one.
    pub(crate) expanding: Vec<bool>,
    /// True if a stage may emit an additional item at the end of the stream.
    pub(crate) may_finish: bool,
    pub(crate) mapping: Option<Mapping>,
    pub(crate) dispatch: Dispatch,
    pub(crate) ordered: bool,
    pub(crate) sharing: &'s [SharedCores],
    /// Last measurement of the speeds and links of the ranks in this session.
    pub(crate) probed: &'s mut Probed,
    pub(crate) script: Script,
}

impl<'s> RunSpec<'s> {
    /// Creates the description of a run from the pipeline. Determines the mapping, unless the planner must compute it from measurements.
    pub(crate) fn of(
        pipeline: &mut PipelineDef<'_>,
        ranks: usize,
        sharing: &'s [SharedCores],
        probed: &'s mut Probed,
    ) -> Result<Self> {
        let choice: &MappingChoice = &pipeline.mapping;
        Ok(RunSpec {
            name: pipeline.name().to_string(),
            outline: outline(&pipeline.stages),
            expanding: pipeline.stages.iter().map(|stage| stage.expands).collect(),
            may_finish: pipeline.stages.iter().any(|stage| stage.may_finish),
            mapping: choice.resolve(&pipeline.stages, ranks)?,
            dispatch: pipeline.dispatch,
            ordered: pipeline.ordered,
            sharing,
            probed,
            script: Script::resolve(std::mem::take(&mut pipeline.remaps), &pipeline.stages, ranks)?,
        })
    }

    pub(crate) fn window(&self, mapping: &Mapping, config: &Config, calibrating: bool) -> WindowPlan {
        WindowPlan {
            // The calibration, in which rank 0 runs all stages to measure them, ignores a batch size that the user has fixed: it might measure only a
            // single large batch.
            batch: if calibrating { BatchMode::Auto } else { config.batch },
            batch_time: config.batch_time,
            fixed: config.window,
            bytes: config.window_bytes,
            hosts: mapping.blocks.iter().map(|b| b.hosts.len()).sum::<usize>().max(1),
            ranks: mapping.blocks.iter().flat_map(|b| &b.hosts).collect::<BTreeSet<_>>().len().max(1),
            ahead: config.request_ahead,
        }
    }

    /// Returns the mapping with which the stream starts: the given one, or all stages on rank 0.
    pub(crate) fn first(&self) -> Mapping {
        self.mapping.clone().unwrap_or_else(|| on_root(self.outline.len()))
    }

    pub(crate) fn first_window(&self, config: &Config) -> WindowPlan {
        self.window(&self.first(), config, self.mapping.is_none())
    }
}
