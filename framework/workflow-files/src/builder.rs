//! Builder for workflow descriptions that a program creates instead of reading them from a file.

use std::collections::BTreeMap;

use crate::description::{Description, Task};
use crate::draft::{Draft, End, Link};
use crate::error::{Result, SourceLocation};

/// Builder of a [`Description`]. Errors are reported by [`build`](DescriptionBuilder::build).
///
/// ```
/// use armature_workflow_files::{Action, Description, File, Task};
///
/// let file = File::new("data", Some(100));
/// let mut make = Task::new("make", Action::Closure("make".into()));
/// make.outputs.push(file.clone());
/// let mut sum = Task::new("sum", Action::Closure("sum".into()));
/// sum.inputs.push(file);
/// let show = Task::new("show", Action::Shell("cat result".into()));
///
/// let mut builder = Description::builder("example");
/// builder.task(make).task(sum).task(show).edge("sum", "show", 8);
/// let description = builder.build()?;
/// let edges: Vec<_> = description.edges().iter().map(|edge| (edge.from, edge.to, edge.size)).collect();
/// assert_eq!(edges, [(0, 1, 100), (1, 2, 8)]);
/// # Ok::<(), armature_workflow_files::Error>(())
/// ```
#[derive(Debug)]
pub struct DescriptionBuilder {
    draft: Draft,
}

impl Description {
    /// Returns a builder for a description with this name.
    pub fn builder(name: impl Into<String>) -> DescriptionBuilder {
        DescriptionBuilder { draft: Draft { name: name.into(), ..Draft::default() } }
    }

    /// Returns a description without tasks, which can neither be planned nor run.
    pub fn empty(name: impl Into<String>) -> Description {
        Description { name: name.into(), tasks: Vec::new(), edges: Vec::new(), limits: BTreeMap::new() }
    }
}

impl DescriptionBuilder {
    /// Adds a task.
    pub fn task(&mut self, task: Task) -> &mut Self {
        let place = SourceLocation::Element("tasks", self.draft.tasks.len());
        self.draft.tasks.push((task, place));
        self
    }

    /// Makes task `to` depend on task `from`. Task `to` reads `size` bytes from task `from`, in addition to
    /// the files that the two tasks name.
    pub fn edge(&mut self, from: impl Into<String>, to: impl Into<String>, size: u64) -> &mut Self {
        let place = SourceLocation::Element("edges", self.draft.links.len());
        self.draft.links.push(Link { from: End::Name(from.into()), to: End::Name(to.into()), size, place });
        self
    }

    /// Adds a named limit: a resource of this total amount, such as a number of licences, of which each task uses a part.
    pub fn limit(&mut self, name: impl Into<String>, amount: u64) -> &mut Self {
        self.draft.limits.insert(name.into(), amount);
        self
    }

    /// Checks the tasks and edges and returns the description.
    ///
    /// # Errors
    /// [`ErrorKind::Value`](crate::ErrorKind::Value) for an invalid name, number or limit, [`ErrorKind::Graph`](crate::ErrorKind::Graph)
    /// for a cycle, an unknown task or a duplicate task.
    pub fn build(self) -> Result<Description> {
        self.draft.finish()
    }
}
