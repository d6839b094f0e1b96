//! Finds names of code in the text of the book, and looks them up in the sources.

use std::fmt;

use crate::foreign;
use crate::sources::{Sources, identifier};

/// Name of code that the book uses and the sources must define.
#[derive(Debug, PartialEq)]
pub(crate) enum Name {
    Setting(String),
    Option(String),
    Member(String, String),
    File(String),
    /// Name of any other kind than a variable, option, member or file: a type, a method, a value of an option, or an experiment.
    Word(String),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Setting(name) => write!(f, "there is no setting {name}"),
            Name::Option(name) => write!(f, "no command has the option {name}"),
            Name::Member(of, name) => write!(f, "there is no {of}::{name}"),
            Name::File(name) => write!(f, "there is no file or directory {name}"),
            Name::Word(name) => write!(f, "no source has the name {name}"),
        }
    }
}

impl Name {
    /// Returns true if the sources define this name from the book, or if it belongs to another project. `base` is the directory of the page.
    pub(crate) fn exists(&self, sources: &Sources, base: &str) -> bool {
        match self {
            Name::Setting(name) => sources.has_setting(name),
            Name::Option(name) => sources.has_option(name) || is_foreign(name),
            Name::Member(of, name) => sources.has_member(of, name) || is_foreign(&format!("{of}::{name}")),
            Name::File(name) => sources.has_file(name, base) || is_foreign(name),
            Name::Word(name) => sources.has_word(name) || is_foreign(name),
        }
    }
}

fn is_foreign(name: &str) -> bool {
    foreign::BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || foreign::NAMES.iter().any(|(_, names)| names.contains(&name))
}

/// Finds names in `span`, a text between backticks.
pub(crate) fn of_span(span: &str) -> Vec<Name> {
    let mut found = Vec::new();
    // Only the part before `=` is a name, because the value of a variable or an option may be anything.
    let (name, is_single) = match span.split_once('=') {
        Some((name, value)) if !name.contains(' ') && !value.contains(' ') => (name, true),
        _ => (span, !span.contains(' ')),
    };
    if is_single {
        single(name, &mut found);
    } else {
        command(span, &mut found);
    }
    found
}

/// Only blocks of shell commands and TOML have names to check: documentation tests check Rust, and the output of programs has none.
pub(crate) fn of_line(language: &str, line: &str) -> Vec<Name> {
    let mut found = Vec::new();
    if matches!(language, "sh" | "toml" | "bash") {
        command(line.split(" #").next().unwrap_or_default(), &mut found);
    }
    found
}

/// Finds variables, options, files of the repository and members of types in a text with spaces.
fn command(text: &str, found: &mut Vec<Name>) {
    const ROOMS: [&str; 8] =
        ["ci/", "docs/", "apps/", "framework/", "launch/", "bench/", "tests/", "hostfiles/"];
    for word in text.split([' ', '=', ',', '"', '(', ')', '&']) {
        if word.starts_with("ARMATURE_") || word.starts_with("--") && word.len() > 2 {
            single(word, found);
        } else if ROOMS.iter().any(|room| word.starts_with(room)) && !word.ends_with("/armature") {
            found.push(Name::File(word.into()));
        } else if word.starts_with(|c: char| c.is_ascii_uppercase()) && word.contains("::") {
            path(word, found);
        }
    }
}

/// Finds names of code in a text without spaces.
fn single(text: &str, found: &mut Vec<Name>) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if text.starts_with("ARMATURE_") {
        let name = text.trim_end_matches(['…', '*']);
        if name != "ARMATURE_" {
            found.push(Name::Setting(name.into()));
        }
    } else if let Some(option) = text.strip_prefix("--").filter(|option| !option.is_empty()) {
        let end = option.find(|c| !is_name(c)).unwrap_or(option.len());
        found.push(Name::Option(format!("--{}", &option[..end])));
    } else if text.contains("::") {
        path(text, found);
    } else if is_file(text) {
        found.push(Name::File(text.into()));
    } else {
        // Only names before the first bracket are checked: `map` in `.map(f)`, `summary` and `tasks` in `summary.tasks`.
        let head = text.split(['(', '<', '[', '{']).next().unwrap_or_default().trim_start_matches('.');
        let words: Vec<&str> = head.split('.').collect();
        let looks = |word: &&str| word.len() > 1 && word.chars().all(is_name) && !word.starts_with('-');
        let has_letter = |word: &&str| word.starts_with(|c: char| c.is_ascii_alphabetic());
        if words.iter().all(|word| looks(word) && has_letter(word)) {
            found.extend(words.iter().map(|word| Name::Word((*word).into())));
        }
    }
}

/// Finds names in a Rust path, such as `Farm::map`, `armature::journal` or `Chunking::…`.
fn path(text: &str, found: &mut Vec<Name>) {
    if foreign::BEGINNINGS.iter().any(|beginning| text.starts_with(beginning)) {
        return;
    }
    let text = text.split(['(', '<', '{']).next().unwrap_or_default();
    let parts: Vec<&str> = text.split("::").map(identifier).filter(|part| !part.is_empty()).collect();
    for pair in parts.windows(2) {
        if pair[0].starts_with(|c: char| c.is_ascii_uppercase()) {
            found.push(Name::Member(pair[0].into(), pair[1].into()));
        } else {
            found.push(Name::Word(pair[1].into()));
        }
    }
    if let [only] = parts[..] {
        found.push(Name::Word(only.into()));
    }
}

/// Returns true for a path such as `ci/test.sh`, `src/bin/` or `Cargo.toml`.
fn is_file(text: &str) -> bool {
    const ENDINGS: [&str; 6] = [".rs", ".sh", ".md", ".toml", ".env", ".txt"];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let is_path = text.trim_end_matches('/').contains('/') && !text.starts_with(['/', '~', '.'])
        || text.starts_with("../");
    let is_made = text.starts_with("target/");
    !is_made && text.chars().all(is_plain) && (is_path || ENDINGS.iter().any(|ending| text.ends_with(ending)))
}

#[test]
fn names_in_code_spans_are_looked_up_in_sources() {
    let mut sources = Sources::default();
    sources.add("impl Farm {\n    fn map() {}\n}\n#[arg(long)]\nper_task: u8\nlet x = \"loop-rows\";", true);
    let missing = |span: &str| -> Vec<String> {
        of_span(span).iter().filter(|name| !name.exists(&sources, "docs")).map(ToString::to_string).collect()
    };
    for span in [
        "Farm::map",
        "map(f)",
        "--per-task 3",
        "loop-rows",
        "3.5",
        "x@0,1 | y",
        "std::fs::write",
        "Farm::…",
        "target/x/y",
    ] {
        assert_eq!(missing(span), [""; 0], "{span}");
    }
    for (span, message) in [
        ("Farm::fold", "there is no Farm::fold"),
        (".fold(f)", "no source has the name fold"),
        ("app --per-item 3", "no command has the option --per-item"),
        ("ARMATURE_X=3", "there is no setting ARMATURE_X"),
        ("ci/none.sh", "there is no file or directory ci/none.sh"),
        ("cargo run ci/none.sh", "there is no file or directory ci/none.sh"),
        ("armature::none", "no source has the name none"),
    ] {
        assert_eq!(missing(span), [message], "{span}");
    }
    let found = [Name::Setting("ARMATURE_X".into()), Name::Option("--y".into())];
    assert_eq!(of_line("sh", "ARMATURE_X=1 app --y # --z"), found);
    assert_eq!(of_line("text", "ARMATURE_X=1 app --y"), []);
}
