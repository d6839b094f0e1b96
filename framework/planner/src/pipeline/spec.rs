//! Description of a pipeline for the planner: work and output size of each stage.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::range::{self, AMOUNT};

/// Linear pipeline of N stages, as described to the planner.
///
/// ```
/// use armature_planner::pipeline::{PipelineSpec, StageSpec};
///
/// let spec = PipelineSpec::new(4096.0)
///     .stage(StageSpec::new("load", 0.1, 65_536.0).serial().pinned(0))
///     .stage(StageSpec::new("rank", 2.5, 256.0));
/// assert_eq!(spec.len(), 2);
/// assert!(spec.stages[0].serial);
/// spec.validate(1)?;
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineSpec {
    /// Size in bytes of one item as it enters the first stage (d(0) in the HeDPM paper).
    pub input: f64,
    /// Stages in the order in which an item passes them.
    pub stages: Vec<StageSpec>,
}

/// Stage of a pipeline as described to the planner: its work and output size, and the processors that may run it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Name of the stage, unique in the pipeline. The name contains no `@`, `+`, `|` or comma, because the text form of a mapping separates names
    /// with these characters.
    pub name: String,
    /// Work units of the stage per item (w(n) in the HeDPM paper).
    pub work: f64,
    /// Size in bytes of one item as it leaves the stage (d(n) in the HeDPM paper).
    pub output: f64,
    /// True if the stage must process all items in order, so that it is never replicated.
    #[serde(default)]
    pub serial: bool,
    /// Processor on which the stage must run, if it is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<usize>,
}

impl StageSpec {
    /// Creates a replicable stage that may run on any processor, with `work` units and `output` bytes per item.
    pub fn new(name: impl Into<String>, work: f64, output: f64) -> Self {
        StageSpec { name: name.into(), work, output, serial: false, pinned: None }
    }

    /// Marks the stage as serial, so that it is never replicated.
    pub fn serial(mut self) -> Self {
        self.serial = true;
        self
    }

    /// Pins the stage to one processor.
    pub fn pinned(mut self, processor: usize) -> Self {
        self.pinned = Some(processor);
        self
    }

    /// Returns true if the stage may run on several processors at once.
    pub fn is_replicable(&self) -> bool {
        !self.serial && self.pinned.is_none()
    }
}

impl PipelineSpec {
    /// Creates a pipeline without stages, whose items enter with `input` bytes.
    pub fn new(input: f64) -> Self {
        PipelineSpec { input, stages: Vec::new() }
    }

    /// Appends a stage to the pipeline.
    pub fn stage(mut self, stage: StageSpec) -> Self {
        self.stages.push(stage);
        self
    }

    /// Returns the number of stages.
    pub fn len(&self) -> usize {
        self.stages.len()
    }

    /// Returns true if the pipeline has no stage.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Checks that the pipeline can be planned on `processors` processors.
    ///
    /// # Errors
    /// [`ErrorKind::Pipeline`] if there is no stage, a number is neither 0 nor from 1e-60 to 1e60, a name is empty, duplicate, contains one of
    /// `@+|,` or begins or ends with a space, or a stage is pinned to a processor that does not exist.
    pub fn validate(&self, processors: usize) -> Result<()> {
        let invalid = |message: String| Err(Error::new(ErrorKind::Pipeline, message));
        if self.stages.is_empty() {
            return invalid("there must be at least one stage".into());
        }
        if !range::is_amount(self.input) {
            return invalid(format!("the bytes of the input must be {AMOUNT}, but are {}", self.input));
        }
        let mut names = std::collections::HashSet::new();
        for (n, stage) in self.stages.iter().enumerate() {
            let name = &stage.name;
            let shown_name = armature_text::shown(name);
            for (what, value) in [("work", stage.work), ("output in bytes", stage.output)] {
                if !range::is_amount(value) {
                    return invalid(format!(
                        "the {what} of stage {n} ({shown_name}) must be {AMOUNT}, but is {value}"
                    ));
                }
            }
            if name.is_empty() || name.contains(['@', '+', '|', ',']) || name.trim() != name {
                return invalid(format!(
                    "stage {n} is called `{shown_name}`: a name must not be empty, hold @ + | or a comma, or begin or \
                     end with a space, since mappings are written with them"
                ));
            }
            if !names.insert(name.as_str()) {
                return invalid(format!("two stages are called {shown_name}"));
            }
            if let Some(pin) = stage.pinned.filter(|&pin| pin >= processors) {
                return invalid(format!(
                    "stage {n} ({shown_name}) is pinned to processor {pin}, but there are {processors} processors, \
                     numbered from 0"
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn bytes_into(&self, k: usize) -> f64 {
        if k == 0 { self.input } else { self.stages[k - 1].output }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_pipeline_specs_are_refused() {
        let message = |spec: &PipelineSpec| spec.validate(2).unwrap_err().message().to_string();
        assert!(message(&PipelineSpec::new(1.0)).contains("at least one stage"));
        let spec = PipelineSpec::new(1.0).stage(StageSpec::new("a", f64::NAN, 0.0));
        assert!(message(&spec).contains("work of stage 0 (a)"));
        let spec = PipelineSpec::new(1.0).stage(StageSpec::new("a", 1.0, -1.0));
        assert!(message(&spec).contains("output in bytes of stage 0 (a)"));
        let spec =
            PipelineSpec::new(1.0).stage(StageSpec::new("a", 1.0, 1.0)).stage(StageSpec::new("a", 1.0, 1.0));
        assert!(message(&spec).contains("two stages"));
        let spec = PipelineSpec::new(1.0).stage(StageSpec::new("a+b", 1.0, 1.0));
        assert!(message(&spec).contains("`a+b`"));
        let spec = PipelineSpec::new(1.0).stage(StageSpec::new("a", 1.0, 1.0).pinned(2));
        assert!(message(&spec).contains("pinned to processor 2"));
    }
}
