//! Writes workflows in WfFormat 1.6, including measured run times, memory and machines of tasks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::description::{Action, Description, Task};

/// Returns the description as WfFormat 1.6, with run time, memory and machine of each task where they are known.
///
/// Ids are the names of tasks, with `_` in place of characters that the format does not allow. The format cannot express tries, time
/// limits, named limits, environment, standard input, closures and finished tasks; they are left out. A file of unknown size has size 0, a
/// task of unknown run time has 0 s.
///
/// `executed_at` (ISO 8601) and `makespan` describe the run as a whole.
///
/// ```
/// use std::time::Duration;
///
/// use armature_workflow_files::{Action, Description, Task, read, to_wfformat};
///
/// let mut builder = Description::builder("example");
/// builder.task(Task::new("a", Action::Shell("sleep 1".into())));
/// let mut description = builder.build()?;
/// description.measured(0, 1.5, Some(4096), Some("node1"))?;
/// let text = to_wfformat(&description, "2030-01-01T00:00:00+00:00", Duration::from_millis(1500));
/// let again = read("a.json", text.as_bytes())?;
/// assert_eq!(again.tasks()[0].run_time, Some(1.5));
/// assert_eq!(again.tasks()[0].machine.as_deref(), Some("node1"));
/// # Ok::<(), armature_workflow_files::Error>(())
/// ```
pub fn to_wfformat(description: &Description, executed_at: &str, makespan: Duration) -> String {
    let ids = ids(description);
    let mut parents = vec![Vec::new(); ids.len()];
    let mut children = vec![Vec::new(); ids.len()];
    for edge in description.edges() {
        parents[edge.to].push(ids[edge.from].as_str());
        children[edge.from].push(ids[edge.to].as_str());
    }
    let specification: Vec<Value> = (description.tasks().iter().zip(&ids).zip(parents.iter().zip(&children)))
        .map(|((task, id), (parents, children))| {
            let names = |files: &[crate::File]| files.iter().map(|file| file.name.clone()).collect::<BTreeSet<_>>();
            json!({
                "name": task.kind.as_ref().unwrap_or(&task.name), "id": id, "parents": parents, "children": children,
                "inputFiles": names(&task.inputs), "outputFiles": names(&task.outputs),
            })
        })
        .collect();
    let execution: Vec<Value> =
        description.tasks().iter().zip(&ids).map(|(task, id)| measured(task, id)).collect();
    let machines: BTreeSet<&str> =
        description.tasks().iter().filter_map(|task| task.machine.as_deref()).collect();
    let mut run =
        json!({ "makespanInSeconds": makespan.as_secs_f64(), "executedAt": executed_at, "tasks": execution });
    if !machines.is_empty() {
        run["machines"] = machines.iter().map(|machine| json!({ "nodeName": machine })).collect();
    }
    // A workflow without a name is written as "workflow", because the format does not allow an empty name.
    let name = if description.name().is_empty() { "workflow" } else { description.name() };
    let file = json!({
        "name": name, "schemaVersion": "1.6",
        "workflow": { "specification": { "tasks": specification, "files": files(description) }, "execution": run },
    });
    format!("{file:#}\n")
}

fn measured(task: &Task, id: &str) -> Value {
    let mut fields = Map::new();
    fields.insert("id".into(), json!(id));
    fields.insert("runtimeInSeconds".into(), json!(task.run_time.unwrap_or(0.0)));
    fields.insert("coreCount".into(), json!(task.cores));
    if let Some(memory) = task.memory {
        fields.insert("memoryInBytes".into(), json!(memory));
    }
    if task.priority != 0 {
        fields.insert("priority".into(), json!(task.priority));
    }
    if let Some(machine) = &task.machine {
        fields.insert("machines".into(), json!([machine]));
    }
    match &task.action {
        Action::Nothing | Action::Closure(_) => {}
        Action::Shell(line) => {
            fields.insert("command".into(), json!({ "program": line }));
        }
        Action::Command { program, arguments } => {
            let arguments: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
            fields.insert("command".into(), json!({ "program": quoted(program), "arguments": arguments }));
        }
    }
    Value::Object(fields)
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns each file of the workflow once, with its size. If tasks state different sizes, that of the task that writes the file is used.
fn files(description: &Description) -> Vec<Value> {
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    let inputs = description.tasks().iter().flat_map(|task| &task.inputs);
    for file in inputs.chain(description.tasks().iter().flat_map(|task| &task.outputs)) {
        let size = sizes.entry(&file.name).or_default();
        *size = file.size.unwrap_or(*size);
    }
    sizes.into_iter().map(|(id, size)| json!({ "id": id, "sizeInBytes": size })).collect()
}

/// Returns a unique id for each task, with only the characters that the format allows.
fn ids(description: &Description) -> Vec<String> {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "_.#:/-".contains(c) { c } else { '_' };
    let mut ids: Vec<String> =
        description.tasks().iter().map(|task| task.name.chars().map(allowed).collect()).collect();
    // Names that are valid ids stay unchanged and are reserved first. If another name collides with an id after its characters are replaced, it gets
    // a number.
    let mut taken: HashSet<String> = description
        .tasks()
        .iter()
        .zip(&ids)
        .filter(|(task, id)| task.name == **id)
        .map(|(_, id)| id.clone())
        .collect();
    let mut next: HashMap<String, usize> = HashMap::new();
    for (task, id) in description.tasks().iter().zip(&mut ids) {
        if task.name != *id {
            let base = id.clone();
            let number = next.entry(base.clone()).or_insert(1);
            while !taken.insert(id.clone()) {
                *number += 1;
                *id = format!("{base}_{number}");
            }
        }
    }
    ids
}
