//! Slurm's `srun`, inside an allocation. It passes the environment on.

use super::{Bind, Needs, Word, words};
use crate::Mpi;

pub(super) fn options(needs: &Needs<'_>, mpi: Mpi) -> Vec<Word> {
    // How the ranks find each other: what the MPI library was built for.
    let wiring = match mpi {
        Mpi::OpenMpi => "--mpi=pmix",
        Mpi::Mpich => "--mpi=pmi2",
    };
    // By default srun lets the other ranks go on when one has died, and those of most programs wait for it for ever.
    let death = if needs.recover { "--kill-on-bad-exit=0" } else { "--kill-on-bad-exit=1" };
    let mut line: Vec<Word> = words([wiring, death, "-n", &needs.ranks.to_string()]).collect();
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
