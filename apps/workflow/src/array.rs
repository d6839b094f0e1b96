//! Workflow of one command that runs for many entries: the numbers of `--array`, or the lines of `--each-line`.

use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;

use armature_files::output;
use armature_files::regular;
use armature_workflow_files::{Description, Format, Task, read_as};

/// First line of each workflow file that this program writes. Only an existing file that begins with this line is replaced.
const HEADER: &str = "# Written by armature-workflow for --array or --each-line.\n";

/// Set of numbers given with the command-line option `--array`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers(BTreeSet<u32>);

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MAX_TASKS: usize = 100_000;
        let expected = || format!("expected numbers such as 1-8, 1-9:2 or 1,3,5, at most {MAX_TASKS}");
        let mut numbers = BTreeSet::new();
        for range in text.split(',') {
            let (range, step) = range.split_once(':').unwrap_or((range, "1"));
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| text.parse::<u32>().map_err(|_| expected());
            let (first, last, step) = (number(first)?, number(last)?, number(step)?);
            if last < first || step == 0 {
                return Err(expected());
            }
            numbers.extend((first..=last).step_by(step as usize).take(MAX_TASKS + 1));
            if numbers.len() > MAX_TASKS {
                return Err(expected());
            }
        }
        Ok(Numbers(numbers))
    }
}

impl Numbers {
    /// Returns the numbers in ascending order as texts. Each of them becomes a task, in which it replaces `{}` in the arguments of the command.
    pub fn entries(&self) -> Vec<String> {
        self.0.iter().map(u32::to_string).collect()
    }
}

/// Returns the lines of a file, without blank lines and without spaces at their beginning and end. Each line becomes a task.
///
/// # Errors
/// The file cannot be read, is not text in UTF-8, or has no such line.
pub fn lines(path: &Path) -> Result<Vec<String>, armature::BoxError> {
    let name = path.display();
    let bytes = regular::read(path).map_err(|error| format!("cannot read the lines of {name}: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{name} is not text in UTF-8"))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(String::from).collect();
    if lines.is_empty() {
        return Err(format!("{name} has no line: expected one for each task").into());
    }
    Ok(lines)
}

/// Workflow that runs one command for each entry of an array (`--array` or `--each-line`): the text of the workflow file that is written, and its
/// parsed content.
#[derive(Clone, Debug)]
pub struct Array {
    text: String,
    description: Description,
}

impl Array {
    /// Returns the workflow with a task for each entry. A task has the name of its entry, so that completed tasks are recognised after a change of
    /// the list. In the arguments of the command, `{}` is replaced by the entry.
    ///
    /// # Errors
    /// The name of the file does not end in `.toml`, or an entry cannot be the name of a task.
    pub fn new(file: &Path, entries: &[String], command: &[String]) -> Result<Self, armature::BoxError> {
        let name = file.display().to_string();
        if Format::of(&name, b"[[task]]").ok() != Some(Format::Toml) {
            return Err(
                format!("the tasks cannot be written to {name}: expected a name that ends in .toml").into()
            );
        }
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let mut text = HEADER.to_string();
        for entry in entries {
            let count = counts.entry(entry).or_default();
            *count += 1;
            let id = if *count == 1 { entry.clone() } else { format!("{entry} ({count})") };
            let words: Vec<String> = command.iter().map(|word| quoted(&word.replace("{}", entry))).collect();
            text += &format!(
                "\n[[task]]\nid = {}\ncommand = [{}]\nenv = {{ ARMATURE_TASK_ENTRY = {} }}\n",
                quoted(&id),
                words.join(", "),
                quoted(entry)
            );
        }
        let description = read_as(Format::Toml, &name, text.as_bytes())?;
        Ok(Array { text, description })
    }

    /// Returns the parsed workflow, which has a task for each entry of the array.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Writes the workflow file of this array to `file`, in place of the `earlier` one if there is one. `described` is the workflow in which the
    /// tasks that an earlier run completed are marked as done.
    ///
    /// # Errors
    /// A completed task ran another command, or the file cannot be written.
    pub fn write(
        &self,
        file: &Path,
        earlier: Option<&Description>,
        described: &Description,
    ) -> Result<(), armature::BoxError> {
        let name = file.display();
        let earlier = earlier.map_or(&[][..], |earlier| earlier.tasks());
        let earlier: HashMap<&str, &Task> = earlier.iter().map(|task| (task.name.as_str(), task)).collect();
        // The rescue file (list of completed tasks) has no commands, so a changed command is detected by comparison with the earlier workflow file.
        let has_changed = |task: &&Task| {
            let known = earlier.get(task.name.as_str());
            known.is_some_and(|known| known.action != task.action || known.environment != task.environment)
        };
        if let Some(task) = described.tasks().iter().filter(|task| task.done).find(has_changed) {
            let text = format!(
                "task {:?} of {name} was done by another command: name a new file, or use --skip-rescue to run all tasks again",
                task.name
            );
            return Err(text.into());
        }
        let written = output::write(file, self.text.as_bytes());
        written.map_err(|error| format!("cannot write the workflow {name}: {error}").into())
    }
}

/// Reads the workflow file that an earlier run wrote for `--array` or `--each-line`, if it exists.
///
/// # Errors
/// The file cannot be read, or was not written by such a run.
pub fn earlier(file: &Path) -> Result<Option<Description>, armature::BoxError> {
    let name = file.display().to_string();
    match regular::read(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read the workflow {name}: {error}").into()),
        Ok(bytes) if bytes.starts_with(HEADER.as_bytes()) => Ok(Some(read_as(Format::Toml, &name, &bytes)?)),
        Ok(_) => {
            let text = "was not written for --array or --each-line: expected the name of a new file";
            Err(format!("the workflow {name} {text}").into())
        }
    }
}

/// Returns a text as a string of TOML. JSON has the same escapes, except for the control character DEL.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;
    use armature_workflow_files::Action;

    fn array(entries: &[&str], command: &[&str]) -> Result<Array, String> {
        let owned = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        Array::new(Path::new("a.toml"), &owned(entries), &owned(command)).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_are_ranges_with_steps() {
        let numbers = |text: &str| text.parse::<Numbers>().map(|numbers| numbers.entries().join(" "));
        assert_eq!(numbers("1-3"), Ok("1 2 3".into()));
        assert_eq!(numbers("10,1-5:2,3"), Ok("1 3 5 10".into()));
        for text in ["", "a", "3-1", "1-9:0", "1-8%2", "-1", "0-100000", "0-4294967295"] {
            assert!(numbers(text).unwrap_err().starts_with("expected numbers such as"), "{text}");
        }
    }

    #[test]
    fn tasks_have_the_names_of_their_entries() {
        let array = array(&["a b", "\"\\", "a b"], &["echo", "<{}>", "\u{7f}"]).unwrap();
        let tasks = array.description().tasks();
        assert_eq!(
            tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(),
            ["a b", "\"\\", "a b (2)"]
        );
        let arguments = vec!["<a b>".to_string(), "\u{7f}".into()];
        assert_eq!(tasks[2].action, Action::Command { program: "echo".into(), arguments });
        assert!(super::Array::new(Path::new("a.dag"), &[], &[]).is_err());
        assert_eq!(tasks[1].environment["ARMATURE_TASK_ENTRY"], "\"\\");
    }

    #[test]
    fn only_a_file_with_the_same_completed_tasks_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        let write = |entries: &[&str], program: &str, done: &[usize]| {
            let array = array(entries, &[program, "{}"]).unwrap();
            let mut described = array.description().clone();
            done.iter().for_each(|&task| described.set_done(task, true));
            let written = earlier(&file).and_then(|earlier| array.write(&file, earlier.as_ref(), &described));
            written.map_err(|error| error.to_string())
        };
        assert_eq!(write(&["1", "2"], "x", &[]), Ok(()));
        assert_eq!(write(&["2", "3"], "x", &[0]), Ok(()), "task 2 is the same");
        assert_eq!(write(&["2", "3"], "y", &[]), Ok(()), "no task is done");
        let error = write(&["4", "3"], "x", &[1]).unwrap_err();
        assert!(error.starts_with("task \"3\" of ") && error.contains("by another command"), "{error}");
        std::fs::write(&file, "[[task]]\nid = \"5\"\n").unwrap();
        assert!(write(&["1"], "x", &[]).unwrap_err().contains("was not written for --array"));
    }
}
