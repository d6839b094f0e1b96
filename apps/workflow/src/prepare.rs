//! Conversion of a workflow file into a workflow that ranks can run, in which every task is a command or a registered closure.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use armature_files::regular;
use armature_papers::workflow::generate::Family;
use armature_workflow_files::{Action, Description, File, Format, Forward, Task, read_as};

/// Name of the closure for tasks without a command, which only order other tasks.
pub const NOTHING: &str = "nothing";
/// Name of the closure for tasks that replay recorded measurements instead of running commands.
pub const REPLAY: &str = "synthetic-work";

/// Reads a workflow file, in any supported format.
///
/// # Errors
/// The file cannot be read or parsed. The error contains the position and the expected content.
pub fn read(path: &Path) -> Result<(Description, Format), armature::BoxError> {
    let name = path.display().to_string();
    let bytes = regular::read(path).map_err(|error| format!("cannot read the workflow {name}: {error}"))?;
    let format = Format::of(&name, &bytes)?;
    Ok((read_as(format, &name, &bytes)?, format))
}

/// Parameters of a synthetic workflow (`--generate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Family of applications whose workflow structure is generated, such as Montage.
    pub family: Family,
    /// Approximate number of tasks.
    pub tasks: usize,
    /// Seed of the run times, memory and file sizes.
    pub seed: u64,
}

/// Unit, in bytes, of the memory and file sizes that the generator of synthetic workflows returns.
const GENERATED_UNIT: u64 = 1_000_000;

impl Generated {
    /// Generates the workflow. Its tasks have run times, memory and file sizes, but no commands.
    ///
    /// # Errors
    /// Parameters that the generator rejects. Parsed parameters are always accepted.
    pub fn describe(self) -> Result<Description, armature::BoxError> {
        let graph = self.family.build(self.tasks, self.seed)?;
        let mut builder = Description::builder(self.family.to_string());
        for number in 0..graph.len() {
            let mut task = Task::new(graph.name(number), Action::Nothing);
            task.run_time = Some(graph.work(number));
            task.memory = Some(GENERATED_UNIT * graph.memory(number));
            builder.task(task);
        }
        for edge in graph.edges() {
            builder.edge(graph.name(edge.from), graph.name(edge.to), GENERATED_UNIT * edge.size);
        }
        Ok(builder.build()?)
    }
}

impl FromStr for Generated {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MAX_TASKS: usize = 100_000;
        let expected = || {
            format!(
                "expected FAMILY:TASKS or FAMILY:TASKS:SEED, with 1 to {MAX_TASKS} tasks, as in montage:200"
            )
        };
        let (family, rest) = text.split_once(':').ok_or_else(expected)?;
        let (tasks, seed) = rest.split_once(':').unwrap_or((rest, "1"));
        let tasks =
            tasks.parse().ok().filter(|tasks| (1..=MAX_TASKS).contains(tasks)).ok_or_else(expected)?;
        let seed = seed.parse().map_err(|_| expected())?;
        Ok(Generated { family: family.parse()?, tasks, seed })
    }
}

/// Factors by which recorded measurements are scaled before tasks replay them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Factor by which run times are multiplied.
    pub time: f64,
    /// Factor by which the memory of tasks is multiplied.
    pub memory: f64,
    /// Factor by which file sizes are multiplied.
    pub size: f64,
}

fn scaled(bytes: u64, by: f64) -> u64 {
    (bytes as f64 * by).round() as u64
}

/// Returns the workflow with tasks that run commands on ranks with a shared directory. Edges have size 0, because results are files in this
/// directory. Output of commands to pipes is written to files in `outputs` (see [`captured`]).
///
/// # Errors
/// A task whose command ranks cannot run.
pub fn with_commands(description: &Description, outputs: &Path) -> Result<Description, armature::BoxError> {
    check_commands(description)?;
    rebuilt(description, executable_action, |number, task| with_pipes(number, task, outputs), |_| 0)
}

/// Returns the workflow with tasks that run commands on ranks without a shared directory. The tasks keep the names of the files that ranks must send.
///
/// # Errors
/// A task that cannot be run without a shared directory.
pub fn with_sent_files(description: &Description) -> Result<Description, armature::BoxError> {
    check_commands(description)?;
    let tasks = description.tasks();
    if let Some(task) = tasks.iter().find(|task| !task.forwards.is_empty()) {
        let text = format!(
            "task {:?} forwards output (-f, -F), which --send-files does not support: expected a file among its outputs",
            task.name
        );
        return Err(text.into());
    }
    if tasks.iter().all(|task| task.inputs.is_empty() && task.outputs.is_empty()) {
        let text = "no task names a file that it reads or writes, so --send-files has nothing to send: expected inputs and \
                    outputs, which a .dag cannot have";
        return Err(text.into());
    }
    let names = |files: &[File]| files.iter().map(|file| File::new(&file.name, None)).collect();
    let with_files = |number: usize, mut task: Task| {
        if !matches!(task.action, Action::Closure(_)) {
            (task.inputs, task.outputs) = (names(&tasks[number].inputs), names(&tasks[number].outputs));
        }
        task
    };
    rebuilt(description, executable_action, with_files, |_| 0)
}

fn executable_action(action: &Action) -> Action {
    match action {
        Action::Nothing => Action::Closure(NOTHING.into()),
        command => command.clone(),
    }
}

/// Checks that the commands of a workflow's tasks can be run by ranks.
///
/// # Errors
/// The first task whose command ranks cannot run, or a workflow without commands.
pub fn check_commands(description: &Description) -> Result<(), armature::BoxError> {
    if description.tasks().iter().all(|task| task.action == Action::Nothing) {
        let text = "no task has a command: expected commands, or --synthetic-work to replay the measured times and sizes";
        return Err(text.into());
    }
    for task in description.tasks() {
        let name = &task.name;
        if let Action::Closure(closure) = &task.action {
            let text = format!(
                "task {name:?} runs the closure {closure:?}, which only your own program can run: expected a command"
            );
            return Err(text.into());
        }
        let pipes = task.forwards.iter().filter(|forward| matches!(forward, Forward::Pipe { .. })).count();
        if pipes > PIPES.len() {
            let most = PIPES.len();
            return Err(format!("task {name:?} has {pipes} pipes (-f): expected {most} at most").into());
        }
    }
    Ok(())
}

/// File descriptors for the pipes to which a task's command writes: every shell supports 3 to 9 in addition to the three standard descriptors.
const PIPES: Range<usize> = 3..10;

/// Returns the path of the file that holds a task's output to a pipe until the task is done. `at` is the index of the pipe among the outputs that the
/// task forwards to other files.
pub fn captured(outputs: &Path, task: usize, at: usize) -> PathBuf {
    outputs.join(format!("forward-{task}-{at}"))
}

/// Returns the task with a command that opens its pipes as files, so that no process has to read them while the task runs.
fn with_pipes(number: usize, mut task: Task, outputs: &Path) -> Task {
    let mut descriptors = PIPES;
    let (mut removed, mut opened) = (String::new(), String::new());
    for (at, forward) in std::mem::take(&mut task.forwards).into_iter().enumerate() {
        if let Forward::Pipe { variable, .. } = forward
            && let Some(descriptor) = descriptors.next()
        {
            let path = captured(outputs, number, at).display().to_string().replace('\'', "'\\''");
            removed += &format!(" '{path}'");
            opened += &format!(" {descriptor}>'{path}'");
            task.environment.insert(variable, descriptor.to_string());
        }
    }
    if opened.is_empty() {
        return task;
    }
    // Another user could guess the file names and create symbolic links in their place. With `-C`, the shell refuses existing files and follows no
    // link.
    let open = format!("rm -f --{removed} && set -C && exec{opened} && set +C");
    task.action = match task.action {
        Action::Command { program, arguments } => {
            let shell_arguments = ["-c".into(), format!("{open} && exec \"$0\" \"$@\""), program];
            Action::Command {
                program: "/bin/sh".into(),
                arguments: shell_arguments.into_iter().chain(arguments).collect(),
            }
        }
        Action::Shell(line) => Action::Shell(format!("{open} || exit 1\n{line}")),
        other => other,
    };
    task
}

/// Returns the workflow with tasks that replay the recorded measurements, multiplied by `scale`, instead of running commands.
///
/// # Errors
/// A number that is too large after scaling.
pub fn scaled_for_replay(description: &Description, scale: Scale) -> Result<Description, armature::BoxError> {
    let rescaled = |_, mut task: Task| {
        task.run_time = Some(task.run_time.unwrap_or(1.0) * scale.time);
        task.memory = task.memory.map(|memory| scaled(memory, scale.memory));
        task.forwards.clear();
        task
    };
    rebuilt(description, |_| Action::Closure(REPLAY.into()), rescaled, |size| scaled(size, scale.size))
}

fn rebuilt(
    description: &Description,
    action: impl Fn(&Action) -> Action,
    change: impl Fn(usize, Task) -> Task,
    size: impl Fn(u64) -> u64,
) -> Result<Description, armature::BoxError> {
    let mut builder = Description::builder(description.name());
    for (number, task) in description.tasks().iter().enumerate() {
        let mut task = task.clone();
        task.action = action(&task.action);
        // A task with a closure does not count as done, even if an earlier run completed it. The value that the closure returned no longer exists.
        task.done &= !matches!(task.action, Action::Closure(_));
        // The files of a task are not needed, because the edges contain the dependences between tasks.
        (task.inputs, task.outputs) = Default::default();
        builder.task(change(number, task));
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

/// Checks that the input files of remaining tasks exist in `directory`, except files that tasks of the workflow write.
///
/// # Errors
/// The first missing file, and the task that reads it.
pub fn check_inputs(description: &Description, directory: &Path) -> Result<(), armature::BoxError> {
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
    fn tasks_that_cannot_run_are_refused_by_name() {
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
        assert!(toml("[[task]]\nid = \"a\"\n").contains("no task has a command"));
    }

    #[test]
    fn forwarded_output_uses_files_and_descriptors() {
        let description = dag("TASK b x\nTASK a -F s=d -f V=x -f W=y /bin/echo 'a b'\n");
        let commands = with_commands(&description, Path::new("/it's")).unwrap();
        let task = &commands.tasks()[1];
        let opened = "rm -f -- '/it'\\''s/forward-1-1' '/it'\\''s/forward-1-2' && set -C && \
                      exec 3>'/it'\\''s/forward-1-1' 4>'/it'\\''s/forward-1-2' && set +C && exec \"$0\" \"$@\"";
        let arguments = ["-c", opened, "/bin/echo", "a b"].map(String::from).to_vec();
        assert_eq!(task.action, Action::Command { program: "/bin/sh".into(), arguments });
        assert_eq!((task.environment["V"].as_str(), task.environment["W"].as_str()), ("3", "4"));
        assert!(task.forwards.is_empty() && commands.tasks()[0] == description.tasks()[0]);
    }

    #[test]
    fn generated_workflows_match_their_specification() {
        let generated: Generated = "blast:20:7".parse().unwrap();
        assert_eq!(generated, Generated { family: Family::Blast, tasks: 20, seed: 7 });
        assert_eq!("bwa:9".parse::<Generated>().unwrap().seed, 1);
        let description = generated.describe().unwrap();
        assert_eq!((description.name(), description.tasks().len()), ("blast", 20));
        assert_eq!(description.tasks()[0].memory.unwrap() % GENERATED_UNIT, 0);
        for text in ["blast", "blast:", "blast:0", "blast:1000000", "blast:9:x"] {
            assert!(text.parse::<Generated>().unwrap_err().starts_with("expected FAMILY:TASKS"), "{text}");
        }
        let error = "blosum:9".parse::<Generated>().unwrap_err();
        assert!(error.contains("\"blosum\"") && error.contains("montage"), "{error}");
    }

    #[test]
    fn commands_pass_files_and_replay_passes_scaled_values() {
        let file = "limit.db = 2\n[[task]]\nid = \"a\"\ncommand = \"x\"\nmemory = 1000\nrun_time = 8\noutputs = [{ name = \"f\", size = 500 }]\n\
                    [[task]]\nid = \"b\"\ncommand = \"y\"\ninputs = [\"f\"]\nlimits = { db = 1 }\n";
        let description = read("a.toml", file.as_bytes()).unwrap();
        let commands = with_commands(&description, Path::new("/o")).unwrap();
        assert_eq!((commands.edges()[0].size, commands.tasks()[0].memory), (0, Some(1000)));
        assert_eq!(commands.limits()["db"], 2);
        let scaled_description =
            scaled_for_replay(&description, Scale { time: 0.25, memory: 0.5, size: 2.0 }).unwrap();
        assert_eq!(
            (
                scaled_description.edges()[0].size,
                scaled_description.tasks()[0].memory,
                scaled_description.tasks()[0].run_time
            ),
            (1000, Some(500), Some(2.0))
        );
        assert_eq!(scaled_description.tasks()[1].run_time, Some(0.25));
    }

    #[test]
    fn inputs_must_exist_unless_a_task_writes_them() {
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
