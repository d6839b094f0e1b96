//! Start of a command's root process.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use armature_files::regular::{self, Links};
use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};

use crate::request::{Destination, Input, Program, Request};
use crate::role::VARIABLE;

/// Environment variable whose value identifies a command. By this variable the starter finds processes that have left
/// the process group and the process tree of the command.
pub(super) const JOB_MARK: &str = "ARMATURE_COMMAND";

pub(super) struct Spawned {
    pub(super) child: Child,
    /// Pipes from standard output and standard error of the command, each only if its output goes to the output file.
    pub(super) pipes: [Option<PipeReader>; 2],
}

/// Starts a command in its own process group. If that fails, returns the reason.
pub(super) fn spawn(request: &Request, job_mark: &str, has_output: bool) -> Result<Spawned, String> {
    let mut command = match &request.program {
        Program::Program { program, arguments } => {
            let mut command = Command::new(found(program, &request.environment)?);
            command.arg0(program).args(arguments);
            command
        }
        Program::Shell(line) => {
            let mut command = Command::new("/bin/sh");
            command.arg("-c").arg(line);
            command
        }
    };
    command.process_group(0).env_remove(VARIABLE).env(JOB_MARK, job_mark);
    command.envs(request.environment.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &request.directory {
        if !directory.is_dir() {
            return Err(format!("there is no directory {}", directory.display()));
        }
        command.current_dir(directory);
    }
    command.stdin(input(&request.stdin)?);
    let (out, stdout) = destination(&request.stdout, has_output)?;
    let (err, stderr) = destination(&request.stderr, has_output)?;
    command.stdout(out).stderr(err);
    let child =
        command.spawn().map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
    Ok(Spawned { child, pipes: [stdout, stderr] })
}

/// Searches a program in the `PATH` and returns its path. Given a path, the standard library can use its fast way to
/// start a process, and the error message can name the program.
fn found(program: &OsStr, environment: &[(OsString, OsString)]) -> Result<PathBuf, String> {
    let path = Path::new(program);
    if path.components().count() != 1 || program.as_encoded_bytes().contains(&b'/') {
        return Ok(path.into());
    }
    let of_command =
        environment.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let places = of_command.or_else(|| std::env::var_os("PATH")).unwrap_or_else(|| "/usr/bin:/bin".into());
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let file = std::env::split_paths(&places).map(|place| place.join(program)).find(is_program);
    file.ok_or_else(|| format!("there is no program {program:?} in the PATH"))
}

fn input(input: &Input) -> Result<Stdio, String> {
    match input {
        Input::Nothing => Ok(Stdio::null()),
        Input::File(path) => {
            let file = regular::open(path);
            file.map(Stdio::from).map_err(|error| format!("standard input {}: {error}", path.display()))
        }
        // The input of the command is put into an anonymous file. A pipe would have to be filled while the command
        // runs.
        Input::Bytes(bytes) => in_memory(bytes)
            .map(Stdio::from)
            .map_err(|error| format!("cannot keep its input in memory: {error}")),
    }
}

fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

fn destination(to: &Destination, has_output: bool) -> Result<(Stdio, Option<PipeReader>), String> {
    match to {
        Destination::Output if has_output => pipe().map_err(|error| format!("cannot create a pipe: {error}")),
        Destination::Output | Destination::Nowhere => Ok((Stdio::null(), None)),
        Destination::File(path) => {
            let options = OpenOptions::new().write(true).create(true).truncate(true).clone();
            let file = regular::open_with(path, &mut { options }, Links::Followed);
            file.map(|file| (file.into(), None))
                .map_err(|error| format!("output {}: {error}", path.display()))
        }
    }
}

fn pipe() -> io::Result<(Stdio, Option<PipeReader>)> {
    let (reader, writer) = io::pipe()?;
    fcntl_setfl(&reader, fcntl_getfl(&reader)? | OFlags::NONBLOCK)?;
    Ok((OwnedFd::from(writer).into(), Some(reader)))
}
