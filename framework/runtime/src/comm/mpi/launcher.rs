//! Detection of the launcher of this process from the environment. Pure functions.

/// Facts about the launcher that started this process, from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LauncherFacts {
    pub(crate) launcher: &'static str,
    pub(crate) size: Option<usize>,
    pub(crate) rank: Option<usize>,
}

pub(super) const OPEN_MPI: &str = "Open MPI's mpirun";
/// Name, in messages, of MPICH's `mpiexec` (Hydra), or of another launcher that uses PMI.
pub(super) const PMI: &str = "MPICH's mpiexec";
/// Name, in messages, of Slurm's `srun` with a PMI plug-in.
pub(super) const SRUN_PMI: &str = "srun --mpi";
/// Name, in messages, of Slurm's `srun` without a PMI plug-in.
pub(super) const SRUN: &str = "srun";
/// Name, in messages, of any other launcher with a PMIx server.
pub(super) const PMIX: &str = "a PMIx launcher";
pub(super) const SMPI: &str = "SimGrid's smpirun";

/// Returns the MPI launcher that has started this process, according to the environment (`lookup` of a variable) and to whether the process
/// is `simulated`. `None` means that the process was started without a launcher.
///
/// A launcher that was started inside the allocation of another launcher takes precedence: `mpirun` in a Slurm job is reported as `mpirun`.
pub(super) fn read(lookup: impl Fn(&str) -> Option<String>, simulated: bool) -> Option<LauncherFacts> {
    let number = |name: &str| lookup(name).and_then(|value| value.trim().parse::<usize>().ok());
    let facts = |launcher, size, rank| Some(LauncherFacts { launcher, size, rank });
    if simulated {
        return facts(SMPI, None, None);
    }
    let in_slurm_step = lookup("SLURM_STEP_ID").is_some() && lookup("SLURM_PROCID").is_some();
    // SLURM_NTASKS belongs to the job and is also set in batch scripts; the number of tasks of the job step is decisive.
    let step_size = number("SLURM_STEP_NUM_TASKS").or_else(|| number("SLURM_NTASKS"));
    if let Some(size) = number("OMPI_COMM_WORLD_SIZE") {
        return facts(OPEN_MPI, Some(size), number("OMPI_COMM_WORLD_RANK"));
    }
    if lookup("PMI_RANK").is_some() || lookup("PMI_SIZE").is_some() || lookup("PMI_FD").is_some() {
        let launcher = if in_slurm_step && lookup("MPI_LOCALNRANKS").is_none() { SRUN_PMI } else { PMI };
        return facts(launcher, number("PMI_SIZE"), number("PMI_RANK"));
    }
    if let Some(rank) = lookup("PMIX_RANK") {
        let rank = rank.trim().parse().ok();
        return match in_slurm_step {
            true => facts(SRUN_PMI, step_size, rank),
            false => facts(PMIX, None, rank),
        };
    }
    if lookup("MPI_LOCALNRANKS").is_some() {
        return facts(PMI, None, None);
    }
    // A Slurm step with one task does not count as a launcher, because it may be an interactive shell on a node (`srun --pty bash`).
    if in_slurm_step && step_size.is_some_and(|size| size > 1) {
        return facts(SRUN, step_size, number("SLURM_PROCID"));
    }
    None
}

/// Variables that are set if Open MPI's `mpirun` keeps the other ranks running when a rank ends. Open MPI 4 sets the first one for its option
/// `--enable-recovery`. Open MPI 5 sets none, so that `armature run --recover` sets the second one.
const RECOVERY: [&str; 2] = ["OMPI_MCA_orte_enable_recovery", "ARMATURE_RECOVERY"];

/// Returns true if the launcher keeps the other ranks running when a rank ends before the end of the job: Open MPI's `mpirun` with recovery
/// enabled, and `srun`. Call it before MPI is initialised, because MPI changes the environment.
pub(super) fn lets_ranks_end(lookup: impl Fn(&str) -> Option<String>, simulated: bool) -> bool {
    let recovers = |value: String| matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes");
    match read(&lookup, simulated) {
        Some(facts) if facts.launcher == OPEN_MPI => {
            RECOVERY.iter().any(|name| lookup(name).is_some_and(recovers))
        }
        Some(facts) => facts.launcher == SRUN || facts.launcher == SRUN_PMI,
        None => false,
    }
}

/// Returns an error message for the user if the launcher has started another number of ranks than the `size` of MPI_COMM_WORLD; `library` is the
/// first line of the MPI library's version text.
pub(super) fn broken_promise(facts: &LauncherFacts, size: usize, library: &str) -> Option<String> {
    let promised = facts.size.filter(|&promised| promised > 1 && size == 1)?;
    // Only the text of `library` before the first comma is shown to the user: the rest of Open MPI's line names its packager.
    let library = library.split(',').next().unwrap_or(library);
    let remedy = if facts.launcher == SRUN || facts.launcher == SRUN_PMI {
        if library.contains("Open MPI") {
            "start it with `srun --mpi=pmix`, or with mpirun inside the allocation"
        } else {
            "start it with `srun --mpi=pmi2`, or with mpiexec inside the allocation"
        }
    } else if library.contains("Open MPI") {
        "start it with Open MPI's own launcher (on Debian: mpirun.openmpi)"
    } else if library.contains("MPICH") {
        "start it with MPICH's own launcher (on Debian: mpirun.mpich)"
    } else {
        "start it with that library's own launcher"
    };
    Some(format!(
        "started as one of {promised} ranks by {}, but the MPI library that this program is linked to ({library}) \
         sees one rank only: {remedy}",
        facts.launcher
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_that_tolerate_exited_ranks_are_recognised() {
        let lets = |variables: &[(&str, &str)]| {
            let find = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
            lets_ranks_end(find, false)
        };
        let (size, recovery) = (("OMPI_COMM_WORLD_SIZE", "3"), "OMPI_MCA_orte_enable_recovery");
        assert!(lets(&[size, (recovery, "1")]) && lets(&[size, (recovery, "true")]));
        assert!(lets(&[size, ("ARMATURE_RECOVERY", "1")]) && !lets(&[("ARMATURE_RECOVERY", "1")]));
        assert!(
            !lets(&[size]) && !lets(&[size, (recovery, "0")]) && !lets(&[("PMI_RANK", "0")]) && !lets(&[])
        );
        assert!(lets(&[("SLURM_STEP_ID", "0"), ("SLURM_PROCID", "1"), ("PMIX_RANK", "1")]));
    }

    fn facts(env: &[(&str, &str)]) -> Option<LauncherFacts> {
        read(|name| env.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()), false)
    }

    #[track_caller]
    fn launched(env: &[(&str, &str)], launcher: &str, size: Option<usize>, rank: Option<usize>) {
        let found = facts(env).expect("launched");
        assert_eq!((found.launcher, found.size, found.rank), (launcher, size, rank));
    }

    const STEP: [(&str, &str); 4] =
        [("SLURM_STEP_ID", "0"), ("SLURM_PROCID", "2"), ("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "4")];

    #[test]
    fn no_launcher_without_mpirun_or_job_step() {
        assert_eq!(facts(&[]), None);
        assert_eq!(facts(&[("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")]), None);
        assert_eq!(
            facts(&[("SLURM_STEP_ID", "0"), ("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")]),
            None
        );
    }

    #[test]
    fn each_launcher_is_recognised() {
        launched(&[("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "1")], OPEN_MPI, Some(4), Some(1));
        launched(&[("PMI_SIZE", "3"), ("PMI_RANK", "0")], PMI, Some(3), Some(0));
        launched(&[("MPI_LOCALNRANKS", "3")], PMI, None, None);
        launched(&[("PMIX_RANK", "1")], PMIX, None, Some(1));
        launched(&STEP, SRUN, Some(4), Some(2));
        let simulated = read(|_| None, true).expect("launched");
        assert_eq!(simulated.launcher, SMPI);
    }

    #[test]
    fn inner_launcher_takes_precedence_over_slurm() {
        let with = |more: &[(&'static str, &'static str)]| [&STEP[..], more].concat();
        launched(
            &with(&[("OMPI_COMM_WORLD_SIZE", "6"), ("OMPI_COMM_WORLD_RANK", "5"), ("PMIX_RANK", "5")]),
            OPEN_MPI,
            Some(6),
            Some(5),
        );
        launched(
            &with(&[("PMI_SIZE", "6"), ("PMI_RANK", "5"), ("MPI_LOCALNRANKS", "3")]),
            PMI,
            Some(6),
            Some(5),
        );
        launched(&with(&[("PMIX_RANK", "2")]), SRUN_PMI, Some(4), Some(2));
        launched(&with(&[("PMI_RANK", "2"), ("PMI_SIZE", "4")]), SRUN_PMI, Some(4), Some(2));
    }

    #[test]
    fn launcher_mismatch_names_launcher_library_and_remedy() {
        let mpich = facts(&[("PMI_SIZE", "4"), ("PMI_RANK", "0")]).expect("launched");
        let text = broken_promise(&mpich, 1, "Open MPI v4.1.4").expect("broken");
        assert!(text.contains("one of 4 ranks by MPICH's mpiexec"), "{text}");
        assert!(text.contains("mpirun.openmpi"), "{text}");
        assert_eq!(broken_promise(&mpich, 4, "MPICH Version: 4.0.2"), None);
        let single = facts(&[("PMI_SIZE", "1"), ("PMI_RANK", "0")]).expect("launched");
        assert_eq!(broken_promise(&single, 1, "Open MPI v4.1.4"), None);
        let srun = facts(&STEP).expect("launched");
        assert!(broken_promise(&srun, 1, "Open MPI v4.1.4").expect("broken").contains("--mpi=pmix"));
        assert!(broken_promise(&srun, 1, "MPICH Version: 4.0.2").expect("broken").contains("--mpi=pmi2"));
    }
}
