//! Runs a program once for each value of a parameter, and makes a table of what the runs have written. A workflow of commands: each
//! command runs on whichever rank is free, in a directory that all ranks see.
//!
//! ```sh
//! mpirun -n 4 target/release/parameter-sweep /scratch/growth
//! ```

use std::path::Path;

use armature::workflow::{Action, Description, Task, Workflow};
use armature::{BoxError, Commands, Config, Session};

/// What is run, with the parameter for `{}`: any line for a shell. Here animals multiply until they starve.
const COMMAND: &str =
    "awk 'BEGIN { x = 0.3; for (i = 0; i < 1000; i++) x *= {} * (1 - x); printf \"%.6f\\n\", x }' > {}.txt";

fn main() -> armature::Result<()> {
    let (config, args) = Config::from_args_and_rest()?;
    // Each rank starts commands by a process beside it, as a process that is part of an MPI job should start none.
    armature::run(&config.commands(Commands::new()), |session| {
        let [directory] = &args[..] else { return Err("usage: parameter-sweep DIRECTORY".into()) };
        let rates: Vec<String> = (0..20).map(|n| format!("{:.2}", 1.0 + 0.1 * f64::from(n))).collect();
        if let Some(table) = sweep(session, directory.as_ref(), &rates)? {
            print!("{table}");
        }
        Ok(())
    })
}

/// A line for each of these values, on rank 0.
fn sweep(session: &Session, directory: &Path, values: &[String]) -> Result<Option<String>, BoxError> {
    let mut runs = Description::builder("sweep");
    for value in values {
        runs.task(Task::new(value, Action::Shell(COMMAND.replace("{}", value))));
    }
    // A run that fails is tried once more, on another rank; if it fails again, the job ends and names it.
    let mut workflow = Workflow::new(runs.build()?).directory(directory);
    let Some(summary) = workflow.run(session)? else { return Ok(None) };
    eprintln!("{summary}");
    let mut table = String::new();
    for value in values {
        let written = std::fs::read_to_string(directory.join(format!("{value}.txt")))?;
        table += &format!("{value}\t{}\n", written.trim());
    }
    Ok(Some(table))
}
