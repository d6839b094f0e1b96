//! Hostfiles: the hosts of a job, with their slots, speeds and amounts of memory.
//!
//! A line is a host name, followed by columns in any order:
//!
//! ```text
//! # A comment.
//! node01  slots=4  speed=2.0  memory=64GiB
//! node02:2 speed=1.0
//! ```
//!
//! `slots=N` or `:N` is the number of ranks (1 if absent; a repeated host adds its slots). `speed` is relative to the other hosts, or in
//! any unit of work per second. `memory` is in bytes with a unit. The launchers do not know the last two columns, so
//! [`Hostfile::for_openmpi`] and [`Hostfile::for_mpich`] write the file in the launchers' formats.
//!
//! ```
//! use armature_launch::hostfile::Hostfile;
//!
//! let hosts = Hostfile::parse("hosts", "node01 slots=4 speed=2.0 memory=64GiB\nnode02:2\n")?;
//! assert_eq!(hosts.slots(), 6);
//! assert_eq!(hosts.hosts()[0].memory, Some(64 << 30));
//! assert_eq!(hosts.for_mpich(), "node01:4\nnode02:2\n");
//!
//! let error = Hostfile::parse("hosts", "node01 slots=many\n").unwrap_err();
//! assert_eq!(error.to_string(), "hosts:1: `slots=many`: expected slots=N with N a whole number from 1 to 2147483647");
//! # Ok::<(), armature_launch::hostfile::HostfileError>(())
//! ```

mod parse;
mod size;
mod write;

use std::fmt;
use std::path::{Path, PathBuf};

use armature_files::regular;

/// Maximum total number of slots of all hosts, because MPI numbers ranks with a C `int`.
pub(crate) const MAX_SLOTS: usize = i32::MAX as usize;

/// Host that a line of a hostfile describes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Host {
    /// Name or address of the host, which the launcher gets.
    pub name: String,
    /// Number of ranks on the host, from 1 to 2147483647. The total of all hosts has the same maximum.
    pub slots: usize,
    /// Speed in work units per second, or relative to the other hosts; above 0. `None` if the file does not contain it.
    pub speed: Option<f64>,
    /// Total memory in bytes for the ranks of the host. `None` if the file does not contain it.
    pub memory: Option<u64>,
}

/// Hosts of a job; ranks are placed on them in this order.
#[derive(Clone, Debug, PartialEq)]
pub struct Hostfile {
    hosts: Vec<Host>,
}

impl Hostfile {
    /// Reads a hostfile.
    ///
    /// # Errors
    /// If the file cannot be read or is not a regular file, or a line does not have the form of the [module's page](self). The error
    /// contains the line number.
    pub fn read(path: &Path) -> Result<Hostfile, HostfileError> {
        let text = regular::read_to_string(path).map_err(|error| HostfileError {
            file: path.to_path_buf(),
            line: None,
            found: error.to_string(),
            expected: "one host a line".into(),
        })?;
        Hostfile::parse(path, &text)
    }

    /// Parses the text of a hostfile. Errors contain the name `file`.
    ///
    /// # Errors
    /// If a line does not have the form of the [module's page](self), or there is no host.
    pub fn parse(file: impl AsRef<Path>, text: &str) -> Result<Hostfile, HostfileError> {
        parse::parse(file.as_ref(), text)
    }

    /// Returns the hosts: at least one, each name once.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Returns true if two host names (not IP addresses) are equal up to the first dot.
    pub(crate) fn needs_full_names(&self) -> bool {
        let is_name = |host: &&Host| host.name.parse::<std::net::IpAddr>().is_err();
        let mut short = std::collections::BTreeSet::new();
        let first = |host: &Host| host.name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        !self.hosts.iter().filter(is_name).all(|host| short.insert(first(host)))
    }

    /// Returns the total number of slots of all hosts.
    pub fn slots(&self) -> usize {
        self.hosts.iter().map(|host| host.slots).sum()
    }
}

/// Error in a hostfile: its position and a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostfileError {
    file: PathBuf,
    line: Option<usize>,
    found: String,
    expected: String,
}

impl fmt::Display for HostfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", armature_text::path(&self.file))?;
        let found = armature_text::shown(&self.found);
        match self.line {
            Some(line) => write!(f, "{line}: `{found}`: expected {}", self.expected),
            None => write!(f, " {found}: expected {}", self.expected),
        }
    }
}

impl std::error::Error for HostfileError {}
