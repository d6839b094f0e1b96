//! Text for a terminal of limited width: parts of a line by importance, wrapped sentences and cut names.

use armature_text::line;

/// Text between two parts of a line.
const SEPARATOR: &str = " · ";

/// Part of a line: a number and its text. The smaller the number, the more important is the part. If the parts do not fit, those with the highest
/// numbers are left out.
pub(super) type Part = (u8, String);

/// Highest number of a part that may begin another line. Parts with higher numbers are left out instead.
const NEEDED: u8 = 2;

/// Returns the parts in at most `most` lines of at most `width` characters. A less important part is left out if it does not fit beside the more
/// important ones. The most important part is cut if it does not fit.
pub(super) fn fitted(parts: &[Part], width: usize, most: usize) -> Vec<String> {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&place| parts[place].0);
    let (mut kept, mut lines): (Vec<usize>, Vec<String>) = Default::default();
    for place in order {
        let mut more = kept.clone();
        more.push(place);
        more.sort_unstable();
        let most = if parts[place].0 <= NEEDED { most } else { most.min(lines.len()) };
        match laid_out(parts, &more, width) {
            Some(fitting) if kept.is_empty() || fitting.len() <= most => (kept, lines) = (more, fitting),
            None if kept.is_empty() => (kept, lines) = (more, vec![cut(&line(&parts[place].1), width)]),
            _ => {}
        }
    }
    lines
}

/// Returns the parts at the given places as lines, or `None` if a part is longer than a line.
fn laid_out(parts: &[Part], places: &[usize], width: usize) -> Option<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    for &place in places {
        let text = line(&parts[place].1);
        if length(&text) > width {
            return None;
        }
        match lines.last_mut() {
            Some(last) if length(last).saturating_add(length(SEPARATOR) + length(&text)) <= width => {
                *last += SEPARATOR;
                *last += &text;
            }
            _ => lines.push(text),
        }
    }
    Some(lines)
}

/// Returns a text in at most `most` lines of at most `width` characters, broken between words, but not between a number and its unit. The last line
/// of a longer text ends with an ellipsis.
pub(super) fn wrapped(text: &str, width: usize, most: usize) -> Vec<String> {
    let text = line(text);
    let mut lines: Vec<String> = Vec::new();
    let mut rest: Vec<&str> = text.split_whitespace().collect();
    while !rest.is_empty() && lines.len() < most {
        let mut count = longest_start(&rest, width);
        let is_last = lines.len() + 1 == most && count < rest.len();
        let mark = if is_last { " …" } else { "" };
        if is_last {
            count = longest_start(&rest, width.saturating_sub(length(mark)));
        }
        lines.push(cut(&(rest[..count.max(1)].join(" ") + mark), width));
        rest.drain(..count.max(1));
    }
    lines
}

/// Returns how many of the words fit into a line of `width` characters. If possible, the last of them is not a number, because its unit may follow.
fn longest_start(words: &[&str], width: usize) -> usize {
    let ends_in_number = |count: usize| words[count - 1].ends_with(|c: char| c.is_ascii_digit());
    let (mut length_so_far, mut count) = (0, 0);
    while count < words.len() && length_so_far + length(words[count]) <= width {
        length_so_far += length(words[count]) + 1;
        count += 1;
    }
    let best = (1..=count).rev().find(|&count| count == words.len() || !ends_in_number(count));
    best.unwrap_or(count)
}

/// Returns a text of at most `width` characters. A longer text is cut before a number or within a word, and ends with an ellipsis.
pub(super) fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_string();
    }
    let start: String = text.chars().take(width.saturating_sub(1)).collect();
    let is_in_number = |c: char| c.is_ascii_digit() || c == '.';
    let start = match text.chars().nth(width.saturating_sub(1)) {
        Some(next) if is_in_number(next) => start.trim_end_matches(is_in_number),
        _ => start.as_str(),
    };
    if width == 0 { String::new() } else { format!("{}…", start.trim_end()) }
}

/// Returns the number of characters of a text.
pub(super) fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Vec<Part> {
        [(0, "Farm rows of demo"), (3, "4 ranks"), (1, "running"), (2, "83.102 s"), (5, "events")]
            .map(|(importance, text)| (importance, text.to_string()))
            .to_vec()
    }

    #[test]
    fn least_important_parts_of_a_line_are_left_out_first() {
        let one = |width| fitted(&parts(), width, 1).join("|");
        assert_eq!(one(80), "Farm rows of demo · 4 ranks · running · 83.102 s · events");
        assert_eq!(one(40), "Farm rows of demo · running · 83.102 s");
        assert_eq!(one(37), "Farm rows of demo · 4 ranks · running");
        assert_eq!(one(36), "Farm rows of demo · running · events");
        assert_eq!(one(20), "Farm rows of demo");
        assert_eq!(one(9), "Farm row…");
        // A part with a number above [`NEEDED`] begins no new line.
        assert_eq!(fitted(&parts(), 27, 2), ["Farm rows of demo · 4 ranks", "running · 83.102 s · events"]);
        assert_eq!(fitted(&parts()[..2], 20, 2), ["Farm rows of demo"]);
    }

    #[test]
    fn text_is_broken_between_words_but_not_between_number_and_unit() {
        let text = "rank 3 waited for 12.5 s, mostly for rank 2";
        assert_eq!(wrapped(text, 22, 9), ["rank 3 waited for", "12.5 s, mostly for", "rank 2"]);
        assert_eq!(wrapped(text, 22, 2), ["rank 3 waited for", "12.5 s, mostly for …"]);
        assert_eq!(wrapped(text, usize::MAX, 1), [text]);
        for width in 1..60 {
            for most in 1..5 {
                let lines = wrapped(text, width, most);
                assert!(lines.len() <= most && lines.iter().all(|line| length(line) <= width), "{lines:?}");
            }
        }
    }

    #[test]
    fn cut_text_ends_before_a_number_that_does_not_fit() {
        let text = "task 8310 of 12.5 s";
        let cuts = [19, 18, 17, 16, 9, 8, 4, 1, 0].map(|width| cut(text, width));
        let expected = ["task 8310 of 12.5 s", "task 8310 of 12.5…", "task 8310 of…", "task 8310 of…"];
        assert_eq!(cuts[..4], expected);
        assert_eq!(cuts[4..], ["task…", "task…", "tas…", "…", ""]);
    }
}
