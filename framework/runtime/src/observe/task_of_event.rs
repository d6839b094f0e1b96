//! Names of the workflow tasks that events concern.

use super::event::Event;
use super::task_events::{TaskBegan, TaskEnded, TaskHeld, ValueCame, ValueOnDisk};

impl Event {
    /// Returns the name of the task of a workflow that the event concerns, if there is one.
    pub fn task(&self) -> Option<&str> {
        match self {
            Event::TaskHeld(TaskHeld { task, .. })
            | Event::TaskBegan(TaskBegan { task, .. })
            | Event::TaskEnded(TaskEnded { task, .. })
            | Event::ValueCame(ValueCame { task, .. })
            | Event::ValueSpilled(ValueOnDisk { task, .. })
            | Event::ValueLoaded(ValueOnDisk { task, .. }) => Some(task),
            _ => None,
        }
    }
}
