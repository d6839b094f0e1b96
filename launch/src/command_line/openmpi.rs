//! Command line of Open MPI's `mpirun`.

use super::{Bind, Needs, Word, words};
use crate::environment::Environment;
use crate::hostfile::Hostfile;

/// Variable that tells ranks that the launcher lets them continue when another rank ends. Open MPI 4 sets one of its own for its option, Open
/// MPI 5 does not.
const RECOVERY: &str = "ARMATURE_RECOVERY";

/// Environment variable with the path of the job status, which Open MPI must forward to the ranks.
const JOB_STATUS: &str = "ARMATURE_JOB_STATUS";

/// Variables that make Open MPI keep full host names. By default it cuts host names at the first dot, and takes `node.1.site` and
/// `node.2.site` for one host. The first variable is for Open MPI 4, the second for Open MPI 5.
const FULL_NAMES: [(&str, &str); 2] =
    [("OMPI_MCA_orte_keep_fqdn_hostnames", "1"), ("PRTE_MCA_prte_keep_fqdn_hostnames", "1")];

pub(super) fn variables(
    needs: &Needs<'_>,
    environment: &Environment,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let has_full_names = needs.hosts.is_some_and(Hostfile::needs_full_names);
    let tells_recovery = needs.recover && environment.has_prrte;
    let full_names = FULL_NAMES.into_iter().filter(move |_| has_full_names);
    full_names.chain(tells_recovery.then_some((RECOVERY, "1")))
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
    match (needs.shared, environment.has_prrte) {
        (true, false) => line.extend(words(["--oversubscribe"])),
        (true, true) => line.extend(words(["--map-by", ":OVERSUBSCRIBE"])),
        (false, _) => {}
    }
    match needs.binding() {
        Some(Bind::Core) => line.extend(words(["--bind-to", "core"])),
        Some(Bind::None) => line.extend(words(["--bind-to", "none"])),
        _ => {}
    }
    if needs.recover {
        line.extend(words(["--enable-recovery"]));
    }
    if environment.has_prrte && !needs.reads_stdin {
        // The default is a pipe to rank 0 whose end Open MPI 5.0 does not close when the launcher has no input, so that a read never returns.
        line.extend(words(["--stdin", "none"]));
    }
    match (needs.label, environment.has_prrte) {
        (true, false) => line.extend(words(["--tag-output"])),
        // The label of `--tag-output` ends with a space here, which the label of Open MPI 4 does not have.
        (true, true) => line.extend(words(["--output", "rank"])),
        (false, _) => {}
    }
    // The variables that the ranks need are named on the command line, because Open MPI passes only such variables to ranks on other hosts.
    let ours = [(JOB_STATUS, needs.job_status), (RECOVERY, needs.recover && environment.has_prrte)];
    let ours =
        ours.into_iter().filter(|&(name, is_set)| is_set && !environment.variables.iter().any(|v| v == name));
    for name in environment.variables.iter().map(String::as_str).chain(ours.map(|(name, _)| name)) {
        line.extend(words(["-x", name]));
    }
    line
}
