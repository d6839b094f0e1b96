//! Reads WfFormat 1.2 to 1.4, in which one JSON object contains all fields of a task. Tasks refer to each other by name.

use super::tasks::{common, cores, links};
use crate::description::{Action, File, Task};
use crate::draft::Draft;
use crate::error::{Result, SourceLocation};
use crate::path::At;

/// Unit in bytes in which versions up to 1.3 state memory: kilobytes of 1000 bytes, as WfCommons' migration tool reads them.
const KILOBYTE: u64 = 1000;

pub(super) fn read(root: &At<'_>) -> Result<Draft> {
    let workflow = root.get("workflow", "an object")?;
    // Version 1.2 has the older field name `jobs` for the list of tasks.
    let (list, key) = match workflow.find("jobs") {
        Some(_) => ("workflow.jobs", "jobs"),
        None => ("workflow.tasks", "tasks"),
    };
    let mut draft = Draft::default();
    let tasks = workflow.get(key, "a list of tasks")?;
    for (number, at) in tasks.elements()?.enumerate() {
        let mut task = Task::new(at.get("name", "the task's name")?.text()?, Action::Nothing);
        common(&mut task, &at)?;
        task.kind = at.find("category").map(|kind| kind.text().map(str::to_string)).transpose()?;
        if let Some(time) = at.find("runtimeInSeconds").or_else(|| at.find("runtime")) {
            task.run_time = Some(time.amount()?);
        }
        task.memory = match at.find("memoryInBytes") {
            Some(memory) => Some(memory.rounded_up()?),
            None => at.find("memory").map(|memory| kilobytes(&memory)).transpose()?,
        };
        task.cores = at.find("cores").map_or(Ok(1), |count| cores(&count))?;
        task.machine = at.find("machine").map(|machine| machine.text().map(str::to_string)).transpose()?;
        if let Some(files) = at.find("files") {
            for file in files.elements()? {
                read_file(&file, &mut task)?;
            }
        }
        if let Some(id) = at.find("id") {
            draft.aliases.entry(id.text()?.to_string()).or_insert(number);
        }
        links(&mut draft, &at, list, number)?;
        draft.tasks.push((task, SourceLocation::Element(list, number)));
    }
    Ok(draft)
}

fn kilobytes(at: &At<'_>) -> Result<u64> {
    at.rounded_up()?.checked_mul(KILOBYTE).ok_or_else(|| at.wrong("kilobytes, less than 2⁶⁴ bytes"))
}

fn read_file(file: &At<'_>, task: &mut Task) -> Result<()> {
    let mut name = file.find("path").map_or(Ok(""), |path| path.text())?.to_string();
    name.push_str(file.get("name", "the file's name")?.text()?);
    let size = match file.find("sizeInBytes") {
        Some(size) => size.whole()?,
        None => file.find("size").ok_or_else(|| file.missing("sizeInBytes", "the file's size"))?.whole()?,
    };
    let link = file.get("link", "\"input\" or \"output\"")?;
    let list = match link.text()? {
        "input" => &mut task.inputs,
        "output" => &mut task.outputs,
        _ => return Err(link.wrong("\"input\" or \"output\"")),
    };
    list.push(File { name, size: Some(size) });
    Ok(())
}
