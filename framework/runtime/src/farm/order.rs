//! Results on their way to the sink: in the order of the tasks, or as they come.

use std::collections::BTreeMap;

use super::outcome::{Answer, FailedTask};
use crate::wire::{Item, weigh};

/// Results of consecutive tasks, or one failed task.
#[derive(Debug)]
pub(crate) enum Run<O> {
    Results(Vec<O>),
    Failed(FailedTask),
}

impl<O> Run<O> {
    fn len(&self) -> u64 {
        match self {
            Run::Results(results) => results.len() as u64,
            Run::Failed(_) => 1,
        }
    }

    /// Bytes of what it holds.
    pub(crate) fn weigh(&self) -> u64
    where
        O: Item,
    {
        match self {
            Run::Results(results) => weigh(results) as u64,
            Run::Failed(failed) => failed.message.len() as u64,
        }
    }

    /// Hands the results to the sink, until it wants no more.
    fn feed(self, first: u64, sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer) -> Answer {
        match self {
            Run::Results(results) => {
                (first..).zip(results).try_for_each(|(number, result)| sink(number, Ok(result)))
            }
            Run::Failed(failed) => sink(first, Err(failed)),
        }
    }
}

/// Holds back what came too early.
#[derive(Debug)]
pub(crate) struct Order<O> {
    ordered: bool,
    /// Results that the sink has had; in order, the number of the next one.
    fed: u64,
    /// Runs that wait for earlier ones, with their bytes.
    early: BTreeMap<u64, (Run<O>, u64)>,
    early_bytes: u64,
}

impl<O> Order<O> {
    pub(crate) fn new(ordered: bool) -> Self {
        Order { ordered, fed: 0, early: BTreeMap::new(), early_bytes: 0 }
    }

    /// Whether the result of this task would go to the sink at once.
    pub(crate) fn is_due(&self, task: u64) -> bool {
        !self.ordered || task == self.fed
    }

    /// Bytes of results that wait for earlier ones.
    pub(crate) fn early_bytes(&self) -> u64 {
        self.early_bytes
    }

    /// Begins with number 0 again.
    pub(crate) fn restart(&mut self) {
        (self.fed, self.early_bytes) = (0, 0);
        self.early.clear();
    }

    /// Takes results from task `first` on, of `bytes` bytes; feeds the sink what is due, and returns its answer.
    pub(crate) fn put(
        &mut self,
        first: u64,
        (run, bytes): (Run<O>, u64),
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Answer {
        if !self.is_due(first) {
            self.early.insert(first, (run, bytes));
            self.early_bytes += bytes;
            return Answer::Continue(());
        }
        self.fed += run.len();
        run.feed(first, sink)?;
        while let Some(entry) = self.early.first_entry().filter(|e| *e.key() == self.fed) {
            let (first, (run, bytes)) = entry.remove_entry();
            self.early_bytes -= bytes;
            self.fed += run.len();
            run.feed(first, sink)?;
        }
        Answer::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_wait_for_the_ones_before_them() {
        let mut order = Order::new(true);
        let mut seen = Vec::new();
        let failed = |task| {
            Run::Failed(FailedTask { task, rank: 1, attempts: 1, panicked: false, message: "no".into() })
        };
        let mut sink = |n: u64, r: Result<char, FailedTask>| {
            seen.push((n, r.ok()));
            if n == 5 { Answer::Break(None) } else { Answer::Continue(()) }
        };
        assert!(order.put(3, (Run::Results(vec!['d']), 30), &mut sink).is_continue());
        assert!(order.put(2, (failed(2), 0), &mut sink).is_continue());
        assert_eq!((order.early.len(), order.early_bytes()), (2, 30));
        assert!(order.put(0, (Run::Results(vec!['a', 'b']), 20), &mut sink).is_continue());
        assert!(order.early.is_empty() && order.early_bytes() == 0 && order.is_due(4) && !order.is_due(5));
        assert!(
            order.put(4, (Run::Results(vec!['e', 'f', 'g']), 30), &mut sink).is_break(),
            "it has had enough"
        );
        assert_eq!(
            seen,
            [(0, Some('a')), (1, Some('b')), (2, None), (3, Some('d')), (4, Some('e')), (5, Some('f'))]
        );
    }

    #[test]
    fn without_order_nothing_waits() {
        let mut order = Order::new(false);
        let mut seen = Vec::new();
        for first in [4, 0, 2] {
            let _ = order.put(first, (Run::Results(vec![first, first + 1]), 16), &mut |_, r| {
                seen.extend(r);
                Answer::Continue(())
            });
        }
        assert_eq!((seen, order.early_bytes()), (vec![4, 5, 0, 1, 2, 3], 0));
    }
}
