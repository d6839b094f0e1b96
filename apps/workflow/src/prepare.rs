//! From a file to a description that ranks can run: every task a command or a closure, and in memory what values there will be.

use std::collections::BTreeSet;
use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};

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

/// The workflow with commands as tasks. Their files are on disk: no values go from task to task. What goes into pipes goes to files in
/// `outputs` ([`captured`]).
///
/// # Errors
/// A task that cannot be run here.
pub fn with_commands(description: &Description, outputs: &Path) -> Result<Description, Box<dyn Error>> {
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
        let pipes = task.forwards.iter().filter(|forward| matches!(forward, Forward::Pipe { .. })).count();
        if pipes > PIPES.len() {
            let most = PIPES.len();
            return Err(format!("task {name:?} has {pipes} pipes (-f): expected {most} at most").into());
        }
    }
    let action = |action: &Action| match action {
        Action::Nothing => Action::Closure(NOTHING.into()),
        command => command.clone(),
    };
    rebuilt(description, action, |number, task| with_pipes(number, task, outputs), |_| 0)
}

/// The descriptors of a task's pipes: those that every shell can give a command beside the three that it has anyway.
const PIPES: Range<usize> = 3..10;

/// Where what a task writes to a pipe is kept until the task is done; `at` is the pipe's place among all that the task hands on.
pub fn captured(outputs: &Path, task: usize, at: usize) -> PathBuf {
    outputs.join(format!("forward-{task}-{at}"))
}

/// A task with its pipes open for writing, each a file of its own until it is done, so that nobody has to read them meanwhile.
fn with_pipes(number: usize, mut task: Task, outputs: &Path) -> Task {
    let mut descriptors = PIPES;
    let mut opened = String::new();
    for (at, forward) in std::mem::take(&mut task.forwards).into_iter().enumerate() {
        if let Forward::Pipe { variable, .. } = forward
            && let Some(descriptor) = descriptors.next()
        {
            let path = captured(outputs, number, at).display().to_string().replace('\'', "'\\''");
            opened += &format!(" {descriptor}>'{path}'");
            task.environment.insert(variable, descriptor.to_string());
        }
    }
    if opened.is_empty() {
        return task;
    }
    task.action = match task.action {
        Action::Command { program, arguments } => {
            let words = ["-c".into(), format!("exec{opened} && exec \"$0\" \"$@\""), program];
            Action::Command {
                program: "/bin/sh".into(),
                arguments: words.into_iter().chain(arguments).collect(),
            }
        }
        Action::Shell(line) => Action::Shell(format!("exec{opened}\n{line}")),
        other => other,
    };
    task
}

/// The workflow with tasks that compute, hold and write what was measured.
///
/// # Errors
/// Numbers that are too large when they are scaled.
pub fn with_toil(description: &Description, scale: Scale) -> Result<Description, Box<dyn Error>> {
    let rescaled = |_, mut task: Task| {
        task.run_time = Some(task.run_time.unwrap_or(1.0) * scale.time);
        task.memory = task.memory.map(|memory| scaled(memory, scale.memory));
        task.forwards.clear();
        task
    };
    rebuilt(description, |_| Action::Closure(TOIL.into()), rescaled, |size| scaled(size, scale.size))
}

fn rebuilt(
    description: &Description,
    action: impl Fn(&Action) -> Action,
    change: impl Fn(usize, Task) -> Task,
    size: impl Fn(u64) -> u64,
) -> Result<Description, Box<dyn Error>> {
    let mut builder = Description::builder(description.name());
    for (number, task) in description.tasks().iter().enumerate() {
        let action = action(&task.action);
        // What a command has written may be there; what a closure gives is not.
        let done = task.done && !matches!(action, Action::Closure(_));
        // Who reads from whom is in the edges.
        let (inputs, outputs) = Default::default();
        builder.task(change(number, Task { action, inputs, outputs, done, ..task.clone() }));
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
        let error =
            |description: &Description| with_commands(description, Path::new("/o")).unwrap_err().to_string();
        let pipes: String = (0..8).map(|n| format!("-f V{n}=x ")).collect();
        assert_eq!(
            error(&dag(&format!("TASK a {pipes} /bin/true\n"))),
            "task \"a\" has 8 pipes (-f): expected 7 at most"
        );
        let toml = |text: &str| error(&read("a.toml", text.as_bytes()).unwrap());
        assert!(
            toml("[[task]]\nid = \"a\"\nclosure = \"f\"\n").contains("task \"a\" runs the closure \"f\"")
        );
        assert!(toml("[[task]]\nid = \"a\"\n").contains("no task says what it runs"));
    }

    #[test]
    fn pipes_are_files_until_the_task_is_done() {
        let description = dag("TASK b x\nTASK a -F s=d -f V=x -f W=y /bin/echo 'a b'\n");
        let commands = with_commands(&description, Path::new("/it's")).unwrap();
        let task = &commands.tasks()[1];
        let opened = "exec 3>'/it'\\''s/forward-1-1' 4>'/it'\\''s/forward-1-2' && exec \"$0\" \"$@\"";
        let arguments = ["-c", opened, "/bin/echo", "a b"].map(String::from).to_vec();
        assert_eq!(task.action, Action::Command { program: "/bin/sh".into(), arguments });
        assert_eq!((task.environment["V"].as_str(), task.environment["W"].as_str()), ("3", "4"));
        assert!(task.forwards.is_empty() && commands.tasks()[0] == description.tasks()[0]);
    }

    #[test]
    fn commands_pass_files_and_toil_passes_scaled_values() {
        let file = "limit.db = 2\n[[task]]\nid = \"a\"\ncommand = \"x\"\nmemory = 1000\nrun_time = 8\noutputs = [{ name = \"f\", size = 500 }]\n\
                    [[task]]\nid = \"b\"\ncommand = \"y\"\ninputs = [\"f\"]\nlimits = { db = 1 }\n";
        let description = read("a.toml", file.as_bytes()).unwrap();
        let commands = with_commands(&description, Path::new("/o")).unwrap();
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
