//! Values in memory: accounting, choice of values to spill, and removal.

use super::{Key, Place, Worker};

impl Worker {
    /// Changes the place of a value, and updates the counts of bytes and of missing inputs.
    pub(super) fn set(&mut self, task: usize, place: Place) {
        let held = &mut self.values[task];
        let before = std::mem::replace(&mut held.place, place);
        if matches!(before, Place::Wanted(_)) {
            self.granted -= std::mem::take(&mut held.granted);
        }
        let (bytes, after) = (held.bytes, &held.place);
        let was = (before.is_available(), before.is_in_memory());
        let is = (after.is_available(), after.is_in_memory());
        match (before.takes_room(), after.takes_room()) {
            (false, true) => self.held += bytes,
            (true, false) => {
                self.held -= bytes;
                self.let_go(task);
            }
            _ => {}
        }
        self.note_taken();
        if self.settings.budget < u64::MAX && was.1 != is.1 {
            match is.1 {
                true => self.in_memory.insert(task),
                false => self.in_memory.remove(&task),
            };
        }
        if was != is && self.values[task].uses > 0 {
            self.recount(task, was, is);
        }
    }

    /// Updates the orders that read a value after its availability or its presence in memory has changed.
    fn recount(&mut self, task: usize, was: (bool, bool), is: (bool, bool)) {
        let graph = self.graph.clone();
        for child in graph.children(task) {
            let Some(key) = self.keys[child] else { continue };
            let Some(order) = self.queue.get_mut(&key) else { continue };
            order.missing = order.missing + usize::from(was.0) - usize::from(is.0);
            order.absent = order.absent + usize::from(was.1) - usize::from(is.1);
            if order.missing == 0 && !was.0 && is.0 {
                self.trace.made(child, task);
            }
            if order.absent == 0 {
                self.trace.gathered(child);
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

    /// Removes one use of a value.
    pub(super) fn unuse(&mut self, task: usize) {
        self.values[task].uses -= 1;
        self.drop_if_unused(task);
    }

    /// Drops a value that no order on this rank reads, unless this rank is its owner.
    pub(super) fn drop_if_unused(&mut self, task: usize) {
        let held = &mut self.values[task];
        if held.uses > 0 || held.is_origin {
            return;
        }
        match held.place {
            Place::Spilling | Place::Loading => {
                held.is_doomed = true;
                return;
            }
            // The value arrives nevertheless, and its memory stays reserved until then.
            Place::Coming(_) => return,
            _ => {}
        }
        if held.is_on_disk {
            self.forgotten.push(task);
        }
        self.values[task].is_on_disk = false;
        self.set(task, Place::Absent);
    }

    /// Returns the number of bytes that are occupied or reserved.
    pub(super) fn taken(&self) -> u64 {
        self.held.saturating_add(self.working).saturating_add(self.leaving_bytes)
    }

    /// Updates the peak of occupied memory. Has to be called whenever more memory is occupied.
    pub(super) fn note_taken(&mut self) {
        self.totals.most_held = self.totals.most_held.max(self.taken());
    }

    /// Returns true if `bytes` bytes fit besides the occupied memory.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.taken().saturating_add(bytes) <= self.settings.budget
    }

    /// Returns true if `bytes` bytes fit once all values have left that are being sent. In this case the rank waits for them and spills
    /// nothing.
    pub(super) fn will_fit(&self, bytes: u64) -> bool {
        (self.taken() - self.leaving_bytes).saturating_add(bytes) <= self.settings.budget
    }

    /// Returns the value in memory that is needed last. Values of size 0, inputs of running tasks and inputs of the task `but` are
    /// excluded, and so are values that are being sent, because they would stay in memory after a spill.
    pub(super) fn victim(&self, but: Option<usize>) -> Option<usize> {
        let spared =
            |task: usize| but.is_some_and(|reader| self.graph.parents(reader).any(|parent| parent == task));
        let candidates = self.in_memory.iter().copied();
        let candidates = candidates.filter(|&task| {
            let held = &self.values[task];
            held.bytes > 0 && held.pins == 0 && !spared(task) && !self.is_leaving(task)
        });
        // A value that no order on this rank reads is kept for other ranks, which request values one by one; it is spilled first. Among
        // equals the largest is spilled.
        candidates.max_by_key(|&task| {
            (self.next_use(task).map_or((true, None), |key| (false, Some(key))), self.values[task].bytes)
        })
    }

    /// Returns the values in memory.
    #[cfg(test)]
    pub(in crate::workflow) fn values_in_memory(
        &self,
    ) -> impl Iterator<Item = &crate::workflow::value::Value> {
        self.values.iter().filter_map(|held| match &held.place {
            Place::Memory(value) => Some(value),
            _ => None,
        })
    }

    /// Returns the first order that reads a value.
    fn next_use(&self, task: usize) -> Option<Key> {
        self.graph.children(task).filter_map(|child| self.keys[child]).min()
    }
}
