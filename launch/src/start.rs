//! Starts a program for `armature run`: chooses the command of the launcher from the options, and supervises the job.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::print;
use crate::command_line::{Bind, Job, Launcher, command_line};
use crate::environment::{Batch, Environment, search_path};
use crate::error::LaunchError;
use crate::execute::Call;
use crate::hostfile::Hostfile;
use crate::job_state::ExitCodeRecord;
use crate::message::print_message;
use crate::run_directory::name;
use crate::run_directory::recorder::{self, Recorder};
use crate::supervise::{self, Terms};
use crate::{Mpi, detect, platform, requeue};

/// Default time limit until all ranks are connected. Long enough for a large job on a busy machine, and for a program that reads its input before it
/// connects. A job that hangs at its start wastes this much of its allocation.
const START_LIMIT: Duration = Duration::from_secs(600);

/// Options for the start of a job.
#[derive(Debug, Args)]
pub(crate) struct LaunchArgs {
    /// Number of ranks [default: number of slots in the hostfile or batch job, or of cores of this machine]
    #[arg(short = 'n', long = "ranks", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    ranks: Option<u32>,
    /// File with the hosts, one per line: NAME slots=N speed=S memory=M
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// Speeds, memory and bandwidths of the hosts, which the planners of the ranks begin with: the file of `armature probe`, or a hostfile with speed=
    /// or memory= [default: --hostfile]
    #[arg(long, value_name = "FILE")]
    platform: Option<PathBuf>,
    /// End the job after this time, including restarts, as in 90s, 10m or 2h (without a unit: seconds) [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// MPI of the launcher [default: the MPI that the program is linked to]
    #[arg(long)]
    mpi: Option<Mpi>,
    /// Launcher that starts the ranks
    #[arg(long, default_value = "auto")]
    launcher: Launcher,
    /// Binding of ranks to cores; auto binds unless ranks outnumber slots
    #[arg(long, default_value = "auto")]
    bind: Bind,
    /// Let the other ranks continue when a rank dies, if the program can (Open MPI's mpirun, or srun)
    #[arg(long)]
    recover: bool,
    /// Restart the job up to N times after a crash; it resumes from its journal or checkpoint if it has one. A job is not restarted if its own code
    /// has failed, if a signal asked it to end, or if it has run out of memory
    #[arg(long, value_name = "N", default_value_t = 0)]
    restarts: u32,
    /// End the job if not all ranks have started and connected to each other within this time, for each start [default: 10m with --recover,
    /// --restarts or --job-status, otherwise no limit]. The death of a rank on this machine is detected earlier
    #[arg(long, value_name = "TIME", value_parser = duration)]
    start_limit: Option<Duration>,
    /// Mark each line of output with its rank, for `armature logs --rank`
    #[arg(long)]
    label: bool,
    /// Forward standard input to the launcher, and thus to rank 0 [default: standard input is not read]
    #[arg(long)]
    stdin: bool,
    /// File for the job status, which no other job uses and rank 0 can write [default: a temporary file, in the current directory if there are
    /// several hosts]
    #[arg(long, value_name = "FILE")]
    job_status: Option<PathBuf>,
    /// Name of the run, whose record is kept in armature-runs/NAME-N; the name of an existing run with its number continues that run [default: the
    /// name of the program with --restarts or a --journal of the program, otherwise no record]
    #[arg(long, value_name = "NAME", value_parser = name::parse)]
    run: Option<String>,
    /// In a Slurm job: after a stop at a checkpoint for the time limit, requeue the job, at most N times
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "no_run_directory")]
    requeue: u32,
    /// Keep no record of the run
    #[arg(long, conflicts_with = "run")]
    no_run_directory: bool,
    /// Print the command and the hostfile without starting anything
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the command before starting it
    #[arg(short, long)]
    verbose: bool,
}

impl LaunchArgs {
    /// Returns true if the run gets a run directory: if the user has named the run, or if the run is likely to have several attempts (starts of the
    /// program) and its events go to no other directory.
    fn is_recorded(&self, command: &[OsString]) -> bool {
        let has_own_events = || std::env::var_os("ARMATURE_EVENTS").is_some_and(|name| !name.is_empty());
        let has_attempts = self.restarts > 0 || self.requeue > 0 || recorder::has_journal_option(command);
        self.run.is_some() || (has_attempts && !self.no_run_directory && !has_own_events())
    }
}

pub(crate) fn start(run: LaunchArgs, command: Vec<OsString>) -> Result<u8, LaunchError> {
    let hosts = run.hostfile.as_deref().map(Hostfile::read).transpose()?;
    let mut environment = Environment::survey(hosts.is_some());
    let platform = platform::for_ranks(run.platform.as_deref(), hosts.as_ref())?;
    environment.variables.extend(platform.as_ref().map(|_| platform::VARIABLE.to_string()));
    let is_recorded = run.is_recorded(&command);
    if is_recorded {
        environment.variables.extend(recorder::VARIABLES.map(str::to_string));
    }
    environment.variables.sort_unstable();
    environment.variables.dedup();
    if run.requeue > 0 && !matches!(environment.batch, Some(Batch::Slurm { .. })) {
        return Err(LaunchError::Usage("--requeue works inside a Slurm job only".into()));
    }
    let words = command.clone();
    let name = command[0].to_string_lossy().into_owned();
    let program = detect::program(&name, &search_path())?;
    if detect::is_for_simgrid(&program) {
        let text = format!("{name} is built for SimGrid SMPI; start it with: armature simulate -n N {name}");
        return Err(LaunchError::Usage(text));
    }
    let mpi = match run.mpi {
        Some(mpi) => mpi,
        None => detect::mpi_of(&program, &environment)?,
    };
    let ranks = run.ranks.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let LaunchArgs { bind, launcher, recover, label, restarts, start_limit, .. } = run;
    let job_status = recover || restarts > 0 || run.job_status.is_some() || start_limit.is_some();
    let job = Job::new(program, command.into_iter().skip(1));
    let reads_stdin = run.stdin;
    let job = Job { ranks, hosts, bind, launcher, recover, label, job_status, reads_stdin, ..job };
    let line = command_line(&job, mpi, &environment)?;
    if let Some(warning) = &line.warning {
        print_message(warning);
    }
    if run.dry_run {
        let mut text = String::new();
        if let Some(hostfile) = &line.hostfile {
            text += "# hosts:\n";
            hostfile.lines().for_each(|line| text += &format!("#   {line}\n"));
        }
        return print(&format!("{text}{}\n", line.display("hosts")));
    }
    if run.verbose {
        print_message(line.display("hosts"));
    }
    let program = std::env::current_exe().map_err(LaunchError::io("find this program's own file"))?;
    let (ranks, all_here) = (line.ranks, line.all_here);
    let call = Call::new(line)?.reads_stdin(reads_stdin).bound_to_this_process(program).on_platform(platform);
    let recorder = match &run.run {
        Some(name) => Some(Recorder::open(name, &words)?),
        None if is_recorded => Recorder::open_implicit(&words),
        None => None,
    };
    let record = if recorder.is_some() { None } else { ExitCodeRecord::of_environment() };
    let mut call = call.recorded_by(recorder);
    let keep = |code: u8| record.map_or(code, |record| record.write(code));
    if !job_status {
        let code = call.run(run.timeout).map(keep)?;
        requeue_after(&call, run.requeue);
        return Ok(code);
    }
    // Temporary directories are local to a host, so that a job of several hosts has its status file in the current directory, which the hosts may
    // share.
    let alone = job.hosts.is_none() && environment.batch.is_none();
    let place = if alone { std::env::temp_dir() } else { PathBuf::from(".") };
    let doing = format!(
        "make a directory for the job status in {}; --job-status FILE names another place",
        place.display()
    );
    let (_directory, file) = match run.job_status {
        Some(file) => (None, file),
        None => {
            let created = tempfile::Builder::new().prefix(".armature-job-status-").tempdir_in(place);
            let directory = created.map_err(LaunchError::io(doing))?;
            let file = directory.path().join("job-status");
            (Some(directory), file)
        }
    };
    // The path of the status file is made absolute, because ranks may have another current directory.
    let file = std::path::absolute(&file).map_err(LaunchError::io("find out the current directory"))?;
    let terms = Terms {
        job_status: &file,
        restarts,
        limit: run.timeout,
        start_limit: start_limit.unwrap_or(START_LIMIT),
        all_here: all_here.then_some(ranks),
    };
    // Chooses a new command line for a restart if the allocation of Slurm has lost nodes and the user has given no hostfile.
    let renew = || match environment.after_lost_nodes().filter(|_| job.hosts.is_none()) {
        Some((environment, overrides)) => Ok(Some((command_line(&job, mpi, &environment)?, overrides))),
        None => Ok(None),
    };
    let code = supervise::supervise(&mut call, &terms, renew).map(keep)?;
    requeue_after(&call, run.requeue);
    Ok(code)
}

fn requeue_after(call: &Call, allowed: u32) {
    if let Some(recorder) = call.recorder() {
        requeue::requeue(recorder.run(), allowed);
    }
}

/// Parses a duration such as `90`, `90s`, `1.5m` or `2h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("`{text}` is not a time above 0 such as 90s, 10m or 2h");
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, text.chars().last()),
        None => (text, None),
    };
    let unit = match unit {
        Some('h') => 3600.0,
        Some('m') => 60.0,
        _ => 1.0,
    };
    let seconds = number.parse::<f64>().map_err(|_| expected())? * unit;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_with_their_units() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "m", "0", "-1s", "inf", "nan", "1d", "1e300h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
