//! Runs commands for a rank of an MPI job, or for any other program that must not start processes itself.
//!
//! A [`Starter`] is a process beside the caller. It is started before the caller becomes part of an MPI job, and has none of what
//! makes one: neither the variables by which a program would take itself for a rank, nor the cores that a launcher has bound the
//! rank to. A command may thus be an MPI program itself.
//!
//! - A command ends with all processes that it has started, also those that have left its process group: when its first process
//!   ends, at its limits of time and memory (SIGTERM, and after a grace SIGKILL), and when the caller dies.
//! - What it used is told with its end: run time, CPU time, and the peak memory of its process tree.
//! - What all commands write goes to one file, which an [`OutputLog`] takes apart again.
//!
//! ```no_run
//! use std::time::Duration;
//! use armature_commands::{Event, Options, Outcome, Program, Request, Starter};
//!
//! // First of all: a starter is this program, too, and comes by here.
//! armature_commands::enter();
//!
//! let mut starter = Starter::spawn(&Options::new().output("outputs"))?;
//! starter.run(Request::new(1, Program::new("echo", ["hello"])))?;
//! loop {
//!     for event in starter.events(Duration::from_secs(1))? {
//!         if let Event::Ended { id: 1, ended } = event {
//!             assert_eq!(ended.outcome, Outcome::Exited(0));
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
pub use event::{Ended, Event, Outcome, Stopped};
pub use output::{OutputKey, OutputLog, Stream};
pub use request::{Destination, Input, Program, Request};
