//! Deaths as a journal records them, so that a restarted job knows the tasks in which ranks died.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::tasks::Attempts;

/// Attempts of tasks in which ranks may have died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeathNote {
    /// Numbers of the tasks' records.
    pub(crate) records: Range<u64>,
    pub(crate) attempts: Attempts,
}

/// Returns the longest range of records from `from` on with the same note, and the attempts if ranks may have died in these tasks. If several notes
/// are about one task, the last one counts. Returns `None` if no note is about a record after `from`.
pub(crate) fn noted_from(notes: &[DeathNote], from: u64) -> Option<(Range<u64>, Option<Attempts>)> {
    let bounds = notes.iter().flat_map(|note| [note.records.start, note.records.end]);
    let end = bounds.filter(|&bound| bound > from).min()?;
    let last = notes.iter().rev().find(|note| note.records.contains(&from));
    let known = last.map(|note| note.attempts).filter(|attempts| attempts.is_suspect());
    Some((from..end, known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::Suspicion;

    #[test]
    fn last_death_note_of_a_task_counts() {
        let note = |records, failed, most| {
            let suspicion = Suspicion { shared: 1, most, ..Suspicion::default() };
            DeathNote { records, attempts: Attempts { failed, suspicion } }
        };
        assert_eq!(noted_from(&[], 0), None);
        let notes = [note(10..20, 0, 5), note(14..15, 2, 1), note(16..17, 0, 0)];
        let attempts = |from| {
            noted_from(&notes, from)
                .map(|(range, known)| (range.end, known.map(|a| (a.failed, a.suspicion.most))))
        };
        assert_eq!((attempts(0), attempts(20)), (Some((10, None)), None));
        assert_eq!((attempts(12), attempts(14)), (Some((14, Some((0, 5)))), Some((15, Some((2, 1))))));
        assert_eq!(attempts(16), Some((17, None)), "it is forgotten");
        assert_eq!(attempts(17), Some((20, Some((0, 5)))));
    }
}
