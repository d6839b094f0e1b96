//! Environment variables that commands do not inherit, because an MPI library or a batch system would take the commands for ranks.
//!
//! Settings of MPI libraries are removed as well. Launchers set many variables for their ranks that look like settings of a user
//! (`OMPI_MCA_ess`, `OMPI_MCA_pmix`), and another launcher does not work with them. Variables that a command needs can be set in its
//! request.

/// Prefixes of removed variables: those of Open MPI and its run-time systems, PMIx, PMI with Hydra, MPICH, MVAPICH,
/// Intel MPI and Cray's launcher, and the variables of `srun` about a rank's job step. Variables about the whole
/// Slurm job are kept, because commands may start a job step.
const REMOVED: [&str; 23] = [
    "OMPI_",
    "ORTE_",
    "OPAL_",
    "PRTE_",
    "PMIX_",
    "PMI_",
    "HYDI_",
    "HYDRA_",
    "MPI_LOCAL",
    "MPICH_",
    "MPIR_",
    "MV2_",
    "I_MPI_",
    "PALS_",
    "SLURM_STEP",
    "SLURM_SRUN_",
    "SLURM_LAUNCH_",
    "SLURM_PMI",
    "SLURM_MPI_TYPE",
    "SLURM_CPU_BIND",
    "SLURM_MEM_BIND",
    "SLURM_DISTRIBUTION",
    "ARMATURE_TASK_",
];

/// Names of removed variables: the number of a rank in its job step and the sizes of the step, which a job step
/// started by a command would take for its own; the variables that pegasus-mpi-cluster sets for a task; and names of
/// files that belong to one job.
const REMOVED_NAMES: [&str; 14] = [
    "ARMATURE_EVENTS",
    "ARMATURE_JOB_STATUS",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_GTIDS",
    "SLURM_TASK_PID",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_CPUS_PER_TASK",
    "PMC_TASK",
    "PMC_CPUS",
    "PMC_MEMORY",
    "PMC_RANK",
];

/// Prefixes of variables that commands inherit although they look like removed ones: the user's permission to run launchers as root also applies to
/// launchers that commands start.
const KEPT: [&str; 2] = ["OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"];

pub(crate) fn is_removed(name: &str) -> bool {
    let starts_with_one_of = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
    let removed = starts_with_one_of(&REMOVED) || REMOVED_NAMES.contains(&name);
    removed && !starts_with_one_of(&KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_identify_a_rank_are_removed() {
        let open_mpi =
            ["OMPI_COMM_WORLD_RANK", "OMPI_MCA_ess", "PMIX_RANK", "PMIX_SERVER_URI2", "PRTE_LAUNCHED"];
        let others = ["PMI_RANK", "PMI_FD", "HYDI_CONTROL_FD", "MPI_LOCALRANKID", "I_MPI_FABRICS"];
        let slurm = ["SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_CPU_BIND_TYPE", "SLURM_NTASKS"];
        let tasks = ["ARMATURE_TASK_MEMORY", "PMC_RANK"];
        for name in open_mpi.iter().chain(&others).chain(&slurm).chain(&tasks) {
            assert!(is_removed(name), "{name}");
        }
    }

    #[test]
    fn other_variables_are_kept() {
        let slurm = ["SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_SUBMIT_DIR"];
        let others = ["PATH", "OMPI", "OMP_NUM_THREADS", "LD_LIBRARY_PATH", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
        for name in slurm.iter().chain(&others) {
            assert!(!is_removed(name), "{name}");
        }
    }
}
