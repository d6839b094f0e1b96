//! Runs cases of the whole-program tests on the ranks of the current MPI job:
//!
//! ```text
//! mpirun -n 4 armature-cases [NAME…]     runs the named cases or faults, or all cases
//! armature-cases --list                  lists the names of all cases
//! ```
//!
//! The `ARMATURE_*` variables configure the run. Every rank prints one line per case.

use std::process::ExitCode;

use armature::{BoxError, Commands, Config, Session};
use armature_tests::{Case, print_line};

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if names.iter().any(|n| n == "--list") {
        armature_tests::all().iter().for_each(|c| println!("{}", c.name));
        return ExitCode::SUCCESS;
    }
    let found: Result<Vec<Case>, String> = names
        .iter()
        .map(|n| armature_tests::find(n).ok_or_else(|| format!("there is no case {n}; --list names them")))
        .collect();
    let cases = match found {
        Ok(cases) if cases.is_empty() => armature_tests::all(),
        Ok(cases) => cases,
        Err(text) => {
            eprintln!("armature-cases: {text}");
            return ExitCode::from(2);
        }
    };
    let needs_commands = cases.iter().any(|case| case.name == "workflow-commands");
    let with_commands = |config: Config| match needs_commands {
        true => config.commands(Commands::new().cores(2)),
        false => config,
    };
    let config = Config::from_env().map(with_commands);
    armature::exit_code(config.and_then(|config| armature::run(&config, |session| run(session, &cases))))
}

fn run(session: &mut Session, cases: &[Case]) -> Result<(), BoxError> {
    let (rank, size, transport) = (session.rank(), session.size(), session.transport().to_string());
    print_line(&format!("rank {rank} of {size} on {transport}: {} cases", cases.len()));
    for case in cases {
        (case.run)(session).map_err(|e| match e.downcast::<armature::Error>() {
            // An error of armature is returned unchanged, because it already names the rank, the stage and the item.
            Ok(ours) => BoxError::from(*ours),
            Err(theirs) => BoxError::from(format!("case {}: {theirs}", case.name)),
        })?;
        print_line(&format!("case {} rank {rank} of {size} on {transport}: ok", case.name));
    }
    if session.is_simulated() {
        print_line(&format!("rank {rank} of {size} ended at {:?}", session.elapsed()));
    }
    Ok(())
}
