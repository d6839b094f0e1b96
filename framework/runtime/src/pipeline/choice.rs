//! Choice of a pipeline's mapping (assignment of stages to ranks): given by the caller, read from a file, computed by the planner, or set by a simple
//! rule.

use std::path::{Path, PathBuf};

use armature_planner::pipeline::{Block, Mapping, PipelineSpec, StageSpec};

use super::stage_def::StageDef;
use crate::error::{Error, ErrorKind, Result};

/// Choice of a pipeline's mapping.
///
/// The text form of a mapping names groups of consecutive stages and the ranks that run them: `load@0 | seg+ext@1,2 | rank@3`. In a file it may span
/// several lines, and `#` begins a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MappingChoice {
    /// Planned mapping: rank 0 runs all stages for a short time to measure them, a probe measures the ranks, and the planner computes the mapping.
    /// The items that rank 0 processes meanwhile are part of the stream.
    Auto,
    /// Mapping with all stages on rank 0.
    Serial,
    /// Mapping with one stage after the other on ranks 0, 1, 2, …, starting again at rank 0 if there are more stages than ranks.
    Orderly,
    /// Mapping that the program gives as a value.
    Given(Mapping),
    /// Mapping in its text form, such as `load@0 | ext@1,2`.
    Text(String),
    /// Mapping in its text form, from a file that rank 0 reads.
    File(PathBuf),
}

impl MappingChoice {
    /// Returns the choice for a command-line argument: `auto`, `serial`, `orderly`, or the name of a file.
    pub fn from_arg(arg: &str) -> Self {
        match arg {
            "auto" => MappingChoice::Auto,
            "serial" => MappingChoice::Serial,
            "orderly" => MappingChoice::Orderly,
            file => MappingChoice::File(PathBuf::from(file)),
        }
    }

    pub(crate) fn resolve(&self, stages: &[StageDef<'_>], ranks: usize) -> Result<Option<Mapping>> {
        let spec = outline(stages);
        let mapping = match self {
            MappingChoice::Auto if ranks > 1 && !stages.is_empty() => return Ok(None),
            MappingChoice::Auto | MappingChoice::Serial => on_root(stages.len()),
            MappingChoice::Orderly => Mapping::new(
                (0..stages.len())
                    .map(|s| Block::new(s..s + 1, vec![if stages[s].at_root { 0 } else { s % ranks }]))
                    .collect(),
            ),
            MappingChoice::Given(mapping) => mapping.clone(),
            MappingChoice::Text(text) => parse(text, &spec).map_err(|e| wrong("mapping", &e))?,
            MappingChoice::File(path) => read(path, &spec)?,
        };
        mapping.validate(&spec, ranks).map_err(|e| {
            let from = match self {
                MappingChoice::File(path) => path.display().to_string(),
                _ => "mapping".to_string(),
            };
            wrong(&from, e.message())
        })?;
        Ok(Some(mapping))
    }
}

/// Returns a description of the pipeline with all costs zero, which is enough to check whether a mapping is valid.
pub(crate) fn outline(stages: &[StageDef<'_>]) -> PipelineSpec {
    let stage = |def: &StageDef<'_>| StageSpec {
        serial: def.serial,
        pinned: def.at_root.then_some(0),
        ..StageSpec::new(def.name.clone(), 0.0, 0.0)
    };
    PipelineSpec { input: 0.0, stages: stages.iter().map(stage).collect() }
}

pub(crate) fn on_root(stages: usize) -> Mapping {
    Mapping::new(if stages == 0 { Vec::new() } else { vec![Block::new(0..stages, vec![0])] })
}

const LONGEST: u64 = 16 << 20;

fn read(path: &Path, spec: &PipelineSpec) -> Result<Mapping> {
    let text = armature_files::regular::read_text_at_most(path, LONGEST)
        .map_err(|e| Error::new(ErrorKind::Io, format!("cannot read the mapping {}: {e}", path.display())))?;
    parse(&text, spec).map_err(|e| wrong(&path.display().to_string(), &e))
}

fn parse(text: &str, spec: &PipelineSpec) -> Result<Mapping, String> {
    let bare: Vec<&str> = text.lines().map(|line| line.split('#').next().unwrap_or("")).collect();
    Mapping::parse(&bare.join(" "), spec).map_err(|e| e.message().to_string())
}

fn wrong(place: &str, what: &str) -> Error {
    Error::new(ErrorKind::Mapping, format!("{place}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages() -> Vec<StageDef<'static>> {
        ["load", "seg", "out"]
            .into_iter()
            .map(|name| StageDef {
                stateless: false,
                name: name.into(),
                serial: name != "seg",
                at_root: name == "out",
                expands: false,
                may_finish: false,
                factory: Box::new(|| Err("a test makes no stages".into())),
            })
            .collect()
    }

    fn resolve(choice: &MappingChoice, ranks: usize) -> Result<Option<String>> {
        let stages = stages();
        let spec = outline(&stages);
        Ok(choice.resolve(&stages, ranks)?.map(|m| m.display(&spec).to_string()))
    }

    #[test]
    fn simple_mappings_fit_any_rank_count() {
        let text = |choice: MappingChoice, ranks| resolve(&choice, ranks).unwrap().unwrap();
        assert_eq!(text(MappingChoice::Auto, 1), "load+seg+out@0");
        assert_eq!(text(MappingChoice::Serial, 4), "load+seg+out@0");
        assert_eq!(text(MappingChoice::Orderly, 2), "load@0 | seg@1 | out@0");
        assert_eq!(text(MappingChoice::Orderly, 9), "load@0 | seg@1 | out@0");
        assert_eq!(resolve(&MappingChoice::Auto, 2).unwrap(), None);
    }

    #[test]
    fn mapping_file_supports_comments_and_errors_name_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.txt");
        std::fs::write(&path, "# three ranks\nload@0 |\n seg@1,2   # replicated\n | out@0\n").unwrap();
        let choice = MappingChoice::File(path.clone());
        assert_eq!(resolve(&choice, 3).unwrap().unwrap(), "load@0 | seg@1,2 | out@0");
        let error = resolve(&choice, 2).unwrap_err().to_string();
        assert!(error.contains("m.txt") && error.contains('2'), "{error}");
        std::fs::write(&path, "load@0 | sag@1").unwrap();
        let error = resolve(&choice, 3).unwrap_err().to_string();
        assert!(error.contains("m.txt") && error.contains("sag"), "{error}");
    }

    #[test]
    fn mapping_that_violates_a_rule_is_refused() {
        for text in ["load@0,1 | seg+out@0", "load+seg@0 | out@1", "load@0 | seg@1"] {
            let error = resolve(&MappingChoice::Text(text.into()), 2).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mapping, "{text}");
        }
    }
}
