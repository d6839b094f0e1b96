//! Command-line options of every pipeline.

use crate::names::shown;
use crate::terminal::eprint_line;
use armature::Config;
use armature::pipeline::{MappingChoice, Pipeline, Summary};
use clap::Args;

/// Command-line options of every program that runs a pipeline.
#[derive(Debug, Args)]
pub struct PipelineArgs {
    /// Assignment of stages to ranks: `auto` measures and plans, `serial` uses rank 0 only, `orderly` uses one rank per stage, or a file with a
    /// mapping such as `first@0 | second+third@0,1,2`
    #[arg(long, default_value = "auto", value_name = "auto|serial|orderly|FILE")]
    mapping: String,
    /// Change to this mapping when ITEMS results have arrived; can be given several times
    #[arg(long, hide = true, value_name = "ITEMS:serial|orderly|FILE", value_parser = parse_remap)]
    remap: Vec<(u64, MappingChoice)>,
    #[command(flatten)]
    run: armature::cli::RunArgs,
    /// Print a table of the work of each rank at the end, by stage
    #[arg(long)]
    summary: bool,
}

impl PipelineArgs {
    /// Returns the configuration of the framework from environment variables, overridden by these command-line options.
    ///
    /// # Errors
    /// An environment variable with an invalid value.
    pub fn config(&self) -> armature::Result<Config> {
        self.run.config()
    }

    /// Returns the initial mapping (assignment of stages to ranks).
    pub fn mapping(&self) -> MappingChoice {
        MappingChoice::from_arg(&self.mapping)
    }

    /// Returns the mappings (assignments of stages to ranks) that replace the initial one, each with the number of results after which the pipeline
    /// adopts it.
    pub fn remaps(&self) -> &[(u64, MappingChoice)] {
        &self.remap
    }

    /// Sets the mappings (assignments of stages to ranks) that the command line requests for the pipeline.
    pub fn map<'p, T>(&self, job: Pipeline<'p, T>) -> Pipeline<'p, T> {
        let job = job.mapping(self.mapping());
        self.remap.iter().cloned().fold(job, |job, (after, mapping)| job.remap_after(after, mapping))
    }

    /// Prints the table of the work of each rank on standard error if the user requested a summary.
    pub fn print_summary(&self, summary: &Summary) {
        if self.summary {
            eprint_line(summary);
        }
    }
}

fn parse_remap(text: &str) -> Result<(u64, MappingChoice), String> {
    let parts = text.split_once(':').filter(|(_, file)| !file.is_empty());
    let (items, file) = parts.ok_or("expected a number of items and a mapping, such as 60:later.mapping")?;
    let items = items.parse().map_err(|_| format!("`{}` is not a number of items", shown(items)))?;
    match MappingChoice::from_arg(file) {
        MappingChoice::Auto => {
            Err("expected serial, orderly or a file; the mapping of `auto` is not known in advance".into())
        }
        mapping => Ok((items, mapping)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: PipelineArgs,
    }

    fn parse(arguments: &str) -> Result<PipelineArgs, String> {
        let line = Line::try_parse_from(["test"].into_iter().chain(arguments.split_whitespace()));
        line.map(|line| line.args).map_err(|e| e.to_string())
    }

    #[test]
    fn pipeline_options_reach_the_config() {
        let config = |arguments: &str| format!("{:?}", parse(arguments).unwrap().config().unwrap());
        assert!(config("--no-balance --ranks 3").contains("balance: Some(Off)"));
        assert!(config("--no-balance --ranks 3").contains("ranks: Some(3)"));
        assert!(config("--balance live").contains("balance: Some(Live)"));
    }
}
