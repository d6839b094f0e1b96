//! Commands as tasks: how ranks start them.

use std::path::PathBuf;

use armature_commands::{Options, Starter};

use crate::error::{Error, ErrorKind, Result};

/// How ranks start the commands that tasks of a [workflow](crate::workflow) run: by a process beside each rank, which is started
/// before the rank becomes part of an MPI job.
#[derive(Clone, Debug)]
pub struct Commands {
    cores: u32,
    output: Option<PathBuf>,
    program: Option<PathBuf>,
}

impl Default for Commands {
    fn default() -> Self {
        Commands { cores: 1, output: None, program: None }
    }
}

impl Commands {
    /// Commands on one core of each rank, whose output is dropped.
    pub fn new() -> Self {
        Commands::default()
    }

    /// How many cores commands may occupy on a rank at once, at least 1.
    pub fn cores(mut self, cores: u32) -> Self {
        self.cores = cores.max(1);
        self
    }

    /// A directory, which must exist, for what commands write to their standard output and standard error: in it rank n has the file
    /// `rank-n.out`, which an `armature_commands::OutputLog` takes apart again. What an earlier job has left there stays.
    pub fn output(mut self, directory: impl Into<PathBuf>) -> Self {
        self.output = Some(directory.into());
        self
    }

    /// Another program than this one that becomes the process which starts commands: one that calls `armature_commands::enter` first.
    /// For tests, whose own program begins with something else.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Starts what starts commands for a rank.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if it cannot be started.
    pub(super) fn start(&self, rank: usize) -> Result<RankCommands> {
        let mut options = Options::new().cores(self.cores);
        if let Some(directory) = &self.output {
            options = options.output(directory.join(format!("rank-{rank}.out")));
        }
        let starter = match &self.program {
            Some(program) => Starter::spawn_program(program, &options),
            None => Starter::spawn(&options),
        };
        let starter = starter.map_err(|error| Error::new(ErrorKind::Io, error.to_string()).at_rank(rank))?;
        Ok(RankCommands { starter, cores: self.cores })
    }
}

/// What starts commands for a rank.
#[derive(Debug)]
pub(crate) struct RankCommands {
    pub(crate) starter: Starter,
    /// How many cores these may occupy.
    pub(crate) cores: u32,
}
