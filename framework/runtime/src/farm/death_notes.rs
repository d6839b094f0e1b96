//! Deaths as a journal records them, so that a restarted job knows the tasks in which ranks died.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::state::Suspicion;
use crate::persist::journal::FIRST_NOTE;
use crate::rank::suspicion::Tried;

/// Attempts and suspicion of tasks in which ranks may have died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeathNote {
    /// Numbers of the tasks' records.
    pub(crate) records: Range<u64>,
    pub(crate) attempt: u32,
    pub(crate) suspicion: Suspicion,
}

/// All death notes of a journal. If several are about one task, the last one counts.
#[derive(Debug, Default)]
pub(crate) struct DeathNotes(Vec<DeathNote>);

impl DeathNotes {
    pub(crate) fn add(&mut self, note: DeathNote) {
        self.0.push(note);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the record number of the next note.
    pub(crate) fn next_record(&self) -> u64 {
        FIRST_NOTE + self.0.len() as u64
    }

    /// Returns the range of records from `from` on with the same attempts and suspicion, and these attempts and suspicion if there are any.
    /// Returns `None` if no note is about a record after `from`.
    pub(crate) fn at(&self, from: u64) -> Option<(Range<u64>, Option<Tried>)> {
        let bounds = self.0.iter().flat_map(|note| [note.records.start, note.records.end]);
        let end = bounds.filter(|&bound| bound > from).min()?;
        let last = self.0.iter().rev().find(|note| note.records.contains(&from));
        let known = last.map(|note| (note.attempt, note.suspicion)).filter(|(_, s)| s.is_there());
        Some((from..end, known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_note_about_a_task_counts() {
        let note = |records, attempt, most| DeathNote {
            records,
            attempt,
            suspicion: Suspicion { shared: 1, most, ..Suspicion::default() },
        };
        let mut notes = DeathNotes::default();
        assert_eq!((notes.at(0), notes.next_record()), (None, FIRST_NOTE));
        notes.add(note(10..20, 0, 5));
        notes.add(note(14..15, 2, 1));
        notes.add(note(16..17, 0, 0));
        let attempts =
            |from| notes.at(from).map(|(range, known)| (range.end, known.map(|(a, s)| (a, s.most))));
        assert_eq!((attempts(0), attempts(20)), (Some((10, None)), None));
        assert_eq!((attempts(12), attempts(14)), (Some((14, Some((0, 5)))), Some((15, Some((2, 1))))));
        assert_eq!(attempts(16), Some((17, None)), "it is forgotten");
        assert_eq!((attempts(17), notes.next_record()), (Some((20, Some((0, 5)))), FIRST_NOTE + 3));
    }
}
