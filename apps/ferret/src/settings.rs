//! What the command line says about a run on ranks.

use armature::{Balance, Config};
use clap::Args;

/// Settings of a run of a pipeline.
#[derive(Debug, Args)]
pub(crate) struct PipelineArgs {
    #[command(flatten)]
    run: armature_apps::run::RunArgs,
    /// Whether the mapping changes while the queries run: `live` whenever another one is worth it, `once` at most once,
    /// `off` never [default: live where it was planned, off where it was given]
    #[arg(long, value_name = "off|once|live", value_parser = parse_balance)]
    balance: Option<Balance>,
    /// The same as --balance off
    #[arg(long, conflicts_with = "balance")]
    no_balance: bool,
}

impl PipelineArgs {
    /// The settings of the environment with these on top.
    ///
    /// # Errors
    /// A variable with a value that cannot be used.
    pub(crate) fn config(&self) -> armature::Result<Config> {
        let config = self.run.config()?;
        Ok(match self.balance.or(self.no_balance.then_some(Balance::Off)) {
            Some(balance) => config.balance(balance),
            None => config,
        })
    }
}

fn parse_balance(text: &str) -> Result<Balance, String> {
    match text {
        "off" => Ok(Balance::Off),
        "once" => Ok(Balance::Once),
        "live" => Ok(Balance::Live),
        _ => Err("expected off, once or live".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        run: PipelineArgs,
    }

    fn parse(words: &str) -> Result<PipelineArgs, String> {
        let line = Line::try_parse_from(["test"].into_iter().chain(words.split_whitespace()));
        line.map(|line| line.run).map_err(|e| e.to_string())
    }

    #[test]
    fn balancing_is_one_of_three_modes() {
        for (word, balance) in [("off", Balance::Off), ("once", Balance::Once), ("live", Balance::Live)] {
            assert_eq!(parse(&format!("--balance {word}")).unwrap().balance, Some(balance));
        }
        assert_eq!(parse("").unwrap().balance, None);
        assert!(parse("--balance often").unwrap_err().contains("expected off, once or live"));
        assert!(parse("--balance live --no-balance").unwrap_err().contains("--no-balance"));
    }

    #[test]
    fn what_is_said_reaches_the_settings() {
        let config = |words: &str| format!("{:?}", parse(words).unwrap().config().unwrap());
        assert!(config("--no-balance --ranks 3").contains("balance: Some(Off)"));
        assert!(config("--no-balance --ranks 3").contains("ranks: Some(3)"));
        assert!(config("--balance live").contains("balance: Some(Live)"));
    }
}
