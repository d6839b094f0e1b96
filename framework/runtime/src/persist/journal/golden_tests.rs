//! Test that the bytes of a journal file (completed results of a job) do not change from version to version of the program.

use super::{Identity, Journal};
use crate::golden::{check_file, place};

/// A journal that an earlier version of this program has written can be continued, and a new journal of the same results has the same bytes.
#[test]
fn journal_format_is_unchanged() {
    let job = || Identity::new("wörter", "1.2", [0, 255, 7]);
    let results = [(3_u64, b"nine".to_vec()), (0, vec![]), (u64::MAX - 1, (0..=255).collect())];
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));

    let (mut journal, _) = Journal::open(&new, &job(), |_, _| Ok(())).unwrap();
    for (task, payload) in &results {
        journal.append(std::time::Duration::ZERO, *task, payload).unwrap();
    }
    journal.close().unwrap();
    check_file("journal", &new);

    std::fs::copy(place("files/journal"), &old).unwrap();
    let mut found = Vec::new();
    let (_, recovery) = Journal::open(&old, &job(), |task, payload| {
        found.push((task, payload.to_vec()));
        Ok(())
    })
    .unwrap();
    assert_eq!((recovery.tasks, recovery.duplicates, recovery.cut), (3, 0, None));
    assert_eq!(found, results);
}
