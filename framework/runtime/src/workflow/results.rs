//! Results of a workflow: the values of its final tasks.

use std::collections::BTreeMap;
use std::fmt;

use super::handle::TaskName;
use super::value::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::wire::Item;

/// Values of the final tasks of a workflow, which no other task reads. A value is decoded when it is taken.
#[derive(Default)]
pub struct Results {
    pub(super) workflow: String,
    pub(super) values: BTreeMap<String, Value>,
}

impl Results {
    /// Returns the names of the tasks whose values have not been taken.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Takes the value of a task, which is named by its [`Handle`](super::Handle) or, with the type of its value, by its name.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if there is no value of this name: no final task has the name, the value has been taken, or the task has
    /// failed. [`ErrorKind::Wire`] if the value has another type.
    pub fn take<T: Item>(&mut self, task: impl TaskName<T>) -> Result<T> {
        let task = task.task_name();
        let value = self.values.remove(task).ok_or_else(|| {
            let text = format!("{task:?} is not among the final tasks whose values are here");
            Error::new(ErrorKind::Config, text).in_workflow(&self.workflow)
        })?;
        value.decode().map_err(|error| {
            let text = format!("what {task:?} gives: {}", error.message());
            Error::new(error.kind(), text).in_workflow(&self.workflow)
        })
    }
}

impl fmt::Debug for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
