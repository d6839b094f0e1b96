//! Command line of Slurm's `srun`, inside an allocation, which passes the environment to the ranks.

use super::{Bind, Needs, Word, words};
use crate::Mpi;
use crate::environment::{Environment, FENCE};

/// Returns the variable that makes Slurm's PMIx synchronise ranks in a ring. With Slurm's default (a tree for a fence without data), some
/// ranks had left `MPI_Init` and were writing while others were still in it and crashed: in 22 of 240 starts with Slurm 22.05 and Open MPI
/// 4.1.4 on busy nodes. With a ring, no start failed.
pub(super) fn variables(mpi: Mpi, environment: &Environment) -> Option<(&'static str, &'static str)> {
    (mpi == Mpi::OpenMpi && !environment.fence).then_some((FENCE, "ring"))
}

pub(super) fn options(needs: &Needs<'_>, mpi: Mpi) -> Vec<Word> {
    // PMI version by which the ranks connect, which depends on the MPI library.
    let wiring = match mpi {
        Mpi::OpenMpi => "--mpi=pmix",
        Mpi::Mpich => "--mpi=pmi2",
    };
    // By default, srun lets the other ranks continue after one has died, and the ranks of most programs then wait for it forever.
    let death = if needs.recover { "--kill-on-bad-exit=0" } else { "--kill-on-bad-exit=1" };
    let mut line: Vec<Word> = words([wiring, death]).collect();
    if needs.recover {
        // Without `--no-kill`, srun ends the ranks of all nodes when one node fails. The allocation itself survives only with `#SBATCH
        // --no-kill`.
        line.extend(words(["--no-kill"]));
    }
    line.extend(words(["-n", &needs.ranks.to_string()]));
    if needs.shared {
        line.extend(words(["--overcommit"]));
    } else if let Some(cores) = needs.cores_per_task {
        // The number of cores per task is passed to srun, because since Slurm 22.05 a job step does not inherit it from its job.
        line.extend(words([&format!("--cpus-per-task={cores}")]));
    }
    match needs.binding() {
        Some(Bind::Core) => line.extend(words(["--cpu-bind=cores"])),
        Some(Bind::None) => line.extend(words(["--cpu-bind=none"])),
        _ => {}
    }
    if needs.label {
        line.extend(words(["--label"]));
    }
    line
}
