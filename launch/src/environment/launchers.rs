//! Search for installed launchers, and detection of the MPI to which a plain `mpirun` belongs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Mpi;

#[derive(Debug, Default)]
pub(super) struct Launchers {
    pub(super) openmpi: Option<PathBuf>,
    pub(super) mpich: Option<PathBuf>,
    pub(super) srun: Option<PathBuf>,
}

/// Searches for launchers in the directories of `path`. The names of Debian's launchers, such as `mpirun.mpich`, identify their MPI. The MPI of a
/// plain `mpirun`, which a module of an HPC site provides, is identified by the target of its link or by the version that it prints. A plain `mpirun`
/// takes precedence, because a user who has loaded a module wants that one.
pub(super) fn find(path: &[PathBuf]) -> Launchers {
    let named = |name: &str| path.iter().map(|dir| dir.join(name)).find(|file| file.is_file());
    let mut found = Launchers { srun: named("srun"), ..Launchers::default() };
    if let Some(plain) = named("mpirun").or_else(|| named("mpiexec")) {
        match by_file(&plain).or_else(|| by_version(&version(&plain))) {
            Some(Mpi::OpenMpi) => found.openmpi = Some(plain),
            Some(Mpi::Mpich) => found.mpich = Some(plain),
            None => {}
        }
    }
    found.openmpi = found.openmpi.or_else(|| named("mpirun.openmpi"));
    found.mpich = found.mpich.or_else(|| named("mpirun.mpich")).or_else(|| named("mpiexec.hydra"));
    found
}

fn by_file(launcher: &Path) -> Option<Mpi> {
    let file = launcher.canonicalize().ok()?;
    match file.file_name()?.to_str()? {
        "orterun" | "prterun" => Some(Mpi::OpenMpi),
        "mpiexec.hydra" => Some(Mpi::Mpich),
        _ => None,
    }
}

/// Returns the text that a launcher prints for `--version`. Empty if the launcher does not start.
pub(crate) fn version(launcher: &Path) -> String {
    let output = Command::new(launcher).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn by_version(text: &str) -> Option<Mpi> {
    if text.contains("Open MPI") || text.contains("OpenRTE") || text.contains("PRRTE") {
        Some(Mpi::OpenMpi)
    } else if ["HYDRA", "MPICH", "Intel(R) MPI", "MVAPICH"].iter().any(|name| text.contains(name)) {
        Some(Mpi::Mpich)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpi_is_recognised_by_its_version_text() {
        assert_eq!(by_version("mpirun (Open MPI) 4.1.4\n"), Some(Mpi::OpenMpi));
        assert_eq!(by_version("HYDRA build details:\n    Version: 4.0.2\n"), Some(Mpi::Mpich));
        assert_eq!(by_version("Intel(R) MPI Library for Linux* OS, Version 2021.9\n"), Some(Mpi::Mpich));
        assert_eq!(by_version("GNU bash\n"), None);
    }

    #[test]
    fn link_is_classified_by_its_target() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("mpiexec.hydra"), "").unwrap();
        std::os::unix::fs::symlink("mpiexec.hydra", dir.path().join("mpirun")).unwrap();
        let found = find(&[dir.path().to_path_buf()]);
        assert_eq!(found.mpich, Some(dir.path().join("mpirun")));
        assert_eq!(found.openmpi, None);
    }
}
