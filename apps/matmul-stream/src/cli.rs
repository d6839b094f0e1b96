//! Command line of the `matmul-stream` program.

use crate::kernel::serial;
use crate::matrix::{MAX_SIDE, Matrix, Shape};
use crate::pipeline::{Factors, pipeline};
use crate::reduce::{Checksum, Rows};
use armature::pipeline::Summary;
use armature::{BoxError, Session};
use armature_apps::output::{Destination, SnapshotArgs, run_into};
use armature_apps::pipeline::PipelineArgs;
use armature_apps::terminal::print;
use clap::{Parser, ValueEnum};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Multiply two single-precision matrices that are streamed through the ranks.
///
///   matmul-stream --size 1000 --verify
///   mpirun -n 4 matmul-stream --shape 5000x3000x4000 --a a.f32 --b b.f32 -o c.f32
///   mpirun -n 4 matmul-stream --size 300 --item row
///
/// A file contains only 32-bit numbers, row by row, and may be larger than the memory. Without files,
/// the matrices consist of random numbers. The result is bit-identical to that of the plain loop.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
struct Cli {
    /// Number of rows and of columns of both matrices
    #[arg(long, value_name = "NUMBER", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=MAX_SIDE))]
    size: u64,
    /// Number of rows of A, columns of A, and columns of B, instead of --size
    #[arg(long, value_name = "RxIxC", value_parser = parse_shape, conflicts_with = "size")]
    shape: Option<Shape>,
    /// File of the left matrix; rank 0 reads it [default: random numbers]
    #[arg(long, value_name = "FILE")]
    a: Option<PathBuf>,
    /// File of the right matrix; rank 0 reads it [default: random numbers]
    #[arg(long, value_name = "FILE")]
    b: Option<PathBuf>,
    /// Content of an item: blocks of rows and columns, or one row and one column
    #[arg(long, value_enum, default_value = "block")]
    item: ItemKind,
    /// Number of rows and of columns of a block
    #[arg(long, value_name = "NUMBER", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    block: u64,
    /// File for the product, in the format of A and B
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Compute the product on rank 0 alone as well, with all of B in memory, and fail unless both are bit-identical
    #[arg(long, conflicts_with = "snapshots")]
    verify: bool,
    #[command(flatten)]
    snapshots: SnapshotArgs,
    #[command(flatten)]
    run: PipelineArgs,
}

/// Content of an item of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ItemKind {
    /// One row of A and one column of B, copied
    Row,
    /// A block of rows and a block of columns
    Block,
}

fn parse_shape(text: &str) -> Result<Shape, String> {
    let numbers: Option<Vec<u64>> = text.split('x').map(|number| number.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[rows, inner, columns])
            if [rows, inner, columns].iter().all(|n| (1..=MAX_SIDE).contains(n)) =>
        {
            Ok(Shape { rows, inner, columns })
        }
        _ => Err(format!("expected three numbers from 1 to {MAX_SIDE}, for example 500x300x400")),
    }
}

/// Runs the `matmul-stream` program with the arguments of the process.
pub fn main() -> ExitCode {
    armature::exit_code(run(&armature_apps::version::parse()))
}

impl Cli {
    fn shape(&self) -> Shape {
        let size = self.size;
        self.shape.unwrap_or(Shape { rows: size, inner: size, columns: size })
    }

    fn side(&self) -> u64 {
        match self.item {
            ItemKind::Row => 1,
            ItemKind::Block => self.block,
        }
    }

    fn factors(&self) -> Result<Factors, BoxError> {
        let Shape { rows, inner, columns } = self.shape();
        let factor = |path: &Option<PathBuf>, (rows, columns), seed| match path {
            Some(path) => Matrix::open(path, rows, columns),
            None => Ok(Matrix::generated(columns, seed)),
        };
        Ok(Factors { a: factor(&self.a, (rows, inner), 1)?, b: factor(&self.b, (inner, columns), 2)? })
    }

    /// Returns a text that names everything on which the product depends, so that no snapshot of another product is continued.
    fn identity(&self, factors: &Factors) -> String {
        let (a, b, side) = (factors.a.identity(), factors.b.identity(), self.side());
        format!("{:?}, blocks of {side}, A {a}, B {b}", self.shape())
    }
}

fn run(cli: &Cli) -> Result<(), armature::BoxError> {
    let done = armature::run(&cli.run.config()?, |session| multiply_on_rank(session, cli))?;
    if let Some((Checksum(checksum), summary)) = done {
        cli.run.print_summary(&summary);
        let Shape { rows, inner, columns } = cli.shape();
        let share = summary.items as f64 / (summary.items_before + summary.items) as f64;
        let speed = 1e-9 * share * cli.shape().flops() / summary.elapsed.as_secs_f64().max(1e-9);
        print(format_args!(
            "{rows}x{inner} by {inner}x{columns} in {:.3} s, {speed:.2} Gflop/s, checksum {checksum:016x}\n",
            summary.elapsed.as_secs_f64()
        ))?;
        if cli.verify {
            print("the same bits as the serial loop\n")?;
        }
    }
    Ok(())
}

fn multiply_on_rank(session: &mut Session, cli: &Cli) -> Result<Option<(Checksum, Summary)>, BoxError> {
    let shape = cli.shape();
    let Root { factors, b, mut output } = if session.is_root() { Root::new(cli)? } else { Root::default() };
    let job = cli.run.map(pipeline(shape, cli.side(), factors.as_ref()));
    let identity = || factors.as_ref().map(|factors| cli.identity(factors)).unwrap_or_default();
    let job = cli.snapshots.add_to(job, identity);
    let mut sum = Checksum::default();
    let take = |rows: Rows, sum: &mut Checksum, output: &mut Destination| {
        sum.add(&rows.values);
        if let (Some(b), Some(factors)) = (&b, &factors) {
            verify(&rows, &factors.a, b, shape)?;
        }
        let mut write = |value: &f32| output.write_all(&value.to_le_bytes());
        Ok(rows.values.iter().try_for_each(&mut write)?)
    };
    let summary = run_into(job, (session, "write"), (&mut output, &mut sum), take)?;
    output.finish()?;
    Ok(summary.map(|summary| (sum, summary)))
}

#[derive(Default)]
struct Root {
    factors: Option<Factors>,
    /// Elements of the right factor B, if the product is to be verified.
    b: Option<Vec<f32>>,
    output: Destination,
}

impl Root {
    fn new(cli: &Cli) -> Result<Self, BoxError> {
        let factors = cli.factors()?;
        let Shape { inner, columns, .. } = cli.shape();
        let b = cli.verify.then(|| factors.b.block(0..inner, 0..columns)).transpose()?;
        // The output file is opened before the computation, so that a file that cannot be written is reported early.
        let open = |path| Destination::open(Some(path), &cli.snapshots);
        let output = cli.output.as_deref().map(open).transpose()?.unwrap_or_default();
        Ok(Root { factors: Some(factors), b, output })
    }
}

fn verify(rows: &Rows, a: &Matrix, b: &[f32], shape: Shape) -> Result<(), BoxError> {
    let Rows { first, values } = rows;
    let a = a.block(*first..first + values.len() as u64 / shape.columns, 0..shape.inner)?;
    let expected = serial(&a, b, shape.inner as usize, shape.columns as usize);
    Ok(compare(*first, values, &expected, shape.columns)?)
}

fn compare(first: u64, rows: &[f32], serial: &[f32], columns: u64) -> Result<(), String> {
    match rows.iter().zip(serial).position(|(a, b)| a.to_bits() != b.to_bits()) {
        None if rows.len() == serial.len() => Ok(()),
        None => Err(format!("there are {} elements instead of {}", rows.len(), serial.len())),
        Some(at) => {
            let (row, column) = (first + at as u64 / columns, at as u64 % columns);
            let (found, expected) = (rows[at], serial[at]);
            Err(format!("row {row}, column {column}: {found}, but the serial loop has {expected}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(arguments: &str) -> Result<Cli, String> {
        Cli::try_parse_from(["matmul-stream"].into_iter().chain(arguments.split_whitespace()))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn command_is_well_formed() {
        Cli::command().debug_assert();
        let cli = parse("--shape 2x3x4 --item row --block 9").unwrap();
        assert_eq!((cli.shape(), cli.side()), (Shape { rows: 2, inner: 3, columns: 4 }, 1));
        assert_eq!(parse("--block 9").unwrap().side(), 9);
        for arguments in
            ["--size 0", "--shape 2x3", "--shape 2x0x3", "--shape 2x3x4x5", "--block 0", "--item one"]
        {
            assert!(parse(arguments).is_err(), "{arguments}");
        }
        assert!(parse("--shape 2x3x4 --size 3").unwrap_err().contains("cannot be used with"));
    }

    #[test]
    fn comparison_finds_a_single_wrong_bit() {
        let right = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(compare(4, &right, &right, 3), Ok(()));
        let mut wrong = right;
        wrong[4] = f32::from_bits(wrong[4].to_bits() ^ 1);
        assert!(compare(4, &wrong, &right, 3).unwrap_err().starts_with("row 5, column 1: 5"));
        assert!(compare(4, &right[..3], &right, 3).unwrap_err().contains("3 elements instead of 6"));
    }
}
