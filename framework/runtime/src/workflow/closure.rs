//! Tasks that are closures: their inputs, and the encoding of their values.

use std::fmt;

use armature_commands::Ended;

use super::graph::Graph;
use super::value::Value;
use crate::context::Context;
use crate::error::BoxError;
use crate::wire::{Codec, Item};

/// Inputs of a task: the value of each of its parents, encoded until it is taken.
///
/// Parents are in the order of their tasks in the description.
pub struct Inputs<'a> {
    graph: &'a Graph,
    task: usize,
    values: Vec<Option<Value>>,
}

impl<'a> Inputs<'a> {
    pub(super) fn new(graph: &'a Graph, task: usize, values: Vec<Value>) -> Self {
        Inputs { graph, task, values: values.into_iter().map(Some).collect() }
    }

    /// Returns the number of parents.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if the task has no parents.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the names of the parents.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.graph.parents(self.task).map(|parent| self.graph.dag.name(parent))
    }

    /// Takes the value of the parent of this name.
    ///
    /// # Errors
    /// No parent has this name; the value of the parent has been taken already, or has another type.
    pub fn take<T: Item>(&mut self, parent: &str) -> Result<T, BoxError> {
        let at = self.graph.parents(self.task).position(|number| self.graph.dag.name(number) == parent);
        let at = at.ok_or_else(|| format!("{parent:?} is not one of the task's inputs"))?;
        self.take_at(at)
    }

    /// Takes the values of all parents in their order, if all have the same type.
    ///
    /// # Errors
    /// A value has been taken already, or has another type.
    pub fn take_all<T: Item>(&mut self) -> Result<Vec<T>, BoxError> {
        (0..self.values.len()).map(|at| self.take_at(at)).collect()
    }

    fn take_at<T: Item>(&mut self, at: usize) -> Result<T, BoxError> {
        let Inputs { graph, task, .. } = *self;
        let name = || graph.parents(task).nth(at).map_or("", |parent| graph.dag.name(parent));
        let Some(value) = self.values[at].take() else {
            return Err(format!("the output of {:?} has been taken already", name()).into());
        };
        value.decode().map_err(|error| format!("the output of {:?}: {}", name(), error.message()).into())
    }
}

impl fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// User code that is called after each try of a command; see [`Workflow::after_command`](super::Workflow::after_command).
pub(super) type AfterCommand<'w> = Box<dyn FnMut(&Ended, &Context) -> Result<(), BoxError> + Send + 'w>;

/// Closure of a task, without the types of its inputs and its value: gets encoded inputs and returns an encoded value.
pub(super) trait Erased: Send {
    fn call(&mut self, inputs: &mut Inputs<'_>, context: &Context) -> Result<Value, BoxError>;
}

pub(super) struct Closure<F, O> {
    pub(super) call: F,
    pub(super) codec: Codec<O>,
}

impl<F, O> Erased for Closure<F, O>
where
    F: FnMut(&mut Inputs<'_>, &Context) -> Result<O, BoxError> + Send,
    O: Item,
{
    fn call(&mut self, inputs: &mut Inputs<'_>, context: &Context) -> Result<Value, BoxError> {
        let result = (self.call)(inputs, context)?;
        Ok(Value::encode(result, &self.codec)?)
    }
}
