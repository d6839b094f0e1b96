//! `armature submit`: writes a job script for a batch system and submits it.

mod pbs;
mod request;
mod script;
mod sge;
mod site;
mod slurm;
mod values;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};

use crate::Mpi;
use crate::batch::{self, NoAnswer};
use crate::cli::print;
use crate::error::LaunchError;
use crate::message::print_message;
use crate::run_directory::description::{BatchJob, Description};
use crate::run_directory::reference::Reference;
use crate::run_directory::state::{Facts, stage};
use crate::run_directory::{RUNS, RunDirectory, SCRIPT, description, name, newest};
use request::Request;

const EVERY: Duration = Duration::from_secs(5);

/// Submit a program to the batch system, with a run directory armature-runs/NAME-N.
///
/// The script in the run directory starts `armature run` with the same program. It is checked with `sbatch --test-only` first; if Slurm refuses,
/// nothing is written. With --requeue, the job stops at a checkpoint before its time limit and is queued again. Scripts for PBS and SGE have not been
/// tried on these systems and are only printed, with --dry-run.
///
/// Exit code: 0; 2 for a wrong option, name or file; 3 if the batch system refuses; 4 if there is no batch system here; 127 if the program is missing.
/// With --wait that of `armature status` at the end.
#[derive(Debug, Args)]
pub(crate) struct Submit {
    /// Name of the run [default: the name of the program]
    #[arg(long, value_parser = name::parse)]
    name: Option<String>,
    /// Batch system
    #[arg(long, default_value = "auto")]
    batch: System,
    /// Number of nodes
    #[arg(short = 'N', long, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Number of ranks [default: nodes × ranks per node]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    ranks: Option<u32>,
    /// Number of ranks on each node
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_node: Option<u32>,
    /// Number of cores of each rank
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    cores_per_rank: u32,
    /// Memory of each rank, as in 400M or 2G
    #[arg(long, value_name = "SIZE", value_parser = values::mebibytes)]
    mem_per_rank: Option<u64>,
    /// Time limit, as in 30m, 2h, 02:00:00 or 1-12:00:00
    #[arg(short, long, value_parser = values::time_limit)]
    time: Option<u64>,
    /// Partition or queue
    #[arg(short, long, value_parser = values::word)]
    partition: Option<String>,
    /// Account or project
    #[arg(short = 'A', long, value_parser = values::word)]
    account: Option<String>,
    /// Elements of a job array, as in 1-8%2; each element is a separate run
    #[arg(long, value_name = "LIST", value_parser = values::array)]
    array: Option<String>,
    /// Start after this run has finished
    #[arg(long, value_name = "RUN")]
    after: Option<OsString>,
    /// Queue the job again after a stop at its time limit, at most N times; preemptions and lost nodes do not count
    #[arg(long, value_name = "N", default_value_t = 0)]
    requeue: u32,
    /// Ask for a checkpoint this long before the time limit, at most 10m [default: 120s, or twice as long as a stop has taken in earlier runs of this
    /// name; at most half of the time limit]
    #[arg(long, value_name = "TIME", value_parser = values::warning)]
    warn: Option<u64>,
    /// MPI of the launcher [default: the MPI that the program is linked to]
    #[arg(long)]
    mpi: Option<Mpi>,
    /// Let the other ranks continue when a rank dies or a node fails, if the program can
    #[arg(long)]
    recover: bool,
    /// Restart the job inside its allocation up to N times after a crash
    #[arg(long, value_name = "N", default_value_t = 0)]
    restarts: u32,
    /// Mark each line of output with its rank, for `armature logs --rank`
    #[arg(long)]
    label: bool,
    /// Module to load; may be repeated
    #[arg(long = "module", value_name = "NAME", value_parser = values::module)]
    modules: Vec<String>,
    /// Variable to set in the job; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = values::variable)]
    environment: Vec<(String, String)>,
    /// Option for the batch system, as in --option --qos=long; may be repeated
    #[arg(long = "option", value_name = "OPTION", allow_hyphen_values = true, value_parser = values::option)]
    options: Vec<String>,
    /// Print the script without submitting it
    #[arg(long)]
    dry_run: bool,
    /// Wait until the run has ended
    #[arg(long, conflicts_with = "array")]
    wait: bool,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "APP", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Batch systems for which a job script can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum System {
    /// The batch system whose commands are found
    Auto,
    /// Slurm
    Slurm,
    /// PBS; untried, with --dry-run only
    Pbs,
    /// Grid Engine; untried, with --dry-run only
    Sge,
}

pub(crate) fn submit(args: &Submit) -> Result<u8, LaunchError> {
    let system = system(args)?;
    let name = args.name.clone().unwrap_or_else(|| name::of_program(Path::new(&args.command[0])));
    let runs = Path::new(RUNS);
    let next = newest(runs, &name).map_or(1, |(number, _)| number + 1);
    let longest_stop = site::longest_stop(runs, &name);
    let request = Request::new(args, format!("{name}-{next}"), longest_stop)?;
    if system != System::Slurm && args.requeue > 0 {
        return Err(LaunchError::Usage("--requeue works with Slurm only".into()));
    }
    if args.dry_run {
        return print(&script::text(&request, system));
    }
    if system != System::Slurm {
        let text = "armature submit works with Slurm only; for PBS and SGE it prints a script with --dry-run, to submit with qsub";
        return Err(LaunchError::Usage(text.into()));
    }
    accepted(batch::query_with("sbatch", ["--test-only"], &script::text(&request, system)))?;
    if let Some(site) = site::Site::survey(args.partition.as_deref()) {
        site.notes(&request, longest_stop).iter().for_each(print_message);
    }
    let run = RunDirectory::create_unlinked(runs, &name)?;
    // Another process may have reserved the number of this run since Slurm has checked the script, so that the run gets another name here.
    let request = Request { run: run.name(), ..request };
    let elements = || request.elements.iter().map(|number| runs.join(format!("{}.{number}-1", request.run)));
    let job = match write_and_submit(&run, &request, args, elements().collect()) {
        Ok(job) => job,
        Err(error) => {
            for directory in elements().chain([run.path().to_path_buf()]) {
                for file in [SCRIPT, description::FILE] {
                    let _ = fs::remove_file(directory.join(file));
                }
                let _ = fs::remove_dir(directory);
            }
            // The directory of all runs is removed only if it is empty.
            let _ = fs::remove_dir(runs);
            return Err(error);
        }
    };
    run.link(runs);
    print(&format!("{} is job {job}: {}\n", run.name(), run.path().display()))?;
    if args.wait { wait(&run) } else { Ok(0) }
}

/// Writes the job script and the file `run.json` of the run and of each element of its job array, and submits the script. Returns the job number.
fn write_and_submit(
    run: &RunDirectory,
    request: &Request,
    args: &Submit,
    elements: Vec<PathBuf>,
) -> Result<String, LaunchError> {
    let path = run.path().join(SCRIPT);
    let failed = |path: &Path| LaunchError::io(format!("write {}", path.display()));
    fs::write(&path, script::text(request, System::Slurm)).map_err(failed(&path))?;
    let options = slurm::directives(request).into_iter().map(|(_, directive)| directive).collect();
    let description = Description { batch: None, options, ..Description::new(&args.command) };
    let elements: Vec<RunDirectory> = elements.into_iter().map(RunDirectory::at).collect();
    for element in &elements {
        // The log of an element is in its run directory, which must exist before the batch job starts.
        fs::create_dir(element.path()).map_err(failed(element.path()))?;
        description.write(element)?;
    }
    let description =
        Description { elements: elements.iter().map(RunDirectory::name).collect(), ..description };
    description.write(run)?;
    let script = path.into_os_string();
    let answer = accepted(batch::query("sbatch", [OsString::from("--parsable"), script]))?;
    // `sbatch --parsable` prints `48211` or `48211;cluster`.
    let job = answer.trim().split(';').next().unwrap_or_default().to_string();
    if job.is_empty() {
        return Err(LaunchError::Batch { program: "sbatch", reply: "it has printed no job number".into() });
    }
    let of = |job: String| Some(BatchJob { system: "slurm".into(), job });
    for (element, number) in elements.iter().zip(&request.elements) {
        let batch = of(format!("{job}_{number}"));
        Description { batch, elements: Vec::new(), ..description.clone() }.write(element)?;
    }
    Description { batch: of(job.clone()), ..description }.write(run)?;
    Ok(job)
}

fn accepted(answer: Result<batch::Answer, NoAnswer>) -> Result<String, LaunchError> {
    let program = "sbatch";
    match answer {
        Ok(answer) if answer.is_success => Ok(answer.output),
        Ok(answer) => Err(LaunchError::Batch { program, reply: answer.errors }),
        Err(NoAnswer::Missing) => Err(LaunchError::NoBatch { program }),
        Err(NoAnswer::Silent) => {
            Err(LaunchError::Batch { program, reply: "no answer within ten seconds".into() })
        }
    }
}

/// With `--dry-run`, a host without a batch system is treated as one with Slurm.
fn system(args: &Submit) -> Result<System, LaunchError> {
    let has = |program: &str| {
        crate::environment::search_path().iter().any(|directory| directory.join(program).is_file())
    };
    match args.batch {
        System::Auto if has("sbatch") => Ok(System::Slurm),
        System::Auto if has("qsub") && std::env::var_os("SGE_ROOT").is_some() => Ok(System::Sge),
        System::Auto if has("qsub") => Ok(System::Pbs),
        System::Auto if args.dry_run => Ok(System::Slurm),
        System::Auto => Err(LaunchError::NoBatch { program: "sbatch" }),
        named => Ok(named),
    }
}

fn job_of(run: &OsString) -> Result<String, LaunchError> {
    let run = Reference::recorded(Some(run))?.run;
    let facts = Facts::read(&run, &Err(NoAnswer::Missing));
    let none = || LaunchError::Usage(format!("--after {}: this run has no batch job", run.name()));
    facts.batch.map(|batch| batch.job).ok_or_else(none)
}

/// Returns the name of this program for job scripts: `armature` if the shell finds it by that name, otherwise its path.
fn own_name() -> PathBuf {
    let Ok(own) = std::env::current_exe() else { return "armature".into() };
    let found = crate::environment::search_path()
        .into_iter()
        .map(|dir| dir.join("armature"))
        .find(|path| path.is_file());
    let is_same = found.and_then(|found| fs::canonicalize(found).ok()) == fs::canonicalize(&own).ok();
    if is_same { "armature".into() } else { own }
}

fn wait(run: &RunDirectory) -> Result<u8, LaunchError> {
    loop {
        let stage = stage(&Facts::read(run, &crate::batch::slurm::queue())).0;
        if stage.has_ended() {
            print(&format!("{} has {}\n", run.name(), stage.word()))?;
            return Ok(stage.code());
        }
        std::thread::sleep(EVERY);
    }
}
