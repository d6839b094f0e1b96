//! Measures of the language of comments, messages and pages: unclear first words and phrases, and long sentences.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::messages::messages;
use crate::source::without_tests;

/// Maximum number of words of a sentence on a page of the documentation.
const MOST_WORDS: usize = 30;

/// Rules for the language of comments, messages and documentation pages, from `house.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Language {
    /// Directories with Rust sources whose comments are checked.
    comments: Vec<PathBuf>,
    /// Pages of the documentation, and directories of pages, whose sentences are checked.
    pages: Vec<PathBuf>,
    /// Words with which no comment may begin.
    openings: Vec<String>,
    /// Phrases that no comment and no message may contain.
    phrases: Vec<String>,
    /// Directories with Rust sources whose messages to users are listed.
    #[serde(default)]
    messages: Vec<PathBuf>,
}

impl Language {
    pub(crate) fn unclear_comments(&self, root: &Path) -> Result<(Vec<String>, usize), String> {
        let (mut found, mut count) = (Vec::new(), 0);
        for path in files(root, &self.comments, "rs")? {
            for (line, text) in comments(&read(&path)?) {
                count += 1;
                if let Some(why) = self.unclear(&text) {
                    found.push(format!("{}:{line}: \"{why}\": {text}", shown(root, &path)));
                }
            }
        }
        Ok((found, count))
    }

    fn unclear(&self, text: &str) -> Option<&str> {
        let whole = format!(" {} ", words(text).join(" "));
        let opening = self.openings.iter().find(|opening| whole.starts_with(&format!(" {opening} ")));
        opening.map(String::as_str).or_else(|| self.phrase(text))
    }

    fn phrase(&self, text: &str) -> Option<&str> {
        let whole = format!(" {} ", words(text).join(" "));
        self.phrases.iter().find(|phrase| whole.contains(&format!(" {phrase} "))).map(String::as_str)
    }

    pub(crate) fn messages(&self, root: &Path) -> Result<(Vec<String>, Vec<String>), String> {
        let (mut all, mut unclear) = (Vec::new(), Vec::new());
        for path in files(root, &self.messages, "rs")?.into_iter().filter(|path| !is_of_tests(path)) {
            let code =
                without_tests(&read(&path)?).map_err(|error| format!("{}: {error}", path.display()))?;
            for (line, text) in messages(&code) {
                let place = format!("{}:{line}: {text}", shown(root, &path));
                if let Some(why) = self.phrase(&text) {
                    unclear.push(format!("\"{why}\": {place}"));
                }
                all.push(place);
            }
        }
        Ok((all, unclear))
    }

    pub(crate) fn long_sentences(&self, root: &Path) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        for path in files(root, &self.pages, "md")? {
            for (line, sentence) in sentences(&read(&path)?) {
                let count = words(&sentence).len();
                if count > MOST_WORDS {
                    found.push(format!("{}:{line}: {count} words: {sentence}", shown(root, &path)));
                }
            }
        }
        Ok(found)
    }
}

fn is_of_tests(path: &Path) -> bool {
    let is_tests = |part: &str| {
        part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs") || part == "compile_fail.rs"
    };
    path.iter().any(|part| part.to_str().is_some_and(is_tests))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

fn files(root: &Path, places: &[PathBuf], extension: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = places.iter().map(|place| root.join(place)).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let is_built = |path: &PathBuf| path.file_name().is_some_and(|name| name == "target");
            open.extend(entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| !is_built(path)));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the comments of a Rust source, each with the number of its first line. Adjacent lines with the same marker
/// (`//`, `///` or `//!`) are one comment. Code blocks are left out.
fn comments(source: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut last, mut is_code) = ("", false);
    for (line, text) in (1..).zip(source.lines()) {
        let text = text.trim_start();
        let kind = ["///", "//!", "//"].into_iter().find(|kind| text.starts_with(kind)).unwrap_or("");
        let text = text[kind.len()..].trim();
        if kind != last {
            is_code = false;
        }
        if text.starts_with("```") {
            is_code = !is_code;
        } else if !kind.is_empty() && !is_code {
            match found.last_mut().filter(|_| kind == last) {
                Some((_, whole)) => *whole = format!("{whole} {text}"),
                None => found.push((line, text.to_string())),
            }
        }
        last = kind;
    }
    found
}

/// Returns the sentences of a page, without code blocks, tables and headings. Each has the number of the line on
/// which its paragraph begins.
fn sentences(page: &str) -> Vec<(usize, String)> {
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    let (mut is_code, mut is_open) = (false, false);
    for (line, text) in (1..).zip(page.lines()) {
        let text = text.trim();
        let begins_item =
            text.starts_with("- ") || text.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        if text.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || text.is_empty() || ["```", "|", "#", "!["].iter().any(|start| text.starts_with(start)) {
            is_open = false;
        } else if is_open && !begins_item {
            let (_, whole) = paragraphs.last_mut().expect("an open paragraph is the last one");
            *whole = format!("{whole} {text}");
        } else {
            paragraphs.push((line, text.to_string()));
            is_open = true;
        }
    }
    let split = |(line, text): (usize, String)| {
        let ended = text.replace(". ", ".\n").replace("? ", "?\n").replace(": ", ":\n").replace("; ", ";\n");
        ended.lines().map(|sentence| (line, sentence.to_string())).collect::<Vec<_>>()
    };
    paragraphs.into_iter().flat_map(split).collect()
}

/// Returns the parts of a text between spaces that have a letter or a digit. Text in backticks is one word. The
/// address of a link does not count.
fn words(text: &str) -> Vec<String> {
    let mut plain = String::new();
    for (place, piece) in text.split('`').enumerate() {
        plain += &if place % 2 == 0 { piece.to_string() } else { "code".to_string() };
    }
    while let Some((start, rest)) = plain.split_once("](") {
        let after = rest.split_once(')').map_or("", |(_, after)| after);
        plain = format!("{start} {after}");
    }
    let trimmed = plain.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    trimmed.filter(|word| !word.is_empty()).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_joined_into_blocks_without_their_code() {
        let source = "//! Module.\n\n/// One\n/// two.\n/// ```\n/// let x = 1;\n/// ```\n/// Three.\nfn a() {\n    // Why.\n}\n";
        let expected = [(1, "Module."), (3, "One two. Three."), (10, "Why.")];
        assert_eq!(comments(source), expected.map(|(line, text)| (line, text.to_string())));
    }

    #[test]
    fn unclear_openings_and_phrases_are_found() {
        let language = Language {
            openings: vec!["What".into(), "The same".into()],
            phrases: vec!["of these".into()],
            ..Language::default()
        };
        assert_eq!(language.unclear("What is left."), Some("What"));
        assert_eq!(language.unclear("The same, reversed."), Some("The same"));
        assert_eq!(language.unclear("A count. What is left."), None, "it does not begin with the word");
        assert_eq!(language.unclear("Sum of these."), Some("of these"));
        assert_eq!(language.unclear("Whatever `of these` means."), None);
    }

    #[test]
    fn sentences_are_split_and_counted() {
        let page = "# A heading\n\nOne two. Three [four](five six)\nseven.\n- An item: its end.\n\n| a | table |\n```sh\ncode here\n```\n";
        let found = sentences(page);
        let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["One two.", "Three [four](five six) seven.", "- An item:", "its end."]);
        assert_eq!((found[1].0, words(texts[1]).len(), words(texts[2]).len()), (3, 3, 2));
    }
}
