//! Configuration file `house.toml`: measures of the source code, with their goals and limits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::calls::Pattern;
use crate::language::Language;
use crate::layers::Layer;

/// Content of the configuration file `house.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Directories of the crates whose source code is measured.
    pub(crate) crates: Vec<PathBuf>,
    /// Directory of the sources whose imports between layers are checked.
    pub(crate) layered: PathBuf,
    /// Layers of the framework, from the lowest to the highest.
    pub(crate) layers: Vec<Layer>,
    /// Measures that count calls of certain functions, in the order of the printed table.
    pub(crate) calls: Vec<Calls>,
    /// Rules for the language of comments, messages and pages.
    #[serde(default)]
    pub(crate) language: Language,
    /// Value that each measure should reach.
    pub(crate) goals: BTreeMap<String, u64>,
    /// Names of the measures that only a person can count.
    pub(crate) by_hand: Vec<String>,
    /// Maximum value of each measure, above which the check fails. A measure without a limit is only printed.
    pub(crate) limits: BTreeMap<String, u64>,
}

/// Measure that counts calls of certain functions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Calls {
    pub(crate) name: String,
    patterns: Vec<String>,
    /// True if the measure is the number of matching calls, false if it is the number of files that
    /// contain a matching call.
    #[serde(default)]
    pub(crate) each: bool,
    /// Files and directories that are searched, below the directory that the key `layered` names; all crates if the
    /// list is empty.
    #[serde(default)]
    pub(crate) within: Vec<PathBuf>,
}

impl Calls {
    /// Parses the patterns of the calls that the measure counts.
    ///
    /// # Errors
    /// A pattern has an invalid form.
    pub(crate) fn patterns(&self) -> Result<Vec<Pattern>, String> {
        self.patterns.iter().map(|text| Pattern::read(text)).collect()
    }
}

impl Config {
    /// Reads the configuration file `house.toml`.
    ///
    /// # Errors
    /// The file cannot be read or parsed.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}
