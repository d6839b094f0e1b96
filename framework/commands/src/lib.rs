//! Runs commands for a rank of an MPI job, or for any other program that must not start processes itself.
//!
//! A [`Starter`] is a separate process. It is started before the caller becomes part of an MPI job, and inherits neither the environment
//! variables that would make a program take itself for a rank, nor the cores to which a launcher has bound the rank. A command may
//! therefore be an MPI program itself.
//!
//! - All processes of a command end with it, including those that have left its process group. A command ends when its root process ends,
//!   when it exceeds its time or memory limit (SIGTERM, and SIGKILL after a grace period), and when the caller dies.
//! - The result of a command contains its run time, CPU time, and the peak memory of its process tree.
//! - The output of all commands goes to one file, which an [`OutputLog`] reads.
//!
//! ```no_run
//! use std::time::Duration;
//! use armature_commands::{CommandStatus, Event, Options, Program, Request, Starter};
//!
//! // Must come first: a starter is another process of this program, and `enter` does not return in it.
//! armature_commands::enter();
//!
//! let mut starter = Starter::spawn(&Options::new().output("outputs"))?;
//! starter.run(Request::new(1, Program::new("echo", ["hello"])))?;
//! loop {
//!     for event in starter.events(Duration::from_secs(1))? {
//!         if let Event::Ended { id: 1, ended } = event {
//!             assert_eq!(ended.outcome, CommandStatus::Exited(0));
//!             return starter.close();
//!         }
//!     }
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), armature_commands::Error>(())
//! ```
//!
//! The crate runs on Linux.

mod client;
mod connection;
mod enter;
mod environment;
mod error;
mod event;
mod message;
mod output;
mod poll;
mod request;
mod role;
mod starter;

pub use client::{Options, Starter};
pub use enter::enter;
pub use error::{Error, ErrorKind, Result};
pub use event::{CommandStatus, Ended, Event, Stopped};
pub use output::{OutputKey, OutputLog, StandardStream};
pub use request::{Destination, Input, Program, Request};
