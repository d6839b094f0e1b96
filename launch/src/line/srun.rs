//! Slurm's `srun`, inside an allocation. It passes the environment on.

use super::{Bind, Needs, Word, words};
use crate::Mpi;

pub(super) fn options(needs: &Needs<'_>, mpi: Mpi) -> Vec<Word> {
    // How the ranks find each other: what the MPI library was built for.
    let wiring = match mpi {
        Mpi::OpenMpi => "--mpi=pmix",
        Mpi::Mpich => "--mpi=pmi2",
    };
    // By default srun lets the other ranks wait for ever when one has died.
    let mut line: Vec<Word> =
        words([wiring, "--kill-on-bad-exit=1", "-n", &needs.ranks.to_string()]).collect();
    if needs.shared {
        line.extend(words(["--overcommit"]));
    }
    match needs.binding() {
        Some(Bind::Core) => line.extend(words(["--cpu-bind=cores"])),
        Some(Bind::None) => line.extend(words(["--cpu-bind=none"])),
        _ => {}
    }
    line
}
