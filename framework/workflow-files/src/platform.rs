//! Platforms for the planner, in TOML.
//!
//! A `[[processor]]` has a `memory` and these optional keys: `name`; `speed`, where 1 is the machine on which the workflow was measured;
//! `count`, the number of processors of this kind, which get the names `name-0`, `name-1` and so on; `buffer`, the space for files that are
//! evicted from memory (default: ten times the memory). `bandwidth` is the bandwidth between all processors in bytes per second. A
//! `[[link]]` sets another `bandwidth` `from` one processor `to` another. `disk` is the rate at which a processor writes evicted files and
//! reads them back, in bytes per second (default: 200 MB). Bytes are a number or have a unit.
//!
//! ```
//! use armature_workflow_files::platform;
//!
//! let file = r#"
//! bandwidth = "1 GB"
//!
//! [[processor]]
//! name = "large"
//! speed = 2.0
//! memory = "64 GiB"
//!
//! [[processor]]
//! name = "small"
//! count = 3
//! memory = "16 GiB"
//!
//! [[link]]
//! from = "large"
//! to = "small-1"
//! bandwidth = "100 MB"
//! "#;
//! let cluster = platform::read("site.toml", file.as_bytes())?;
//! assert_eq!((cluster.len(), cluster.largest_memory()), (4, 64 << 30));
//! assert_eq!((cluster.bandwidth(0, 2), cluster.bandwidth(2, 0)), (1e8, 1e9));
//! # Ok::<(), armature_workflow_files::Error>(())
//! ```

use std::collections::HashMap;

use armature_planner::workflow::{Cluster, Processor};

use crate::error::{ErrorKind, Result, shown};
use crate::format::text;
use crate::path::At;
use crate::toml_file::{bytes, known, parse};

/// Processors of one `[[processor]]` of a platform file, which are consecutive in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kind {
    /// Name of the processors in the file, without the numbers that distinguish them.
    pub name: String,
    /// Number of processors, at least 1.
    pub count: usize,
}

/// Reads a platform. `name` is the name of the file; error messages begin with it.
///
/// # Errors
/// [`ErrorKind::Syntax`] for invalid TOML; [`ErrorKind::Value`] for a missing or unknown key, an invalid value, or a link to an unknown
/// processor.
pub fn read(name: &str, bytes: &[u8]) -> Result<Cluster> {
    read_with_kinds(name, bytes).map(|(cluster, _)| cluster)
}

/// Reads a platform, like [`read`], and also returns the kinds of processors in the order of the file.
///
/// # Errors
/// See [`read`].
pub fn read_with_kinds(name: &str, bytes: &[u8]) -> Result<(Cluster, Vec<Kind>)> {
    text(bytes).and_then(cluster).map_err(|error| error.in_file(name))
}

fn cluster(text: &str) -> Result<(Cluster, Vec<Kind>)> {
    let value = parse(text)?;
    let root = At::root(&value);
    known(&root, &["bandwidth", "disk", "processor", "link"])?;
    let (mut processors, mut kinds) = (Vec::new(), Vec::new());
    for at in root.get("processor", "at least one [[processor]]")?.elements()? {
        known(&at, &["name", "count", "speed", "memory", "buffer"])?;
        let count = at.find("count").map_or(Ok(1), |count| count.small())?;
        let name = at.find("name").map_or(Ok("processor"), |name| name.text())?;
        let speed = at.find("speed").map_or(Ok(1.0), |speed| speed.amount())?;
        let memory = bytes(&at.get("memory", "its memory, such as \"64 GiB\"")?)?;
        let buffer = at.find("buffer").map(|buffer| bytes(&buffer)).transpose()?;
        if count > 0 {
            kinds.push(Kind { name: name.to_string(), count: count as usize });
        }
        for number in 0..count {
            let name = if count == 1 { name.to_string() } else { format!("{name}-{number}") };
            let processor = Processor::new(name, speed, memory);
            processors.push(match buffer {
                Some(buffer) => processor.with_buffer(buffer),
                None => processor,
            });
            check(&processors, &at)?;
        }
    }
    let names: HashMap<String, usize> =
        processors.iter().enumerate().map(|(number, processor)| (processor.name.clone(), number)).collect();
    if names.len() < processors.len() {
        return Err(
            root.error(ErrorKind::Value, "two processors have the same name: expected different ones")
        );
    }
    let bandwidth = root.find("bandwidth").map_or(Ok(f64::INFINITY), |at| rate(&at))?;
    let refused = |at: &At<'_>, error: armature_planner::Error| at.error(ErrorKind::Value, error.message());
    let disk = root.find("disk").map_or(Ok(Cluster::DISK), |at| rate(&at))?;
    let cluster = Cluster::new(processors, bandwidth).and_then(|cluster| cluster.with_disk(disk));
    let mut cluster = cluster.map_err(|error| refused(&root, error))?;
    let Some(links) = root.find("link") else { return Ok((cluster, kinds)) };
    for at in links.elements()? {
        known(&at, &["from", "to", "bandwidth"])?;
        let end = |key| -> Result<usize> {
            let name = at.get(key, "the name of a processor")?;
            let unknown = || {
                format!(
                    "there is no processor {}: expected a processor of this file",
                    shown(name.text().unwrap_or(""))
                )
            };
            names.get(name.text()?).copied().ok_or_else(|| name.error(ErrorKind::Value, unknown()))
        };
        let bandwidth = rate(&at.get("bandwidth", "bytes a second, such as \"100 MB\"")?)?;
        cluster =
            cluster.with_link(end("from")?, end("to")?, bandwidth).map_err(|error| refused(&at, error))?;
    }
    Ok((cluster, kinds))
}

/// Checks the processor that was read last, and the total number of processors. It is called after each processor. An error then names this
/// processor's place in the file, and a large `count` is refused before it fills the memory.
fn check(processors: &[Processor], at: &At<'_>) -> Result<()> {
    let last = processors.last().map(std::slice::from_ref).unwrap_or_default();
    let one = Cluster::new(last.to_vec(), f64::INFINITY);
    let message = match one {
        Err(error) => error.message().to_string(),
        Ok(_) if processors.len() > Cluster::MOST_PROCESSORS => {
            format!("are more than {} processors, the maximum", Cluster::MOST_PROCESSORS)
        }
        Ok(_) => return Ok(()),
    };
    Err(at.error(ErrorKind::Value, message))
}

/// Reads a rate in bytes per second, such as a bandwidth.
fn rate(at: &At<'_>) -> Result<f64> {
    match at.as_text() {
        Some(_) => bytes(at).map(|bytes| bytes as f64),
        None => at.amount(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platform_errors_name_their_position() {
        let one = "[[processor]]\nname = \"a\"\nmemory = 5\n";
        for (file, message) in [
            ("a = ", "line 1: "),
            ("", "processor"),
            ("[[processor]]\n", "processor[0].memory: is missing"),
            ("[[processor]]\nmemory = -1\n", "processor[0].memory"),
            ("[[processor]]\nmemory = 1\nspeed = 0\n", "processor[0]: the speed of processor 0"),
            ("[[processor]]\nmemory = 1\ncount = 4000000000\n", "more than 16384"),
            ("[[processor]]\nmemory = 1\ncores = 4\n", "is an unknown key"),
            (&format!("bandwidth = 0\n{one}"), "bandwidth"),
            (&format!("disk = 0\n{one}"), "disk"),
            (
                &format!("[[processor]]\nmemory = 1\nname = \"{}\"\n", "n".repeat(70_000)),
                "processor[0]: the name of processor 0 has 70000 bytes, but must have at most 4096",
            ),
            (&format!("{one}{one}"), "same name"),
            (
                &format!("{one}[[link]]\nfrom = \"a\"\nto = \"b\"\nbandwidth = 1\n"),
                "there is no processor \"b\"",
            ),
            (&format!("{one}[[link]]\nfrom = \"a\"\nto = \"a\"\nbandwidth = 1\n"), "no link"),
        ] {
            let error = read("p.toml", file.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("p.toml: ") && error.contains(message), "{file}: {error}");
        }
    }

    #[test]
    fn processors_with_a_count_are_numbered() {
        let file = "[[processor]]\nname = \"n\"\ncount = 2\nspeed = 3\nmemory = \"1 KiB\"\nbuffer = 7\n";
        let cluster = read("p.toml", file.as_bytes()).unwrap();
        let found: Vec<_> =
            cluster.processors().iter().map(|p| (p.name.as_str(), p.speed, p.memory, p.buffer)).collect();
        assert_eq!(found, [("n-0", 3.0, 1024, 7), ("n-1", 3.0, 1024, 7)]);
        assert_eq!((cluster.default_bandwidth(), cluster.disk()), (f64::INFINITY, 200e6));
        let cluster = read("p.toml", format!("disk = \"1 GB\"\n{file}").as_bytes()).unwrap();
        assert_eq!(cluster.disk(), 1e9);
        let none = "[[processor]]\nname = \"none\"\ncount = 0\nmemory = 1\n";
        let (_, kinds) = read_with_kinds("p.toml", format!("{none}{file}").as_bytes()).unwrap();
        assert_eq!(kinds, [Kind { name: "n".into(), count: 2 }]);
    }
}
