//! Numbers of the files that the commands of a workflow read and write.

use std::collections::{BTreeMap, BTreeSet};

use armature_workflow_files::{Description, File, Task};

use super::super::commands::is_command;
use crate::error::{Error, ErrorKind, Result};

/// Prefix of file names that armature uses for its own files, so that no command may use it.
pub(super) const OURS: &str = ".armature-";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::workflow) struct Input {
    pub(in crate::workflow) file: usize,
    /// Task that writes the file; `None` if the file exists on rank 0 before the run.
    pub(in crate::workflow) maker: Option<usize>,
}

/// Names of all files that commands read and write, and their numbers. The table is equal on all ranks.
#[derive(Debug)]
pub(in crate::workflow) struct FileTable {
    names: Vec<String>,
    inputs: Vec<Vec<Input>>,
    outputs: Vec<Vec<usize>>,
}

impl FileTable {
    /// Creates the table for the commands of a description.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if a file name is invalid (see `check`), or a file cannot be sent between ranks, for example because a closure uses it
    /// too.
    pub(in crate::workflow) fn new(description: &Description) -> Result<Self> {
        Self::of(description.tasks())
            .map_err(|text| Error::new(ErrorKind::Config, text).in_workflow(description.name()))
    }

    fn of(tasks: &[Task]) -> Result<Self, String> {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let mut makers: BTreeMap<&str, usize> = BTreeMap::new();
        let named = |task: &Task| -> Vec<String> {
            task.inputs.iter().chain(&task.outputs).map(|file| file.name.clone()).collect()
        };
        let of_closures: BTreeSet<String> =
            tasks.iter().filter(|task| !is_command(task)).flat_map(named).collect();
        for (number, task) in tasks.iter().enumerate().filter(|(_, task)| is_command(task)) {
            for File { name, .. } in task.inputs.iter().chain(&task.outputs) {
                check(task, name)?;
                if of_closures.contains(name) {
                    return Err(format!(
                        "task {:?} shares the file {name:?} with a closure, expected commands only, because files are sent",
                        task.name
                    ));
                }
                let next = numbers.len();
                numbers.entry(name).or_insert(next);
            }
            makers.extend(task.outputs.iter().map(|file| (file.name.as_str(), number)));
            if let Some(file) =
                task.inputs.iter().find(|file| makers.get(file.name.as_str()) == Some(&number))
            {
                return Err(format!(
                    "task {:?} reads and writes {:?}, expected different names for input and output, because files are sent",
                    task.name, file.name
                ));
            }
        }
        for name in numbers.keys() {
            let above = name.match_indices('/').map(|(at, _)| &name[..at]);
            if let Some(file) = above.into_iter().find(|above| numbers.contains_key(above)) {
                return Err(format!(
                    "{file:?} is both a file and the directory of {name:?}, expected one of them"
                ));
            }
        }
        let distinct = |files: &[File]| -> Vec<usize> {
            let mut seen = BTreeSet::new();
            files.iter().map(|file| numbers[file.name.as_str()]).filter(|&file| seen.insert(file)).collect()
        };
        let mut names = vec![String::new(); numbers.len()];
        numbers.iter().for_each(|(name, &number)| names[number] = (*name).to_string());
        let of = |task: &Task| match is_command(task) {
            true => (distinct(&task.inputs), distinct(&task.outputs)),
            false => (Vec::new(), Vec::new()),
        };
        let (inputs, outputs): (Vec<Vec<usize>>, Vec<Vec<usize>>) = tasks.iter().map(of).unzip();
        let input = |file: usize| Input { file, maker: makers.get(names[file].as_str()).copied() };
        let inputs = inputs.into_iter().map(|files| files.into_iter().map(input).collect()).collect();
        Ok(FileTable { names, inputs, outputs })
    }

    pub(in crate::workflow) fn len(&self) -> usize {
        self.names.len()
    }

    pub(in crate::workflow) fn name(&self, file: usize) -> &str {
        &self.names[file]
    }

    /// Returns the name of the file with a number that another rank has sent; `None` if there is no file of this number.
    pub(in crate::workflow) fn name_of(&self, file: usize) -> Option<&str> {
        self.names.get(file).map(String::as_str)
    }

    pub(in crate::workflow) fn inputs(&self, task: usize) -> &[Input] {
        &self.inputs[task]
    }

    pub(in crate::workflow) fn outputs(&self, task: usize) -> &[usize] {
        &self.outputs[task]
    }
}

/// Checks that a file name is valid: relative, without `.` and `..`, and without the prefix of armature's own files.
fn check(task: &Task, name: &str) -> Result<(), String> {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    match name.split('/').all(is_plain) && !name.split('/').any(|part| part.starts_with(OURS)) {
        true => Ok(()),
        false => Err(format!(
            "task {:?} has the file {name:?}: expected a name within the directory, such as \"a\" or \"b/a\", where files are sent",
            task.name
        )),
    }
}

#[cfg(test)]
mod tests {
    use armature_workflow_files::read;

    use super::*;

    fn table(text: &str) -> Result<FileTable> {
        FileTable::new(&read("a.toml", text.as_bytes()).unwrap())
    }

    #[test]
    fn files_have_numbers_and_producers() {
        let text = "[[task]]\nid = \"a\"\ncommand = \"x\"\ninputs = [\"in\", \"in\"]\noutputs = [\"f\", \"d/g\"]\n\
                    [[task]]\nid = \"b\"\ncommand = \"y\"\ninputs = [\"d/g\", \"in\"]\n\
                    [[task]]\nid = \"c\"\nclosure = \"z\"\noutputs = [\"/of/a/closure\"]\n";
        let table = table(text).unwrap();
        assert_eq!(table.len(), 3);
        let names = |files: &[usize]| files.iter().map(|&file| table.name(file)).collect::<Vec<_>>();
        assert_eq!(names(table.outputs(0)), ["f", "d/g"]);
        let inputs: Vec<(&str, Option<usize>)> =
            table.inputs(1).iter().map(|input| (table.name(input.file), input.maker)).collect();
        assert_eq!(inputs, [("d/g", Some(0)), ("in", None)]);
        assert_eq!((table.inputs(0).len(), table.outputs(1).len(), table.outputs(2).len()), (1, 0, 0));
        assert_eq!(table.name_of(3), None);
    }

    #[test]
    fn ambiguous_file_names_are_refused() {
        let of = |name: &str| format!("[[task]]\nid = \"a\"\ncommand = \"x\"\noutputs = [\"{name}\"]\n");
        for name in ["/etc/passwd", "./f", "a/./f", "a//f", "f/", ".armature-1", "a/.armature-f"] {
            let error = table(&of(name)).unwrap_err();
            assert!(error.message().contains("expected a name within the directory"), "{name}: {error}");
        }
        table(&of("a/.f")).unwrap();
        let refused = |text: &str, expected: &str| {
            let error = table(text).unwrap_err();
            assert!(error.kind() == ErrorKind::Config && error.message().contains(expected), "{error}");
        };
        let both = of("f") + "inputs = [\"f\"]\n";
        refused(&both, "task \"a\" reads and writes \"f\"");
        let below = of("f") + "[[task]]\nid = \"b\"\ncommand = \"x\"\ninputs = [\"f/g\"]\n";
        refused(&below, "\"f\" is both a file and the directory of \"f/g\"");
        let closure = of("f") + "[[task]]\nid = \"b\"\nclosure = \"x\"\ninputs = [\"f\"]\n";
        refused(&closure, "shares the file \"f\" with a closure");
    }
}
