//! Directives for PBS in a job script, which were not tested on a PBS system.

use super::request::Request;
use super::script::Directive;
use super::values::clock;

pub(super) fn directives(request: &Request) -> Vec<Directive> {
    let mut lines: Vec<Directive> = Vec::new();
    let mut add = |comment: Option<&str>, text: String| lines.push((comment.map(str::to_string), text));
    add(None, format!("-N {}", request.run));
    // Without a number of ranks per node, each chunk (PBS's word for a set of resources on one node) has one rank.
    let per_node =
        request.ranks_per_node.or_else(|| Some(request.ranks?.div_ceil(request.nodes?))).unwrap_or(1);
    let chunks = request.nodes.unwrap_or_else(|| request.ranks.unwrap_or(1).div_ceil(per_node));
    let cores = u64::from(per_node) * u64::from(request.cores_per_rank);
    let memory =
        request.memory.map(|memory| format!(":mem={}mb", memory * u64::from(per_node))).unwrap_or_default();
    add(None, format!("-l select={chunks}:ncpus={cores}:mpiprocs={per_node}{memory}"));
    let words = [
        ("-l walltime=", request.time.map(clock)),
        ("-q ", request.partition.clone()),
        ("-A ", request.account.clone()),
        ("-J ", request.array.clone()),
        ("-W depend=afterok:", request.after.clone()),
    ];
    for (name, value) in words {
        if let Some(value) = value {
            add(None, format!("{name}{value}"));
        }
    }
    add(None, "-j oe".into());
    add(Some("PBS may start the job again after the loss of a node."), "-r y".into());
    request.options.iter().for_each(|option| add(None, option.clone()));
    lines
}
