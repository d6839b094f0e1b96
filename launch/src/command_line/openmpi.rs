//! Command line of Open MPI's `mpirun`.

use super::{Bind, Needs, Word, words};
use crate::environment::Environment;
use crate::hostfile::Hostfile;

/// Environment variable that tells the ranks that the launcher lets them continue after the death of a rank. Open MPI 4 sets one of its own for this,
/// Open MPI 5 does not.
const RECOVERY: &str = "ARMATURE_RECOVERY";

/// Environment variable with the path of the file to which rank 0 writes the result of the job. Open MPI must forward it to the ranks.
const JOB_STATUS: &str = "ARMATURE_JOB_STATUS";

/// Variables (of Open MPI 4 and of Open MPI 5) that keep full host names. By default, Open MPI cuts names at the first dot, and takes `node.1.site`
/// and `node.2.site` for one host.
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
        // By default, rank 0 gets a pipe that Open MPI 5.0 does not close when the launcher has no input, so that a read would never return.
        line.extend(words(["--stdin", "none"]));
    }
    match (needs.label, environment.has_prrte) {
        (true, false) => line.extend(words(["--tag-output"])),
        // `--tag-output` adds a space after the label in Open MPI 5, which Open MPI 4 does not.
        (true, true) => line.extend(words(["--output", "rank"])),
        (false, _) => {}
    }
    // Open MPI passes a variable to ranks on other hosts only if the command line names it.
    let ours = [(JOB_STATUS, needs.job_status), (RECOVERY, needs.recover && environment.has_prrte)];
    let ours =
        ours.into_iter().filter(|&(name, is_set)| is_set && !environment.variables.iter().any(|v| v == name));
    for name in environment.variables.iter().map(String::as_str).chain(ours.map(|(name, _)| name)) {
        line.extend(words(["-x", name]));
    }
    line
}
