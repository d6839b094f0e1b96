//! Text that `armature --version` prints.

use std::path::Path;

use crate::Mpi;
use crate::environment::{Environment, launcher_version};

pub(crate) fn text() -> String {
    let environment = Environment::survey(true);
    let launchers = [(Mpi::OpenMpi, &environment.openmpi), (Mpi::Mpich, &environment.mpich)];
    let installed = launchers.into_iter().filter_map(|(mpi, launcher)| Some((mpi, launcher.as_deref()?)));
    let lines: Vec<String> = installed.map(|(mpi, launcher)| line(mpi, launcher)).collect();
    let lines = if lines.is_empty() { "no MPI: the PATH has no mpirun".into() } else { lines.join("\n") };
    format!("armature {}\n{lines}\n", env!("CARGO_PKG_VERSION"))
}

fn line(mpi: Mpi, launcher: &Path) -> String {
    let printed = launcher_version(launcher);
    let derived = [("Intel(R) MPI", "Intel MPI"), ("MVAPICH", "MVAPICH")];
    let name = derived.into_iter().find(|(text, _)| printed.contains(text));
    let name = name.map_or_else(|| mpi.to_string(), |(_, name)| name.into());
    let version = printed
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    format!("{name} {} ({})", version.unwrap_or("of an unknown version"), launcher.display())
}
