//! Mappings (assignments of stages to ranks) in the text form in which events contain them.

/// Assignment of the stages of a pipeline to ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Stages in the order of the pipeline, each with its ranks as text.
    pub stages: Vec<(String, String)>,
}

impl Mapping {
    /// Parses the text form, such as `load@0 | seg+count@1,2 | out@0`. A text of another form becomes a stage without ranks.
    pub fn parse(text: &str) -> Self {
        let mut stages = Vec::new();
        for block in text.split('|') {
            let (names, ranks) = block.rsplit_once('@').unwrap_or((block, ""));
            let ranks = ranks.trim();
            stages.extend(names.split('+').map(|name| (name.trim().to_string(), ranks.to_string())));
        }
        Mapping { stages }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathered_stage_has_the_ranks_of_its_stage_group() {
        let stages = Mapping::parse("load@0 | seg+count@1,2 | out@0").stages;
        let pairs: Vec<(&str, &str)> = stages.iter().map(|(name, ranks)| (&**name, &**ranks)).collect();
        assert_eq!(pairs, [("load", "0"), ("seg", "1,2"), ("count", "1,2"), ("out", "0")]);
        assert_eq!(Mapping::parse("anything").stages, [("anything".to_string(), String::new())]);
    }
}
