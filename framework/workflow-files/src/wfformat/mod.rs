//! Reads and writes workflows in WfFormat, the JSON format of WfCommons.

mod flat;
mod nested;
mod tasks;
mod write;

use serde_json::Value;

pub use write::to_wfformat;

use crate::description::Description;
use crate::error::{Error, ErrorKind, Result};
use crate::path::At;

pub(crate) fn read(text: &str) -> Result<Description> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        Error::new(ErrorKind::Syntax, format!("line {}", error.line()), format!("{error}: expected JSON"))
    })?;
    let root = At::root(&value);
    let version = root.get("schemaVersion", "a version of WfFormat, \"1.2\" to \"1.6\"")?;
    let mut draft = match version.text()? {
        "1.2" | "1.3" | "1.4" => flat::read(&root)?,
        "1.5" | "1.6" => nested::read(&root)?,
        "1.0" | "1.1" => {
            let message = format!(
                "is {:?}: expected 1.2 to 1.6; WfCommons' tools/wfcommons-migrate-instance.py (in its repository \
                 WfFormat) converts the file to a newer version",
                version.text()?
            );
            return Err(version.error(ErrorKind::Version, message));
        }
        _ => {
            let error = version.wrong("1.2 to 1.6");
            return Err(version.error(ErrorKind::Version, error.message()));
        }
    };
    if let Some(name) = root.find("name") {
        draft.name = name.text()?.to_string();
    }
    draft.finish()
}
