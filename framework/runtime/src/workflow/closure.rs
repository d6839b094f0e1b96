//! Tasks as closures: what they read, and how what they give becomes bytes.

use std::fmt;

use armature_commands::Ended;

use super::graph::Graph;
use super::value::Value;
use crate::context::Context;
use crate::error::BoxError;
use crate::wire::{Codec, Item};

/// What a task reads: a value of each of its parents, encoded until it is taken.
///
/// Parents are in the order in which their tasks stand in the description.
pub struct Inputs<'a> {
    graph: &'a Graph,
    task: usize,
    values: Vec<Option<Value>>,
}

impl<'a> Inputs<'a> {
    pub(super) fn new(graph: &'a Graph, task: usize, values: Vec<Value>) -> Self {
        Inputs { graph, task, values: values.into_iter().map(Some).collect() }
    }

    /// How many parents the task has.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The names of the parents.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.graph.parents(self.task).map(|parent| self.graph.dag.name(parent))
    }

    /// Takes what the parent of this name gives.
    ///
    /// # Errors
    /// If there is no such parent, its value has been taken already, or is one of another type.
    pub fn take<T: Item>(&mut self, parent: &str) -> Result<T, BoxError> {
        let at = self.graph.parents(self.task).position(|number| self.graph.dag.name(number) == parent);
        let at = at.ok_or_else(|| format!("{parent:?} is not among the tasks that it reads from"))?;
        self.take_at(at)
    }

    /// Takes what all parents give, in their order, where all give values of the same type.
    ///
    /// # Errors
    /// If a value has been taken already, or is one of another type.
    pub fn take_all<T: Item>(&mut self) -> Result<Vec<T>, BoxError> {
        (0..self.values.len()).map(|at| self.take_at(at)).collect()
    }

    fn take_at<T: Item>(&mut self, at: usize) -> Result<T, BoxError> {
        let Inputs { graph, task, .. } = *self;
        let name = || graph.parents(task).nth(at).map_or("", |parent| graph.dag.name(parent));
        let Some(value) = self.values[at].take() else {
            return Err(format!("what {:?} gives has been taken already", name()).into());
        };
        value.decode().map_err(|error| format!("what {:?} gives: {}", name(), error.message()).into())
    }
}

impl fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// What hears of each try of a command that has ended.
pub(super) type AfterCommand<'w> = Box<dyn FnMut(&Ended, &Context) -> Result<(), BoxError> + Send + 'w>;

/// A closure whatever it gives.
pub(super) trait Erased: Send {
    fn call(&mut self, inputs: &mut Inputs<'_>, context: &Context) -> Result<Value, BoxError>;
}

/// A closure, and how what it gives is encoded.
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
        let given = (self.call)(inputs, context)?;
        Ok(Value::encode(given, &self.codec)?)
    }
}
