//! `ferret replay`: a recorded profile on other ranks.

use crate::profile::Profile;
use crate::replay::{Replay, Replayed, replay};
use armature::pipeline::{Dispatch, MappingChoice};
use armature_apps::names;
use armature_apps::pipeline::PipelineArgs;
use armature_apps::terminal::print;
use armature_files::output::Output;
use clap::{Args, ValueEnum};
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// Profile written by `ferret query --record-profile`
    #[arg(value_name = "FILE")]
    profile: PathBuf,
    /// Length of the stream; the profile begins again where it is shorter [default: as long as the profile]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    items: Option<u64>,
    /// Change to another mapping as soon as so many results have arrived; may be given several times
    #[arg(long, value_name = "ITEMS:serial|orderly|FILE", value_parser = parse_remap)]
    remap: Vec<(u64, MappingChoice)>,
    /// How items are handed to the replicas of a stage
    #[arg(long, value_enum, default_value = "on-demand")]
    dispatch: DispatchArg,
    #[command(flatten)]
    run: PipelineArgs,
    /// File for lines of an item's number and the seconds after which it reached the end
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DispatchArg {
    /// To whichever replica asks
    OnDemand,
    /// In turn
    RoundRobin,
}

pub(super) fn main(args: &ReplayArgs) -> Result<(), Box<dyn Error>> {
    let profile = Arc::new(Profile::read(&args.profile)?);
    let config = args.run.config()?;
    let wanted = Replay {
        items: args.items.unwrap_or(profile.items.len() as u64),
        profile,
        mapping: args.run.mapping(),
        remaps: args.remap.clone(),
        dispatch: match args.dispatch {
            DispatchArg::OnDemand => Dispatch::OnDemand,
            DispatchArg::RoundRobin => Dispatch::RoundRobin,
        },
    };
    let found = armature::run(&config, |session| replay(session, &wanted))?;
    let Some(Replayed { times, checksum, run }) = found else { return Ok(()) };
    if let Some(path) = &args.times {
        write_times(path, &times).map_err(|e| format!("cannot write {}: {e}", names::path(path)))?;
    }
    args.run.tell(&run);
    let seconds = run.elapsed.as_secs_f64();
    print(format_args!("replayed {} items in {seconds:.9} s, checksum {checksum:016x}\n", run.delivered))?;
    Ok(())
}

/// Reads `60:FILE`.
fn parse_remap(text: &str) -> Result<(u64, MappingChoice), String> {
    let parts = text.split_once(':').filter(|(_, file)| !file.is_empty());
    let (items, file) = parts.ok_or("expected a number of items and a mapping, such as 60:later.mapping")?;
    let items = items.parse().map_err(|_| format!("`{items}` is no number of items"))?;
    match MappingChoice::from_arg(file) {
        MappingChoice::Auto => {
            Err("expected serial, orderly or a file: what `auto` would be is not known before".into())
        }
        mapping => Ok((items, mapping)),
    }
}

fn write_times(path: &Path, times: &[Duration]) -> io::Result<()> {
    let mut file = Output::create(path)?;
    for (item, time) in times.iter().enumerate() {
        writeln!(file, "{item} {:.9}", time.as_secs_f64())?;
    }
    file.commit()
}
