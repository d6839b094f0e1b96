//! `armature workflow`: runs workflows (graphs of tasks that are commands), and shows the output of their tasks.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use armature_commands::{OutputKey, OutputLog, StandardStream};
use clap::Args;

use crate::detect;
use crate::error::LaunchError;
use crate::plan::read_workflow;

const PROGRAM: &str = "armature-workflow";

/// Show the output of a task in all of its attempts.
///
/// The task's standard output is written to standard output, and its standard error to standard error. Without TASK, all tasks with output are
/// listed.
///
/// Exit code: 0; 2 if a file cannot be read, or the task does not exist.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// File of the workflow
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the task
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Show only this attempt, counted from 1
    #[arg(long, value_name = "N", requires = "task")]
    attempt: Option<u32>,
    /// Directory with the outputs of the run [default: FILE.outputs]
    #[arg(long, value_name = "DIR")]
    outputs: Option<PathBuf>,
}

/// Checks that the workflow file can be read, and returns the command that runs the workflow.
pub(crate) fn command(
    program: Option<PathBuf>,
    arguments: Vec<OsString>,
) -> Result<Vec<OsString>, LaunchError> {
    let file = arguments.first().map(Path::new).unwrap_or(Path::new(""));
    // With the options `--array` and `--each-line`, armature-workflow itself writes the workflow file.
    let writes_file = |word: &OsString| {
        let word = word.to_string_lossy();
        ["--array", "--each-line"].contains(&word.split('=').next().unwrap_or_default())
    };
    if !arguments.iter().take_while(|word| *word != "--").any(writes_file) {
        read_workflow(file)?;
    }
    let program = program.map_or_else(|| detect::companion(PROGRAM), Ok)?;
    Ok(std::iter::once(program.into_os_string()).chain(arguments).collect())
}

pub(crate) fn output(args: &Output) -> Result<u8, LaunchError> {
    let (description, _) = read_workflow(&args.file)?;
    let directory = args.outputs.clone().unwrap_or_else(|| {
        let mut name = args.file.clone().into_os_string();
        name.push(".outputs");
        name.into()
    });
    let log = read(&directory)?;
    let names: Vec<&str> = description.tasks().iter().map(|task| task.name.as_str()).collect();
    match &args.task {
        None => list(&log, &names),
        Some(name) => {
            let task = names.iter().position(|known| known == name);
            let task =
                task.ok_or_else(|| LaunchError::NoTask { name: name.clone(), file: args.file.clone() })?;
            copy(&log, task as u64, args.attempt)
        }
    }
}

fn list(log: &OutputLog, names: &[&str]) -> Result<u8, LaunchError> {
    let mut text = String::new();
    for (key, stream) in log.keys() {
        // The workflow file may have been shortened since the run, so that a task which has output is missing in it.
        let name = usize::try_from(key.id).ok().and_then(|task| names.get(task)).unwrap_or(&"?");
        let to = match stream {
            StandardStream::Stdout => "standard output",
            StandardStream::Stderr => "standard error",
        };
        let _ = writeln!(
            text,
            "{}: {} bytes to {to} in attempt {}",
            armature_text::shown(name),
            log.length(key, stream),
            key.attempt
        );
    }
    let written = UnlessLeft(std::io::stdout()).write_all(text.as_bytes());
    written.map(|()| 0).map_err(LaunchError::io("write to standard output"))
}

fn copy(log: &OutputLog, task: u64, attempt: Option<u32>) -> Result<u8, LaunchError> {
    let is_selected =
        |key: &OutputKey| key.id == task && attempt.is_none_or(|attempt| attempt == key.attempt);
    for (key, stream) in log.keys().filter(|(key, _)| is_selected(key)) {
        let copied = match stream {
            StandardStream::Stdout => log.copy(key, stream, &mut UnlessLeft(std::io::stdout())),
            StandardStream::Stderr => log.copy(key, stream, &mut UnlessLeft(std::io::stderr())),
        };
        copied.map_err(LaunchError::Outputs)?;
    }
    Ok(0)
}

fn read(directory: &Path) -> Result<OutputLog, LaunchError> {
    let unreadable = |source| LaunchError::Unreadable { what: "outputs", file: directory.into(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        files.extend(path.extension().is_some_and(|ending| ending == "out").then_some(path));
    }
    files.sort();
    let mut log = OutputLog::default();
    files.iter().try_for_each(|file| log.add(file)).map_err(LaunchError::Outputs)?;
    Ok(log)
}

/// Discards output after its reader has closed the pipe, as in `armature workflow output FILE TASK | head`.
struct UnlessLeft<W>(W);

impl<W: Write> Write for UnlessLeft<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(bytes.len()),
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }
}
