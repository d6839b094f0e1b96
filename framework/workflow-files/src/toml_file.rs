//! TOML format of this crate: one `[[task]]` per task.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::amounts;
use crate::description::{Action, Description, File, Task};
use crate::draft::{Draft, End, Link};
use crate::error::{Error, ErrorKind, Result, SourceLocation, shown};
use crate::path::At;

const TOP: &[&str] = &["name", "limit", "task"];
const TASK: &[&str] = &[
    "id",
    "kind",
    "command",
    "closure",
    "deps",
    "inputs",
    "outputs",
    "cpus",
    "memory",
    "tries",
    "time_limit",
    "priority",
    "limits",
    "env",
    "stdin",
    "run_time",
    "machine",
    "done",
];

pub(crate) fn parse(text: &str) -> Result<Value> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = 1 + text.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count();
        // The TOML parser's message may quote the file, so it is escaped and cut.
        let message = armature_text::shown(error.message());
        Error::new(ErrorKind::Syntax, SourceLocation::Line(line), format!("{message}: expected TOML"))
    })
}

pub(crate) fn read(text: &str) -> Result<Description> {
    let value = parse(text)?;
    let root = At::root(&value);
    known(&root, TOP)?;
    let mut draft = Draft::default();
    if let Some(name) = root.find("name") {
        draft.name = name.text()?.to_string();
    }
    if let Some(limits) = root.find("limit") {
        draft.limits = amounts_by_name(&limits)?;
    }
    let tasks = root.get("task", "at least one [[task]]")?;
    for (number, at) in tasks.elements()?.enumerate() {
        known(&at, TASK)?;
        let task = task(&at)?;
        for (item, name) in at.texts("deps")?.into_iter().enumerate() {
            let place = SourceLocation::Inner("task", number, "deps", item);
            draft.links.push(Link { from: End::Name(name), to: End::Number(number), size: 0, place });
        }
        draft.tasks.push((task, SourceLocation::Element("task", number)));
    }
    draft.finish()
}

/// Refuses unknown keys. The files are written by hand, and a misspelt key must not be ignored.
pub(crate) fn known(at: &At<'_>, keys: &[&str]) -> Result<()> {
    for (key, value) in at.fields()? {
        if !keys.contains(&key) {
            let message = format!("is an unknown key: expected one of {}", keys.join(", "));
            return Err(value.error(ErrorKind::Value, message));
        }
    }
    Ok(())
}

fn task(at: &At<'_>) -> Result<Task> {
    let mut task = Task::new(at.get("id", "the task's name")?.text()?, action(at)?);
    let text = |key| at.find(key).map(|value| value.text().map(str::to_string)).transpose();
    task.kind = text("kind")?;
    task.stdin = text("stdin")?;
    task.machine = text("machine")?;
    task.inputs = files(at, "inputs")?;
    task.outputs = files(at, "outputs")?;
    task.cores = at.find("cpus").map_or(Ok(1), |cores| cores.small())?;
    task.memory = at.find("memory").map(|memory| bytes(&memory)).transpose()?;
    task.tries = at.find("tries").map(|tries| tries.small()).transpose()?;
    task.time_limit = at.find("time_limit").map(|time| duration(&time)).transpose()?;
    task.priority = at.find("priority").map_or(Ok(0), |priority| priority.signed())?;
    task.run_time = at.find("run_time").map(|time| time.amount()).transpose()?;
    if let Some(limits) = at.find("limits") {
        task.limits = amounts_by_name(&limits)?;
    }
    if let Some(environment) = at.find("env") {
        for (variable, value) in environment.fields()? {
            task.environment.insert(variable.to_string(), value.text()?.to_string());
        }
    }
    task.done = at.find("done").map_or(Ok(false), |done| done.flag())?;
    Ok(task)
}

/// Reads the action of a task. A command that is text is a shell line; a command that is a list is a program with its arguments.
fn action(at: &At<'_>) -> Result<Action> {
    match (at.find("command"), at.find("closure")) {
        (Some(_), Some(closure)) => {
            Err(closure.error(ErrorKind::Value, "is set in addition to a command: expected one of them"))
        }
        (None, Some(closure)) => Ok(Action::Closure(closure.text()?.into())),
        (None, None) => Ok(Action::Nothing),
        (Some(command), None) if command.is_list() => {
            let mut words = at.texts("command")?.into_iter();
            let program = words.next().ok_or_else(|| command.wrong("a program and its arguments"))?;
            Ok(Action::Command { program, arguments: words.collect() })
        }
        (Some(command), None) => match command.as_text() {
            Some(line) => Ok(Action::Shell(line.into())),
            None => Err(command.wrong("a line for a shell, or a list of a program and its arguments")),
        },
    }
}

/// Reads a list of files. A file is a name, or `{ name = "…", size = 123 }`.
fn files(at: &At<'_>, key: &str) -> Result<Vec<File>> {
    let Some(list) = at.find(key) else { return Ok(Vec::new()) };
    let file = |at: At<'_>| {
        if let Some(name) = at.as_text() {
            return Ok(File { name: name.into(), size: None });
        }
        known(&at, &["name", "size"])?;
        let name = at.get("name", "the file's name")?.text()?.into();
        let size = bytes(&at.get("size", "the file's size (where it is not known, write the name only)")?)?;
        Ok(File { name, size: Some(size) })
    };
    list.elements()?.map(file).collect()
}

pub(crate) fn bytes(at: &At<'_>) -> Result<u64> {
    match at.as_text() {
        Some(text) => amounts::bytes(text).ok_or_else(|| at.wrong("bytes, such as 4096 or \"2 GiB\"")),
        None => at.whole(),
    }
}

fn duration(at: &At<'_>) -> Result<Duration> {
    let time = match at.as_text() {
        Some(text) => amounts::time(text),
        None => Duration::try_from_secs_f64(at.amount()?).ok(),
    };
    time.filter(|time| !time.is_zero())
        .ok_or_else(|| at.wrong("a time above 0, such as 90 (seconds), \"5 min\" or \"2 h\""))
}

fn amounts_by_name(at: &At<'_>) -> Result<BTreeMap<String, u64>> {
    at.fields()?
        .map(|(name, amount)| {
            if name.is_empty() || name.contains(char::is_control) {
                let message = format!("a limit is called {}: expected a name", shown(name));
                return Err(at.error(ErrorKind::Value, message));
            }
            Ok((name.to_string(), amount.whole()?))
        })
        .collect()
}
