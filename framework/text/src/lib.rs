//! Text from outside, escaped and cut for one line of output.
//!
//! Names of files, hosts, stages and tasks may have any characters. A line end in a name would forge another line in a log or a table, and an escape
//! character could steer the terminal that shows the name. Every function of this crate replaces these characters by visible escapes:
//!
//! - [`shown`] and [`quoted`]: a name or token within a message, at most [`LONGEST`] characters of it.
//! - [`line()`]: a whole message that is printed as one line. [`lines`] and [`indented`] keep line feeds.
//! - [`escaped`] and [`path`]: a field of tab-separated values that [`unescaped`] reads back.

use std::fmt::{Display, Write};
use std::path::Path;

/// Maximum number of characters that [`shown`] and [`quoted`] keep of a text.
pub const LONGEST: usize = 80;

/// Escapes a name for a field of one line. [`unescaped`] restores the name.
///
/// A tab, line feed, carriage return and backslash become `\t`, `\n`, `\r` and `\\`. All other characters that control a
/// terminal, end a line, have no width or change the direction of text become `\u{…}` with their number. Other characters are
/// unchanged.
///
/// ```
/// use armature_text::{escaped, unescaped};
/// assert_eq!(escaped("Zürich, 1 May.png"), "Zürich, 1 May.png");
/// assert_eq!(escaped("two\nlines\u{1b}[2J"), r"two\nlines\u{1b}[2J");
/// assert_eq!(unescaped(r"two\nlines\u{1b}[2J"), "two\nlines\u{1b}[2J");
/// ```
pub fn escaped(name: &str) -> String {
    let mut field = String::with_capacity(name.len());
    name.chars().for_each(|c| push_field(&mut field, c));
    field
}

/// Returns a path as [`escaped`] writes a name; bytes that are not UTF-8 become `\x` and two hexadecimal digits.
///
/// ```
/// use std::path::Path;
/// assert_eq!(armature_text::path(Path::new("new photos/a\tb.png")), r"new photos/a\tb.png");
/// ```
pub fn path(path: &Path) -> String {
    let mut field = String::new();
    for part in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        part.valid().chars().for_each(|c| push_field(&mut field, c));
        for byte in part.invalid() {
            // The result is ignored, because writing to a string does not fail.
            let _ = write!(field, "\\x{byte:02x}");
        }
    }
    field
}

/// Returns a message as one line. Characters that act on a line instead of being visible in it are escaped as in [`escaped`].
///
/// Backslashes are unchanged, so that a message whose parts are escaped already is not escaped twice.
///
/// ```
/// assert_eq!(armature_text::line("no task \u{1b}[31m\n"), r"no task \u{1b}[31m\n");
/// assert_eq!(armature_text::line(r"a\nb"), r"a\nb");
/// ```
pub fn line(message: impl Display) -> String {
    let message = message.to_string();
    if message.contains(is_hidden) { replaced(&message, |_| false) } else { message }
}

/// Returns a message of one or more lines, escaped as in [`line()`] but with its line feeds unchanged.
pub fn lines(message: impl Display) -> String {
    let message = message.to_string();
    if message.contains(|c| c != '\n' && is_hidden(c)) { replaced(&message, |c| c == '\n') } else { message }
}

/// Returns a message as [`lines`] does and indents every line after the first, so that no line looks like the beginning of another message.
///
/// ```
/// assert_eq!(armature_text::indented("no\n[ERROR rank 0] \u{1b}[31m"), "no\n  [ERROR rank 0] \\u{1b}[31m");
/// ```
pub fn indented(message: impl Display) -> String {
    lines(message).replace('\n', "\n  ")
}

/// Returns a name or token for a message: one line of at most [`LONGEST`] characters. A cut text is followed by its full length in bytes.
///
/// ```
/// use armature_text::shown;
/// assert_eq!(shown("node\n01"), r"node\n01");
/// assert_eq!(shown(&"x".repeat(500_000)), "x".repeat(80) + "… (500000 bytes)");
/// ```
pub fn shown(text: &str) -> String {
    let mut start = String::new();
    match cut(&mut start, text, push) {
        true => start,
        false => format!("{start}… ({} bytes)", text.len()),
    }
}

/// Returns a text as [`shown`] does, in quotation marks. Quotation marks and backslashes in the text are escaped.
///
/// ```
/// assert_eq!(armature_text::quoted("a \"b\"\t"), r#""a \"b\"\t""#);
/// ```
pub fn quoted(text: &str) -> String {
    let mut start = String::from("\"");
    let push_quoted = |text: &mut String, c| match c {
        '"' => text.push_str("\\\""),
        c => push_field(text, c),
    };
    match cut(&mut start, text, push_quoted) {
        true => start + "\"",
        false => format!("{start}\"… ({} bytes)", text.len()),
    }
}

/// Restores the name from a field that [`escaped`] returned. In a sequence that [`escaped`] does not produce, only the backslash is removed.
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

fn by_number(text: &str) -> Option<(char, &str)> {
    let (number, after) = text.strip_prefix("u{")?.split_once('}')?;
    Some((char::from_u32(u32::from_str_radix(number, 16).ok()?)?, after))
}

/// Appends the first [`LONGEST`] characters of `text` to `start`. Returns true if `text` has no more characters than these.
fn cut(start: &mut String, text: &str, push: impl Fn(&mut String, char)) -> bool {
    let mut characters = text.chars();
    characters.by_ref().take(LONGEST).for_each(|c| push(start, c));
    characters.next().is_none()
}

fn replaced(message: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut text = String::with_capacity(message.len());
    for c in message.chars() {
        if is_kept(c) { text.push(c) } else { push(&mut text, c) }
    }
    text
}

fn push_field(field: &mut String, c: char) {
    match c {
        '\\' => field.push_str("\\\\"),
        c => push(field, c),
    }
}

fn push(text: &mut String, c: char) {
    match c {
        '\t' => text.push_str("\\t"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        c if is_hidden(c) => text.extend(c.escape_unicode()),
        c => text.push(c),
    }
}

/// Returns true for characters that act on a line instead of being visible in it: control characters; separators of lines and paragraphs;
/// marks, embeddings, overrides and isolates of text direction; spaces without width. Joiners of letters and pictograms count as visible.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Generates random names in which many characters have to be escaped.
    fn name() -> impl Strategy<Value = String> {
        proptest::collection::vec(
            prop_oneof![
                any::<char>(),
                proptest::sample::select(
                    "\\tnru{}\"\t\n\r\u{1b}\u{7f}\u{85}\u{2028}\u{2029}\u{202e}\u{feff}0aé"
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
        fn escaped_names_fit_one_field_and_round_trip(name in name()) {
            let field = escaped(&name);
            prop_assert!(!field.contains(is_hidden), "{field:?}");
            prop_assert_eq!(&path(Path::new(&name)), &field);
            prop_assert_eq!(unescaped(&field), name);
        }

        #[test]
        fn escaping_a_message_gives_one_line_and_is_idempotent(text in name()) {
            let once = line(&text);
            prop_assert!(!once.contains(is_hidden), "{once:?}");
            prop_assert_eq!(&line(&once), &once);
            prop_assert_eq!(&shown(&text), &once);
            let several = lines(&text);
            prop_assert!(!several.contains(|c| c != '\n' && is_hidden(c)), "{several:?}");
            prop_assert_eq!(several.matches('\n').count(), text.matches('\n').count());
        }

        #[test]
        fn any_text_can_be_unescaped(text in name()) {
            unescaped(&text);
        }
    }

    #[test]
    fn control_and_bidirectional_characters_are_escaped() {
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

    #[test]
    fn long_text_is_truncated_and_its_length_is_shown() {
        let long = "é\n".repeat(40);
        assert_eq!(shown(&long), r"é\n".repeat(40));
        assert_eq!(shown(&(long.clone() + "x")), r"é\n".repeat(40) + "… (121 bytes)");
        assert_eq!(quoted(&(long + "\"")), format!("\"{}\"… (121 bytes)", r"é\n".repeat(40)));
    }
}
