//! Runs random programs of small skeletons on the ranks that it is started with:
//!
//! ```text
//! mpirun -n 3 armature-programs SEED…            these, one after the other, on all ranks
//! mpirun -n 3 armature-programs --differ SEED    this one, on the last rank another one
//! ```

use std::process::ExitCode;

use armature::{BoxError, Config, Session};
use armature_tests::programs::Program;

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let differ = args.first().is_some_and(|first| first == "--differ");
    args.drain(..usize::from(differ));
    let result =
        Config::from_env().and_then(|config| armature::run(&config, |session| run(session, &args, differ)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("armature-programs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(session: &Session, seeds: &[String], differ: bool) -> Result<(), BoxError> {
    for seed in seeds {
        let seed = seed.parse()?;
        let program = Program::of(seed);
        let other = if differ { program.other(seed) } else { program.clone() };
        program.run(session, &other)?;
    }
    Ok(())
}
