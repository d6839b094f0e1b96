//! Map from the number of a worker (its rank) to a value.

use serde::{Deserialize, Serialize};

/// Map from the number of a worker (its rank) to a value. A look-up takes one step if the numbers are consecutive, as
/// rank numbers usually are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ByWorker<T> {
    /// Pairs of a worker's number and its value, in ascending order of the numbers.
    entries: Vec<(usize, T)>,
}

impl<T> Default for ByWorker<T> {
    fn default() -> Self {
        ByWorker { entries: Vec::new() }
    }
}

impl<T> ByWorker<T> {
    /// Returns the index of a worker's entry as `Ok`, or the index at which its entry must be inserted as `Err`.
    fn place(&self, worker: usize) -> Result<usize, usize> {
        let first = self.entries.first().map_or(0, |&(first, _)| first);
        let likely = worker.wrapping_sub(first);
        match self.entries.get(likely) {
            Some(&(found, _)) if found == worker => Ok(likely),
            _ => self.entries.binary_search_by_key(&worker, |&(number, _)| number),
        }
    }

    pub(super) fn get(&self, worker: usize) -> Option<&T> {
        self.place(worker).ok().map(|place| &self.entries[place].1)
    }

    pub(super) fn get_mut(&mut self, worker: usize) -> Option<&mut T> {
        self.place(worker).ok().map(|place| &mut self.entries[place].1)
    }

    /// Returns the workers and their values, in ascending order of the workers' numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.entries.iter().map(|(worker, value)| (*worker, value))
    }

    pub(super) fn remove(&mut self, worker: usize) {
        if let Ok(place) = self.place(worker) {
            self.entries.remove(place);
        }
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|(_, value)| value)
    }

    pub(super) fn insert(&mut self, worker: usize, value: T) {
        match self.place(worker) {
            Ok(place) => self.entries[place].1 = value,
            Err(place) => self.entries.insert(place, (worker, value)),
        }
    }
}

impl<T: Default> ByWorker<T> {
    pub(super) fn get_or_default(&mut self, worker: usize) -> &mut T {
        let place = self.place(worker).unwrap_or_else(|place| {
            self.entries.insert(place, (worker, T::default()));
            place
        });
        &mut self.entries[place].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_number_has_a_separate_value() {
        for numbers in
            [[0, 1, 2, 3], [1, 2, 3, 4], [7, 0, usize::MAX, 3], [usize::MAX, usize::MAX - 1, 1 << 40, 2]]
        {
            let mut values = ByWorker::default();
            for (i, &worker) in numbers.iter().enumerate() {
                assert_eq!(values.get(worker), None);
                *values.get_or_default(worker) += i + 1;
            }
            values.insert(numbers[0], 9);
            values.remove(numbers[1]);
            values.remove(100);
            assert_eq!(numbers.map(|worker| values.get(worker).copied()), [Some(9), None, Some(3), Some(4)]);
            values.values_mut().for_each(|value| *value += 1);
            assert_eq!(values.values_mut().map(|value| *value).sum::<usize>(), 19);
            values.insert(100, 1);
            assert_eq!(values.get(100), Some(&1));
        }
    }
}
