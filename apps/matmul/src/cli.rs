//! Command line of the `matmul` program.

use crate::kernel::{Factor, Matrix, flops, multiply, rows};
use crate::product::product;
use armature::Session;
use armature_apps::grid::same_values;
use armature_apps::loops::{BlockArgs, LoopArgs};
use armature_apps::terminal::print;
use clap::Parser;
use std::process::ExitCode;
use std::time::Instant;

/// Multiply two square matrices, with the rows distributed over the ranks.
///
///   matmul --size 500 --verify
///   mpirun -n 4 matmul --size 1000 --passes 50 --summary
///
/// Rows move between ranks when a rank becomes slower. The result is bit-identical to that of one rank.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
struct Cli {
    /// Number of rows and of columns of the matrices
    #[arg(long, default_value_t = 500, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=32_768))]
    size: u32,
    /// Number of multiplications, all with the same result
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    passes: u64,
    #[command(flatten)]
    block: BlockArgs,
    #[command(flatten)]
    args: LoopArgs,
}

/// Runs the `matmul` program with the arguments of the process.
pub fn main() -> ExitCode {
    armature::exit_code(run(&armature_apps::version::parse()))
}

fn run(cli: &Cli) -> Result<(), armature::BoxError> {
    let Cli { size, passes, block, args } = cli;
    let (width, settings) = (*size as usize, block.units(args.settings()));
    let work = |session: &mut Session, whole| product(session, width, *passes, settings.clone(), whole);
    let done = args.run(work, |c| Ok(compare(width, c)?))?;
    if let Some((summary, serial)) = done {
        let what = if *passes == 1 { "once".to_string() } else { format!("{passes} times") };
        args.print_result(&format!("{size}x{size} matrices multiplied {what}"), &summary)?;
        let seconds = summary.elapsed.as_secs_f64().max(1e-9);
        let speed = 1e-9 * *passes as f64 * flops(u64::from(*size), width) / seconds;
        print(format_args!("{speed:.2} Gflop/s\n"))?;
        if let Some(seconds) = serial {
            print(format_args!(
                "the same bits as the serial loop, which takes {seconds:.3} s for one product\n"
            ))?;
        }
    }
    Ok(())
}

fn compare(width: usize, c: &[f64]) -> Result<f64, String> {
    let all = 0..width as u64;
    let (a, b) = (rows(Matrix::A, all.clone(), width), Factor::new(&rows(Matrix::B, all, width), width));
    let mut serial = vec![0.0; width * width];
    let start = Instant::now();
    multiply(&a, &b, &mut serial);
    let seconds = start.elapsed().as_secs_f64();
    same_values("product", c, &serial, width)?;
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use armature_tests::loops::detects_a_wrong_bit;
    use clap::CommandFactory;

    fn parse(arguments: &str) -> Result<Cli, String> {
        Cli::try_parse_from(["matmul"].into_iter().chain(arguments.split_whitespace()))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn command_is_well_formed() {
        Cli::command().debug_assert();
        assert_eq!((parse("").unwrap().size, parse("--passes 3").unwrap().passes), (500, 3));
        for arguments in ["--size 0", "--size 40000", "--size x", "--passes 0", "--balance some", "--block 0"]
        {
            assert!(parse(arguments).is_err(), "{arguments}");
        }
    }

    #[test]
    fn comparison_finds_a_single_wrong_bit() {
        let work = |session: &mut Session| product(session, 9, 1, Default::default(), true);
        let (_, c) = armature::run(&armature::Config::new(), work).unwrap().unwrap();
        assert!(compare(9, &c[..9]).unwrap_err().contains("the product has 9 values instead of 81"));
        detects_a_wrong_bit(c, 9, |c| compare(9, c));
    }
}
