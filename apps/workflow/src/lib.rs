//! Runs workflows that are described in files.
//!
//! - [`prepare`]: from a file to what ranks run
//! - [`command`]: what follows a command that has ended
//! - [`toil`]: tasks that replay what was measured: compute as long, hold as much, write as much
//! - [`record`]: what was measured of each command, kept as it ends
//! - [`rescue`], [`ledger`]: the tasks that are done, kept as they end, and what they hand on, appended once
//! - [`cli`]: the command line

pub mod cli;
pub mod command;
pub mod ledger;
pub mod prepare;
pub mod record;
pub mod rescue;
pub mod toil;
