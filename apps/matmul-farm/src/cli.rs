//! Command line of the `matmul-farm` program.

use crate::block::Blocks;
use crate::eigen::Dominant;
use crate::farm::square;
use crate::matrix::Symmetric;
use crate::places::{scatter, weights};
use crate::squaring::{Limits, Squaring};
use armature::RunSummary;
use armature::farm::Summary;
use armature_apps::farm::FarmArgs;
use armature_apps::terminal::{eprint_line, print};
use clap::Parser;
use std::io;
use std::process::ExitCode;

/// Find the most central places of a network by repeated squaring of a matrix.
///
///   matmul-farm --places 600
///   mpirun -n 4 matmul-farm --places 1200 --check
///
/// Places have random positions in a square of side 1. The connection of two places at distance d has
/// the weight 1 / (1 + (d/reach)²). The centrality of a place is its entry in the dominant eigenvector
/// of the weights. The matrix is squared until only the projection on this eigenvector remains. Each
/// squaring is a set of tasks, which depend on the results of the previous squaring.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
struct Cli {
    /// Number of places
    #[arg(long, default_value_t = 600, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=4096))]
    places: u32,
    /// Seed of the positions; equal seeds give equal places
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// Distance at which the weight of a connection is one half
    #[arg(long, default_value_t = 0.1, value_name = "DISTANCE", value_parser = parse_positive, allow_negative_numbers = true)]
    reach: f64,
    /// Number of rows of a panel; a task multiplies two panels [default: an eighth of the places]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..=4096))]
    block: Option<u32>,
    /// Accepted remainder of the other eigenvectors: 1 minus the sum of the squared eigenvalues, whose sum is 1
    #[arg(long, default_value = "1e-12", value_name = "NUMBER", value_parser = parse_positive, allow_negative_numbers = true)]
    tolerance: f64,
    /// Maximum number of squarings
    #[arg(long, default_value_t = 40, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1000))]
    squarings: u16,
    /// Number of places to print
    #[arg(long, default_value_t = 5, value_name = "NUMBER")]
    top: u16,
    /// Square the matrix on rank 0 alone as well, with the plain loop, and fail unless both results are bit-identical
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    farm: FarmArgs,
}

fn parse_positive(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|x: &f64| *x > 0.0 && x.is_finite())
        .ok_or_else(|| "expected a number above 0".into())
}

/// Runs the `matmul-farm` program with the arguments of the process.
pub fn main() -> ExitCode {
    armature::exit_code(run(&armature_apps::version::parse()))
}

struct RunResult {
    places: Vec<(f64, f64)>,
    dominant: Dominant,
    squarings: usize,
    run: Summary,
}

impl Cli {
    fn limits(&self) -> Limits {
        Limits { tolerance: self.tolerance, squarings: self.squarings.into() }
    }

    fn blocks(&self) -> Blocks {
        let size = self.places as usize;
        Blocks { size, height: self.block.map_or(size.div_ceil(8), |rows| rows as usize) }
    }
}

fn run(args: &Cli) -> Result<(), armature::BoxError> {
    let found = armature::run(&args.farm.config()?, |session| {
        let places = session.is_root().then(|| scatter(args.places as usize, args.seed));
        let matrix = places.as_ref().map(|places| weights(places, args.reach));
        let squared = square(session, matrix.clone(), args.blocks().height, args.limits(), &args.farm)?;
        let (Some(places), Some(matrix), Some((squaring, run))) = (places, matrix, squared) else {
            return Ok(None);
        };
        if args.check {
            compare(&squaring, &matrix, args.limits())?;
        }
        let dominant = Dominant::of(squaring.matrix(), &matrix);
        Ok(Some(RunResult { places, dominant, squarings: squaring.purities().len(), run }))
    })?;
    if let Some(found) = found {
        print_result(args, &found)?;
    }
    Ok(())
}

fn print_result(args: &Cli, found: &RunResult) -> io::Result<()> {
    let RunResult { places, dominant, squarings, run } = found;
    let mut text = format!(
        "largest eigenvalue {:.9} of {} places after {squarings} squarings, residual {:.1e}\n",
        dominant.value, args.places, dominant.residual
    );
    for place in dominant.largest(args.top.into()) {
        let ((x, y), centrality) = (places[place], dominant.vector[place]);
        text += &format!("place {place:>5} at {x:.4},{y:.4}: {centrality:.6}\n");
    }
    print(text)?;
    if args.check {
        eprint_line("the same bits as from the plain loop");
    }
    if args.farm.summary() {
        eprint_line(run);
    }
    let (seconds, efficiency) = (run.elapsed.as_secs_f64(), 100.0 * run.efficiency());
    eprint_line(format_args!("{} tasks in {seconds:.2} s, efficiency {efficiency:.1} %", run.tasks));
    Ok(())
}

fn compare(squaring: &Squaring, matrix: &Symmetric, limits: Limits) -> Result<(), String> {
    let plain = Squaring::serial(matrix.clone(), limits)?;
    if let Some(number) = (0..).zip(plain.purities()).find(|(i, p)| squaring.purities().get(*i) != Some(*p)) {
        return Err(format!("squaring {} differs from that of the plain loop", number.0));
    }
    match squaring == &plain {
        true => Ok(()),
        false => Err("the projection differs from that of the plain loop".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(arguments: &str) -> Result<Cli, String> {
        Cli::try_parse_from(["matmul-farm"].into_iter().chain(arguments.split_whitespace()))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn command_is_well_formed() {
        Cli::command().debug_assert();
        assert_eq!(parse("").unwrap().blocks(), Blocks { size: 600, height: 75 });
        assert_eq!(parse("--places 3").unwrap().blocks().height, 1);
        assert_eq!(parse("--block 50").unwrap().blocks().height, 50);
    }

    #[test]
    fn unusable_options_are_refused() {
        for (arguments, expected) in [
            ("--places 0", "1..=4096"),
            ("--block 0", "1..=4096"),
            ("--reach 0", "expected a number above 0"),
            ("--reach -2", "expected a number above 0"),
            ("--tolerance nan", "expected a number above 0"),
            ("--squarings 0", "1..=1000"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments}: {error}");
        }
    }

    #[test]
    fn comparison_finds_a_wrong_result() {
        let matrix = weights(&scatter(12, 1), 0.3);
        let limits = Limits { tolerance: 1e-12, squarings: 40 };
        let good = Squaring::serial(matrix.clone(), limits).unwrap();
        assert_eq!(compare(&good, &matrix, limits), Ok(()));
        let other = Squaring::serial(weights(&scatter(12, 2), 0.3), limits).unwrap();
        assert!(compare(&other, &matrix, limits).unwrap_err().contains("squaring 0"));
    }
}
