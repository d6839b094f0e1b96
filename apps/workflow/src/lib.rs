//! Runs workflows that are described in files.
//!
//! - [`prepare`]: from a file to what ranks run
//! - [`command`]: what follows a command that has ended
//! - [`toil`]: tasks that replay what was measured: compute as long, hold as much, write as much
//! - [`record`]: what was measured of each command, kept as it ends
//! - [`rescue`], [`ledger`], [`notes`]: the tasks that are done, noted as they end, and the parts that they append to files, exactly once
//! - [`cli`]: the command line

pub mod cli;
pub mod command;
pub mod ledger;
pub mod notes;
pub mod prepare;
pub mod record;
pub mod rescue;
pub mod toil;
