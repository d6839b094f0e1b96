//! Configuration file `house.toml`: counts (measures) of the source code's structure and language, with their goals
//! and limits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::calls::Pattern;
use crate::language::Language;
use crate::layers::Layer;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) crates: Vec<PathBuf>,
    /// Directory of the sources in which imports between layers are checked.
    pub(crate) layered: PathBuf,
    pub(crate) layers: Vec<Layer>,
    pub(crate) calls: Vec<Calls>,
    #[serde(default)]
    pub(crate) language: Language,
    /// Value that each measure (count) should reach.
    pub(crate) goals: BTreeMap<String, u64>,
    /// Names of the measures (counts) that only a person can make.
    pub(crate) by_hand: Vec<String>,
    /// Maximum value of each measure (count), above which the check fails. A measure without a limit is only printed.
    pub(crate) limits: BTreeMap<String, u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Calls {
    pub(crate) name: String,
    patterns: Vec<String>,
    /// True if the measure is the number of matching calls, false if it is the number of files that
    /// contain a matching call.
    #[serde(default)]
    pub(crate) each: bool,
    /// Files and directories in which calls are counted, below the directory of the key `layered`; all crates if
    /// empty.
    #[serde(default)]
    pub(crate) within: Vec<PathBuf>,
}

impl Calls {
    pub(crate) fn patterns(&self) -> Result<Vec<Pattern>, String> {
        self.patterns.iter().map(|text| Pattern::read(text)).collect()
    }
}

impl Config {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}
