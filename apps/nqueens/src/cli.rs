//! Command line of the `nqueens` program.

use std::path::PathBuf;
use std::process::ExitCode;

use armature::RunSummary;
use armature_apps::farm::FarmArgs;
use armature_apps::terminal::{eprint_line, print};
use clap::Parser;

use crate::board::{KNOWN_COUNTS, MAX_ROWS};
use crate::farm;

/// Count the ways to place queens on a board, one in each row, so that none attacks another.
///
///   mpirun -n 4 nqueens 14 --summary
///
/// Each task is a board with some queens and creates tasks: the boards with one more queen. Each free
/// rank searches the next board.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
struct Cli {
    /// Number of rows of the board
    #[arg(default_value_t = 12, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_ROWS)))]
    rows: u32,
    /// Maximum number of remaining rows that a task searches without creating tasks; a smaller number makes more and shorter tasks
    #[arg(long, default_value_t = 8, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_ROWS)))]
    serial_rows: u32,
    /// Fail unless the number is the known one
    #[arg(long)]
    check: bool,
    /// Record counted boards in this file on the host of rank 0. A job that is started again with it counts only the missing boards
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    farm: FarmArgs,
}

/// Runs the `nqueens` program with the arguments of the process.
pub fn main() -> ExitCode {
    armature::exit_code(run(&armature_apps::version::parse()))
}

fn run(args: &Cli) -> Result<(), armature::BoxError> {
    let counted = armature::run(&args.farm.config()?, |session| {
        farm::count(session, args.rows, args.serial_rows, &args.farm, args.journal.as_deref())
    })?;
    let Some((ways, summary)) = counted else { return Ok(()) };
    if args.farm.summary() {
        eprint_line(&summary);
    }
    let (seconds, efficiency) = (summary.elapsed.as_secs_f64(), 100.0 * summary.efficiency());
    eprint_line(format_args!("{} rows in {seconds:.2} s, efficiency {efficiency:.1} %", args.rows));
    print(format_args!("{ways}\n"))?;
    let known = KNOWN_COUNTS.get(args.rows as usize).filter(|&&known| args.check && known != ways);
    known.map_or(Ok(()), |known| Err(format!("{ways} ways counted, expected {known}").into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_is_well_formed() {
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from(["nqueens", "9", "--serial-rows", "0"]).unwrap();
        assert_eq!((cli.rows, cli.serial_rows), (9, 0));
        for rows in ["0", "21", "-1"] {
            assert!(Cli::try_parse_from(["nqueens", rows]).is_err(), "{rows}");
        }
    }
}
