//! `house.toml`: what is measured, and the lowest values so far.

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
    /// No file should have more lines than this.
    pub(crate) longest_file: usize,
    /// What each measure is to reach.
    pub(crate) goals: BTreeMap<String, u64>,
    /// Measures that no program can count.
    pub(crate) by_hand: Vec<String>,
    /// The lowest values so far, by measure.
    pub(crate) lowest: BTreeMap<String, u64>,
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

/// The text of the file with these as its lowest values, and all else as it is: they are its last table.
pub(crate) fn with_lowest(text: &str, lowest: &BTreeMap<String, u64>) -> Result<String, String> {
    const TABLE: &str = "[lowest]\n";
    let end = text.find(TABLE).ok_or("house.toml has no table [lowest]")? + TABLE.len();
    let lines = lowest.iter().map(|(name, value)| format!("{name:?} = {value}\n"));
    Ok(text[..end].to_string() + &lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_values_are_replaced_and_nothing_else() {
        let text = "# Why.\na = 1\n\n[lowest]\n\"b c\" = 5\n";
        let lowest = BTreeMap::from([("b c".to_string(), 4), ("d".to_string(), 0)]);
        assert_eq!(
            with_lowest(text, &lowest).unwrap(),
            "# Why.\na = 1\n\n[lowest]\n\"b c\" = 4\n\"d\" = 0\n"
        );
        assert!(with_lowest("", &lowest).is_err());
    }
}
