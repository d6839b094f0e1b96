//! Puts the directory of the MPI library first on the linker's search path.
//!
//! Other libraries, such as hwloc, add the system's library directory to that path. If it contains the `libmpi` of another MPI, and the linker found
//! that one first, every MPI call would crash.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MPICC");
    #[cfg(feature = "mpi")]
    if let Ok(library) = build_probe_mpi::probe() {
        // The directory is passed to Cargo here, in the build script of this package, because Cargo puts the search paths of a package before those
        // of its dependencies.
        library
            .lib_paths
            .iter()
            .for_each(|path| println!("cargo::rustc-link-search=native={}", path.display()));
    }
}
