//! Helper functions for the tests of the `ferret` command.

use armature_tests::program::{fails, succeeds};
use std::path::Path;
use std::process::Command;

pub(crate) fn ferret(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferret"));
    command.current_dir(directory).args(arguments);
    command
}

pub(crate) fn messages_of_success(directory: &Path, arguments: &[&str]) -> String {
    succeeds(&mut ferret(directory, arguments)).messages
}

pub(crate) fn output_of_success(directory: &Path, arguments: &[&str]) -> String {
    succeeds(&mut ferret(directory, arguments)).printed
}

pub(crate) fn messages_of_failure(directory: &Path, arguments: &[&str]) -> String {
    fails(&mut ferret(directory, arguments))
}

pub(crate) fn collection() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    messages_of_success(dir.path(), &["synth", "set", "--scenes", "24", "--size", "96x64", "--seed", "7"]);
    messages_of_success(dir.path(), &["index", "set/database", "-o", "db"]);
    dir
}
