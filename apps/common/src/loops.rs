//! Command-line options of a loop whose rows move between ranks.

use crate::terminal;
use armature::loops::{Checkpoint, Settings, Summary};
use armature::{BoxError, RunSummary, Session};
use clap::Args;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Command-line options of every program that runs a loop.
#[derive(Debug, Args)]
pub struct LoopArgs {
    /// Initial share of the rows for each rank, such as 2,1 for two thirds and one third [default: equal shares]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    shares: Option<Vec<f64>>,
    /// Move rows at random with this seed, for tests
    #[arg(long, hide = true)]
    forced: Option<u64>,
    /// Run the loop on rank 0 alone as well, and fail unless both results are bit-identical
    #[arg(long)]
    verify: bool,
    /// Print a table of the work of each rank at the end
    #[arg(long)]
    summary: bool,
    #[command(flatten)]
    run: armature::cli::RunArgs,
}

impl LoopArgs {
    /// Runs a loop on the ranks and returns, on rank 0, its summary and, if verification was requested, the time of the serial loop in seconds.
    /// `work` executes the loop, and returns its summary and result on rank 0; the second argument of `work` is true if rank 0 needs the result. If
    /// verification was requested, `compare` compares the result with that of the serial loop and returns the time of the serial loop in seconds.
    ///
    /// # Errors
    /// An environment variable with an invalid value, and the errors of `work` and `compare`.
    pub fn run<T>(
        &self,
        work: impl Fn(&mut Session, bool) -> Result<Option<(Summary, T)>, BoxError> + Sync,
        compare: impl Fn(&T) -> Result<f64, BoxError> + Sync,
    ) -> armature::Result<Option<(Summary, Option<f64>)>> {
        armature::run(&self.run.config()?, |session| {
            let Some((summary, result)) = work(session, self.verify)? else { return Ok(None) };
            let serial = if self.verify { Some(compare(&result)?) } else { None };
            Ok(Some((summary, serial)))
        })
    }

    /// Returns the settings of a loop with the values of these command-line options.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::new();
        if let Some(shares) = &self.shares {
            settings = settings.shares(shares.clone());
        }
        if let Some(seed) = self.forced {
            settings = settings.forced(seed);
        }
        settings
    }

    /// Prints one line on standard output that begins with `what` and contains the time of the loop, its efficiency and the number of rows that moved
    /// between ranks. Prints the summary on standard error if it was requested.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn print_result(&self, what: &str, summary: &Summary) -> io::Result<()> {
        terminal::print(self.result_line(what, summary))
    }

    /// Prints the line and the summary of [`print_result`](LoopArgs::print_result) on standard error, for programs that write their data to standard
    /// output.
    pub fn eprint_result(&self, what: &str, summary: &Summary) {
        terminal::eprint_line(self.result_line(what, summary).trim_end());
    }

    fn result_line(&self, what: &str, summary: &Summary) -> String {
        if self.summary {
            terminal::eprint_line(summary);
        }
        let (seconds, efficiency) = (summary.elapsed.as_secs_f64(), 100.0 * summary.efficiency());
        let (moved, movements) = (summary.moved(), summary.movements);
        format!(
            "{what} in {seconds:.3} s, efficiency {efficiency:.1} %, {moved} rows moved in {movements} movement{}\n",
            if movements == 1 { "" } else { "s" }
        )
    }
}

/// Option for the number of rows (or of columns in a strip) that a loop computes between two polls for messages. Loops with stencils lack this
/// option, because they compute each step as a whole.
#[derive(Debug, Args)]
pub struct BlockArgs {
    /// Number of rows between two polls for messages, or of columns in a strip for loops that compute in strips [default: chosen from measurements]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    block: Option<u64>,
}

impl BlockArgs {
    /// Returns the settings with the requested number of rows that a rank computes between two polls for messages.
    pub fn units(&self, settings: Settings) -> Settings {
        self.block.into_iter().fold(settings, Settings::block_size)
    }

    /// Returns the settings with the width, in columns, of a strip (part of a row that is computed between two polls for messages).
    pub fn columns(&self, settings: Settings) -> Settings {
        self.block.into_iter().fold(settings, Settings::strip_width)
    }
}

/// Options for the checkpoints of a loop that passes over its rows many times.
#[derive(Clone, Debug, Args)]
pub struct CheckpointArgs {
    /// Save the rows in this directory, which all ranks must be able to access. A job that is started again with it, on any number of ranks, resumes
    /// from the last checkpoint
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,
    /// Fixed time between two checkpoints, in seconds [default: from their cost, see --checkpoint-overhead]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, requires = "checkpoint")]
    checkpoint_every: Option<f64>,
}

pub(crate) fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|s| (0.0..=1e6).contains(s));
    seconds.ok_or_else(|| "expected seconds, from 0 to 1000000".into())
}

impl CheckpointArgs {
    /// Returns the directory for the checkpoints of the loop, if the user gave one.
    pub fn dir(&self) -> Option<&Path> {
        self.checkpoint.as_deref()
    }

    /// Returns these options with the subdirectory `name` as checkpoint directory, for a program that runs several loops with a checkpoint each.
    pub fn within(&self, name: &str) -> Self {
        CheckpointArgs { checkpoint: self.dir().map(|dir| dir.join(name)), ..*self }
    }

    /// Returns the settings with the requested checkpoints. `identity` is a text that names everything on which the loop's result depends: a
    /// checkpoint with another identity is not resumed.
    pub fn add_to(&self, settings: Settings, identity: &str) -> Settings {
        let Some(dir) = &self.checkpoint else { return settings };
        settings.checkpoint(checkpoint(dir, self.checkpoint_every, identity))
    }
}

/// Returns the settings of checkpoints in `dir`, taken every `every` seconds. Without `every`, the interval follows from the cost of a checkpoint.
pub(crate) fn checkpoint(dir: &Path, every: Option<f64>, identity: &str) -> Checkpoint {
    let every = every.map(Duration::from_secs_f64);
    every.into_iter().fold(Checkpoint::new(dir, identity), Checkpoint::every)
}

#[cfg(test)]
mod tests {
    use super::*;
    use armature::loops::ParallelFor;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: LoopArgs,
        #[command(flatten)]
        block: BlockArgs,
        #[command(flatten)]
        checkpoint: CheckpointArgs,
    }

    #[test]
    fn checkpoints_reach_the_loop() {
        let settings = |arguments: &str| {
            let line = Line::try_parse_from(["test"].into_iter().chain(arguments.split_whitespace()));
            line.map(|l| format!("{:?}", l.checkpoint.add_to(l.args.settings(), "50x40")))
                .map_err(|e| e.to_string())
        };
        assert!(settings("").unwrap().contains("checkpoint: None"));
        let checkpointed = settings("--checkpoint kept --checkpoint-every 1.5").unwrap();
        assert!(
            checkpointed.contains("dir: \"kept\"") && checkpointed.contains("every: Some(1.5s)"),
            "{checkpointed}"
        );
        let line = line("--checkpoint kept").unwrap();
        let within = format!("{:?}", line.checkpoint.within("a").add_to(line.args.settings(), ""));
        assert!(within.contains("dir: \"kept/a\""), "{within}");
        assert!(settings("--checkpoint-every 3").unwrap_err().contains("--checkpoint <DIR>"));
        assert!(settings("--checkpoint a --checkpoint-every -1").is_err());
    }

    fn line(arguments: &str) -> Result<Line, String> {
        let line = Line::try_parse_from(["test"].into_iter().chain(arguments.split_whitespace()));
        line.map_err(|e| e.to_string())
    }

    fn parse(arguments: &str) -> Result<LoopArgs, String> {
        line(arguments).map(|line| line.args)
    }

    #[test]
    fn loop_options_reach_the_loop() {
        let settings = |arguments| {
            let Line { args, block, .. } = line(arguments).unwrap();
            format!("{:?} {:?}", block.units(args.settings()), block.columns(Settings::new()))
        };
        let plain = settings("");
        assert!(!plain.contains("block_size: Some") && !plain.contains("strip_width: Some"), "{plain}");
        let set = settings("--block 10 --shares 2,1.5 --forced 7");
        for part in
            ["block_size: Some(10)", "strip_width: Some(10)", "shares: Some([2.0, 1.5])", "forced: Some(7)"]
        {
            assert!(set.contains(part), "{part}: {set}");
        }
        let config = line("--balance off").unwrap().args.run.config().unwrap();
        assert!(format!("{config:?}").contains("balance: Some(Off)"), "{config:?}");
    }

    #[test]
    fn result_is_compared_only_if_requested() {
        let run = |arguments: &str, compare: fn(&u64) -> Result<f64, BoxError>| {
            let work = |session: &mut Session, whole: bool| {
                let outcome = ParallelFor::new("nothing", 0..3).run(session, |_| Ok(()))?;
                Ok(outcome.into_summary().map(|summary| (summary, if whole { 3 } else { 0 })))
            };
            let done = parse(arguments).unwrap().run(work, compare);
            done.map(|done| done.unwrap().1).map_err(|e| e.to_string())
        };
        let wrong = |result: &u64| Err(format!("{result} is wrong").into());
        assert_eq!(run("", wrong), Ok(None));
        assert_eq!(run("--verify --ranks 2", |&result| Ok(0.5 * result as f64)), Ok(Some(1.5)));
        let error = run("--verify --ranks 2", wrong).unwrap_err();
        assert!(error.contains("3 is wrong"), "{error}");
    }

    #[test]
    fn unusable_options_are_refused() {
        assert!(parse("--block 0").is_err());
        assert!(parse("--balance never").unwrap_err().contains("never"));
        assert!(parse("--shares 1,x").is_err());
    }
}
