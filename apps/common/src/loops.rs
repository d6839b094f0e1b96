//! Options of a loop whose units move.

use crate::run::RunArgs;
use armature::Balance;
use armature::loops::{Settings, Summary};
use clap::{Args, ValueEnum};

/// Whether units move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Moves {
    /// Never
    Off,
    /// Once at most
    Once,
    /// Whenever that pays
    Live,
}

/// How a loop is run, and the settings of the run.
#[derive(Debug, Args)]
pub struct LoopArgs {
    /// Units between two looks at the messages; of a loop that is done in strips, columns of a strip [default: chosen]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    block: Option<u64>,
    /// Whether units move between ranks [default: live]
    #[arg(long, value_enum)]
    balance: Option<Moves>,
    /// The part of the units that each rank has at first: 2,1 for two thirds and one third [default: equal]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    shares: Option<Vec<f64>>,
    /// Units move at random, by this seed: for tests
    #[arg(long, hide = true)]
    forced: Option<u64>,
    /// Show at the end what every rank did
    #[arg(long)]
    summary: bool,
    #[command(flatten)]
    run: RunArgs,
}

impl LoopArgs {
    /// The settings of the environment with these on top.
    ///
    /// # Errors
    /// A variable with a value that cannot be used.
    pub fn config(&self) -> armature::Result<armature::Config> {
        self.run.config()
    }

    /// The loop's settings as they were asked for.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::new();
        if let Some(block) = self.block {
            settings = settings.block(block);
        }
        if let Some(moves) = self.balance {
            settings = settings.balance(match moves {
                Moves::Off => Balance::Off,
                Moves::Once => Balance::Once,
                Moves::Live => Balance::Live,
            });
        }
        if let Some(shares) = &self.shares {
            settings = settings.shares(shares.clone());
        }
        if let Some(seed) = self.forced {
            settings = settings.forced(seed);
        }
        settings
    }

    /// Says how a run of `what` went: in a line, or with the whole summary.
    pub fn tell(&self, what: &str, summary: &Summary) {
        if self.summary {
            eprintln!("{summary}");
        }
        let (seconds, efficiency) = (summary.elapsed.as_secs_f64(), 100.0 * summary.efficiency());
        let (moved, movements) = (summary.moved(), summary.movements);
        println!(
            "{what} in {seconds:.3} s, efficiency {efficiency:.1} %, {moved} rows moved in {movements} movement{}",
            if movements == 1 { "" } else { "s" }
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: LoopArgs,
    }

    fn parse(words: &str) -> Result<LoopArgs, String> {
        let line = Line::try_parse_from(["test"].into_iter().chain(words.split_whitespace()));
        line.map(|line| line.args).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_said_reaches_the_loop() {
        let settings = |words| format!("{:?}", parse(words).unwrap().settings());
        let plain = settings("");
        assert!(plain.contains("block: None") && plain.contains("balance: None"), "{plain}");
        let set = settings("--block 10 --balance off --shares 2,1.5 --forced 7");
        for part in ["block: Some(10)", "balance: Some(Off)", "shares: Some([2.0, 1.5])", "forced: Some(7)"] {
            assert!(set.contains(part), "{part}: {set}");
        }
        assert!(settings("--balance once").contains("Some(Once)"));
        assert!(settings("--balance live").contains("Some(Live)"));
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        assert!(parse("--block 0").is_err());
        assert!(parse("--balance never").unwrap_err().contains("once"));
        assert!(parse("--shares 1,x").is_err());
    }
}
