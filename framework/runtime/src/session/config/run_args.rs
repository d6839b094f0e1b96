//! The options of a run for programs that parse their arguments with clap.

use std::path::PathBuf;

use clap::Args;

use super::Config;
use super::choices::Balance;
use super::read::{hours, percent};
use crate::error::Result;

/// The options that [`Config::from_args`] takes, to be flattened into a program's own parser.
///
/// ```
/// use clap::Parser;
///
/// /// Counts primes
/// #[derive(Parser)]
/// struct Arguments {
///     /// Count below this number
///     #[arg(long, default_value_t = 1_000)]
///     below: u64,
///     #[command(flatten)]
///     run: armature::cli::RunArgs,
/// }
///
/// // A program would call `parse`.
/// let arguments = Arguments::parse_from(["primes", "--below", "50", "--ranks", "3"]);
/// let size = armature::run(&arguments.run.config()?, |session| Ok(session.size()))?;
/// assert_eq!((size, arguments.below), (3, 50));
/// # Ok::<(), armature::Error>(())
/// ```
#[derive(Clone, Debug, Default, Args)]
pub struct RunArgs {
    /// Number of ranks, as threads of one process [default: 1]. A launcher such as mpirun sets the number itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=super::read::MAX_RANKS as i64))]
    ranks: Option<u16>,
    /// When to rebalance during the run: whenever it pays (`live`), at most once (`once`), or never (`off`) [default: live, unless the
    /// program fixes the division of the work]
    #[arg(long, value_name = "MODE", value_enum, hide_possible_values = true)]
    balance: Option<Balance>,
    /// Same as --balance off
    #[arg(long, conflicts_with = "balance")]
    no_balance: bool,
    /// Directory for the log of the run, which `armature report DIR` shows [default: no log]
    #[arg(long, value_name = "DIR")]
    events: Option<PathBuf>,
    /// Part of the time that checkpoints without a fixed period may take, in per cent [default: 1]
    #[arg(long, value_name = "PERCENT")]
    checkpoint_overhead: Option<String>,
    /// Mean time between failures of the job, in hours, which determines the period of checkpoints [default: 24]
    #[arg(long, value_name = "HOURS")]
    mtbf: Option<String>,
}

impl RunArgs {
    /// Returns the settings of the environment, as [`Config::from_env`], with these options on top.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a variable or an option with a value that cannot be used.
    pub fn config(&self) -> Result<Config> {
        let mut config = Config::from_env()?;
        if let Some(ranks) = self.ranks {
            config.ranks = Some(ranks.into());
        }
        if let Some(balance) = self.balance.or(self.no_balance.then_some(Balance::Off)) {
            config.balance = Some(balance);
        }
        if let Some(events) = &self.events {
            config.events = Some(events.clone());
        }
        if let Some(part) = &self.checkpoint_overhead {
            config.checkpoint_overhead = percent("--checkpoint-overhead", part)?;
        }
        if let Some(time) = &self.mtbf {
            config.mean_time_between_failures = hours("--mtbf", time)?;
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArgs,
    }

    fn parse(words: &str) -> Result<RunArgs, String> {
        let line = Line::try_parse_from(["test"].into_iter().chain(words.split_whitespace()));
        line.map(|line| line.run).map_err(|error| error.to_string())
    }

    #[test]
    fn run_args_set_the_config() {
        let config = |words: &str| parse(words).unwrap().config().unwrap();
        let all = config("--ranks 3 --balance once --events log");
        assert_eq!(
            (all.ranks, all.balance, all.events),
            (Some(3), Some(Balance::Once), Some(PathBuf::from("log")))
        );
        let rare = config("--checkpoint-overhead 2 --mtbf 48");
        assert_eq!((rare.checkpoint_overhead, rare.mean_time_between_failures.as_secs()), (0.02, 172_800));
        let error = parse("--mtbf soon").unwrap().config().unwrap_err().to_string();
        assert!(error.starts_with("--mtbf=soon: expected a number above 0"), "{error}");
        assert_eq!(config("--no-balance").balance, Some(Balance::Off));
        assert_eq!(config("").balance, Config::from_env().unwrap().balance);
        assert!(parse("--ranks 0").unwrap_err().contains("1..=4096"));
        assert!(parse("--balance often").unwrap_err().contains("'often'"));
        assert!(parse("--balance live --no-balance").unwrap_err().contains("--no-balance"));
    }

    #[test]
    fn run_args_has_the_options_of_from_args() {
        let command = Line::command();
        let here = command.get_arguments().filter_map(|option| option.get_long());
        let here: Vec<String> = here.filter(|name| *name != "help").map(|name| format!("--{name}")).collect();
        let there: Vec<&str> = super::super::args::OPTIONS.iter().map(|option| option.0).collect();
        assert!(here.iter().all(|name| there.contains(&name.as_str())), "{here:?}, {there:?}");
        assert_eq!(here.len() + ["--help", "--version"].len(), there.len(), "{here:?}, {there:?}");
    }
}
