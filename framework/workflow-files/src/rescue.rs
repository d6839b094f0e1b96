//! Rescue files: a list of the finished tasks, with one line `DONE id` per task, as pegasus-mpi-cluster reads and writes them.
//!
//! ```
//! use armature_workflow_files::{read, rescue};
//!
//! let mut description = read("a.dag", b"TASK a /bin/true\nTASK b /bin/true\n")?;
//! rescue::read("a.dag.rescue", b"# so far\nDONE b\n", &mut description)?;
//! assert!(!description.tasks()[0].done && description.tasks()[1].done);
//! assert_eq!(rescue::write(&description), "DONE b\n");
//! # Ok::<(), armature_workflow_files::Error>(())
//! ```

use std::collections::HashMap;

use crate::dag::unknown;
use crate::description::Description;
use crate::error::{Error, ErrorKind, Result, SourceLocation, shown};
use crate::format::text;

/// Marks the tasks that a rescue file names as done. A last line without a line end is ignored: the run that wrote it was interrupted, and
/// the incomplete id may be the prefix of another one.
///
/// # Errors
/// [`ErrorKind::Syntax`] for a line other than `DONE id`, [`ErrorKind::Graph`] for a task that the workflow does not have. In case of an
/// error, no task is marked.
pub fn read(name: &str, bytes: &[u8], description: &mut Description) -> Result<()> {
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let done = done(&bytes[..whole], description).map_err(|error| error.in_file(name))?;
    for number in done {
        description.tasks[number].done = true;
    }
    Ok(())
}

fn done(bytes: &[u8], description: &Description) -> Result<Vec<usize>> {
    let tasks = description.tasks().iter().enumerate();
    let numbers: HashMap<&str, usize> = tasks.map(|(number, task)| (task.name.as_str(), number)).collect();
    let lines = text(bytes)?.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .map(|(number, line)| {
            let place = SourceLocation::Line(number + 1);
            // The id of a line is searched first with the spaces around it and then without them. The name of a task may begin or end with spaces,
            // and a line written by hand may have more spaces.
            let find = |id: &str| numbers.get(id).or_else(|| numbers.get(id.trim())).copied();
            let id = line.trim_start().strip_prefix("DONE ").ok_or_else(|| {
                let message = format!("{} is not a line of a rescue file: expected \"DONE id\"", shown(line));
                Error::new(ErrorKind::Syntax, place, message)
            })?;
            find(id).ok_or_else(|| unknown(place, id.trim()))
        })
        .collect()
}

/// Returns a rescue file that lists the tasks that are done.
pub fn write(description: &Description) -> String {
    description.tasks().iter().filter(|task| task.done).map(|task| format!("DONE {}\n", task.name)).collect()
}
