//! What the programs for simulated ranks share with each other and with the experiments that start them.
//!
//! - [`run`]: how such a program begins and ends
//! - [`settings`]: what it is told
//! - [`tasks`]: how long the tasks of a farm take
//! - [`workflows`]: a workflow with its plan, as a file

pub mod tasks;
pub mod workflows;

use std::process::ExitCode;

use armature::{BoxError, Config, Progress, Session};

/// What comes of something that can fail in any way.
pub type Outcome<T = ()> = Result<T, BoxError>;

/// Runs a rank of the program `name`: `parse` makes what it is to do out of its arguments, and `rank` does it.
pub fn run<S: Sync>(
    name: &str,
    parse: impl FnOnce(&[String]) -> Outcome<S>,
    rank: impl Fn(&S, &mut Session) -> Outcome + Sync,
) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = parse(&words).and_then(|simulated| {
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

/// Takes settings out of words `NAME=VALUE`: `set` gets the name and the value of each, and says whether there is such
/// a setting.
///
/// # Errors
/// If there is not, or a word is of another form; those of `set`.
pub fn settings(words: &[String], mut set: impl FnMut(&str, &str) -> Outcome<bool>) -> Outcome {
    for word in words {
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
    fn settings_are_set_or_refused() {
        let read = |words: &str| {
            let words: Vec<String> = words.split(' ').map(String::from).collect();
            let mut size = 0;
            let result = settings(&words, |name, value| {
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
