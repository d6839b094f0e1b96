//! From a file to a description that ranks can run: every task a command or a closure, and in memory what values there will be.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use armature_files::regular;
use armature_workflow_files::{Action, Description, Format, Forward, Task, read_as};

/// The closure of tasks that run nothing, but for which others wait.
pub const NOTHING: &str = "nothing";
/// The closure of tasks that replay what was measured.
pub const TOIL: &str = "toil";

/// Reads a workflow.
///
/// # Errors
/// A file that cannot be read or understood, with the place in it and what was expected.
pub fn read(path: &Path) -> Result<(Description, Format), Box<dyn Error>> {
    let name = path.display().to_string();
    let bytes = regular::read(path).map_err(|error| format!("cannot read the workflow {name}: {error}"))?;
    let format = Format::of(&name, &bytes)?;
    Ok((read_as(format, &name, &bytes)?, format))
}

/// How what was measured is replayed: 0.001 of the time, say, and a hundredth of the memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Of run times.
    pub time: f64,
    /// Of the memory of tasks.
    pub memory: f64,
    /// Of the sizes of files.
    pub size: f64,
}

fn scaled(bytes: u64, by: f64) -> u64 {
    // Beyond what a number can say it is as large as can be said.
    (bytes as f64 * by).round() as u64
}

/// The workflow with commands as tasks. Their files are on disk: no values go from task to task.
///
/// # Errors
/// A task that cannot be run here.
pub fn with_commands(description: &Description) -> Result<Description, Box<dyn Error>> {
    if description.tasks().iter().all(|task| task.action == Action::Nothing) {
        let text = "no task says what it runs: expected commands. --toil replays the times and sizes that were measured";
        return Err(text.into());
    }
    for task in description.tasks() {
        let name = &task.name;
        if let Action::Closure(closure) = &task.action {
            let text = format!(
                "task {name:?} runs the closure {closure:?}, which a program of yours may have: expected a command"
            );
            return Err(text.into());
        }
        if task.forwards.iter().any(|forward| matches!(forward, Forward::Pipe { .. })) {
            let text =
                format!("task {name:?} hands data on by a pipe (-f): expected -F with a file that it writes");
            return Err(text.into());
        }
    }
    let action = |action: &Action| match action {
        Action::Nothing => Action::Closure(NOTHING.into()),
        command => command.clone(),
    };
    rebuilt(description, action, |task| task, |_| 0)
}

/// The workflow with tasks that compute, hold and write what was measured.
///
/// # Errors
/// Numbers that are too large when they are scaled.
pub fn with_toil(description: &Description, scale: Scale) -> Result<Description, Box<dyn Error>> {
    let rescaled = |mut task: Task| {
        task.run_time = Some(task.run_time.unwrap_or(1.0) * scale.time);
        task.memory = task.memory.map(|memory| scaled(memory, scale.memory));
        task
    };
    rebuilt(description, |_| Action::Closure(TOIL.into()), rescaled, |size| scaled(size, scale.size))
}

fn rebuilt(
    description: &Description,
    action: impl Fn(&Action) -> Action,
    change: impl Fn(Task) -> Task,
    size: impl Fn(u64) -> u64,
) -> Result<Description, Box<dyn Error>> {
    let mut builder = Description::builder(description.name());
    for task in description.tasks() {
        let action = action(&task.action);
        // What a command has written may be there; what a closure gives is not.
        let done = task.done && !matches!(action, Action::Closure(_));
        // Who reads from whom is in the edges.
        let (inputs, outputs, forwards) = Default::default();
        builder.task(change(Task { action, inputs, outputs, forwards, done, ..task.clone() }));
    }
    let name = |task: usize| description.tasks()[task].name.as_str();
    for edge in description.edges() {
        builder.edge(name(edge.from), name(edge.to), size(edge.size));
    }
    for (limit, &amount) in description.limits() {
        builder.limit(limit, amount);
    }
    Ok(builder.build()?)
}

/// Whether all files are there that tasks which are still to be run read and nobody writes.
///
/// # Errors
/// The first that is not, and who reads it.
pub fn check_inputs(description: &Description, directory: &Path) -> Result<(), Box<dyn Error>> {
    let written: BTreeSet<&str> =
        description.tasks().iter().flat_map(|task| &task.outputs).map(|file| file.name.as_str()).collect();
    for task in description.tasks().iter().filter(|task| !task.done) {
        let is_missing = |name: &str| !written.contains(name) && !directory.join(name).exists();
        if let Some(file) = task.inputs.iter().find(|file| is_missing(&file.name)) {
            let directory = directory.display();
            let text = format!(
                "task {:?} reads {:?}, which no task writes and which is not in {directory}: expected a file",
                task.name, file.name
            );
            return Err(text.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use armature_workflow_files::read;

    fn dag(text: &str) -> Description {
        read("a.dag", text.as_bytes()).unwrap()
    }

    #[test]
    fn what_cannot_be_run_is_refused_by_name() {
        let error = |text: &str| with_commands(&dag(text)).unwrap_err().to_string();
        assert!(error("TASK a -f V=x /bin/true\n").contains("task \"a\" hands data on by a pipe"));
        let toml =
            |text: &str| with_commands(&read("a.toml", text.as_bytes()).unwrap()).unwrap_err().to_string();
        assert!(
            toml("[[task]]\nid = \"a\"\nclosure = \"f\"\n").contains("task \"a\" runs the closure \"f\"")
        );
        assert!(toml("[[task]]\nid = \"a\"\n").contains("no task says what it runs"));
    }

    #[test]
    fn commands_pass_files_and_toil_passes_scaled_values() {
        let file = "limit.db = 2\n[[task]]\nid = \"a\"\ncommand = \"x\"\nmemory = 1000\nrun_time = 8\noutputs = [{ name = \"f\", size = 500 }]\n\
                    [[task]]\nid = \"b\"\ncommand = \"y\"\ninputs = [\"f\"]\nlimits = { db = 1 }\n";
        let description = read("a.toml", file.as_bytes()).unwrap();
        let commands = with_commands(&description).unwrap();
        assert_eq!((commands.edges()[0].size, commands.tasks()[0].memory), (0, Some(1000)));
        assert_eq!(commands.limits()["db"], 2);
        let toil = with_toil(&description, Scale { time: 0.25, memory: 0.5, size: 2.0 }).unwrap();
        assert_eq!(
            (toil.edges()[0].size, toil.tasks()[0].memory, toil.tasks()[0].run_time),
            (1000, Some(500), Some(2.0))
        );
        assert_eq!(toil.tasks()[1].run_time, Some(0.25));
    }

    #[test]
    fn inputs_must_be_there_unless_a_task_writes_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = "[[task]]\nid = \"a\"\ncommand = \"x\"\ninputs = [\"in\"]\noutputs = [\"f\"]\n\
                    [[task]]\nid = \"b\"\ncommand = \"y\"\ninputs = [\"f\"]\n";
        let mut description = read("a.toml", file.as_bytes()).unwrap();
        let error = check_inputs(&description, dir.path()).unwrap_err().to_string();
        assert!(error.starts_with("task \"a\" reads \"in\", which no task writes"), "{error}");
        description.set_done(0, true);
        check_inputs(&description, dir.path()).unwrap();
        description.set_done(0, false);
        std::fs::write(dir.path().join("in"), "").unwrap();
        check_inputs(&description, dir.path()).unwrap();
    }
}
