//! Named limits: concurrent tasks use at most the total amount of each limit.

use std::collections::BTreeSet;

use super::pools::Key;

/// Remaining amount of each named limit, and the tasks that wait for it.
#[derive(Debug)]
pub(super) struct Limits {
    left: Vec<u64>,
    waiting: Vec<BTreeSet<Key>>,
}

impl Limits {
    pub(super) fn new(limits: Vec<u64>) -> Self {
        Limits { waiting: vec![BTreeSet::new(); limits.len()], left: limits }
    }

    /// Takes all amounts or none. Returns true if the amounts were taken.
    pub(super) fn take(&mut self, amounts: &[(usize, u64)]) -> bool {
        let fits = self.short_of(amounts).is_none();
        if fits {
            amounts.iter().for_each(|&(limit, amount)| self.left[limit] -= amount);
        }
        fits
    }

    /// Returns the first limit of which less than the requested amount is left.
    fn short_of(&self, amounts: &[(usize, u64)]) -> Option<usize> {
        amounts.iter().find(|&&(limit, amount)| self.left[limit] < amount).map(|&(limit, _)| limit)
    }

    /// Lets a task wait for the first limit that is too small for it. Returns this limit.
    pub(super) fn wait(&mut self, key: Key, amounts: &[(usize, u64)]) -> Option<usize> {
        let limit = self.short_of(amounts)?;
        self.waiting[limit].insert(key);
        Some(limit)
    }

    /// Returns amounts to their limits. Returns waiting tasks, at most as many as can run with the returned amounts.
    pub(super) fn release(&mut self, amounts: &[(usize, u64)]) -> Vec<usize> {
        let mut woken = Vec::new();
        for &(limit, amount) in amounts {
            self.left[limit] += amount;
            for _ in 0..amount {
                let Some((_, _, task)) = self.waiting[limit].pop_first() else { break };
                woken.push(task);
            }
        }
        woken
    }

    /// Empties the lists of waiting tasks.
    pub(super) fn forget_waiting(&mut self) {
        self.waiting.fill(BTreeSet::new());
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    #[test]
    fn what_does_not_fit_takes_nothing_and_waits() {
        let mut limits = Limits::new(vec![3, 1]);
        assert!(limits.take(&[(0, 2), (1, 1)]));
        let two = [(0, 1), (1, 1)];
        assert!(!limits.take(&two));
        assert_eq!(limits.wait((Reverse(0), 7, 70), &two), Some(1));
        assert!(limits.take(&[(0, 1)]));
        assert!(limits.release(&[(0, 2)]).is_empty());
        assert_eq!(limits.release(&[(1, 1)]), [70]);
        assert_eq!(limits.left, [2, 1]);
    }
}
