//! Detection of the MPI that a program needs, from its list of shared libraries.

mod elf;

use std::path::{Path, PathBuf};

use crate::Mpi;
use crate::environment::{Environment, search_path};
use crate::error::LaunchError;

/// Finds the file of a program as a launcher does. A name with a slash is a path. Any other name is searched in the directories of `path`
/// and then in the current directory (and returned as `./name`).
///
/// # Errors
/// [`LaunchError::NoProgram`] if there is no such file.
pub fn program(name: &str, path: &[PathBuf]) -> Result<PathBuf, LaunchError> {
    let found = if name.contains('/') {
        Some(PathBuf::from(name)).filter(|file| file.is_file())
    } else {
        path.iter()
            .map(PathBuf::as_path)
            .chain([Path::new(".")])
            .map(|dir| dir.join(name))
            .find(|file| file.is_file())
    };
    found.ok_or_else(|| LaunchError::NoProgram(name.to_owned()))
}

/// Finds a program of armature: in the directory of this program, otherwise as [`program`] does.
///
/// # Errors
/// [`LaunchError::NoProgram`] if there is no such file.
pub(crate) fn companion(name: &str) -> Result<PathBuf, LaunchError> {
    let file =
        std::env::current_exe().ok().map(|this| this.with_file_name(name)).filter(|file| file.is_file());
    file.map_or_else(|| program(name, &search_path()), Ok)
}

/// Returns the MPI library that the file is linked to. `None` if the file is not an ELF file (such as a script), or does not list an MPI library
/// itself.
pub fn linked_mpi(file: &Path) -> Option<Mpi> {
    let libraries = elf::needed(&mut std::fs::File::open(file).ok()?).ok()?;
    libraries.iter().find_map(|library| mpi_of_library(library))
}

/// Returns true if the file is linked to SimGrid, so that its ranks can be simulated.
pub(crate) fn is_for_simgrid(file: &Path) -> bool {
    let libraries = std::fs::File::open(file).and_then(|mut file| elf::needed(&mut file)).unwrap_or_default();
    libraries.iter().any(|library| library.starts_with("libsimgrid.so"))
}

/// Returns the MPI library that a program needs: the one that it is linked to, otherwise the only one that is installed.
///
/// # Errors
/// [`LaunchError::AmbiguousMpi`] if the program is not linked to an MPI and two are installed, [`LaunchError::NoLauncher`] if none is
/// installed.
pub fn mpi_of(file: &Path, environment: &Environment) -> Result<Mpi, LaunchError> {
    match (linked_mpi(file), &environment.openmpi, &environment.mpich) {
        (Some(mpi), _, _) => Ok(mpi),
        (None, Some(_), None) => Ok(Mpi::OpenMpi),
        (None, None, Some(_)) => Ok(Mpi::Mpich),
        (None, Some(_), Some(_)) => Err(LaunchError::AmbiguousMpi(file.to_path_buf())),
        (None, None, None) => Err(LaunchError::NoLauncher(None)),
    }
}

/// Returns the MPI library that a shared library belongs to. That of MPICH is `libmpi.so.12`, a name which compatible libraries share, or
/// `libmpich.so.12` on Debian. Open MPI's has been `libmpi.so.20` or higher since version 2. `libmpi_abi.so` is the library of the binary interface
/// of MPI 5, which MPICH 5 and Intel MPI have, and Open MPI 5 does not.
fn mpi_of_library(name: &str) -> Option<Mpi> {
    if name.starts_with("libmpich.so")
        || name.starts_with("libmpi.so.12")
        || name.starts_with("libmpi_cray.so")
        || name.starts_with("libmpi_abi.so")
    {
        Some(Mpi::Mpich)
    } else if name.starts_with("libmpi.so") {
        Some(Mpi::OpenMpi)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpi_is_recognised_by_its_library_name() {
        assert_eq!(mpi_of_library("libmpi.so.40"), Some(Mpi::OpenMpi));
        assert_eq!(mpi_of_library("libmpich.so.12"), Some(Mpi::Mpich));
        assert_eq!(mpi_of_library("libmpi.so.12"), Some(Mpi::Mpich));
        assert_eq!(mpi_of_library("libmpi_abi.so.1"), Some(Mpi::Mpich));
        assert_eq!(mpi_of_library("libc.so.6"), None);
    }

    #[test]
    fn program_without_mpi_uses_the_only_installed_mpi() {
        let me = std::env::current_exe().unwrap();
        let (a, b) = (Some("a".into()), Some("b".into()));
        let environment = |openmpi, mpich| Environment { openmpi, mpich, ..Environment::default() };
        assert_eq!(mpi_of(&me, &environment(a.clone(), None)).unwrap(), Mpi::OpenMpi);
        assert_eq!(mpi_of(&me, &environment(None, b.clone())).unwrap(), Mpi::Mpich);
        assert!(matches!(mpi_of(&me, &environment(a, b)), Err(LaunchError::AmbiguousMpi(_))));
        assert!(matches!(mpi_of(&me, &environment(None, None)), Err(LaunchError::NoLauncher(None))));
    }

    #[test]
    fn programs_are_found_in_the_path() {
        let bin = [PathBuf::from("/nowhere"), PathBuf::from("/bin")];
        assert_eq!(program("sh", &bin).unwrap(), PathBuf::from("/bin/sh"));
        assert_eq!(program("/bin/sh", &[]).unwrap(), PathBuf::from("/bin/sh"));
        assert!(matches!(program("no-such-program", &bin), Err(LaunchError::NoProgram(_))));
    }
}
