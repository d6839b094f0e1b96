//! Command-line arguments of programs without an argument parser.

use std::io::Write;
use std::process::ExitCode;

use super::Config;
use super::choices::Balance;
use super::read::{BALANCES, MAX_RANKS, choose, directory, hours, number, percent};
use super::variables::nearest;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::session::topology::this_process;
use crate::session::{Session, run};

/// Command-line options, each with the name of its value, if it has a value, and a line of help.
pub(super) const OPTIONS: [(&str, &str, &str); 8] = [
    (
        "--ranks",
        "N",
        "Run N ranks as threads of one process [default: 1]. A launcher such as mpirun sets the number itself",
    ),
    ("--balance", "MODE", "Rebalance `once`, `live` or never (`off`)"),
    ("--no-balance", "", "Same as --balance off"),
    ("--events", "DIR", "Write a log of the run to DIR; `armature report DIR` shows it"),
    (
        "--checkpoint-overhead",
        "PERCENT",
        "Part of the time that checkpoints without a fixed period may take [default: 1]",
    ),
    (
        "--mtbf",
        "HOURS",
        "Mean time between failures of the job; determines the period of checkpoints [default: 24]",
    ),
    ("--help", "", "Print this help"),
    ("--version", "", "Print the version of armature"),
];

/// Exit code of a program with invalid arguments.
const USAGE: u8 = 2;

enum Request {
    Run(Box<Config>),
    Print(String),
}

impl Config {
    /// Returns the settings of the environment, like [`from_env`](Config::from_env), overridden by those of this program's arguments.
    ///
    /// | argument | same as |
    /// |---|---|
    /// | `--ranks N` | `ARMATURE_RANKS=N` |
    /// | `--balance MODE` | `ARMATURE_BALANCE=MODE` |
    /// | `--no-balance` | `ARMATURE_BALANCE=off` |
    /// | `--events DIR` | `ARMATURE_EVENTS=DIR` |
    /// | `--checkpoint-overhead PERCENT` | `ARMATURE_CHECKPOINT_OVERHEAD=PERCENT` |
    /// | `--mtbf HOURS` | `ARMATURE_MTBF_HOURS=HOURS` |
    ///
    /// `--ranks=N` is the same as `--ranks N`. `--help` and `--version` print a text on standard output and end the process with exit
    /// code 0, as argument parsers do; no rank has been started then. [`armature::main`](crate::main) does all of this for programs
    /// without other arguments.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] as for [`from_env`](Config::from_env), for a value that cannot be used, and for an argument that is not in the table;
    /// the message names the most similar argument of the table.
    pub fn from_args() -> Result<Self> {
        match request(arguments(), &name())? {
            Request::Run(config) => Ok(*config),
            Request::Print(text) => {
                print_once(&text);
                std::process::exit(0);
            }
        }
    }

    /// Returns the settings of [`from_args`](Config::from_args), and all other arguments in their order, without the program's name. For
    /// programs with arguments of their own; `--help` and `--version` are among those.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] as for [`from_env`](Config::from_env), and for a value that cannot be used.
    pub fn from_args_and_rest() -> Result<(Self, Vec<String>)> {
        Config::from_env()?.take_args(arguments())
    }

    fn take_args(mut self, args: impl IntoIterator<Item = String>) -> Result<(Self, Vec<String>)> {
        let (mut args, mut rest) = (args.into_iter(), Vec::new());
        while let Some(arg) = args.next() {
            if arg == "--no-balance" {
                self.balance = Some(Balance::Off);
                continue;
            }
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (arg.as_str(), None),
            };
            if !OPTIONS.iter().any(|(option, value, _)| *option == name && !value.is_empty()) {
                rest.push(arg);
                continue;
            }
            let value = value.map_or_else(|| args.next().unwrap_or_default(), str::to_string);
            match name {
                "--ranks" => self.ranks = Some(number(name, &value, 1, MAX_RANKS)?),
                "--balance" => self.balance = Some(choose(name, &value, BALANCES)?),
                "--checkpoint-overhead" => self.checkpoint_overhead = percent(name, &value)?,
                "--mtbf" => self.mean_time_between_failures = hours(name, &value)?,
                _ => self.events = Some(directory(name, &value)?),
            }
        }
        Ok((self, rest))
    }
}

/// Runs a program whose arguments are only those of the framework: reads the settings with [`Config::from_args`], [runs](crate::run) `body` on
/// every rank, and prints an error on standard error.
///
/// Returns the exit code: 0, or 1 if a rank has failed, or 2 if an argument or a variable cannot be used, or
/// [85](crate::job_status::STOPPED) if the job was asked to stop.
///
/// ```
/// use armature::farm::Farm;
///
/// fn main() -> std::process::ExitCode {
///     armature::main(|session| {
///         if let Some(squares) = Farm::new("square", |n: u64| n * n).collect(session, 1..=3)?.on_root() {
///             assert_eq!(squares, [1, 4, 9]);
///         }
///         Ok(())
///     })
/// }
/// ```
pub fn main<R: Send>(body: impl Fn(&mut Session) -> Result<R, BoxError> + Sync) -> ExitCode {
    let name = name();
    // A process that was started to run commands for a rank has the same arguments as this program. In such a process, this call does not
    // return.
    crate::session::commands::enter();
    let config = match request(arguments(), &name) {
        Ok(Request::Run(config)) => config,
        Ok(Request::Print(text)) => {
            print_once(&text);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            if prints() {
                eprintln!("{name}: {error}");
            }
            return ExitCode::from(USAGE);
        }
    };
    exit_code(run(&config, body))
}

/// Returns the exit code of a program that ends with this result, and prints an error on standard error, after the name of the program.
///
/// An error of [`run`] that the library has printed, because ranks are processes, is not printed again.
///
/// ```
/// use std::process::ExitCode;
///
/// let config = armature::Config::new().ranks(2);
/// let result = armature::run(&config, |session| Ok(session.size()));
/// assert_eq!(armature::exit_code(result), ExitCode::SUCCESS);
/// ```
pub fn exit_code<T, E: Into<BoxError>>(result: std::result::Result<T, E>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let error: BoxError = error.into();
    if !error.downcast_ref::<Error>().is_some_and(Error::is_printed) {
        // The error is written in one call, so that it does not mix with the output of other ranks. A failure of the write is ignored, because a
        // closed stderr must not change the exit code.
        let text = format!("{}: {}\n", name(), armature_text::indented(&error));
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    error.downcast_ref::<Error>().map_or(ExitCode::FAILURE, |error| ExitCode::from(error.exit_code()))
}

fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned())
}

fn name() -> String {
    armature_text::shown(&this_process::program())
}

fn request(args: impl IntoIterator<Item = String>, name: &str) -> Result<Request> {
    let (config, rest) = Config::from_env()?.take_args(args)?;
    match rest.first().map(String::as_str) {
        None => Ok(Request::Run(Box::new(config))),
        Some("--help" | "-h") => Ok(Request::Print(help(name))),
        Some("--version" | "-V") => {
            Ok(Request::Print(format!("{name} (armature {})\n", env!("CARGO_PKG_VERSION"))))
        }
        Some(arg) => Err(Error::new(ErrorKind::Config, unexpected(arg))),
    }
}

fn unexpected(arg: &str) -> String {
    let option = arg.split('=').next().unwrap_or(arg);
    let meant = option.strip_prefix("--").and_then(|word| {
        let meant = nearest(word, OPTIONS.iter().map(|(option, ..)| &option["--".len()..]))?;
        Some(format!("did you mean `--{meant}`? "))
    });
    format!(
        "unexpected argument {}: {}`--help` lists the arguments",
        armature_text::quoted(option),
        meant.unwrap_or_default()
    )
}

fn help(name: &str) -> String {
    let option = |(option, value, about): &(&str, &str, &str)| {
        format!("  {:<16} {about}\n", format!("{option} {value}"))
    };
    let options: String = OPTIONS.iter().map(option).collect();
    format!(
        "Usage: {name} [OPTIONS]\n       mpirun -n N {name} [OPTIONS]\n\nOptions:\n{options}\n\
         Environment variables with names ARMATURE_… have all other settings; the page `Settings` of armature's book lists them.\n"
    )
}

/// Returns true if this process prints help and errors: on rank 0, and if no launcher has started the process.
fn prints() -> bool {
    #[cfg(feature = "mpi")]
    if let Some(launcher) = crate::comm::mpi::launched() {
        return launcher.rank.unwrap_or(0) == 0;
    }
    true
}

/// Prints a text on standard output, once in a job. A closed pipe is no error.
fn print_once(text: &str) {
    use std::io::Write;
    if prints() {
        let _ = std::io::stdout().write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn take(args: &[&str]) -> Result<(Config, Vec<String>)> {
        Config::new().take_args(args.iter().map(ToString::to_string))
    }

    fn text(args: &[&str]) -> String {
        match request(args.iter().map(ToString::to_string), "app") {
            Ok(Request::Run(_)) => "runs".to_string(),
            Ok(Request::Print(text)) => text,
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn ranks_option_is_removed_from_the_arguments() {
        let (config, rest) = take(&["in.txt", "--ranks", "6", "-v"]).unwrap();
        assert_eq!((config.ranks, rest), (Some(6), vec!["in.txt".to_string(), "-v".to_string()]));
        assert_eq!(take(&["--ranks=3"]).unwrap().0.ranks, Some(3));
        let error = take(&["--ranks"]).unwrap_err();
        assert_eq!(error.to_string(), "--ranks=: expected a whole number from 1 to 4096");
    }

    #[test]
    fn balance_and_events_options_are_removed_from_the_arguments() {
        let balance = |args: &[&str]| take(args).map(|(config, _)| config.balance);
        assert_eq!(balance(&[]).unwrap(), None);
        assert_eq!(balance(&["--no-balance"]).unwrap(), Some(Balance::Off));
        assert_eq!(balance(&["--balance", "live"]).unwrap(), Some(Balance::Live));
        assert_eq!(balance(&["--no-balance", "--balance=once"]).unwrap(), Some(Balance::Once));
        let error = balance(&["--balance", "often"]).unwrap_err();
        assert_eq!(error.to_string(), "--balance=often: expected one of off, once, live");

        let (config, rest) = take(&["--events", "log", "in.txt", "--eventss=x"]).unwrap();
        assert_eq!(config.events, Some(PathBuf::from("log")));
        assert_eq!(rest, ["in.txt", "--eventss=x"]);
        assert_eq!(take(&["--events"]).unwrap_err().to_string(), "--events=: expected a directory");
    }

    #[test]
    fn unknown_arguments_are_refused_with_a_suggestion() {
        assert_eq!(text(&["--ranks", "2", "--no-balance"]), "runs");
        for (arg, expected) in [
            (
                "--rank",
                "unexpected argument \"--rank\": did you mean `--ranks`? `--help` lists the arguments",
            ),
            (
                "--event=x",
                "unexpected argument \"--event\": did you mean `--events`? `--help` lists the arguments",
            ),
            ("--frobnicate", "unexpected argument \"--frobnicate\": `--help` lists the arguments"),
            ("bogus", "unexpected argument \"bogus\": `--help` lists the arguments"),
        ] {
            assert_eq!(text(&[arg, "4"]), expected);
        }
    }

    #[test]
    fn help_lists_every_option() {
        let help = text(&["--help"]);
        assert!(help.starts_with("Usage: app [OPTIONS]\n"), "{help}");
        assert!(OPTIONS.iter().all(|(option, ..)| help.contains(option)), "{help}");
        assert_eq!(text(&["-V"]), format!("app (armature {})\n", env!("CARGO_PKG_VERSION")));
    }
}
