//! Watches the ranks on this machine while a job starts. The functions have no side effects.
//!
//! Until all ranks have left `MPI_Init`, no rank can detect the death of another one: the living ranks wait forever, and a launcher that lets ranks
//! continue after a failure does not end them.

use std::collections::BTreeSet;

/// Number of successive counts of the ranks that find no new rank, after which the launcher is assumed to have started all ranks. If it is too small,
/// a slow start on a busy machine is taken for a lost rank.
const SETTLED: u32 = 6;

#[derive(Debug)]
pub(super) struct StartWatch {
    all_here: Option<usize>,
    seen: BTreeSet<usize>,
    /// Number of counts of the ranks since the last new rank was seen.
    polls: u32,
}

impl StartWatch {
    /// `all_here` is the number of ranks of the job, if all of them run on this machine.
    pub(super) fn new(all_here: Option<usize>) -> Self {
        StartWatch { all_here, seen: BTreeSet::new(), polls: 0 }
    }

    /// Returns the rank that had a process before and is not among `present`, if there is exactly one.
    pub(super) fn only_missing(&self, present: &BTreeSet<usize>) -> Option<usize> {
        let mut missing = self.seen.difference(present);
        missing.next().copied().filter(|_| missing.next().is_none())
    }

    /// Takes the ranks that have a living process. If the job can no longer start, returns a sentence about the missing rank.
    pub(super) fn poll(&mut self, present: &BTreeSet<usize>) -> Option<String> {
        if let Some(rank) = self.seen.difference(present).next() {
            return Some(format!("the process of rank {rank} has ended before all ranks had started"));
        }
        self.polls = if present.len() > self.seen.len() { 0 } else { self.polls + 1 };
        self.seen.extend(present);
        // A rank that exits at once may never be seen, and counts as missing. If no rank was seen at all, this process may not be allowed to read the
        // environments of the ranks, so that none counts as missing.
        let missing = (0..self.all_here?).find(|rank| !self.seen.contains(rank))?;
        (self.polls >= SETTLED && !self.seen.is_empty())
            .then(|| format!("rank {missing} has no running process, although all other ranks have started"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(start_watch: &mut StartWatch, present: &[usize]) -> Option<String> {
        start_watch.poll(&present.iter().copied().collect())
    }

    #[test]
    fn rank_that_disappears_during_start_up_is_reported() {
        let mut start_watch = StartWatch::new(None);
        assert_eq!(
            [
                poll(&mut start_watch, &[]),
                poll(&mut start_watch, &[0, 1]),
                poll(&mut start_watch, &[0, 1, 2])
            ],
            [const { None }; 3]
        );
        assert_eq!(start_watch.only_missing(&BTreeSet::from([0, 2])), Some(1));
        assert_eq!(start_watch.only_missing(&BTreeSet::from([0])), None);
        assert!(poll(&mut start_watch, &[0, 2]).unwrap().contains("of rank 1 has ended"));
    }

    #[test]
    fn rank_that_never_appears_is_reported_if_all_ranks_are_local() {
        for (all_here, expected) in [(Some(3), true), (Some(2), false), (None, false)] {
            let mut start_watch = StartWatch::new(all_here);
            assert!((0..100).all(|_| poll(&mut start_watch, &[]).is_none()), "nobody can be seen");
            assert_eq!(poll(&mut start_watch, &[0]), None);
            let missed = (0..2 * SETTLED).find_map(|_| poll(&mut start_watch, &[0, 1]));
            assert_eq!(missed.is_some(), expected, "{all_here:?}");
            assert!(missed.is_none_or(|text| text.starts_with("rank 2 has no running process")));
        }
    }

    #[test]
    fn slow_launcher_is_not_reported_as_missing_ranks() {
        let mut start_watch = StartWatch::new(Some(40));
        for rank in 0..40 {
            let present: Vec<usize> = (0..=rank).collect();
            assert!((0..SETTLED).all(|_| poll(&mut start_watch, &present).is_none()), "{rank}");
        }
        assert!((0..100).all(|_| poll(&mut start_watch, &(0..40).collect::<Vec<_>>()).is_none()));
    }
}
