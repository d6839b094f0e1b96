//! Execution of workflows that are described in files.
//!
//! - [`array`](mod@array): workflow of one command for many entries
//! - [`prepare`]: conversion of a workflow file into tasks that ranks can run
//! - [`command`]: steps after the end of a command
//! - [`replay`]: tasks that replay measurements: computing time, memory, and size of values
//! - [`record`]: measurements of each command, saved when it ends
//! - [`rescue`], [`completion_log`], [`notes`]: rescue file, which records completed tasks as they end, and outputs that are appended to files
//!   exactly once
//! - [`cli`]: command line

pub mod array;
pub mod cli;
pub mod command;
pub mod completion_log;
pub mod notes;
pub mod prepare;
pub mod record;
pub mod replay;
pub mod rescue;
