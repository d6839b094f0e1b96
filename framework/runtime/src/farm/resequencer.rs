//! Resequencer of a farm: passes results on in the order of the tasks, or, if the farm is unordered, in the order of arrival.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::failed_task::FailedTask;
use crate::wire::erased::Items;

#[derive(Debug)]
pub(crate) enum ResultRun {
    Results(Items),
    Failed(FailedTask),
}

impl ResultRun {
    pub(crate) fn len(&self) -> u64 {
        match self {
            ResultRun::Results(results) => results.len() as u64,
            ResultRun::Failed(_) => 1,
        }
    }

    pub(crate) fn weigh(&self) -> u64 {
        match self {
            ResultRun::Results(results) => results.weigh() as u64,
            ResultRun::Failed(failed) => failed.message.len() as u64,
        }
    }
}

/// Buffer for results that arrive before the results of earlier tasks.
#[derive(Debug)]
pub(crate) struct Resequencer {
    ordered: bool,
    /// Number of results passed on to the sink. In an ordered farm, also the number of the task whose result the sink receives next.
    fed: u64,
    /// Results that wait for the results of earlier tasks, by the number of their first task, with their size in bytes.
    early: BTreeMap<u64, (ResultRun, u64)>,
    early_bytes: u64,
}

impl Resequencer {
    pub(crate) fn new(ordered: bool) -> Self {
        Resequencer { ordered, fed: 0, early: BTreeMap::new(), early_bytes: 0 }
    }

    pub(crate) fn is_due(&self, task: u64) -> bool {
        !self.ordered || task == self.fed
    }

    pub(crate) fn early_bytes(&self) -> u64 {
        self.early_bytes
    }

    pub(crate) fn restart(&mut self) {
        (self.fed, self.early_bytes) = (0, 0);
        self.early.clear();
    }

    /// Accepts results of tasks from number `first` on, with `bytes` bytes in total. Passes all results that no longer wait for an
    /// earlier task to `deliver`.
    ///
    /// # Errors
    /// The error of `deliver`.
    pub(crate) fn put(
        &mut self,
        first: u64,
        (run, bytes): (ResultRun, u64),
        deliver: &mut dyn FnMut(u64, ResultRun, u64) -> Result<()>,
    ) -> Result<()> {
        if !self.is_due(first) {
            self.early.insert(first, (run, bytes));
            self.early_bytes += bytes;
            return Ok(());
        }
        self.fed += run.len();
        deliver(first, run, bytes)?;
        while let Some(entry) = self.early.first_entry().filter(|e| *e.key() == self.fed) {
            let (first, (run, bytes)) = entry.remove_entry();
            self.early_bytes -= bytes;
            self.fed += run.len();
            deliver(first, run, bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};

    #[test]
    fn results_wait_for_earlier_results() {
        let mut order = Resequencer::new(true);
        let mut seen = Vec::new();
        let failed = |task| {
            let (kind, message) = (ErrorKind::User, "no".into());
            ResultRun::Failed(FailedTask { task, name: None, rank: 1, tries: 1, kind, message })
        };
        let mut deliver = |first: u64, run: ResultRun, bytes: u64| {
            seen.push((first, run.len(), bytes));
            if first == 4 { Err(Error::new(ErrorKind::User, "enough")) } else { Ok(()) }
        };
        order.put(3, (ResultRun::Results(Box::new(vec!['d'])), 30), &mut deliver).unwrap();
        order.put(2, (failed(2), 0), &mut deliver).unwrap();
        assert_eq!((order.early.len(), order.early_bytes()), (2, 30));
        order.put(0, (ResultRun::Results(Box::new(vec!['a', 'b'])), 20), &mut deliver).unwrap();
        assert!(order.early.is_empty() && order.early_bytes() == 0 && order.is_due(4) && !order.is_due(5));
        assert!(order.put(4, (ResultRun::Results(Box::new(vec!['e', 'f', 'g'])), 30), &mut deliver).is_err());
        assert_eq!(seen, [(0, 2, 20), (2, 1, 0), (3, 1, 30), (4, 3, 30)]);
    }

    #[test]
    fn unordered_results_are_delivered_immediately() {
        let mut order = Resequencer::new(false);
        let mut seen = Vec::new();
        for first in [4, 0, 2] {
            let run = ResultRun::Results(Box::new(vec![first, first + 1]));
            let deliver = &mut |first, run: ResultRun, _| {
                seen.push((first, run.len()));
                Ok(())
            };
            order.put(first, (run, 16), deliver).unwrap();
        }
        assert_eq!((seen, order.early_bytes()), (vec![(4, 2), (0, 2), (2, 2)], 0));
    }
}
