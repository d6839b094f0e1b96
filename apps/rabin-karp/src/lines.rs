//! Lines of the program's output: one for each match, or one for each text with its number of matches.

use crate::pipeline::Found;
use armature_apps::names;
use clap::ValueEnum;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Format of an output line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Fields separated by tabs: text, offset, pattern; or text, count. In names and patterns, a tab, a line end and a backslash are written as \t,
    /// \n and \\, and a byte that is not UTF-8 as \x and two digits
    Tsv,
    /// JSON object with the keys file, offset, pattern; or file, count. A name or pattern that is not UTF-8 is a list of bytes
    Json,
}

/// Writer that prints matches as they arrive and counts them.
#[derive(Debug)]
pub struct Lines<W> {
    to: W,
    format: Format,
    /// Names of the texts and of the patterns in the output format.
    parts: Vec<String>,
    patterns: Vec<String>,
    /// Number of matches of each text, printed at the end if only counts were requested.
    counts: Vec<u64>,
    only_counts: bool,
}

impl<W: Write> Lines<W> {
    /// Creates a writer for texts with the names `parts`, and these patterns. With `only_counts`, the output is one line per text with the number of
    /// matches.
    pub fn new(to: W, format: Format, parts: &[&[u8]], patterns: &[Vec<u8>], only_counts: bool) -> Self {
        let patterns = patterns.iter().map(|pattern| field(format, pattern)).collect();
        let counts = vec![0; parts.len()];
        let parts = parts.iter().map(|part| field(format, part)).collect();
        Lines { to, format, parts, patterns, counts, only_counts }
    }

    /// Adds the matches in a part of a text.
    ///
    /// # Errors
    /// The output cannot be written.
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

    /// Writes the counts if they were requested. Returns the output and the number of all matches.
    ///
    /// # Errors
    /// The output cannot be written.
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

/// Returns the name of a text, or a pattern, as a field of a line.
fn field(format: Format, bytes: &[u8]) -> String {
    // Serialization does not fail, because strings and lists of numbers always have a JSON form.
    match (format, std::str::from_utf8(bytes)) {
        (Format::Tsv, _) => names::path(Path::new(OsStr::from_bytes(bytes))),
        (Format::Json, Ok(text)) => serde_json::to_string(text).unwrap_or_default(),
        (Format::Json, Err(_)) => serde_json::to_string(bytes).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_contain_escaped_text_or_raw_byte_values() {
        for (bytes, tsv, json) in [
            (&b"a\tb\n\\n\xc3\xa9"[..], "a\\tb\\n\\\\n\u{e9}", "\"a\\tb\\n\\\\n\u{e9}\""),
            (b"a\t\xff", "a\\t\\xff", "[97,9,255]"),
        ] {
            assert_eq!((&*field(Format::Tsv, bytes), &*field(Format::Json, bytes)), (tsv, json));
        }
    }
}
