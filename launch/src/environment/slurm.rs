//! Remaining nodes of a Slurm allocation after a node has failed.

/// New values of environment variables from which a launcher learns the remaining nodes. `None` removes a variable.
pub(crate) type Overrides = Vec<(&'static str, Option<String>)>;

/// Parses a list such as `2(x3),1` in `SLURM_TASKS_PER_NODE` (three nodes with 2 tasks, one with 1) into pairs of tasks and nodes.
fn per_node(list: &str) -> Option<Vec<(usize, usize)>> {
    let part = |part: &str| match part.split_once("(x") {
        None => Some((part.parse().ok()?, 1)),
        Some((number, nodes)) => Some((number.parse().ok()?, nodes.strip_suffix(')')?.parse().ok()?)),
    };
    list.split(',').map(part).collect()
}

pub(super) fn sum(list: &str) -> Option<usize> {
    let add = |sum: usize, (number, nodes): (usize, usize)| sum.checked_add(number.checked_mul(nodes)?);
    per_node(list)?.into_iter().try_fold(0, add)
}

/// Nodes that `scontrol` lists for a batch job at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allocation {
    nodes: usize,
    node_list: String,
}

impl Allocation {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let field = |name: &str| {
            let value = |word: &str| word.strip_prefix(name)?.strip_prefix('=').map(str::to_string);
            line.split_whitespace().find_map(value)
        };
        let nodes = field("NumNodes")?;
        // `NumNodes` is a range, such as `1-4`, while a batch job waits for nodes.
        let nodes = nodes.split('-').next()?.parse().ok().filter(|&nodes| nodes > 0)?;
        let node_list = field("NodeList").filter(|list| list != "(null)")?;
        Some(Allocation { nodes, node_list })
    }

    /// New environment variables for the remaining nodes of an allocation; `None` if no node was lost. Each remaining node keeps its number of tasks.
    /// If nodes had different numbers of tasks, each gets the average, rounded down.
    pub(super) fn overrides(&self, get: impl Fn(&str) -> Option<String>) -> Option<Overrides> {
        let before: usize =
            get("SLURM_JOB_NUM_NODES").or_else(|| get("SLURM_NNODES"))?.trim().parse().ok()?;
        if self.nodes >= before {
            return None;
        }
        let left = |number: usize| (number / before).max(1) * self.nodes;
        let list = |name: &str| {
            let all = sum(&get(name)?)?;
            Some(format!("{}(x{})", left(all) / self.nodes, self.nodes))
        };
        let tasks = |name: &str| Some(left(get(name)?.trim().parse().ok()?).to_string());
        let (nodes, node_list) = (Some(self.nodes.to_string()), Some(self.node_list.clone()));
        Some(vec![
            ("SLURM_JOB_NUM_NODES", nodes.clone()),
            ("SLURM_NNODES", nodes),
            ("SLURM_JOB_NODELIST", node_list.clone()),
            ("SLURM_NODELIST", node_list),
            ("SLURM_NTASKS", tasks("SLURM_NTASKS")),
            ("SLURM_NPROCS", tasks("SLURM_NPROCS")),
            ("SLURM_TASKS_PER_NODE", list("SLURM_TASKS_PER_NODE")),
            ("SLURM_JOB_CPUS_PER_NODE", list("SLURM_JOB_CPUS_PER_NODE")),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_length_encoded_task_counts_are_summed() {
        assert_eq!(sum("4"), Some(4));
        assert_eq!(sum("2(x3),1"), Some(7));
        assert_eq!(sum(""), None);
        assert_eq!(sum("2(x3"), None);
        assert_eq!(sum("9223372036854775807(x3)"), None);
        assert_eq!(sum("18446744073709551615,1"), None);
    }

    /// A batch job as `scontrol -o show job` of Slurm 22.05 describes it; most fields are left out.
    const LINE: &str = "JobId=7 JobName=nk UserId=root(0) JobState=RUNNING Reason=None Requeue=1 Restarts=0 BatchFlag=1 \
        RunTime=00:01:02 TimeLimit=00:05:00 Partition=all AllocNode:Sid=n1:99 ReqNodeList=(null) ExcNodeList=(null) \
        NodeList=n[1,3] BatchHost=n1 NumNodes=2 NumCPUs=2 NumTasks=3 CPUs/Task=1 ReqB:S:C:T=0:0:*:*";

    #[test]
    fn remaining_slurm_allocation_replaces_stale_variables() {
        let left = Allocation::parse(LINE).unwrap();
        assert_eq!(left, Allocation { nodes: 2, node_list: "n[1,3]".into() });
        let stale = [
            ("SLURM_JOB_NUM_NODES", "3"),
            ("SLURM_NNODES", "3"),
            ("SLURM_JOB_NODELIST", "n[1-3]"),
            ("SLURM_NTASKS", "6"),
            ("SLURM_TASKS_PER_NODE", "2(x3)"),
            ("SLURM_JOB_CPUS_PER_NODE", "4,2,1"),
        ];
        let get = |name: &str| stale.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_string());
        let overrides = left.overrides(get).unwrap();
        let of = |name: &str| overrides.iter().find(|(n, _)| *n == name).unwrap().1.as_deref();
        assert_eq!([of("SLURM_JOB_NUM_NODES"), of("SLURM_NNODES")], [Some("2"); 2]);
        assert_eq!([of("SLURM_JOB_NODELIST"), of("SLURM_NODELIST")], [Some("n[1,3]"); 2]);
        assert_eq!((of("SLURM_NTASKS"), of("SLURM_NPROCS")), (Some("4"), None));
        assert_eq!(
            (of("SLURM_TASKS_PER_NODE"), of("SLURM_JOB_CPUS_PER_NODE")),
            (Some("2(x2)"), Some("2(x2)"))
        );
        let whole = Allocation { nodes: 3, node_list: "n[1-3]".into() };
        assert_eq!(whole.overrides(get), None);
    }

    #[test]
    fn no_slurm_allocation_is_parsed_without_a_running_job() {
        for line in [
            "",
            "slurm_load_jobs error: Invalid job id specified",
            "NumNodes=2-2 NodeList=(null)",
            "NodeList=n1 NumNodes=0",
        ] {
            assert_eq!(Allocation::parse(line), None, "{line}");
        }
    }
}
