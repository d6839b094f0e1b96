//! Notes about deaths of ranks in a farm's journal, from which a restarted job knows the tasks in which ranks died.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::tasks::Attempts;

/// Entry of the journal about consecutive tasks in which ranks may have died, with the failed attempts of each task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeathRecord {
    /// Numbers of the journal records for the results of these tasks.
    pub(crate) records: Range<u64>,
    pub(crate) attempts: Attempts,
}

/// Returns the longest range of journal records that begins with record `from` and has the same failed attempts throughout. The attempts are `None`
/// if no rank may have died in these tasks. If several entries are about one task, the last one counts. Returns `None` if no entry is about a record
/// after `from`.
pub(crate) fn recorded_from(
    records_of_deaths: &[DeathRecord],
    from: u64,
) -> Option<(Range<u64>, Option<Attempts>)> {
    let bounds = records_of_deaths.iter().flat_map(|record| [record.records.start, record.records.end]);
    let end = bounds.filter(|&bound| bound > from).min()?;
    let last = records_of_deaths.iter().rev().find(|record| record.records.contains(&from));
    let known = last.map(|record| record.attempts).filter(|attempts| attempts.is_suspect());
    Some((from..end, known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::Suspicion;

    #[test]
    fn last_death_note_of_a_task_counts() {
        let record = |records, failed, most| {
            let suspicion = Suspicion { shared: 1, most, ..Suspicion::default() };
            DeathRecord { records, attempts: Attempts { failed, suspicion } }
        };
        assert_eq!(recorded_from(&[], 0), None);
        let records_of_deaths = [record(10..20, 0, 5), record(14..15, 2, 1), record(16..17, 0, 0)];
        let attempts = |from| {
            recorded_from(&records_of_deaths, from)
                .map(|(range, known)| (range.end, known.map(|a| (a.failed, a.suspicion.most))))
        };
        assert_eq!((attempts(0), attempts(20)), (Some((10, None)), None));
        assert_eq!((attempts(12), attempts(14)), (Some((14, Some((0, 5)))), Some((15, Some((2, 1))))));
        assert_eq!(attempts(16), Some((17, None)), "it is forgotten");
        assert_eq!(attempts(17), Some((20, Some((0, 5)))));
    }
}
