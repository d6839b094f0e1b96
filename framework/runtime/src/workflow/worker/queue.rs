//! Queue of the tasks that the master has dispatched or announced to a rank and that have not begun.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::trace::Trace;
use super::values::Availability;
use crate::workflow::messages::{Exceeded, Order};

/// Position of a task in a rank's queue. Tasks without a position in the plan come first, sorted by priority and then by arrival; tasks with a
/// position in the plan follow, sorted by it.
pub(super) type Key = (Option<usize>, Reverse<i64>, u64);

/// A task that was dispatched to this rank, or announced (it will be dispatched later), and that has not begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub(super) task: usize,
    /// True if the task was only announced, so that it must not begin yet.
    pub(super) is_announced: bool,
    pub(super) is_suspect: bool,
    pub(super) attempt: u32,
    pub(super) exceeded: Exceeded,
    /// Number of inputs of the task that are not known to exist on any rank.
    missing: usize,
    /// Number of inputs of the task that are not in memory on this rank, including inputs that do not exist on any rank.
    absent: usize,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    orders: BTreeMap<Key, Queued>,
    /// Positions in the queue, by task.
    keys: BTreeMap<usize, Key>,
    /// Queue positions of the dispatched tasks whose inputs are all in memory.
    ready: BTreeSet<Key>,
    /// Queue positions of the dispatched tasks whose inputs all exist on some rank.
    available: BTreeSet<Key>,
    next_number: u64,
}

impl Queue {
    /// Adds a task that was dispatched or announced to this rank. `inputs` are, for each input, whether it exists on some rank and whether it is in
    /// memory on this rank.
    pub(super) fn insert(
        &mut self,
        order: &Order,
        priority: i64,
        inputs: impl Iterator<Item = Availability>,
    ) {
        let &Order { task, attempt, exceeded, place, is_announced, is_suspect, .. } = order;
        let (mut missing, mut absent) = (0, 0);
        for (is_available, is_in_memory) in inputs {
            missing += usize::from(!is_available);
            absent += usize::from(!is_in_memory);
        }
        let key = (place, Reverse(priority), self.next_number);
        self.next_number += 1;
        self.keys.insert(task, key);
        if absent == 0 && !is_announced {
            self.ready.insert(key);
        }
        if missing == 0 && !is_announced {
            self.available.insert(key);
        }
        self.orders
            .insert(key, Queued { task, is_announced, is_suspect, attempt, exceeded, missing, absent });
    }

    pub(super) fn remove(&mut self, task: usize) -> Option<Queued> {
        let key = self.keys.remove(&task)?;
        self.ready.remove(&key);
        self.available.remove(&key);
        self.orders.remove(&key)
    }

    pub(super) fn get(&self, task: usize) -> Option<&Queued> {
        self.orders.get(self.keys.get(&task)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Queued> + Clone {
        self.orders.values()
    }

    /// Updates the queued tasks among `readers` after one of their inputs has changed its availability: whether it exists on some rank, and whether
    /// it is in memory on this rank.
    pub(super) fn input_changed(
        &mut self,
        input: usize,
        readers: impl Iterator<Item = usize>,
        (was, is): (Availability, Availability),
        trace: &mut Trace,
    ) {
        for reader in readers {
            let Some(&key) = self.keys.get(&reader) else { continue };
            let Some(order) = self.orders.get_mut(&key) else { continue };
            order.missing = order.missing + usize::from(was.0) - usize::from(is.0);
            order.absent = order.absent + usize::from(was.1) - usize::from(is.1);
            if order.missing == 0 && !was.0 && is.0 {
                trace.inputs_computed(reader, input);
            }
            if order.absent == 0 {
                trace.gathered(reader);
            }
            if order.is_announced {
                continue;
            }
            match order.missing {
                0 => self.available.insert(key),
                _ => self.available.remove(&key),
            };
            match order.absent {
                0 => self.ready.insert(key),
                _ => self.ready.remove(&key),
            };
        }
    }

    /// Returns the queued tasks that may begin now, because their inputs are all in memory, in the order of the queue. Of the tasks with a position
    /// in the plan, only the first may begin.
    pub(super) fn ready(&self) -> impl Iterator<Item = &Queued> {
        let next = self.next_by_plan().filter(|key| self.ready.contains(key));
        let ready = self.ready.iter().take_while(|key| key.0.is_none()).copied().chain(next);
        ready.filter_map(|key| self.orders.get(&key))
    }

    pub(super) fn count_ready(&self) -> usize {
        self.ready.len()
    }

    /// Returns the first queued task that may begin as soon as its inputs are in memory, if its inputs all exist on some rank.
    pub(super) fn first_available(&self) -> Option<&Queued> {
        let key = self.available.first().copied().filter(|key| key.0.is_none());
        let key = key.or_else(|| self.next_by_plan().filter(|key| self.available.contains(key)))?;
        self.orders.get(&key)
    }

    fn next_by_plan(&self) -> Option<Key> {
        let first = (Some(0), Reverse(i64::MAX), 0);
        let mut planned = self.orders.range(first..);
        planned.find(|(_, order)| !order.is_announced).map(|(key, _)| *key)
    }

    pub(super) fn first_of(&self, tasks: impl Iterator<Item = usize>) -> Option<Key> {
        tasks.filter_map(|task| self.keys.get(&task).copied()).min()
    }
}
