//! Command line of the `sor` program.

use crate::kernel::{fill, relax};
use crate::sweep::solve;
use armature::Session;
use armature::loops::Shape;
use armature_apps::grid::{self, parse_shape};
use armature_apps::loops::{BlockArgs, CheckpointArgs, LoopArgs};
use armature_apps::terminal::print;
use clap::Parser;
use std::process::ExitCode;

/// Solve a grid by successive over-relaxation in Gauss-Seidel order, with the rows distributed over the
/// ranks.
///
///   sor --size 1000 --verify
///   mpirun -n 4 sor --size 2000 --sweeps 200 --summary
///
/// Rows move between neighbouring ranks when a rank becomes slower. The result is bit-identical to that
/// of one rank.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
struct Cli {
    /// Number of rows and columns, fixed edges included
    #[arg(long, default_value = "1000", value_name = "N|ROWSxCOLUMNS", value_parser = parse_shape)]
    size: Shape,
    /// Number of sweeps over the grid
    #[arg(long, default_value_t = 40, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    sweeps: u64,
    #[command(flatten)]
    block: BlockArgs,
    #[command(flatten)]
    checkpoint: CheckpointArgs,
    #[command(flatten)]
    args: LoopArgs,
}

/// Runs the `sor` program with the arguments of the process.
pub fn main() -> ExitCode {
    armature::exit_code(run(&armature_apps::version::parse()))
}

fn run(cli: &Cli) -> Result<(), armature::BoxError> {
    let Cli { size, sweeps, block, checkpoint, args } = cli;
    let shape = format!("{}x{}", size.rows, size.columns);
    let settings = checkpoint.add_to(block.columns(args.settings()), &shape);
    let work = |session: &mut Session, whole| solve(session, *size, *sweeps, settings.clone(), whole);
    let done = args.run(work, |grid| Ok(compare(*size, *sweeps, grid)?))?;
    if let Some((summary, serial)) = done {
        args.print_result(&format!("{shape} grid, {} sweeps", summary.passes), &summary)?;
        if let Some(seconds) = serial {
            print(format_args!("the same bits as the serial loop, which takes {seconds:.3} s row by row\n"))?;
        }
    }
    Ok(())
}

fn compare(shape: Shape, sweeps: u64, grid: &[f64]) -> Result<f64, String> {
    let serial = |mut serial: Vec<f64>| {
        (0..sweeps).for_each(|_| relax(&mut serial, shape.columns, shape.inner()));
        serial
    };
    grid::compare(shape, grid, fill, serial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use armature_tests::loops::detects_a_wrong_bit;
    use clap::CommandFactory;

    fn parse(arguments: &str) -> Result<Cli, String> {
        Cli::try_parse_from(["sor"].into_iter().chain(arguments.split_whitespace()))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn command_is_well_formed() {
        Cli::command().debug_assert();
        assert_eq!(parse("").unwrap().size, Shape { rows: 1000, columns: 1000 });
        assert_eq!(parse("--size 30x20").unwrap().size, Shape { rows: 30, columns: 20 });
        for arguments in ["--size 3x", "--size 2", "--sweeps some", "--sweeps 0", "--block 0"] {
            assert!(parse(arguments).is_err(), "{arguments}");
        }
    }

    #[test]
    fn comparison_finds_a_single_wrong_bit() {
        let shape = Shape { rows: 9, columns: 7 };
        let work = |session: &mut Session| solve(session, shape, 3, Default::default(), true);
        let (_, grid) = armature::run(&armature::Config::new(), work).unwrap().unwrap();
        detects_a_wrong_bit(grid, shape.columns, |grid| compare(shape, 3, grid));
    }
}
