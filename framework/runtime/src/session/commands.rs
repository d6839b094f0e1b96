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
    /// The output is in the directory of rank 0 alone.
    is_collected: bool,
    program: Option<PathBuf>,
}

impl Default for Commands {
    fn default() -> Self {
        Commands { cores: 1, output: None, is_collected: false, program: None }
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
        (self.output, self.is_collected) = (Some(directory.into()), false);
        self
    }

    /// The same in a directory of rank 0's host, which is made there if need be, for ranks that share none: what commands have written on
    /// the others comes there when a workflow ends that [sends files](crate::workflow::Workflow::send_files), into `rank-n.out`, or
    /// `2-rank-n.out` and so on beside what earlier runs have left. What commands of another workflow write is dropped on these ranks.
    pub fn output_on_root(mut self, directory: impl Into<PathBuf>) -> Self {
        (self.output, self.is_collected) = (Some(directory.into()), true);
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
        if let Some(directory) = self.output.as_ref().filter(|_| rank == 0 || !self.is_collected) {
            if self.is_collected {
                std::fs::create_dir_all(directory).map_err(|error| {
                    let text =
                        format!("cannot make the directory of outputs {}: {error}", directory.display());
                    Error::new(ErrorKind::Io, text).at_rank(rank)
                })?;
            }
            options = options.output(directory.join(output_file(rank)));
        }
        let starter = match &self.program {
            Some(program) => Starter::spawn_program(program, &options),
            None => Starter::spawn(&options),
        };
        let starter = starter.map_err(|error| Error::new(ErrorKind::Io, error.to_string()).at_rank(rank))?;
        let collected = self.output.clone().filter(|_| self.is_collected);
        Ok(RankCommands { starter, cores: self.cores, collected })
    }
}

/// The name of the file for what the commands of a rank write.
pub(crate) fn output_file(rank: usize) -> String {
    format!("rank-{rank}.out")
}

/// What starts commands for a rank.
#[derive(Debug)]
pub(crate) struct RankCommands {
    pub(crate) starter: Starter,
    /// How many cores these may occupy.
    pub(crate) cores: u32,
    /// Where rank 0 collects what those of all ranks write, if it is to.
    pub(crate) collected: Option<PathBuf>,
}
