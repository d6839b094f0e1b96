//! `house.toml`: measures, their goals and their limits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::calls::Pattern;
use crate::language::Language;
use crate::layers::Layer;

/// Content of `house.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Directories of the measured crates.
    pub(crate) crates: Vec<PathBuf>,
    /// Directory of the sources to which the layers apply.
    pub(crate) layered: PathBuf,
    /// Layers from the lowest to the highest.
    pub(crate) layers: Vec<Layer>,
    /// Measures that count calls, in the order of the table.
    pub(crate) calls: Vec<Calls>,
    /// Language of comments and pages.
    #[serde(default)]
    pub(crate) language: Language,
    /// Intended value of each measure.
    pub(crate) goals: BTreeMap<String, u64>,
    /// Names of the measures that cannot be counted by a program.
    pub(crate) by_hand: Vec<String>,
    /// Maximum value of each measure. A measure without a limit is only printed.
    pub(crate) limits: BTreeMap<String, u64>,
}

/// Measure that counts calls.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Calls {
    pub(crate) name: String,
    patterns: Vec<String>,
    /// True if calls are counted, false if files with calls are counted.
    #[serde(default)]
    pub(crate) each: bool,
    /// Files and directories below `layered` that are searched; all crates if the list is empty.
    #[serde(default)]
    pub(crate) within: Vec<PathBuf>,
}

impl Calls {
    /// # Errors
    /// A pattern has an invalid form.
    pub(crate) fn patterns(&self) -> Result<Vec<Pattern>, String> {
        self.patterns.iter().map(|text| Pattern::read(text)).collect()
    }
}

impl Config {
    /// # Errors
    /// The file cannot be read or parsed.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}
