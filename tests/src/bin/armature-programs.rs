//! Runs random programs of small skeletons on the ranks of the current MPI job:
//!
//! ```text
//! mpirun -n 3 armature-programs SEED…              one program per seed, in this order, on all ranks
//! mpirun -n 3 armature-programs differ SEED        the program of this seed, and a different one on the last rank
//! mpirun -n 3 armature-programs late RANK KIND     one skeleton (farm, pipeline, map, doall, sweeps), which rank RANK
//!                                                  starts LATE after the other ranks
//! mpirun -n 3 armature-programs late-start RANK    no skeleton; rank RANK initialises MPI LATE after the other ranks
//! ```

use std::process::ExitCode;
use std::time::Duration;

use armature::{BoxError, Config, Session};
use armature_tests::programs::Program;

/// Delay of a rank that starts late: a little longer than the time after which the waiting ranks log a message.
const LATE_BY: Duration = Duration::from_millis(11_500);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["late-start", rank] = arguments[..] {
        let own = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"].iter().find_map(|name| std::env::var(name).ok());
        if own.as_deref() == Some(rank) {
            std::thread::sleep(LATE_BY);
        }
    }
    let config = Config::from_env();
    armature::exit_code(config.and_then(|config| armature::run(&config, |session| run(session, &arguments))))
}

fn run(session: &mut Session, arguments: &[&str]) -> Result<(), BoxError> {
    match arguments {
        ["late-start", _] => Ok(()),
        ["late", rank, kind] => {
            if session.rank() == rank.parse::<usize>()? {
                std::thread::sleep(LATE_BY);
            }
            let program = Program::single(kind).ok_or_else(|| format!("there is no skeleton {kind}"))?;
            program.run(session, &program)
        }
        ["differ", seed] => {
            let seed = seed.parse()?;
            let program = Program::of(seed);
            program.run(session, &program.variant(seed))
        }
        seeds => seeds.iter().try_for_each(|seed| {
            let program = Program::of(seed.parse()?);
            program.run(session, &program)
        }),
    }
}
