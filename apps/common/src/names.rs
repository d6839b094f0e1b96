//! Names of files, and other text from outside, fit for a line that a person or a program reads.
//!
//! A file may have any name: one with a line end would forge a line of its own in a message or a table, one with an escape
//! character could steer the terminal that shows it, and one that is not UTF-8 could not be shown at all. Written as here, a
//! name stays on its line and in its field, every name looks different, and [`unescaped`] gives it back.

use std::fmt::Write;
use std::path::Path;

/// A name fit for a line of text and for a field of tab-separated values.
///
/// A tab, line feed, carriage return and backslash become `\t`, `\n`, `\r` and `\\`. All other characters that control a
/// terminal, end a line, have no width or turn the direction of text around become `\u{…}` with their number. The rest
/// stays as it is.
///
/// ```
/// use armature_apps::names::{escaped, unescaped};
/// assert_eq!(escaped("Zürich, 1 May.png"), "Zürich, 1 May.png");
/// assert_eq!(escaped("two\nlines\u{1b}[2J"), r"two\nlines\u{1b}[2J");
/// assert_eq!(unescaped(r"two\nlines\u{1b}[2J"), "two\nlines\u{1b}[2J");
/// ```
pub fn escaped(name: &str) -> String {
    let mut field = String::with_capacity(name.len());
    name.chars().for_each(|c| push(&mut field, c));
    field
}

/// A path as [`escaped`] writes a name; bytes that are not UTF-8 become `\x` and two hexadecimal digits.
///
/// ```
/// use std::path::Path;
/// assert_eq!(armature_apps::names::path(Path::new("new photos/a\tb.png")), r"new photos/a\tb.png");
/// ```
pub fn path(path: &Path) -> String {
    let mut field = String::new();
    for part in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        part.valid().chars().for_each(|c| push(&mut field, c));
        for byte in part.invalid() {
            // Writing to a string does not fail.
            let _ = write!(field, "\\x{byte:02x}");
        }
    }
    field
}

fn push(field: &mut String, c: char) {
    match c {
        '\\' => field.push_str("\\\\"),
        '\t' => field.push_str("\\t"),
        '\n' => field.push_str("\\n"),
        '\r' => field.push_str("\\r"),
        c if is_hidden(c) => field.extend(c.escape_unicode()),
        c => field.push(c),
    }
}

/// Whether a character does something to a line instead of being seen in it: controls; separators of lines and paragraphs;
/// marks, embeddings, overrides and isolates of direction; spaces without width. Joiners of letters and of pictograms are seen.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The name that [`escaped`] was given. A backslash with something behind it that `escaped` does not write stands for what is
/// behind it.
pub fn unescaped(field: &str) -> String {
    let mut name = String::with_capacity(field.len());
    let mut rest = field;
    while let Some((before, behind)) = rest.split_once('\\') {
        name.push_str(before);
        let (c, after) = match behind.chars().next() {
            Some('t') => ('\t', &behind[1..]),
            Some('n') => ('\n', &behind[1..]),
            Some('r') => ('\r', &behind[1..]),
            Some('u') => by_number(behind).unwrap_or(('u', &behind[1..])),
            Some(other) => (other, &behind[other.len_utf8()..]),
            None => ('\\', behind),
        };
        name.push(c);
        rest = after;
    }
    name + rest
}

/// The character of a text that begins with `u{NUMBER}`, and what follows.
fn by_number(text: &str) -> Option<(char, &str)> {
    let (number, after) = text.strip_prefix("u{")?.split_once('}')?;
    Some((char::from_u32(u32::from_str_radix(number, 16).ok()?)?, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Names with many of the characters that matter.
    fn name() -> impl Strategy<Value = String> {
        proptest::collection::vec(
            prop_oneof![
                any::<char>(),
                proptest::sample::select(
                    "\\tnru{}\t\n\r\u{1b}\u{7f}\u{85}\u{2028}\u{2029}\u{202e}\u{feff}0aé"
                        .chars()
                        .collect::<Vec<_>>()
                )
            ],
            0..12,
        )
        .prop_map(|characters| characters.into_iter().collect())
    }

    proptest! {
        #[test]
        fn any_name_fits_one_field_and_comes_back(name in name()) {
            let field = escaped(&name);
            prop_assert!(!field.contains(is_hidden), "{field:?}");
            prop_assert_eq!(&path(Path::new(&name)), &field);
            prop_assert_eq!(unescaped(&field), name);
        }

        #[test]
        fn any_text_can_be_unescaped(text in name()) {
            unescaped(&text);
        }
    }

    #[test]
    fn what_does_something_to_a_line_is_written_out() {
        for (name, field) in [
            ("a\tb\nc\rd\\", r"a\tb\nc\rd\\"),
            ("\u{1b}]0;title\u{7}", r"\u{1b}]0;title\u{7}"),
            ("skipped\u{2028}x", r"skipped\u{2028}x"),
            ("\u{202e}gnp.exe", r"\u{202e}gnp.exe"),
            ("\u{feff}\u{85}\u{0}", r"\u{feff}\u{85}\u{0}"),
            ("e\u{301} 家\u{3000}族 👩\u{200d}🚀", "e\u{301} 家\u{3000}族 👩\u{200d}🚀"),
        ] {
            assert_eq!(escaped(name), field);
        }
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_not_text_differ_too() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let shown = |name: &[u8]| path(Path::new(OsStr::from_bytes(name)));
        assert_eq!(shown(b"a\xff\xfe.png"), r"a\xff\xfe.png");
        assert_eq!(shown(b"a\\xff\xfe.png"), r"a\\xff\xfe.png");
        assert_eq!(shown("\u{fffd}".as_bytes()), "\u{fffd}");
    }
}
