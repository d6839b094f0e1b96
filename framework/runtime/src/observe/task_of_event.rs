//! Which task of a workflow an event is about.

use super::event::Event;
use super::task_events::{TaskBegan, TaskEnded, TaskHeld, ValueCame, ValueOnDisk};

impl Event {
    /// The task of a workflow that it is about, if it is.
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
