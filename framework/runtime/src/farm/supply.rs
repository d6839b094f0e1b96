//! Where tasks come from: the user's iterator, drawn from as far as chunks are given away.

use crate::error::{Error, Result};
use crate::user_code;

/// The tasks that have not been drawn yet.
pub(crate) struct Supply<T> {
    tasks: T,
    drawn: u64,
    ended: bool,
}

impl<T: Iterator> Supply<T> {
    pub(crate) fn new(tasks: T) -> Self {
        Supply { tasks, drawn: 0, ended: false }
    }

    /// Tasks drawn so far; the number of the next one.
    pub(crate) fn drawn(&self) -> u64 {
        self.drawn
    }

    /// Whether there are no more. An iterator that has not said so yet may still turn out to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Wants no more.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// How many are left, and whether that is certain.
    pub(crate) fn left(&self) -> (u64, bool) {
        if self.ended {
            return (0, true);
        }
        let (low, high) = self.tasks.size_hint();
        (low as u64, high == Some(low))
    }

    /// The next tasks, at most `most`, and no more after those that have `bytes` together: `weigh` says how many one has, and
    /// every `step`th is weighed. Otherwise fewer are drawn at the end only.
    ///
    /// # Errors
    /// If the iterator panics.
    pub(crate) fn draw(
        &mut self,
        most: u64,
        (bytes, step): (u64, usize),
        weigh: impl Fn(&T::Item) -> usize,
    ) -> Result<Vec<T::Item>> {
        if self.ended || most == 0 {
            return Ok(Vec::new());
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut tasks = Vec::with_capacity(most.min(self.tasks.size_hint().0.max(64)));
        let mut full = false;
        let drawn = user_code::call(|| {
            if !std::mem::needs_drop::<T::Item>() {
                // All have the same size, which the caller knows.
                tasks.extend(self.tasks.by_ref().take(most));
                return Ok::<_, Error>(());
            }
            let (mut weight, mut skip) = (0, 0);
            while !full && tasks.len() < most {
                let Some(task) = self.tasks.next() else { return Ok(()) };
                if skip == 0 {
                    weight += (weigh(&task) * step) as u64;
                    (full, skip) = (weight >= bytes, step);
                }
                skip -= 1;
                tasks.push(task);
            }
            Ok(())
        });
        drawn.map_err(|e| e.on_item(self.drawn + tasks.len() as u64).at_rank(0))?;
        self.ended = (tasks.len() < most && !full) || self.tasks.size_hint() == (0, Some(0));
        self.drawn += tasks.len() as u64;
        Ok(tasks)
    }
}

impl<T> std::fmt::Debug for Supply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supply")
            .field("drawn", &self.drawn)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw<T: Iterator>(supply: &mut Supply<T>, most: u64) -> Result<Vec<T::Item>> {
        supply.draw(most, (u64::MAX, 1), |_| 1)
    }

    #[test]
    fn it_ends_when_the_iterator_does() {
        let mut supply = Supply::new((0..5).filter(|x| *x != 3));
        assert_eq!(supply.left(), (0, false));
        assert_eq!(draw(&mut supply, 3).unwrap(), [0, 1, 2]);
        assert!(!supply.has_ended());
        assert_eq!(draw(&mut supply, 3).unwrap(), [4]);
        assert!(supply.has_ended() && supply.drawn() == 4);
        assert!(draw(&mut supply, 3).unwrap().is_empty());
        let mut exact = Supply::new(0..4);
        assert_eq!(
            (exact.left(), draw(&mut exact, 4).unwrap().len(), exact.left()),
            ((4, true), 4, (0, true))
        );
        assert!(exact.has_ended(), "known without another look");
    }

    #[test]
    fn a_panic_of_the_iterator_names_the_task() {
        let mut supply = Supply::new((0..5).inspect(|x| assert!(*x != 2, "two")));
        assert_eq!(draw(&mut supply, 1).unwrap(), [0]);
        let error = draw(&mut supply, 3).unwrap_err();
        assert_eq!(error.to_string(), "rank 0: item 2: panicked: two");
    }

    #[test]
    fn wide_tasks_are_not_drawn_beyond_what_there_is_room_for() {
        let mut supply = Supply::new([10, 20, 500, 30, 40].into_iter().map(|n| vec![0u8; n]));
        let lengths = |tasks: Vec<Vec<u8>>| tasks.iter().map(Vec::len).collect::<Vec<_>>();
        let mut draw = || lengths(supply.draw(4, (100, 1), Vec::len).unwrap());
        assert_eq!((draw(), draw()), (vec![10, 20, 500], vec![30, 40]));
        assert!(supply.has_ended());
        let mut supply = Supply::new((0..20).map(|n| vec![0u8; n]));
        assert_eq!(supply.draw(20, (40, 4), Vec::len).unwrap().len(), 9, "0, 4 and 8 count for four each");
    }
}
