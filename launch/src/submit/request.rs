//! Request for a batch job: checked options, as plain data.

use std::ffi::OsString;

use clap::ValueEnum;

use super::{Submit, job_of, own_name, values};
use crate::error::LaunchError;
use crate::run_directory::end_reason::WARNING;

/// Default time between the warning and the time limit in seconds.
const WARN: u64 = 120;

/// Batch job to submit.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    /// Name of the run directory.
    pub(super) run: String,
    pub(super) nodes: Option<u32>,
    pub(super) ranks: Option<u32>,
    pub(super) ranks_per_node: Option<u32>,
    pub(super) cores_per_rank: u32,
    /// Memory of each rank in MiB.
    pub(super) memory: Option<u64>,
    /// Time limit in seconds.
    pub(super) time: Option<u64>,
    pub(super) partition: Option<String>,
    pub(super) account: Option<String>,
    pub(super) array: Option<String>,
    /// Numbers of the elements of the array.
    pub(super) elements: Vec<u32>,
    /// Number of the job after which this one starts.
    pub(super) after: Option<String>,
    pub(super) requeue: u32,
    /// Seconds between the warning and the time limit.
    pub(super) warn: Option<u64>,
    /// Value of `--mpi`.
    pub(super) mpi: Option<String>,
    pub(super) recover: bool,
    pub(super) restarts: u32,
    pub(super) label: bool,
    pub(super) modules: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) options: Vec<String>,
    /// Name or path of the command `armature`.
    pub(super) armature: String,
    /// Program and its arguments.
    pub(super) command: Vec<String>,
}

impl Request {
    /// Checks the options of a job whose run directory has the name `run`. `longest_stop` is the time in seconds that a stop of earlier runs took.
    pub(super) fn new(asked: &Submit, run: String, longest_stop: Option<u64>) -> Result<Self, LaunchError> {
        let usage = |text: String| Err(LaunchError::Usage(text));
        if asked.ranks.is_none() && asked.nodes.is_none() {
            return usage("the size of the job is missing: expected -n RANKS or -N NODES".into());
        }
        if let (Some(nodes), Some(per_node), Some(ranks)) = (asked.nodes, asked.ranks_per_node, asked.ranks)
            && u64::from(nodes) * u64::from(per_node) < u64::from(ranks)
        {
            return usage(format!("{ranks} ranks do not fit on {nodes} nodes with {per_node} ranks each"));
        }
        let default = longest_stop.map_or(WARN, |seconds| WARN.max(2 * seconds).min(WARNING));
        let warn = match (asked.warn, asked.time) {
            (Some(warn), Some(time)) if warn >= time => {
                return usage(format!("--warn {warn}s is not before the time limit of {time} s"));
            }
            (Some(warn), _) => Some(warn),
            (None, Some(time)) => Some(default.min(time / 2)).filter(|&warn| warn > 0),
            (None, None) => Some(default),
        };
        if asked.command.iter().any(|word| word == ":") {
            return Err(LaunchError::Colon);
        }
        let text = |word: &OsString| {
            let wrong = || {
                LaunchError::Usage(format!("{} is not UTF-8", armature_text::quoted(&word.to_string_lossy())))
            };
            word.to_str().map(str::to_string).ok_or_else(wrong)
        };
        // A module may bring the program.
        if asked.modules.is_empty() && !asked.dry_run {
            let program =
                crate::detect::program(&text(&asked.command[0])?, &crate::environment::search_path())?;
            // The launchers of the nodes may be others than those of this host, so that only an ambiguity counts.
            if asked.mpi.is_none()
                && let Err(error @ LaunchError::AmbiguousMpi(_)) =
                    crate::detect::mpi_of(&program, &crate::environment::Environment::survey(true))
            {
                return Err(error);
            }
        }
        Ok(Request {
            run,
            nodes: asked.nodes,
            ranks: asked.ranks,
            ranks_per_node: asked.ranks_per_node,
            cores_per_rank: asked.cores_per_rank,
            memory: asked.mem_per_rank,
            time: asked.time,
            partition: asked.partition.clone(),
            account: asked.account.clone(),
            elements: match asked.array.as_deref().map(values::elements) {
                Some(Err(text)) => return usage(text),
                elements => elements.transpose().unwrap_or_default().unwrap_or_default(),
            },
            array: asked.array.clone(),
            after: asked.after.as_ref().map(job_of).transpose()?,
            requeue: asked.requeue,
            warn,
            mpi: asked.mpi.and_then(|mpi| Some(mpi.to_possible_value()?.get_name().to_string())),
            recover: asked.recover,
            restarts: asked.restarts,
            label: asked.label,
            modules: asked.modules.clone(),
            environment: asked.environment.clone(),
            options: asked.options.clone(),
            armature: text(&own_name().into_os_string())?,
            command: asked.command.iter().map(text).collect::<Result<_, _>>()?,
        })
    }
}
