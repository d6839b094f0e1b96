//! `armature simulate --build`: runs a command that builds programs for SimGrid SMPI.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::detect;
use crate::environment::search_path;
use crate::error::LaunchError;

/// Files of the directory `launch/simgrid`: settings for cargo, compiler wrapper, header, thread-local keys and list of exported symbols.
const FILES: [(&str, &str, u32); 5] = [
    ("build.env", include_str!("../../simgrid/build.env"), 0o644),
    ("smpicc-rs", include_str!("../../simgrid/smpicc-rs"), 0o755),
    ("include/mpi.h", include_str!("../../simgrid/include/mpi.h"), 0o644),
    ("keys.c", include_str!("../../simgrid/keys.c"), 0o644),
    ("main.map", include_str!("../../simgrid/main.map"), 0o644),
];

/// Becomes the command, in the environment for SMPI. The files that this needs are written to the target directory.
pub(super) fn build(command: &[OsString]) -> Result<u8, LaunchError> {
    detect::program("smpicc", &search_path()).map_err(|_| LaunchError::NoSimulator)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let mut directory = target.into_os_string();
    directory.push("-smpi/simgrid");
    let directory =
        std::path::absolute(directory).map_err(LaunchError::io("find out the current directory"))?;
    write_files(&directory).map_err(LaunchError::io(format!("write {}", directory.display())))?;
    let script = "set -a; . \"$simgrid/build.env\"; set +a; exec \"$@\"";
    let error = Command::new("sh").args(["-c", script, "sh"]).args(command).env("simgrid", &directory).exec();
    Err(LaunchError::io("start sh")(error))
}

/// Writes the files that differ from those of this program. A file that stays the same is not written, because cargo would build everything again.
fn write_files(directory: &Path) -> std::io::Result<()> {
    for (name, text, mode) in FILES {
        let file = directory.join(name);
        if fs::read(&file).is_ok_and(|present| present == text.as_bytes()) {
            continue;
        }
        fs::create_dir_all(file.parent().unwrap_or(directory))?;
        fs::write(&file, text)?;
        fs::set_permissions(&file, Permissions::from_mode(mode))?;
    }
    Ok(())
}
