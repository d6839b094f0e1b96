//! Code shared by the benchmark programs that run on simulated ranks and by the experiments that start them.
//!
//! - [`run`]: entry point of a rank program
//! - [`settings`]: parser of command-line settings
//! - [`tasks`]: task times of a farm
//! - [`task_bench`]: grids of tasks as in Task Bench, which the programs on real ranks use as well
//! - [`workflows`]: a workflow with its plan, as a file

pub mod task_bench;
pub mod tasks;
pub mod workflows;

use std::process::ExitCode;

use armature::{BoxError, Config, Progress, Session};

/// Result with an error of any type.
pub type RunResult<T = ()> = Result<T, BoxError>;

/// Runs a rank of the program `name`: `parse` converts the arguments into parameters, and `rank` runs with them.
pub fn run<S: Sync>(
    name: &str,
    parse: impl FnOnce(&[String]) -> RunResult<S>,
    rank: impl Fn(&S, &mut Session) -> RunResult + Sync,
) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = parse(&arguments).and_then(|simulated| {
        let config = Config::from_env()?.progress(Progress::Off);
        Ok(armature::run(&config, |session| rank(&simulated, session))?)
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Parses command-line words of the form `NAME=VALUE`. `set` receives the name and the value of each word, and returns true if a setting with this
/// name exists.
///
/// # Errors
/// If a setting does not exist or a word has another form; also errors of `set`.
pub fn settings(arguments: &[String], mut set: impl FnMut(&str, &str) -> RunResult<bool>) -> RunResult {
    for word in arguments {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("expected NAME=VALUE, got {word}"))?;
        if !set(name, value)? {
            return Err(format!("there is no setting {word}").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parsed_or_refused() {
        let read = |arguments: &str| {
            let arguments: Vec<String> = arguments.split(' ').map(String::from).collect();
            let mut size = 0;
            let result = settings(&arguments, |name, value| {
                match name {
                    "size" => size = value.parse()?,
                    _ => return Ok(false),
                }
                Ok(true)
            });
            result.map(|()| size).map_err(|e| e.to_string())
        };
        assert_eq!(read("size=3 size=5"), Ok(5));
        assert_eq!(read("size"), Err("expected NAME=VALUE, got size".to_string()));
        assert_eq!(read("size=3 speed=2"), Err("there is no setting speed=2".to_string()));
        assert!(read("size=many").unwrap_err().contains("invalid digit"));
    }
}
