//! Readers and writers of workflow formats.
//!
//! | format | read | written |
//! |---|---|---|
//! | WfFormat (WfCommons) | 1.2 to 1.6 | 1.6 |
//! | `.dag` of pegasus-mpi-cluster | yes, rescue files too | rescue files |
//! | Graphviz dot, a subset | yes | no |
//! | TOML, a format of this crate | yes | no |
//!
//! [`platform`] reads the platform that a workflow is planned for. Every workflow is read into a [`Description`], which a program can also
//! build itself. A description converts to the planner's [`Workflow`](armature_planner::workflow::Workflow). An error names the line or
//! path, the value found and the value expected.
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
//!
//! # Workflows in TOML
//!
//! A `[[task]]` has an `id` and these optional keys: `command` (a text is a shell line; a list is a program and its arguments) or
//! `closure`; `deps`, the tasks that it depends on; `inputs` and `outputs`, lists of names or `{ name, size }`; `cpus`, `memory`, `tries`,
//! `time_limit`, `priority`, `limits`, `env`, `stdin`; `kind`, `run_time` (seconds), `machine`, `done`. Memory and sizes are in bytes or
//! have a unit (`"2 GiB"`, `"500 MB"`). Times are in seconds or have a unit (`"5 min"`, `"2 h"`). The file may also have a `name` and a
//! table `limit` of named limits. Unknown keys are refused.
//!
//! ```
//! let file = r#"
//! limit.db = 5
//!
//! [[task]]
//! id = "load"
//! command = ["load", "--all"]
//! outputs = [{ name = "rows", size = "1 KiB" }]
//! limits = { db = 2 }
//!
//! [[task]]
//! id = "count"
//! command = "wc -l < rows"
//! inputs = ["rows"]
//! memory = "10 MB"
//! "#;
//! let description = armature_workflow_files::read("count.toml", file.as_bytes())?;
//! assert_eq!(description.tasks()[1].memory, Some(10_000_000));
//! assert_eq!(description.edges()[0].size, 1024);
//! # Ok::<(), armature_workflow_files::Error>(())
//! ```
//!
//! # Workflows in dot
//!
//! The attribute `weight`, `work` or `run_time` of a node is its run time in seconds; `memory` is in bytes. The attribute `weight` or
//! `size` of an edge is the number of bytes that it carries. Other attributes are ignored. A node is created where it is first named.
//!
//! ```
//! let file = "digraph { node [memory=5]; a [weight=1.5]; a -> b [size=3] }";
//! let description = armature_workflow_files::read("small.dot", file.as_bytes())?;
//! assert_eq!(description.tasks()[0].run_time, Some(1.5));
//! assert_eq!((description.tasks()[1].memory, description.edges()[0].size), (Some(5), 3));
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
pub mod platform;
pub mod rescue;
mod toml_file;
mod wfformat;

pub use amounts::{bytes, time};
pub use builder::DescriptionBuilder;
pub use description::{Action, Description, File, Forward, Task};
pub use error::{Error, ErrorKind, Result};
pub use format::{Format, read, read_as};
pub use wfformat::to_wfformat;
