//! What the command line says about a run on ranks.

use armature::{Balance, Config};
use clap::Args;
use std::path::PathBuf;

/// Settings of a run; what is not said is left to the `ARMATURE_*` variables and the framework.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Without mpirun: the number of ranks, as threads of this process [default: 1]
    #[arg(long, value_name = "NUMBER")]
    ranks: Option<usize>,
    /// Whether the mapping changes while the queries run: `live` whenever another one is worth it, `once` at most once,
    /// `off` never [default: live where it was planned, off where it was given]
    #[arg(long, value_name = "off|once|live", value_parser = parse_balance)]
    balance: Option<Balance>,
    /// The same as --balance off
    #[arg(long, conflicts_with = "balance")]
    no_balance: bool,
    /// Write a log of what was measured, decided and changed to this directory; `armature explain DIR` reads it
    #[arg(long, value_name = "DIR")]
    events: Option<PathBuf>,
}

impl RunArgs {
    /// The settings of the environment with these on top.
    ///
    /// # Errors
    /// A variable with a value that cannot be used.
    pub(crate) fn config(&self) -> armature::Result<Config> {
        let mut config = Config::from_env()?;
        if let Some(ranks) = self.ranks {
            config = config.ranks(ranks);
        }
        if let Some(balance) = self.balance.or(self.no_balance.then_some(Balance::Off)) {
            config = config.balance(balance);
        }
        if let Some(events) = &self.events {
            config = config.events(Some(events.clone()));
        }
        Ok(config)
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
        run: RunArgs,
    }

    fn parse(words: &str) -> Result<RunArgs, String> {
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
        assert!(config("--balance live").contains("balance: Some(Live)"));
        assert!(config("--events log --ranks 3").contains("ranks: 3"));
        assert!(config("--events log").contains("events: Some(\"log\")"));
    }
}
