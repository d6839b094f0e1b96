//! Directives for Grid Engine in a job script, which were not tested on a Grid Engine system.

use super::request::Request;
use super::script::Directive;
use super::values::clock;

pub(super) fn directives(request: &Request) -> Vec<Directive> {
    let mut lines: Vec<Directive> = Vec::new();
    let mut add = |comment: Option<&str>, text: String| lines.push((comment.map(str::to_string), text));
    add(None, format!("-N {}", request.run));
    add(Some("Start in the directory of the submission."), "-cwd".into());
    let ranks = request.ranks.map(u64::from).unwrap_or_else(|| {
        u64::from(request.nodes.unwrap_or(1)) * u64::from(request.ranks_per_node.unwrap_or(1))
    });
    let slots = ranks * u64::from(request.cores_per_rank);
    add(
        Some("The parallel environment has another name at many sites: qconf -spl lists them."),
        format!("-pe mpi {slots}"),
    );
    let per_slot =
        request.memory.map(|memory| format!("{}M", memory.div_ceil(u64::from(request.cores_per_rank))));
    let (array, most) = match &request.array {
        Some(array) => {
            (array.split('%').next().map(str::to_string), array.split('%').nth(1).map(str::to_string))
        }
        None => (None, None),
    };
    let words = [
        ("-l h_vmem=", per_slot),
        ("-l h_rt=", request.time.map(clock)),
        ("-q ", request.partition.clone()),
        ("-P ", request.account.clone()),
        ("-t ", array),
        ("-tc ", most),
        ("-hold_jid ", request.after.clone()),
    ];
    for (name, value) in words {
        if let Some(value) = value {
            add(None, format!("{name}{value}"));
        }
    }
    add(None, "-j y".into());
    add(Some("SGE may start the job again after the loss of a node."), "-r y".into());
    request.options.iter().for_each(|option| add(None, option.clone()));
    lines
}
