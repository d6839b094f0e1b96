//! Mapping of the stages of a pipeline to processors.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use armature_text::{line, shown};
use serde::{Deserialize, Serialize};

use super::spec::PipelineSpec;
use crate::error::{Error, ErrorKind, Result};

/// Mapping of stages to processors: blocks of contiguous stages that cover the pipeline in order.
///
/// A mapping has a compact text form, which [`parse`](Mapping::parse) reads and [`display`](Mapping::display) writes:
///
/// ```
/// use armature_planner::pipeline::{Mapping, PipelineSpec, StageSpec};
///
/// let mut spec = PipelineSpec::new(1.0);
/// for name in ["load", "seg", "ext", "rank"] {
///     spec = spec.stage(StageSpec::new(name, 1.0, 1.0));
/// }
/// let mapping = Mapping::parse("load@0 | seg+ext@1,2 | rank@0", &spec)?;
/// mapping.validate(&spec, 3)?;
/// assert_eq!(mapping.blocks[1].stages, 1..3);
/// assert_eq!(mapping.blocks[1].hosts, [1, 2]);
/// assert_eq!(mapping.display(&spec).to_string(), "load@0 | seg+ext@1,2 | rank@0");
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Mapping {
    /// Blocks of stages in the order in which an item passes them.
    pub blocks: Vec<Block>,
}

/// Block of contiguous stages that are executed together: on one processor, or as replicas on several.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Block {
    /// Range of the numbers of the block's stages.
    pub stages: Range<usize>,
    /// Numbers of the processors that run all stages of the block. Each item is sent to one of them.
    pub hosts: Vec<usize>,
}

impl Block {
    /// Creates a block of the given stages on the given processors.
    pub fn new(stages: Range<usize>, hosts: Vec<usize>) -> Self {
        Block { stages, hosts }
    }

    /// Returns the processors as runs of consecutive numbers, in their order.
    pub fn host_runs(&self) -> impl Iterator<Item = &[usize]> {
        self.hosts.chunk_by(|a, b| a.checked_add(1) == Some(*b))
    }

    /// Returns true if several processors run replicas of the block's stages.
    pub fn is_replicated(&self) -> bool {
        self.hosts.len() > 1
    }
}

impl Mapping {
    /// Creates a mapping of the given blocks without checks; [`validate`](Mapping::validate) checks it.
    pub fn new(blocks: Vec<Block>) -> Self {
        Mapping { blocks }
    }

    /// Creates a mapping of all stages to one processor.
    pub fn serial(spec: &PipelineSpec, processor: usize) -> Self {
        Mapping { blocks: vec![Block::new(0..spec.len(), vec![processor])] }
    }

    /// Returns the index of the block of stages that contains `stage`.
    pub fn block_of(&self, stage: usize) -> Option<usize> {
        self.blocks.iter().position(|block| block.stages.contains(&stage))
    }

    /// Returns true if any processor runs more than one block of stages.
    pub fn shares_processors(&self) -> bool {
        let mut hosts: Vec<usize> =
            self.blocks.iter().flat_map(|block| block.hosts.iter().copied()).collect();
        hosts.sort_unstable();
        hosts.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Checks the mapping against the pipeline and the number of processors.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] if a stage is missing or mapped twice, a block is empty or has no host, a host does not exist or occurs twice in its
    /// block, a serial stage is replicated, or a pinned stage is mapped to another processor.
    pub fn validate(&self, spec: &PipelineSpec, processors: usize) -> Result<()> {
        let invalid = |message: String| Err(Error::new(ErrorKind::Mapping, message));
        let name = |n: usize| spec.stages.get(n).map_or("?".into(), |stage| shown(&stage.name));
        let mut next = 0;
        for (b, block) in self.blocks.iter().enumerate() {
            let Range { start, end } = block.stages;
            if start >= end {
                return invalid(format!("block {b} has no stage: {}", stages_of(spec)));
            }
            if start != next {
                return invalid(format!(
                    "block {b} starts with stage {start} ({}), but stage {next} ({}) is next: blocks must \
                     cover all stages, each once and in order",
                    name(start),
                    name(next),
                ));
            }
            if end > spec.len() {
                let (last, stages) = (end - 1, stages_of(spec));
                return invalid(format!("block {b} names stage {last}, numbered from 0, but {stages}"));
            }
            next = end;
            if block.hosts.is_empty() {
                return invalid(format!("block {b} (from {}) has no processor", name(start)));
            }
            for (i, &host) in block.hosts.iter().enumerate() {
                if host >= processors {
                    return invalid(format!(
                        "block {b} (from {}) names processor {host}, but there are {processors}, numbered from 0",
                        name(start)
                    ));
                }
                if block.hosts[..i].contains(&host) {
                    return invalid(format!("block {b} (from {}) names processor {host} twice", name(start)));
                }
            }
            for stage in &spec.stages[start..end] {
                if stage.serial && block.is_replicated() {
                    return invalid(format!(
                        "stage {} is serial and cannot be replicated on processors {:?}",
                        shown(&stage.name),
                        block.hosts
                    ));
                }
                if let Some(pin) = stage.pinned.filter(|&pin| block.hosts != [pin]) {
                    return invalid(format!(
                        "stage {} is pinned to processor {pin}, but mapped to {:?}",
                        shown(&stage.name),
                        block.hosts
                    ));
                }
            }
        }
        if next < spec.len() {
            return invalid(format!("stage {next} ({}) is not mapped", name(next)));
        }
        Ok(())
    }

    /// Returns the compact text form of the mapping, such as `load@0 | seg+ext@1,2 | rank@3`. More than eight successive processors are shown as a
    /// range, `0-99`. Stages that the pipeline does not have are shown by their numbers, `#5…9`. Control characters in names are escaped; [`parse`](Mapping::parse) accepts the escaped form.
    pub fn display<'a>(&'a self, spec: &'a PipelineSpec) -> impl fmt::Display + 'a {
        Compact { mapping: self, spec }
    }

    /// Parses the compact text form of a mapping. Processors may be given as ranges, `1-3,7`. Spaces and line breaks around names and numbers are
    /// ignored.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] if the text has another form, names a stage that `spec` does not have, or names stages out of order.
    /// [`validate`](Mapping::validate) checks the other rules.
    pub fn parse(text: &str, spec: &PipelineSpec) -> Result<Self> {
        let invalid = |message: String| Error::new(ErrorKind::Mapping, message);
        let mut blocks = Vec::new();
        let mut next = 0;
        for part in text.trim().split('|').map(str::trim) {
            let (stages, hosts) = part.split_once('@').ok_or_else(|| {
                let stages = stages_of(spec);
                invalid(format!(
                    "`{}` should look like STAGE+STAGE@PROCESSOR,PROCESSOR: {stages}",
                    shown(part)
                ))
            })?;
            let start = next;
            for name in stages.split('+').map(str::trim) {
                match spec.stages.get(next) {
                    Some(stage) if stage.name == name || line(&stage.name) == name => next += 1,
                    next => {
                        let next = next.map_or("the pipeline ends before it".to_string(), |stage| {
                            format!("stage {} comes next", shown(&stage.name))
                        });
                        let (name, part, stages) = (shown(name), shown(part), stages_of(spec));
                        return Err(invalid(format!("`{name}` in `{part}`: {next}; {stages}")));
                    }
                }
            }
            let mut processors = Vec::new();
            for word in hosts.split(',').map(str::trim) {
                let range = numbers(word).ok_or_else(|| {
                    let (word, part) = (shown(word), shown(part));
                    invalid(format!("`{word}` in `{part}` is not a processor number, or a range such as 0-7"))
                })?;
                processors.extend(range);
            }
            blocks.push(Block::new(start..next, processors));
        }
        Ok(Mapping { blocks })
    }
}

/// Number of successive processors up to which the text form names each of them.
const NAMED: usize = 8;

/// Maximum number of processors in a range. It only prevents that a wrong number fills the memory.
const LONGEST: usize = 1 << 20;

/// Parses a processor number or a range of them; returns `None` if the text is neither.
fn numbers(text: &str) -> Option<RangeInclusive<usize>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last && last - first < LONGEST).then_some(first..=last)
}

fn stages_of(spec: &PipelineSpec) -> String {
    let names: Vec<String> = spec.stages.iter().map(|stage| shown(&stage.name)).collect();
    match names.is_empty() {
        true => "the pipeline has no stages".to_string(),
        false => format!("the pipeline has the stages {}", names.join(", ")),
    }
}

struct Compact<'a> {
    mapping: &'a Mapping,
    spec: &'a PipelineSpec,
}

impl fmt::Display for Compact<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (b, block) in self.mapping.blocks.iter().enumerate() {
            if b > 0 {
                f.write_str(" | ")?;
            }
            let Range { start, end } = block.stages;
            let known = self.spec.len().clamp(start.min(end), end);
            for n in start..known {
                let plus = if n > start { "+" } else { "" };
                write!(f, "{plus}{}", line(&self.spec.stages[n].name))?;
            }
            // If an invalid mapping names stages that do not exist, they are written as one range, because a block may have any number of them.
            if known < end {
                let plus = if known > start { "+" } else { "" };
                write!(f, "{plus}#{known}")?;
                if known + 1 < end {
                    write!(f, "…{}", end - 1)?;
                }
            }
            let mut separator = '@';
            for run in block.host_runs() {
                match run {
                    [first, .., last] if run.len() > NAMED => write!(f, "{separator}{first}-{last}")?,
                    run => {
                        for host in run {
                            write!(f, "{separator}{host}")?;
                            separator = ',';
                        }
                    }
                }
                separator = ',';
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::StageSpec;

    fn spec() -> PipelineSpec {
        PipelineSpec::new(1.0)
            .stage(StageSpec::new("a", 1.0, 1.0).serial())
            .stage(StageSpec::new("b", 1.0, 1.0))
            .stage(StageSpec::new("c", 1.0, 1.0).pinned(1))
    }

    #[test]
    fn each_violated_rule_has_its_message() {
        let spec = spec();
        for (text, expected) in [
            ("a@0,1 | b@0 | c@1", "stage a is serial"),
            ("a@0 | b@0 | c@0", "stage c is pinned to processor 1"),
            ("a@0 | b+c@1,0", "stage c is pinned to processor 1"),
            ("a@0 | b@0,0 | c@1", "processor 0 twice"),
            ("a@0 | b@2 | c@1", "names processor 2"),
            ("a@0 | b@1", "stage 2 (c) is not mapped"),
        ] {
            let error = Mapping::parse(text, &spec).unwrap().validate(&spec, 2).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mapping);
            assert!(error.message().contains(expected), "{text}: {error}");
        }
        let gap = Mapping::new(vec![Block::new(0..1, vec![0]), Block::new(2..3, vec![1])]);
        assert!(gap.validate(&spec, 2).unwrap_err().message().contains("stage 1 (b) is next"));
        let empty = Mapping::new(vec![Block::new(0..0, vec![0])]);
        assert!(
            empty
                .validate(&spec, 2)
                .unwrap_err()
                .message()
                .contains("has no stage: the pipeline has the stages a, b, c")
        );
        let nowhere = Mapping::new(vec![Block::new(0..3, vec![])]);
        assert!(nowhere.validate(&spec, 2).unwrap_err().message().contains("no processor"));
        let long = Mapping::new(vec![Block::new(0..9, vec![0])]);
        assert!(
            long.validate(&spec, 2)
                .unwrap_err()
                .message()
                .contains("names stage 8, numbered from 0, but the pipeline has the stages a, b, c")
        );
    }

    #[test]
    fn nonexistent_stages_are_shown_by_number() {
        let spec = spec();
        let text = |stages| Mapping::new(vec![Block::new(stages, vec![0])]).display(&spec).to_string();
        assert_eq!(
            [text(2..4), text(1..usize::MAX), text(7..8), text(7..9)],
            ["c+#3@0".to_owned(), format!("b+c+#3…{}@0", usize::MAX - 1), "#7@0".into(), "#7…8@0".into()]
        );
        let backwards = Range { start: 2, end: 1 };
        assert_eq!([text(backwards), text(1..1)], ["@0", "@0"]);
    }

    #[test]
    fn names_and_tokens_are_escaped_and_truncated() {
        let spec = PipelineSpec::new(1.0).stage(StageSpec::new("a\n\u{1b}[2J\u{2028}", 1.0, 1.0));
        let mapping = Mapping::serial(&spec, 0);
        let text = mapping.display(&spec).to_string();
        assert_eq!(text, r"a\n\u{1b}[2J\u{2028}@0");
        assert_eq!(Mapping::parse(&text, &spec), Ok(mapping));
        let long = "x\u{1b}".repeat(250_000);
        for text in [long.clone(), format!("{long}@0"), format!("a\n\u{1b}[2J\u{2028}@{long}")] {
            let error = Mapping::parse(&text, &spec).unwrap_err();
            assert!(error.message().len() < 2_000 && !error.message().contains(char::is_control), "{error}");
        }
    }

    #[test]
    fn successive_processors_are_a_range() {
        let spec = spec();
        let mapping = Mapping::parse("a@4, 0-8,20 |b@1 - 2| c@9-10,0,12-21", &spec).unwrap();
        assert_eq!(mapping.blocks[0].hosts[..3], [4, 0, 1]);
        let text = mapping.display(&spec).to_string();
        assert_eq!(text, "a@4,0-8,20 | b@1,2 | c@9,10,0,12-21");
        assert_eq!(Mapping::parse(&text, &spec), Ok(mapping));
    }

    #[test]
    fn malformed_mapping_text_is_refused() {
        let spec = spec();
        for (text, expected) in [
            ("", "should look like"),
            ("a", "should look like"),
            ("b@0", "stage a comes next; the pipeline has the stages a, b, c"),
            ("a@0|b@0|c@1|d@0", "the pipeline ends before it; the pipeline has the stages a, b, c"),
            ("a@x", "not a processor number"),
            ("a@-1", "not a processor number"),
            ("a@3-1", "`3-1` in `a@3-1` is not a processor number, or a range such as 0-7"),
            ("a@0-18446744073709551615", "not a processor number"),
        ] {
            let error = Mapping::parse(text, &spec).unwrap_err();
            assert!(error.message().contains(expected), "{text}: {error}");
        }
    }
}
