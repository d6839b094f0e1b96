//! Prints the measures (counts) of the framework's structure and language, and fails when one is above its limit in
//! `house.toml`.
//!
//! ```text
//! armature-house [--list MEASURE]     in the root of the repository
//! ```
//! `--list` prints each place that was counted for a measure. `README.md` describes how each measure is counted.

mod calls;
mod config;
mod imports;
mod language;
mod layers;
mod lines;
mod macros;
mod measure;
mod messages;
mod numbers;
mod source;

use std::path::Path;
use std::process::ExitCode;

use crate::config::Config;
use crate::measure::{Measure, measure};

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

/// Returns false if a measure (count) is above its limit.
fn run(arguments: &[&str]) -> Result<bool, String> {
    let root = Path::new(".");
    let config = Config::read(&root.join(CONFIG))?;
    let measures = measure(root, &config)?;
    match arguments {
        [] => {}
        ["--list", name] => {
            println!("{}", find(&measures, name)?.list.join("\n"));
            return Ok(true);
        }
        _ => return Err("usage: armature-house [--list MEASURE]".to_string()),
    }
    print!("{}", table(&measures, &config));
    let exceeded = exceeded(&measures, &config)?;
    for (measure, limit) in &exceeded {
        println!("\n{}: {}, at most {limit} allowed in {CONFIG}:", measure.name, measure.value);
        measure.list.iter().for_each(|line| println!("  {line}"));
    }
    Ok(exceeded.is_empty())
}

fn find<'a>(measures: &'a [Measure], name: &str) -> Result<&'a Measure, String> {
    measures.iter().find(|measure| measure.name == name).ok_or_else(|| {
        let names: Vec<&str> = measures.iter().map(|measure| measure.name.as_str()).collect();
        format!("there is no measure `{name}`; there are: {}", names.join(", "))
    })
}

fn table(measures: &[Measure], config: &Config) -> String {
    let mut text = format!("{:<32} {:>7} {:>7} {:>7}\n", "measure", "now", "limit", "goal");
    let shown = |value: Option<&u64>| value.map_or("-".to_string(), u64::to_string);
    for Measure { name, value, .. } in measures {
        let (limit, goal) = (shown(config.limits.get(name)), shown(config.goals.get(name)));
        text += &format!("{name:<32} {value:>7} {limit:>7} {goal:>7}\n");
    }
    for name in &config.by_hand {
        text += &format!("{name:<32} {:>7}  counted by hand\n", "?");
    }
    text
}

fn exceeded<'a>(measures: &'a [Measure], config: &Config) -> Result<Vec<(&'a Measure, u64)>, String> {
    let mut exceeded = Vec::new();
    for (name, &limit) in &config.limits {
        let measure = find(measures, name)?;
        if measure.value > limit {
            exceeded.push((measure, limit));
        }
    }
    Ok(exceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_above_its_limit_is_found() {
        let now = [Measure { name: "a b".into(), value: 9, ..Measure::default() }];
        let config = |limits: &str| -> Config {
            let rest =
                "crates = []\nlayered = \"k\"\nlayers = []\ncalls = []\nby_hand = []\n[goals]\n[limits]\n";
            toml::from_str(&format!("{rest}{limits}")).unwrap()
        };
        assert!(exceeded(&now, &config("\"a b\" = 9")).unwrap().is_empty());
        assert_eq!(exceeded(&now, &config("\"a b\" = 8")).unwrap().len(), 1);
        assert!(exceeded(&now, &config("")).unwrap().is_empty(), "a measure without a limit is only printed");
        assert!(exceeded(&now, &config("\"c\" = 1")).is_err(), "a limit of an unknown measure is an error");
    }
}
