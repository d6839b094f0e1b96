//! Values in memory: what is counted, what goes first, what is dropped.

use super::{Key, Place, Worker};

impl Worker {
    /// Puts a value where it now is, and counts.
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

    /// The orders that read a value learn whether it is available and in memory.
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

    /// An order less needs a value.
    pub(super) fn unuse(&mut self, task: usize) {
        self.values[task].uses -= 1;
        self.drop_if_unused(task);
    }

    /// Lets a value go that nobody here needs and that others get elsewhere.
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
            // It comes all the same, and takes its room until it has.
            Place::Coming(_) => return,
            _ => {}
        }
        if held.is_on_disk {
            self.forgotten.push(task);
        }
        self.values[task].is_on_disk = false;
        self.set(task, Place::Absent);
    }

    /// Bytes that are taken, or kept for what comes.
    pub(super) fn taken(&self) -> u64 {
        self.held.saturating_add(self.working).saturating_add(self.leaving_bytes)
    }

    /// To be called when more is taken.
    pub(super) fn note_taken(&mut self) {
        self.totals.most_held = self.totals.most_held.max(self.taken());
    }

    /// Whether `bytes` fit beside what is taken.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.taken().saturating_add(bytes) <= self.settings.budget
    }

    /// Whether they do once all has left that is being sent: then that is waited for, and nothing is written to disk.
    pub(super) fn will_fit(&self, bytes: u64) -> bool {
        (self.taken() - self.leaving_bytes).saturating_add(bytes) <= self.settings.budget
    }

    /// The value in memory that takes room and is needed last, of those that are not being sent, which would stay in memory all the same, and that
    /// neither a running task reads nor `but`.
    pub(super) fn victim(&self, but: Option<usize>) -> Option<usize> {
        let spared =
            |task: usize| but.is_some_and(|reader| self.graph.parents(reader).any(|parent| parent == task));
        let candidates = self.in_memory.iter().copied();
        let candidates = candidates.filter(|&task| {
            let held = &self.values[task];
            held.bytes > 0 && held.pins == 0 && !spared(task) && !self.is_leaving(task)
        });
        // Without any use here it is kept for others, and those are asked for one by one. Of equals the largest goes.
        candidates.max_by_key(|&task| {
            (self.next_use(task).map_or((true, None), |key| (false, Some(key))), self.values[task].bytes)
        })
    }

    /// Values that are held.
    #[cfg(test)]
    pub(in crate::workflow) fn values_in_memory(
        &self,
    ) -> impl Iterator<Item = &crate::workflow::value::Value> {
        self.values.iter().filter_map(|held| match &held.place {
            Place::Memory(value) => Some(value),
            _ => None,
        })
    }

    /// The first order that reads a value.
    fn next_use(&self, task: usize) -> Option<Key> {
        self.graph.children(task).filter_map(|child| self.keys[child]).min()
    }
}
