//! Command line of the `heat` program.

use crate::kernel::{fill, step};
use crate::plate::simulate;
use armature::Session;
use armature::loops::Shape;
use armature_apps::grid::{self, parse_shape};
use armature_apps::loops::LoopArgs;
use armature_apps::terminal::print;
use clap::Parser;
use std::process::ExitCode;

/// Compute the heat equation on a plate with explicit steps, with the rows distributed over the ranks.
///
///   heat --size 1000 --verify
///   mpirun -n 4 heat --size 4000 --steps 200 --summary
///
/// Rows move between neighbouring ranks when a rank becomes slower. The result is bit-identical to that
/// of one rank.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
struct Cli {
    /// Number of rows and columns, fixed edges included
    #[arg(long, default_value = "1000", value_name = "N|ROWSxCOLUMNS", value_parser = parse_shape)]
    size: Shape,
    /// Number of time steps
    #[arg(long, default_value_t = 100, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    #[command(flatten)]
    args: LoopArgs,
}

/// Runs the `heat` program with the arguments of the process.
pub fn main() -> ExitCode {
    armature::exit_code(run(&armature_apps::version::parse()))
}

fn run(cli: &Cli) -> Result<(), armature::BoxError> {
    let Cli { size, steps, args } = cli;
    let work = |session: &mut Session, whole| simulate(session, *size, *steps, args.settings(), whole);
    let done = args.run(work, |grid| Ok(compare(*size, *steps, grid)?))?;
    if let Some((summary, serial)) = done {
        args.print_result(&format!("{}x{} grid, {steps} steps", size.rows, size.columns), &summary)?;
        if let Some(seconds) = serial {
            print(format_args!("the same bits as the serial loop, which takes {seconds:.3} s\n"))?;
        }
    }
    Ok(())
}

fn compare(shape: Shape, steps: u64, grid: &[f64]) -> Result<f64, String> {
    let Shape { rows, columns: width } = shape;
    let serial = |mut serial: Vec<f64>| {
        if shape.units() > 0 {
            let (mut old, inner) = (serial.clone(), width..(rows as usize - 1) * width);
            for _ in 0..steps {
                step(&old, &mut serial[inner.clone()], width);
                std::mem::swap(&mut old, &mut serial);
            }
            serial = old;
        }
        serial
    };
    grid::compare(shape, grid, |row, values| fill(row, rows, values), serial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use armature_tests::loops::detects_a_wrong_bit;
    use clap::CommandFactory;

    fn parse(arguments: &str) -> Result<Cli, String> {
        Cli::try_parse_from(["heat"].into_iter().chain(arguments.split_whitespace()))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn command_is_well_formed() {
        Cli::command().debug_assert();
        assert_eq!(parse("").unwrap().size, Shape { rows: 1000, columns: 1000 });
        assert_eq!(parse("--size 30x20").unwrap().size, Shape { rows: 30, columns: 20 });
        for arguments in ["--size 3x", "--size 2", "--steps some", "--steps 0", "--block 3"] {
            assert!(parse(arguments).is_err(), "{arguments}");
        }
    }

    #[test]
    fn comparison_finds_a_single_wrong_bit() {
        let shape = Shape { rows: 9, columns: 7 };
        let work = |session: &mut Session| simulate(session, shape, 3, Default::default(), true);
        let (_, grid) = armature::run(&armature::Config::new(), work).unwrap().unwrap();
        detects_a_wrong_bit(grid, shape.columns, |grid| compare(shape, 3, grid));
    }
}
