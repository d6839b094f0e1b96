//! Command line of Slurm's `srun` inside an allocation. `srun` passes the environment to the ranks.

use super::{Bind, Needs, Word, words};
use crate::Mpi;
use crate::environment::{Environment, FENCE};

/// Variable that makes Slurm's PMIx synchronise ranks in a ring. With Slurm's default (a tree for a fence without data), some ranks had left
/// `MPI_Init` and were writing while others were still in it and crashed: in 22 of 240 starts with Slurm 22.05 and Open MPI 4.1.4 on busy nodes.
/// With a ring, no start failed.
const RING: (&str, &str) = (FENCE, "ring");

/// Environment variable that tells MPICH to use the protocol of Slurm's plug-in `pmi2`. Without it, MPICH 5 aborts inside a step of the plug-in
/// `pmix`, whose variables the ranks inherit.
const PROTOCOL: (&str, &str) = ("MPIR_CVAR_PMI_VERSION", "1");

pub(super) fn variables(mpi: Mpi, environment: &Environment) -> Option<(&'static str, &'static str)> {
    match mpi {
        Mpi::OpenMpi => (!environment.fence).then_some(RING),
        Mpi::Mpich => environment.step.is_some().then_some(PROTOCOL),
    }
}

pub(super) fn options(needs: &Needs<'_>, mpi: Mpi, environment: &Environment) -> Vec<Word> {
    let wiring = match mpi {
        Mpi::OpenMpi => "--mpi=pmix",
        Mpi::Mpich => "--mpi=pmi2",
    };
    // By default, srun lets the other ranks continue after the death of one, and the ranks of most programs then wait for it forever.
    let death = if needs.recover { "--kill-on-bad-exit=0" } else { "--kill-on-bad-exit=1" };
    let mut line: Vec<Word> = words([wiring, death]).collect();
    if needs.recover {
        // Without `--no-kill`, srun ends the ranks of all nodes when one node fails. (The allocation itself survives only with `#SBATCH --no-kill`.)
        line.extend(words(["--no-kill"]));
    }
    if environment.step.is_some() {
        // Without `--overlap`, the new ranks would wait for the cores of the step in which this process runs.
        line.extend(words(["--overlap"]));
    }
    line.extend(words(["-n", &needs.ranks.to_string()]));
    if needs.shared {
        line.extend(words(["--overcommit"]));
    } else if let Some(cores) = needs.cores_per_task {
        // Since Slurm 22.05, a step does not inherit the number of cores per task from its job.
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
