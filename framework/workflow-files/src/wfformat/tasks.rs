//! Reads the fields of tasks that the flat layout (WfFormat up to 1.4) and the nested layout (from 1.5) have in common.

use crate::description::{Action, Task};
use crate::draft::{Draft, End, Link};
use crate::error::{Result, SourceLocation};
use crate::path::At;

/// Adds dependencies to the draft: that of the task on each of its `parents`, and that of each of its `children` on the task.
pub(super) fn links(draft: &mut Draft, task: &At<'_>, list: &'static str, number: usize) -> Result<()> {
    for (key, is_parent) in [("parents", true), ("children", false)] {
        for (item, other) in task.texts(key)?.into_iter().enumerate() {
            let (other, this) = (End::Name(other), End::Number(number));
            let (from, to) = if is_parent { (other, this) } else { (this, other) };
            draft.links.push(Link {
                from,
                to,
                size: 0,
                place: SourceLocation::Inner(list, number, key, item),
            });
        }
    }
    Ok(())
}

/// Returns the action of a task's command: a line for a shell, because the arguments are fragments of a shell line.
fn command(task: &At<'_>) -> Result<Action> {
    let Some(command) = task.find("command") else { return Ok(Action::Nothing) };
    let Some(program) = command.find("program") else { return Ok(Action::Nothing) };
    let mut line = program.text()?.to_string();
    for argument in command.texts("arguments")? {
        line.push(' ');
        line.push_str(&argument);
    }
    Ok(if line.is_empty() { Action::Nothing } else { Action::Shell(line) })
}

pub(super) fn common(task: &mut Task, at: &At<'_>) -> Result<()> {
    task.action = command(at)?;
    task.priority = at.find("priority").map_or(Ok(0), |priority| priority.signed())?;
    Ok(())
}

/// Returns a number of cores, at least 1 and rounded up. Measured numbers may be 0 or fractions.
pub(super) fn cores(at: &At<'_>) -> Result<u32> {
    let cores = at.amount()?.ceil().max(1.0);
    if cores > f64::from(u32::MAX) { Err(at.wrong("a number below 2³²")) } else { Ok(cores as u32) }
}
