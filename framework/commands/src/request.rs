//! What a starter is asked to run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// One command: what it runs, with what, where its output goes, and what it may use.
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
    /// The caller's number for it, such as that of its task. No two commands that wait or run may have the same; the output of
    /// both would go by it.
    pub id: u64,
    /// Which attempt at it this is: the output of each is kept apart.
    pub attempt: u32,
    /// What is run.
    pub program: Program,
    /// Variables that are set, beside those of the starter.
    pub environment: Vec<(OsString, OsString)>,
    /// The directory in which it runs; that of the starter if none is given.
    pub directory: Option<PathBuf>,
    /// What it reads.
    pub stdin: Input,
    /// Where its standard output goes.
    pub stdout: Destination,
    /// Where its standard error goes.
    pub stderr: Destination,
    /// How long it may run.
    pub time_limit: Option<Duration>,
    /// How much memory its processes may hold together, in bytes.
    pub memory_limit: Option<u64>,
    /// How many of the starter's cores it occupies. It has to wait while too few are free; one that asks for more than there
    /// are runs alone.
    pub cores: u32,
}

/// What a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A program and its arguments, without a shell. A name without `/` is looked for in the `PATH`.
    Program {
        /// Its name or path; a relative path begins in the command's directory.
        program: OsString,
        /// Its arguments, without the program itself.
        arguments: Vec<OsString>,
    },
    /// A line for `/bin/sh -c`.
    Shell(OsString),
}

/// What a command reads from its standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    #[default]
    Nothing,
    /// The content of a file.
    File(PathBuf),
    /// These bytes.
    Bytes(Vec<u8>),
}

/// Where what a command writes goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Destination {
    /// To the starter's output file if it has one, otherwise nowhere.
    #[default]
    Output,
    /// Nowhere.
    Nowhere,
    /// To a file, which is emptied before.
    File(PathBuf),
}

impl Request {
    /// A command that occupies one core, reads nothing, and has no limits.
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
    /// A program with arguments.
    pub fn new<A: Into<OsString>>(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Program::Program { program: program.into(), arguments }
    }

    /// A line for a shell.
    pub fn shell(line: impl Into<OsString>) -> Self {
        Program::Shell(line.into())
    }
}
