//! Handles of tasks whose values have a type, and the tasks that a program adds to a workflow.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use armature_workflow_files::{Description, Task};

use super::closure::Inputs;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::wire::Item;

/// A task of a workflow that a program builds. `T` is the type of its value.
pub struct Handle<T> {
    name: String,
    value: PhantomData<fn() -> T>,
}

impl<T> Handle<T> {
    pub(super) fn new(name: &str) -> Self {
        Handle { name: name.to_string(), value: PhantomData }
    }

    /// Returns the name of the task.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Handle::new(&self.name)
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.name).finish()
    }
}

/// Name of a task whose value has type `T`: a [`Handle`], which knows the type, or a string, if the caller states the type in another way.
pub trait TaskName<T> {
    /// Returns the name of the task.
    fn task_name(&self) -> &str;
}

impl<T> TaskName<T> for &Handle<T> {
    fn task_name(&self) -> &str {
        &self.name
    }
}

impl<T> TaskName<T> for &str {
    fn task_name(&self) -> &str {
        self
    }
}

impl<T> TaskName<T> for &String {
    fn task_name(&self) -> &str {
        self
    }
}

/// Tasks whose values another task reads: a [`Handle`], a tuple of up to four handles, or a slice of handles of the same type.
pub trait Parents {
    /// Tuple or list of the values that a task gets from the tasks on which it depends.
    type Values;

    /// Returns the names of the tasks.
    fn names(&self) -> Vec<String>;

    /// Takes the values of the tasks with these names.
    ///
    /// # Errors
    /// A value has been taken already, or cannot be decoded.
    fn values(names: &[String], inputs: &mut Inputs<'_>) -> Result<Self::Values, BoxError>;
}

impl<T: Item> Parents for &[Handle<T>] {
    type Values = Vec<T>;

    fn names(&self) -> Vec<String> {
        self.iter().map(|handle| handle.name.clone()).collect()
    }

    fn values(names: &[String], inputs: &mut Inputs<'_>) -> Result<Vec<T>, BoxError> {
        names.iter().map(|name| inputs.take(name)).collect()
    }
}

impl<T: Item> Parents for &Vec<Handle<T>> {
    type Values = Vec<T>;

    fn names(&self) -> Vec<String> {
        self.as_slice().names()
    }

    fn values(names: &[String], inputs: &mut Inputs<'_>) -> Result<Vec<T>, BoxError> {
        <&[Handle<T>]>::values(names, inputs)
    }
}

impl<T: Item> Parents for &Handle<T> {
    type Values = T;

    fn names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn values(names: &[String], inputs: &mut Inputs<'_>) -> Result<T, BoxError> {
        <(&Handle<T>,)>::values(names, inputs).map(|(value,)| value)
    }
}

macro_rules! parents {
    ($($handle:ident: $type:ident),*) => {
        impl<$($type: Item),*> Parents for ($(&Handle<$type>,)*) {
            type Values = ($($type,)*);

            fn names(&self) -> Vec<String> {
                let ($($handle,)*) = self;
                vec![$($handle.name.clone()),*]
            }

            fn values(names: &[String], inputs: &mut Inputs<'_>) -> Result<Self::Values, BoxError> {
                let [$($handle,)*] = names else { return Err("a task has other parents than it names".into()) };
                Ok(($(inputs.take::<$type>($handle)?,)*))
            }
        }
    };
}
parents!(a: A);
parents!(a: A, b: B);
parents!(a: A, b: B, c: C);
parents!(a: A, b: B, c: C, d: D);

/// Tasks and dependencies of a workflow that a program builds.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) tasks: Vec<Task>,
    /// For each dependency: name of a task, and name of a task that reads its value.
    pub(super) edges: Vec<(String, String)>,
    /// True if the workflow was created from a complete description, to which no task can be added.
    pub(super) is_described: bool,
    pub(super) sizes: BTreeMap<String, u64>,
}

impl Draft {
    /// Returns a description of the workflow with the tasks that the program has added.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the tasks do not form a workflow (two have the same name, for example), or if the workflow was created from a
    /// complete description.
    pub(super) fn describe(&self, name: &str) -> Result<Description> {
        if self.is_described {
            let text = "tasks were added to a workflow that has a description, expected only one of the two";
            return Err(Error::new(ErrorKind::Config, text));
        }
        let mut builder = Description::builder(name);
        for task in &self.tasks {
            builder.task(task.clone());
        }
        for (from, to) in &self.edges {
            builder.edge(from, to, self.sizes.get(from).copied().unwrap_or(0));
        }
        builder.build().map_err(|error| Error::new(ErrorKind::Config, error.to_string()))
    }
}
