//! Options of a loop whose units move.

use crate::run::RunArgs;
use armature::Balance;
use armature::loops::{Checkpoint, Settings, Shape, Summary};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

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

/// Values of the largest grid: 16 GiB of them.
const MOST_VALUES: u64 = 1 << 31;

/// Rows and columns of a grid, as on a command line: `N` or `ROWSxCOLUMNS`.
///
/// # Errors
/// What was expected.
pub fn parse_shape(text: &str) -> Result<Shape, String> {
    let (rows, columns) = text.split_once('x').unwrap_or((text, text));
    let shape = rows.parse().ok().zip(columns.parse().ok()).map(|(rows, columns)| Shape { rows, columns });
    shape
        .filter(|shape| shape.rows.checked_mul(shape.columns as u64).is_some_and(|n| n <= MOST_VALUES))
        .ok_or_else(|| {
            format!("expected N or ROWSxCOLUMNS, of {MOST_VALUES} values at most: 2000 or 500x800")
        })
}

/// Whether a grid is the one that the serial loop made, to the bit.
///
/// # Errors
/// Where the first difference is.
pub fn same_grid(grid: &[f64], serial: &[f64], columns: usize) -> Result<(), String> {
    let differs = |(a, b): (&f64, &f64)| a.to_bits() != b.to_bits();
    match grid.iter().zip(serial).position(differs) {
        Some(at) => {
            let (row, column) = (at / columns, at % columns);
            Err(format!("row {row}, column {column}: {} instead of {}", grid[at], serial[at]))
        }
        None if grid.len() != serial.len() => {
            Err(format!("the grid has {} values instead of {}", grid.len(), serial.len()))
        }
        None => Ok(()),
    }
}

/// Where a loop of many passes keeps its units.
#[derive(Debug, Args)]
pub struct CheckpointArgs {
    /// Keep the units in this directory now and then, which all ranks must see; started again with it, on any number of ranks,
    /// go on from there
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,
    /// How often
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS", value_parser = parse_seconds, requires = "checkpoint")]
    checkpoint_every: f64,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|s| (0.0..=1e6).contains(s));
    seconds.ok_or_else(|| "expected seconds, from 0 to 1000000".into())
}

impl CheckpointArgs {
    /// These settings with the checkpoint that was asked for, of units that depend on nothing but `fingerprint`.
    pub fn add_to(&self, settings: Settings, fingerprint: &str) -> Settings {
        match &self.checkpoint {
            Some(dir) => settings.checkpoint(
                Checkpoint::new(dir, fingerprint).every(Duration::from_secs_f64(self.checkpoint_every)),
            ),
            None => settings,
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
        args: LoopArgs,
        #[command(flatten)]
        checkpoint: CheckpointArgs,
    }

    #[test]
    fn checkpoints_reach_the_loop() {
        let settings = |words: &str| {
            let line = Line::try_parse_from(["test"].into_iter().chain(words.split_whitespace()));
            line.map(|l| format!("{:?}", l.checkpoint.add_to(l.args.settings(), "50x40")))
                .map_err(|e| e.to_string())
        };
        assert!(settings("").unwrap().contains("checkpoint: None"));
        let kept = settings("--checkpoint kept --checkpoint-every 1.5").unwrap();
        assert!(kept.contains("dir: \"kept\"") && kept.contains("every: 1.5s"), "{kept}");
        assert!(settings("--checkpoint-every 3").unwrap_err().contains("--checkpoint <DIR>"));
        assert!(settings("--checkpoint a --checkpoint-every -1").is_err());
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

    #[test]
    fn shapes_are_read() {
        assert_eq!(parse_shape("1000"), Ok(Shape { rows: 1000, columns: 1000 }));
        assert_eq!(parse_shape("30x20"), Ok(Shape { rows: 30, columns: 20 }));
        for text in ["3x", "x", "99999x99999", "-1", "3x4x5"] {
            assert!(parse_shape(text).unwrap_err().contains("expected N or ROWSxCOLUMNS"), "{text}");
        }
    }

    #[test]
    fn a_wrong_bit_is_found() {
        let grid = [1.0, 0.0, 3.0, 4.0];
        assert_eq!(same_grid(&grid, &grid, 2), Ok(()));
        let text = same_grid(&grid, &[1.0, -0.0, 3.0, 4.0], 2).unwrap_err();
        assert_eq!(text, "row 0, column 1: 0 instead of -0");
        assert!(same_grid(&grid, &grid[..3], 2).unwrap_err().contains("has 4 values instead of 3"));
    }
}
