//! Runs a program once for each value of a parameter, and prints a table of the outputs. A workflow of commands: each
//! command runs on whichever rank is idle, in a directory that all ranks can access.
//!
//! ```sh
//! mpirun -n 4 target/release/parameter-sweep /scratch/growth
//! ```

use std::path::Path;

use armature::workflow::{Action, Description, Task, Workflow};
use armature::{BoxError, Commands, Config, Session};

/// Shell command, in which `{}` is the parameter. The command simulates a population whose growth is limited by its food.
const COMMAND: &str =
    "awk 'BEGIN { x = 0.3; for (i = 0; i < 1000; i++) x *= {} * (1 - x); printf \"%.6f\\n\", x }' > {}.txt";

fn main() -> std::process::ExitCode {
    armature::exit_code(run())
}

fn run() -> armature::Result<()> {
    let (config, args) = Config::from_args_and_rest()?;
    // Each rank has a second process that starts the commands, because a process that uses MPI should not start others.
    armature::run(&config.commands(Commands::new()), |session| {
        let [directory] = &args[..] else { return Err("usage: parameter-sweep DIRECTORY".into()) };
        let rates: Vec<String> = (0..20).map(|n| format!("{:.2}", 1.0 + 0.1 * f64::from(n))).collect();
        if let Some(table) = sweep(session, directory.as_ref(), &rates)? {
            print!("{table}");
        }
        Ok(())
    })
}

/// Returns, on rank 0, a table with a line for each parameter value.
fn sweep(session: &mut Session, directory: &Path, values: &[String]) -> Result<Option<String>, BoxError> {
    let mut runs = Description::builder("sweep");
    for value in values {
        runs.task(Task::new(value, Action::Shell(COMMAND.replace("{}", value))));
    }
    // The first command that fails ends the job with an error that names it. `.retries(1)` would retry it once, on
    // another rank.
    let outcome = Workflow::from_description(runs.build()?).directory(directory).run(session)?;
    let Some(summary) = outcome.summary() else { return Ok(None) };
    eprintln!("{summary}");
    let mut table = String::new();
    for value in values {
        let written = std::fs::read_to_string(directory.join(format!("{value}.txt")))?;
        table += &format!("{value}\t{}\n", written.trim());
    }
    Ok(Some(table))
}
