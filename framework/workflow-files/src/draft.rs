//! Tasks and dependencies that the reader of a file has collected, and their conversion into a checked description.

use std::collections::{BTreeMap, HashMap, HashSet};

use armature_planner::workflow::Edge;

use crate::description::{Action, Description, File, Forward, Task};
use crate::error::{Error, ErrorKind, Result, SourceLocation, shown};

/// Maximum length of a task name or file name in bytes: the longest path that Linux accepts (`PATH_MAX`).
const LONGEST_NAME: usize = 4096;

/// Tasks and dependencies as they were read from a file. Names may still be invalid or repeated, and dependencies may form a cycle.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) name: String,
    pub(crate) tasks: Vec<(Task, SourceLocation)>,
    pub(crate) links: Vec<Link>,
    /// Ids by which the dependencies in the file may refer to tasks instead of by their names, with the number of each task.
    pub(crate) aliases: HashMap<String, usize>,
    pub(crate) limits: BTreeMap<String, u64>,
}

/// A dependency between two tasks, with the number of bytes that the second task reads from the first one in addition to files.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) size: u64,
    pub(crate) place: SourceLocation,
}

/// One end of a dependency: a task, by number or by name.
#[derive(Debug)]
pub(crate) enum End {
    Number(usize),
    Name(String),
}

impl Draft {
    /// Checks the names, limits and dependencies of the collected tasks, and determines the edges of the workflow, also those that follow from files.
    pub(crate) fn finish(self) -> Result<Description> {
        for (task, place) in &self.tasks {
            check_task(task, &self.limits).map_err(|message| Error::new(ErrorKind::Value, place, message))?;
        }
        let edges = self.edges()?;
        let mut tasks: Vec<Task> = self.tasks.into_iter().map(|(task, _)| task).collect();
        // `collect` reuses the larger allocation. Each rank keeps the tasks during its run.
        tasks.shrink_to_fit();
        let description = Description { name: self.name, tasks, edges, limits: self.limits };
        description.to_workflow()?;
        Ok(description)
    }

    fn edges(&self) -> Result<Vec<Edge>> {
        let names = self.names()?;
        let writers = self.writers()?;
        let mut edges = Vec::with_capacity(self.links.len());
        for Link { from, to, size, place } in &self.links {
            let find = |end: &End| match end {
                End::Number(number) => Ok(*number),
                End::Name(name) => names.get(name.as_str()).copied().ok_or_else(|| {
                    let message = format!("there is no task {}: expected the name of a task", shown(name));
                    Error::new(ErrorKind::Graph, place, message)
                }),
            };
            let (from, to) = (find(from)?, find(to)?);
            if from == to {
                let message = format!("task {} depends on itself", shown(&self.tasks[to].0.name));
                return Err(Error::new(ErrorKind::Graph, place, message));
            }
            edges.push(Edge { from, to, size: *size });
        }
        for (to, (task, _)) in self.tasks.iter().enumerate() {
            let mut seen = HashSet::with_capacity(task.inputs.len());
            // A file that is listed twice as an input is read once. A task that reads and writes the same file does not depend on itself.
            for file in task.inputs.iter().filter(|file| seen.insert(file.name.as_str())) {
                if let Some(&(from, size)) = writers.get(file.name.as_str()).filter(|writer| writer.0 != to) {
                    edges.push(Edge { from, to, size: size.or(file.size).unwrap_or(0) });
                }
            }
        }
        edges.sort_unstable_by_key(|edge| (edge.from, edge.to, edge.size));
        // Several edges between the same two tasks become one, whose size is the sum. A sum that is too large saturates; the planner then reports
        // it.
        edges.dedup_by(|next, kept| {
            let same = (next.from, next.to) == (kept.from, kept.to);
            if same {
                kept.size = kept.size.saturating_add(next.size);
            }
            same
        });
        Ok(edges)
    }

    fn names(&self) -> Result<HashMap<&str, usize>> {
        let mut names = HashMap::with_capacity(self.tasks.len());
        for (number, (task, place)) in self.tasks.iter().enumerate() {
            if let Some(first) = names.insert(task.name.as_str(), number) {
                let message = format!(
                    "task {} exists already, at {}: expected another name",
                    shown(&task.name),
                    self.tasks[first].1
                );
                return Err(Error::new(ErrorKind::Graph, place, message));
            }
        }
        for (alias, &number) in &self.aliases {
            names.entry(alias).or_insert(number);
        }
        Ok(names)
    }

    fn writers(&self) -> Result<HashMap<&str, (usize, Option<u64>)>> {
        let mut writers: HashMap<&str, (usize, Option<u64>)> = HashMap::new();
        for (number, (task, place)) in self.tasks.iter().enumerate() {
            for file in &task.outputs {
                let before = writers.insert(&file.name, (number, file.size));
                if let Some((first, _)) = before.filter(|before| before.0 != number) {
                    let message = format!(
                        "task {} writes file {}, which task {} also writes: expected one writer",
                        shown(&task.name),
                        shown(&file.name),
                        shown(&self.tasks[first].0.name)
                    );
                    return Err(Error::new(ErrorKind::Graph, place, message));
                }
            }
        }
        Ok(writers)
    }
}

fn check_task(task: &Task, limits: &BTreeMap<String, u64>) -> Result<(), String> {
    check_name("the name of a task", &task.name)?;
    for File { name, .. } in task.inputs.iter().chain(&task.outputs) {
        check_file(name)?;
    }
    for forward in &task.forwards {
        match forward {
            Forward::Pipe { variable, file } => check_variable(variable).and_then(|()| check_file(file))?,
            Forward::File { source, destination } => {
                check_file(source).and_then(|()| check_file(destination))?
            }
        }
    }
    let name = shown(&task.name);
    if task.cores == 0 || task.tries == Some(0) {
        return Err(format!("task {name} has 0 cores or tries: expected at least 1"));
    }
    if let Some(time) = task.run_time.filter(|time| !(time.is_finite() && *time >= 0.0)) {
        return Err(format!("the run time of task {name} is {time}: expected 0 or more seconds"));
    }
    for (limit, amount) in &task.limits {
        match limits.get(limit) {
            None => {
                return Err(format!(
                    "task {name} uses limit {}: there is no limit of this name",
                    shown(limit)
                ));
            }
            Some(most) if amount > most => {
                return Err(format!(
                    "task {name} uses {amount} of limit {}: expected at most {most}",
                    shown(limit)
                ));
            }
            Some(_) => {}
        }
    }
    for (variable, value) in &task.environment {
        check_variable(variable)?;
        check_text(value)?;
    }
    match &task.action {
        Action::Nothing => Ok(()),
        Action::Closure(name) => check_name("the name of a closure", name),
        Action::Shell(line) => check_command(line),
        Action::Command { program, arguments } => check_command(program)
            .and_then(|()| arguments.iter().try_for_each(|argument| check_text(argument))),
    }
}

/// Checks a name from a file. Control characters and changes of text direction are refused, because the name may be shown on a terminal. `what`
/// describes the name in the error message.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    let turns = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let fault = if name.is_empty() {
        "at least one character"
    } else if name.len() > LONGEST_NAME {
        &format!("at most {LONGEST_NAME} bytes")
    } else if name.contains(|c: char| c.is_control() || turns(c)) {
        "no control characters"
    } else {
        return Ok(());
    };
    Err(format!("{what} is {}: expected {fault}", shown(name)))
}

/// Checks a file name, which must not lead out of the directory of a run's files.
fn check_file(name: &str) -> Result<(), String> {
    check_name("the name of a file", name)?;
    if name.split('/').any(|part| part == "..") {
        return Err(format!("the name of a file is {}: expected no part \"..\"", shown(name)));
    }
    Ok(())
}

fn check_variable(name: &str) -> Result<(), String> {
    check_name("the name of a variable", name)?;
    if name.contains('=') {
        return Err(format!("the name of a variable is {}: expected no \"=\"", shown(name)));
    }
    Ok(())
}

fn check_command(command: &str) -> Result<(), String> {
    if command.is_empty() {
        return Err("the command is empty: expected a program".into());
    }
    check_text(command)
}

/// Checks a text that is passed to a program. A zero byte is refused, because programs take it for the end of the text.
fn check_text(text: &str) -> Result<(), String> {
    if text.contains('\0') { Err(format!("{} has a zero byte: expected text", shown(text))) } else { Ok(()) }
}
