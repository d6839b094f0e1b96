//! Slurm's `srun`, inside an allocation. It passes the environment on.

use super::{Bind, Needs, Word, words};
use crate::Mpi;
use crate::environment::{Environment, FENCE};

/// With Slurm's own choice (a tree where ranks wait for each other without data) some ranks were seen to be through
/// `MPI_Init`, and to write, while others were still on their way there and crashed: Slurm 22.05 with Open MPI 4.1.4 on
/// busy nodes, 22 of 240 starts. With a ring it was none.
pub(super) fn variables(mpi: Mpi, environment: &Environment) -> Option<(&'static str, &'static str)> {
    (mpi == Mpi::OpenMpi && !environment.fence).then_some((FENCE, "ring"))
}

pub(super) fn options(needs: &Needs<'_>, mpi: Mpi) -> Vec<Word> {
    // How the ranks find each other: what the MPI library was built for.
    let wiring = match mpi {
        Mpi::OpenMpi => "--mpi=pmix",
        Mpi::Mpich => "--mpi=pmi2",
    };
    // By default srun lets the other ranks go on when one has died, and those of most programs wait for it for ever.
    let death = if needs.recover { "--kill-on-bad-exit=0" } else { "--kill-on-bad-exit=1" };
    let mut line: Vec<Word> = words([wiring, death]).collect();
    if needs.recover {
        // Otherwise srun ends the ranks of all nodes when one node fails. The allocation survives only with `#SBATCH --no-kill`.
        line.extend(words(["--no-kill"]));
    }
    line.extend(words(["-n", &needs.ranks.to_string()]));
    if needs.shared {
        line.extend(words(["--overcommit"]));
    } else if let Some(cores) = needs.cores_per_task {
        // Since Slurm 22.05 a step does not inherit what its job has.
        line.extend(words([&format!("--cpus-per-task={cores}")]));
    }
    match needs.binding() {
        Some(Bind::Core) => line.extend(words(["--cpu-bind=cores"])),
        Some(Bind::None) => line.extend(words(["--cpu-bind=none"])),
        _ => {}
    }
    line
}
