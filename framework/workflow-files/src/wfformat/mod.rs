//! WfCommons' WfFormat.

mod flat;
mod nested;
mod write;

use serde_json::Value;

pub use write::to_wfformat;

use crate::description::{Action, Description, Task};
use crate::draft::{Draft, End, Link};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::path::At;

/// Reads versions 1.2 to 1.6.
pub(crate) fn read(text: &str) -> Result<Description> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        Error::new(ErrorKind::Syntax, format!("line {}", error.line()), format!("{error}: expected JSON"))
    })?;
    let root = At::root(&value);
    let version = root.get("schemaVersion", "a version of WfFormat, \"1.2\" to \"1.6\"")?;
    let mut draft = match version.text()? {
        "1.2" | "1.3" | "1.4" => flat::read(&root)?,
        "1.5" | "1.6" => nested::read(&root)?,
        "1.0" | "1.1" => {
            let message = format!(
                "is {:?}: expected 1.2 to 1.6; WfCommons' tools/wfcommons-migrate-instance.py (in its repository WfFormat) makes \
                 a newer file of it",
                version.text()?
            );
            return Err(version.error(ErrorKind::Version, message));
        }
        _ => {
            let error = version.wrong("1.2 to 1.6");
            return Err(version.error(ErrorKind::Version, error.message()));
        }
    };
    if let Some(name) = root.find("name") {
        draft.name = name.text()?.to_string();
    }
    draft.finish()
}

/// The parents and children that a task names.
fn links(draft: &mut Draft, task: &At<'_>, list: &'static str, number: usize) -> Result<()> {
    for (key, is_parent) in [("parents", true), ("children", false)] {
        for (item, other) in task.texts(key)?.into_iter().enumerate() {
            let (other, this) = (End::Name(other), End::Number(number));
            let (from, to) = if is_parent { (other, this) } else { (this, other) };
            draft.links.push(Link { from, to, size: 0, place: Place::Inner(list, number, key, item) });
        }
    }
    Ok(())
}

/// The line for a shell of a task's command: its arguments are fragments of one.
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

/// What both layouts call alike.
fn common(task: &mut Task, at: &At<'_>) -> Result<()> {
    task.action = command(at)?;
    task.priority = at.find("priority").map_or(Ok(0), |priority| priority.signed())?;
    Ok(())
}

/// A number of cores; measured ones are sometimes 0 or fractions, which occupy one or part of one more.
fn cores(at: &At<'_>) -> Result<u32> {
    let cores = at.amount()?.ceil().max(1.0);
    if cores > f64::from(u32::MAX) { Err(at.wrong("a number below 2³²")) } else { Ok(cores as u32) }
}
