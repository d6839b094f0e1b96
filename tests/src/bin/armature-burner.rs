//! Load that competes with a program for a core, or an equivalent load for simulated hosts:
//!
//! ```text
//! armature-burner burn CORE PERIOD BUSY PHASE           times in nanoseconds; ends at the end of its standard input
//! armature-burner simgrid HOST SECONDS DUTY SEED SHARE  prints lines to insert before the last line of a platform file
//! ```

use std::process::ExitCode;
use std::time::Duration;

use armature::BoxError;
use armature_tests::burner::{self, Wave};

const USAGE: &str = "expected burn CORE PERIOD BUSY PHASE, or simgrid HOST SECONDS DUTY SEED SHARE";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [first, rest @ ..] if first == "burn" => burner::main(rest),
        [first, rest @ ..] if first == "simgrid" => simgrid(rest),
        _ => Err(USAGE.into()),
    };
    armature::exit_code(outcome)
}

fn simgrid(arguments: &[String]) -> Result<(), BoxError> {
    let [host, seconds, duty, seed, share] = arguments else { return Err(USAGE.into()) };
    let period = Duration::try_from_secs_f64(seconds.parse()?)?;
    let wave = Wave::new(period, duty.parse()?)?.seeded(seed.parse()?);
    print!("{}", wave.simgrid(host, share.parse()?)?);
    Ok(())
}
