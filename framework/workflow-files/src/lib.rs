//! Formats of workflows: bytes in, a described workflow out.
//!
//! | format | read | written |
//! |---|---|---|
//! | WfFormat (WfCommons) | 1.2 to 1.6 | 1.6 |
//! | `.dag` of pegasus-mpi-cluster | yes, rescue files too | rescue files |
//! | Graphviz dot, a subset | yes | no |
//! | TOML, a form of our own | yes | no |
//!
//! All are read into one [`Description`], which can also be built, and which becomes the planner's
//! [`Workflow`](armature_planner::workflow::Workflow). An error names the line or path, what is there and what was expected.
//!
//! ```
//! let file = "TASK split -m 100 /bin/split data\nTASK sum -c 2 /bin/sum\nEDGE split sum\n";
//! let description = armature_workflow_files::read("small.dag", file.as_bytes())?;
//! assert_eq!(description.tasks()[0].memory, Some(100 << 20));
//! assert_eq!(description.to_workflow()?.topological_order(), [0, 1]);
//!
//! let broken = format!("{file}EDGE split sun\n");
//! let error = armature_workflow_files::read("small.dag", broken.as_bytes()).unwrap_err();
//! assert_eq!(error.to_string(), "small.dag: line 4: there is no task \"sun\": expected the name of a task");
//! # Ok::<(), armature_workflow_files::Error>(())
//! ```

mod amounts;
mod builder;
mod dag;
mod description;
mod dot;
mod draft;
mod error;
mod format;
mod path;
pub mod rescue;
mod toml_file;
mod wfformat;

pub use builder::DescriptionBuilder;
pub use description::{Action, Description, File, Forward, Task};
pub use error::{Error, ErrorKind, Result};
pub use format::{Format, read, read_as};
pub use wfformat::to_wfformat;
