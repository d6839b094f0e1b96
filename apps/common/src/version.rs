//! Parsing of a program's arguments, with a `--version` option that also names the MPI library.

use std::process::exit;

use armature::mpi::{environment, ffi};
use clap::Parser;
use clap::error::ErrorKind;

use crate::terminal::print;

/// Parses the arguments of this process. Exits after `--help`, `--version` and invalid arguments.
pub fn parse<P: Parser>() -> P {
    P::try_parse().unwrap_or_else(|error| {
        if error.kind() == ErrorKind::DisplayVersion {
            let is_printed = print(format_args!("{error}{}\n", mpi_library())).is_ok();
            exit(i32::from(!is_printed));
        }
        error.exit()
    })
}

fn mpi_library() -> String {
    let text = environment::library_version().unwrap_or_default();
    let line = text.lines().next().unwrap_or_default().split(',').next().unwrap_or_default();
    let linked = line.split_whitespace().collect::<Vec<_>>().join(" ");
    // The size of a communicator handle shows for which MPI the program was built: 4 bytes in MPICH and its derivatives, a pointer in other
    // libraries.
    let headers = match size_of::<ffi::MPI_Comm>() {
        4 => "MPICH",
        _ if linked.starts_with("SMPI") => "SMPI",
        _ => "Open MPI",
    };
    format!("linked to {linked}, built for {headers} (MPI {}.{})", ffi::MPI_VERSION, ffi::MPI_SUBVERSION)
}
