//! `ferret replay`: execution of a recorded profile (times and sizes of items) on other ranks.

use crate::profile::Profile;
use crate::replay::{Replay, ReplayResult, replay};
use armature::pipeline::Dispatch;
use armature_apps::names;
use armature_apps::pipeline::PipelineArgs;
use armature_apps::terminal::print;
use armature_files::output::Output;
use clap::{Args, ValueEnum};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// Profile written by `ferret query --record-profile`
    #[arg(value_name = "FILE")]
    profile: PathBuf,
    /// Number of items of the stream; a shorter profile repeats [default: the length of the profile]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    items: Option<u64>,
    /// Dispatch of items to the replicas of a stage
    #[arg(long, value_enum, default_value = "on-demand")]
    dispatch: DispatchArg,
    #[command(flatten)]
    run: PipelineArgs,
    /// File for lines with the number of an item and the time in seconds at which it reached the end
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DispatchArg {
    /// To the replica that requests the next item
    OnDemand,
    /// To all replicas in turn
    RoundRobin,
}

pub(super) fn main(args: &ReplayArgs) -> Result<(), armature::BoxError> {
    let profile = Arc::new(Profile::read(&args.profile)?);
    let config = args.run.config()?;
    let wanted = Replay {
        items: args.items.unwrap_or(profile.items.len() as u64),
        profile,
        mapping: args.run.mapping(),
        remaps: args.run.remaps().to_vec(),
        dispatch: match args.dispatch {
            DispatchArg::OnDemand => Dispatch::OnDemand,
            DispatchArg::RoundRobin => Dispatch::RoundRobin,
        },
    };
    let found = armature::run(&config, |session| replay(session, &wanted))?;
    let Some(ReplayResult { times, checksum, run }) = found else { return Ok(()) };
    if let Some(path) = &args.times {
        write_times(path, &times).map_err(|e| format!("cannot write {}: {e}", names::path(path)))?;
    }
    args.run.print_summary(&run);
    let seconds = run.elapsed.as_secs_f64();
    print(format_args!("replayed {} items in {seconds:.9} s, checksum {checksum:016x}\n", run.delivered))?;
    Ok(())
}

fn write_times(path: &Path, times: &[Duration]) -> io::Result<()> {
    let mut file = Output::create(path)?;
    for (item, time) in times.iter().enumerate() {
        writeln!(file, "{item} {:.9}", time.as_secs_f64())?;
    }
    file.commit()
}
