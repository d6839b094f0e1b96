//! Detection of file formats, and reading of workflows.

use armature_planner::workflow::TaskMemory;

use crate::description::Description;
use crate::error::{Error, ErrorKind, Result, shown};
use crate::{dag, dot, toml_file, wfformat};

/// Format of a workflow file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// WfFormat of WfCommons, in JSON.
    WfFormat,
    /// Line format of pegasus-mpi-cluster.
    Dag,
    /// Graphviz dot.
    Dot,
    /// TOML format of this crate.
    Toml,
}

impl Format {
    /// Returns the format of a file, by the extension of its name, otherwise by the beginning of its content.
    ///
    /// # Errors
    /// [`ErrorKind::Format`] if neither matches a known format.
    ///
    /// ```
    /// use armature_workflow_files::Format;
    /// assert_eq!(Format::of("a.dag", b"")?, Format::Dag);
    /// assert_eq!(Format::of("a.txt", b"digraph { a -> b }")?, Format::Dot);
    /// assert!(Format::of("a.txt", b"dear reader").is_err());
    /// # Ok::<(), armature_workflow_files::Error>(())
    /// ```
    pub fn of(name: &str, bytes: &[u8]) -> Result<Format> {
        let ending = name.rsplit('/').next().and_then(|file| file.rsplit_once('.')).map(|(_, ending)| ending);
        match ending.map(str::to_ascii_lowercase).as_deref() {
            Some("json") => return Ok(Format::WfFormat),
            Some("dag") => return Ok(Format::Dag),
            Some("dot" | "gv") => return Ok(Format::Dot),
            Some("toml") => return Ok(Format::Toml),
            _ => {}
        }
        by_content(bytes).ok_or_else(|| {
            let message = "the format is unknown: expected a name that ends in .json (WfFormat), .dag, .dot, .gv or .toml, or \
                           content that begins like one of these";
            Error::new(ErrorKind::Format, "", message).in_file(name)
        })
    }

    /// Returns whether the memory that a file of this format states for a task includes the task's input and output files. In WfFormat it does,
    /// because the format records the measured memory of whole processes.
    pub fn task_memory(self) -> TaskMemory {
        match self {
            Format::WfFormat => TaskMemory::IncludesIo,
            Format::Dag | Format::Dot | Format::Toml => TaskMemory::Additive,
        }
    }
}

fn by_content(bytes: &[u8]) -> Option<Format> {
    let lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines
        .into_iter()
        .find(|line| !line.is_empty() && !line.starts_with(b"#") && !line.starts_with(b"//"))?;
    let starts = |start: &str| {
        first.len() >= start.len() && first[..start.len()].eq_ignore_ascii_case(start.as_bytes())
    };
    if starts("{") {
        Some(Format::WfFormat)
    } else if ["TASK ", "EDGE ", "DONE "].iter().any(|word| first.starts_with(word.as_bytes())) {
        Some(Format::Dag)
    } else if starts("digraph") || starts("strict") || starts("graph ") || starts("/*") {
        Some(Format::Dot)
    } else if starts("[") || first.contains(&b'=') {
        Some(Format::Toml)
    } else {
        None
    }
}

/// Reads a workflow. `name` is the name of the file: it helps to detect the format, and error messages begin with it.
///
/// # Errors
/// Every [`ErrorKind`]. The error names the file, the line or path, the value found and the value expected.
pub fn read(name: &str, bytes: &[u8]) -> Result<Description> {
    read_as(Format::of(name, bytes)?, name, bytes)
}

/// Reads a workflow in the given format.
///
/// # Errors
/// See [`read`].
pub fn read_as(format: Format, name: &str, bytes: &[u8]) -> Result<Description> {
    let read = match format {
        Format::WfFormat => wfformat::read,
        Format::Dag => dag::read,
        Format::Dot => dot::read,
        Format::Toml => toml_file::read,
    };
    let mut description = text(bytes).and_then(read).map_err(|error| error.in_file(name))?;
    if description.name.is_empty() {
        description.name = name.rsplit('/').next().unwrap_or(name).to_string();
    }
    Ok(description)
}

/// Returns the content of a file as text, without a byte order mark.
pub(crate) fn text(bytes: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        let end = bytes.len().min(error.valid_up_to() + 4);
        let bytes = String::from_utf8_lossy(&bytes[error.valid_up_to()..end]).into_owned();
        let message = format!("{} is not UTF-8: expected text", shown(&bytes));
        Error::new(ErrorKind::Syntax, format!("line {line}"), message)
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}
