//! Reads WfFormat 1.5 and 1.6, in which the specification of the tasks and their measurements are separate JSON objects.

use std::collections::HashMap;

use super::tasks::{common, cores, links};
use crate::description::{Action, File, Task};
use crate::draft::Draft;
use crate::error::{ErrorKind, Result, SourceLocation, shown};
use crate::path::At;

const TASKS: &str = "workflow.specification.tasks";

pub(super) fn read(root: &At<'_>) -> Result<Draft> {
    let workflow = root.get("workflow", "an object")?;
    let specification = workflow.get("specification", "an object with tasks and files")?;
    let sizes = sizes(&specification)?;
    let mut draft = Draft::default();
    let mut numbers = HashMap::new();
    let tasks = specification.get("tasks", "a list of tasks")?;
    for (number, at) in tasks.elements()?.enumerate() {
        let mut task = Task::new(at.get("id", "the task's id")?.text()?, Action::Nothing);
        task.kind = at.find("name").map(|name| name.text().map(str::to_string)).transpose()?;
        task.inputs = files(&at, "inputFiles", &sizes)?;
        task.outputs = files(&at, "outputFiles", &sizes)?;
        links(&mut draft, &at, TASKS, number)?;
        numbers.insert(task.name.clone(), number);
        draft.tasks.push((task, SourceLocation::Element(TASKS, number)));
    }
    if let Some(execution) = workflow.find("execution") {
        measured(&execution, &numbers, &mut draft)?;
    }
    Ok(draft)
}

fn sizes(specification: &At<'_>) -> Result<HashMap<String, u64>> {
    let mut sizes = HashMap::new();
    if let Some(files) = specification.find("files") {
        for file in files.elements()? {
            let id = file.get("id", "the file's id")?.text()?.to_string();
            let size = file.get("sizeInBytes", "the file's size")?.whole()?;
            if sizes.get(&id).is_some_and(|&first| first != size) {
                let message =
                    format!("file {} exists already with another size: expected one size", shown(&id));
                return Err(file.error(ErrorKind::Value, message));
            }
            sizes.insert(id, size);
        }
    }
    Ok(sizes)
}

fn files(task: &At<'_>, key: &str, sizes: &HashMap<String, u64>) -> Result<Vec<File>> {
    let Some(list) = task.find(key) else { return Ok(Vec::new()) };
    let file = |at: At<'_>| {
        let name = at.text()?.to_string();
        let size = sizes.get(&name).copied().ok_or_else(|| {
            let message =
                format!("file {} has no size: expected it in workflow.specification.files", shown(&name));
            at.error(ErrorKind::Value, message)
        })?;
        Ok(File { name, size: Some(size) })
    };
    list.elements()?.map(file).collect()
}

fn measured(execution: &At<'_>, numbers: &HashMap<String, usize>, draft: &mut Draft) -> Result<()> {
    let Some(tasks) = execution.find("tasks") else { return Ok(()) };
    for at in tasks.elements()? {
        let id = at.get("id", "the id of a task")?;
        let Some(&number) = numbers.get(id.text()?) else {
            let message = format!("there is no task {}: expected an id of {TASKS}", shown(id.text()?));
            return Err(id.error(ErrorKind::Graph, message));
        };
        let task = &mut draft.tasks[number].0;
        common(task, &at)?;
        task.run_time = at.find("runtimeInSeconds").map(|time| time.amount()).transpose()?;
        task.memory = at.find("memoryInBytes").map(|memory| memory.rounded_up()).transpose()?;
        task.cores = at.find("coreCount").map_or(Ok(1), |count| cores(&count))?;
        // Early files of version 1.5 name the machine of a task in the field `machine` instead of the list `machines`.
        task.machine = match at.find("machine") {
            Some(machine) => Some(machine.text()?.to_string()),
            None => at.texts("machines")?.into_iter().next(),
        };
    }
    Ok(())
}
