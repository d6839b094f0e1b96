//! Command line of `mpirun` of MPICH (Hydra) and of Intel MPI. This launcher passes the environment to the ranks, accepts more ranks than slots, and
//! runs as root.

use super::{Bind, Needs, Word, words};
use crate::environment::{Environment, PLUGIN};

/// Variables that switch the binding of ranks of Intel MPI to cores on or off. Intel MPI's launcher ignores `-bind-to`. Its default gives each rank
/// an equal share of the cores.
const INTEL_CORE: (&str, &str) = ("I_MPI_PIN_DOMAIN", "core");
const INTEL_NONE: (&str, &str) = ("I_MPI_PIN", "off");

/// Environment variable that makes `srun` start Hydra's proxies as ordinary processes. With the plug-in pmix, the default of many sites, ranks
/// inherit variables of PMIx besides those of Hydra, and MPICH 5 aborts.
const PROXIES: (&str, &str) = (PLUGIN, "none");

/// Shell command that starts a rank with an empty input. Without it, rank 0 reads a pipe from the launcher, and a read on another host never returns:
/// the launcher has no input whose end it could forward, because it fails if it forwards the end at the moment at which the rank ends.
const WITHOUT_INPUT: [&str; 3] = ["/bin/sh", "-c", "exec \"$0\" \"$@\" </dev/null"];

pub(super) fn variables(
    needs: &Needs<'_>,
    environment: &Environment,
    in_slurm: bool,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let binding = match needs.binding().filter(|_| environment.has_intel_mpi) {
        Some(Bind::Core) => Some(INTEL_CORE),
        Some(Bind::None) => Some(INTEL_NONE),
        _ => None,
    };
    let has_plain_proxies = in_slurm && !environment.plugin;
    [binding, has_plain_proxies.then_some(PROXIES)].into_iter().flatten()
}

pub(super) fn options(needs: &Needs<'_>, environment: &Environment) -> Vec<Word> {
    let mut line: Vec<Word> = words(["-n", &needs.ranks.to_string()]).collect();
    if needs.hosts.is_some() {
        line.extend(words(["-f"]));
        line.push(Word::Hostfile);
    }
    match needs.binding().filter(|_| !environment.has_intel_mpi) {
        Some(Bind::Core) => line.extend(words(["-bind-to", "core"])),
        Some(Bind::None) => line.extend(words(["-bind-to", "none"])),
        _ => {}
    }
    if needs.label {
        line.extend(words(["-prepend-rank"]));
    }
    if !needs.reads_stdin {
        line.extend(words(WITHOUT_INPUT));
    }
    line
}
