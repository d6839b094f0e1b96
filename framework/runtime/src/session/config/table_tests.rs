//! Tests that the table of settings in the documentation of [`Config`](super::Config) is complete and correct, and equals the table of settings
//! in the book.

use super::variables::SETTINGS;
use super::{Balance, Config};

const DOCUMENTED: &str = include_str!("mod.rs");
/// Path of the book's page with the table of settings, and environment variable that makes the test write this page.
const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
const RENEW: &str = "ARMATURE_TEST_RENEW";

fn table(text: &str, prefix: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.strip_prefix(prefix).unwrap_or_default());
    lines
        .skip_while(|line| !line.starts_with("| variable |"))
        .take_while(|line| line.starts_with('|'))
        .map(String::from)
        .collect()
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

/// Returns a row of the table of settings in the form of the book, in which links between rustdoc pages become names.
fn for_the_book(row: &str) -> String {
    let mut written = String::new();
    let mut rest = row;
    while let Some((before, link)) = rest.split_once('[') {
        let (text, target) = link.split_once("](").expect("brackets of the table are links");
        let (target, after) = target.split_once(')').expect("a link ends");
        written.push_str(before);
        match target.strip_prefix("crate::") {
            Some(path) if text.starts_with('`') => {
                let method: Vec<&str> = path.rsplitn(3, "::").take(2).collect();
                written.push_str(&format!("`{}::{}`", method[1], method[0]));
            }
            Some(module) => written.push_str(&format!("{text} (`armature::{module}`)")),
            None => written.push_str(&format!("`{target}`")),
        }
        rest = after;
    }
    written + rest
}

#[test]
fn every_setting_is_documented() {
    let rows = table(DOCUMENTED, "/// ");
    let documented: Vec<String> =
        rows[2..].iter().map(|row| cells(row)[0].trim_matches('`').to_string()).collect();
    assert_eq!(documented, SETTINGS, "the table in the page of `Config` against SETTINGS");
}

#[test]
fn documented_defaults_match_the_code() {
    // The defaults of `ranks` and `balance` depend on the launcher and on the skeleton, so the expected configuration sets both.
    let defaults = Config { ranks: Some(1), balance: Some(Balance::Live), ..Config::new() };
    let mut checked = 0;
    for row in &table(DOCUMENTED, "/// ")[2..] {
        let row = cells(row);
        let (name, default) = (row[0].trim_matches('`'), row[3]);
        let value = default
            .split_once(':')
            .map_or(default, |(value, _)| value)
            .split(" for ")
            .next()
            .unwrap_or_default();
        if value.starts_with("no") && !value.starts_with('`') {
            continue;
        }
        let value = value.trim_matches('`');
        let lookup = |asked: &str| match asked {
            _ if asked == name => Some(value.to_string()),
            "ARMATURE_RANKS" => Some("1".to_string()),
            "ARMATURE_BALANCE" => Some("live".to_string()),
            _ => None,
        };
        let read =
            Config::from_lookup(lookup).unwrap_or_else(|e| panic!("the documented default of {name}: {e}"));
        assert_eq!(format!("{read:?}"), format!("{defaults:?}"), "the documented default of {name}");
        checked += 1;
    }
    assert_eq!(
        checked,
        SETTINGS.len() - 5,
        "the log of events, the job status, the directory of the run, its end and the platform have no value to read back"
    );
}

#[test]
fn book_contains_the_table_of_settings() {
    let wanted: Vec<String> = table(DOCUMENTED, "/// ").iter().map(|row| for_the_book(row)).collect();
    let page = std::fs::read_to_string(BOOK).unwrap_or_else(|e| panic!("{BOOK}: {e}"));
    let has = table(&page, "");
    if wanted == has {
        return;
    }
    if std::env::var_os(RENEW).is_some() {
        let (old, new) = (has.join("\n"), wanted.join("\n"));
        assert!(!old.is_empty(), "docs/settings.md has no table that begins with `| variable |`");
        std::fs::write(BOOK, page.replacen(&old, &new, 1)).unwrap_or_else(|e| panic!("{BOOK}: {e}"));
        return;
    }
    let differs = wanted.iter().zip(&has).find(|(wanted, has)| wanted != has);
    panic!(
        "docs/settings.md is not up to date with the table in the page of `Config` ({} rows, {} in the book; first \
         difference: {differs:?}). Renew it: {RENEW}=1 cargo test -p armature-mpi --lib table_of_settings",
        wanted.len(),
        has.len(),
    );
}
