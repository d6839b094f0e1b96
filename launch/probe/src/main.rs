//! The program `armature-probe`: its ranks report what they see. `armature doctor` and `armature probe` start it.

mod links;
mod platform;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use armature::{BoxError, Config, Progress};
use armature_apps::terminal;
use clap::Parser;

/// Report what the ranks of a job see.
#[derive(Debug, Parser)]
#[command(name = "armature-probe", version)]
struct Cli {
    /// Measure speeds, memory and connections, and print them as a platform file (TOML), instead of a line for `armature doctor`
    #[arg(long)]
    platform: bool,
    /// Write to this file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn main() -> ExitCode {
    let begin = Instant::now();
    let cli = armature_apps::version::parse::<Cli>();
    match run(&cli, begin) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("armature-probe: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli, begin: Instant) -> Result<(), BoxError> {
    let config = Config::from_env()?.progress(Progress::Off);
    armature::run(&config, |session| {
        let start = begin.elapsed();
        let text = if cli.platform {
            platform::measure(session)?.map(|platform| platform.to_string())
        } else {
            report::gather(session, start)?
        };
        let Some(text) = text else { return Ok(()) };
        match &cli.output {
            Some(path) => {
                std::fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?
            }
            None => terminal::print(text)?,
        }
        Ok(())
    })?;
    Ok(())
}
