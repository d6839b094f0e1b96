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

/// Formatter of output lines, for matches or for the number of matches of each text.
#[derive(Debug)]
pub struct Lines {
    format: Format,
    parts: Vec<String>,
    patterns: Vec<String>,
}

impl Lines {
    /// Creates a formatter; `parts` are the names of the texts that are searched.
    pub fn new(format: Format, parts: &[&[u8]], patterns: &[Vec<u8>]) -> Self {
        let fields = |all: &mut dyn Iterator<Item = &[u8]>| all.map(|bytes| field(format, bytes)).collect();
        let (parts, patterns) =
            (fields(&mut parts.iter().copied()), fields(&mut patterns.iter().map(Vec::as_slice)));
        Lines { format, parts, patterns }
    }

    /// Writes one line for each match in `found`.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(&self, found: &Found, to: &mut impl Write) -> io::Result<()> {
        let name = &self.parts[found.part as usize];
        for (place, pattern) in found.matches() {
            let pattern = &self.patterns[pattern as usize];
            match self.format {
                Format::Tsv => writeln!(to, "{name}\t{place}\t{pattern}")?,
                Format::Json => writeln!(to, "{{\"file\":{name},\"offset\":{place},\"pattern\":{pattern}}}")?,
            }
        }
        Ok(())
    }

    /// Writes one line for each text, with its number of matches.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write_counts(&self, counts: &[u64], to: &mut impl Write) -> io::Result<()> {
        for (name, count) in self.parts.iter().zip(counts) {
            match self.format {
                Format::Tsv => writeln!(to, "{name}\t{count}")?,
                Format::Json => writeln!(to, "{{\"file\":{name},\"count\":{count}}}")?,
            }
        }
        Ok(())
    }
}

fn field(format: Format, bytes: &[u8]) -> String {
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
