//! `house.toml`: the measures, their goals and their limits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::calls::Pattern;
use crate::layers::Layer;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Directories of the crates that are measured.
    pub(crate) crates: Vec<PathBuf>,
    /// The sources to which the layers apply.
    pub(crate) layered: PathBuf,
    /// From the ground up.
    pub(crate) layers: Vec<Layer>,
    /// What there should be one of, in the order in which it is shown.
    pub(crate) calls: Vec<Calls>,
    /// What each measure is to reach.
    pub(crate) goals: BTreeMap<String, u64>,
    /// Measures that no program can count.
    pub(crate) by_hand: Vec<String>,
    /// The highest value that is allowed, by measure. A measure without a limit is only printed.
    pub(crate) limits: BTreeMap<String, u64>,
}

/// Something that is found by how it is called.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Calls {
    pub(crate) name: String,
    patterns: Vec<String>,
    /// Whether each call counts, rather than each file.
    #[serde(default)]
    pub(crate) each: bool,
    /// Where it is looked for, below `layered`; everywhere if there are none.
    #[serde(default)]
    pub(crate) within: Vec<PathBuf>,
}

impl Calls {
    /// # Errors
    /// If one is not written as it should be.
    pub(crate) fn patterns(&self) -> Result<Vec<Pattern>, String> {
        self.patterns.iter().map(|text| Pattern::read(text)).collect()
    }
}

impl Config {
    /// # Errors
    /// If the file cannot be read or is not what it should be.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}
