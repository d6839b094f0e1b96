//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use armature::RunSummary;
use armature_apps::farm::FarmArgs;
use armature_apps::terminal::{print, tell};
use clap::Parser;

use crate::board::{KNOWN, LARGEST};
use crate::farm;

/// Count the ways to place queens on a board so that none attacks another, one in each row.
///
///   mpirun -n 4 nqueens 14 --summary
///
/// A board with some queens is a task that makes tasks, the boards with one queen more. Whichever rank is free searches below the next.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
struct Cli {
    /// Rows of the board
    #[arg(default_value_t = 12, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST)))]
    rows: u32,
    /// Rows that a task does by itself instead of making tasks: fewer make more and shorter tasks
    #[arg(long, default_value_t = 8, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(0..=i64::from(LARGEST)))]
    serial_rows: u32,
    /// Fail unless the number is the one that is known
    #[arg(long)]
    check: bool,
    /// Keep what is counted in this file on rank 0's host; started again with it, count only what is missing
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    farm: FarmArgs,
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    armature::exit_code(run(&Cli::parse()))
}

fn run(args: &Cli) -> Result<(), armature::BoxError> {
    let counted = armature::run(&args.farm.config()?, |session| {
        farm::count(session, args.rows, args.serial_rows, &args.farm, args.journal.as_deref())
    })?;
    let Some((ways, summary)) = counted else { return Ok(()) };
    if args.farm.summary() {
        tell(&summary);
    }
    let (seconds, efficiency) = (summary.elapsed.as_secs_f64(), 100.0 * summary.efficiency());
    tell(format_args!("{} rows in {seconds:.2} s, efficiency {efficiency:.1} %", args.rows));
    print(format_args!("{ways}\n"))?;
    let known = KNOWN.get(args.rows as usize).filter(|&&known| args.check && known != ways);
    known.map_or(Ok(()), |known| Err(format!("{known} ways are known").into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_is_well_formed() {
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from(["nqueens", "9", "--serial-rows", "0"]).unwrap();
        assert_eq!((cli.rows, cli.serial_rows), (9, 0));
        for rows in ["0", "21", "-1"] {
            assert!(Cli::try_parse_from(["nqueens", rows]).is_err(), "{rows}");
        }
    }
}
