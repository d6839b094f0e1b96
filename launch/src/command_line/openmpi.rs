//! Command line of Open MPI's `mpirun`.

use super::{Bind, Needs, Word, words};
use crate::environment::Environment;
use crate::hostfile::Hostfile;

/// Environment variable with the path of the job status, which Open MPI must forward to the ranks.
const JOB_STATUS: &str = "ARMATURE_JOB_STATUS";

/// Variables that make Open MPI keep full host names. By default it cuts host names at the first dot, and takes `node.1.site` and
/// `node.2.site` for one host. The first variable is for Open MPI 4, the second for Open MPI 5.
const FULL_NAMES: [(&str, &str); 2] =
    [("OMPI_MCA_orte_keep_fqdn_hostnames", "1"), ("PRTE_MCA_prte_keep_fqdn_hostnames", "1")];

pub(super) fn variables(hosts: Option<&Hostfile>) -> impl Iterator<Item = (&'static str, &'static str)> {
    let needed = hosts.is_some_and(Hostfile::needs_full_names);
    FULL_NAMES.into_iter().filter(move |_| needed)
}

pub(super) fn options(needs: &Needs<'_>, environment: &Environment) -> Vec<Word> {
    let mut line = Vec::new();
    if environment.root {
        line.extend(words(["--allow-run-as-root"]));
    }
    line.extend(words(["-n", &needs.ranks.to_string()]));
    if needs.hosts.is_some() {
        line.extend(words(["--hostfile"]));
        line.push(Word::Hostfile);
    }
    if needs.shared {
        line.extend(words(["--oversubscribe"]));
    }
    match needs.binding() {
        Some(Bind::Core) => line.extend(words(["--bind-to", "core"])),
        Some(Bind::None) => line.extend(words(["--bind-to", "none"])),
        _ => {}
    }
    if needs.recover {
        line.extend(words(["--enable-recovery"]));
    }
    if needs.label {
        line.extend(words(["--tag-output"]));
    }
    // The variables that the ranks need are named on the command line, because Open MPI passes only such variables to ranks on other hosts.
    let ours =
        Some(JOB_STATUS).filter(|&name| needs.job_status && !environment.variables.iter().any(|v| v == name));
    for name in environment.variables.iter().map(String::as_str).chain(ours) {
        line.extend(words(["-x", name]));
    }
    line
}
