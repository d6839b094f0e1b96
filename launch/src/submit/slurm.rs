//! Directives for Slurm in a job script.

use super::request::Request;
use super::script::Directive;
use super::values::clock;

pub(super) fn directives(request: &Request) -> Vec<Directive> {
    let mut lines: Vec<Directive> = Vec::new();
    let mut add = |comment: Option<&str>, text: String| lines.push((comment.map(str::to_string), text));
    add(None, format!("--job-name={}", request.run));
    let number = |name: &str, value: Option<u32>| value.map(|value| format!("--{name}={value}"));
    let cores = Some(request.cores_per_rank).filter(|&cores| cores > 1);
    let sizes = [
        number("nodes", request.nodes),
        number("ntasks", request.ranks),
        number("ntasks-per-node", request.ranks_per_node),
        number("cpus-per-task", cores),
    ];
    sizes.into_iter().flatten().for_each(|text| add(None, text));
    if let Some(memory) = request.memory {
        let per_core = memory.div_ceil(u64::from(request.cores_per_rank));
        add(None, format!("--mem-per-cpu={per_core}M"));
    }
    let words = [
        ("time", request.time.map(clock)),
        ("partition", request.partition.clone()),
        ("account", request.account.clone()),
        ("array", request.array.clone()),
        ("dependency", request.after.as_ref().map(|job| format!("afterok:{job}"))),
    ];
    for (name, value) in words {
        if let Some(value) = value {
            add(None, format!("--{name}={value}"));
        }
    }
    let element = if request.array.is_some() { ".%a-1" } else { "" };
    add(
        Some("Output of all attempts. Without append, a requeue would empty the file."),
        format!("--output=armature-runs/{}{element}/log", request.run),
    );
    add(None, "--open-mode=append".into());
    add(Some("Slurm starts the job again after a preemption or the loss of a node."), "--requeue".into());
    if let Some(warn) = request.warn {
        add(
            Some("A checkpoint is written this many seconds before the time limit."),
            format!("--signal=B:USR1@{warn}"),
        );
    }
    if request.recover {
        add(Some("The job continues on the other nodes when one fails."), "--no-kill".into());
    }
    request.options.iter().for_each(|option| add(None, option.clone()));
    lines
}
