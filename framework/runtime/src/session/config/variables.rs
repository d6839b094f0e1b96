//! Environment variables that begin with `ARMATURE_`: the known names, and suggestions for unknown names.

const START: &str = "ARMATURE_";

pub(super) const SETTINGS: [&str; 25] = [
    "ARMATURE_TRANSPORT",
    "ARMATURE_RANKS",
    "ARMATURE_BIND",
    "ARMATURE_DRIVER",
    "ARMATURE_BATCH",
    "ARMATURE_BATCH_MICROSECONDS",
    "ARMATURE_WINDOW",
    "ARMATURE_WINDOW_BYTES",
    "ARMATURE_REQUEST_AHEAD",
    "ARMATURE_IDLE_MICROSECONDS",
    "ARMATURE_SPLIT_BYTES",
    "ARMATURE_PEER_SECONDS",
    "ARMATURE_JOIN_SECONDS",
    "ARMATURE_PROGRESS",
    "ARMATURE_MONITOR",
    "ARMATURE_BALANCE",
    "ARMATURE_EVENTS",
    "ARMATURE_CHECK_BUILD",
    "ARMATURE_CHECK_ARGUMENTS",
    "ARMATURE_JOB_STATUS",
    "ARMATURE_CHECKPOINT_OVERHEAD",
    "ARMATURE_MTBF_HOURS",
    "ARMATURE_RUN",
    "ARMATURE_END_TIME",
    "ARMATURE_PLATFORM",
];

/// Names and prefixes of environment variables that are not settings: the variable with which `armature run` describes the launcher to the ranks,
/// variables of the framework's tests, experiments and scripts, and variables that describe a task of a workflow to its command. They may be set
/// when a program starts.
const OTHERS: [&str; 10] = [
    "ARMATURE_RECOVERY",
    "ARMATURE_TASK_",
    "ARMATURE_COMMAND",
    "ARMATURE_TEST_",
    "ARMATURE_CASES_",
    "ARMATURE_BENCH_",
    "ARMATURE_SMPI_",
    "ARMATURE_CI_RUN",
    "ARMATURE_SETUP",
    "ARMATURE_RUN",
];

pub(super) fn unknown(names: impl Iterator<Item = String>) -> Vec<String> {
    let is_known =
        |name: &str| SETTINGS.contains(&name) || OTHERS.iter().any(|other| name.starts_with(other));
    let mut unknown: Vec<String> = names.filter(|name| name.starts_with(START) && !is_known(name)).collect();
    unknown.sort_unstable();
    unknown
}

pub(super) fn remark(name: &str) -> String {
    let settings = SETTINGS.iter().map(|setting| &setting[START.len()..]);
    let meant = name.strip_prefix(START).and_then(|rest| nearest(rest, settings));
    let meant = meant.map(|setting| format!("; did you mean {START}{setting}?"));
    format!("{name} is set, but there is no such setting; it is ignored{}", meant.unwrap_or_default())
}

/// Returns the word that is most similar to `word`, if a word differs by at most one edit per four letters.
pub(super) fn nearest<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = word.chars().count().div_ceil(4);
    let nearest = words.map(|other| (distance(word, other), other)).min();
    nearest.filter(|(slips, _)| *slips <= most).map(|(_, other)| other)
}

/// Returns the Levenshtein distance of two words.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variables_are_found_with_a_suggestion() {
        let names = [
            "HOME",
            "ARMATURE_RANKS",
            "ARMATURE_TEST_TASKS",
            "ARMATURE_CI_RUN",
            "ARMATURE_SETUP",
            "ARMATURE_TASK_RANK",
            "XARMATURE_X",
        ];
        assert!(unknown(names.into_iter().map(String::from)).is_empty());
        let names = ["ARMATURE_X", "ARMATURE_RANK", "PATH"];
        assert_eq!(unknown(names.into_iter().map(String::from)), ["ARMATURE_RANK", "ARMATURE_X"]);
        for (name, meant) in [
            ("RANK", Some("RANKS")),
            ("EVENT", Some("EVENTS")),
            ("BALANCING", Some("BALANCE")),
            ("WINDOWS_BYTE", Some("WINDOW_BYTES")),
            ("JOIN_SECOND", Some("JOIN_SECONDS")),
            ("LOG", None),
            ("", None),
            ("COLOUR", None),
        ] {
            let settings = SETTINGS.iter().map(|setting| &setting[START.len()..]);
            assert_eq!(nearest(name, settings), meant, "{name}");
        }
        let text =
            "ARMATURE_RANK is set, but there is no such setting; it is ignored; did you mean ARMATURE_RANKS?";
        assert_eq!(remark("ARMATURE_RANK"), text);
    }

    #[test]
    fn edit_distance_is_correct() {
        for (one, other, slips) in [
            ("", "", 0),
            ("abc", "", 3),
            ("", "abc", 3),
            ("rank", "ranks", 1),
            ("brink", "rank", 2),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(one, other), slips, "{one} {other}");
        }
    }
}
