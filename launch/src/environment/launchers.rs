//! Finds the installed launchers, and the MPI library to which a plain `mpirun` belongs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Mpi;

#[derive(Debug, Default)]
pub(super) struct Launchers {
    pub(super) openmpi: Option<PathBuf>,
    pub(super) has_prrte: bool,
    pub(super) mpich: Option<PathBuf>,
    pub(super) has_intel_mpi: bool,
    pub(super) srun: Option<PathBuf>,
}

/// Finds the launchers in the directories of `path`. The name of a launcher such as Debian's `mpirun.mpich` contains the MPI library. For a plain
/// `mpirun`, the library follows from the target of its symbolic link or from the version that it prints. The plain `mpirun` takes precedence,
/// because at HPC sites it belongs to the module that the user has loaded.
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
    found.has_prrte = found.openmpi.as_deref().is_some_and(|file| match target(file).as_deref() {
        Some("prterun") => true,
        Some("orterun") => false,
        _ => is_prrte(&version(file)),
    });
    // A launcher with the name `mpirun.mpich` is never that of Intel MPI.
    let intel = found.mpich.as_deref().filter(|file| !file.ends_with("mpirun.mpich"));
    found.has_intel_mpi = intel.is_some_and(|file| version(file).contains("Intel(R) MPI"));
    found
}

fn target(launcher: &Path) -> Option<String> {
    launcher.canonicalize().ok()?.file_name()?.to_str().map(str::to_string)
}

/// Returns true for the version text of PRRTE, which is the launcher of Open MPI since version 5.
fn is_prrte(text: &str) -> bool {
    let major = |word: &str| word.split_once('.').and_then(|(major, _)| major.parse::<u32>().ok());
    text.contains("PRRTE") || text.split_whitespace().find_map(major).is_some_and(|major| major >= 5)
}

fn by_file(launcher: &Path) -> Option<Mpi> {
    match target(launcher)?.as_str() {
        "orterun" | "prterun" => Some(Mpi::OpenMpi),
        "mpiexec.hydra" => Some(Mpi::Mpich),
        _ => None,
    }
}

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
    fn launchers_of_open_mpi_5_are_recognised_by_their_version_text() {
        assert!(is_prrte("mpirun (Open MPI) 5.0.11\n") && is_prrte("prterun (PRRTE) 3.0.8\n"));
        assert!(!is_prrte("mpirun (Open MPI) 4.1.4\n") && !is_prrte(""));
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
