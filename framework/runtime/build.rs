//! Puts the directory of the MPI library in front of all others on the linker's search path.
//!
//! Other libraries, such as hwloc, add the system's library directory to that path. There may be a `libmpi` of another MPI in it, which
//! the linker would take where it finds it first, and every call of it would crash.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MPICC");
    #[cfg(feature = "mpi")]
    if let Ok(library) = build_probe_mpi::probe() {
        // Cargo puts the paths of a package in front of those of its dependencies.
        library
            .lib_paths
            .iter()
            .for_each(|path| println!("cargo::rustc-link-search=native={}", path.display()));
    }
}
