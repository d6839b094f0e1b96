//! `armature simulate`: runs a program on simulated hosts with SimGrid SMPI, and prints what the run would have taken.

mod build;
mod hosts;
mod summary;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use armature_files::regular;
use armature_host::{Here, Memory};

use clap::{Args, ValueHint};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::cli::print;
use crate::command_line::{Simulation, quoted};
use crate::environment::search_path;
use crate::error::LaunchError;
use crate::execute::Call;
use crate::message::print_message;
use crate::run_directory::name;
use crate::run_directory::recorder::Recorder;
use crate::start::duration;
use crate::{detect, platform};
use hosts::Hosts;

/// Memory of a simulated rank in bytes: the pages of its copy of the program, its stack and its messages. A farm on 4,000 simulated ranks used 4.7 MB
/// for each (experiment `scale`). If the number is too low, a simulation that does not fit is started and killed.
const MEMORY_OF_RANK: u64 = 5 << 20;
/// Memory mappings of a simulated rank: segments of its copy of the program, its stack and the guard page. A farm on 200 simulated ranks had ten for
/// each. If the number is too low, the simulation aborts when the kernel's limit is reached.
const MAPPINGS_OF_RANK: u64 = 12;
/// Files that a simulated rank keeps open: two of SimGrid, counted in a farm on 200 simulated ranks, and two event files. If the number is too low, a
/// rank cannot open its files.
const FILES_OF_RANK: u64 = 4;

/// Run a program on simulated hosts, and predict how long it takes there.
///
/// SimGrid SMPI runs all ranks in one process, one after another, on hosts and links with the given speeds. The time of the run, its efficiency and the
/// activity of rank 0 are printed, and a page as of `armature report` is written to the run directory. Two simulations of a program give the same result.
///
/// The program must be built for SMPI: `armature simulate --build cargo build --release` builds it in a target directory of its own. Work takes
/// simulated time only if the program declares it (`armature::declare`), or with --measure.
///
/// Exit code: the program's own; 124 after the time limit; 2 for an invalid option or platform, or more ranks than this machine can simulate; 127 if the
/// program or SimGrid is missing; 1 if another error occurs before the start.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// Number of ranks, one on each simulated host [default: number of hosts of the platform]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    ranks: Option<u32>,
    /// Hosts and links: a file of `armature probe` (.toml) or a description for SimGrid (.xml) [default: equal hosts with links of 1 Gbit/s and 25 us]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    platform: Option<PathBuf>,
    /// Relative speeds of the hosts: the first is that of rank 0, the others are assigned to the other ranks in turn
    #[arg(long, value_name = "S,S,…", value_delimiter = ',', conflicts_with = "platform", value_parser = speed)]
    speeds: Vec<f64>,
    /// Let computing take simulated time, as measured on this machine, whose speed is that of a host of speed 1. The result is not repeatable
    #[arg(long)]
    measure: bool,
    /// Option of SimGrid, such as network/model:CM02; can be repeated
    #[arg(long, value_name = "KEY:VALUE")]
    cfg: Vec<String>,
    /// End the simulation after this time, as in 90s, 10m or 2h [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Name of the run, whose record is kept in armature-runs/NAME-N [default: the name of the program]
    #[arg(long, value_name = "NAME", value_parser = name::parse)]
    run: Option<String>,
    /// Keep no record of the run, and print no prediction
    #[arg(long, conflicts_with = "run")]
    no_run_directory: bool,
    /// Run a command that builds programs for SMPI, such as cargo build --release, instead of a simulation
    #[arg(long, conflicts_with_all = ["ranks", "platform", "speeds", "measure", "cfg", "timeout", "run", "no_run_directory"])]
    build: bool,
    /// Print the description of the hosts for SimGrid (.xml), to be edited and given as --platform
    #[arg(long)]
    print_platform: bool,
    /// Program and its arguments
    #[arg(required_unless_present = "print_platform", trailing_var_arg = true, value_name = "APP", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

pub(crate) fn simulate(args: &Simulate) -> Result<u8, LaunchError> {
    if args.build {
        return build::build(&args.command);
    }
    let (hosts, platform) = hosts(args)?;
    if args.print_platform {
        return print(&hosts.xml);
    }
    let program = program(&args.command[0])?;
    let smpirun = detect::program("smpirun", &search_path()).map_err(|_| LaunchError::NoSimulator)?;
    let ranks = args.ranks.map_or(hosts.names.len(), |ranks| ranks as usize);
    if ranks > hosts.names.len() {
        let count = hosts.names.len();
        return Err(LaunchError::Usage(format!(
            "{ranks} ranks on {count} simulated hosts: expected at most one rank on each host"
        )));
    }
    check_limits(ranks as u64)?;
    let work =
        tempfile::tempdir().map_err(LaunchError::io("make a temporary directory for the simulation"))?;
    let description = work.path().join("platform.xml");
    std::fs::write(&description, &hosts.xml)
        .map_err(LaunchError::io("write the description of the hosts"))?;
    let command: Vec<OsString> =
        std::iter::once(program.into()).chain(args.command[1..].iter().cloned()).collect();
    let line = Simulation {
        smpirun,
        ranks,
        platform: &description,
        hosts: hosts.names[..ranks].iter().map(|name| format!("{name}\n")).collect(),
        copies: work.path(),
        measured: args.measure.then_some(hosts::SPEED),
        configuration: &args.cfg,
        command: &command,
    }
    .command_line();
    let recorder = match &args.run {
        Some(name) => Some(Recorder::open(name, &args.command)?),
        None if args.no_run_directory => None,
        None => Recorder::open_implicit(&args.command),
    };
    let run = recorder.as_ref().map(|recorder| recorder.run().clone());
    let this = std::env::current_exe().map_err(LaunchError::io("find this program's own file"))?;
    let call = Call::new(line)?.bound_to_this_process(this).on_platform(platform);
    let code = call.recorded_by(recorder).run(args.timeout)?;
    match run {
        Some(run) if code == 0 => summary::print_summary(&run, ranks).map(|_| code),
        _ => Ok(code),
    }
}

/// Finds the program, and checks that it was built for SMPI.
fn program(name: &std::ffi::OsStr) -> Result<PathBuf, LaunchError> {
    let program = detect::program(&name.to_string_lossy(), &search_path())?;
    if detect::is_for_simgrid(&program) {
        return std::path::absolute(&program).map_err(LaunchError::io("find out the current directory"));
    }
    let shown = quoted(&program.to_string_lossy()).into_owned();
    Err(LaunchError::Usage(format!(
        "{shown} is not built for SimGrid SMPI; build it with: armature simulate --build cargo build --release, which writes to target-smpi"
    )))
}

/// Returns the simulated hosts, and the platform as text for the ranks if the user has named one in TOML.
fn hosts(args: &Simulate) -> Result<(Hosts, Option<String>), LaunchError> {
    match (&args.platform, args.ranks) {
        (Some(file), _) if file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("xml")) => {
            let bytes = regular::read(file).map_err(|source| LaunchError::Unreadable {
                what: "platform",
                file: file.clone(),
                source,
            })?;
            Ok((Hosts::of_xml(file, String::from_utf8_lossy(&bytes).into_owned())?, None))
        }
        (Some(file), _) => {
            let hosts = Hosts::of_platform(&platform::read(file)?)?;
            Ok((hosts, platform::for_ranks(Some(file), None)?))
        }
        (None, Some(ranks)) => Ok((Hosts::with_speeds(ranks as usize, &args.speeds), None)),
        (None, None) => {
            Err(LaunchError::Usage("how many ranks are simulated? expected -n N or --platform FILE".into()))
        }
    }
}

/// Checks that this machine can simulate so many ranks, before anything is loaded. Raises the limit of open files to what they need.
fn check_limits(ranks: u64) -> Result<(), LaunchError> {
    let refuse = |most: u64, why: String| {
        let text = format!("cannot simulate {ranks} ranks: {why}; expected at most {most} ranks");
        (ranks > most).then_some(LaunchError::Usage(text)).map_or(Ok(()), Err)
    };
    let Memory { available, limit, .. } = Memory::read(&Here);
    if available > 0 {
        let [needed, available_mib] = [ranks * MEMORY_OF_RANK, available].map(|bytes| bytes >> 20);
        refuse(
            available / MEMORY_OF_RANK,
            format!("they need about {needed} MiB of memory, of {available_mib} MiB ({limit})"),
        )?;
    }
    let mappings =
        std::fs::read_to_string("/proc/sys/vm/max_map_count").ok().and_then(|text| text.trim().parse().ok());
    if let Some(mappings) = mappings.filter(|&mappings: &u64| mappings > 0) {
        refuse(
            mappings / MAPPINGS_OF_RANK,
            format!(
                "vm.max_map_count is {mappings}, and a rank needs up to {MAPPINGS_OF_RANK} memory mappings (as root: sysctl vm.max_map_count={})",
                ranks * MAPPINGS_OF_RANK
            ),
        )?;
    }
    let files = getrlimit(Resource::Nofile);
    let (needed, most) = (ranks * FILES_OF_RANK + 64, files.maximum.unwrap_or(u64::MAX));
    refuse(
        (most.saturating_sub(64)) / FILES_OF_RANK,
        format!("a process may open {most} files (ulimit -Hn)"),
    )?;
    if files.current.is_some_and(|current| current < needed)
        && let Err(error) = setrlimit(
            Resource::Nofile,
            rustix::process::Rlimit { current: Some(needed), maximum: files.maximum },
        )
    {
        print_message(format_args!("cannot raise the limit of open files to {needed}: {error}"));
    }
    Ok(())
}

fn speed(text: &str) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|speed: &f64| (1e-6..=1e6).contains(speed));
    number.ok_or_else(|| {
        format!("`{text}` is not a speed: expected a number above 0, where 1 is a host of normal speed")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_positive_numbers() {
        assert_eq!((speed("0.5"), speed(" 2")), (Ok(0.5), Ok(2.0)));
        for text in ["", "0", "-1", "1Gf", "nan", "inf"] {
            assert!(speed(text).unwrap_err().contains("expected a number above 0"), "{text}");
        }
    }

    #[test]
    fn more_ranks_than_the_machine_can_simulate_are_refused() {
        let error = check_limits(1_000_000_000).unwrap_err().to_string();
        assert!(
            error.contains("cannot simulate 1000000000 ranks") && error.contains("expected at most"),
            "{error}"
        );
        check_limits(2).unwrap();
    }

    #[test]
    fn program_of_another_mpi_is_refused_with_the_command_that_builds_it() {
        let error = program(std::env::current_exe().unwrap().as_os_str()).unwrap_err().to_string();
        assert!(error.contains("armature simulate --build cargo build --release"), "{error}");
        assert!(matches!(program("no-such-program".as_ref()), Err(LaunchError::NoProgram(_))));
    }
}
