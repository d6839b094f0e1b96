//! Requests to a starter, the process that runs commands for its caller.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Request for one command: its program, input, output and limits.
///
/// ```
/// use armature_commands::{Program, Request};
/// use std::time::Duration;
///
/// let mut request = Request::new(7, Program::shell("wc -l < rows > count"));
/// request.directory = Some("/tmp".into());
/// request.time_limit = Some(Duration::from_secs(60));
/// assert_eq!((request.id, request.cores), (7, 1));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Number chosen by the caller, such as that of a task. It identifies the output of the command, so two commands
    /// that are queued or running at the same time must have different numbers.
    pub id: u64,
    /// Number of the attempt to run the command. The output of each attempt is kept separately.
    pub attempt: u32,
    /// Program or shell line that is run.
    pub program: Program,
    /// Environment variables that are set in addition to those of the starter, the process that runs the commands.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory; `None` for that of the starter, the process that runs the commands.
    pub directory: Option<PathBuf>,
    /// Standard input of the command.
    pub stdin: Input,
    /// Destination of the command's standard output.
    pub stdout: Destination,
    /// Destination of the command's standard error.
    pub stderr: Destination,
    /// Maximum run time of the command.
    pub time_limit: Option<Duration>,
    /// Maximum total memory of the command's processes, in bytes.
    pub memory_limit: Option<u64>,
    /// Number of cores that the command occupies, of those that the [`Options`](crate::Options) give to all commands.
    /// The command waits until enough cores are free. A command that requests more cores than there are runs alone.
    pub cores: u32,
}

/// Program of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A program and its arguments, without a shell. A name without `/` is searched in the `PATH`.
    Program {
        /// Name or path of the program. A relative path is resolved in the command's directory.
        program: OsString,
        /// Arguments, without the program.
        arguments: Vec<OsString>,
    },
    /// A line for `/bin/sh -c`.
    Shell(OsString),
}

/// Standard input of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// The command has no input.
    #[default]
    Nothing,
    /// The command reads the content of this file.
    File(PathBuf),
    /// The command reads these bytes.
    Bytes(Vec<u8>),
}

/// Destination of a command's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Destination {
    /// The output goes to the output file of all commands, if the [`Options`](crate::Options) name one, and is
    /// discarded otherwise.
    #[default]
    Output,
    /// The output is discarded.
    Nowhere,
    /// The output goes to this file, which is truncated first.
    File(PathBuf),
}

impl Request {
    /// Returns a request for a command that occupies one core, has no input and no limits.
    pub fn new(id: u64, program: Program) -> Self {
        Request {
            id,
            attempt: 1,
            program,
            environment: Vec::new(),
            directory: None,
            stdin: Input::Nothing,
            stdout: Destination::Output,
            stderr: Destination::Output,
            time_limit: None,
            memory_limit: None,
            cores: 1,
        }
    }
}

impl Program {
    /// Returns a program with arguments.
    pub fn new<A: Into<OsString>>(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Program::Program { program: program.into(), arguments }
    }

    /// Returns a line for a shell.
    pub fn shell(line: impl Into<OsString>) -> Self {
        Program::Shell(line.into())
    }
}
