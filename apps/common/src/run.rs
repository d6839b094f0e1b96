//! Options of a run on ranks, and how a program ends.

use crate::terminal::tell;
use armature::Config;
use clap::Args;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Settings of a run; what is not said is left to the `ARMATURE_*` variables and the framework.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Without mpirun: the number of ranks, as threads of this process [default: 1]. With it, its own number counts
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=4096))]
    ranks: Option<u16>,
    /// Write a log of what was measured, decided and changed to this directory; `armature explain DIR` reads it
    #[arg(long, value_name = "DIR")]
    events: Option<PathBuf>,
}

impl RunArgs {
    /// How many ranks there are as threads, where there is no MPI.
    pub fn ranks(&self) -> usize {
        self.ranks.map_or(1, usize::from)
    }

    /// The settings of the environment with these on top.
    ///
    /// # Errors
    /// A variable with a value that cannot be used.
    pub fn config(&self) -> armature::Result<Config> {
        let mut config = Config::from_env()?;
        if let Some(ranks) = self.ranks {
            config = config.ranks(ranks.into());
        }
        if let Some(events) = &self.events {
            config = config.events(Some(events.clone()));
        }
        Ok(config)
    }
}

/// How the program `name` ends: with its error on stderr, if there is one.
pub fn end(name: &str, result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tell(format_args!("{name}: {e}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArgs,
    }

    fn parse(words: &str) -> Result<RunArgs, String> {
        let line = Line::try_parse_from(["test"].into_iter().chain(words.split_whitespace()));
        line.map(|line| line.run).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_said_reaches_the_settings() {
        let config = |words: &str| format!("{:?}", parse(words).unwrap().config().unwrap());
        assert!(config("--ranks 3").contains("ranks: Some(3)"));
        assert!(config("--events log --ranks 3").contains("events: Some(\"log\")"));
        assert!(parse("--ranks 0").unwrap_err().contains("1..=4096"));
    }
}
