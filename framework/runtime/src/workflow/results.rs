//! What a workflow gives: the values of its final tasks.

use std::collections::BTreeMap;
use std::fmt;

use super::value::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::wire::Item;

/// What final tasks gave, those from which nobody reads: by task, encoded until it is taken.
#[derive(Default)]
pub struct Results {
    pub(super) workflow: String,
    pub(super) values: BTreeMap<String, Value>,
}

impl Results {
    /// The names of the tasks whose values are still here.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Takes what a task gave.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the value of no final task of this name is here: it has another name, has been taken, or the task
    /// has failed; [`ErrorKind::Wire`] if it is one of another type.
    pub fn take<T: Item>(&mut self, task: &str) -> Result<T> {
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
