//! Start of the commands that are tasks of workflows.

use std::path::PathBuf;

pub(super) use armature_commands::enter;
use armature_commands::{Options, Starter};

use crate::error::{Error, ErrorKind, Result};

/// Settings for commands as tasks of a [workflow](crate::workflow). A separate process for each rank starts the commands; this process is
/// created before the rank becomes part of an MPI job. The type requires the feature `workflow`.
#[derive(Clone, Debug)]
pub struct Commands {
    cores: u32,
    output: Option<PathBuf>,
    /// True if ranks have no common directory, so that rank 0 collects the output of all commands.
    is_collected: bool,
    program: Option<PathBuf>,
}

impl Default for Commands {
    fn default() -> Self {
        Commands { cores: 1, output: None, is_collected: false, program: None }
    }
}

impl Commands {
    /// Allows commands on one core of each rank, and drops their output.
    pub fn new() -> Self {
        Commands::default()
    }

    /// Sets how many cores of a rank commands may occupy at a time, at least 1.
    pub fn cores(mut self, cores: u32) -> Self {
        self.cores = cores.max(1);
        self
    }

    /// Sets an existing directory for the standard output and standard error of commands. Rank n writes the file `rank-n.out`, which an
    /// `armature_commands::OutputLog` reads. Output of earlier jobs stays in the file.
    pub fn output(mut self, directory: impl Into<PathBuf>) -> Self {
        (self.output, self.is_collected) = (Some(directory.into()), false);
        self
    }

    /// Sets a directory on the host of rank 0 for the output of commands, for ranks without a shared directory. The directory is created if it
    /// does not exist. The output of other ranks is copied there when a workflow that [sends files](crate::workflow::Workflow::send_files) ends,
    /// to `rank-n.out`, or to `2-rank-n.out` and so on if earlier runs have left files. The output of other workflows is dropped on these ranks.
    pub fn output_on_root(mut self, directory: impl Into<PathBuf>) -> Self {
        (self.output, self.is_collected) = (Some(directory.into()), true);
        self
    }

    /// Sets the program of the process that starts commands; the default is this program. The program must call `armature_commands::enter`
    /// first, which a test harness does not do.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Starts the process that will start the commands of a rank.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the process cannot be started.
    pub(super) fn start(&self, rank: usize) -> Result<RankCommands> {
        let mut options = Options::new().cores(self.cores);
        if let Some(directory) = self.output.as_ref().filter(|_| rank == 0 || !self.is_collected) {
            if self.is_collected {
                std::fs::create_dir_all(directory).map_err(|error| {
                    let text =
                        format!("cannot create the directory of outputs {}: {error}", directory.display());
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

pub(crate) fn output_file(rank: usize) -> String {
    format!("rank-{rank}.out")
}

/// Process that starts the commands of a rank.
#[derive(Debug)]
pub(crate) struct RankCommands {
    pub(crate) starter: Starter,
    pub(crate) cores: u32,
    /// Directory in which rank 0 collects the output of the commands of all ranks; `None` if the output is not collected.
    pub(crate) collected: Option<PathBuf>,
}
