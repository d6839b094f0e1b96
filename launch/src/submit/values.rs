//! Checks options that become parts of a job script. Batch systems do not agree on quotes in directives, so that only words without special
//! characters are allowed there.

use crate::run_directory::end_reason::WARNING;

/// Longest time limit of a batch job in seconds: ten years.
const LONGEST: u64 = 10 * 365 * 24 * 3600;

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._/+-:,=@%[]^".contains(c)
}

/// A word that begins with `-` is refused, because a batch system would take it for an option.
pub(super) fn word(text: &str) -> Result<String, String> {
    let is_word = !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain);
    is_word
        .then(|| text.to_string())
        .ok_or_else(|| expected(text, "a word of letters, digits and . _ / + - : , = @"))
}

pub(super) fn module(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._/+-:@".contains(c);
    let is_module = !text.is_empty() && !text.starts_with('-') && text.chars().all(is_name);
    is_module
        .then(|| text.to_string())
        .ok_or_else(|| expected(text, "the name of a module, such as openmpi/4.1"))
}

pub(super) fn option(text: &str) -> Result<String, String> {
    let words: Vec<&str> = text.split(' ').collect();
    let is_option = text.len() > 1
        && text.starts_with('-')
        && words.iter().all(|word| !word.is_empty() && word.chars().all(is_plain));
    is_option
        .then(|| text.to_string())
        .ok_or_else(|| expected(text, "an option in plain characters, such as --qos=long"))
}

/// Checks the elements of a job array: numbers and ranges, with a maximum of elements that run at the same time, as in `1-8%2`.
pub(super) fn array(text: &str) -> Result<String, String> {
    let is_number =
        |text: &str| !text.is_empty() && text.len() < 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    let (list, most) = text.split_once('%').map_or((text, None), |(list, most)| (list, Some(most)));
    let is_range = |range: &str| {
        let (range, step) = range.split_once(':').map_or((range, None), |(range, step)| (range, Some(step)));
        let (first, last) = range.split_once('-').map_or((range, None), |(first, last)| (first, Some(last)));
        is_number(first) && last.is_none_or(is_number) && step.is_none_or(is_number)
    };
    let is_array = list.split(',').all(is_range) && most.is_none_or(is_number);
    is_array.then(|| text.to_string()).ok_or_else(|| expected(text, "elements such as 1-8, 1,3,5 or 1-8%2"))
}

/// Maximum number of elements of a job array. The limit bounds the number of run directories, of which each element gets one.
const ELEMENTS: usize = 10_000;

pub(super) fn elements(array: &str) -> Result<Vec<u32>, String> {
    let list = array.split('%').next().unwrap_or_default();
    let mut numbers = std::collections::BTreeSet::new();
    for range in list.split(',') {
        let (range, step) = range.split_once(':').unwrap_or((range, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let [first, last, step] = [first, last, step].map(|number| number.parse::<u32>().unwrap_or(0));
        if last < first || step == 0 {
            return Err(expected(array, "ranges from a smaller to a larger number"));
        }
        numbers.extend((first..=last).step_by(step as usize).take(ELEMENTS + 1));
        if numbers.len() > ELEMENTS {
            return Err(expected(array, &format!("at most {ELEMENTS} elements")));
        }
    }
    Ok(numbers.into_iter().collect())
}

/// Parses an environment variable `NAME=VALUE`, whose value may be any text.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let parts = text.split_once('=').filter(|(name, _)| is_name(name));
    parts
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .ok_or_else(|| expected(text, "NAME=VALUE with a name of letters, digits and _"))
}

pub(super) fn mebibytes(text: &str) -> Result<u64, String> {
    let size = || {
        let text = text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text);
        let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let mebibytes = match unit {
            "K" | "k" => 1.0 / 1024.0,
            "M" | "m" => 1.0,
            "G" | "g" => 1024.0,
            "T" | "t" => 1024.0 * 1024.0,
            _ => return None,
        };
        let size = (number.parse::<f64>().ok()? * mebibytes).ceil();
        (1.0..1e12).contains(&size).then_some(size as u64)
    };
    size().ok_or_else(|| expected(text, "a size above 0 with a unit, such as 400M or 2G"))
}

/// Parses a time limit `90s`, `30m`, `2h`, `HH:MM:SS` or `D-HH:MM:SS`, and rounds it up to seconds.
pub(super) fn time_limit(text: &str) -> Result<u64, String> {
    let clock = || {
        let (days, clock) = text.split_once('-').map_or(("0", text), |(days, clock)| (days, clock));
        let numbers = clock.split(':').map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<u64>>>()?;
        let [hours, minutes, seconds] = numbers[..] else { return None };
        let days: u64 = days.parse().ok().filter(|&days| days < 10_000)?;
        (minutes < 60 && seconds < 60 && hours < 1_000_000)
            .then(|| ((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    };
    let with_unit = || {
        let has_unit = text.ends_with(['s', 'm', 'h']);
        crate::start::duration(text).ok().filter(|_| has_unit).map(|time| time.as_secs_f64().ceil() as u64)
    };
    let seconds = clock().or_else(with_unit).filter(|seconds| (1..=LONGEST).contains(seconds));
    seconds.ok_or_else(|| expected(text, "a time limit such as 30m, 2h, 02:00:00 or 1-12:00:00"))
}

pub(super) fn warning(text: &str) -> Result<u64, String> {
    let seconds = time_limit(text).ok().filter(|&seconds| seconds <= WARNING);
    seconds.ok_or_else(|| expected(text, "a time up to 10m, such as 120s"))
}

/// Formats seconds for options of Slurm, PBS and Grid Engine, as in `36:00:00`.
pub(super) fn clock(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn expected(text: &str, what: &str) -> String {
    format!("{} is not {what}", armature_text::quoted(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_parsed_with_their_units() {
        for (text, seconds) in
            [("90s", 90), ("30m", 1800), ("2h", 7200), ("02:00:00", 7200), ("1-12:00:30", 129_630)]
        {
            assert_eq!(time_limit(text), Ok(seconds), "{text}");
        }
        for text in ["", "90", "0s", "2:00", "1:60:00", "-1", "1-2", "1e300h", "20000-00:00:00", "x"] {
            assert!(time_limit(text).is_err(), "{text}");
        }
        assert_eq!((warning("10m"), warning("11m").is_err()), (Ok(600), true));
        assert_eq!([59, 129_630].map(clock), ["00:00:59", "36:00:30"]);
        for (text, size) in [("400M", 400), ("2G", 2048), ("1.5GiB", 1536), ("1K", 1), ("2TB", 2 << 20)] {
            assert_eq!(mebibytes(text), Ok(size), "{text}");
        }
        for text in ["", "400", "0M", "-1G", "G", "nanG", "1e300T", "é"] {
            assert!(mebibytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_plain_words_reach_directives() {
        assert!(
            word("gpu,long").is_ok() && option("--qos=long").is_ok() && option("-l place=scatter").is_ok()
        );
        assert_eq!(elements("7,1-5:2,4%2").unwrap(), [1, 3, 4, 5, 7]);
        assert!(elements("5-1").is_err() && elements("1-3:0").is_err() && elements("1-10001").is_err());
        assert!(array("1-8%2").is_ok() && array("1,3,5-9:2").is_ok() && module("openmpi/4.1.4").is_ok());
        for text in
            ["", "a\n#SBATCH x", "$(id)", "`id`", "a;b", "a'b", "a\"b", "a\\b", "a#b", "é", "--a  b", "-"]
        {
            assert!(word(text).is_err() && option(text).is_err() && array(text).is_err(), "{text}");
            assert!(
                module(text).is_err() && option(&format!("--x={text}")).is_err()
                    || text == "-"
                    || text.is_empty(),
                "{text}"
            );
        }
        assert!(
            word("-p").is_err()
                && module("-x").is_err()
                && option("qos=long").is_err()
                && array("1-").is_err()
        );
    }

    #[test]
    fn variable_values_may_be_any_text() {
        assert_eq!(variable("A_1=b=$(c)\n"), Ok(("A_1".into(), "b=$(c)\n".into())));
        for text in ["", "=", "A", "1A=x", "A-B=x", "A\nB=x", "$(id)=x"] {
            assert!(variable(text).is_err(), "{text}");
        }
    }
}
