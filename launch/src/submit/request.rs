//! Checked options of `armature submit`, from which the job script is written.

use std::ffi::OsString;

use clap::ValueEnum;

use super::{Submit, job_of, own_name, values};
use crate::error::LaunchError;
use crate::run_directory::end_reason::WARNING;

/// Default time in seconds between the warning signal of the batch system and the time limit of a job.
const WARN: u64 = 120;

#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    pub(super) run: String,
    pub(super) nodes: Option<u32>,
    pub(super) ranks: Option<u32>,
    pub(super) ranks_per_node: Option<u32>,
    pub(super) cores_per_rank: u32,
    /// Memory for each rank in MiB.
    pub(super) memory: Option<u64>,
    /// Time limit of the batch job in seconds.
    pub(super) time: Option<u64>,
    pub(super) partition: Option<String>,
    pub(super) account: Option<String>,
    pub(super) array: Option<String>,
    pub(super) elements: Vec<u32>,
    /// Number of a batch job that must end without an error before this one starts.
    pub(super) after: Option<String>,
    pub(super) requeue: u32,
    /// Seconds between the warning signal of the batch system and the time limit of the job.
    pub(super) warn: Option<u64>,
    pub(super) mpi: Option<String>,
    pub(super) recover: bool,
    pub(super) restarts: u32,
    pub(super) label: bool,
    pub(super) modules: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) options: Vec<String>,
    pub(super) armature: String,
    pub(super) command: Vec<String>,
}

impl Request {
    /// `run` is the name of the run directory; `longest_stop` is the longest time in seconds that earlier runs took to stop at a checkpoint.
    pub(super) fn new(args: &Submit, run: String, longest_stop: Option<u64>) -> Result<Self, LaunchError> {
        let usage = |text: String| Err(LaunchError::Usage(text));
        if args.ranks.is_none() && args.nodes.is_none() {
            return usage("the size of the job is missing: expected -n RANKS or -N NODES".into());
        }
        if let (Some(nodes), Some(per_node), Some(ranks)) = (args.nodes, args.ranks_per_node, args.ranks)
            && u64::from(nodes) * u64::from(per_node) < u64::from(ranks)
        {
            return usage(format!("{ranks} ranks do not fit on {nodes} nodes with {per_node} ranks each"));
        }
        let default = longest_stop.map_or(WARN, |seconds| WARN.max(2 * seconds).min(WARNING));
        let warn = match (args.warn, args.time) {
            (Some(warn), Some(time)) if warn >= time => {
                return usage(format!("--warn {warn}s is not before the time limit of {time} s"));
            }
            (Some(warn), _) => Some(warn),
            (None, Some(time)) => Some(default.min(time / 2)).filter(|&warn| warn > 0),
            (None, None) => Some(default),
        };
        if args.command.iter().any(|word| word == ":") {
            return Err(LaunchError::Colon);
        }
        let text = |word: &OsString| {
            let wrong = || {
                LaunchError::Usage(format!("{} is not UTF-8", armature_text::quoted(&word.to_string_lossy())))
            };
            word.to_str().map(str::to_string).ok_or_else(wrong)
        };
        // The program need not be found here, because modules that the script loads may add directories to `PATH`.
        if args.modules.is_empty() && !args.dry_run {
            let program =
                crate::detect::program(&text(&args.command[0])?, &crate::environment::search_path())?;
            // A missing launcher is not an error here, because nodes may have other launchers than this host. Only an ambiguous MPI library is an
            // error.
            if args.mpi.is_none()
                && let Err(error @ LaunchError::AmbiguousMpi(_)) =
                    crate::detect::mpi_of(&program, &crate::environment::Environment::survey(true))
            {
                return Err(error);
            }
        }
        Ok(Request {
            run,
            nodes: args.nodes,
            ranks: args.ranks,
            ranks_per_node: args.ranks_per_node,
            cores_per_rank: args.cores_per_rank,
            memory: args.mem_per_rank,
            time: args.time,
            partition: args.partition.clone(),
            account: args.account.clone(),
            elements: match args.array.as_deref().map(values::elements) {
                Some(Err(text)) => return usage(text),
                elements => elements.transpose().unwrap_or_default().unwrap_or_default(),
            },
            array: args.array.clone(),
            after: args.after.as_ref().map(job_of).transpose()?,
            requeue: args.requeue,
            warn,
            mpi: args.mpi.and_then(|mpi| Some(mpi.to_possible_value()?.get_name().to_string())),
            recover: args.recover,
            restarts: args.restarts,
            label: args.label,
            modules: args.modules.clone(),
            environment: args.environment.clone(),
            options: args.options.clone(),
            armature: text(&own_name().into_os_string())?,
            command: args.command.iter().map(text).collect::<Result<_, _>>()?,
        })
    }
}
