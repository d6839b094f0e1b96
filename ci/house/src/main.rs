//! Prints the measures of the house, and fails when one is higher than the lowest value that is kept in `house.toml`.
//!
//! ```text
//! armature-house [--keep | --list MEASURE]     in the root of the repository
//! ```
//! `--keep` keeps values that have fallen; `--list` prints what was counted for a measure. `README.md` says how each is counted.

mod calls;
mod config;
mod imports;
mod layers;
mod lines;
mod macros;
mod measure;
mod numbers;
mod source;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::config::{Config, with_lowest};
use crate::measure::{Measure, measure};

/// Below the root of the repository.
const CONFIG: &str = "ci/house/house.toml";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// False if a measure has risen.
fn run(arguments: &[&str]) -> Result<bool, String> {
    let root = Path::new(".");
    let path = root.join(CONFIG);
    let mut config = Config::read(&path)?;
    let measures = measure(root, &config)?;
    match arguments {
        [] => {}
        ["--list", name] => {
            let found = measures.iter().find(|measure| measure.name == *name);
            let names =
                || measures.iter().map(|measure| measure.name.as_str()).collect::<Vec<_>>().join(", ");
            let found =
                found.ok_or_else(|| format!("there is no measure `{name}`; there are: {}", names()))?;
            found.list.iter().for_each(|line| println!("{line}"));
            return Ok(true);
        }
        ["--keep"] => {
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{CONFIG}: {error}"))?;
            config.lowest = lower(&measures, &config.lowest);
            std::fs::write(&path, with_lowest(&text, &config.lowest)?)
                .map_err(|error| format!("{CONFIG}: {error}"))?;
        }
        _ => return Err("usage: armature-house [--keep | --list MEASURE]".to_string()),
    }
    print!("{}", table(&measures, &config));
    let risen = risen(&measures, &config.lowest)?;
    if risen.is_empty() {
        return Ok(true);
    }
    let before = before(&config)?;
    for measure in risen {
        println!("\n{} have risen from {} to {}:", measure.name, config.lowest[&measure.name], measure.value);
        let before = before.as_ref().and_then(|all| all.iter().find(|before| before.name == measure.name));
        print!("{}", where_risen(measure, before));
    }
    println!(
        "\n`armature-house --list MEASURE` prints what was counted. What has to rise is raised by hand in {CONFIG}."
    );
    Ok(false)
}

/// The measures as people read them.
fn table(measures: &[Measure], config: &Config) -> String {
    let mut text = format!("{:<32} {:>7} {:>7} {:>7}\n", "measures of the house", "now", "lowest", "goal");
    let shown = |value: Option<&u64>| value.map_or("-".to_string(), u64::to_string);
    for Measure { name, value, .. } in measures {
        let (lowest, goal) = (shown(config.lowest.get(name)), shown(config.goals.get(name)));
        text += &format!("{name:<32} {value:>7} {lowest:>7} {goal:>7}\n");
    }
    for name in &config.by_hand {
        text += &format!("{name:<32} {:>7}  no program counts it: walk it by hand\n", "?");
    }
    text
}

/// The values to be kept: those that are, or lower ones.
fn lower(measures: &[Measure], lowest: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let lower = |m: &Measure| lowest.get(&m.name).map_or(m.value, |&kept| kept.min(m.value));
    let kept = measures.iter().filter(|measure| !measure.may_rise);
    kept.map(|measure| (measure.name.clone(), lower(measure))).collect()
}

/// The measures that are higher than what is kept.
fn risen<'a>(measures: &'a [Measure], lowest: &BTreeMap<String, u64>) -> Result<Vec<&'a Measure>, String> {
    let mut risen = Vec::new();
    for measure in measures.iter().filter(|measure| !measure.may_rise) {
        let kept = lowest.get(&measure.name);
        let kept = kept.ok_or_else(|| format!("no value is kept of `{}`; --keep does it", measure.name))?;
        if measure.value > *kept {
            risen.push(measure);
        }
    }
    Ok(risen)
}

/// The measures of the commit that kept values last; none where its files cannot be had, or are not as `config` has them.
fn before(config: &Config) -> Result<Option<Vec<Measure>>, String> {
    let output = Command::new("git").args(["log", "-1", "--format=%H", "--", CONFIG]).output();
    let Some(commit) = output.ok().and_then(|output| String::from_utf8(output.stdout).ok()) else {
        return Ok(None);
    };
    let commit = commit.trim();
    if commit.is_empty() {
        return Ok(None);
    }
    let dir = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let (file, paths) = (dir.path().join("files.tar"), &config.crates);
    let packed = Command::new("git").args(["archive", "-o"]).arg(&file).arg(commit).args(paths).status();
    let unpacked = Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(dir.path()).status();
    if !packed.is_ok_and(|status| status.success()) || !unpacked.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    Ok(measure(dir.path(), config).ok())
}

/// The files that have risen, or those with most where it is not known what was before.
fn where_risen(measure: &Measure, before: Option<&Measure>) -> String {
    /// So many files are shown where it is not known which have risen.
    const SHOWN: usize = 10;
    let Some(before) = before else {
        let mut files: Vec<_> = measure.files.iter().collect();
        files.sort_by_key(|(_, value)| std::cmp::Reverse(**value));
        let lines = files.iter().take(SHOWN).map(|(path, value)| format!("  {}: {value}\n", path.display()));
        return lines.collect();
    };
    let was = |path: &Path| before.files.get(path).copied().unwrap_or_default();
    let files =
        measure.files.iter().map(|(path, &value)| (path, was(path), value)).filter(|(_, was, is)| is > was);
    files.map(|(path, was, is)| format!("  {}: from {was} to {is}\n", path.display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(value: u64, files: &[(&str, u64)]) -> Measure {
        let files = files.iter().map(|(path, value)| (path.into(), *value)).collect();
        Measure { name: "a b".into(), value, files, ..Measure::default() }
    }

    #[test]
    fn what_has_risen_is_found_with_its_files() {
        let now = [measure(9, &[("x.rs", 5), ("y.rs", 3), ("z.rs", 1)])];
        let kept = |value| BTreeMap::from([("a b".to_string(), value)]);
        assert!(risen(&now, &kept(9)).unwrap().is_empty());
        assert_eq!(risen(&now, &kept(8)).unwrap().len(), 1);
        assert!(risen(&now, &BTreeMap::new()).is_err());
        let before = measure(8, &[("x.rs", 5), ("y.rs", 2), ("gone.rs", 1)]);
        assert_eq!(where_risen(&now[0], Some(&before)), "  y.rs: from 2 to 3\n  z.rs: from 0 to 1\n");
        assert!(where_risen(&now[0], None).starts_with("  x.rs: 5\n"));
    }

    #[test]
    fn only_lower_values_are_kept() {
        let now = [measure(9, &[])];
        assert_eq!(lower(&now, &BTreeMap::from([("a b".to_string(), 8)]))["a b"], 8);
        assert_eq!(lower(&now, &BTreeMap::from([("a b".to_string(), 10)]))["a b"], 9);
        assert_eq!(lower(&now, &BTreeMap::new())["a b"], 9);
    }
}
