//! What is printed of a search.

use crate::pipeline::Found;
use armature_apps::names::escaped;
use clap::ValueEnum;
use std::io::{self, Write};

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Fields with tabs between: text, place, pattern; or text, count
    Tsv,
    /// A JSON object: file, offset, pattern; or file, count
    Json,
}

/// Writes lines as the matches come, and counts them.
#[derive(Debug)]
pub struct Lines<W> {
    to: W,
    format: Format,
    /// Names of the texts, and of the patterns, in this format.
    parts: Vec<String>,
    patterns: Vec<String>,
    /// By text; what is told at the end where only that is asked for.
    counts: Vec<u64>,
    only_counts: bool,
}

impl<W: Write> Lines<W> {
    /// Lines about texts and patterns of these names; `only_counts` asks for one line a text with its number of matches.
    pub fn new(to: W, format: Format, parts: Vec<String>, patterns: &[Vec<u8>], only_counts: bool) -> Self {
        let field = |text: String| match format {
            Format::Tsv => text,
            // A string always has a JSON form.
            Format::Json => serde_json::to_string(&text).unwrap_or_default(),
        };
        let patterns = patterns.iter().map(|pattern| field(shown(pattern))).collect();
        let counts = vec![0; parts.len()];
        Lines { to, format, parts: parts.into_iter().map(field).collect(), patterns, counts, only_counts }
    }

    /// What was found in a part of a text.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, found: &Found) -> io::Result<()> {
        let part = found.part as usize;
        self.counts[part] += found.count;
        let name = &self.parts[part];
        for (place, pattern) in found.matches() {
            let pattern = &self.patterns[pattern as usize];
            match self.format {
                Format::Tsv => writeln!(self.to, "{name}\t{place}\t{pattern}")?,
                Format::Json => {
                    writeln!(self.to, "{{\"file\":{name},\"offset\":{place},\"pattern\":{pattern}}}")?
                }
            }
        }
        Ok(())
    }

    /// Writes what is left, and tells the number of all matches.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(mut self) -> io::Result<(W, u64)> {
        if self.only_counts {
            for (name, count) in self.parts.iter().zip(&self.counts) {
                match self.format {
                    Format::Tsv => writeln!(self.to, "{name}\t{count}")?,
                    Format::Json => writeln!(self.to, "{{\"file\":{name},\"count\":{count}}}")?,
                }
            }
        }
        Ok((self.to, self.counts.iter().sum()))
    }
}

/// Bytes fit for a line: those that are no UTF-8 become `\x` and two hexadecimal digits, the rest as
/// [`escaped`] writes it.
pub fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    for part in bytes.utf8_chunks() {
        text += &escaped(part.valid());
        part.invalid().iter().for_each(|byte| text += &format!("\\x{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_stay_on_their_line() {
        assert_eq!(shown(b"a\tb\xff\n\xc3\xa9"), "a\\tb\\xff\\n\u{e9}");
    }
}
