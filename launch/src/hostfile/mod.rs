//! Hostfiles: which hosts there are, how many ranks each takes, how fast it is and how much memory it has.
//!
//! A line is a host name and columns, in any order:
//!
//! ```text
//! # A comment.
//! node01  slots=4  speed=2.0  memory=64GiB
//! node02:2 speed=1.0
//! ```
//!
//! `slots=N` or `:N` is the number of ranks (1 if absent; a host named again adds its slots), `speed` is relative to
//! the other hosts or in any unit of work a second, `memory` is in bytes with a unit. The launchers know nothing
//! of the last two, so [`Hostfile::for_openmpi`] and [`Hostfile::for_mpich`] write what they understand.
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

/// Greatest number of slots of all hosts together: MPI numbers ranks with a C `int`.
pub(crate) const MAX_SLOTS: usize = i32::MAX as usize;

/// One host of a hostfile.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Host {
    /// Its name or address, as the launcher is to see it.
    pub name: String,
    /// How many ranks it takes; from 1 to 2147483647, which all hosts together do not exceed.
    pub slots: usize,
    /// Work units a second, or relative to the other hosts; above 0. `None` if the file does not say.
    pub speed: Option<f64>,
    /// Bytes of memory for the ranks of this host together. `None` if the file does not say.
    pub memory: Option<u64>,
}

/// The hosts of a job, in the order in which they get their ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Hostfile {
    hosts: Vec<Host>,
}

impl Hostfile {
    /// Reads a hostfile.
    ///
    /// # Errors
    /// When the file cannot be read or is no regular file, or a line is not as the [module's page](self) says; the error tells where.
    pub fn read(path: &Path) -> Result<Hostfile, HostfileError> {
        let text = regular::read_to_string(path).map_err(|error| HostfileError {
            file: path.to_path_buf(),
            line: None,
            found: error.to_string(),
            expected: "one host a line".into(),
        })?;
        Hostfile::parse(path, &text)
    }

    /// Reads the text of a hostfile; `file` is named in errors.
    ///
    /// # Errors
    /// When a line is not as the [module's page](self) says, or there is no host at all.
    pub fn parse(file: impl AsRef<Path>, text: &str) -> Result<Hostfile, HostfileError> {
        parse::parse(file.as_ref(), text)
    }

    /// The hosts; at least one, each name once.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Whether two hosts have the same name up to its first dot. Addresses are no names.
    pub(crate) fn needs_full_names(&self) -> bool {
        let is_name = |host: &&Host| host.name.parse::<std::net::IpAddr>().is_err();
        let mut short = std::collections::BTreeSet::new();
        let first = |host: &Host| host.name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        !self.hosts.iter().filter(is_name).all(|host| short.insert(first(host)))
    }

    /// How many ranks the hosts take together.
    pub fn slots(&self) -> usize {
        self.hosts.iter().map(|host| host.slots).sum()
    }
}

/// What is wrong in a hostfile, and where.
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
